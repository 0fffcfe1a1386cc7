"""Candidate rules for labeling functions: words, phrases, patterns and numeric thresholds.

A pattern is a token that is not a word, or two words with a blank between them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.guidance.blanks import blank_pattern, mined_pairs
from wiesel.guidance.terms import TermIndex
from wiesel.lfs.function import slug
from wiesel.lfs.rules import LabelRule
from wiesel.lfs.table_rules import threshold
from wiesel.lfs.text_rules import keywords, regex

__all__ = ["Candidates", "mined_candidates"]

Build = Callable[[str], LabelRule]

_PATTERNS = (
    r"https?://|www\.",
    r"[\w.]+@[\w.]+\.\w+",
    r"[$£€]\s?\d",
    r"\d{5,}",
    r"\d",
    r"!!+",
    r"\?",
    r"\b[A-Z]{3,}\b.*\b[A-Z]{3,}\b",
    r"(?i)\bi(?:'m| am| was|'ve| have)?\b",
    r"<[a-zA-Z/]",
    r"[\x{1F300}-\x{1FAFF}\x{2600}-\x{27BF}]",
)
"""Tokens that are not words: links, addresses, prices, numbers, capitals, markup, pictures."""
_QUANTILES = (0.02, 0.05, 0.1, 0.25, 0.75, 0.9, 0.95, 0.98)


@dataclass(eq=False)
class Candidates:
    """Rules without a class yet, and the rows that each would vote on."""

    build: list[Build] = field(default_factory=list)
    """Functions that build the rule for a class."""
    words: list[frozenset[str]] = field(default_factory=list)
    """The words each rule looks for, to detect near copies; empty for rules without words."""
    parts: list[Any] = field(default_factory=list)
    """Sparse matrices of rows x rules: 1 where the rule would vote."""
    terms: tuple[str, ...] = ()
    """The words and phrases of the first rules; several of them may form one rule."""
    column: str | None = None
    """The column that contains the terms."""

    def add(self, build: Sequence[Build], words: Sequence[frozenset[str]], rows: Any) -> None:
        """Add rules, with the rows x rules matrix of their matches."""
        self.build += build
        self.words += words
        self.parts.append(rows)

    def rule(self, places: Sequence[int], label: str) -> LabelRule:
        """Return one rule for a class: a single candidate, or a list of terms."""
        if len(places) == 1 or self.column is None:
            return self.build[places[0]](label)
        return keywords(label, [self.terms[place] for place in places], column=self.column)

    @property
    def rows(self) -> Any:
        """(n_rows, n_candidates), CSC, float32."""
        return sp.hstack(self.parts, format="csc", dtype=np.float32)

    def __len__(self) -> int:
        return len(self.build)


def mined_candidates(frame: pl.DataFrame, column: str | None, index: TermIndex) -> Candidates:
    """Return all candidate rules: terms, patterns, word pairs and numeric thresholds."""
    found = Candidates()
    if column is not None:
        _add_terms(found, column, index)
        _add_patterns(found, frame, column)
        _add_blanks(found, frame, column)
    _add_limits(found, frame)
    return found


def _add_terms(found: Candidates, column: str, index: TermIndex) -> None:
    named = [_meaningful(term) for term in index.terms]
    kept = np.flatnonzero(named)
    if not len(kept):
        return
    terms = [index.terms[k] for k in kept]
    found.terms, found.column = tuple(terms), column
    builds = [_keyword_rule(term, column) for term in terms]
    found.add(builds, [frozenset(term.split()) for term in terms], index.matrix[:, kept])


def _meaningful(term: str) -> bool:
    """Whether a term may be a rule: not a number, a single letter, or only "of" or "the"."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words = term.split()
    letters = [word for word in words if any(map(str.isalpha, word))]
    says_something = any(len(word) > 1 and word not in ENGLISH_STOP_WORDS for word in words)
    return len(letters) == len(words) and says_something


def _keyword_rule(term: str, column: str) -> Build:
    return lambda label: keywords(label, [term], column=column)


def _add_patterns(found: Candidates, frame: pl.DataFrame, column: str) -> None:
    masks = frame.select(
        pl.col(column).str.contains(pattern).fill_null(False).alias(str(number))
        for number, pattern in enumerate(_PATTERNS)
    )
    builds = [_pattern_rule(pattern, column) for pattern in _PATTERNS]
    found.add(builds, [frozenset()] * len(builds), _sparse(masks))


def _pattern_rule(pattern: str, column: str) -> Build:
    return lambda label: regex(label, pattern, column=column)


def _add_blanks(found: Candidates, frame: pl.DataFrame, column: str) -> None:
    mined = mined_pairs(frame[column], max(3, len(frame) // 500), _meaningful)
    builds = [_blank_rule(pair, column) for pair in mined.pairs]
    found.add(builds, [frozenset(pair) for pair in mined.pairs], mined.rows)


def _blank_rule(pair: tuple[str, str], column: str) -> Build:
    pattern, words = blank_pattern(*pair), slug(" ".join(pair))
    return lambda label: regex(label, pattern, column=column, name=f"{slug(label)}_{words}")


def _add_limits(found: Candidates, frame: pl.DataFrame) -> None:
    for column in frame.columns:
        values = frame[column]
        if not values.dtype.is_numeric() or values.n_unique() < 2 or column == "id":
            continue
        numbers = values.cast(pl.Float64).to_numpy()
        for share in _QUANTILES:
            limit = float(np.nanquantile(numbers, share))
            above = share > 0.5
            mask = numbers > limit if above else numbers < limit
            rows = sp.csc_matrix(np.nan_to_num(mask.astype(np.float32))[:, None])
            found.add([_limit_rule(column, limit, above)], [frozenset()], rows)


def _limit_rule(column: str, limit: float, above: bool) -> Build:
    option = "above" if above else "below"
    return lambda label: threshold(label, column, **{option: limit})  # type: ignore[arg-type]


def _sparse(masks: pl.DataFrame) -> Any:
    array: npt.NDArray[np.float32] = masks.to_numpy().astype(np.float32)
    return sp.csc_matrix(array)
