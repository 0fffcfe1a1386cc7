"""Crowd answers in, labels and workers out: in Python and at the command line."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from wiesel import DawidSkene, LabelSpace, MajorityVote, OneCoin, VoteMatrix, aggregate
from wiesel.analysis.crowd import judge_workers
from wiesel.cli.main import app
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import DataError, ParameterError, VoteError
from wiesel.io.answers import find_answer_columns, looks_like_answers
from wiesel.label_models import REGISTRY
from wiesel.report.crowd import crowd_html

CLASSES = ["cat", "dog", "<b>bird</b>"]


@pytest.fixture(scope="module")
def answers() -> pl.DataFrame:
    """80 tasks: good workers, two that are never right, a guesser, a constant one, a copy."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 3, 80)
    wrong = (gold + rng.integers(1, 3, 80)) % 3

    def worker(accuracy: float) -> np.ndarray:
        return np.where(rng.random(80) < accuracy, gold, (gold + rng.integers(1, 3, 80)) % 3)

    columns = {f"good {k}": worker(0.75 + 0.03 * k) for k in range(6)}
    columns |= {"liar 1": (gold + 1) % 3, "liar 2": wrong, "guesser": rng.integers(0, 3, 80)}
    columns |= {"constant": np.ones(80, dtype=int), "<i>first</i>": worker(0.7)}
    columns["thief"] = columns["<i>first</i>"]
    rows = [
        (f"task {i}", name, CLASSES[vote])
        for name, said in columns.items()
        for i, vote in enumerate(said)
    ]
    return pl.DataFrame(rows, schema=["question", "workerId", "answer"], orient="row")


@pytest.mark.parametrize("method", [m for m in REGISTRY if not REGISTRY[m].cls.reads_order])
def test_every_method_flags_workers_that_are_never_right(answers, method):
    found = aggregate(answers, method=method).workers
    flags = dict(found.select("worker", "flag").rows())
    assert flags["liar 1"] == flags["liar 2"] == "adversary"
    assert flags["guesser"] == flags["constant"] == "spammer"
    assert flags["thief"] == flags["<i>first</i>"] == "copy"
    assert {flags[f"good {k}"] for k in range(6)} == {""}
    assert set(found["worker"].head(2)) == {"liar 1", "liar 2"}
    known = found.filter(pl.col("worker") == "liar 1")
    assert known["low"][0] <= known["accuracy"][0] <= known["high"][0] < 0.4


def test_two_perfect_workers_are_no_copies():
    rows = [(i, name, "ab"[i % 2]) for i in range(40) for name in ("ann", "bob", "eve")]
    table = pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row")
    assert aggregate(table).workers["flag"].to_list() == ["", "", ""]


def test_few_answers_for_a_common_class_do_not_make_a_spammer():
    # Nine of ten items are "no". Workers are right in 95 %; most answer 16 items, so some of them
    # never say "yes". One worker says "no" to everything, 600 times: that is evidence.
    rng = np.random.default_rng(1)
    gold = (rng.random(600) < 0.1).astype(int)
    dense = np.where(rng.random((600, 40)) < 0.95, gold[:, None], 1 - gold[:, None])
    for j in range(5, 39):
        dense[np.setdiff1d(np.arange(600), rng.choice(600, 16, replace=False)), j] = -1
    dense[:, 39] = 0
    found = aggregate(VoteMatrix.from_dense(dense, ["no", "yes"]).to_long()).workers
    flagged = found.filter(pl.col("flag") == "spammer")["worker"].to_list()
    assert flagged == ["voter_39"]


def test_honest_workers_are_no_copies_of_each_other():
    # A fifth of the tasks misleads everybody; good workers then share some mistakes by chance,
    # and some pairs agree on all that both have seen.
    alarms = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        gold, hard = rng.integers(0, 2, 100), rng.random(100) < 0.2
        accuracy = np.where(hard[:, None], 0.4, rng.uniform(0.8, 1, 20))
        dense = np.where(rng.random((100, 20)) < accuracy, gold[:, None], 1 - gold[:, None])
        dense[rng.random((100, 20)) > 0.5] = -1
        votes = VoteMatrix.from_dense(dense, ["a", "b"])
        model = MajorityVote().fit(votes)
        judged = judge_workers(model, votes, model.predict_proba(votes)).frame
        alarms += int((judged["flag"] == "copy").sum())
    assert alarms == 0


def test_labels_have_confidence_answers_and_disagreement():
    table = {
        "task": [1, 1, 1, 2, 2, 3],
        "worker": ["a", "b", "c", "a", "b", "a"],
        "label": [5, 5, 7, 7, 7, None],
    }
    found = aggregate(table, method="majority_vote").labels
    assert found.columns == ["task", "label", "confidence", "answers", "disagreement", "tie"]
    assert found["label"].to_list() == [5, 7, None]
    assert found["answers"].to_list() == [3, 2, 0]
    assert found["confidence"].to_list() == pytest.approx([2 / 3, 1, None])
    assert found["disagreement"].to_list() == pytest.approx([1 / 3, 0, None])


def test_pandas_in_pandas_out(answers):
    pandas = pytest.importorskip("pandas")
    found = aggregate(pandas.DataFrame(answers.to_dict(as_series=False)))
    assert isinstance(found.labels, pandas.DataFrame)
    assert isinstance(found.workers, pandas.DataFrame)
    assert list(found.labels["label"]) == aggregate(answers).labels["label"].to_list()


def test_mistakes_say_what_is_taken_for_what(answers):
    found = aggregate(answers).mistakes
    liar = found.filter(pl.col("worker") == "liar 1")
    assert set(liar.head(3).select("true", "answered").rows()) == {
        ("cat", "dog"),
        ("dog", "<b>bird</b>"),
        ("<b>bird</b>", "cat"),
    }
    assert liar["share"].head(3).min() > 0.8


def test_repeated_answers_are_kept_as_asked():
    table = {"task": [1, 1, 1], "worker": ["ann", "ann", "bob"], "label": ["x", "y", "x"]}
    every = aggregate(table, method="majority_vote")
    assert every.n_repeated == 1
    assert every.votes.voters == ("ann", "bob")
    assert every.votes.counts().tolist() == [[2, 1]]
    assert every.labels.rows() == [(1, "x", pytest.approx(2 / 3), 3, pytest.approx(1 / 3), None)]
    assert "1 repeated answer counts, too" in str(every)
    last = aggregate(table, method="majority_vote", repeated="last")
    assert last.labels["answers"].to_list() == [2]
    assert "Left out because the worker answered again: 1" in str(last)
    first = aggregate(table, method="majority_vote", repeated="first").labels
    assert first["confidence"].to_list() == [1.0]
    with pytest.raises(VoteError, match="more than once"):
        aggregate(table, repeated="refuse")
    with pytest.raises(ParameterError, match="'refuse', 'first', 'last' or 'all'; got 'some'"):
        aggregate(table, repeated="some")


def test_blank_answers_workers_and_items_are_missing_and_counted():
    rows = [("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat")]
    blank = [("t1", "eve", ""), ("t2", "eve", " \t"), ("", "ann", "dog"), ("t2", " ", "dog")]
    table = pl.DataFrame(rows + blank, schema=["task", "worker", "label"], orient="row")
    found = aggregate(table, method="majority_vote")
    assert found.votes.labels.names == ("cat", "dog")
    assert found.votes.voters == ("ann", "bob")
    assert found.votes.ids.tolist() == ["t1", "t2"]
    assert (found.n_answers, found.n_repeated, found.n_incomplete) == (3, 0, 4)
    assert "Left out: 4 rows without task, worker or label" in str(found)


@pytest.mark.parametrize("spellings", [("Cat", "cat"), ("Yes", "yes"), ("1", "1.0")])
def test_classes_that_differ_only_in_their_spelling_are_reported(spellings):
    first, second = spellings
    table = {"task": [1, 1, 2], "worker": ["ann", "bob", "bob"], "label": [first, second, "dog"]}
    found = str(aggregate(table, method="majority_vote"))
    assert f"The classes {first!r}, {second!r} differ only in their spelling" in found
    table["label"] = [first, first, "dog"]
    assert aggregate(table, method="majority_vote").notes() == []


def test_blank_answers_of_a_category_are_missing():
    answers = pl.Series(["x", " ", "y"], dtype=pl.Categorical)
    table = pl.DataFrame({"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": answers})
    assert aggregate(table, method="majority_vote").votes.labels.names == ("x", "y")


def test_nan_among_numbers_is_no_repeated_answer():
    table = pl.DataFrame({"task": [1, 1], "worker": ["a", "b"], "label": [1.0, float("nan")]})
    found = aggregate(table, method="majority_vote", labels=["no", "yes"])
    assert (found.n_repeated, found.n_incomplete) == (0, 1)


def test_a_time_is_not_taken_for_the_item():
    with pytest.raises(DataError, match="which column holds the task"):
        columns_of("time", "worker", "answer")
    assert columns_of("task", "worker", "score").label == "score"


def test_a_repeated_answer_counts_like_that_of_a_worker_with_the_same_confusions(answers):
    """Every worker answers everything twice: the evidence doubles, the confusions stay."""
    once = aggregate(answers, method=DawidSkene(smoothing=0.0, max_iter=1, stop_at_drift=False))
    model = DawidSkene(smoothing=0.0, max_iter=1, stop_at_drift=False)
    twice = aggregate(pl.concat([answers, answers]), method=model)
    assert twice.votes.voters == once.votes.voters
    np.testing.assert_allclose(twice.model.confusions_, once.model.confusions_, atol=1e-6)
    assert twice.workers["answers"].to_list() == (2 * once.workers["answers"]).to_list()
    assert twice.labels["label"].to_list() == once.labels["label"].to_list()


@pytest.mark.parametrize("name", ["snorkel", "triplet"])
def test_methods_that_learn_from_pairs_read_the_shares_of_repeated_answers(answers, name):
    once = aggregate(answers, method=name).proba
    twice = aggregate(pl.concat([answers, answers]), method=name).proba
    np.testing.assert_allclose(twice, once, atol=1e-4)


class TiesOfVotes(OneCoin):
    """A model with the probabilities of a majority vote."""

    def _predict_proba(self, votes):
        return MajorityVote().fit_predict_proba(votes)


def test_ties_go_to_the_class_of_the_workers_who_are_right_more_often():
    """Ann and bob are always right, eve is wrong half of the time; ann and eve tie on the last."""
    truth = ["b", "a"] * 20
    rows = [(task, worker, said) for task, said in enumerate(truth) for worker in ("ann", "bob")]
    rows += [(task, "eve", "ab"[task % 4 < 2]) for task in range(len(truth))]
    rows += [
        ("tie 1", "ann", "b"),
        ("tie 1", "eve", "a"),
        ("tie 2", "ann", "a"),
        ("tie 2", "eve", "b"),
    ]
    table = [dict(zip(("task", "worker", "label"), map(str, row), strict=True)) for row in rows]
    judged = aggregate(table, method=TiesOfVotes())
    assert judged.labels.tail(2)["label"].to_list() == ["b", "a"]
    assert judged.labels.tail(2)["confidence"].to_list() == [0.5, 0.5]
    assert judged.labels.tail(2)["tie"].to_list() == ["a, b", "a, b"]
    assert judged.labels["tie"].drop_nulls().len() == 2
    assert judged.decided_proba.argmax(axis=1).tolist() == judged.best_class.tolist()
    assert np.abs(judged.decided_proba - judged.proba).max() < 1e-9


def test_a_majority_vote_that_ties_has_no_label():
    rows = [("t1", "ann", "a"), ("t1", "bob", "b"), ("t2", "ann", "b"), ("t2", "bob", "b")]
    found = aggregate(crowd("task worker label", *rows), method="majority_vote")
    assert found.labels["label"].to_list() == [None, "b"]
    assert found.labels["tie"].to_list() == ["a, b", None]
    assert found.labels["confidence"].to_list() == [0.5, 1.0]
    assert found.class_shares() == {"a": 0.0, "b": 1.0}
    assert "Ties, which have no label: 1 of 2 items (column tie)" in str(found)
    assert "a, b" in crowd_html(found)


def columns_of(*names, **given):
    return find_answer_columns(pl.DataFrame(schema=list(names)), **given)


def test_columns_are_found_by_name_or_asked_for():
    found = columns_of("INPUT:image", "WorkerId", "OUTPUT:result", "seconds")
    assert found == ("INPUT:image", "WorkerId", "OUTPUT:result")
    assert columns_of("a", "worker", "label").item == "a"
    assert columns_of("a", "b", "c", item="c", voter="a").label == "b"
    assert looks_like_answers(["id", "lf_link", "lf_free"]) is None
    with pytest.raises(DataError, match=r"the task or the worker.*'x', 'y'.*item=..., worker="):
        columns_of("x", "y", "label")
    with pytest.raises(DataError, match=r"no column 'wroker'.*'worker'"):
        columns_of("task", "worker", "label", voter="wroker")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("id text worker label", ("id", "worker", "label")),
        ("text item_id worker label", ("item_id", "worker", "label")),
        ("sentence HITId WorkerId Answer.label", ("HITId", "WorkerId", "Answer.label")),
        ("question task_id worker answer", ("task_id", "worker", "answer")),
        ("text tweet_id worker answer", ("tweet_id", "worker", "answer")),
        ("text task worker answer_time answer", ("task", "worker", "answer")),
        ("text worker label", ("text", "worker", "label")),
        ("id text kind annotator annotation_id created_at", ("id", "annotator", "kind")),
        (
            "HITId HITTypeId Title AssignmentId WorkerId AssignmentStatus Input.text Answer.kind",
            ("HITId", "WorkerId", "Answer.kind"),
        ),
    ],
)
def test_an_id_is_the_item_rather_than_a_text(columns, expected):
    assert columns_of(*columns.split()) == expected
    assert columns_of(*reversed(columns.split())) == expected


def crowd(columns, *rows):
    return pl.DataFrame(rows, schema=columns.split(), orient="row")


def test_a_column_of_texts_is_recognized_by_its_content():
    rows = [("Is this a good film?", "f1", "ann", "y"), ("Is that a good film?", "f2", "ann", "n")]
    found = find_answer_columns(crowd("question film_id worker label", *rows))
    assert found.item == "film_id"


def test_an_id_that_numbers_the_answers_is_no_item():
    rows = [(1, "t1", "ann", "y"), (2, "t1", "bob", "y"), (3, "t2", "ann", "n")]
    assert find_answer_columns(crowd("id task worker label", *rows)).item == "task"
    # Where every item has one answer, an id differs in every row, too.
    assert find_answer_columns(crowd("id task worker label", rows[0], rows[2])).item == "id"


def test_two_items_with_one_text_are_not_merged_in_silence():
    same, other = "the same words", "some other words"
    rows = [(1, same, w, "pos") for w in "abc"] + [(2, same, w, "neg") for w in "abc"]
    # The text is no candidate, so that a single text for all rows says nothing.
    labels = aggregate(crowd("id text worker label", *rows)).labels
    assert labels.select("id", "label").rows() == [(1, "pos"), (2, "neg")]
    rows.append((3, other, "a", "pos"))
    with pytest.raises(DataError, match=r"text 'the same words' has 2.*'id': '1', '2'.*item='id'"):
        aggregate(crowd("id text worker label", *rows))
    assert len(aggregate(crowd("id text worker label", *rows), item="id").labels) == 3
    merged = aggregate(crowd("id text worker label", *rows), item="text", method="majority_vote")
    assert len(merged.labels) == 2


def test_an_item_with_two_texts_is_refused():
    rows = [(1, "one text", "ann", "pos"), (1, "two texts", "bob", "neg")]
    with pytest.raises(DataError, match=r"The id 1 has 2 different values of 'text'"):
        aggregate(crowd("id text worker label", *rows))


def test_rejected_assignments_of_mturk_are_left_out_and_said():
    columns = "HITId AssignmentId WorkerId AssignmentStatus Answer.label Reject"
    rows = [
        ("h1", "1", "ann", "Approved", "cat", ""),
        ("h1", "2", "bob", "Submitted", "cat", None),
        ("h1", "3", "eve", "Rejected", "dog", None),
        ("h1", "4", "sam", "Submitted", "dog", "random answers"),
    ]
    found = aggregate(crowd(columns, *rows), labels=["cat", "dog"])
    assert found.votes.voters == ("ann", "bob")
    assert found.n_rejected == 2
    assert "Left out: 2 rows of assignments that were rejected" in str(found)


def test_blanks_around_names_make_no_other_worker():
    rows = [("t1", " ann", "cat"), ("t2", "ann", "dog "), ("t1 ", "bob", "cat"), ("t2", "Bob", "x")]
    found = aggregate(crowd("task worker label", *rows), method="majority_vote")
    assert found.votes.voters == ("Bob", "ann", "bob")
    assert found.votes.ids.tolist() == ["t1", "t2"]
    assert found.votes.labels.names == ("cat", "dog", "x")
    assert "removed in 3 rows" in str(found)
    assert "The workers 'Bob', 'bob' differ only in their spelling" in str(found)


def test_wrong_methods_and_empty_tables_are_refused_and_models_are_copied(answers):
    with pytest.raises(ParameterError, match="Did you mean 'dawid_skene'"):
        aggregate(answers, method="dawidskene")
    with pytest.raises(DataError, match="no answers"):
        aggregate(answers.head(0))
    table = {"task": [1, 2], "worker": ["ann", "bob"], "label": ["cat", "cat"]}
    with pytest.raises(DataError, match=r"in the column 'label' are 'cat': name all classes"):
        aggregate(table)
    assert aggregate(table, labels=["cat", "dog"]).labels["label"].to_list() == ["cat", "cat"]
    with pytest.raises(DataError, match="no row has a value in all of the columns 'task'"):
        aggregate({**table, "label": [None, None]})
    again = {name: values * 2 for name, values in table.items()}
    with pytest.raises(VoteError, match="repeated='first', 'last' or 'all'"):
        aggregate(again, labels=["cat", "dog"], repeated="refuse")
    own = DawidSkene(max_iter=3)
    assert len(aggregate(answers, method=own).model.evidence_) <= 3
    assert not hasattr(own, "labels_")


def test_the_report_escapes_names_and_needs_no_network(answers):
    page = crowd_html(aggregate(answers), "Answers of <script>")
    assert "<i>first</i>" not in page
    assert "<b>bird</b>" not in page
    assert "&lt;i&gt;first&lt;/i&gt;" in page
    assert "Answers of &lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.index("liar 1") < page.index("good 0")
    assert page.count('<button type="button">') > 15
    assert "aria-sort" in page


def test_the_command_writes_labels_workers_and_a_report(answers, tmp_path):
    answers.write_csv(tmp_path / "answers.csv")
    paths = [str(tmp_path / name) for name in ("labels.csv", "workers.csv", "crowd.html")]
    words = [str(tmp_path / "answers.csv"), "-o", paths[0], "--workers", paths[1]]
    done = CliRunner().invoke(app, ["aggregate", *words, "--html", paths[2], "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["columns"] == {"item": "question", "voter": "workerId", "label": "answer"}
    assert data["workers"][0]["flag"] == "adversary"
    assert "labels" not in data
    assert pl.read_csv(paths[0]).columns[:2] == ["question", "label"]
    assert len(pl.read_csv(paths[1])) == 12
    shown = CliRunner().invoke(app, ["aggregate", words[0]])
    assert "12 workers, 6 of them flagged" in shown.stdout
    assert "Commonest mistakes" in shown.stdout


def test_inspect_reads_answers_without_being_told_the_classes(answers, tmp_path):
    answers.write_csv(tmp_path / "answers.csv")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "answers.csv"), "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["classes"] == sorted(CLASSES)
    assert data["n_voters"] == 12
    assert data["next"].startswith("wiesel aggregate")


def test_inspect_finds_the_columns_of_answers_and_gold_that_aggregate_finds(tmp_path):
    answers, gold = tmp_path / "answers.csv", tmp_path / "gold.csv"
    rows = [("h1", "one", "ann", "x"), ("h1", "one", "bob", "y"), ("h2", "two", " ann", "y")]
    crowd("HITId Input.text WorkerId Answer.label", *rows).write_csv(answers)
    gold.write_text("HITId,truth\nh2,y\nh1,x\n")
    done = CliRunner().invoke(app, ["inspect", str(answers), "--gold", str(gold), "--json"])
    assert done.exit_code == 0, done.output
    voters = {row["voter"]: row["precision"] for row in json.loads(done.stdout)["voters"]}
    assert voters == {"ann": 1.0, "bob": 0.0}
    named = ["inspect", str(answers), "--id", "HITId", "--gold", str(gold)]
    assert CliRunner().invoke(app, named).exit_code == 0


def test_an_item_that_cannot_be_told_is_asked_for_in_the_words_of_the_command_line(tmp_path):
    rows = [("1", "one", "ann", "x"), ("2", "one", "bob", "y"), ("3", "two", "ann", "y")]
    crowd("id text worker label", *rows).write_csv(tmp_path / "answers.csv")
    for verb in ("aggregate", "inspect"):
        done = CliRunner().invoke(app, [verb, str(tmp_path / "answers.csv")])
        assert done.exit_code == 1
        assert "--item id or --item text" in done.stderr
        assert (
            CliRunner().invoke(app, [verb, str(tmp_path / "answers.csv"), "--item", "id"]).exit_code
            == 0
        )


def test_a_folder_of_doccano_is_read_and_ties_do_not_go_back(tmp_path):
    folder, back = tmp_path / "export", tmp_path / "back.jsonl"
    folder.mkdir()
    for name, labels in {"ann": "xx", "bob": "xy"}.items():
        lines = [{"id": k, "text": f"text {k}", "label": [one]} for k, one in enumerate(labels)]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["aggregate", str(folder), "--method", "majority_vote", "-o", str(back)]
    done = CliRunner().invoke(app, [*words, "--format", "doccano"])
    assert done.exit_code == 0, done.output
    assert "Left out because their votes are tied: 1 items." in done.stderr
    written = [json.loads(line) for line in back.read_text().splitlines()]
    assert [(row["id"], row["label"]) for row in written] == [(0, ["x"])]


@pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")
@pytest.mark.parametrize(
    "method", ["dawid_skene", "one_coin", "ordinal_dawid_skene", "mace", "glad"]
)
def test_confidences_of_models_that_trust_independence_are_calibrated(method):
    votes, _ = make_votes(200, 6, 2, seed=0)
    rows = votes.to_long().rename({"voter": "worker"})
    names = votes.labels.names
    assert aggregate(rows, method=method, labels=names).calibration is not None
    assert aggregate(rows, method="majority_vote").calibration is None


def test_confidences_are_reduced_and_labels_are_not():
    # Every third item misleads: nine of ten workers give the same wrong answer.
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 300)
    rates = np.where(np.arange(300) % 3 == 0, 0.1, 0.95)[:, None]
    dense = np.where(rng.random((300, 12)) < rates, gold[:, None], 1 - gold[:, None])
    answers = VoteMatrix.from_dense(dense, ["no", "yes"]).to_long()
    own, found = aggregate(answers, calibrated=False), aggregate(answers)
    known = dict(zip(own.votes.ids.tolist()[:60], np.array(["no", "yes"])[gold[:60]], strict=True))
    told = aggregate(answers, gold=known)
    table = aggregate(answers, gold=pl.DataFrame({"item": list(known), "gold": known.values()}))
    assert own.calibration is None
    assert own.labels["label"].equals(found.labels["label"])
    assert told.labels["label"].equals(found.labels["label"])
    accuracy = (own.best_class == gold).mean()
    sure = [each.labels["confidence"].mean() for each in (own, found, told)]
    assert sure[0] > 0.99 > sure[1] > sure[2]
    assert abs(sure[2] - accuracy) < 0.08
    assert table.calibration == told.calibration
    truth = (dense == gold[:, None]).mean(axis=0)
    frame = told.workers.sort("worker")
    order = np.argsort(own.votes.voters)
    held = (frame["low"].to_numpy() <= truth[order]) & (truth[order] <= frame["high"].to_numpy())
    assert held.all()


def test_workers_that_cannot_be_compared_are_not_trusted():
    table = pl.DataFrame({"task": range(30), "worker": [f"w{k}" for k in range(30)]})
    found = aggregate(table.with_columns(label=pl.Series(["a", "b", "b"] * 10)))
    assert found.labels["confidence"].to_list() == pytest.approx([0.7] * 30)
    assert "Too few answers can be compared (0)" in str(found)
    assert "70 % of the answers are right" in str(found)
    assert found.workers["accuracy"].null_count() == 30


def test_gold_that_names_no_item_is_refused():
    rows = [(i, name, "ab"[i % 2]) for i in range(10) for name in ("ann", "bob")]
    table = pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row")
    with pytest.raises(DataError, match="None of the 10 ids has a gold label"):
        aggregate(table, gold={"x": "a"})


def test_the_command_calibrates_by_gold(answers, tmp_path):
    file, gold = tmp_path / "answers.csv", tmp_path / "gold.csv"
    answers.write_csv(file)
    gold.write_text("question,gold\ntask 0,cat\ntask 1,dog\ntask 2,cat\n")
    done = CliRunner().invoke(app, ["aggregate", str(file), "--gold", str(gold), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["calibration"]
    assert found["dependence"] == 0.4
    assert (found["slope"], found["shift"]) != (1, 0)


def test_agreement_is_printed_by_aggregate_and_inspect(answers, tmp_path):
    file = tmp_path / "answers.csv"
    answers.write_csv(file)
    found = aggregate(answers)
    assert found.agreement.sentence() in str(found)
    assert found.agreement.sentence() in crowd_html(found).replace("&#x27;", "'")
    for verb in ("aggregate", "inspect"):
        said = CliRunner().invoke(app, [verb, str(file)]).output
        assert "Krippendorff's alpha" in " ".join(said.split())
        data = json.loads(CliRunner().invoke(app, [verb, str(file), "--json"]).stdout)
        assert data["agreement"]["alpha"] == pytest.approx(found.agreement.alpha)


def test_ordered_classes_have_a_median_an_expected_number_and_distances():
    said = {"t1": [1, 1, 5], "t2": [3, 4, 5], "t3": [2, 2, 2]}
    rows = [
        {"task": task, "worker": f"w{k}", "rating": number}
        for task, numbers in said.items()
        for k, number in enumerate(numbers)
    ]
    found = aggregate(rows, ordered=True, method="majority_vote", labels=["1", "2", "3", "4", "5"])
    table = found.labels
    assert table.columns[:5] == ["task", "label", "confidence", "median", "expected"]
    assert table["median"].to_list() == [1, 4, 2]
    assert table["expected"].to_list() == pytest.approx([7 / 3, 4.0, 2.0])
    # t1: two answers are the label, one is four of four steps away.
    assert table["disagreement"][0] == pytest.approx(1 / 3)
    assert table["disagreement"][2] == 0
    named = [{**row, "rating": "abcde"[row["rating"] - 1]} for row in rows]
    ranks = LabelSpace(*"abcde", ordered=True)
    letters = aggregate(named, labels=ranks, method="majority_vote").labels
    assert letters["median"].to_list() == ["a", "d", "b"]
    assert letters["expected"].to_list() == pytest.approx([7 / 3, 4.0, 2.0])
    assert "median" not in aggregate(rows, method="majority_vote").labels.columns


@pytest.mark.parametrize("method", ["dawid_skene", "one_coin", "mace", "glad"])
def test_where_no_answers_can_be_compared_the_answer_is_the_label(method):
    # Each item has one answer. EM moved nearly all items into the common class.
    rng = np.random.default_rng(0)
    said = np.where(rng.random(300) < 0.3, "rare", "common")
    table = {"task": list(range(300)), "worker": [f"w{k % 20}" for k in range(300)], "label": said}
    found = aggregate(table, method=method).labels
    assert found["label"].to_list() == said.tolist()
    assert found["confidence"].max() < 0.75
