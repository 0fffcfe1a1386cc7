"""Lists of names, all found in one pass over the tokens, no matter how many there are.

The names form a tree of words. All tokens of all documents descend the tree at once, one word
deeper with each step. So time grows with the tokens and the longest name, not with the list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError
from wiesel.lfs.function import slug
from wiesel.parameters import check_choice
from wiesel.spans.documents import Documents, Words
from wiesel.spans.functions import Marks, SpanFunction
from wiesel.spans.reading import without_overlaps
from wiesel.spans.tags import Runs, SpanLabels
from wiesel.spans.tokenizer import tokenize

__all__ = ["Case", "Gazetteer", "gazetteer"]

Case = Literal["exact", "ignore", "capitalized"]
"""How upper and lower case must match."""


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
    given = (entries,) if isinstance(entries, str) else tuple(dict.fromkeys(entries))
    return Gazetteer(label, given, case, name, exhaustive)


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
