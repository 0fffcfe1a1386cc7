"""`wiesel evaluate`: covered and uncovered items, and two models on the same items."""

import pytest

from tiny_project import run_wiesel, tiny_project

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny project after a run, with a second model beside the first."""
    tiny, wiesel = tiny_project(tmp_path_factory.mktemp("evaluate")), run_wiesel
    for method, name in (("majority_vote", "first"), ("snorkel", "second")):
        assert wiesel("run", tiny, "--method", method).exit_code == 0
        (tiny / "out/model").rename(tiny / name)
    votes = ("--lfs", tiny / "lfs.py", "--labels", "billing,technical", "-o", tiny / "v.parquet")
    assert wiesel("apply", tiny / "test.csv", *votes, "--id", "id").exit_code == 0
    return tiny


def test_covered_and_uncovered_items_are_judged_apart(trained, wiesel, wiesel_json):
    words = ("evaluate", trained / "first", trained / "test.csv", "--votes", trained / "v.parquet")
    report = wiesel_json(*words)["report"]
    sizes = [report[part]["n_items"] for part in ("covered", "uncovered")]
    # Of six texts in turn, "my bill has an error" and "I cannot log in" get no vote: 4 of 12.
    assert sizes == [8, 4]
    assert "covered (8)" in wiesel(*words).stdout


def test_rows_that_the_votes_do_not_know_are_refused(trained, wiesel, tmp_path):
    """They would count as items without a vote, which is something else."""
    rows = (trained / "test.csv").read_text()
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(rows.replace("t3,", "x3,").replace("t7,", "x7,"))
    votes = ("--votes", trained / "v.parquet")
    result = wiesel("evaluate", trained / "first", renamed, *votes)
    assert result.exit_code == 1
    assert "v.parquet has no votes on 2 of the 12 items, such as 'x3', 'x7'" in result.stderr
    part = tmp_path / "part.csv"
    part.write_text("\n".join(rows.splitlines()[:7]))
    assert "covered (4)" in wiesel("evaluate", trained / "first", part, *votes).stdout


def test_votes_without_ids_on_rows_with_ids_are_refused_with_the_cure(trained, wiesel, tmp_path):
    votes = ("--lfs", trained / "lfs.py", "--labels", "billing,technical")
    file = tmp_path / "plain.parquet"
    assert wiesel("apply", trained / "test.csv", *votes, "-o", file).exit_code == 0
    result = wiesel("evaluate", trained / "first", trained / "test.csv", "--votes", file)
    assert result.exit_code == 1
    assert "no votes on 12 of the 12 items" in result.stderr
    assert "its ids look like '0'" in " ".join(result.stderr.split())


def test_two_models_are_compared_on_the_same_items(trained, wiesel, wiesel_json):
    words = ("evaluate", trained / "first", trained / "test.csv", "--against", trained / "second")
    paired = wiesel_json(*words)["paired"]
    assert 0 < paired["p_value"] <= 1
    assert set(paired["differences"]) >= {"accuracy", "f1"}
    assert "McNemar" in wiesel(*words).stdout


def test_votes_and_models_that_do_not_belong_are_refused(trained, wiesel, tmp_path):
    words = ("evaluate", trained / "first", trained / "test.csv")
    assert "There is no file" in wiesel(*words, "--votes", tmp_path / "no.parquet").stderr
    assert "is not a saved model" in wiesel(*words, "--against", tmp_path / "no").stderr
    (tmp_path / "new.csv").write_text("text,label\nthe invoice,billing\n")
    short = ("evaluate", trained / "first", tmp_path / "new.csv", "--votes", trained / "v.parquet")
    result = wiesel(*short)
    assert result.exit_code == 1
    assert "votes on 12 items and there are 1 rows" in result.stderr
