"""Why one item got its label."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from wiesel.labels import LabelSpace

__all__ = ["Explanation", "MemberView", "Push", "certainty", "predicted_class"]


def predicted_class(proba: Sequence[float], threshold: float | None) -> int:
    """Return the class of `predict`: the most probable one, or the second from `threshold` on.

    >>> predicted_class((0.6, 0.4), None), predicted_class((0.6, 0.4), 0.3)
    (0, 1)
    """
    if threshold is not None:
        return int(proba[1] >= threshold)
    return max(range(len(proba)), key=proba.__getitem__)


def certainty(proba: Sequence[float], predicted: int, threshold: float | None) -> str:
    """Return the probability of the predicted class, with its threshold if it is not the largest.

    >>> certainty((0.6, 0.4), 1, 0.3), certainty((0.1, 0.9), 1, 0.3)
    ('40 % (its threshold is 30 %)', '90 %')
    """
    sure = f"{100 * proba[predicted]:.0f} %"
    if threshold is None or predicted == predicted_class(proba, None):
        return sure
    needed = threshold if predicted else 1 - threshold
    return f"{sure} (its threshold is {100 * needed:.0f} %)"


@dataclass(frozen=True)
class Push:
    """One voter's vote on an item, and how much it counted.

    >>> Push("link", "spam", weight=1.1, effect=-1.1).voter
    'link'
    """

    voter: str
    vote: str
    """The class it voted for (the most probable one, if the vote is a distribution)."""
    weight: float
    """The accuracy that the model gave it for this item."""
    effect: float
    """What it adds to the log-odds of the explained class against the others."""


@dataclass(frozen=True)
class MemberView:
    """One member's soft label for an item, and the member's weight.

    >>> MemberView("majority_vote", 0.5, (0.25, 0.75)).name
    'majority_vote'
    """

    name: str
    weight: float
    soft_label: tuple[float, ...]


@dataclass(frozen=True)
class Explanation:
    """Which voter pushed an item which way, and the result.

    >>> labels = LabelSpace("ham", "spam")
    >>> print(Explanation(17, labels, (0.1, 0.9), (0.25, 0.75), (Push("link", "spam", 1.1, 1.1),),
    ...     n_abstaining=2, abstaining_share=0.4))
    Item 17 is 'spam': end model 90 %, soft label 75 %.
      voter  vote  weight  effect on 'spam'
      link   spam    1.10  +1.10 ++++++++++
    2 voters abstained; they hold 40 % of the weight.
    """

    item: object
    labels: LabelSpace
    end_proba: tuple[float, ...]
    """The end model's probability of every class."""
    soft_label: tuple[float, ...]
    """The soft label of the weighted votes: a probability of every class."""
    pushes: tuple[Push, ...]
    """The voters that voted, strongest effect first."""
    n_abstaining: int
    abstaining_share: float
    threshold: float | None = None
    """For two classes: the second is predicted from this probability on; None: the larger one."""
    members: tuple[MemberView, ...] = ()
    """The soft label of each member of a committee."""

    @property
    def label(self) -> str:
        """The predicted class."""
        return self.labels.names[predicted_class(self.end_proba, self.threshold)]

    def __str__(self) -> str:
        return "\n".join([self._headline(), *self._lines(), self._footer(), *self._member_views()])

    def _headline(self) -> str:
        index = self.labels.index(self.label)
        sure = certainty(self.end_proba, index, self.threshold)
        return (
            f"Item {self.item} is {self.label!r}: end model {sure}, "
            f"soft label {100 * self.soft_label[index]:.0f} %."
        )

    def _lines(self) -> list[str]:
        if not self.pushes:
            return ["  No voter voted: the soft label is the class prior."]
        name = max(len("voter"), *(len(push.voter) for push in self.pushes))
        vote = max(len("vote"), *(len(push.vote) for push in self.pushes))
        strongest = max(abs(push.effect) for push in self.pushes) or 1.0
        lines = [f"  {'voter':<{name}}  {'vote':<{vote}}  weight  effect on {self.label!r}"]
        for push in self.pushes:
            bar = ("+" if push.effect > 0 else "-") * round(10 * abs(push.effect) / strongest)
            lines.append(
                f"  {push.voter:<{name}}  {push.vote:<{vote}}  {push.weight:6.2f}  "
                f"{push.effect:+.2f} {bar}".rstrip()
            )
        return lines

    def _footer(self) -> str:
        who, held = ("voter", "it holds") if self.n_abstaining == 1 else ("voters", "they hold")
        share = f"{100 * self.abstaining_share:.0f} %"
        return f"{self.n_abstaining} {who} abstained; {held} {share} of the weight."

    def _member_views(self) -> list[str]:
        """A line with the soft label and the weight of every member."""
        if not self.members:
            return []
        index = self.labels.index(self.label)
        views = [
            f"{view.name} {100 * view.soft_label[index]:.0f} % (weight {100 * view.weight:.0f} %)"
            for view in self.members
        ]
        return [f"Soft labels of the members for {self.label!r}: {', '.join(views)}."]

    def to_html(self) -> str:
        """Return the explanation as an HTML fragment."""
        rows = "".join(
            f"<tr><td>{html.escape(push.voter)}</td><td>{html.escape(push.vote)}</td>"
            f"<td>{push.weight:.2f}</td><td>{push.effect:+.2f}</td></tr>"
            for push in self.pushes
        )
        head = "<tr><th>voter</th><th>vote</th><th>weight</th><th>effect on {}</th></tr>"
        table = f"<table>{head.format(html.escape(repr(self.label)))}{rows}</table>"
        body = table if self.pushes else f"<p>{html.escape(self._lines()[0].strip())}</p>"
        return (
            f'<div class="wiesel-explanation"><p>{html.escape(self._headline())}</p>{body}'
            f"<p>{html.escape(' '.join([self._footer(), *self._member_views()]))}</p></div>"
        )

    def _repr_html_(self) -> str:
        return self.to_html()
