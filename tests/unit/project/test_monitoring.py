"""Monitoring: what is kept of the training rows, and which changes raise an alarm."""

import base64
import json

import numpy as np
import polars as pl
import pytest
from scipy.stats import fisher_exact, ks_2samp

import wiesel as ws
from wiesel.errors import DataError, SavedModelError
from wiesel.features import TabularFeatures, TextFeatures
from wiesel.io import Split
from wiesel.nn import Linear
from wiesel.project import monitoring
from wiesel.project.bundle import Bundle, load_bundle
from wiesel.project.monitoring import Check, monitor, reference_statistics
from wiesel.project.rows import row_keys, row_marks

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")

WORDS = ["bank", "card", "phone", "screen", "refund", "crash", "paid", "app", "hello", "thanks"]


def drawn(n_items: int, seed: int, share: float = 0.5):
    """Rows, the votes of two functions on them, and gold, all drawn from one distribution."""
    rng = np.random.default_rng(seed)
    gold = (rng.random(n_items) < share).astype(int)
    texts = [
        " ".join(rng.choice(WORDS[::2] if g else WORDS[1::2], size=rng.integers(3, 9)))
        for g in gold
    ]
    dense = np.where(rng.random((n_items, 2)) < [0.9, 0.8], gold[:, None], 1 - gold[:, None])
    dense[rng.random((n_items, 2)) < [0.5, 0.2]] = -1
    votes = ws.VoteMatrix.from_dense(dense, ["ham", "spam"], ["first", "second"])
    rows = {"text": texts, "length": gold * 2 + rng.normal(size=n_items),
            "kind": rng.choice(["a", "b", "c"], n_items)}  # fmt: skip
    return pl.DataFrame(rows), votes, gold


def bundle_of(folder, features, column=None) -> Bundle:
    rows, votes, _ = drawn(400, 0)
    X = features.fit_transform(rows if column is None else rows[column])
    net = Linear(X.shape[1], 2)
    model = ws.TwoStage(ws.MajorityVote(), net, epochs=30, lr=0.05, epoch_size=400)
    model.fit(X, votes).save(folder, features=features)
    made = load_bundle(folder)
    known = reference_statistics(made, rows, drawn(300, 1), votes)
    return Bundle(made.model, made.features, made.manifest, json.loads(json.dumps(known)))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return bundle_of(tmp_path_factory.mktemp("m") / "m", TextFeatures(min_count=1), "text")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    features = TabularFeatures(numeric=["length"], categorical=["kind"])
    return bundle_of(tmp_path_factory.mktemp("m") / "m", features)


def named(found):
    return {check.name for check in found.alarms}


@pytest.mark.parametrize("which", ["texts", "table"])
def test_rows_like_those_of_training_raise_no_alarm(which, request):
    bundle = request.getfixturevalue(which)
    rows, votes, gold = drawn(500, 2)
    found = monitor(bundle, rows, votes, gold)
    assert not found.alarms
    groups = {check.group for check in found.checks}
    assert groups == {"features", "predictions", "confidence", "functions", "accuracy"}
    low, high = found.accuracy["interval"]
    assert 0.7 < low < found.accuracy["accuracy"] <= high
    assert found.accuracy["n_items"] == 500
    assert "0 of" in str(found)
    assert "Nothing has changed" in found.to_html()


@pytest.mark.parametrize("which", ["texts", "table"])
def test_at_most_one_sample_in_twenty_raises_a_false_alarm(which, request):
    bundle = request.getfixturevalue(which)
    samples = (drawn(300, seed) for seed in range(1_000, 1_060))
    # `least=0`: the tests alone keep the level, without the smallest change that counts.
    n_alarms = sum(bool(monitor(bundle, *sample, least=0.0).alarms) for sample in samples)
    assert n_alarms <= 3


def test_changes_of_every_kind_are_found(texts):
    rows, votes, gold = drawn(500, 3)
    longer = monitor(texts, rows.with_columns(text=pl.col("text") + " hello hello thanks"))
    assert "words in a text" in named(longer)
    assert "texts with 'hello'" in named(longer)
    new = monitor(texts, rows.with_columns(text=pl.col("text") + " blockchain wallet"))
    assert "share of known words" in named(new)
    empty = rows.with_columns(text=pl.when(pl.int_range(pl.len()) % 4 > 0).then("text"))
    assert "texts that are missing" in named(monitor(texts, empty))
    shares = monitor(texts, drawn(500, 4, share=0.8)[0])
    assert {"rows predicted ham", "rows predicted spam"} <= named(shares)
    silent = ws.VoteMatrix.from_dense(
        np.where(np.arange(500)[:, None] % [2, 1] == 0, votes.dense(), -1),
        votes.labels, votes.voters,
    )  # fmt: skip
    assert named(monitor(texts, rows, silent)) == {"rows with a vote of first"}
    wrong = np.where(votes.dense() < 0, -1, 1 - votes.dense())
    turned = ws.VoteMatrix.from_dense(wrong, votes.labels, votes.voters)
    assert "votes of second that the model agrees with" in named(monitor(texts, rows, turned))
    worse = monitor(texts, rows, gold=np.where(np.arange(500) % 3 == 0, 1 - gold, gold))
    assert named(worse) == {"accuracy"}
    assert "The rows have changed" in worse.to_html()


def test_better_predictions_are_no_alarm(texts):
    reference = json.loads(json.dumps(texts.reference))
    accuracy = next(m for m in reference["measures"] if m["group"] == "accuracy")
    accuracy["count"] = accuracy["n"] // 2
    low = Bundle(texts.model, texts.features, texts.manifest, reference)
    rows, _, gold = drawn(500, 2)
    found = monitor(low, rows, gold=gold)
    assert found.accuracy["at_training"] == pytest.approx(0.5)
    assert found.accuracy["accuracy"] > 0.8
    assert not found.alarms


def test_columns_of_a_table_are_compared(table):
    rows = drawn(500, 5)[0]
    assert named(monitor(table, rows.with_columns(pl.col("length") + 1))) >= {"length"}
    holes = rows.with_columns(length=pl.when(pl.int_range(pl.len()) % 3 > 0).then("length"))
    assert "length missing" in named(monitor(table, holes))
    other = rows.with_columns(
        kind=pl.when(pl.col("kind") == "a").then(pl.lit("z")).otherwise("kind")
    )
    assert {"kind=a", "kind=other"} <= named(monitor(table, other))


def test_small_changes_are_none_however_many_rows_there_are():
    shares = [Check("functions", "a", 0.5, 0.515, 0.015, 1e-30)]
    assert not monitoring._judged(shares, 0.05, 0.02)[0].alarm
    assert monitoring._judged(shares, 0.05, 0.01)[0].alarm


def test_the_level_is_divided_among_groups_and_by_holm():
    ps = {"a": 0.004, "b": 0.008, "c": 0.02, "d": 0.9}
    one = [Check("features", name, 0, 0.5, 0.5, p) for name, p in ps.items()]
    # Holm at .05: .004 <= .05/4, .008 <= .05/3, .02 <= .05/2, .9 > .05.
    assert [c.name for c in monitoring._judged(one, 0.05, 0) if c.alarm] == ["a", "b", "c"]
    two = [*one, Check("confidence", "e", 0, 0.5, 0.5, 0.03)]
    # With two groups each has .025: .004 <= .025/4, .008 <= .025/3, .02 > .025/2; .03 > .025.
    assert [c.name for c in monitoring._judged(two, 0.05, 0) if c.alarm] == ["a", "b"]


def test_p_values_are_those_of_scipy():
    assert monitoring._p_of_shares((3, 40), (12, 50)) == pytest.approx(
        fisher_exact([[3, 37], [12, 38]]).pvalue
    )
    # z = (.5 - .55) / sqrt(.525 * .475 * 2 / 1000) = -2.2388; P = 0.02517.
    assert monitoring._p_of_shares((500, 1000), (550, 1000)) == pytest.approx(0.02517, abs=1e-4)
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=300), rng.normal(0.3, 1, size=200)
    change, p = monitoring._p_of_values(old, new)
    expected = ks_2samp(old, new, method="asymp")
    assert (change, p) == (expected.statistic, expected.pvalue)


def test_what_is_kept_is_small_and_holds_no_row(texts):
    kept = json.dumps(texts.reference)
    assert len(kept) < 100_000
    rows = drawn(400, 0)[0]["text"].to_list()
    assert not any(text in kept for text in rows if len(text.split()) > 2)
    values = next(m["values"] for m in texts.reference["measures"] if "values" in m)
    assert values == sorted(values)


def test_a_model_without_reference_says_so(texts):
    rows = drawn(20, 2)[0]
    with pytest.raises(SavedModelError, match="does not say what its training rows"):
        monitor(Bundle(texts.model, texts.features, texts.manifest), rows)
    with pytest.raises(SavedModelError, match="another format"):
        monitor(Bundle(texts.model, texts.features, texts.manifest, {"format": 9}), rows)
    with pytest.raises(DataError, match="No row can be predicted"):
        monitor(texts, pl.DataFrame({"text": ["", None]}))


def test_without_unseen_rows_predictions_are_not_compared(texts):
    rows, votes, _ = drawn(400, 0)
    bundle = Bundle(texts.model, texts.features, texts.manifest)
    known = reference_statistics(bundle, rows, None, votes)
    used = Bundle(texts.model, texts.features, texts.manifest, known)
    found = monitor(used, drawn(500, 2)[0])
    assert {check.group for check in found.checks} == {"features"}
    assert "there were no test rows in training" in found.notes[0]
    assert "give --lfs or --votes" in found.notes[1]


def test_of_many_training_rows_a_part_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame(
        {"id": [f"r{k}" for k in range(90)], "text": [f"row {k}" for k in range(90)]}
    )
    splits = {
        name: Split(part, np.full(len(part), -1))
        for name, part in (("train", rows[:60]), ("dev", rows[60:]), ("test", rows[:5]))
    }
    n_known = {}
    for most in (1_000, 30):
        monkeypatch.setattr(monitoring, "_MOST_MARKS", most)
        stored = monitoring.learned_marks(splits, "text")
        numbers = np.frombuffer(base64.b64decode(stored), "<u8")
        known = row_marks(row_keys(rows, rows["id"], "text")).is_in(pl.Series(numbers).implode())
        n_known[most] = int(known[:60].sum()), int(known[60:].sum())
    assert n_known == {1_000: (60, 30), 30: (20, 10)}
