"""The kinds of tasks: what a target, a score, a prediction and an explanation of each are."""

from wiesel.tasks.base import Task, stored_task, task_of, task_of_votes
from wiesel.tasks.one_label import OneLabelTask
from wiesel.tasks.several_labels import SeveralLabelsTask
from wiesel.tasks.spans import SpansTask

__all__ = [
    "OneLabelTask",
    "SeveralLabelsTask",
    "SpansTask",
    "Task",
    "stored_task",
    "task_of",
    "task_of_votes",
]
