"""Labels that people gave to rows of a project, used as gold.

An answer is a text in the store: the name of a class, or, as JSON, a list of labels, or a list of
spans. It is read here without torch, for the pages of the workbench.
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Table, count, percent, text
from wiesel.analysis.workers import annotator_agreement
from wiesel.errors import DataError, listed
from wiesel.io import LabelStore, Split
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.project.lf_set import WORKBENCH_FOLDER
from wiesel.project.rows import ProjectRows, part_of
from wiesel.project.settings import ONE_LABEL, SEVERAL_LABELS, SPANS, Project
from wiesel.saving import write_json
from wiesel.spans.tags import Span, SpanLabels
from wiesel.tables import RANDOM, Gold

__all__ = [
    "Answers",
    "answers_for",
    "gold_of",
    "label_store",
    "labeled_gold",
    "missing_dev_labels",
    "people_labels",
    "read_guidelines",
    "with_labeled_dev",
    "write_guidelines",
]

OF_FILE, OF_WORKBENCH = "file", "workbench"
"""How rows were chosen whose labels are in the training file, and those labeled to learn from."""

_GUIDELINES = "guidelines.json"
_FEWEST_DEV = 10
"""With fewer rows than this, no epoch and no threshold is chosen."""


def label_store(project: Project) -> LabelStore:
    """Return the store of a project's labels."""
    return LabelStore(project.folder / WORKBENCH_FOLDER / "labels.sqlite", project.task)


def labeled_gold(project: Project, split: Split, labels: Any, purpose: str | None = None) -> Any:
    """Return what people answered to each row of a split, as gold labels of the project's task.

    It is -1, or None for spans, where nobody did. `purpose` selects only the labels for learning
    (`learn`) or for evaluation (`evaluate`).
    """
    answers = answers_for(project.task, labels)
    path = project.folder / WORKBENCH_FOLDER / "labels.sqlite"
    if not path.is_file():
        return answers.gold(len(split), [], [])
    given = people_labels(label_store(project), answers).drop_nulls("label")
    if purpose is not None:
        given = given.filter(pl.col("purpose") == purpose)
    places = split.ids.cast(pl.String).to_frame("item").with_row_index("row")
    found = places.join(given, on="item", how="inner")
    return answers.gold(len(split), found["row"].to_list(), found["label"].to_list())


def people_labels(store: LabelStore, answers: "Answers") -> pl.DataFrame:
    """Return what people agreed on for each item, as `LabelStore.labels` does."""
    return store.labels(None if store.kind == ONE_LABEL else answers.joined)


def gold_of(
    project: Project,
    train: Split,
    labels: Any,
    dev_is_random_part: bool = False,
    of_file: Any = None,
) -> Gold:
    """Return the labels of the training rows that models learn, and how their rows were chosen.

    They are those that people gave in the workbench, where rows to evaluate on are drawn at random,
    and those of a column of labels that some of the rows have (`of_file`, by default those of the
    split). A column that all rows have is the truth to compare with: only the method `supervised`
    learns from it. Rows drawn at random are left out if they are the dev rows, which models learn
    anyway.
    """
    answers = answers_for(project.task, labels)
    learned = labeled_gold(project, train, labels)
    random = answers.known(labeled_gold(project, train, labels, "evaluate"))
    if dev_is_random_part:
        learned = answers.replaced(learned, random)
    chosen = np.where(random, RANDOM, OF_WORKBENCH).astype(object)
    of_file = train.gold if of_file is None else of_file
    in_file = answers.known(of_file)
    if not in_file.all():
        new = in_file & ~answers.known(learned)
        learned = answers.replaced(learned, new, of_file)
        chosen[new] = OF_FILE
    return Gold(learned, chosen=chosen.tolist())


def missing_dev_labels(project: Project, train: Split, labels: LabelSpace) -> str:
    """Return what the labels for evaluation lack before they are dev rows; empty if nothing."""
    gold = labeled_gold(project, train, labels, "evaluate")
    known = np.flatnonzero(answers_for(project.task, labels).known(gold))
    if len(known) < _FEWEST_DEV:
        return f"{len(known)} of at least {_FEWEST_DEV} randomly drawn rows are labeled."
    if project.task == ONE_LABEL and len(np.unique(gold[known])) < 2:
        name = labels.names[gold[known[0]]]
        return f"All {len(known)} randomly drawn rows with a label are {name!r}."
    return ""


def with_labeled_dev(project: Project, rows: ProjectRows) -> ProjectRows:
    """Return the rows, with dev rows from the workbench if the project names no dev file.

    The dev rows are the training rows that were drawn at random for evaluation and labeled. They
    also remain among the training rows.
    """
    train = rows.splits["train"]
    if "dev" in rows.splits or missing_dev_labels(project, train, rows.labels):
        return rows
    gold = labeled_gold(project, train, rows.labels, "evaluate")
    known = np.flatnonzero(answers_for(project.task, rows.labels).known(gold))
    of_dev = gold[known]
    dev = part_of(train, known)
    if project.task == ONE_LABEL:
        dev = replace(dev, gold=of_dev)
    others = {name: own for name, own in rows.splits.items() if name != "train"}
    splits = {"train": train, "dev": dev, **others}
    return replace(rows, splits=splits, truth={**rows.truth, "dev": of_dev})


def read_guidelines(project: Project) -> dict[str, str]:
    """Return what people are told about each class when they label; empty without any."""
    file = project.folder / WORKBENCH_FOLDER / _GUIDELINES
    try:
        found = json.loads(file.read_bytes()) if file.is_file() else {}
    except ValueError:
        raise DataError(f"{file} is not JSON: mend or remove it.") from None
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def write_guidelines(project: Project, guidelines: Mapping[str, str]) -> None:
    """Store what people are told about each class when they label."""
    folder = project.folder / WORKBENCH_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write_json({k: text for k, text in guidelines.items() if text.strip()}, folder / _GUIDELINES)


class Answers(ABC):
    """The answers to the rows of one kind of task."""

    in_bulk: ClassVar[bool] = True
    """Whether many rows can have the same answer."""

    def __init__(self, labels: Any) -> None:
        self.labels = labels

    @abstractmethod
    def written(self, answer: Any) -> str:
        """Return an answer as a text; equal answers have equal texts."""

    @abstractmethod
    def read(self, text: str) -> Any:
        """Return the answer that a text holds."""

    @abstractmethod
    def joined(self, texts: Sequence[str]) -> str | None:
        """Return what most of several people say; None if there is no majority."""

    @abstractmethod
    def gold(self, n_rows: int, rows: Sequence[int], texts: Sequence[str]) -> Any:
        """Return gold labels as the task reads them; rows without an answer are unknown."""

    @abstractmethod
    def known(self, gold: Any) -> npt.NDArray[np.bool_]:
        """Return whether the answer to each row is known."""

    def replaced(self, gold: Any, rows: npt.NDArray[np.bool_], other: Any = ABSTAIN) -> Any:
        """Return gold in which some rows are those of other gold, or unknown."""
        changed = gold.copy()
        changed[rows] = other if np.ndim(other) == 0 else other[rows]
        return changed

    @abstractmethod
    def labels_in(self, text: str) -> list[str]:
        """Return the labels that an answer names, once for each time."""

    @abstractmethod
    def shown(self, text: str) -> str:
        """Return an answer as people read it."""

    def choices(self, texts: Sequence[str]) -> list[str]:
        """Return the answers to choose from where people gave these: one of theirs."""
        return list(dict.fromkeys(texts))

    def agreement(self, answers: pl.DataFrame) -> Table:
        """Return a row for each pair of people who answered the same items."""
        return annotator_agreement(answers, self.labels)

    def _unknown(self, names: Iterable[str]) -> DataError:
        return DataError(
            f"The labels in the workbench's store name {sorted(set(names))}, which are not classes "
            f"of the project ({', '.join(self.labels)}). Were its classes renamed?"
        )


class ClassAnswers(Answers):
    """The name of one class."""

    labels: LabelSpace

    def written(self, answer: str) -> str:
        """Return the name."""
        return answer

    def read(self, text: str) -> str:
        """Return the name."""
        if text not in self.labels:
            raise self._unknown([text])
        return text

    def joined(self, texts: Sequence[str]) -> str | None:
        """Return the class that more people name than any other."""
        first, *others = Counter(texts).most_common(2)
        return None if others and others[0][1] == first[1] else first[0]

    def gold(self, n_rows: int, rows: Sequence[int], texts: Sequence[str]) -> Any:
        """Return class indices, -1 where unknown."""
        unknown = [name for name in dict.fromkeys(texts) if name not in self.labels]
        if unknown:
            raise self._unknown(unknown)
        gold = np.full(n_rows, ABSTAIN, dtype=np.int64)
        gold[list(rows)] = self.labels.indices(list(texts))
        return self.labels.from_indices(gold)

    def known(self, gold: Any) -> npt.NDArray[np.bool_]:
        """Return whether the class of each row is known."""
        return np.asarray(gold) != ABSTAIN

    def choices(self, texts: Sequence[str]) -> list[str]:
        """Return all classes."""
        return list(self.labels)

    def labels_in(self, text: str) -> list[str]:
        """Return the class."""
        return [text]

    def shown(self, text: str) -> str:
        """Return the name."""
        return text


class LabelSetAnswers(Answers):
    """Any number of labels, or none of them.

    >>> answers = LabelSetAnswers(MultiLabelSpace("sports", "money"))
    >>> answers.written({"money", "sports"}), answers.shown("[]")
    ('["sports", "money"]', 'none')
    >>> answers.joined(['["sports"]', '["sports", "money"]', '["sports"]'])
    '["sports"]'
    """

    labels: MultiLabelSpace

    def written(self, answer: Iterable[str]) -> str:
        """Return the labels as JSON, in the order of the project."""
        return json.dumps(self.labels.checked_names(list(answer), "The answer"), ensure_ascii=False)

    def read(self, text: str) -> tuple[str, ...]:
        """Return the labels in the order of the project."""
        names = _json(text)
        if not isinstance(names, list) or any(name not in self.labels for name in names):
            raise self._unknown(names if isinstance(names, list) else [text])
        return self.labels.checked_names(names, "The answer")

    def joined(self, texts: Sequence[str]) -> str | None:
        """Return the labels that more than half of the people name; None if it is half for one."""
        named = Counter(name for text in texts for name in self.read(text))
        if any(2 * times == len(texts) for times in named.values()):
            return None
        return self.written(name for name, times in named.items() if 2 * times > len(texts))

    def gold(self, n_rows: int, rows: Sequence[int], texts: Sequence[str]) -> Any:
        """Return 1 for a label that is present, 0 for one that is not, -1 if it is unknown."""
        gold = np.full((n_rows, len(self.labels)), ABSTAIN, dtype=np.int64)
        sets = [self.read(text) for text in texts]
        if sets:
            gold[list(rows)] = self.labels.presence(sets)
        return gold

    def known(self, gold: Any) -> npt.NDArray[np.bool_]:
        """Return whether all labels of each row are known."""
        return np.asarray((np.asarray(gold) != ABSTAIN).all(axis=1))

    def labels_in(self, text: str) -> list[str]:
        """Return the labels."""
        return list(self.read(text))

    def shown(self, text: str) -> str:
        """Return the labels, separated by commas."""
        return ", ".join(self.read(text)) or "none"

    def agreement(self, answers: pl.DataFrame) -> Table:
        """Return a row for each pair of people; every label of an item is one question."""
        questions = []
        for row in answers.drop_nulls("label").iter_rows(named=True):
            there = self.read(row["label"])
            for label in self.labels:
                item = json.dumps([row["item"], label])
                said = "yes" if label in there else "no"
                questions.append({"item": item, "person": row["person"], "label": said})
        schema = dict.fromkeys(("item", "person", "label"), pl.String)
        return annotator_agreement(pl.DataFrame(questions, schema), LabelSpace("no", "yes"))


class SpanAnswers(Answers):
    r"""The spans of a text: (start, end, label) in characters; they do not overlap.

    >>> answers = SpanAnswers(SpanLabels(("PER",)))
    >>> answers.written([(8, 11, "PER"), (0, 3, "PER")])
    '[[0, 3, "PER"], [8, 11, "PER"]]'
    >>> answers.read("[[0, 3, \"PER\"]]")
    [Span(start=0, end=3, label='PER', confidence=None)]
    """

    in_bulk = False
    labels: SpanLabels

    def written(self, answer: Iterable[Sequence[Any]]) -> str:
        """Return the spans as JSON, in the order of the text."""
        given = sorted((int(start), int(end), str(label)) for start, end, label, *_ in answer)
        unknown = [label for _, _, label in given if label not in self.labels.names]
        if unknown:
            raise self._unknown(unknown)
        for (_, end, _), (start, *_rest) in pairwise(given):
            if start < end:
                raise DataError(f"Spans do not overlap; got {listed(map(str, given))}.")
        if any(start < 0 or end <= start for start, end, _ in given):
            raise DataError(f"A span has at least one character; got {listed(map(str, given))}.")
        return json.dumps(given, ensure_ascii=False)

    def read(self, text: str) -> list[Span]:
        """Return the spans in the order of the text."""
        try:
            return [Span(*span) for span in json.loads(self.written(_json(text)))]
        except (TypeError, ValueError):
            raise DataError(
                f"An answer is a list of (start, end, label); got {text:.80}."
            ) from None

    def joined(self, texts: Sequence[str]) -> str | None:
        """Return the spans that more than half of the people mark; None if it is half for one."""
        marked = Counter(span for text in texts for span in self.read(text))
        if any(2 * times == len(texts) for times in marked.values()):
            return None
        return self.written(span for span, times in marked.items() if 2 * times > len(texts))

    def gold(self, n_rows: int, rows: Sequence[int], texts: Sequence[str]) -> Any:
        """Return the spans of every document, None where they are unknown."""
        gold: list[list[Span] | None] = [None] * n_rows
        for row, answer in zip(rows, texts, strict=True):
            gold[row] = self.read(answer)
        return gold

    def known(self, gold: Any) -> npt.NDArray[np.bool_]:
        """Return whether the spans of each document are known."""
        return np.array([own is not None for own in gold], dtype=bool)

    def labels_in(self, text: str) -> list[str]:
        """Return the label of every span."""
        return [span.label for span in self.read(text)]

    def shown(self, text: str) -> str:
        """Return how many spans there are of each label."""
        named = Counter(self.labels_in(text))
        return ", ".join(f"{times} {name}" for name, times in named.items()) or "no span"

    def agreement(self, answers: pl.DataFrame) -> Table:
        """Return a row for each pair of people: the F1 of one's spans against the other's."""
        given: dict[str, dict[str, set[Span]]] = {}
        for row in answers.drop_nulls("label").iter_rows(named=True):
            given.setdefault(row["person"], {})[row["item"]] = set(self.read(row["label"]))
        rows, people = [], list(given)
        for place, first in enumerate(people):
            for second in people[place + 1 :]:
                both = [item for item in given[first] if item in given[second]]
                if both:
                    one, two = given[first], given[second]
                    same = sum(len(one[item] & two[item]) for item in both)
                    total = sum(len(one[item]) + len(two[item]) for item in both)
                    agree = 2 * same / total if total else 1.0
                    rows.append((first, second, len(both), agree))
        names = ("first", "second", "both", "agreement")
        schema = dict(zip(names, (pl.String, pl.String, pl.Int64, pl.Float64), strict=True))
        pairs = "1 pair" if len(rows) == 1 else f"{len(rows)} pairs"
        caption = f"{len(people)} people marked spans; {pairs} marked a common text"
        columns = (text("first"), text("second"), count("both"), percent("agreement"))
        return Table(pl.DataFrame(rows, schema, orient="row"), columns, caption)


def answers_for(kind: str, labels: Any) -> Answers:
    """Return how people answer in this kind of task."""
    kinds = {SEVERAL_LABELS: LabelSetAnswers, SPANS: SpanAnswers}
    return kinds.get(kind, ClassAnswers)(labels)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise DataError(f"An answer is a list in JSON; got {text:.80}.") from None
