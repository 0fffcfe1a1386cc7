"""LabelingFunction: looks at a row and votes for a class, or abstains."""

import copy
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self

from wiesel.errors import ParameterError, VoteError, listed
from wiesel.labels import LabelSpace, is_name
from wiesel.lfs.ballots import ColumnVotes
from wiesel.lfs.batch import Batch

__all__ = ["LabelingFunction", "as_lfs", "check_classes", "slug"]


class LabelingFunction(ABC):
    """Votes for a class on some rows, and abstains on the others.

    Made by the decorator `labeling_function` or by a builder such as `keywords`; calling it with
    one row shows its vote.

    >>> from wiesel import keywords
    >>> lf = keywords("spam", ["free", "prize"], column="text")
    >>> lf.name, lf({"text": "A FREE lunch"}), lf({"text": "freedom"})
    ('spam_free_prize', 'spam', None)
    """

    name: str
    """The name of the voter."""
    automatic_name: bool = False
    """Whether the name was generated, so that it may be changed to be unique."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest that changes when the function may vote differently."""

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The columns it reads; None if it may read any."""
        return None

    @property
    def divisible(self) -> bool:
        """Whether it may vote on pieces of a batch, and in other processes."""
        return False

    @property
    def pass_key(self) -> Hashable:
        """Functions with equal keys are run together, in one pass over the rows."""
        return type(self)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes it can vote for; None if unknown in advance."""
        return None

    @classmethod
    @abstractmethod
    def run_together(
        cls, lfs: Sequence[Self], batch: Batch, labels: LabelSpace
    ) -> list[ColumnVotes]:
        """Return the votes of several functions of this class on a batch of rows."""

    @abstractmethod
    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the vote on one row, None for abstain."""

    def renamed(self, name: str) -> Self:
        """Return the same labeling function under another name."""
        other = copy.copy(self)
        object.__setattr__(other, "name", name)
        object.__setattr__(other, "automatic_name", False)
        return other


def as_lfs(lfs: LabelingFunction | Iterable[Any]) -> list[LabelingFunction]:
    """Return labeling functions as a flat list with unique names.

    Repeated generated names get a number; repeated names given by the user are refused.
    """
    flat = list(_flattened(lfs))
    if not flat:
        raise ParameterError(
            "There are no labeling functions: the list is empty. Write one, such as "
            "keywords('spam', ['prize'], column='text'); suggest_lfs, or wiesel suggest PROJECT, "
            "proposes some."
        )
    broken = [lf.name for lf in flat if not is_name(lf.name)]
    if broken:
        raise ParameterError(f"The name of a labeling function is a text; got {broken[0]!r:.60}.")
    given = Counter(lf.name for lf in flat if not lf.automatic_name)
    repeated = sorted(name for name, count in given.items() if count > 1)
    if repeated:
        raise ParameterError(
            f"Labeling functions need unique names; {listed(repeated)} appear more than once. "
            "Pass name=... to one of them."
        )
    return _numbered(flat, set(given))


def _flattened(lfs: LabelingFunction | Iterable[Any]) -> Iterable[LabelingFunction]:
    if isinstance(lfs, LabelingFunction):
        yield lfs
    elif isinstance(lfs, Iterable) and not isinstance(lfs, (str, Mapping)):
        for lf in lfs:
            yield from _flattened(lf)
    else:
        hint = " Put @labeling_function above its definition." if callable(lfs) else ""
        hint = applied_elsewhere(lfs) or hint
        raise ParameterError(f"Expected a labeling function; got {lfs!r:.80}.{hint}")


def applied_elsewhere(value: object) -> str:
    """Return a hint for functions of another kind: multi-label or span functions."""
    by = getattr(value, "applied_by", None)
    return f" It is for {by}." if isinstance(by, str) else ""


def _numbered(lfs: list[LabelingFunction], taken: set[str]) -> list[LabelingFunction]:
    unique = []
    for lf in lfs:
        name, number = lf.name, 2
        while lf.automatic_name and name in taken:
            name, number = f"{lf.name}_{number}", number + 1
        taken.add(name)
        unique.append(lf if name == lf.name else lf.renamed(name))
    return unique


def check_classes(lfs: Sequence[LabelingFunction], labels: LabelSpace) -> None:
    """Refuse labeling functions that vote for an unknown class."""
    for lf in lfs:
        for name in lf.classes or ():
            if name not in labels:
                raise VoteError(
                    f"{lf.name!r} votes for {name!r}; it must be one of {listed(labels)}."
                )


def slug(text: str, width: int = 24) -> str:
    """Return words as part of a name.

    >>> slug("Won a prize!")
    'won_a_prize'
    """
    return re.sub(r"\W+", "_", text.casefold()).strip("_")[:width].rstrip("_")
