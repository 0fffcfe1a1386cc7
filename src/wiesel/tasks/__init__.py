"""The kinds of tasks: what a target, a score, a prediction and an explanation of each are."""

from typing import Any

from wiesel.errors import SavedModelError, suggest
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import LabelSpace
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.spans.tags import SpanLabels
from wiesel.spans.votes import TokenVotes
from wiesel.tasks.base import Task
from wiesel.tasks.one_label import OneLabelTask
from wiesel.tasks.several_labels import SeveralLabelsTask
from wiesel.tasks.spans import SpansTask
from wiesel.votes import require_votes

__all__ = [
    "OneLabelTask",
    "SeveralLabelsTask",
    "SpansTask",
    "Task",
    "stored_task",
    "task_of",
    "task_of_votes",
]


def task_of(labels: Any) -> Task:
    """Return the task of these labels.

    >>> task_of(MultiLabelSpace("sports", "politics")).kind
    'several labels'
    """
    if isinstance(labels, SpanLabels):
        return SpansTask(labels)
    if isinstance(labels, MultiLabelSpace):
        return SeveralLabelsTask(labels)
    return OneLabelTask(labels)


def task_of_votes(votes: Any) -> Task:
    """Return the task that votes are for; refuse what are no votes."""
    if not isinstance(votes, (MultiLabelVotes, TokenVotes)):
        require_votes(votes)
    return task_of(votes.labels)


def stored_task(kind: Any, names: Any, *, ordered: bool = False) -> Task:
    """Return the task of a saved model, from its kind and the names of its labels."""
    if kind == SpansTask.kind:
        return SpansTask(SpanLabels(tuple(names)))
    spaces = {OneLabelTask.kind: LabelSpace, SeveralLabelsTask.kind: MultiLabelSpace}
    if kind not in spaces:
        known = [*spaces, SpansTask.kind]
        raise SavedModelError(f"There is no kind of task {kind!r:.60}. {suggest(kind, known)}")
    return task_of(spaces[kind](*names, ordered=ordered))
