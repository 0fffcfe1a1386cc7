"""Multi-label reviews: one network for all labels, or one for each.

    python -m experiments multilabel [--seeds N]

The labels and labeling functions are those of `experiments.studies.multilabel_rules`. Both variants
have the same votes, label models, options and number of updates per network, and both select epoch
and thresholds on the validation reviews. `one` is one network with six outputs; `each` is six
binary networks, each trained on the votes on its label. Test labels are used once, for this table.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from experiments.framework.runner import RESULTS, Record, Run, finished, run_all
from experiments.studies.multilabel_rules import LABELS, Part, part, rules
from wiesel import Committee, FeatureChecked, MajorityVote, Snorkel, TwoStage, WeaSEL
from wiesel.evaluation import MultiLabelReport, evaluate_presence
from wiesel.nn import MLP

LABEL_MODELS: dict[str, Any] = {
    "majority vote": MajorityVote,
    "Snorkel": Snorkel,
    "feature-checked votes": FeatureChecked,
}
METHODS = ("committee", "WeaSEL", *LABEL_MODELS)
WAYS = ("one", "each")
FIGURES = {
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "average_precision": "average precision",
    "exact_match": "exact match",
}


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m experiments multilabel")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--recorded", action="store_true", help="Show what is finished, run nothing."
    )
    options = parser.parse_known_args(argv)[0]
    runs = [
        Run("amazon_reviews", f"{method}, {way}", seed)
        for seed in range(options.seeds)
        for method in METHODS
        for way in WAYS
    ]
    if options.recorded:
        records = list(finished("multilabel").values())
    else:
        records = run_all("multilabel", runs, execute, options.jobs)
    page = write_page(records, options.seeds)
    (RESULTS / "multilabel.md").write_text(page)
    print(page)


def execute(run: Run) -> Record:
    """Return the metrics of one method on the validation and test reviews."""
    method, way = run.method.rsplit(", ", 1)
    valid, test = part("valid"), part("test")
    started = time.process_time()
    scores = _one(method, run.seed) if way == "one" else _each(method, run.seed)
    spent = time.process_time() - started
    limits, by_split = scores
    found = {"valid": valid, "test": test}
    figures: Record = {}
    for split, own in found.items():
        report = evaluate_presence(
            by_split[split], own.gold, LABELS, thresholds=limits, n_resamples=0
        )
        figures |= _figures(split, report)
    return {**figures, "method_cpu_seconds": spent}


def _one(method: str, seed: int) -> tuple[Any, dict[str, npt.NDArray[np.float64]]]:
    """Train one network with an output per label."""
    train, valid, test = (part(split) for split in ("train", "valid", "test"))
    network = _network(len(LABELS), seed)
    if method == "committee":
        model: Any = Committee(network, seed=seed, progress=False)
    elif method == "WeaSEL":
        model = WeaSEL(network, seed=seed, progress=False)
    else:
        model = TwoStage(LABEL_MODELS[method](), network, seed=seed, progress=False)
    model.fit(train.X, train.votes, validation=(valid.X, valid.gold))
    found = {"valid": model.predict_proba(valid.X), "test": model.predict_proba(test.X)}
    return model.threshold_, found


def _each(method: str, seed: int) -> tuple[Any, dict[str, npt.NDArray[np.float64]]]:
    """Train a binary network per label."""
    fitted = [_binary(method, seed, label) for label in LABELS]
    limits = np.array([0.5 if each.threshold_ is None else each.threshold_ for each in fitted])
    found = {
        split: np.stack([each.predict_proba(part(split).X)[:, 1] for each in fitted], axis=1)
        for split in ("valid", "test")
    }
    return limits, found


def _binary(method: str, seed: int, label: str) -> Any:
    train, valid = part("train"), part("valid")
    votes = train.votes[label].select(train.votes.voters_on(label))
    network = _network(2, seed)
    if method == "committee":
        model: Any = Committee(network, seed=seed, progress=False)
    elif method == "WeaSEL":
        model = WeaSEL(network, seed=seed, progress=False)
    else:
        model = TwoStage(LABEL_MODELS[method](), network, seed=seed, progress=False)
    gold = valid.gold[:, LABELS.index(label)]
    return model.fit(train.X, votes, validation=(valid.X, gold))


def _network(n_outputs: int, seed: int) -> MLP:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MLP(part("train").X.shape[1], n_outputs)


def _figures(split: str, report: MultiLabelReport) -> Record:
    scores = {f"{split}_{name}": float(score) for name, score in report.scores()}
    by_label = {f"{split}_f1_{name}": float(own.f1) for name, own in report.per_label.items()}
    return scores | by_label


def write_page(records: list[Record], seeds: int) -> str:
    """Return the page of results."""
    train: Part = part("train")
    table = train.votes.overview(train.gold)
    lines = [
        "# multilabel",
        "",
        f"Written by `python -m experiments multilabel --seeds {seeds}`.",
        "",
        "Six labels of Amazon reviews (Blitzer et al. 2007, the shared data set amazon_175): the "
        "department (book, film, electronics, kitchen), media for books and films, praise for four "
        f"or five stars. {len(rules())} labeling functions, written and committed before anything "
        f"was trained, vote on {train.votes.n_items:,} training reviews; {len(part('valid').X):,} "
        "validation reviews choose the epoch and a threshold for each label, in the same way for "
        f"all; figures are of {len(part('test').X):,} test reviews, in percent, mean ± deviation "
        "over the seeds. `one` is one network (MLP on 200 features) with six outputs, `each` "
        "six binary ones, each with as many updates (20 epochs of 3,200 items); a committee has "
        "twelve networks for each. No option was chosen for this table. The committee is the "
        "default because it did better on validation reviews in most, not all, comparisons.",
        "",
        "| | networks | seeds | " + " | ".join(FIGURES.values()) + " | CPU time |",
        "|---" * (len(FIGURES) + 4) + "|",
    ]
    for method in METHODS:
        for way in WAYS:
            own = [record for record in records if record["method"] == f"{method}, {way}"]
            if own:
                lines.append(_row(method, way, own))
    lines += ["", "F1 of each label, and what the votes on it are like:", ""]
    lines += ["| | " + " | ".join(LABELS) + " |", "|---" * (len(LABELS) + 1) + "|"]
    for method in METHODS:
        for way in WAYS:
            own = [record for record in records if record["method"] == f"{method}, {way}"]
            if not own:
                continue
            cells = [_cell([record[f"test_f1_{name}"] for record in own]) for name in LABELS]
            lines.append(f"| {method}, {way} | " + " | ".join(cells) + " |")
    for name, header in (
        ("coverage", "covered"),
        ("said_present", "votes for it"),
        ("gold_present", "truly so"),
    ):
        shares = [f"{100 * value:.0f}" for value in table.frame[name]]
        lines.append(f"| {header} | " + " | ".join(shares) + " |")
    return "\n".join([*lines, ""])


def _row(method: str, way: str, own: list[Record]) -> str:
    cells = [_cell([record[f"test_{name}"] for record in own]) for name in FIGURES]
    cpu = statistics.mean(record["method_cpu_seconds"] for record in own)
    return f"| {method} | {way} | {len(own)} | " + " | ".join(cells) + f" | {cpu:.1f} s |"


def _cell(values: list[float]) -> str:
    mean = f"{100 * statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * statistics.stdev(values):.1f}"


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
