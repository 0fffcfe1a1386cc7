"""Regular expressions that mark spans, and row labeling functions that can mark spans too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from wiesel.errors import ParameterError
from wiesel.lfs.function import slug
from wiesel.lfs.table_rules import Lookup
from wiesel.lfs.text_rules import Keywords, Regex, check_pattern
from wiesel.spans.documents import Documents
from wiesel.spans.functions import Marks, SpanFunction
from wiesel.spans.gazetteers import Gazetteer, gazetteer
from wiesel.spans.reading import without_overlaps
from wiesel.spans.tags import OUTSIDE, Runs, SpanLabels

__all__ = ["Pattern", "as_span_functions", "outside", "pattern"]


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
