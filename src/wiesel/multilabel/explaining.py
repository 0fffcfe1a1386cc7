"""Why one item got its labels: who voted on each, and what came of it."""

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
    """What was predicted for one item, and for each label which voter pushed it which way."""

    item: object
    labels: tuple[str, ...]
    """The labels that are predicted."""
    by_label: dict[str, Explanation]
    """The explanation of every label, as of a binary task."""

    def __str__(self) -> str:
        found = ", ".join(map(repr, self.labels)) or "none of the labels"
        parts = [f"Item {self.item} has {found}."]
        shown = {
            label: own for label, own in self.by_label.items() if label in self.labels or own.pushes
        }
        parts += [_indented(str(own)) for own in shown.values()]
        silent = [
            f"{label} {100 * own.end_proba[1]:.0f} %"
            for label, own in self.by_label.items()
            if label not in shown
        ]
        if silent:
            parts.append(f"Nobody voted on: {', '.join(silent)}.")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return "".join(own._repr_html_() for own in self.by_label.values())


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
    """Return the explanation of one item; `effects`: the votes on each label, what they did."""
    by_label = {
        label: explain_item(model.one(label), one, own, done)  # type: ignore[arg-type]
        for label, (own, done) in effects.items()
    }
    return MultiLabelExplanation(votes.ids[0], model.predict(one)[0], by_label)


def _indented(lines: str) -> str:
    return "\n".join(f"  {line}" for line in lines.splitlines())
