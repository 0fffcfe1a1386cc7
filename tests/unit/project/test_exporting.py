"""One file for production: the same probabilities as the model, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import wiesel as ws
from wiesel.errors import DataError, FeatureError, ParameterError, SavedModelError
from wiesel.features import Standardizer, TabularFeatures, TextFeatures
from wiesel.features.tfidf import _WORD
from wiesel.multilabel import MultiLabelVotes
from wiesel.nn import LSTM, MLP, Linear
from wiesel.project.bundle import load_bundle
from wiesel.project.exporting import TOLERANCE, export_model
from wiesel.runtime import load_predictor, main

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

N_ITEMS = 60
GOLD = np.arange(N_ITEMS) % 2
VOTES = ws.VoteMatrix.from_dense(np.stack([GOLD, GOLD, 1 - GOLD], axis=1), labels=["ham", "spam"])
TEXTS = [
    f"{'FREE Prize money ΟΔΟΣ' if is_spam else 'See you at lunch, İstanbul'} {row % 7}x"
    for row, is_spam in enumerate(GOLD)
]
TEXTS[3], TEXTS[5] = "", " \n\t"
TABLE = pl.DataFrame(
    {
        "text": TEXTS,
        "length": [None if row % 11 == 0 else row % 9 + 10.0 * g for row, g in enumerate(GOLD)],
        "sender": [["anna", "bot", None, "rare"][row % 4] for row in range(N_ITEMS)],
        "flag": [bool(is_spam) for is_spam in GOLD],
        "grade": [row % 5 for row in range(N_ITEMS)],
    }
)
TABULAR = TabularFeatures(numeric=["length"], categorical=["sender", "flag", "grade"])
QUICK = {"epochs": 2, "epoch_size": N_ITEMS}


def saved(folder: Path, features, items, network=None, method=None):
    """A model that was saved with its features, as a bundle."""
    X = features.fit_transform(items)
    network = MLP(X.shape[1], 2) if network is None else network(X.shape[1])
    model = method or ws.TwoStage(ws.MajorityVote(), network, members=2, **QUICK)
    model.fit(X, VOTES, validation=(X, GOLD)).save(folder, features=features)
    return load_bundle(folder)


@pytest.fixture(scope="module", params=["words", "phrases", "table"])
def bundle(request, tmp_path_factory):
    features, items = {
        "words": (TextFeatures(min_count=1), TEXTS),
        "phrases": (TextFeatures(min_count=1, longest_phrase=2, standardize=False), TEXTS),
        "table": (TABULAR, TABLE),
    }[request.param]
    return saved(tmp_path_factory.mktemp("model") / request.param, features, items)


@pytest.mark.parametrize("extension", ["npz", "onnx"])
def test_an_exported_model_predicts_the_same_from_raw_rows(bundle, tmp_path, extension):
    found = export_model(bundle, TABLE, tmp_path / f"model.{extension}")
    assert found.difference <= TOLERANCE
    assert found.n_checked == N_ITEMS
    assert found.path.stat().st_size > 0
    if extension == "onnx":
        assert "opset 20" in found.notes


def test_the_runtime_decides_by_the_tuned_threshold(bundle, tmp_path):
    export_model(bundle, TABLE, tmp_path / "model.npz")
    model = load_predictor(tmp_path / "model.npz")
    model.threshold = 0.5001
    proba = model.predict_proba(TABLE)
    assert model.predict(TABLE) == ["spam" if p >= 0.5001 else "ham" for p in proba[:, 1]]
    model.threshold = bundle.model.threshold_
    assert model.predict(TABLE) == list(bundle.predict(TABLE))
    rows = TABLE.to_dicts()
    assert np.array_equal(model.predict_proba(rows), proba)
    assert np.array_equal(model.predict_proba(TABLE.to_dict(as_series=False)), proba)


def test_onnx_gives_the_class_by_the_tuned_threshold(bundle, tmp_path, monkeypatch):
    proba = np.sort(bundle.predict_proba(TABLE)[:, 1])
    widest = int(np.diff(proba).argmax())
    monkeypatch.setattr(bundle.model, "threshold_", float(proba[widest : widest + 2].mean()))
    onnxruntime = pytest.importorskip("onnxruntime")
    from wiesel.end_to_end.compiled import compiled
    from wiesel.project.exporting import onnx_feeds

    export_model(bundle, TABLE, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    label, proba = session.run(
        ["label", "probabilities"], onnx_feeds(compiled(bundle.model, bundle.reader), TABLE)
    )
    assert {*label.tolist()} == {"ham", "spam"}
    assert label.tolist() == list(bundle.predict(TABLE))
    assert proba.shape == (N_ITEMS, 2)


def test_onnx_splits_all_of_unicode_as_python_does():
    onnxruntime = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    from wiesel.end_to_end.compiled import Compiled
    from wiesel.project.exporting import OPSET, _Graph

    graph = _Graph(Compiled({}, {}))
    words = graph.words(graph.lower_case(graph.input("text", TensorProto.STRING)))
    graph.outputs.append(helper.make_tensor_value_info(words, TensorProto.STRING, None))
    opsets = [("", OPSET), ("ai.onnx.ml", 3), ("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "words", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid(*opset) for opset in opsets],
        ir_version=9,
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    points = [n for n in range(1, sys.maxunicode + 1) if not 0xD800 <= n <= 0xDFFF]
    texts = [
        "".join(f"a{chr(n)}b {chr(n)}" for n in points[k : k + 500])
        for k in range(0, len(points), 500)
    ]
    drawn = np.random.default_rng(0)
    letters = list("Σ\u03c3\u03c2Aaé'.\u00ad\u0301\u02b0 1_İßǅ\n\t你")
    texts += ["".join(drawn.choice(letters, size=drawn.integers(0, 12))) for _ in range(3000)]
    n_texts = 0
    for start in range(0, len(texts), 200):
        batch = texts[start : start + 200]
        for own, text in zip(
            session.run([words], {"text": np.array(batch, dtype=object)})[0], batch, strict=True
        ):
            assert [word for word in own if word] == _WORD.findall(text.lower()), text
            n_texts += 1
    assert n_texts > 5000


def test_batches_without_a_word_are_predicted(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    made = saved(tmp_path / "model", TextFeatures(min_count=1), TEXTS)
    export_model(made, TABLE, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for texts in (["", "?"], ["nothing known here"]):
        found = session.run(["probabilities"], {"text": np.array(texts, dtype=object)})[0]
        assert np.allclose(found, made.model.predict_proba(made.inputs({"text": texts})), atol=1e-6)


@pytest.mark.parametrize("with_gold", [True, False])
def test_networks_of_many_layers_and_committees_are_exported(tmp_path, with_gold):
    """Without gold, a committee has offsets of its logits."""

    def network(width):
        return torch.nn.Sequential(
            torch.nn.Linear(width, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(),
            torch.nn.Dropout(), torch.nn.Linear(5, 4, bias=False), torch.nn.Sigmoid(),
            torch.nn.Flatten(), torch.nn.Linear(4, 2),
        )  # fmt: skip

    features = Standardizer()
    X = np.random.default_rng(0).normal(3, 2, (N_ITEMS, 4)).astype(np.float32) + GOLD[:, None]
    Z = features.fit_transform(X)
    model = ws.Committee(network(4), **QUICK)
    model.fit(Z, VOTES, validation=(Z, GOLD) if with_gold else None)
    model.end_model_ = model.end_model_.eval()
    model.save(tmp_path / "model", features=features)
    made = load_bundle(tmp_path / "model", network(4))
    for extension in ("npz", "onnx"):
        assert export_model(made, X, tmp_path / f"model.{extension}").difference <= TOLERANCE


def test_a_logistic_regression_is_exported(tmp_path):
    from sklearn.linear_model import LogisticRegression

    made = saved(
        tmp_path / "model",
        TABULAR,
        TABLE,
        method=ws.TwoStage(ws.MajorityVote(), LogisticRegression()),
    )
    assert export_model(made, TABLE, tmp_path / "model.npz").difference <= TOLERANCE


def test_several_labels_are_exported_with_their_calibration(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    gold = (X[:, :2] > 0).astype(int)
    dense = np.stack([gold, np.where(rng.random(gold.shape) < 0.9, gold, 1 - gold)], axis=1)
    votes = MultiLabelVotes.from_dense(dense, ["a", "b"])
    model = ws.Committee(Linear(3, 2), epochs=2, epoch_size=200, calibrated=True)
    named = [tuple(np.array(["a", "b"])[row == 1]) for row in gold]
    model.fit(X, votes, validation=(X, named)).save(tmp_path / "model")
    assert model.calibration_ is not None
    made = load_bundle(tmp_path / "model")
    for extension in ("npz", "onnx", "pt2"):
        assert export_model(made, X, tmp_path / f"model.{extension}").difference <= TOLERANCE
    found = load_predictor(tmp_path / "model.npz").predict(X)
    assert found == [tuple(row) for row in made.model.predict(X)]


def test_what_cannot_be_exported_is_said(tmp_path):
    tokens = ws.features.TokenFeatures(length=5)
    X = tokens.fit_transform(TEXTS)
    network = LSTM(len(tokens.vocabulary_) + 2, 2)
    ws.TwoStage(ws.MajorityVote(), network, **QUICK).fit(X, VOTES).save(
        tmp_path / "model", features=tokens
    )
    made = load_bundle(tmp_path / "model")
    with pytest.raises(ParameterError, match=r"LSTM cannot be written .* Export it as \.pt2"):
        export_model(made, TABLE, tmp_path / "model.npz")
    with pytest.raises(ParameterError, match=r"extension of an exported model is one of \.npz"):
        export_model(made, TABLE, tmp_path / "model.pkl")
    assert not list(tmp_path.glob("*.npz"))


def test_an_export_that_differs_is_not_left(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(type(bundle.model), "predict_proba", lambda self, X: np.zeros((60, 2)))
    with pytest.raises(SavedModelError, match="nothing was written"):
        export_model(bundle, TABLE, tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_torch_export_gives_the_network(tmp_path):
    made = saved(tmp_path / "model", TextFeatures(min_count=1), TEXTS, lambda n: Linear(n, 2))
    found = export_model(made, TABLE, tmp_path / "model.pt2")
    assert found.difference <= TOLERANCE
    assert "network only" in found.notes[0]


def test_the_runtime_names_wrong_rows(bundle, tmp_path):
    export_model(bundle, TABLE, tmp_path / "model.npz")
    model = load_predictor(tmp_path / "model.npz")
    with pytest.raises(DataError, match=r"no column|No row has"):
        model.predict([{"txt": "hello"}])
    with pytest.raises(DataError, match="not one string"):
        model.predict("hello")
    assert model.predict([]) == []
    if model.inputs["kind"] == "tabular":
        with pytest.raises(DataError, match="'length' is 'long' in row 0"):
            model.predict([{"length": "long", "sender": "a", "flag": True, "grade": 1}])
    else:
        with pytest.raises(DataError, match="text of row 1 is 3"):
            model.predict([{"text": "a"}, {"text": 3}])
    with pytest.raises((DataError, FeatureError)):
        bundle.predict([{"txt": "hello"}])


def test_the_runtime_reads_only_what_was_exported(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        load_predictor(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    with pytest.raises(SavedModelError, match="no exported model"):
        load_predictor(tmp_path / "other.npz")
    np.savez(tmp_path / "code.npz", header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(SavedModelError, match="no exported model"):
        load_predictor(tmp_path / "code.npz")


def test_the_runtime_is_a_program_and_loads_nothing_large(bundle, tmp_path):
    export_model(bundle, TABLE, tmp_path / "model.npz")
    code = (
        "import sys; from wiesel.runtime import main; code = main(sys.argv[1:]);"
        "large = {'torch', 'polars', 'scipy', 'sklearn', 'pandas'} & set(sys.modules);"
        "sys.exit(code or bool(large))"
    )
    lines = "".join(json.dumps(row) + "\n" for row in TABLE[:3].to_dicts())
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.npz")],
        input=lines, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    expected = bundle.predict_proba(TABLE[:3])
    assert np.allclose([a["proba"]["spam"] for a in answers], expected[:, 1], atol=TOLERANCE)
    assert [answer["prediction"] for answer in answers] == list(bundle.predict(TABLE[:3]))
    assert main([]) == 2
