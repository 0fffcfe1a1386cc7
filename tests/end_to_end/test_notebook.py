"""Real notebooks, run by a real kernel: what a person sees after each cell."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial" / "tutorial.ipynb"
CELLS = {
    "data": """
import torch
import wiesel
from wiesel.datasets.synthetic import make_features, make_votes

torch.manual_seed(0)  # from some initial weights two epochs collapse, and a warning says so
votes, gold = make_votes(120, n_voters=4, seed=0)
X = make_features(gold, n_features=3)
""",
    "table": "wiesel.summarize(votes, gold=gold)",
    "text": "all(name in str(wiesel.summarize(votes, gold=gold)) for name in votes.voters)",
    "print": "print(wiesel.summarize(votes))",
    "frames": "table = wiesel.summarize(votes)\nlen(table.frame), len(table.to_pandas())",
    "workers": "found = wiesel.aggregate(votes.to_long(), item='item', worker='voter', "
    "label='label')\nfound",
    "trial": "wiesel.try_lfs(wiesel.keywords('spam', ['free'], column='text'), [{'text': 'free'}])",
    "trial as text": "str(wiesel.try_lfs(wiesel.keywords('spam', ['free'], column='text'), "
    "[{'text': 'free'}]))",
    "fit": """
short = {"epoch_size": 640}
model = wiesel.WeaSEL(torch.nn.Linear(3, 2), epochs=2, warm_up=1, **short).fit(X, votes)
""",
    "fit in two stacks": """
three, truth = make_votes(90, n_voters=4, n_classes=3, seed=1)
committee = wiesel.Committee(torch.nn.Linear(3, 3), epochs=1, **short)
_ = committee.fit(make_features(truth, n_features=3), three)
""",
    "fit with gold": """
committee = wiesel.Committee(torch.nn.Linear(3, 2), epochs=9, networks=1, epoch_size=64)
_ = committee.fit(X, votes, validation=(X[:60], gold[:60]))
""",
    "compare": """
quick = {"epochs": 2, "members": 1, "lr": 0.02}
_ = wiesel.compare({"majority_vote": quick, "snorkel": quick}, X, votes, test=(X, gold))
""",
    "silent fit": "model.set_params(progress=False).fit(X, votes).labels_",
    "interrupted fit": """
class Interrupting(torch.nn.Linear):
    calls = 0

    def forward(self, x):
        Interrupting.calls += 1
        if Interrupting.calls == 120:
            raise KeyboardInterrupt
        return super().forward(x)

stopped = wiesel.TwoStage(wiesel.MajorityVote(), Interrupting(3, 2), epochs=30).fit(X, votes)
""",
    "figure": "from wiesel import plots\nplots.agreement(votes)",
    "figure beside pyplot": "import matplotlib.pyplot as plt\nplots.votes_per_voter(votes)",
    "evaluate": "wiesel.evaluate(model, X, gold)",
    "explain": "model.explain(X[0], votes[0])",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each cell put out, by its name; first the tutorial runs, in the same kernel."""
    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbformat.validate(notebook)
    # tests/docs runs the same code to its end; here it is Jupyter that is tried, without training.
    tutorial = notebook.cells
    tutorial = tutorial[: next(k for k, c in enumerate(tutorial) if "Committee(" in c.source)]
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook.cells = [*tutorial, *cells]
    folder = tmp_path_factory.mktemp("notebook")
    client = NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": str(folder)}})
    client.execute()
    shown = [output for cell in tutorial for output in cell.get("outputs", [])]
    named = {name: cell.outputs for name, cell in zip(CELLS, cells, strict=True)}
    return {"tutorial": shown, **named}


def test_the_tutorial_runs(outputs):
    assert "coverage" in "".join(output.get("text", "") for output in outputs["tutorial"])
    assert not [output for output in outputs["tutorial"] if output.output_type == "error"]


@pytest.mark.parametrize("name", ["table", "workers", "trial", "evaluate", "explain"])
def test_a_result_is_shown_once_as_html_and_as_text(outputs, name: str):
    (shown,) = outputs[name]
    assert shown.output_type == "execute_result"
    assert shown.data["text/html"].count("<table") >= (name != "trial")
    assert "text/plain" in shown.data


def test_the_text_of_a_table_is_whole_in_a_notebook(outputs):
    (shown,) = outputs["text"]
    assert shown.data["text/plain"] == "True"
    (printed,) = outputs["print"]
    assert printed.output_type == "stream"
    assert len(printed.text.splitlines()) == 7  # caption, header, rule and four voters


def test_a_trial_is_text_in_a_notebook_too(outputs):
    (shown,) = outputs["trial as text"]
    assert "free" in shown.data["text/plain"]


def test_a_table_gives_its_data(outputs):
    assert outputs["frames"][0].data["text/plain"] == "(4, 4)"


@pytest.mark.parametrize(
    ("name", "epochs"),
    [("fit", "2 epochs"), ("fit in two stacks", "1 epoch"), ("fit with gold", "9 epochs")],
)
def test_fit_shows_one_line_that_ends_cleanly(outputs, name: str, epochs: str):
    (shown,) = outputs[name]
    assert shown.output_type == "display_data"
    assert shown.data["text/plain"].startswith(f"Trained {epochs} in ")
    assert "loss" in shown.data["text/html"]


def test_a_line_for_several_models_names_no_epochs_and_no_losses(outputs):
    (shown,) = outputs["compare"]
    assert re.fullmatch(r"Trained for \d+\.\d s", shown.data["text/plain"])


@pytest.mark.parametrize("name", ["figure", "figure beside pyplot"])
def test_a_figure_is_shown_once_with_and_without_pyplot(outputs, name: str):
    (shown,) = outputs[name]
    assert shown.output_type == "execute_result"
    assert len(shown.data["image/png"]) > 1000


def test_fit_is_silent_when_told(outputs):
    (shown,) = outputs["silent fit"]
    assert shown.output_type == "execute_result"


def test_an_interrupted_fit_says_how_far_it_came(outputs):
    shown, warned = outputs["interrupted fit"]
    assert shown.data["text/plain"].startswith("Stopped after 2 epochs in ")
    assert "ipykernel" in warned.text.split("WieselWarning")[0]  # the user's line, not one of ours
