"""Several labels for one item: sets as votes, one `VoteMatrix` for each label, one network.

Everything that needs torch is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiesel.multilabel.applying import apply_multilabel_lfs
from wiesel.multilabel.files import (
    load_multilabel_lfs,
    read_multilabel_votes,
    write_multilabel_votes,
)
from wiesel.multilabel.functions import (
    MultiLabelFunction,
    against,
    exhaustive,
    multilabel_function,
)
from wiesel.multilabel.label_models import OneSided, PerLabel
from wiesel.multilabel.report import MultiLabelReport, evaluate_multilabel, evaluate_presence
from wiesel.multilabel.space import MultiLabelSpace
from wiesel.multilabel.votes import MultiLabelVotes

if TYPE_CHECKING:
    from wiesel.multilabel.committee import MultiLabelCommittee, default_label_members
    from wiesel.multilabel.explaining import MultiLabelExplanation
    from wiesel.multilabel.training import MultiLabelModel
    from wiesel.multilabel.two_stage import MultiLabelTwoStage
    from wiesel.multilabel.weasel import MultiLabelWeaSEL
from wiesel.multilabel.prompting import prompt_labels

__all__ = [
    "MultiLabelCommittee",
    "MultiLabelExplanation",
    "MultiLabelFunction",
    "MultiLabelModel",
    "MultiLabelReport",
    "MultiLabelSpace",
    "MultiLabelTwoStage",
    "MultiLabelVotes",
    "MultiLabelWeaSEL",
    "OneSided",
    "PerLabel",
    "against",
    "apply_multilabel_lfs",
    "default_label_members",
    "evaluate_multilabel",
    "evaluate_presence",
    "exhaustive",
    "load_multilabel_lfs",
    "multilabel_function",
    "prompt_labels",
    "read_multilabel_votes",
    "write_multilabel_votes",
]

_WITH_TORCH = {
    "MultiLabelCommittee": "wiesel.multilabel.committee",
    "MultiLabelExplanation": "wiesel.multilabel.explaining",
    "MultiLabelModel": "wiesel.multilabel.training",
    "MultiLabelTwoStage": "wiesel.multilabel.two_stage",
    "MultiLabelWeaSEL": "wiesel.multilabel.weasel",
    "default_label_members": "wiesel.multilabel.committee",
}


def __getattr__(name: str) -> Any:
    if name not in _WITH_TORCH:
        raise AttributeError(f"module 'wiesel.multilabel' has no attribute {name!r}")
    return getattr(import_module(_WITH_TORCH[name]), name)
