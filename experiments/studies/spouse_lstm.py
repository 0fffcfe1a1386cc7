"""Spouse with the paper's kind of network: a bidirectional LSTM on the tokens of the sentence.

The sentence is cropped around the two persons, who are replaced by two marker tokens. It is read as
token ids of a vocabulary learned from the training sentences; embeddings are trained. Epoch and
threshold are selected on validation. WeaSEL's encoder reads the votes and the 200 features of table
1. The paper's network has three LSTMs, for the words before, between and after the persons; this
has one. Runs are stored in `spouse_lstm.jsonl`, one line each. `spouse_evidence` runs them and
writes the page.
"""

import re
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.framework.methods import binary_metrics, dataset_of, threshold_of
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.soft_labels import as_one_voter
from wiesel import EndToEndModel, MajorityVote, TwoStage, WeaSEL
from wiesel.features import TokenFeatures
from wiesel.nn import LSTM
from wiesel.training import seeded

STORE = "spouse_lstm"
WORDS = 28
"""The maximum number of words read per sentence; long text between the persons is cut."""
BESIDE = 6
"""The number of words read before the first person and after the second."""
LENGTH = 32
"""The maximum number of tokens; a word such as U.S. has several."""
MARKS = {"1": "persona", "2": "personb"}
"""Placeholders for the two persons; the paper's network does not read their names either."""
_PERSON = re.compile(r"<p([12])>.*?</p\1>")
TITLES = {
    "majority_vote": "majority vote",
    "snorkel": "Snorkel",
    "weasel": "WeaSEL",
    "weasel_ours": "WeaSEL, our defaults",
}
"""The title of each method; `WeaSEL` is the paper's version."""
EPOCHS = 10
TRAINING = {"lr": 2e-3, "batch_size": 128}
"""The cost of an LSTM step depends more on the longest sentence than on their number. So sentences
are short, and steps are few and large. The paper has 75 epochs at a twentieth of the rate."""
SEEDS = 3


def definitions(seeds: int, epochs: int) -> list[Run]:
    """Return all runs, seed by seed, so that an interrupted study has complete seeds."""
    options = {"epochs": epochs, **TRAINING}
    return [Run("spouse", method, seed, options) for seed in range(seeds) for method in TITLES]


def results(
    seeds: int = SEEDS, epochs: int = EPOCHS, recorded: bool = True, jobs: int = 1
) -> dict[str, list[Record]]:
    """Run what is missing unless `recorded`, and return the finished runs by title."""
    runs = definitions(seeds, epochs)
    if not recorded:
        run_all(STORE, runs, execute, jobs)
    done = finished(STORE)
    found: dict[str, list[Record]] = {title: [] for title in TITLES.values()}
    for run in runs:
        if run.key in done:
            found[TITLES[run.method]].append(done[run.key])
    return found


def around_persons(text: str) -> str:
    """Return the words around and between the two persons, each replaced by one word.

    >>> around_persons("He said <p1> Ann Lee </p1> wed <p2> Bob </p2> .")
    'He said persona wed personb .'
    """
    words = _PERSON.sub(lambda found: f" {MARKS[found[1]]} ", text).split()
    places = [place for place, word in enumerate(words) if word in MARKS.values()]
    first, last = (places[0], places[-1]) if places else (0, len(words))
    words = words[max(first - BESIDE, 0) : last + BESIDE + 1]
    if len(words) > WORDS:
        words = words[: WORDS // 2] + words[-(WORDS // 2) :]
    return " ".join(words)


@cache
def tokens() -> tuple[dict[str, npt.NDArray[np.int64]], int]:
    """Return the token ids of all splits, and the vocabulary size."""
    dataset = dataset_of("spouse")
    texts = {
        name: [around_persons(text) for text in dataset[name].texts]
        for name in ("train", "valid", "test")
    }
    features = TokenFeatures(length=LENGTH, max_terms=20_000).fit(texts["train"])
    ids = {name: np.asarray(features.transform(own)) for name, own in texts.items()}
    return ids, max(int(part.max()) for part in ids.values()) + 1


def build(run: Run) -> EndToEndModel:
    """Return the estimator that a run describes."""
    with seeded(run.seed):
        network = LSTM(tokens()[1], 2)
    options: dict[str, Any] = {"epoch_size": None, "weight_average": None, "progress": False}
    options |= {"seed": run.seed, **run.options}
    if run.method == "weasel":
        return WeaSEL.paper(network, encoder=(50, 5), encoding="signed", **options)
    if run.method == "weasel_ours":
        return WeaSEL(network, **options)
    return TwoStage(MajorityVote(), network, **options)


def execute(run: Run) -> Record:
    """Train on train, select epoch and threshold on valid, and only then score test."""
    (ids, _), dataset, model = tokens(), dataset_of("spouse"), build(run)
    validation = (ids["valid"], dataset.valid.gold)
    votes, noted = dataset.train.votes, {}
    if run.method == "snorkel":
        votes, noted = as_one_voter(run, dataset)
    beside = {"encoder_X": dataset.train.features} if isinstance(model, WeaSEL) else {}
    model.fit(ids["train"], votes, validation=validation, **beside)
    proba = model.predict_proba(ids["test"])[:, 1]
    return {
        **binary_metrics(proba, dataset.test.gold, threshold_of(model)),
        "epoch": model.selection_["epoch"],
        "validation": model.selection_["score"],
        **noted,
    }
