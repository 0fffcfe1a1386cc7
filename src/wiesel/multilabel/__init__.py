"""Several labels for one item: sets as votes, and one `VoteMatrix` for each label."""

from typing import Any

from wiesel.label_sets import MultiLabelSpace
from wiesel.multilabel.files import (
    load_multilabel_lfs,
    read_multilabel_votes,
    write_multilabel_votes,
)
from wiesel.multilabel.functions import (
    MultiLabelFunction,
    against,
    apply_multilabel_lfs,
    exhaustive,
    multilabel_function,
    prompt_labels,
)
from wiesel.multilabel.label_models import MultiLabelExplanation, OneSided, PerLabel
from wiesel.multilabel.votes import MultiLabelVotes

__all__ = [
    "MultiLabelExplanation",
    "MultiLabelFunction",
    "MultiLabelSpace",
    "MultiLabelVotes",
    "OneSided",
    "PerLabel",
    "against",
    "apply_multilabel_lfs",
    "exhaustive",
    "load_multilabel_lfs",
    "multilabel_function",
    "prompt_labels",
    "read_multilabel_votes",
    "write_multilabel_votes",
]

_RENAMED = {
    "MultiLabelCommittee": "wiesel.Committee",
    "MultiLabelTwoStage": "wiesel.TwoStage",
    "MultiLabelWeaSEL": "wiesel.WeaSEL",
    "MultiLabelModel": "wiesel.EndToEndModel",
    "evaluate_multilabel": "wiesel.evaluate",
    "MultiLabelReport": "wiesel.evaluation.MultiLabelReport",
    "evaluate_presence": "wiesel.evaluation.evaluate_presence",
    "default_label_members": "wiesel.end_to_end.default_members",
}
"""Earlier names, and what does the same for every kind of task today."""


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        raise AttributeError(f"{name} is {_RENAMED[name]} now, which knows several labels, too.")
    raise AttributeError(f"module 'wiesel.multilabel' has no attribute {name!r}")
