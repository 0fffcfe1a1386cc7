"""How the options of `wiesel init` were chosen: on dev rows of other draws than the starter's own.

The starter's messages are drawn by a grammar with seed 0. Here they are drawn with seeds 1 to 5;
every setting is trained on each, and judged by the ROC-AUC on the 60 dev rows alone. No test row
of any draw is read, and no row at all of the draw that users get.

    python examples/choose_starter_options.py
"""

import itertools
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from wiesel.errors import WieselWarning
from wiesel.project import read_project
from wiesel.project.pipeline import prepare
from wiesel.project.settings import Project
from wiesel.project.starter import write_starter
from wiesel.project.training import TrainingSet, train_models

DRAWS = (1, 2, 3, 4, 5)
TRAINING: dict[str, dict[str, float]] = {
    "default training": {},
    "40 epochs, lr = 0.003": {"epochs": 40, "lr": 3e-3},
}
WEASEL: dict[str, dict[str, object]] = {
    "the default recipe": {},
    "the paper's recipe": {"recipe": "paper"},
    "the paper's recipe, voting_only, equal_start, tau_2 = 3": {
        "recipe": "paper",
        "voting_only": True,
        "equal_start": True,
        "tau_2": 3.0,
    },
}


def main() -> None:
    """Print the mean ROC-AUC on dev rows of every setting, the best first."""
    scores: dict[str, list[float]] = {}
    for draw in DRAWS:
        with tempfile.TemporaryDirectory() as folder:
            write_starter(Path(folder) / "starter", seed=draw)
            file = Path(folder) / "starter/wiesel.toml"
            project = read_project(file)
            project = replace(project, data=replace(project.data, test=None))
            data = prepare(project, silent).data
            for how, name in itertools.product(TRAINING, WEASEL):
                score = dev_auc(data, TRAINING[how], WEASEL[name])
                scores.setdefault(f"{name}, {how}", []).append(score)
    for name, found in sorted(scores.items(), key=lambda entry: -fmean(entry[1])):
        single = ", ".join(f"{score:.3f}" for score in found)
        print(f"{fmean(found):.4f}  {name}  ({single})")


def dev_auc(data: TrainingSet, training: dict[str, float], options: dict[str, object]) -> float:
    """Return the ROC-AUC of WeaSEL on the dev rows, at the epoch that they choose."""
    project: Project = replace(data.project, training=training, options={"weasel": options})
    cache = project.output_folder / ".cache"
    with warnings.catch_warnings():
        # Some settings collapse; that is what the score is there to show.
        warnings.simplefilter("ignore", WieselWarning)
        run = train_models(replace(data, project=project), ["weasel"], [0], cache, silent)[0]
    return float(run.model.selection_["score"])


def silent(stage: str, text: str) -> None:
    """Say nothing about the stages."""


if __name__ == "__main__":
    main()
