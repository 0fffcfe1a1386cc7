"""Known relations of two voters: one fixes, has priority over, or reinforces the other.

A statistic is a kind and two voters, as plain data: `Fixes("a", "b")` is ("fixes", "a", "b"), which
files can store. `WeaSEL` and `DataProgramming` read the same statistics.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from wiesel.errors import ParameterError, suggest

__all__ = [
    "STATISTICS",
    "Fixes",
    "PairStatistic",
    "Prioritizes",
    "Reinforces",
    "place_statistics",
    "voter_positions",
]

STATISTICS = ("fixes", "prioritizes", "reinforces")


class PairStatistic(NamedTuple):
    """A kind and two voters."""

    kind: str
    first: str
    second: str


class _Named(PairStatistic):
    """A statistic of a fixed kind, constructed from the two voters."""

    def __new__(cls, first: str, second: str) -> Self:
        return super().__new__(cls, cls.__name__.lower(), first, second)

    def __getnewargs__(self) -> tuple[str, str]:
        return self.first, self.second

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.first!r}, {self.second!r})"


class Fixes(_Named):
    """If both vote and differ, the first corrects the second.

    In `WeaSEL` it adds a column with +1 for the first one's class and -1 for the second one's; in
    `DataProgramming` it is the factor `fixing` of Ratner et al. 2016: 1 if the first is right and
    the second wrong, -1 if only the first votes.

    >>> Fixes("careful", "hasty")
    Fixes('careful', 'hasty')
    """


class Prioritizes(_Named):
    """If both vote, the first has priority over the second.

    In `WeaSEL` it adds a column that is the first one's vote where the second votes too; in
    `DataProgramming` a factor that is, where both vote, 1 if only the first is right and -1 if only
    the second is.

    >>> tuple(Prioritizes("careful", "hasty"))
    ('prioritizes', 'careful', 'hasty')
    """


class Reinforces(_Named):
    """If both vote for the same class, they count more than two voters.

    In `WeaSEL` it adds a column with 1 for that class; in `DataProgramming` it is the factor
    `reinforcing` of Ratner et al. 2016: 1 if both are right, -1 if only the first votes.

    >>> Reinforces("a", "b") == ("reinforces", "a", "b")
    True
    """


def place_statistics(
    statistics: Sequence[Any], voters: Sequence[str]
) -> tuple[tuple[str, int, int], ...]:
    """Return the statistics with voter positions instead of names; raise an error if invalid.

    >>> place_statistics([Fixes("b", "a")], ("a", "b"))
    (('fixes', 1, 0),)
    """
    if isinstance(statistics, PairStatistic) or not isinstance(statistics, (tuple, list)):
        raise ParameterError(
            f"statistics is a list, such as [Fixes('a', 'b')]; got {statistics!r:.60} by itself.",
            option="statistics",
        )
    placed = []
    for given in statistics:
        if not isinstance(given, (tuple, list)) or len(given) != 3 or given[0] not in STATISTICS:
            raise ParameterError(
                "A statistic is Fixes('a', 'b'), Prioritizes('a', 'b') or Reinforces('a', 'b'), or "
                f"the same as ('fixes', 'a', 'b'); got {given!r:.60}.",
                option="statistics",
            )
        placed.append((given[0], *voter_positions("statistic", given, voters)))
    return tuple(placed)


def voter_positions(what: str, given: Sequence[Any], voters: Sequence[str]) -> tuple[int, int]:
    """Return the positions of two voters, the last two entries of `given`.

    >>> voter_positions("dependency", ("similar", "b", "a"), ("a", "b"))
    (1, 0)
    """
    first, second = given[-2:]
    option = {"statistic": "statistics", "dependency": "dependencies"}[what]
    for name in (first, second):
        if name not in voters:
            raise ParameterError(
                f"The {what} {given!r} names {name!r}, which is not a voter. "
                f"{suggest(name, voters)}",
                option=option,
            )
    if first == second:
        raise ParameterError(f"The {what} {given!r} names one voter twice.", option=option)
    return voters.index(first), voters.index(second)
