"""A project: one file that says what to read, and the stages from rows to a report.

Names are imported on first use, so an unchanged project is recognized without importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiesel.project.bundle import Bundle, load_bundle, save_bundle
    from wiesel.project.exporting import export_model
    from wiesel.project.judging import Outcome
    from wiesel.project.pipeline import run_project
    from wiesel.project.promoting import Promotion, promote
    from wiesel.project.settings import Project, read_project
    from wiesel.project.starter import write_starter

__all__ = [
    "Bundle",
    "Outcome",
    "Project",
    "Promotion",
    "export_model",
    "load_bundle",
    "promote",
    "read_project",
    "run_project",
    "save_bundle",
    "write_starter",
]

_HOME_OF = {
    "Bundle": "bundle",
    "Outcome": "judging",
    "Project": "settings",
    "Promotion": "promoting",
    "export_model": "exporting",
    "load_bundle": "bundle",
    "promote": "promoting",
    "read_project": "settings",
    "run_project": "pipeline",
    "save_bundle": "bundle",
    "write_starter": "starter",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'wiesel.project' has no attribute {name!r}")
    value = getattr(import_module(f"wiesel.project.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
