"""Wiesel: end-to-end weak supervision.

The public names, imported when they are first used, so that `import wiesel` is fast and does not
load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiesel.version import __version__

if TYPE_CHECKING:
    from wiesel.analysis import agreement, findings, summarize
    from wiesel.datasets import load_dataset
    from wiesel.label_models import LabelModel, MajorityVote
    from wiesel.labels import ABSTAIN, LabelSpace
    from wiesel.votes import VoteMatrix

__all__ = [
    "ABSTAIN",
    "LabelModel",
    "LabelSpace",
    "MajorityVote",
    "VoteMatrix",
    "__version__",
    "agreement",
    "findings",
    "load_dataset",
    "summarize",
]

_HOMES = {
    "wiesel.analysis": ("agreement", "findings", "summarize"),
    "wiesel.datasets": ("load_dataset",),
    "wiesel.label_models": ("LabelModel", "MajorityVote"),
    "wiesel.labels": ("ABSTAIN", "LabelSpace"),
    "wiesel.votes": ("VoteMatrix",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'wiesel' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
