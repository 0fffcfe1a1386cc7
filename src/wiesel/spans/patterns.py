"""Gazetteers, patterns and files of functions that mark spans; row functions that can."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import LabelingFunctionError, ParameterError, as_list
from wiesel.io import FilePath, existing_file
from wiesel.lfs.function import LabelingFunction, slug
from wiesel.lfs.loading import module_functions, voting_and_off
from wiesel.lfs.rules_file import read_each_rule, read_rules
from wiesel.lfs.table_rules import Lookup
from wiesel.lfs.text_rules import Keywords, Regex, check_pattern
from wiesel.parameters import check_choice
from wiesel.spans.documents import Documents, Words, tokenize
from wiesel.spans.functions import Marks, SpanFunction
from wiesel.spans.reading import without_overlaps
from wiesel.spans.tags import OUTSIDE, Runs, SpanLabels

__all__ = [
    "Case",
    "Gazetteer",
    "Pattern",
    "as_span_functions",
    "gazetteer",
    "load_each_span_lf",
    "load_span_lfs",
    "outside",
    "pattern",
]

Case = Literal["exact", "ignore", "capitalized"]
"""How upper and lower case must match."""
_HOW = (
    "Put @span_function above a function, or assign what a builder such as gazetteer(...) returns."
)


@dataclass(frozen=True, eq=False, repr=False)
class Gazetteer(SpanFunction):
    """Marks the names of a list; made by `gazetteer`."""

    label: str
    entries: tuple[str, ...]
    case: Case = "exact"
    name: str = ""
    exhaustive: bool = False

    def __post_init__(self) -> None:
        check_choice(self, "case", self.case, ("exact", "ignore", "capitalized"))
        for entry in self.entries:
            if not isinstance(entry, str) or not entry.strip():
                raise ParameterError(f"Names are non-empty strings; got {entry!r:.60}.")
        if not self.entries:
            raise ParameterError("A gazetteer needs at least one name; the list is empty.")
        if not self.name:
            own = "_".join([slug(self.label), *map(slug, self.entries[:2])]).rstrip("_")
            object.__setattr__(self, "name", own)

    @property
    def labels(self) -> tuple[str, ...]:
        """The one label it marks."""
        return (self.label,)

    @cached_property
    def _words(self) -> list[list[str]]:
        texts = self.entries if self.case == "exact" else [each.casefold() for each in self.entries]
        return [[text[start:end] for start, end in tokenize(text)] for text in dict.fromkeys(texts)]

    def run(self, documents: Documents, labels: SpanLabels, stop_at_failure: bool = True) -> Marks:
        """Return where names occur; if names overlap, the longest counts."""
        plain = documents.plain
        words = plain.words if self.case == "exact" else plain.words.folded
        tree = _tree(self._words, words)
        first, last = _matches(tree, words, plain)
        if self.case == "capitalized":
            upper = np.concatenate([[0], np.cumsum(plain.words.capitalized)])
            named = upper[last] > upper[first]
            first, last = first[named], last[named]
        runs = Runs(first, last, np.full(len(first), (*labels.names, "O").index(self.label)))
        runs = without_overlaps(runs)
        return Marks(runs if plain is documents else _moved(runs, plain, documents))

    def __repr__(self) -> str:
        return f"<gazetteer {self.name}: {len(self.entries):,} names of {self.label!r}>"


def gazetteer(
    label: str,
    entries: Iterable[str],
    *,
    case: Case = "exact",
    name: str = "",
    exhaustive: bool = False,
) -> Gazetteer:
    """Return a span function that marks the names of a list as `label`.

    Names match whole words, with any white space between the words. If names overlap, the longest
    counts. `case` is `exact`, `ignore` or `capitalized`, which ignores case but requires at least
    one word that begins with an upper-case letter: `Bath` is found in BATH, not in bath.

    >>> cities = gazetteer("LOC", ["York", "New York", "Bath"], case="capitalized")
    >>> [span[:2] for span in cities("From NEW  YORK to Bath, and no bath.")]
    [(5, 14), (18, 22)]
    """
    given = [entries] if isinstance(entries, str) else as_list(entries, "Names", "['Ada', 'Bob']")
    for entry in given:
        if not isinstance(entry, str):
            raise ParameterError(f"Names are non-empty strings; got {entry!r:.60}.")
    return Gazetteer(label, tuple(dict.fromkeys(given)), case, name, exhaustive)


class _Tree(NamedTuple):
    """The names as numbers: edges `node * n_words + word`, sorted, and the nodes they lead to."""

    keys: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    is_name: npt.NDArray[np.bool_]
    depth: int


def _tree(entries: Sequence[Sequence[str]], words: Words) -> _Tree:
    """The tree of the names whose words all occur in the documents."""
    n_words, code_of = len(words.vocabulary), words.code_of
    edges: dict[int, int] = {}
    names, depth = {0}, 0
    for entry in entries:
        codes = [code_of.get(word, -1) for word in entry]
        if -1 in codes or not codes:
            continue
        node = 0
        for code in codes:
            node = edges.setdefault(node * n_words + code, len(edges) + 1)
        names.add(node)
        depth = max(depth, len(codes))
    keys = np.fromiter(edges, dtype=np.int64, count=len(edges))
    target = np.fromiter(edges.values(), dtype=np.int64, count=len(edges))
    is_name = np.zeros(len(edges) + 1, dtype=bool)
    is_name[list(names - {0})] = True
    order = np.argsort(keys)
    return _Tree(keys[order], target[order], is_name, depth)


def _matches(
    tree: _Tree, words: Words, documents: Documents
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first token of every match, and the one after its last."""
    n_words, codes = len(words.vocabulary), words.codes
    # At the root, a lookup in a table of all words replaces the search.
    from_root = np.zeros(n_words, dtype=np.int64)
    roots = tree.keys < n_words
    from_root[tree.keys[roots]] = tree.target[roots]
    node = from_root[codes]
    start = np.flatnonzero(node)
    node = node[start]
    ends = documents.pointers[np.searchsorted(documents.pointers, start, side="right")]
    firsts, lasts = [], []
    for step in range(1, tree.depth + 1):
        found = tree.is_name[node]
        firsts.append(start[found])
        lasts.append(start[found] + step)
        within = start + step < ends
        start, node, ends = start[within], node[within], ends[within]
        keys = node * n_words + codes[start + step]
        place = np.minimum(np.searchsorted(tree.keys, keys), len(tree.keys) - 1)
        on = tree.keys[place] == keys if len(tree.keys) else np.zeros(len(keys), dtype=bool)
        start, node, ends = start[on], tree.target[place[on]], ends[on]
    nothing = np.empty(0, dtype=np.int64)
    return np.concatenate([nothing, *firsts]), np.concatenate([nothing, *lasts])


def _moved(runs: Runs, source: Documents, target: Documents) -> Runs:
    """Convert runs of tokens from one tokenization to another of the same texts."""
    document = np.searchsorted(source.pointers, runs.first, side="right") - 1
    start, end = source.starts[runs.first], source.ends[runs.last - 1]
    first, last = target.tokens_between(document, start, end)
    kept = first < last
    # Two names within one coarse token become one run.
    return without_overlaps(Runs(first[kept], last[kept], runs.label[kept]))


@dataclass(frozen=True, eq=False, repr=False)
class Pattern(SpanFunction):
    """Marks what a regular expression matches; made by `pattern`."""

    label: str
    regex: str
    before: str = ""
    after: str = ""
    name: str = ""
    exhaustive: bool = False

    def __post_init__(self) -> None:
        for part in (self.regex, self.before or self.regex, self.after or self.regex):
            check_pattern(part)
        if not self.name:
            object.__setattr__(self, "name", f"{slug(self.label)}_{slug(self.regex) or 'pattern'}")

    @property
    def labels(self) -> tuple[str, ...]:
        """The one label it marks."""
        return (self.label,)

    def run(self, documents: Documents, labels: SpanLabels, stop_at_failure: bool = True) -> Marks:
        """Return the matches; matches of white space only are not spans."""
        texts = pl.Series(documents.texts, dtype=pl.String)
        document, start, end = _places(self._whole, texts)
        first, last = documents.tokens_between(document, start, end)
        some = first < last
        label = np.full(int(some.sum()), (*labels.names, "O").index(self.label))
        return Marks(without_overlaps(Runs(first[some], last[some], label)))

    @property
    def _whole(self) -> str:
        """The pattern with its context; the group in the middle is marked."""
        groups = (("before", self.before), ("span", self.regex), ("after", self.after))
        return "".join(f"(?P<wiesel_{name}>{part})" for name, part in groups)

    def __repr__(self) -> str:
        return f"<pattern {self.name}: {self.regex!r} marks {self.label!r}>"


def pattern(
    label: str,
    regex: str,
    *,
    before: str = "",
    after: str = "",
    name: str = "",
    exhaustive: bool = False,
) -> Pattern:
    r"""Return a span function that marks what a regular expression matches as `label`.

    `before` and `after` must match directly before and after it, and are not marked. Patterns are
    those of `wiesel.regex`: linear time, `(?i)` ignores case, no look-around.

    >>> year = pattern("DATE", r"\b(?:19|20)\d\d\b", before="(?:in|since) ")
    >>> year("since 1996, or in 20199, or 1990")
    [Span(start=6, end=10, label='DATE', confidence=None)]
    """
    return Pattern(label, regex, before, after, name, exhaustive)


def outside(
    words: Iterable[str] | None = None, *, regex: str | None = None, name: str = ""
) -> SpanFunction:
    r"""Return a span function that votes against spans, on words of a list or matches of a pattern.

    Upper and lower case of words are the same.

    >>> [span[:3] for span in outside(["the", "of"])("The end of it")]
    [(0, 3, 'O'), (8, 10, 'O')]
    >>> outside(regex=r"[^\w\s]+", name="punctuation")
    <pattern punctuation: '[^\\w\\s]+' marks 'O'>
    """
    if (words is None) == (regex is None):
        raise ParameterError(
            "outside takes a list of words or a regex: outside(['the', 'of']), or "
            r"outside(regex=r'[^\w\s]+')."
        )
    if regex is not None:
        return pattern(OUTSIDE, regex, name=name)
    return gazetteer(OUTSIDE, words, case="ignore", name=name)  # type: ignore[arg-type]


def _places(regex: str, texts: pl.Series) -> tuple[Any, Any, Any]:
    """The text of every match, and where it starts and ends there."""
    hits = texts.str.contains(regex).arg_true().to_numpy()
    chosen = texts.gather(hits)
    begin, end = _marks(chosen)
    # Polars returns what matched, not where: two characters that no text contains mark the place.
    marks = f"${{wiesel_before}}{begin}${{wiesel_span}}{end}${{wiesel_after}}"
    marked = chosen.str.replace_all(regex, marks).to_list()
    rows: list[tuple[int, int, int]] = []
    for number, text in zip(hits.tolist(), marked, strict=True):
        before, *parts = text.split(begin)
        place = len(before)
        for part in parts:
            matched, _, rest = part.partition(end)
            if matched:
                rows.append((number, place, place + len(matched)))
            place += len(matched) + len(rest)
    document, start, stop = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return document, start, stop


def _marks(texts: pl.Series) -> tuple[str, str]:
    """Two private-use characters that occur in no text."""
    used = (
        set().union(*(set(text) for text in texts if not text.isascii())) if len(texts) else set()
    )
    begin, end = [mark for mark in map(chr, range(0xE000, 0xF8FF)) if mark not in used][:2]
    return begin, end


def as_span_functions(functions: Any) -> list[SpanFunction]:
    """Return span functions as a flat list with unique names.

    Row labeling functions that look for words also give spans: `keywords`, `regex`, and `lookup`
    of one column (its known values are a gazetteer).

    >>> from wiesel import keywords
    >>> as_span_functions([keywords("PER", ["Ada"], column="text")])
    [<gazetteer per_ada: 1 names of 'PER'>]
    """
    flat = list(_flattened(functions))
    if not flat:
        raise ParameterError("There are no span functions: the list is empty.")
    names = [function.name for function in flat]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ParameterError(
            f"Span functions need unique names; {', '.join(map(repr, repeated))} appear more than "
            "once. Pass name=... to one of them."
        )
    return flat


def _flattened(functions: Any) -> Iterable[SpanFunction]:
    if isinstance(functions, SpanFunction):
        yield functions
    elif isinstance(functions, (Keywords, Regex, Lookup)):
        yield _of_rule(functions)
    elif isinstance(functions, Iterable) and not isinstance(functions, (str, dict)):
        for each in functions:
            yield from _flattened(each)
    else:
        hint = " Put @span_function above its definition." if callable(functions) else ""
        raise ParameterError(f"Expected a span function; got {functions!r:.80}.{hint}")


def _of_rule(rule: Keywords | Regex | Lookup) -> SpanFunction:
    if isinstance(rule, Regex):
        return pattern(rule.label, rule.pattern, name=rule.name)
    if isinstance(rule, Lookup):
        return _of_lookup(rule)
    if rule.min_matches > 1:
        raise ParameterError(
            f"{rule.name!r} asks for {rule.min_matches} keywords in one text; each keyword found "
            "is a span, so min_matches must be 1."
        )
    if not rule.whole_words:
        flag = "" if rule.case_sensitive else "(?i)"
        return pattern(rule.label, flag + _any_of(rule.keywords), name=rule.name)
    case = "exact" if rule.case_sensitive else "ignore"
    return gazetteer(rule.label, rule.keywords, case=case, name=rule.name)  # type: ignore[arg-type]


def _any_of(keywords: Sequence[str]) -> str:
    return "|".join(pl.escape_regex(each) for each in sorted(keywords, key=len, reverse=True))


def _of_lookup(rule: Lookup) -> Gazetteer:
    if len(rule.reads) != 1:
        raise ParameterError(
            f"{rule.name!r} looks up {len(rule.reads)} columns together; a gazetteer has one list "
            "of names."
        )
    case = "exact" if rule.case_sensitive else "ignore"
    names = [str(value) for (value,) in rule.known]
    return gazetteer(rule.label, names, case=case, name=rule.name)  # type: ignore[arg-type]


def load_span_lfs(*paths: FilePath) -> list[SpanFunction]:
    """Return the span functions of `.py` and `.toml` files, in their order in the files.

    From a Python file, these are all span functions, keywords, regex and lookup rules at module
    level (and lists of them); loading a Python file runs its code. Functions that a rules file
    names in `off = [...]` are left out.
    """
    found: list[Any] = []
    for path in paths:
        found += _read(existing_file(path))
    return voting_and_off(as_span_functions(found), paths)[0]


def load_each_span_lf(
    path: FilePath,
) -> tuple[list[Any], None]:
    """Return the span functions and the rules of one file in order, on or off.

    In a rules file, an error is in the place of a broken rule, and of one that marks no span. Other
    errors are raised.
    """
    file = existing_file(path)
    rules = _read(file) if file.suffix != ".toml" else [rule for rule, _ in read_each_rule(file)[0]]
    found: list[Any] = []
    for each in rules:
        try:
            if not isinstance(each, LabelingFunctionError):
                as_span_functions(each)
            found.append(each)
        except ParameterError as error:
            found.append(LabelingFunctionError(f"{file}: {error}"))
    return found, None


def _read(file: Path) -> list[Any]:
    if file.suffix == ".toml":
        return list(read_rules(file)[0])
    # Row rules that cannot mark spans are refused later, when the others become span functions.
    return module_functions(file, (SpanFunction, LabelingFunction), "span functions", _HOW)[0]
