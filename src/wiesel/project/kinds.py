"""What the kinds of tasks mean for a project: rows, votes, figures, files and the report.

The pipeline, the cache of models and the commands know this interface only. `one_label.py`,
`multilabel.py` and `spans.py` fill it in.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.compare import Judged
from wiesel.io import FilePath, Split, matching_files
from wiesel.io.files import table_format
from wiesel.labels import ABSTAIN
from wiesel.project.bundle import Bundle, data_facts
from wiesel.project.insights import leak_findings
from wiesel.project.rows import ProjectRows, find_item, part_of
from wiesel.project.settings import Project
from wiesel.project.vectors import Vectors, check_inputs, make_vectors, raw_inputs, rows_of_arrays
from wiesel.tables import Gold
from wiesel.tasks import task_of

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome
    from wiesel.project.training import Trained, TrainingSet

__all__ = ["RESAMPLES", "GoldFile", "OneItem", "ProjectKind", "kind_of", "kind_of_task"]

RESAMPLES = 1000
"""How many resamples the intervals of reports are computed from."""


class OneItem(NamedTuple):
    """One item of a project: its split, its place there, its row, and the split with it alone."""

    split: str
    place: int
    row: dict[str, Any]
    alone: Any


class GoldFile(NamedTuple):
    """Items of a file with gold labels, for a saved model."""

    rows: Any
    """The table; None for arrays and documents."""
    inputs: Any
    gold: Any


class ProjectKind(ABC):
    """What a kind of task means for a project. It has no state: all comes from the arguments."""

    task: ClassVar[str]
    """The kind of task (`wiesel.tasks`)."""
    best_by: ClassVar[str]
    """The metric that decides which method is best."""
    best_in_words: ClassVar[str]
    """What that metric is called in a sentence."""
    items: ClassVar[str] = "items"
    """What the rows are called."""
    classes: ClassVar[str] = "labels"
    """What the classes are called."""
    compares_models: ClassVar[bool] = False
    """Whether `wiesel evaluate` compares two models, and takes votes and arrays."""
    networks: ClassVar[int | None] = None
    """How many networks a baseline averages; None averages as many as the committee has."""

    def check(self, project: Project) -> None:  # noqa: B027 - nothing is refused by default
        """Refuse settings that such a project cannot use."""

    def check_file(self, path: FilePath) -> None:
        """Refuse a file of rows that does not exist, or has another extension than tables."""
        table_format(matching_files(path)[0])

    @abstractmethod
    def read(self, project: Project, lfs: Any = None) -> ProjectRows:
        """Return the rows; `lfs` are the labeling functions, if they are loaded already."""

    def with_labels_of_people(self, project: Project, rows: ProjectRows) -> ProjectRows:
        """Return the rows with the labels from the workbench."""
        return rows

    def check_inputs(self, project: Project, rows: ProjectRows) -> None:
        """Refuse rows that the features cannot read, before any slow step."""
        check_inputs(project, rows.splits)

    @abstractmethod
    def described_votes(self, votes: Any) -> str:
        """Return how many votes there are on the training rows."""

    def warning(self, votes: Any) -> str:
        """Return what makes the training votes useless; empty if nothing."""
        return ""

    def find(self, splits: Mapping[str, Any], item: str) -> OneItem:
        """Return the item with an id; see `find_item`."""
        name, place = find_item(splits, item)
        row = splits[name].rows.row(place, named=True)
        return OneItem(name, place, row, part_of(splits[name], [place]))

    def vectors(self, project: Project, rows: ProjectRows, votes: Any, cache: Path) -> Vectors:
        """Return the end-model inputs of every split; votes on the training rows choose them."""
        return make_vectors(project, rows.splits, cache, task_of(rows.labels).matrices(votes))

    def one_input(self, bundle: Bundle, one: OneItem) -> Any:
        """Return what a saved model reads of one item."""
        note = bundle.manifest["inputs"]
        raw = raw_inputs(note["kind"], note["column"], one.alone)
        return rows_of_arrays(bundle.features.transform(raw), 0)

    # Evaluation of a saved model

    @abstractmethod
    def read_gold(self, bundle: Bundle, data: Path, column: str, gold: Path | None) -> GoldFile:
        """Return the inputs and gold labels of a file; `gold` has those of an array."""

    @abstractmethod
    def evaluated(self, model: Any, found: GoldFile, covered: Any = None) -> Any:
        """Return the report on a model; `covered` are the items with votes, if they are known."""

    # Training

    def validation(self, data: "TrainingSet") -> Any:
        """Return the dev rows as the argument `validation` of `fit`; None without gold."""
        if "dev" not in data.truth:
            return None
        found = (data.vectors.by_split["dev"], data.truth["dev"])
        return found if data.dev_votes is None else (*found, data.dev_votes)

    def known(self, gold: Any) -> npt.NDArray[np.bool_]:
        """Return whether some label of each row is known."""
        cells = np.asarray(gold)
        return np.asarray((cells.reshape(len(cells), -1) != ABSTAIN).any(axis=1))

    def votes_of_people(self, rows: ProjectRows, votes: Any) -> Any:
        """Return the votes on the training rows with labels that are learned as a part of them."""
        return votes

    # Results

    def leaks(self, data: "TrainingSet") -> list[str]:
        """Return sentences on rows in two splits, and on copies in train."""
        column = data.project.features.column
        return [found.sentence for found in leak_findings(self.as_rows(data.splits), column)]

    def as_rows(self, splits: Mapping[str, Any]) -> Mapping[str, Split]:
        """Return the splits as tables."""
        return splits

    def predicted(self, data: "TrainingSet", model: Any, split: str) -> Any:
        """Return what a report judges: by default probabilities of the rows of a split.

        Those of dev rows come from networks that have not learned their labels.
        """
        vectors = data.vectors.by_split[split]
        return model.out_of_fold_proba(vectors) if split == "dev" else model.predict_proba(vectors)

    @abstractmethod
    def report(
        self, data: "TrainingSet", run: "Trained", split: str, proba: Any, n_resamples: int
    ) -> Any:
        """Return the report on a split, from what `predicted` returned."""

    def figures(self, report: Any) -> dict[str, float]:
        """Return the metrics of a report by name; NaN is unknown, and a `Score` has limits."""
        return dict(report.scores())

    def right(self, data: "TrainingSet", run: "Trained", split: str, proba: Any) -> Any:
        """Return whether each row with gold is predicted right, or its part in the figure.

        The figure is `best_by`, and the parts are those of `f1_parts`. None if nothing is known.
        """
        return None

    def can_learn(self, gold: Gold) -> bool:
        """Return whether labels alone can teach a model: some of at least two classes."""
        return len(np.unique(gold.y)) > 1

    def references(
        self, data: "TrainingSet", main: "Trained", split: str
    ) -> list[tuple[Judged, Any]]:
        """Return baselines on a split that need no network, with their reports."""
        return []

    def more_results(
        self,
        data: "TrainingSet",
        first_runs: Mapping[str, Any],
        split: str | None,
    ) -> dict[str, Any]:
        """Return further fields of the `Outcome`.

        `first_runs` are the first run of every method, with its predictions by split; the first is
        the main one.
        """
        return {}

    @abstractmethod
    def about_data(self, outcome: "Outcome") -> dict[str, Any]:
        """Return labels, sizes of splits and votes, for metrics.json."""

    @abstractmethod
    def write(self, outcome: "Outcome", folder: Path) -> None:
        """Write votes, predictions and soft labels."""

    def data_facts(self, data: "TrainingSet") -> dict[str, Any]:
        """Return the file, the number of rows and a fingerprint of every split."""
        return data_facts(data.project, data.splits)

    def reference(self, outcome: "Outcome") -> Mapping[str, Any] | None:
        """Return what the training rows look like, for `wiesel monitor`."""
        return None

    @abstractmethod
    def sections(self, outcome: "Outcome") -> Mapping[str, str]:
        """Return the sections of report.html by title; empty ones are left out."""

    @abstractmethod
    def shown(self, outcome: "Outcome") -> list[str]:
        """Return what the command line prints."""


def kind_of(project: Project) -> ProjectKind:
    """Return what a project's kind of task means for it."""
    return kind_of_task(project.task)


def kind_of_task(task: str) -> ProjectKind:
    """Return what a kind of task means for projects and their files."""
    if task == "spans":
        from wiesel.project.spans import SpansProject

        return SpansProject()
    if task == "several labels":
        from wiesel.project.multilabel import SeveralLabelsProject

        return SeveralLabelsProject()
    from wiesel.project.one_label import OneLabelProject

    return OneLabelProject()
