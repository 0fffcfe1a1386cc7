"""Mines patterns with blanks, and chooses which mined rules to suggest, and their order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.errors import DataError
from wiesel.guidance.beliefs import draw_weights
from wiesel.guidance.terms import TermIndex, distinct_cells
from wiesel.labels import ABSTAIN
from wiesel.lfs.function import LabelRule, slug
from wiesel.lfs.table_rules import threshold
from wiesel.lfs.text_rules import keywords, regex
from wiesel.votes import VoteMatrix

__all__ = [
    "BlankPairs",
    "Candidates",
    "ChosenRule",
    "blank_pattern",
    "chosen_rules",
    "honest_rules",
    "mined_candidates",
    "mined_pairs",
    "pair_of",
]

Floats = npt.NDArray[np.float64]
Gold = npt.NDArray[np.int64]

_LEAST_ROWS, _LEAST_SHARE, _MOST_SHARE = 3, 0.002, 0.4
"""Limits on a rule's coverage: too few rows are no evidence, too many make no rule."""
_MOST_SHARED = 0.7
"""The largest useful overlap with the rows of a rule for the same class."""
_REACH = 0.15
"""Exponent of a rule's coverage: precision matters more than many rows."""
_SPREADS = 2.0
"""How many standard deviations over the draws are subtracted from a precision."""
_DOUBT = 4.0
"""Pseudo-count of rows that shrinks a precision toward the class balance."""
_GOLD_PRIOR = 8.0
"""How many gold rows the estimate from beliefs is worth."""
_TERMS = 5
"""The maximum number of words and phrases in one rule."""
_ENOUGH = 30
"""The minimum number of rules from terms; with few terms, each rule has fewer of them."""
_WORTH = 0.5
"""The minimum value of an added word, as a share of the first word's value."""


_FOLDS = 5
_MANY_GOLD = 2000
"""With more gold rows, counts of right votes need no correction."""
_LIFT = 1.5
"""A rule must be this many times as precise as its class is common."""
_USUAL = 0.8
"""How much of the distance of a precision from the class's share, in log-odds, usually remains on
rows that were not used: chosen on the sets of `experiments/results/suggested_precision.md`."""
_DOUBTED = 20.0
"""How surely it does: the inverse variance of its prior."""
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
_LETTERS = r"\w+"
_GAPS = (1, 2, 3)
"""The number of words in between; adjacent words form a phrase, which is mined separately."""
_BLANK = rf"\W+(?:{_LETTERS}\W+){{{_GAPS[0]},{_GAPS[-1]}}}"
_MOST_FREQUENT, _MOST_PAIRS = 2_000, 2_000
"""Only the most frequent words and pairs are considered; rare ones make no useful rule."""

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BlankPairs:
    """Word pairs, and the texts in which one to three words separate the first from the second."""

    pairs: tuple[tuple[str, str], ...]
    rows: Any
    """(n_texts, n_pairs), CSC, float32."""


def blank_pattern(first: str, last: str) -> str:
    r"""Return the regular expression for two words with one to three others between them.

    >>> blank_pattern("check", "channel")
    '(?i)\\bcheck\\W+(?:\\w+\\W+){1,3}channel\\b'
    """
    begin, end = pl.escape_regex(first), pl.escape_regex(last)
    return rf"(?i)\b{begin}{_BLANK}{end}\b"


def pair_of(pattern: str) -> tuple[str, str] | None:
    """Return the two words of a `blank_pattern`; None for any other expression.

    >>> pair_of(blank_pattern("check", "channel")), pair_of("!!+")
    (('check', 'channel'), None)
    """
    begin, _, end = pattern.removeprefix(r"(?i)\b").removesuffix(r"\b").partition(_BLANK)
    words = (begin, end)
    return words if pattern == blank_pattern(*words) else None


def mined_pairs(texts: pl.Series, least: int, usable: Callable[[str], bool]) -> BlankPairs:
    """Return pairs of `usable` words that occur in at least `least` texts.

    >>> texts = pl.Series(["check out my channel", "check this channel", "my channel"])
    >>> mined_pairs(texts, 2, lambda word: len(word) > 2).pairs
    (('check', 'channel'),)
    """
    words = texts.fill_null("").str.to_lowercase().str.extract_all(_LETTERS)
    lengths = words.list.len().to_numpy()
    text = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    flat = words.filter(pl.Series(lengths > 0)).explode().alias("word")
    names, codes = _frequent(flat, least, usable)
    if len(names) < 2:
        return BlankPairs((), sp.csc_matrix((len(texts), 0), dtype=np.float32))
    found = [_following(codes, text, gap, len(names)) for gap in _GAPS]
    every, place = (np.concatenate(part) for part in zip(*found, strict=True))
    pair, where = distinct_cells(every, place, len(texts))
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    counts = np.diff(starts, append=len(pair))
    most = np.argsort(-counts, kind="stable")[:_MOST_PAIRS]
    kept = np.zeros(len(starts), dtype=bool)
    kept[most[counts[most] >= least]] = True
    column = np.repeat(np.arange(kept.sum()), counts[kept])
    cells = (np.ones(len(column), np.float32), (where[np.repeat(kept, counts)], column))
    first, last = np.divmod(pair[starts[kept]], len(names))
    return BlankPairs(
        tuple((names[a], names[b]) for a, b in zip(first, last, strict=True)),
        sp.csc_matrix(cells, shape=(len(texts), int(kept.sum()))),
    )


def _frequent(
    flat: pl.Series, least: int, usable: Callable[[str], bool]
) -> tuple[list[str], Codes]:
    """Return the frequent usable words, and the index (or -1) of every word in the texts."""
    counts = flat.value_counts(name="count").filter(pl.col("count") >= least)
    ordered = counts.sort(["count", "word"], descending=[True, False])["word"].to_list()
    names = [word for word in ordered if usable(word)][:_MOST_FREQUENT]
    numbered = pl.DataFrame({"word": names}, schema={"word": pl.String}).with_row_index("code")
    codes = flat.to_frame().join(numbered, on="word", how="left", maintain_order="left")["code"]
    return names, codes.cast(pl.Int64).fill_null(-1).to_numpy()


def _following(codes: Codes, text: Codes, gap: int, n_words: int) -> tuple[Codes, Codes]:
    """Return all pairs at a distance: both words encoded as one number, and the text."""
    first, last = codes[: -gap - 1], codes[gap + 1 :]
    fits = (first >= 0) & (last >= 0) & (first != last) & (text[: -gap - 1] == text[gap + 1 :])
    at = np.flatnonzero(fits)
    return first[at] * n_words + last[at], text[at]


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


@dataclass(frozen=True, eq=False)
class ChosenRule:
    """Candidates that form one rule for a class, and the estimates for it."""

    places: tuple[int, ...]
    label: int
    rows: npt.NDArray[np.int64]
    precision: float
    support: int
    correct: int
    score: float


def chosen_rules(
    candidates: Candidates, beliefs: Floats, gold: Gold, votes: VoteMatrix, X: Any, n: int
) -> Iterator[ChosenRule]:
    """Greedily yield the rule that adds most; rows that already have votes count less."""
    weights = draw_weights(beliefs, gold)
    proba = np.tensordot(weights, beliefs, 1)
    base = proba.mean(axis=0)
    pool = _Pool.of(candidates, _values(candidates, beliefs, weights, gold), X)
    for label, own in _present(votes):
        pool.drop_repeats(own, label)
    freshness = 1.0 / (1.0 + votes.votes_per_item.astype(np.float64))
    given = base.copy() * votes.covered.sum() + 1e-9
    for _ in range(n):
        # The class with the fewest votes so far, relative to its size, comes first.
        need = (base / base.max()) / (given / given.max())
        gain = pool.gains(freshness) * np.sqrt(np.minimum(need / need.min(), 16.0))
        if not gain.size or gain.max() <= 0:
            return
        place, label = divmod(int(gain.argmax()), gain.shape[1])
        group = pool.take(place, label, gain[:, label])
        own = np.unique(np.concatenate([pool.rows_of(each) for each in group]))
        freshness[own] *= 0.5
        given[label] += len(own)
        known = gold[own][gold[own] != ABSTAIN]
        correct = int((known == label).sum())
        believed = (proba[own, label].sum() + _DOUBT * base[label]) / (len(own) + _DOUBT)
        yield ChosenRule(
            tuple(int(pool.places[each]) for each in group),
            label,
            own,
            float((_GOLD_PRIOR * believed + correct) / (_GOLD_PRIOR + len(known))),
            len(known),
            correct,
            float(gain[place, label]),
        )


def honest_rules(
    chosen: Sequence[ChosenRule],
    choose: Callable[[Gold], Sequence[ChosenRule]],
    gold: Gold,
    n_classes: int,
) -> list[ChosenRule]:
    """Return the rules with precisions that hold; those that then are no better than chance go.

    The best of thousands of candidates look better than they are. So rules are chosen again without
    a fifth of the gold rows, five times, and judged by the rows left out: they say how much of the
    distance from the class's share, in log-odds, remains of a said precision. This factor is
    estimated for all classes, starting from `_USUAL`, and then for each class, starting from that
    of all. Without evidence, precisions are thus shrunk toward the shares of the classes.
    """
    known = np.flatnonzero(gold != ABSTAIN)
    if not chosen or not 0 < len(known) <= _MANY_GOLD:
        return list(chosen)
    shares = (np.bincount(gold[known], minlength=n_classes) + 1) / (len(known) + n_classes)
    base = _log_odds(shares)
    # Each class is spread evenly over the folds.
    order = np.lexsort((np.random.default_rng(0).random(len(known)), gold[known]))
    parts = [known[order[k::_FOLDS]] for k in range(_FOLDS)]
    seen = [each for part in parts for each in _left_out(choose, gold, part)]
    label, said, right, row = np.array(seen, dtype=np.float64).reshape(-1, 4).T
    label = label.astype(np.int64)
    lift = _log_odds(said) - base[label]
    # Several rules that vote on one row tell less than as many rows.
    rows_of = [len(np.unique(row[label == k])) for k in range(n_classes)]
    votes_of = np.maximum(np.bincount(label, minlength=n_classes), 1)
    weight = (np.array(rows_of) / votes_of)[label]
    usual = _kept_lift(base[label], lift, right, weight, _USUAL)
    kept = []
    for k in range(n_classes):
        own = label == k
        kept.append(_kept_lift(base[label[own]], lift[own], right[own], weight[own], usual))
    honest = []
    for each in chosen:
        away = _log_odds(np.array(each.precision)) - base[each.label]
        precision = float(_logistic(base[each.label] + kept[each.label] * away))
        if precision > min(0.5, _LIFT * shares[each.label]):
            honest.append(replace(each, precision=precision))
    return honest


def _left_out(
    choose: Callable[[Gold], Sequence[ChosenRule]], gold: Gold, rows: npt.NDArray[np.int64]
) -> Iterator[tuple[int, float, bool, int]]:
    """Yield class, said precision, whether it is right, and row, for each vote on the rows."""
    without = gold.copy()
    without[rows] = ABSTAIN
    try:
        rules = choose(without)
    except DataError:  # the only rows of a class are left out
        return
    for rule in rules:
        for row in np.intersect1d(rule.rows, rows):
            yield rule.label, rule.precision, bool(gold[row] == rule.label), int(row)


def _kept_lift(base: Floats, lift: Floats, right: Floats, weight: Floats, usual: float) -> float:
    """The share of the lifts that makes as many votes right as said, pulled to the usual one."""
    kept = usual
    for _ in range(50):
        proba = _logistic(base + kept * lift)
        slope = (weight * lift) @ (right - proba) - _DOUBTED * (kept - usual)
        kept += float(slope / ((weight * lift**2) @ (proba * (1 - proba)) + _DOUBTED))
    return float(np.clip(kept, 0.0, 1.5))


def _log_odds(share: Floats) -> Floats:
    clipped = np.clip(share, 1e-3, 1 - 1e-3)
    odds: Floats = np.log(clipped / (1 - clipped))
    return odds


def _logistic(odds: Floats) -> Floats:
    share: Floats = 1 / (1 + np.exp(-odds))
    return share


@dataclass(eq=False)
class _Pool:
    """The useful candidates; chosen ones and their near copies are removed."""

    places: npt.NDArray[np.int64]
    columns: Any
    """(n_rows, n_here), CSC: the rows of each candidate."""
    by_candidate: Any
    """The same matrix by candidate, CSR."""
    size: Floats
    value: Floats
    """(n_here, n_classes): the value of a candidate for a class; 0 once it is taken."""
    words: list[frozenset[str]]
    n_terms: int
    """The number of leading candidates that look for terms, which may share a rule."""
    profile: Floats | None
    """The direction of each candidate's rows in feature space, with length one."""

    @classmethod
    def of(cls, candidates: Candidates, value: Floats, X: Any) -> "_Pool":
        places = np.flatnonzero(value.max(axis=1) > 0)
        columns = candidates.rows[:, places]
        by_candidate = columns.T.tocsr()
        n_terms = int((places < len(candidates.terms)).sum())
        profile = None if X is None else _unit_rows(by_candidate @ _unit_rows(X - X.mean(axis=0)))
        size = np.asarray(columns.sum(axis=0)).ravel()
        words = [candidates.words[place] for place in places]
        return cls(places, columns, by_candidate, size, value[places], words, n_terms, profile)

    def rows_of(self, place: int) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self.columns[:, [place]].indices
        return found

    def gains(self, freshness: Floats) -> Floats:
        """Return what each candidate would add for each class."""
        reach = np.asarray(self.by_candidate @ freshness).ravel() ** _REACH
        return self.value * reach[:, None]

    def take(self, place: int, label: int, gain: Floats) -> list[int]:
        """Take a candidate and, if it is a term, the terms that are used like it."""
        group, least = [place], _WORTH * self.value[place, label]
        self._drop(place, label)
        if self.profile is None or place >= self.n_terms:
            return group
        alike = np.maximum(self.profile[: self.n_terms] @ self.profile[place], 0.0)
        score = gain[: self.n_terms] * alike**2
        most = min(_TERMS, max(1, self.n_terms // _ENOUGH))
        for other in np.argsort(-score, kind="stable"):
            if len(group) == most or score[other] <= 0:
                break
            used = frozenset().union(*(self.words[each] for each in group))
            if self.value[other, label] >= least and not used & self.words[other]:
                group.append(int(other))
                self._drop(int(other), label)
        return group

    def drop_repeats(self, own: npt.NDArray[Any], label: int) -> None:
        """Drop candidates for a class whose rows already have votes for it."""
        inside = np.zeros(self.columns.shape[0], dtype=np.float32)
        inside[own] = 1.0
        shared = np.asarray(self.by_candidate @ inside).ravel() / self.size
        self.value[shared > _MOST_SHARED, label] = 0.0

    def _drop(self, place: int, label: int) -> None:
        self.value[place] = 0.0
        # A longer phrase with the same word, or a word of the same phrase, adds almost nothing.
        self.value[_near_copies(self.words, place)] = 0.0
        self.drop_repeats(self.rows_of(place), label)


def _values(candidates: Candidates, beliefs: Floats, weights: Floats, gold: Gold) -> Floats:
    """Return the value of every candidate for each class; 0 for useless ones."""
    rows = candidates.rows
    size = np.asarray(rows.sum(axis=0)).ravel()
    fewest = max(_LEAST_ROWS, _LEAST_SHARE * len(gold))
    allowed = (size >= fewest) & (size <= _MOST_SHARE * len(gold))
    base = np.tensordot(weights, beliefs.mean(axis=1), 1)
    drawn = _precisions(rows, size, beliefs, gold, base)
    precision = np.tensordot(weights, drawn, 1)
    spread = np.sqrt(np.tensordot(weights, (drawn - precision) ** 2, 1))
    # If the draws disagree, the estimate depends on a few labeled rows and counts as less precise.
    sure = np.clip(precision - _SPREADS * spread, 0.001, 0.999)
    # The gain over guessing, in log-odds: a rule for a rare class is worth more.
    lift = np.log(sure / (1 - sure)) - np.log(base / (1 - base))
    # Above one half, or well above a rare class's share.
    least = np.maximum(base + 0.1, np.minimum(0.5, 3 * base))
    value: Floats = np.where(allowed[:, None] & (sure > least), lift, 0.0)
    return value


def _precisions(rows: Any, size: Floats, beliefs: Floats, gold: Gold, base: Floats) -> Floats:
    """Return how often a vote would be right: (n_draws, n_candidates, n_classes)."""
    known = np.flatnonzero(gold != ABSTAIN)
    gold_rows = rows.tocsr()[known]
    support = np.asarray(gold_rows.sum(axis=0)).ravel()
    correct = np.asarray(gold_rows.T @ np.eye(beliefs.shape[2])[gold[known]])
    believed = np.stack([np.asarray(rows.T @ draw) for draw in beliefs])
    prior = (believed + _DOUBT * base) / (size + _DOUBT)[:, None]
    precision: Floats = (_GOLD_PRIOR * prior + correct) / (_GOLD_PRIOR + support)[:, None]
    return precision


def _present(votes: VoteMatrix) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield each voter's classes with their rows, except for voters that vote almost everywhere."""
    for label in range(votes.n_classes):
        here = votes.class_index == label
        order = np.argsort(votes.voter_index[here], kind="stable")
        voters, items = votes.voter_index[here][order], votes.item_index[here][order]
        for own in np.split(items, np.flatnonzero(np.diff(voters)) + 1):
            if 0 < len(own) <= _MOST_SHARE * votes.n_items:
                yield label, own


def _near_copies(words: Sequence[frozenset[str]], place: int) -> list[int]:
    own = words[place]
    return [k for k, each in enumerate(words) if own and each and (own <= each or each <= own)]


def _unit_rows(values: Any) -> Floats:
    array = np.asarray(values)
    unit: Floats = array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)
    return unit
