"""Labeling functions: rows per CPU second beside Snorkel, bare RE2 and Polars, on 2.3 KB texts.

Texts are the embedded movie reviews of 1.8 to 2.9 KB; a keyword function looks for one word that
occurs in one to five of a hundred texts. Every case runs in a process of its own with one thread
(`python -m benchmarks.lfs` with a case as JSON on stdin); "two cores" is wall-clock time.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from benchmarks.harness import (
    ONE_THREAD,
    ROOT,
    UNKNOWN,
    arguments,
    markdown_table,
    merge_results,
    read_results,
    setting,
)
from benchmarks.peers import ensure_peers

CACHE = ROOT / ".cache" / "benchmarks" / "lfs.json"
N_ROWS = 25_000
BASELINES = ("snorkel LFApplier, whole words", "re2 Set alone, 136")

Measured = dict[str, Any]


def main(argv: Sequence[str] = ()) -> None:
    """Measure every case; keep the results unless `--quick`."""
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
    """Return the Markdown table: one line per case, with its ratio to Snorkel and to bare RE2."""
    speeds = {row["case"]: row["rows_per_second"] for row in rows}
    lines = [
        (
            row["case"],
            row["clock"],
            f"{row['rows_per_second']:,.0f}",
            *(_ratio(row["rows_per_second"], speeds.get(name)) for name in BASELINES),
            _ratio(row["rows_per_second"], row.get("one_core")),
        )
        for row in rows
    ]
    header = ("case", "per second of", "rows", "x Snorkel's LFApplier", "x bare RE2", "x one core")
    return markdown_table(header, lines)


def _ratio(speed: float, other: float | None) -> str:
    return UNKNOWN if other is None else f"{speed / other:,.2f}"


def _run(name: str, package: str, options: Any) -> Measured:
    """The median of some processes for one case."""
    python = sys.executable if package == "wiesel" else str(ensure_peers())
    threads = {} if "two cores" in name else ONE_THREAD
    job = json.dumps({"case": name, "quick": options.quick})
    runs = []
    for _ in range(options.repeats):
        done = subprocess.run(
            [python, "-m", "benchmarks.lfs"],
            input=job,
            cwd=ROOT,
            env={**os.environ, **threads},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stderr[-3000:]}")
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    runs.sort(key=lambda run: run["rows_per_second"])
    return {"case": name, **runs[len(runs) // 2], "repeats": options.repeats, **setting()}


def _write_corpus() -> None:
    """Texts and words in one JSON file, which the peers' environment can read too."""
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
    """The texts, repeated to the number of rows asked for, and the words to look for."""

    def __init__(self, n_rows: int, n_words: int) -> None:
        content = json.loads(CACHE.read_text())
        distinct = content["texts"]
        self.texts = (distinct * (n_rows // len(distinct) + 1))[:n_rows]
        self.words = content["words"][:n_words]
        if len(self.words) < n_words:
            raise RuntimeError(
                f"The corpus has only {len(self.words)} words; {n_words} are needed."
            )


def _measured(corpus: Corpus, call: Callable[[], Any], clock: Callable[[], float]) -> Measured:
    started = clock()
    call()
    spent = clock() - started
    size = sum(len(text.encode()) for text in corpus.texts[:1000]) / min(1000, len(corpus.texts))
    return {
        "rows_per_second": len(corpus.texts) / spent,
        "clock": "CPU" if clock is time.process_time else "wall",
        "n_rows": len(corpus.texts),
        "bytes_per_row": round(size),
    }


def _wiesel(corpus: Corpus, workers: int = 1, clock: Callable[[], float] = time.process_time):
    import polars as pl

    from wiesel import apply_lfs, keywords
    from wiesel.lfs import LocalEngine

    frame = pl.DataFrame({"text": corpus.texts})
    lfs = [keywords("spam", [word], column="text") for word in corpus.words]
    engine = LocalEngine(workers=workers)
    apply_lfs(lfs, frame.head(500), labels=["ham", "spam"], engine=engine)
    return _measured(
        corpus, lambda: apply_lfs(lfs, frame, labels=["ham", "spam"], engine=engine), clock
    )


def _wiesel_cached(corpus: Corpus) -> Measured:
    """All but one function known from the cache: what editing one of them costs."""
    import tempfile

    import polars as pl

    from wiesel import apply_lfs, keywords

    frame = pl.DataFrame({"text": corpus.texts})
    lfs = [keywords("spam", [word], column="text") for word in corpus.words]
    with tempfile.TemporaryDirectory() as cache:
        apply_lfs(lfs, frame, labels=["ham", "spam"], cache=cache)
        lfs[7] = keywords("spam", ["edited"], column="text")
        edited = lambda: apply_lfs(lfs, frame, labels=["ham", "spam"], cache=cache)  # noqa: E731
        return _measured(corpus, edited, time.process_time)


def _re2_set(corpus: Corpus) -> Measured:
    import re2

    automaton = re2.Set.SearchSet()
    for word in corpus.words:
        automaton.Add(rf"(?i)\b{re2.escape(word)}\b")
    automaton.Compile()
    texts = [text.encode() for text in corpus.texts]
    for text in texts[:500]:
        automaton.Match(text)
    return _measured(corpus, lambda: [automaton.Match(text) for text in texts], time.process_time)


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
    return _measured(corpus, lambda: frame.select(ways[how]()), time.process_time)


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
        return _measured(corpus, lambda: runner.apply(frame, progress_bar=False), time.process_time)
    rows = list(frame.itertuples())
    return _measured(
        corpus, lambda: LFApplier(lfs).apply(rows, progress_bar=False), time.process_time
    )


def _python_functions(corpus: Corpus) -> list[Any]:
    """Ten plain row functions of the kind people write."""
    makers = [
        lambda word, k: lambda row: "spam" if word in row["text"] else None,
        lambda word, k: lambda row: "ham" if len(row["text"]) < 1_800 + 10 * k else None,
    ]
    return [makers[k % 2](word, k) for k, word in enumerate(corpus.words)]


def _wiesel_python(corpus: Corpus, workers: int = 1, clock=time.process_time) -> Measured:
    import polars as pl

    from wiesel import apply_lfs, labeling_function
    from wiesel.lfs import LocalEngine

    lfs = [
        labeling_function(name=f"lf_{k}")(each) for k, each in enumerate(_python_functions(corpus))
    ]
    frame = pl.DataFrame({"text": corpus.texts})
    engine = LocalEngine(workers=workers)
    return _measured(
        corpus, lambda: apply_lfs(lfs, frame, labels=["ham", "spam"], engine=engine), clock
    )


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

    return _measured(corpus, loop, time.process_time)


def _two_cores(run: Callable[..., Measured], corpus: Corpus) -> Measured:
    """Wall-clock speed with two processes, and what one gives beside it."""
    alone = run(corpus, 1, time.perf_counter)
    both = run(corpus, 2, time.perf_counter)
    return {**both, "one_core": alone["rows_per_second"]}


# What to measure: the package, the number of words, and rows as a share of N_ROWS.
Case = tuple[str, tuple[int, float], Callable[[Corpus], Measured]]
CASES: dict[str, Case] = {
    "wiesel, 136 keyword functions": ("wiesel", (136, 1), _wiesel),
    "wiesel, 10 keyword functions": ("wiesel", (10, 1), _wiesel),
    "wiesel, 1,000 keyword functions": ("wiesel", (1000, 1), _wiesel),
    "wiesel, 136, one edited, the rest cached": ("wiesel", (136, 1), _wiesel_cached),
    "re2 Set alone, 136": ("wiesel", (136, 1), _re2_set),
    "re2 Set alone, 10": ("wiesel", (10, 1), _re2_set),
    "re2 Set alone, 1,000": ("wiesel", (1000, 1), _re2_set),
    **{
        f"polars {how}, 136": ("wiesel", (136, share), lambda c, how=how: _polars(c, how))
        for how, share in (
            ("extract_many", 1),
            ("find_many", 1),
            ("extract_all", 1),
            ("an expression each", 0.2),
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
    "wiesel, 10 Python functions": ("wiesel", (10, 1), _wiesel_python),
    "a plain loop, 10 Python functions": ("wiesel", (10, 1), _plain_loop),
    "wiesel, 136 keyword functions, two cores": (
        "wiesel",
        (136, 40),
        lambda c: _two_cores(_wiesel, c),
    ),
    "wiesel, 100 Python functions, two cores": (
        "wiesel",
        (100, 8),
        lambda c: _two_cores(_wiesel_python, c),
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
