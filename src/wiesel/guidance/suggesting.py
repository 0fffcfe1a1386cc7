"""Labeling functions to add: mined from the rows, or for words that a person marks."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.summary import gold_indices
from wiesel.analysis.table import UNKNOWN, Column, Table, percent, text
from wiesel.errors import Argument, DataError, ParameterError
from wiesel.guidance.beliefs import row_beliefs
from wiesel.guidance.choosing import (
    Candidates,
    ChosenRule,
    chosen_rules,
    honest_rules,
    mined_candidates,
    pair_of,
)
from wiesel.guidance.end_preview import features_of
from wiesel.guidance.terms import TermIndex
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.lfs.function import LabelRule
from wiesel.lfs.text_rules import keywords, regex
from wiesel.parameters import check_number
from wiesel.tables import as_frame, in_order_of, index_ids, require_columns
from wiesel.votes import VoteMatrix, require_votes

__all__ = [
    "Suggestion",
    "Suggestions",
    "lfs_from_selection",
    "no_votes",
    "suggest_lfs",
    "text_column_of",
]

_MOST_ROWS = 30_000
"""Rules are mined from a sample of this many rows."""
_LONGEST = 200
_MOST_WORDS = 12
_WORD = re.compile(r"\w[\w'\u2019]*|[^\w\s]+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Suggestion:
    """A suggested labeling function and the evidence for it."""

    lf: LabelRule
    precision: float
    """How often it would be right, from the estimated classes of its rows and from gold."""
    coverage: float
    """The share of the rows it would vote on."""
    support: int
    """The number of those rows that have gold."""
    correct: int
    """The number of rows with gold that it gets right."""
    score: float
    """The score that determines the order."""

    def to_dict(self) -> dict[str, Any]:
        """Return the rule and its figures as plain data."""
        figures = {name: getattr(self, name) for name in ("precision", "coverage", "support")}
        return {"lf": self.lf.to_dict(), "name": self.lf.name, "label": self.lf.label, **figures}


@dataclass(frozen=True, eq=False)
class Suggestions:
    """The results of `suggest_lfs`, the most useful first; `lfs` has only the rules."""

    found: tuple[Suggestion, ...]

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, place: int) -> Suggestion:
        return self.found[place]

    @property
    def lfs(self) -> list[LabelRule]:
        """The labeling functions, in order."""
        return [each.lf for each in self.found]

    @property
    def table(self) -> Table:
        """The suggestions as a table."""
        frame = pl.DataFrame(
            {
                "name": [each.lf.name for each in self.found],
                "label": [each.lf.label for each in self.found],
                "rule": [rule_words(each.lf) for each in self.found],
                "coverage": [each.coverage for each in self.found],
                "precision": [each.precision for each in self.found],
                "support": [each.support for each in self.found],
                "correct": [each.correct for each in self.found],
            },
            schema_overrides={"name": pl.String, "label": pl.String, "rule": pl.String},
        )
        columns = (text("name"), text("label", "votes for"), text("rule"), percent("coverage"))
        more = (percent("precision", "estimated precision"), _gold_column())
        return Table(frame, (*columns, *more), f"{len(frame)} suggested labeling functions")

    @property
    def frame(self) -> pl.DataFrame:
        """The suggestions as a Polars data frame."""
        return self.table.frame

    def to_records(self) -> list[dict[str, Any]]:
        """Return a dict per suggestion."""
        return self.table.to_records()

    def to_pandas(self) -> Any:
        """Return the suggestions as a pandas data frame."""
        return self.table.to_pandas()

    def to_text(self) -> str:
        """Return the suggestions as a table of text."""
        return self.table.to_text()

    def to_html(self) -> str:
        """Return the suggestions as a table of HTML."""
        return self.table.to_html()

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()


def suggest_lfs(
    rows: Any,
    votes: VoteMatrix | None = None,
    *,
    labels: LabelSpace | Sequence[str] | None = None,
    gold: Any = None,
    features: Any = None,
    column: str | None = None,
    n: int = 30,
) -> Suggestions:
    """Return suggested labeling functions, the most useful first.

    Words, phrases, patterns and numeric thresholds are mined from the rows. Words and, if given,
    `features` extend the evidence of the current `votes` and a few `gold` labels (names or indices,
    None if unknown) to all rows. A rule is scored by how certain this makes its votes, by how many
    rows it covers that earlier rules do not, and by gold. With features, a rule for a word lists up
    to four other words from similar rows. Without votes, `labels` names the classes, and gold must
    have a row of each. `column` is the column of text: by default `text`, else the one with the
    longest texts.

    >>> rows = {"text": ["free cash now", "win free cash", "lunch at noon", "lunch with you"] * 3}
    >>> gold = ["spam", None, "ham", None] * 3
    >>> found = suggest_lfs(rows, labels=["ham", "spam"], gold=gold, n=2)
    >>> sorted(suggestion.lf.label for suggestion in found)
    ['ham', 'spam']
    """
    if votes is not None:
        require_votes(votes)
    check_number(Suggestions, "n", n, low=1, whole=True)
    if votes is None:
        votes = no_votes(rows, labels)
    frame = as_frame(in_order_of(votes, rows, "rows", drop_ids=True))
    if len(frame) != votes.n_items:
        raise DataError(f"There are {len(frame):,} rows but votes on {votes.n_items:,} items.")
    known = gold_indices(votes, gold)
    sample = _sample(known, votes)
    X = None
    if features is not None:
        X = features_of(features, votes, "features", sample)
    frame, votes, known = frame[sample], votes[sample], known[sample]
    place = text_column_of(frame, column)
    index = TermIndex.empty(len(frame))
    if place is not None:
        index = TermIndex.of(frame[place].fill_null("").to_list())
    candidates = mined_candidates(frame, place, index)

    def rules(gold: npt.NDArray[np.int64]) -> list[ChosenRule]:
        beliefs = row_beliefs(index, votes, gold, X)
        return list(chosen_rules(candidates, beliefs, gold, votes, X, n)) if candidates else []

    chosen = honest_rules(rules(known), rules, known, votes.n_classes)
    return Suggestions(tuple(_suggestion(each, candidates, votes) for each in chosen))


def text_column_of(frame: pl.DataFrame, column: str | None = None) -> str | None:
    """Return the column of text: the named column, `text`, or the column with the most text.

    >>> text_column_of(pl.DataFrame({"id": ["a"], "mail": ["A long letter"]}))
    'mail'
    """
    if column is not None:
        require_columns(frame, [column], "the text to look for words in")
        return column
    texts = [name for name in frame.columns if frame[name].dtype == pl.String and name != "id"]
    if "text" in texts or not texts:
        return "text" if texts else None
    return max(texts, key=lambda name: frame[name].str.len_chars().mean() or 0)


def rule_words(lf: LabelRule) -> str:
    """Return a short description of what a rule looks for.

    >>> from wiesel import keywords, threshold
    >>> rule_words(keywords("spam", ["free", "prize"], column="text"))
    'free, prize'
    >>> rule_words(threshold("spam", "n_links", above=3))
    'n_links above 3'
    """
    data = lf.to_dict()
    if "keywords" in data:
        return ", ".join(data["keywords"])
    if "pattern" in data:
        pair = pair_of(data["pattern"])
        return " … ".join(pair) if pair else str(data["pattern"])
    limits = [f"{side} {data[side]:g}" for side in ("above", "below") if side in data]
    if limits:
        return f"{data['column']} {' and '.join(limits)}"
    return ", ".join(f"{k} {v}" for k, v in data.items() if k not in ("kind", "label", "name"))


def no_votes(rows: Any, labels: LabelSpace | Sequence[str] | None) -> VoteMatrix:
    """Return votes of nobody on the rows."""
    if labels is None:
        classes = Argument("labels", ["ham", "spam"])
        raise ParameterError("Without votes, say what the classes are: ", classes, ".")
    empty = as_indices(np.full((len(as_frame(rows)), 1), ABSTAIN))
    return VoteMatrix.from_dense(empty, LabelSpace.of(labels), ["nobody"], index_ids(rows))


def _sample(known: npt.NDArray[np.int64], votes: VoteMatrix) -> npt.NDArray[np.int64]:
    """Return all rows, or a fixed sample that includes every row with gold."""
    if votes.n_items <= _MOST_ROWS:
        return np.arange(votes.n_items)
    drawn = np.random.default_rng(0).choice(votes.n_items, _MOST_ROWS, replace=False)
    return np.union1d(drawn, np.flatnonzero(known != ABSTAIN))


def _suggestion(chosen: ChosenRule, candidates: Candidates, votes: VoteMatrix) -> Suggestion:
    return Suggestion(
        candidates.rule(chosen.places, votes.labels.names[chosen.label]),
        chosen.precision,
        len(chosen.rows) / votes.n_items,
        chosen.support,
        chosen.correct,
        chosen.score,
    )


def _gold_column() -> Column:
    def cell(row: Any) -> str:
        return f"{row['correct']} of {row['support']}" if row["support"] else UNKNOWN

    return Column("right on gold", cell)


def lfs_from_selection(selected: str, label: str, *, column: str) -> list[LabelRule]:
    r"""Return labeling functions for marked words: the exact phrase, single words, and blanks.

    The first rule is the word or phrase itself. Further rules replace a number with any number, or
    the inner words of a phrase with any words. Each long word of a phrase is also a separate rule.

    >>> for lf in lfs_from_selection("won 500 pounds", "spam", column="text"):
    ...     print(lf)
    keywords(label='spam', keywords=['won 500 pounds'], column='text')
    regex(label='spam', pattern='(?i)\\bwon\\s+\\d+\\s+pounds\\b', column='text')
    regex(label='spam', pattern='(?i)\\bwon\\s+(\\S+\\s+){0,2}pounds\\b', column='text')
    keywords(label='spam', keywords=['won'], column='text')
    keywords(label='spam', keywords=['pounds'], column='text')
    """
    phrase = " ".join(selected.split())
    words = _WORD.findall(phrase)
    if not words or len(phrase) > _LONGEST or len(words) > _MOST_WORDS:
        raise ParameterError(
            f"Mark one to {_MOST_WORDS} words, up to {_LONGEST} characters; got {phrase[:60]!r}."
        )
    found: list[LabelRule] = [keywords(label, [phrase], column=column)]
    if _NUMBER.search(phrase):
        found.append(regex(label, _any_number(phrase), column=column))
    ends = phrase.split()
    if len(ends) > 2:
        found.append(regex(label, _with_blank(ends), column=column))
    singles = [word for word in words if len(word) > 2 and re.fullmatch(r"[^\W\d]+", word)]
    if len(words) > 1:
        found += [keywords(label, [word], column=column) for word in dict.fromkeys(singles)]
    return list({repr(lf): lf for lf in found}.values())


def _any_number(phrase: str) -> str:
    parts = [
        r"\d+" if part.isdigit() else pl.escape_regex(part)
        for part in re.split(r"(\d+|\s+)", phrase)
        if part and not part.isspace()
    ]
    spaced = re.split(r"\s+", phrase)
    if len(spaced) > 1:
        parts = ["".join(_number_or_text(word)) for word in spaced]
        return rf"(?i){_edge(phrase[0])}" + r"\s+".join(parts) + _edge(phrase[-1])
    return rf"(?i){_edge(phrase[0])}" + "".join(parts) + _edge(phrase[-1])


def _number_or_text(word: str) -> list[str]:
    pieces = [piece for piece in re.split(r"(\d+)", word) if piece]
    return [r"\d+" if piece.isdigit() else pl.escape_regex(piece) for piece in pieces]


def _with_blank(words: list[str]) -> str:
    first, last = pl.escape_regex(words[0]), pl.escape_regex(words[-1])
    gap = max(2, len(words) - 2)
    begin, end = _edge(words[0][0]), _edge(words[-1][-1])
    return rf"(?i){begin}{first}\s+(\S+\s+){{0,{gap}}}{last}{end}"


def _edge(character: str) -> str:
    return r"\b" if re.match(r"\w", character) else ""
