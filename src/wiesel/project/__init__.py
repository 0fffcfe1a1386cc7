"""A project: one file that says what to read, and the stages from rows to a report."""

from wiesel.project.bundle import Bundle, load_bundle, save_bundle
from wiesel.project.pipeline import Outcome, run_project
from wiesel.project.settings import Project, read_project
from wiesel.project.starter import write_starter

__all__ = [
    "Bundle",
    "Outcome",
    "Project",
    "load_bundle",
    "read_project",
    "run_project",
    "save_bundle",
    "write_starter",
]
