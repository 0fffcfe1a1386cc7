"""Why one item got its labels: the votes on each label, and their effects."""

import html
from dataclasses import dataclass

from wiesel.explain import Explanation

__all__ = ["MultiLabelExplanation"]


@dataclass(frozen=True)
class MultiLabelExplanation:
    """The prediction for one item, and for each label which voter pushed it which way."""

    item: object
    labels: tuple[str, ...]
    """The labels that are predicted."""
    by_label: dict[str, Explanation]
    """The explanation of every label as a binary task."""

    def __str__(self) -> str:
        parts = [self._headline(), *(_indented(str(own)) for own in self._shown().values())]
        return "\n".join([*parts, *self._unvoted()])

    def to_html(self) -> str:
        """Return the explanation as an HTML fragment."""
        parts = [own.to_html() for own in self._shown().values()]
        unvoted = [f"<p>{html.escape(line)}</p>" for line in self._unvoted()]
        head = f"<p><strong>{html.escape(self._headline())}</strong></p>"
        return "".join([head, *parts, *unvoted])

    def _repr_html_(self) -> str:
        return self.to_html()

    def _headline(self) -> str:
        found = ", ".join(map(repr, self.labels)) or "none of the labels"
        return f"Item {self.item} has {found}."

    def _shown(self) -> dict[str, Explanation]:
        """The labels that are predicted or voted on."""
        return {k: own for k, own in self.by_label.items() if k in self.labels or own.pushes}

    def _unvoted(self) -> list[str]:
        silent = [
            f"{label} {100 * own.end_proba[1]:.0f} %"
            for label, own in self.by_label.items()
            if label not in self._shown()
        ]
        return [f"Nobody voted on: {', '.join(silent)}."] if silent else []


def _indented(lines: str) -> str:
    return "\n".join(f"  {line}" for line in lines.splitlines())
