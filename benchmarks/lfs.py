"""Labeling functions: rows per CPU second against Snorkel, bare RE2 and Polars, on 2.3 KB texts.

Texts are the embedded movie reviews of 1.8 to 2.9 KB; a keyword function looks for one word that
occurs in 1 to 5 % of the texts. Every case runs in a separate process with one thread
(`python -m benchmarks.lfs` with a case as JSON on stdin); "two cores" is wall-clock time.
"""

import json
import os
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import (
    ROOT,
    UNKNOWN,
    arguments,
    markdown_table,
    merge_results,
    read_results,
    run_module,
    setting,
)

CACHE = ROOT / ".cache" / "benchmarks" / "lfs.json"
N_ROWS = 25_000
BASELINES = ("snorkel LFApplier, whole words", "re2 Set alone, 136")

_MOST_TURNS = 5
_QUIET = 0.1
"""The load of other processes, in cores, up to which a wall-clock comparison is valid."""

Measured = dict[str, Any]
Apply = Callable[..., Any]


def main(argv: Sequence[str] = ()) -> None:
    """Measure every case; store the results unless `--quick`."""
    options = arguments(argv)
    rows = read_results("lfs")
    if not options.show:
        _write_corpus()
        rows = []
        for name, (package, _, _) in CASES.items():
            if options.only in name:
                rows.append(_run(name, package, options))
                print(f"{name}: {rows[-1]['rows_per_second']:,.0f} rows/s", flush=True)
                if not options.quick:
                    merge_results("lfs", rows[-1:])
    print(results_table(rows))


def results_table(rows: Sequence[Measured]) -> str:
    """Return the Markdown table: one row per case, with its ratio to Snorkel and to bare RE2."""
    speeds = {row["case"]: row["rows_per_second"] for row in rows}
    lines = [
        (
            row["case"],
            row["clock"],
            f"{row['rows_per_second']:,.0f}",
            *(_ratio(row["rows_per_second"], speeds.get(name)) for name in BASELINES),
            _ratio(row["rows_per_second"], row.get("one_core")),
            f"{row['extra_cpu']:+.0%}" if "extra_cpu" in row else UNKNOWN,
            f"{row['cores_of_others']:.2f}" if "cores_of_others" in row else UNKNOWN,
        )
        for row in rows
    ]
    header = (
        "case",
        "per second of",
        "rows",
        "x Snorkel's LFApplier",
        "x bare RE2",
        "x one core",
        "extra CPU",
        "cores of others",
    )
    return markdown_table(header, lines)


def _ratio(speed: float, other: float | None) -> str:
    return UNKNOWN if other is None else f"{speed / other:,.2f}"


def _run(name: str, package: str, options: Any) -> Measured:
    """Return the median over several processes for one case."""
    job = {"case": name, "quick": options.quick}
    alone = "two cores" not in name
    runs = [run_module("benchmarks.lfs", package, job, alone) for _ in range(options.repeats)]
    runs.sort(key=lambda run: run["rows_per_second"])
    return {"case": name, **runs[len(runs) // 2], "repeats": options.repeats, **setting()}


def _write_corpus() -> None:
    """Write texts and words to one JSON file, which the peers' environment can also read."""
    if CACHE.exists():
        return
    from wiesel.datasets import load_movie_reviews

    reviews = load_movie_reviews().train.texts
    texts = [text for text in reviews if 1_800 <= len(text.encode()) <= 2_900]
    counts = Counter(word for text in texts for word in set(re.findall(r"\w+", text.lower())))
    plain = re.compile("[a-z]{4,}")
    shares = {word: n / len(texts) for word, n in counts.items() if plain.fullmatch(word)}
    band = sorted(word for word, share in shares.items() if 0.01 < share < 0.05)
    random.Random(0).shuffle(band)
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    CACHE.write_text(json.dumps({"texts": texts, "words": band}))


class Corpus:
    """The texts, repeated to the requested number of rows, and the words to look for."""

    def __init__(self, n_rows: int, n_words: int) -> None:
        content = json.loads(CACHE.read_text())
        distinct = content["texts"]
        self.n_distinct = len(distinct)
        self.texts = (distinct * (n_rows // len(distinct) + 1))[:n_rows]
        self.words = content["words"][:n_words]
        if len(self.words) < n_words:
            raise RuntimeError(
                f"The corpus has only {len(self.words)} words; {n_words} are needed."
            )


def _measured(corpus: Corpus, call: Callable[[], Any]) -> Measured:
    """Return the rows per CPU second of one call."""
    started = time.process_time()
    call()
    return _summary(corpus, time.process_time() - started, "CPU")


def _summary(corpus: Corpus, spent: float, clock: str) -> Measured:
    size = sum(len(text.encode()) for text in corpus.texts[:1000]) / min(1000, len(corpus.texts))
    return {
        "rows_per_second": len(corpus.texts) / spent,
        "clock": clock,
        "n_rows": len(corpus.texts),
        "bytes_per_row": round(size),
    }


def _keyword_functions(corpus: Corpus) -> Apply:
    from wiesel import keywords

    return _applied([keywords("spam", [word], column="text") for word in corpus.words], corpus)


def _row_functions(corpus: Corpus) -> Apply:
    from wiesel import labeling_function

    functions = enumerate(_python_functions(corpus))
    return _applied([labeling_function(name=f"lf_{k}")(each) for k, each in functions], corpus)


def _applied(lfs: Sequence[Any], corpus: Corpus) -> Apply:
    """Return a call that applies precompiled labeling functions with a number of workers."""
    import polars as pl

    from wiesel import apply_lfs
    from wiesel.lfs import LocalEngine

    # The texts repeat, so one copy of them is enough.
    distinct = pl.DataFrame({"text": corpus.texts[: corpus.n_distinct]})
    copies = -(-len(corpus.texts) // corpus.n_distinct)
    frame = pl.concat([distinct] * copies, rechunk=False).head(len(corpus.texts))

    def apply(workers: int = 1, rows: pl.DataFrame = frame) -> Any:
        engine = LocalEngine(workers=workers)
        return apply_lfs(lfs, rows, labels=["ham", "spam"], engine=engine)

    apply(1, frame.head(500))
    return apply


def _one_core(prepare: Callable[[Corpus], Apply], corpus: Corpus) -> Measured:
    return _measured(corpus, prepare(corpus))


def _wiesel_cached(corpus: Corpus) -> Measured:
    """Measure the cost of editing one function while all others are cached."""
    import tempfile

    import polars as pl

    from wiesel import apply_lfs, keywords

    frame = pl.DataFrame({"text": corpus.texts})
    lfs = [keywords("spam", [word], column="text") for word in corpus.words]
    with tempfile.TemporaryDirectory() as cache:
        apply_lfs(lfs, frame, labels=["ham", "spam"], cache=cache)
        lfs[7] = keywords("spam", ["edited"], column="text")
        edited = lambda: apply_lfs(lfs, frame, labels=["ham", "spam"], cache=cache)  # noqa: E731
        return _measured(corpus, edited)


def _re2_set(corpus: Corpus) -> Measured:
    import re2

    automaton = re2.Set.SearchSet()
    for word in corpus.words:
        automaton.Add(rf"(?i)\b{re2.escape(word)}\b")
    automaton.Compile()
    texts = [text.encode() for text in corpus.texts]
    for text in texts[:500]:
        automaton.Match(text)
    return _measured(corpus, lambda: [automaton.Match(text) for text in texts])


def _polars(corpus: Corpus, how: str) -> Measured:
    import polars as pl

    text = pl.col("text")
    ways: dict[str, Callable[[], list[pl.Expr]]] = {
        "extract_many": lambda: [
            text.str.extract_many(corpus.words, ascii_case_insensitive=True, overlapping=True)
        ],
        "find_many": lambda: [
            text.str.to_lowercase().str.find_many(corpus.words, overlapping=True)
        ],
        "extract_all": lambda: [
            text.str.to_lowercase().str.extract_all(
                rf"(?-u:\b)(?:{'|'.join(corpus.words)})(?-u:\b)"
            )
        ],
        "an expression each": lambda: [
            text.str.contains(rf"(?i)(?-u:\b){word}(?-u:\b)").alias(word) for word in corpus.words
        ],
    }
    frame = pl.DataFrame({"text": corpus.texts})
    return _measured(corpus, lambda: frame.select(ways[how]()))


def _snorkel(corpus: Corpus, applier: str, whole_words: bool) -> Measured:
    import pandas as pd
    from snorkel.labeling import LabelingFunction, LFApplier, PandasLFApplier

    def substring(row: Any, word: str) -> int:
        return 1 if word in row.text.lower() else -1

    def whole(row: Any, pattern: re.Pattern[str]) -> int:
        return 1 if pattern.search(row.text) else -1

    lfs = [
        LabelingFunction(word, whole, {"pattern": re.compile(rf"\b{word}\b", re.IGNORECASE)})
        if whole_words
        else LabelingFunction(word, substring, {"word": word})
        for word in corpus.words
    ]
    frame = pd.DataFrame({"text": corpus.texts})
    if applier == "PandasLFApplier":
        runner = PandasLFApplier(lfs)
        return _measured(corpus, lambda: runner.apply(frame, progress_bar=False))
    rows = list(frame.itertuples())
    return _measured(corpus, lambda: LFApplier(lfs).apply(rows, progress_bar=False))


def _python_functions(corpus: Corpus) -> list[Any]:
    """Return ten typical plain row functions."""
    makers = [
        lambda word, k: lambda row: "spam" if word in row["text"] else None,
        lambda word, k: lambda row: "ham" if len(row["text"]) < 1_800 + 10 * k else None,
    ]
    return [makers[k % 2](word, k) for k, word in enumerate(corpus.words)]


def _plain_loop(corpus: Corpus) -> Measured:
    import numpy as np
    import polars as pl

    functions = _python_functions(corpus)
    frame = pl.DataFrame({"text": corpus.texts})
    codes = {None: -1, "ham": 0, "spam": 1}

    def loop() -> np.ndarray:
        votes = np.full((len(frame), len(functions)), -1, dtype=np.int16)
        for item, row in enumerate(frame.iter_rows(named=True)):
            for voter, function in enumerate(functions):
                votes[item, voter] = codes[function(row)]
        return votes

    return _measured(corpus, loop)


class _Turn(NamedTuple):
    """The time of one run, and the load of other processes during it."""

    wall: float
    cpu: float
    """CPU seconds of this process and its finished child processes."""
    others: float
    """The average number of cores used by other processes."""


def _two_cores(prepare: Callable[[Corpus], Apply], corpus: Corpus) -> Measured:
    """Measure wall-clock speed with two processes, and with one just before.

    Other load on the machine distorts it, so the measurement repeats until one turn is undisturbed;
    otherwise the least disturbed turn counts. The extra CPU time of two processes is more robust.
    """
    apply = prepare(corpus)
    turns: list[tuple[_Turn, _Turn]] = []
    while not turns or (len(turns) < _MOST_TURNS and _disturbance(turns[-1]) > _QUIET):
        turns.append((_timed(lambda: apply(1)), _timed(lambda: apply(2))))
    one, two = min(turns, key=_disturbance)
    return {
        **_summary(corpus, two.wall, "wall"),
        "one_core": len(corpus.texts) / one.wall,
        "speed_up": one.wall / two.wall,
        "extra_cpu": two.cpu / one.cpu - 1,
        "cores_of_others": _disturbance((one, two)),
    }


def _disturbance(turn: tuple[_Turn, _Turn]) -> float:
    return max(run.others for run in turn)


def _timed(call: Callable[[], Any]) -> _Turn:
    wall, cpu, busy = time.perf_counter(), _cpu_seconds(), _busy_seconds()
    call()
    wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
    return _Turn(wall, cpu, max(0.0, (_busy_seconds() - busy - cpu) / wall))


def _busy_seconds() -> float:
    """Return the busy seconds of all cores, over all processes."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, *interrupts = map(int, fields[:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


# What to measure: the package, the number of words, and rows as a share of N_ROWS.
Case = tuple[str, tuple[int, float], Callable[[Corpus], Measured]]
CASES: dict[str, Case] = {
    "wiesel, 136 keyword functions": (
        "wiesel",
        (136, 1),
        lambda c: _one_core(_keyword_functions, c),
    ),
    "wiesel, 10 keyword functions": ("wiesel", (10, 1), lambda c: _one_core(_keyword_functions, c)),
    "wiesel, 1,000 keyword functions": (
        "wiesel",
        (1000, 1),
        lambda c: _one_core(_keyword_functions, c),
    ),
    "wiesel, 136, one edited, the rest cached": ("wiesel", (136, 1), _wiesel_cached),
    "re2 Set alone, 136": ("wiesel", (136, 1), _re2_set),
    "re2 Set alone, 10": ("wiesel", (10, 1), _re2_set),
    "re2 Set alone, 1,000": ("wiesel", (1000, 1), _re2_set),
    **{
        f"polars {how}, {n_words:,}": (
            "wiesel",
            (n_words, share),
            lambda c, how=how: _polars(c, how),
        )
        for how, n_words, share in (
            ("extract_many", 136, 1),
            ("find_many", 10, 1),
            ("find_many", 136, 1),
            ("find_many", 1000, 1),
            ("extract_all", 10, 1),
            ("extract_all", 136, 1),
            ("extract_all", 1000, 1),
            ("an expression each", 136, 0.2),
        )
    },
    "snorkel LFApplier, whole words": (
        "snorkel",
        (136, 0.02),
        lambda c: _snorkel(c, "LFApplier", True),
    ),
    "snorkel LFApplier, substrings": (
        "snorkel",
        (136, 0.1),
        lambda c: _snorkel(c, "LFApplier", False),
    ),
    "snorkel PandasLFApplier, whole words": (
        "snorkel",
        (136, 0.02),
        lambda c: _snorkel(c, "PandasLFApplier", True),
    ),
    "snorkel PandasLFApplier, substrings": (
        "snorkel",
        (136, 0.02),
        lambda c: _snorkel(c, "PandasLFApplier", False),
    ),
    "wiesel, 10 Python functions": ("wiesel", (10, 1), lambda c: _one_core(_row_functions, c)),
    "a plain loop, 10 Python functions": ("wiesel", (10, 1), _plain_loop),
    "wiesel, 136 keyword functions, two cores": (
        "wiesel",
        (136, 120),
        lambda c: _two_cores(_keyword_functions, c),
    ),
    "wiesel, 100 Python functions, two cores": (
        "wiesel",
        (100, 4),
        lambda c: _two_cores(_row_functions, c),
    ),
}


def _child() -> None:
    job = json.loads(sys.stdin.read())
    package, (n_words, share), measure = CASES[job["case"]]
    n_rows = int(N_ROWS * share * (0.02 if job["quick"] else 1)) or 1
    result = measure(Corpus(max(n_rows, 50), n_words))
    names = ("google-re2", "polars") if package == "wiesel" else ("snorkel",)
    print(json.dumps({**result, "versions": {name: version(name) for name in names}}))


if __name__ == "__main__":
    _child()
