"""Models saved with their features: from texts, tables and pictures to classes with one object."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from forged_models import rewrite
from sklearn.feature_extraction.text import TfidfVectorizer
from tiny_task import ONE_PASS
from torch import nn

from wiesel import Committee, MajorityVote, TwoStage, VoteMatrix, WeaSEL, load_model
from wiesel.errors import DataError, FeatureError, NotFittedError, ParameterError, SavedModelError
from wiesel.features import (
    ImageFeatures,
    Standardizer,
    TabularFeatures,
    TextFeatures,
    TokenFeatures,
)
from wiesel.nn import CNN, LSTM, Linear
from wiesel.training import seeded

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

QUICK = {**ONE_PASS, "epochs": 2, "lr": 0.05, "batch_size": 8, "progress": False}
TEXTS = ["free prize", "see you at lunch", "win a prize", "lunch at noon"] * 4
TABLE = pl.DataFrame({"age": [20, 50, 30, 60] * 4, "job": ["cook", "nurse", "cook", None] * 4})
PICTURES = np.random.default_rng(0).integers(0, 255, (16, 5, 4, 3)).astype(np.uint8)
NUMBERS = np.random.default_rng(1).normal(5, 3, (16, 3))


def votes() -> VoteMatrix:
    return VoteMatrix.from_dense([[1, 1], [0, 0], [1, -1], [0, 0]] * 4, ["ham", "spam"], ["a", "b"])


def fitted(features: Any, items: Any, network: Any = None) -> tuple[TwoStage, Any]:
    X = features.fit_transform(items)
    network = Linear(X.shape[1], 2) if network is None else network
    return TwoStage(MajorityVote(), network, **QUICK).fit(X, votes()), X


CASES = {
    "texts": (TextFeatures(min_count=1), TEXTS, None),
    "a table": (TabularFeatures(numeric=["age"], categorical=["job"]), TABLE, None),
    "pictures": (ImageFeatures(), PICTURES, CNN(channels=3, n_classes=2)),
    "flat pictures": (ImageFeatures(layout="flat"), PICTURES, None),
    "numbers": (Standardizer(), NUMBERS, None),
    "words": (TokenFeatures(length=6, min_count=1), TEXTS, LSTM(vocabulary=50, n_classes=2)),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_model_saved_with_features_predicts_from_what_they_read(case: str, tmp_path: Path):
    features, items, network = CASES[case]
    model, X = fitted(features, items, network)
    model.save(tmp_path / "model", features=features)
    loaded = load_model(tmp_path / "model")
    expected = model.predict_proba(X)
    assert np.allclose(loaded.predict_proba(items), expected)
    assert (loaded.predict(items) == model.predict(X)).all()
    loaded.save(tmp_path / "again")
    assert np.allclose(load_model(tmp_path / "again").predict_proba(items), expected)


def test_a_new_process_labels_texts(tmp_path: Path):
    features = TextFeatures(min_count=1)
    model, X = fitted(features, TEXTS)
    model.save(tmp_path / "model", features=features)
    code = "import json, sys; from wiesel import load_model; a = json.loads(sys.stdin.read()); "
    code += "labels = load_model(a[0]).predict(a[1]).tolist(); "
    code += "print(json.dumps([labels, 'sklearn' in sys.modules])); "
    code += "import gc; gc.freeze()"  # without the search for garbage at the end: half a second
    given = json.dumps([str(tmp_path / "model"), TEXTS])
    found = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True
    )
    labels, loaded_scikit_learn = json.loads(found.stdout)
    assert labels == model.predict(X).tolist()
    assert not loaded_scikit_learn  # it takes as long to load as torch


@pytest.mark.parametrize(
    "items",
    [
        pl.Series(TEXTS),
        pd.Series(TEXTS),
        np.array(TEXTS),
        tuple(TEXTS),
        (text for text in TEXTS),
        pl.DataFrame({"review": TEXTS}),
        pd.DataFrame({"review": TEXTS}),
        {"review": TEXTS},
        [{"review": text} for text in TEXTS],
    ],
    ids=[
        "polars",
        "pandas",
        "numpy",
        "tuple",
        "generator",
        "frame",
        "pandas frame",
        "dict",
        "rows",
    ],
)
def test_texts_come_as_people_have_them(items, tmp_path: Path):
    features = TextFeatures(min_count=1)
    model, X = fitted(features, TEXTS)
    model.save(tmp_path / "model", features=features, column="review")
    assert np.allclose(load_model(tmp_path / "model").predict_proba(items), model.predict_proba(X))


@pytest.mark.parametrize("case", ["texts", "a table"])
def test_vectors_of_texts_and_tables_are_taken_as_they_are(case: str, tmp_path: Path):
    features, items, _ = CASES[case]
    model, X = fitted(features, items)
    model.save(tmp_path / "model", features=features)
    loaded = load_model(tmp_path / "model")
    for vectors in (X, torch.from_numpy(X)):
        assert np.allclose(loaded.predict_proba(vectors), model.predict_proba(X))


@pytest.mark.parametrize("case", ["texts", "pictures", "numbers"])
def test_members_and_explanations_read_the_items_too(case: str, tmp_path: Path):
    features, items, network = CASES[case]
    X = features.fit_transform(items)
    network = network or Linear(X.shape[1], 2)
    model = TwoStage(MajorityVote(), network, members=2, **QUICK).fit(X, votes())
    model.save(tmp_path / "model", features=features)
    loaded = load_model(tmp_path / "model")
    assert np.allclose(loaded.spread(items), model.spread(X))
    told = loaded.explain(items[0], votes()[0]), model.explain(X[0], votes()[0])
    assert np.allclose(told[0].end_proba, told[1].end_proba)
    assert told[0].pushes == told[1].pushes


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_texts_are_empty_also_if_a_batch_has_no_others(missing, tmp_path: Path):
    features = TextFeatures(min_count=1)
    model, _ = fitted(features, TEXTS)
    model.save(tmp_path / "model", features=features, column="review")
    loaded = load_model(tmp_path / "model")
    expected = model.predict_proba(features.transform([""]))
    for table in (pd.DataFrame({"review": [missing]}), [{"review": missing}]):
        assert np.allclose(loaded.predict_proba(table), expected)


def test_a_row_of_a_pandas_table_is_explained(tmp_path: Path):
    features = TextFeatures(min_count=1)
    model, X = fitted(features, TEXTS)
    model.save(tmp_path / "model", features=features, column="review")
    loaded = load_model(tmp_path / "model")
    table = pd.DataFrame({"review": TEXTS, "stars": range(len(TEXTS))})
    for row in (table.iloc[2], table[2:3], table.iloc[2].to_dict()):
        told = loaded.explain(row, votes()[2])
        assert np.allclose(told.end_proba, model.explain(X[2], votes()[2]).end_proba)


def test_committees_and_weasel_weigh_votes_on_texts(tmp_path: Path):
    features = TextFeatures(min_count=1)
    X = features.fit_transform(TEXTS)
    for model in (
        WeaSEL(Linear(X.shape[1], 2), **QUICK),
        Committee(Linear(X.shape[1], 2), **QUICK),
    ):
        model.fit(X, votes()).save(tmp_path / "model", features=features)
        loaded = load_model(tmp_path / "model")
        assert np.allclose(loaded.soft_labels(TEXTS, votes()), model.soft_labels(X, votes()))
        assert np.allclose(loaded.predict_proba(TEXTS), model.predict_proba(X))
        told = loaded.explain(TEXTS[2], votes()[2]), model.explain(X[2], votes()[2])
        assert np.allclose(told[0].end_proba, told[1].end_proba)


def test_a_model_that_is_fitted_again_reads_vectors(tmp_path: Path):
    features = Standardizer()
    with seeded(0):  # the seed with which a loaded model draws its initial weights
        model, X = fitted(features, NUMBERS)
    model.save(tmp_path / "model", features=features)
    again = load_model(tmp_path / "model").fit(X, votes())
    assert np.allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-4)


def test_a_network_of_ones_own_comes_with_its_features(tmp_path: Path):
    features = TextFeatures(min_count=1)
    X = features.fit_transform(TEXTS)
    net = nn.Sequential(nn.Linear(X.shape[1], 4), nn.ReLU(), nn.Linear(4, 2))
    model = TwoStage(MajorityVote(), net, **QUICK).fit(X, votes())
    model.save(tmp_path / "model", features=features)
    loaded = load_model(tmp_path / "model", end_model=net)
    assert np.allclose(loaded.predict_proba(TEXTS), model.predict_proba(X))


def test_features_that_the_model_was_not_trained_with_are_refused_when_saving(tmp_path: Path):
    model, _ = fitted(TextFeatures(min_count=1), TEXTS)
    with pytest.raises(ParameterError, match=r"trained on others.*[^.]\.$"):
        model.save(tmp_path / "model", features=Standardizer().fit(NUMBERS))
    with pytest.raises(ParameterError, match=r"TfidfVectorizer cannot be saved.*TextFeatures"):
        model.save(tmp_path / "model", features=TfidfVectorizer().fit(TEXTS))
    with pytest.raises(NotFittedError, match="TextFeatures are not fitted"):
        model.save(tmp_path / "model", features=TextFeatures())
    assert not (tmp_path / "model").exists()


def test_mistakes_with_texts_have_a_cure(tmp_path: Path):
    features = TextFeatures(min_count=1)
    fitted(features, TEXTS)[0].save(tmp_path / "model", features=features)
    loaded = load_model(tmp_path / "model")
    with pytest.raises(FeatureError, match="as a list or a column"):
        loaded.predict("free prize")
    with pytest.raises(DataError, match=r"'text' \(the text that this model reads\).*'txt'"):
        loaded.predict([{"txt": "free prize"}])
    with pytest.raises(FeatureError, match="text of row 1 is None"):
        loaded.predict(["free prize", None])


def test_a_folder_whose_features_are_not_its_own_is_refused(tmp_path: Path):
    features = TextFeatures(min_count=1)
    fitted(features, TEXTS)[0].save(tmp_path / "model", features=features)
    for change in ({"kind": "tabular", "column": "text"}, {"kind": "tfidf"}, 3):
        rewrite(tmp_path / "model", lambda manifest, change=change: manifest.update(inputs=change))
        with pytest.raises(SavedModelError, match="features"):
            load_model(tmp_path / "model")


@pytest.mark.parametrize("case", sorted(CASES))
def test_features_are_saved_and_loaded_as_data(case: str, tmp_path: Path):
    features, items, _ = CASES[case]
    features.fit(items).save(tmp_path / "features")
    loaded = type(features).load(tmp_path / "features")
    assert np.array_equal(loaded.transform(items), features.transform(items))
    assert {file.suffix for file in (tmp_path / "features").iterdir()} == {".json", ".safetensors"}


def test_features_come_back_from_a_model_and_of_their_own_class_only(tmp_path: Path):
    features = TextFeatures(min_count=1)
    model, X = fitted(features, TEXTS)
    model.save(tmp_path / "model", features=features)
    assert np.allclose(TextFeatures.load(tmp_path / "model").transform(TEXTS), X, atol=1e-5)
    with pytest.raises(SavedModelError, match=r"holds TextFeatures.*use TextFeatures\.load"):
        ImageFeatures.load(tmp_path / "model")
    model.save(tmp_path / "bare")
    with pytest.raises(SavedModelError, match="holds no features"):
        TextFeatures.load(tmp_path / "bare")


def test_features_that_are_not_fitted_are_not_saved(tmp_path: Path):
    for features in (TextFeatures(), TabularFeatures(numeric=["a"]), ImageFeatures()):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            features.save(tmp_path / "features")
