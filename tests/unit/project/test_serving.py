"""The HTTP service: predictions in batches, limits, tokens, health and metrics."""

import json
import threading
import time

import numpy as np
import pytest

import wiesel as ws
from wiesel.features import TabularFeatures, TextFeatures
from wiesel.nn import Linear
from wiesel.project import serving
from wiesel.project.bundle import load_bundle
from wiesel.project.serving import Limits, prediction_app

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")

GOLD = np.arange(40) % 2
VOTES = ws.VoteMatrix.from_dense(np.stack([GOLD, GOLD], axis=1), labels=["ham", "spam"])
TEXTS = [f"{'free prize' if g else 'see you'} {k % 3}x" for k, g in enumerate(GOLD)]
TABLE = {"length": [float(k % 3 + 9 * g) for k, g in enumerate(GOLD)], "sender": ["a", "b"] * 20}


def bundle_of(folder, features, items):
    X = features.fit_transform(items)
    net = Linear(X.shape[1], 2)
    ws.TwoStage(ws.MajorityVote(), net, epochs=1, epoch_size=40).fit(X, VOTES).save(
        folder, features=features
    )
    return load_bundle(folder)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return bundle_of(tmp_path_factory.mktemp("m") / "m", TextFeatures(min_count=1), TEXTS)


@pytest.fixture
def client_of(bundle):
    """Clients of applications that are started, and stopped at the end."""
    from starlette.testclient import TestClient

    started = []

    def make(used=bundle, **options):
        client = TestClient(prediction_app(used, **options))
        client.__enter__()
        started.append(client)
        return client

    yield make
    for client in started:
        client.__exit__(None, None, None)


def test_rows_are_answered_as_the_bundle_predicts_them(bundle, client_of):
    client = client_of()
    rows = [{"id": k, "text": text} for k, text in enumerate(TEXTS)]
    answer = client.post("/predict", json={"rows": rows})
    assert answer.status_code == 200
    found = answer.json()["predictions"]
    assert [one["id"] for one in found] == list(range(40))
    assert [one["prediction"] for one in found] == bundle.predict({"text": TEXTS}).tolist()
    expected = bundle.predict_proba({"text": TEXTS})[:, 1]
    assert np.allclose([one["proba"]["spam"] for one in found], expected, atol=1e-6)


def test_a_bad_row_does_not_spoil_the_others(client_of):
    rows = [{"text": "free"}, {"text": None}, {"txt": "a"}, 3, {"text": 5}]
    found = client_of().post("/predict", json={"rows": rows}).json()["predictions"]
    assert ["error" in one for one in found] == [False, True, True, True, True]


def test_requests_that_cannot_be_answered_are_refused_with_a_reason(client_of):
    client = client_of(limits=Limits(rows=2, megabytes=0.001))
    wrong = [
        ({"json": {"rows": []}}, 400, "at least one row"),
        ({"json": [1]}, 400, "at least one row"),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "not JSON"),
        ({"content": b"[" * 900, "headers": {"content-type": "application/json"}}, 400, "not JSON"),
        ({"content": b"{}"}, 415, "Content-Type"),
        ({"json": {"rows": [{"text": "a"}] * 3}}, 413, "may have 2 rows"),
        ({"json": {"rows": [{"text": "a" * 2000}]}}, 413, "may have 0.001 MB"),
    ]
    for request, status, words in wrong:
        answer = client.post("/predict", **request)
        assert (answer.status_code, words in answer.json()["error"]) == (status, True), words
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.get("/predict").status_code == 405


def test_requests_at_the_same_time_share_batches(bundle, client_of, monkeypatch):
    sizes, predict, free = [], serving.predict_records, threading.Event()

    def slow(used, records):
        sizes.append(len(records))
        free.wait(60)
        return predict(used, records)

    monkeypatch.setattr(serving, "predict_records", slow)
    client, answers = client_of(), {}

    def ask(k):
        answers[k] = client.post("/predict", json={"rows": [{"text": TEXTS[k]}]}).json()

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(12)]
    threads[0].start()
    while not sizes:
        time.sleep(0.01)
    for thread in threads[1:]:
        thread.start()
    metrics = ""
    while "wiesel_waiting 11" not in metrics:
        metrics = client.get("/metrics").text
    free.set()
    for thread in threads:
        thread.join()
    assert sum(sizes) == 12
    assert len(sizes) == 2
    expected = bundle.predict({"text": TEXTS[:12]})
    assert [answers[k]["predictions"][0]["prediction"] for k in range(12)] == expected.tolist()


def test_who_waits_too_long_is_told_and_the_server_goes_on(client_of, monkeypatch):
    free, predict = threading.Event(), serving.predict_records

    def stuck(used, records):
        free.wait(60)
        return predict(used, records)

    monkeypatch.setattr(serving, "predict_records", stuck)
    client = client_of(limits=Limits(seconds=0.05, waiting=1))
    answer = client.post("/predict", json={"rows": [{"text": "a"}]})
    assert (answer.status_code, answer.json()["error"]) == (504, "No answer within 0.05 seconds.")
    free.set()
    monkeypatch.setattr(serving, "predict_records", predict)
    assert client.get("/health").json() == {"status": "ok"}


def test_an_error_while_predicting_is_one_answer(client_of, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    from starlette.testclient import TestClient

    client = client_of()
    quiet = TestClient(client.app, raise_server_exceptions=False)
    monkeypatch.setattr(serving, "predict_records", broken)
    quiet.portal = client.portal
    assert quiet.post("/predict", json={"rows": [{"text": "a"}]}).status_code == 500
    monkeypatch.undo()
    assert client.post("/predict", json={"rows": [{"text": "a"}]}).status_code == 200


def test_a_token_is_needed_for_all_but_health(client_of):
    client = client_of(token="secret")
    assert client.get("/health", headers={"host": "any"}).status_code == 200
    for path in ("/metrics", "/model", "/", "/openapi.json"):
        assert client.get(path).status_code == 401
        good = client.get(path, headers={"authorization": "Bearer secret", "host": "any"})
        assert good.status_code == 200
    wrong = client.post("/predict", json={}, headers={"authorization": "Bearer sécret".encode()})
    assert wrong.status_code == 401


def test_without_a_token_only_this_machine_is_answered(client_of):
    client = client_of()
    for host in ("127.0.0.1:8340", "localhost", "[::1]:8340", "[::1]"):
        assert client.get("/health", headers={"host": host}).status_code == 200, host
    for headers in ({"host": "evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = client.post("/predict", json={"rows": [{"text": "a"}]}, headers=headers)
        assert answer.status_code == 403


def test_the_interface_describes_itself(bundle, client_of, tmp_path):
    client = client_of()
    about = client.get("/model").json()
    assert about["labels"] == ["ham", "spam"]
    assert about["columns"] == {"text": "string"}
    assert about["sha256"] == bundle.manifest["sha256"]
    schema = client.get("/openapi.json").json()
    body = schema["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["properties"]["rows"]["items"]["required"] == ["text"]
    page = client.get("/").text
    assert "POST /predict" in page
    assert "http://" not in page
    assert "https://" not in page
    features = TabularFeatures(numeric=["length"], categorical=["sender"])
    table = client_of(bundle_of(tmp_path / "table", features, TABLE))
    assert table.get("/model").json()["columns"] == {"length": "number", "sender": "string"}
    rows = [{"length": 9, "sender": "b"}, {"length": "9", "sender": "b"}]
    found = table.post("/predict", json={"rows": rows}).json()["predictions"]
    assert ["error" in one for one in found] == [False, True]


def test_metrics_count_requests_rows_and_classes(client_of):
    client = client_of()
    client.post("/predict", json={"rows": [{"text": "free prize"}, {"text": ""}]})
    client.post("/predict", content=b"x")
    lines = client.get("/metrics").text.splitlines()
    assert 'wiesel_requests_total{status="200"} 1' in lines
    assert 'wiesel_requests_total{status="415"} 1' in lines
    assert "wiesel_row_errors_total 1" in lines
    assert any(line.startswith("wiesel_predictions_total{class=") for line in lines)
    assert 'wiesel_request_seconds_bucket{le="+Inf"} 2' in lines
    assert json.loads(lines[-1].split()[-1]) == 2
