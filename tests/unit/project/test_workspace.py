"""A project that is worked on: labeling functions change, labels come in, everything follows."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from wiesel import keywords
from wiesel.analysis import Table
from wiesel.analysis.findings import Finding
from wiesel.errors import DataError, ParameterError
from wiesel.guidance import rows_to_label
from wiesel.labels import ABSTAIN
from wiesel.lfs import load_lfs
from wiesel.lfs.engines import local
from wiesel.lfs.text_rules import Keywords
from wiesel.project import workspace
from wiesel.project.insights import with_examples
from wiesel.project.labels import labeled_gold, missing_dev_labels, with_labeled_dev
from wiesel.project.rows import ProjectRows
from wiesel.project.runs import Predictions
from wiesel.project.settings import read_project
from wiesel.project.voting import cast_votes
from wiesel.project.workspace import Workspace
from wiesel.votes import VoteMatrix

RULES = 'lfs = ["lfs.py"]', 'lfs = ["lfs.py", "rules.toml"]'


@pytest.fixture
def space(tiny: Path) -> Workspace:
    toml = tiny / "wiesel.toml"
    toml.write_text(toml.read_text().replace(*RULES))
    return Workspace(tiny)


@pytest.fixture
def empty(tiny: Path) -> Workspace:
    """Rows and classes, no labeling function, no dev rows."""
    toml = tiny / "wiesel.toml"
    text = toml.read_text().replace(RULES[0], 'lfs = ["rules.toml"]')
    toml.write_text(text.replace('dev = "dev.csv"\ntest = "test.csv"\n', ""))
    return Workspace(tiny)


def log_in() -> object:
    return keywords("technical", ["log in"], column="text", name="log_in")


def test_the_timeout_of_a_project_reaches_its_workers(tiny: Path, monkeypatch: pytest.MonkeyPatch):
    class Told(Exception):
        """The timeout, told instead of starting workers."""

    def tell(n_workers: int, timeout: float | None) -> None:
        raise Told(timeout)

    toml = tiny / "wiesel.toml"
    toml.write_text(toml.read_text().replace(RULES[0], f"{RULES[0]}\ntimeout = 7.5"))
    space = Workspace(tiny)
    monkeypatch.setattr(local, "WorkerPool", tell)
    with pytest.raises(Told, match=r"^7\.5$"):
        assert space.votes
    rows = ProjectRows(space.labels, space.splits, {}, load_lfs(tiny / "lfs.py"))
    with pytest.raises(Told, match=r"^7\.5$"):
        cast_votes(space.project, rows, tiny)


def test_a_project_without_labeling_functions_can_be_opened(empty: Workspace):
    assert empty.votes.n_votes == 0
    assert empty.preview is None
    assert empty.score() == {"coverage": 0.0, "lfs": 0.0}
    assert empty.lf_set.read().entries == ()
    with pytest.raises(DataError, match="label a row of each class"):
        empty.suggestions()


def test_a_rule_is_added_votes_and_can_be_undone(space: Workspace):
    before = space.votes.n_votes
    space.accept(log_in())
    assert "log_in" in space.votes.voters
    assert space.votes.n_votes > before
    assert space.lf_set.undo() == "added log_in"
    space.refresh()
    assert space.votes.n_votes == before


def test_rules_are_switched_replaced_and_removed_and_python_is_only_switched(space: Workspace):
    lfs = space.lf_set
    lfs.add(log_in())
    lfs.switch("crash", on=False)
    lfs.replace("log_in", keywords("technical", ["error"], column="text", name="errors"))
    space.refresh()
    assert space.votes.voters == ("money", "errors")
    assert [entry.name for entry in lfs.read().entries if entry.off] == ["crash"]
    lfs.remove("errors")
    lfs.switch("crash", on=True)
    space.refresh()
    assert space.votes.voters == ("money", "crash")
    with pytest.raises(ParameterError, match=r"lfs.py. Change that file in an editor"):
        lfs.remove("money")
    changes = [state.change for state in lfs.history()]
    assert changes == [
        "start",
        "added log_in",
        "switched crash off",
        "changed log_in",
        "removed errors",
        "switched crash on",
    ]


def test_a_prediction_below_one_half_comes_with_the_threshold_that_decided_it(space: Workspace):
    """Nobody should have to wonder why 16 % of a class is that class."""
    proba = np.tile([0.84, 0.16], (40, 1))
    found = Predictions(proba, np.ones(40, dtype=np.int64), "model of run 1", 0.14)
    name = space.labels.names[1]
    (marks,) = space.marks("train", [3], found)
    assert marks.predicted == ((name, "16 % (its threshold is 14 %)"),)
    (sure,) = space.marks("train", [3], found._replace(proba=proba[:, ::-1]))
    assert sure.predicted == ((name, "84 %"),)


def test_undoing_everything_gives_back_the_first_file(space: Workspace):
    lfs = space.lf_set
    lfs.add(log_in())
    lfs.switch("money", on=False)
    while lfs.undo():
        pass
    assert lfs.rules_file.read_text() == ""
    assert len(lfs.history()) == 1


def test_a_change_with_an_editor_is_a_state_of_its_own(space: Workspace):
    space.lf_set.add(log_in())
    file = space.lf_set.rules_file
    file.write_text(file.read_text() + "# by hand\n")
    assert [state.change for state in space.lf_set.history()][-1] == "changed outside"


def test_two_rules_of_one_name_become_two_names(space: Workspace):
    assert space.lf_set.add(log_in()) == "log_in"
    assert space.lf_set.add(log_in()) == "log_in_2"


def test_a_broken_python_file_is_told_beside_the_rules(space: Workspace):
    space.lf_set.add(log_in())
    space.project.path("lfs.py").write_text("def broken(:\n")
    state = space.lf_set.read()
    assert [entry.name for entry in state.entries] == ["log_in"]
    assert "lfs.py, line 1: SyntaxError" in state.problems[0]


def test_a_failing_function_is_told_with_its_row_and_the_others_vote(space: Workspace):
    file = space.project.path("lfs.py")
    file.write_text(file.read_text().replace('"crash" in row["text"]', '"crash" in row["txt"]'))
    space.refresh()
    failure = space.cast.failures.examples("crash")[0]
    assert "KeyError: 'txt'" in failure.reason
    assert "id 'm0'" in failure.item
    assert space.votes.select(["money"]).n_votes > 0


def test_a_rules_file_outside_the_project_is_not_written(tiny: Path):
    toml = tiny / "wiesel.toml"
    toml.write_text(toml.read_text().replace(RULES[0], 'lfs = ["lfs.py", "../rules.toml"]'))
    with pytest.raises(ParameterError, match="outside the project"):
        Workspace(tiny).lf_set.add(log_in())
    assert not (tiny.parent / "rules.toml").exists()


def test_labels_become_gold_suggestions_and_precision(space: Workspace):
    for row, item in enumerate(space.train.ids.head(12)):
        space.store.add(item, ("billing", "technical")[row % 2], "ada")
    space.refresh(labels_only=True)
    assert (space.gold[:12] == np.arange(12) % 2).all()
    assert (space.gold[12:] == -1).all()
    frame = space.summary()
    assert frame["support"].min() > 0
    assert frame["precision"].to_list() == [1.0, 1.0]
    found = space.suggestions(5)
    assert found
    space.refuse(found[0].lf)
    assert found[0].lf not in [each.lf for each in space.suggestions(5)]


def test_a_list_is_not_suggested_again_with_other_words_behind_the_first(space: Workspace):
    for row, item in enumerate(space.train.ids.head(12)):
        space.store.add(item, ("billing", "technical")[row % 2], "ada")
    space.refresh(labels_only=True)
    found = next(each for each in space.suggestions(5) if isinstance(each.lf, Keywords))
    space.refuse(replace(found.lf, keywords=(*found.lf.keywords, "further")))
    assert found.lf not in [each.lf for each in space.suggestions(5)]


def test_who_asks_for_one_suggestion_leaves_more_for_others(tmp_path: Path):
    words = {"ham": ("lunch", "meeting", "family"), "spam": ("prize", "winner", "cash")}
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words[("ham", "spam")[k % 2]], 2)) for k in range(80)]
    pl.DataFrame({"text": texts}).write_csv(tmp_path / "train.csv")
    (tmp_path / "wiesel.toml").write_text(
        'classes = ["ham", "spam"]\n[data]\ntrain = "train.csv"\n'
        '[votes]\nlfs = ["rules.toml"]\n[features]\nn_dimensions = 3\n'
    )
    space = Workspace(tmp_path)
    for row in range(20):
        space.store.add(str(space.train.ids[row]), ("ham", "spam")[row % 2], "ada")
    assert len(space.suggestions(1)) == 1
    assert len(space.suggestions(4)) == 4


def test_rows_that_a_person_has_seen_are_not_offered_again(space: Workspace):
    first = space.to_label(10, "random", "ada").frame["item"].to_list()
    for item in first:
        space.store.add(item, None, "ada")
    space.refresh(labels_only=True)
    second = space.to_label(30, "random", "ada").frame["item"].to_list()
    assert len(second) == 30
    assert not set(first) & set(second)
    assert set(space.to_label(40, "random", "bob").frame["item"]) == set(space.train.ids)


def test_skipped_rows_are_no_labels(space: Workspace, monkeypatch: pytest.MonkeyPatch):
    """They counted as labels of the first class, so other rows seemed known."""
    for item in space.to_label(10, "random", "ada").frame["item"]:
        space.store.add(item, None, "ada")
    space.refresh(labels_only=True)
    seen: list[np.ndarray] = []

    def tell(votes: VoteMatrix, X: np.ndarray, **how: object) -> Table:
        seen.append(how["gold"])
        return rows_to_label(votes, X, **how)

    monkeypatch.setattr(workspace, "rows_to_label", tell)
    space.to_label(8, "recommended", "ada", seed=1)
    assert len(seen[0]) == len(space.train) - 10
    assert (seen[0] == ABSTAIN).all()


def test_of_very_many_rows_some_are_considered_for_labeling(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workspace, "_CONSIDERED", 12)
    considered: list[int] = []

    def tell(votes: VoteMatrix, X: np.ndarray, **how: object) -> Table:
        considered.append(len(votes))
        assert len(X) == len(votes)
        return rows_to_label(votes, X, **how)

    monkeypatch.setattr(workspace, "rows_to_label", tell)
    ids = space.train.ids.cast(pl.String).to_list()
    space.store.add(ids[3], "billing", "bob")
    assert space.features is not None
    found = space.to_label(8, "recommended", "ada", seed=1).frame
    assert considered == [12]
    assert [ids[row] for row in found["row"]] == found["item"].to_list()
    # Drawn from 12 that were drawn from all: bob's label does not count for ada.
    n_random = (found["chosen"] == "random").sum()
    assert found["probability"].drop_nulls().unique().to_list() == [n_random / len(ids)]
    other = space.to_label(8, "recommended", "ada", seed=2).frame
    assert set(other["item"]) != set(found["item"])


def test_random_labels_become_dev_rows_where_the_project_names_none(empty: Workspace):
    for row, item in enumerate(empty.train.ids.head(12)):
        empty.store.add(item, ("billing", "technical")[row % 2], "ada", purpose="evaluate")
    empty.store.add(empty.train.ids[20], "billing", "ada", purpose="learn")
    rows = ProjectRows(empty.labels, empty.splits, {})
    splits = with_labeled_dev(empty.project, rows).splits
    assert splits["dev"].ids.to_list() == empty.train.ids.head(12).to_list()
    assert splits["dev"].gold.tolist() == [0, 1] * 6
    assert labeled_gold(empty.project, empty.train, empty.labels, "learn").sum() == -39


def test_what_the_random_labels_lack_is_said(empty: Workspace):
    def missing() -> str:
        return missing_dev_labels(empty.project, empty.train, empty.labels)

    assert missing() == "0 of at least 10 randomly drawn rows are labeled."
    for item in empty.train.ids.head(10):
        empty.store.add(item, "billing", "ada", purpose="evaluate")
    assert missing() == "All 10 randomly drawn rows with a label are 'billing'."
    rows = ProjectRows(empty.labels, empty.splits, {})
    assert "dev" not in with_labeled_dev(empty.project, rows).splits
    empty.store.add(empty.train.ids[10], "technical", "ada", purpose="evaluate")
    assert missing() == ""


def test_the_example_of_a_finding_is_a_row_with_a_text():
    rows = pl.DataFrame({"id": ["m1", "m2"], "text": [None, "win cash"]})
    both = Finding("uncovered_cluster", "Nobody.", rows=[0, 1])
    assert with_examples(both, rows, "text") == "Nobody. For example, 'm2': win cash"
    assert (
        with_examples(Finding("uncovered_cluster", "Nobody.", rows=[0]), rows, "text") == "Nobody."
    )


def test_labels_of_a_class_that_is_gone_are_told(empty: Workspace):
    empty.store.add("m0", "sales", "ada")
    empty.refresh()
    with pytest.raises(DataError, match=r"'sales'.*not classes of the project"):
        _ = empty.gold


def test_the_score_of_a_state_is_kept_with_it(space: Workspace):
    space.accept(log_in())
    space.lf_set.note(space.score(), space.cast.state)
    figures = space.lf_set.history()[-1].figures
    assert figures["accuracy"] > 0.5
    assert figures["lfs"] == 3


def test_the_verbs_answer_in_words_and_in_json(tiny: Path, wiesel, wiesel_json):
    toml = tiny / "wiesel.toml"
    toml.write_text(toml.read_text().replace(*RULES))
    found = wiesel_json("suggest", tiny, "-n", 3)
    assert 0 < len(found["suggestions"]) <= 3
    accepted = wiesel_json("suggest", tiny, "--accept", 1)["accepted"]
    assert accepted[0] in [lf.name for lf in Workspace(tiny).lf_set.read().voting]
    names = [each["name"] for each in wiesel_json("suggest", tiny, "-n", 5)["suggestions"]][1:3]
    assert wiesel_json("suggest", tiny, "--accept", ",".join(names))["accepted"] == names
    assert set(names) <= {lf.name for lf in Workspace(tiny).lf_set.read().voting}
    wrong = wiesel("suggest", tiny, "--accept", "no_such_rule")
    assert (wrong.exit_code, "no suggestion 'no_such_rule'" in wrong.stderr) == (1, True)
    assert "from 0 on, or names" in wiesel("suggest", tiny, "--accept", "-1").stderr
    rows = wiesel_json("rows-to-label", tiny, "-n", 8)["rows"]
    assert len(rows) == 8
    blamed = wiesel_json("blame", tiny, "--item", "m0", "--without", "money")
    assert set(blamed) >= {"voters", "neighbors", "without"}
    assert "Most influential items" in wiesel("blame", tiny, "--item", "t1").output
    missing = wiesel("blame", tiny, "--item", "m99")
    assert missing.exit_code == 1
    assert "There is no item 'm99'" in missing.output


def test_what_was_labeled_is_used_by_a_run(empty: Workspace, wiesel):
    empty.lf_set.add(keywords("billing", ["invoice", "refund", "bill"], column="text"))
    empty.lf_set.add(keywords("technical", ["crash", "log in"], column="text"))
    for row, item in enumerate(empty.train.ids.head(12)):
        empty.store.add(item, ("billing", "technical")[row % 2], "ada", purpose="evaluate")
    result = wiesel("run", empty.project.folder)
    assert result.exit_code == 0, result.output
    metrics = json.loads((empty.project.output_folder / "metrics.json").read_text())
    assert metrics["items"]["dev"] == 12


def test_a_project_file_of_only_rows_can_be_read(empty: Workspace):
    assert read_project(empty.project.folder).votes.lfs == ("rules.toml",)


def test_two_that_look_at_the_history_at_once_start_it_once(space: Workspace):
    threads = [threading.Thread(target=space.lf_set.history) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [state.change for state in space.lf_set.history()] == ["start"]


def test_what_a_change_made_old_meanwhile_is_not_kept(space: Workspace):
    made = []

    def slow() -> int:
        made.append(len(made))
        if len(made) == 1:
            space.refresh()  # somebody adds a rule while this is being computed
        return made[-1]

    assert space._keep("preview", slow) == 0
    assert not space.has("preview")
    assert space._keep("preview", slow) == 1
    assert space._keep("preview", slow) == 1
    assert space.has("preview")


def test_who_asks_for_labels_does_not_wait_for_features(space: Workspace):
    began, done = threading.Event(), threading.Event()

    def features() -> str:
        began.set()
        assert done.wait(60)
        return "vectors"

    thread = threading.Thread(target=space._keep, args=("vectors", features))
    thread.start()
    assert began.wait(60)
    assert len(space.gold) == len(space.train)
    assert not space.has("vectors")
    done.set()
    thread.join()
    assert space.has("vectors", "gold")


def test_suggestions_need_no_rule_where_dev_rows_have_labels(tiny: Path):
    # Only the dev file has labels: the cold start of a project without rules.
    toml = tiny / "wiesel.toml"
    toml.write_text(toml.read_text().replace(RULES[0], 'lfs = ["rules.toml"]'))
    cold = Workspace(tiny)
    assert (cold.gold == -1).all()
    assert cold.votes.n_votes == 0
    found = cold.suggestions(5)
    assert {each.lf.label for each in found} == {"billing", "technical"}
    assert sum(each.support for each in found) > 0


def test_labels_that_all_training_rows_have_are_the_truth_that_nobody_has_at_work(tiny: Path):
    rows = pl.read_csv(tiny / "train.csv")
    for n_known, n_seen in ((len(rows), 0), (len(rows) - 1, len(rows) - 1)):
        given = ["billing" if place < n_known else None for place in range(len(rows))]
        rows.with_columns(pl.Series("label", given)).write_csv(tiny / "train.csv")
        assert (Workspace(tiny).gold >= 0).sum() == n_seen


def test_there_is_no_preview_before_every_class_is_heard(empty: Workspace):
    empty.accept(keywords("technical", ["crash", "error", "log in"], column="text", name="t"))
    assert (empty.preview, empty.silent_classes()) == (None, ["billing"])
    assert "accuracy" not in empty.score()
    empty.accept(keywords("billing", ["invoice"], column="text", name="b"))
    assert empty.silent_classes() == []
    assert empty.preview is not None


def test_the_effect_of_a_rule_is_what_adding_it_does(space: Workspace):
    for label, found in (("billing", ["invoice"]), ("technical", ["crash"])):
        space.accept(keywords(label, found, column="text"))
    rule = keywords("technical", ["log in", "sync"], column="text", name="more")
    before, effect = space.preview, space.effect(rule)
    covered = space.votes.covered
    space.accept(rule)
    assert effect.gained.tolist() == np.flatnonzero(space.votes.covered & ~covered).tolist()
    is_other = before.proba.argmax(axis=1) != space.preview.proba.argmax(axis=1)
    assert effect.changed.tolist() == np.flatnonzero(is_other).tolist()
    assert effect.n_labeled == len(space.splits["dev"])
    assert -1 <= effect.points[0] <= effect.points[1] <= 1
    # A rule in place of itself changes nothing.
    same = space.effect(rule, replaces="more")
    assert (len(same.gained), len(same.lost), len(same.changed)) == (0, 0, 0)
