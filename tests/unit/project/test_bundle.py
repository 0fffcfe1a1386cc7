"""A model with its features, as one object for production."""

import numpy as np
import polars as pl
import pytest

import wiesel as ws
from wiesel.errors import DataError
from wiesel.features import TabularFeatures, TextFeatures
from wiesel.nn import Linear
from wiesel.project.bundle import load_bundle

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

GOLD = np.arange(80) % 2
VOTES = ws.VoteMatrix.from_dense(np.stack([GOLD, GOLD], axis=1), labels=["ham", "spam"])
ROWS = pl.DataFrame(
    {
        "text": [f"{'free prize' if g else 'see you'} {k % 3}x" for k, g in enumerate(GOLD)],
        "length": [float(g * 10 + k % 3) for k, g in enumerate(GOLD)],
        "sender": [["anna", "bot"][k % 3 == 0] for k in range(len(GOLD))],
    }
)


def bundle_of(folder, features, items):
    X = features.fit_transform(items)
    net = Linear(X.shape[1], 2)
    model = ws.TwoStage(ws.MajorityVote(), net, epochs=40, lr=0.05, epoch_size=80, seed=1)
    model.fit(X, VOTES)
    model.threshold_ = 0.999  # between both classes' probabilities, unlike 1/2
    model.save(folder, features=features)
    return load_bundle(folder)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "texts"
    return bundle_of(folder, TextFeatures(min_count=1), ROWS["text"])


def test_predict_uses_the_tuned_threshold(texts):
    proba = texts.predict_proba(ROWS)
    assert texts.predict(ROWS).tolist() == ["spam" if p >= 0.999 else "ham" for p in proba[:, 1]]
    assert texts.predict_proba(ROWS.to_dicts()).shape == (80, 2)


def test_the_words_that_moved_a_prediction_are_named(texts):
    found = texts.explain({"text": "free prize 1x"})
    alone = texts.predict_proba([{"text": "free prize 1x"}, {"text": "  prize 1x"}])
    place = texts.labels.names.index(found.label)
    effects = {each.part: each.effect for each in found.effects}
    assert list(effects) == sorted(effects, key=lambda part: -abs(effects[part]))
    assert set(effects) == {"free", "prize", "1x"}
    assert effects["free"] == pytest.approx(alone[0, place] - alone[1, place], abs=1e-6)
    assert found.proba == pytest.approx(alone[0, place])
    assert "points" in str(found)


def test_the_columns_that_moved_a_prediction_are_named(tmp_path):
    features = TabularFeatures(numeric=["length"], categorical=["sender"])
    made = bundle_of(tmp_path / "model", features, ROWS)
    found = made.explain({"length": 10.0, "sender": "anna"})
    assert {each.part for each in found.effects} == {"length", "sender"}
    assert found.effects[0].part == "length"


def test_votes_on_a_row_explain_its_label(texts):
    found = texts.explain({"text": "free prize 1x"}, votes=VOTES[1])
    assert [push.vote for push in found.pushes] == ["spam", "spam"]


def test_a_row_without_a_text_is_explained_by_an_error(texts):
    with pytest.raises(DataError, match="no column 'text'"):
        texts.explain({"txt": "free"})
    assert texts.explain({"text": None}).effects == ()
