"""`wiesel compare`: methods on one project, and on several."""

import shutil
from types import SimpleNamespace

import pytest

from wiesel.cli.compare import best
from wiesel.project.pipeline import run_project
from wiesel.project.settings import read_project

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")


@pytest.fixture
def other(tiny):
    """A second project with data of its own: another seed order of the same messages."""
    folder = tiny.with_name("other")
    shutil.copytree(tiny, folder)
    rows = (folder / "train.csv").read_text().splitlines()
    (folder / "train.csv").write_text("\n".join(rows[:31]) + "\n")
    return folder


def test_several_projects_make_one_table(tiny, other, wiesel, wiesel_json):
    words = ("compare", tiny, other, "majority_vote,snorkel", "--seeds", "2")
    answer = wiesel_json(*words)
    runs = [(run["data"], run["method"], run["seed"]) for run in answer["runs"]]
    assert len(runs) == len(set(runs)) == 2 * 2 * 2
    assert answer["on"] == {"tiny": "test", "other": "test"}
    shown = wiesel(*words).stdout
    lines = [line for line in shown.splitlines() if line.startswith((" tiny", " other"))]
    assert [line.split()[:2] for line in lines] == [
        [name, method]
        for name in ("tiny", "other")
        for method in ("majority_vote", "snorkel", "always", "labels", "labels", "majority_vote")
    ]
    assert [row["data"] for row in answer["references"]] == ["tiny"] * 4 + ["other"] * 4
    assert set(answer["verdict"]) == {"tiny", "other"}
    assert f"other: {answer['verdict']['other']}" in shown


def test_one_project_has_intervals_and_no_name_of_the_data(tiny, wiesel, wiesel_json):
    shown, answer = (run("compare", tiny, "majority_vote") for run in (wiesel, wiesel_json))
    assert "95 % intervals" in shown.stdout
    assert shown.stdout.rstrip().endswith(answer["verdict"])
    assert "our votes" in answer["verdict"]
    assert "data" not in answer["runs"][0]


def test_projects_of_one_name_are_told_apart_by_their_folders(tiny, other, wiesel_json):
    for folder in (tiny, other):
        file = folder / "wiesel.toml"
        file.write_text('name = "mails"\n' + file.read_text())
    answer = wiesel_json("compare", tiny, other, "majority_vote")
    assert [run["data"] for run in answer["runs"]] == [str(tiny), str(other)]


def test_a_wrong_project_is_refused_before_the_first_is_trained(tiny, tmp_path, wiesel):
    result = wiesel("compare", tiny, tmp_path / "nowhere", "majority_vote")
    assert result.exit_code == 1
    assert "There is no project" in result.stderr
    assert not (tiny / "out").exists()
    assert wiesel("compare", tiny).exit_code == 2


def test_the_method_to_run_next_is_best_on_average_over_the_data_sets():
    def chosen(**scores):
        return best(
            [
                SimpleNamespace(choice=dict(zip(scores, own, strict=True)))
                for own in zip(*scores.values(), strict=True)
            ]
        )

    assert chosen(weasel=(0.9,), snorkel=(0.6,)) == "weasel"
    # Means over two data sets: 0.7 against 0.75.
    assert chosen(weasel=(0.9, 0.5), snorkel=(0.6, 0.9)) == "snorkel"


def test_methods_are_chosen_on_dev_rows_and_only_without_them_on_test_rows(tiny):
    def choice():
        found = run_project(read_project(tiny))
        reports = found.reports["majority_vote"]
        assert [*found.choice] == ["majority_vote"]
        return found.choice["majority_vote"], reports

    score, reports = choice()
    assert score == float(reports["dev"].accuracy)
    file = tiny / "wiesel.toml"
    file.write_text(file.read_text().replace('dev = "dev.csv"\n', ""))
    score, reports = choice()
    assert score == float(reports["test"].accuracy)
