"""A model and its features in forked processes: `multiprocessing` with fork, `gunicorn --preload`.

The time limits only end a child that would hang for ever.
"""

import multiprocessing
import os
import pickle
import signal
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
import torch

import wiesel as ws
from wiesel.analysis import agreement, disagreements, findings, rank_workers
from wiesel.errors import ForkError
from wiesel.features import ImageFeatures, TabularFeatures, TextFeatures, TokenFeatures
from wiesel.features.tfidf import count_terms
from wiesel.io import read_rows, read_votes, write_rows, write_votes
from wiesel.lfs import keywords, regex
from wiesel.nn import MLP
from wiesel.training.loop import predict_logits

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning"),
]

N_ITEMS = 60
GOLD = np.arange(N_ITEMS) % 2
VOTES = ws.VoteMatrix.from_dense(np.stack([GOLD, GOLD, 1 - GOLD], axis=1), labels=["ham", "spam"])
TEXTS = [
    f"{'free prize money' if is_spam else 'see you at lunch'} {row % 7}x"
    for row, is_spam in enumerate(GOLD)
]
TABLE = pl.DataFrame(
    {
        "text": TEXTS,
        "length": [float(row % 9 + 10 * is_spam) for row, is_spam in enumerate(GOLD)],
        "sender": [["anna", "bot", None][row % 3] for row in range(N_ITEMS)],
        "flag": [bool(is_spam) for is_spam in GOLD],
    }
)
PICTURES = np.stack([np.full((4, 4), 9 * row + 100 * g) for row, g in enumerate(GOLD)]) % 256


def in_fork(work: Callable[[], Any]) -> Any:
    """What `work` returns or raises in a forked child; a child that hangs is killed."""
    pl.DataFrame({"a": [1, 2]}).filter(pl.col("a") > 1)  # the parent has Polars' threads
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of every fork beside threads
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            outcome = work()
        except BaseException as error:  # noqa: BLE001 - the parent raises it
            outcome = error
        with open(writing, "wb") as pipe:
            pipe.write(pickle.dumps(outcome))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the forked child hung or died: status {status}"
    outcome = pickle.loads(sent)  # noqa: S301 - from our own child
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


FEATURES = {
    "words": (TextFeatures(min_count=1), TEXTS),
    "phrases": (TextFeatures(min_count=1, longest_phrase=2), TEXTS),
    "table": (TabularFeatures(numeric=["length"], categorical=["sender", "flag"]), TABLE),
    "images": (ImageFeatures(layout="flat"), PICTURES),
    "tokens": (TokenFeatures(length=5), TEXTS),
}


@pytest.fixture(scope="module", params=FEATURES)
def loaded(request, tmp_path_factory) -> tuple[Any, Any]:
    """A model that was saved with its features and loaded, and items it can predict."""
    features, items = FEATURES[request.param]
    X = features.fit_transform(items)
    network = ws.nn.LSTM(len(features.vocabulary_) + 2, 2) if request.param == "tokens" else None
    network = network or MLP(X.shape[1], 2)
    folder = tmp_path_factory.mktemp("model") / request.param
    ws.TwoStage(ws.MajorityVote(), network, epochs=2, epoch_size=N_ITEMS).fit(X, VOTES).save(
        folder, features=features
    )
    return ws.load_model(folder), items


def test_a_loaded_model_predicts_the_same_in_a_forked_child(loaded):
    model, items = loaded
    expected = model.predict_proba(items)
    assert np.array_equal(in_fork(lambda: model.predict_proba(items)), expected)


def test_a_model_loads_and_predicts_in_a_forked_child(loaded, tmp_path):
    model, items = loaded
    model.save(tmp_path / "model", features=model.reader_.features)
    found = in_fork(lambda: ws.load_model(tmp_path / "model").predict_proba(items))
    assert np.array_equal(found, model.predict_proba(items))


def test_rows_of_every_kind_are_read_in_a_forked_child(tmp_path):
    features = TextFeatures(min_count=1)
    model = ws.TwoStage(
        ws.MajorityVote(),
        MLP(features.fit_transform(TEXTS).shape[1], 2),
        epochs=1,
        epoch_size=N_ITEMS,
    )
    model.fit(features.transform(TEXTS), VOTES).save(tmp_path / "model", features=features)
    model = ws.load_model(tmp_path / "model")
    rows = [{"text": TEXTS[0], "n": 1}, {"text": None, "n": 2}]
    tables = [
        rows,
        pl.DataFrame(rows),
        pl.DataFrame(rows).to_pandas(),
        {"text": np.array([TEXTS[0], ""], object)},
        pl.Series([TEXTS[0], ""]),
        pl.DataFrame({"text": [None, None]}),
        pl.DataFrame({"text": [float("nan"), None]}),
    ]
    expected = [model.predict_proba(table) for table in tables]
    found = in_fork(lambda: [model.predict_proba(table) for table in tables])
    assert np.array_equal(found, expected)
    assert in_fork(lambda: str(model.explain(TEXTS[1], VOTES[[1]])))


def test_words_of_many_texts_are_counted_as_polars_counts_them():
    letters = "aA_9Ω\u0130ße\u0301\u200d\ud800 .,-\u4e2d\u6587x7\u0660\u00b2\u2167\U0001d518"
    drawn = np.random.default_rng(0).choice(list(letters), (1_000, 40))
    texts = ["".join(row) for row in drawn]
    terms = sorted({word for text in texts for word in text.lower().replace(".", " ").split()})
    terms = [term for term in terms if len(term) > 1 and term.isprintable()][:5_000]
    expected = count_terms(texts, terms)
    assert expected.nnz > 100
    for found in (
        in_fork(lambda: count_terms(texts, terms)),
        sp.vstack([count_terms(texts[k : k + 50], terms) for k in range(0, 1000, 50)]),
    ):
        assert np.array_equal(found.toarray(), expected.toarray())


def test_a_committee_predicts_and_trains_in_a_forked_child():
    X = np.random.default_rng(0).normal(size=(N_ITEMS, 4)).astype(np.float32) + GOLD[:, None]
    new = partial(ws.Committee, MLP(4, 2), epochs=2, epoch_size=N_ITEMS)
    model = new().fit(X, VOTES)
    assert np.array_equal(in_fork(lambda: model.predict_proba(X)), model.predict_proba(X))
    again = in_fork(lambda: new().fit(X, VOTES).predict_proba(X))
    assert np.allclose(again, model.predict_proba(X), atol=1e-6)


def test_a_large_network_needs_no_threads_of_torch_that_a_fork_has_lost():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch.random.fork_rng():
            net = torch.nn.Sequential(torch.nn.Linear(1500, 1500), torch.nn.Linear(1500, 2))
        X = np.ones((512, 1500), np.float32)
        assert sum(parameter.numel() for parameter in net.parameters()) > 2_000_000
        inputs, rows = ws.training.as_inputs(X), np.arange(512)
        expected = predict_logits(net, inputs, rows).numpy()
        found = in_fork(lambda: predict_logits(net, inputs, rows).numpy())
        assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)
    finally:
        torch.set_num_threads(before)


def _predict_in_pool(texts: list[str]) -> Any:
    return _POOLED["model"].predict_proba(texts)


_POOLED: dict[str, Any] = {}


def test_a_pool_of_forked_workers_predicts_texts(tmp_path):
    features = TextFeatures(min_count=1)
    X = features.fit_transform(TEXTS)
    model = ws.TwoStage(ws.MajorityVote(), MLP(X.shape[1], 2), epochs=1, epoch_size=N_ITEMS).fit(
        X, VOTES
    )
    model.save(tmp_path / "model", features=features)
    _POOLED["model"] = ws.load_model(tmp_path / "model")
    expected = _predict_in_pool(TEXTS[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            futures = [pool.submit(_predict_in_pool, TEXTS[:3]) for _ in range(4)]
            try:
                assert all(np.array_equal(f.result(timeout=60), expected) for f in futures)
            except TimeoutError:
                for process in list(pool._processes.values()):
                    process.kill()
                raise


def _rules() -> list[Any]:
    return [keywords("spam", ["free"], column="text"), regex("ham", "lunch", column="text")]


def refused_work(folder: Path) -> dict[str, Callable[[], Any]]:
    """What cannot run without Polars' threads."""
    lfs = _rules()
    write_rows(TABLE, folder / "rows.csv")
    write_rows(TABLE, folder / "rows.parquet")
    write_votes(VOTES, folder / "votes.parquet")
    answer = {"item": [1], "voter": ["a"], "label": ["ham"]}
    model = ws.DawidSkene().fit(VOTES)
    tabular = TabularFeatures(numeric=["length"]).fit(TABLE)
    return {
        "apply_lfs": lambda: ws.apply_lfs(lfs, TABLE, labels=["ham", "spam"]),
        "one rule": lambda: lfs[0]({"text": "free"}),
        "a new rule": lambda: regex("spam", "a+", column="text"),
        "read csv": lambda: read_rows(folder / "rows.csv"),
        "read parquet": lambda: read_rows(folder / "rows.parquet"),
        "read votes": lambda: read_votes(folder / "votes.parquet"),
        "write csv": lambda: write_rows(TABLE, folder / "new.csv"),
        "write votes": lambda: write_votes(VOTES, folder / "new.parquet"),
        "from_long": lambda: ws.VoteMatrix.from_long(
            answer, item="item", voter="voter", label="label"
        ),
        "fit of texts": lambda: TextFeatures(min_count=1).fit(TEXTS),
        "fit of a table": lambda: TabularFeatures(numeric=["length"]).fit(TABLE),
        "a lazy frame": lambda: tabular.transform(TABLE.lazy()),
        "summarize": lambda: ws.summarize(VOTES, gold=GOLD),
        "agreement": lambda: agreement(VOTES),
        "findings": lambda: findings(VOTES),
        "disagreements": lambda: disagreements(VOTES, TABLE),
        "rank_workers": lambda: rank_workers(model, VOTES),
    }


def test_what_needs_polars_is_refused_at_once_in_a_forked_child(tmp_path):
    refused = []
    for name, work in refused_work(tmp_path).items():
        with pytest.raises(ForkError, match="spawn"):
            in_fork(work)
        refused.append(name)
    assert refused == list(refused_work(tmp_path))
    with pytest.raises(ForkError, match=r"apply_lfs needs Polars.*spawn"):
        in_fork(refused_work(tmp_path)["apply_lfs"])


def test_label_models_need_no_polars():
    for model in (ws.MajorityVote(), ws.DawidSkene(), ws.Snorkel()):
        expected = model.fit(VOTES).predict_proba(VOTES)
        found = in_fork(lambda model=model: model.fit(VOTES).predict_proba(VOTES))
        assert np.array_equal(found, expected)
