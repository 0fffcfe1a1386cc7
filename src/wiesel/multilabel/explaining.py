"""Why one item got its labels: the votes on each label, and their effects."""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wiesel.end_to_end.explaining import VoteEffects, check_one_item, explain_item
from wiesel.explain import Explanation
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.multilabel.training import MultiLabelModel

__all__ = ["MultiLabelExplanation", "check_one", "explain_labels"]


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


def check_one(votes: MultiLabelVotes, model: "MultiLabelModel") -> None:
    """Refuse votes of other voters, or on several items."""
    votes.check_same_voters(model.voters_, model.labels_)
    check_one_item(votes.matrices[0])


def explain_labels(
    model: "MultiLabelModel",
    one: Any,
    votes: MultiLabelVotes,
    effects: Mapping[str, tuple[VoteMatrix, VoteEffects]],
) -> MultiLabelExplanation:
    """Return the explanation of one item; `effects` are the votes on each label with effects."""
    by_label = {
        label: explain_item(model.one(label), one, own, done)  # type: ignore[arg-type]
        for label, (own, done) in effects.items()
    }
    return MultiLabelExplanation(votes.ids[0], model.predict(one)[0], by_label)


def _indented(lines: str) -> str:
    return "\n".join(f"  {line}" for line in lines.splitlines())
