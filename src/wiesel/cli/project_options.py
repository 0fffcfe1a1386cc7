"""Options that several commands share: those of projects and of models."""

import itertools
import sys
from collections.abc import Iterable, Mapping
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.verb import command_line, split_names, tell
from wiesel.errors import ParameterError, SavedModelError, listed

if TYPE_CHECKING:
    from wiesel.labels import LabelSpace
    from wiesel.lfs.loading import LoadedLFs
    from wiesel.project.bundle import Bundle
    from wiesel.project.settings import Project
    from wiesel.project.workspace import Workspace

__all__ = [
    "HERE",
    "OPEN",
    "AllowedHosts",
    "AllowedKeys",
    "EndModelName",
    "IdColumn",
    "LFFiles",
    "LabelNames",
    "ModelFolder",
    "Ordered",
    "ProjectFolder",
    "a_file_of",
    "announce",
    "classes_of",
    "end_model_name",
    "free_folder",
    "is_span_model",
    "label_model_name",
    "label_space",
    "load_named",
    "method_list",
    "method_name",
    "open_workspace",
    "project_or_methods",
]

ProjectFolder = Annotated[
    Path, typer.Argument(help="A folder with wiesel.toml, or such a file; by default this folder.")
]
HERE = Path()

OPEN = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
"""The command that shows a file in the program for its type."""
LFFiles = Annotated[list[Path], typer.Option("--lfs", help="A .py or .toml file; repeatable.")]
LabelNames = Annotated[
    str | None, typer.Option("--labels", help="The classes, in order: ham,spam.")
]
Ordered = Annotated[
    bool, typer.Option("--ordered", help="The classes are ranks, from the lowest to the highest.")
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A host that prompts in .toml files may send rows to."),
]
AllowedKeys = Annotated[
    list[str] | None,
    typer.Option("--allow-key", help="A variable, beside WIESEL_API_KEY, that holds their key."),
]
IdColumn = Annotated[str | None, typer.Option("--id", help="The column of item ids.")]
ModelFolder = Annotated[Path, typer.Argument(help="The folder of a saved model.")]
EndModelName = Annotated[
    str | None,
    typer.Option("--end-model", help="For a network of your own: module:FILE.py:CLASS."),
]


def a_file_of(settings: "Project") -> Path:
    """Return a file of rows that the project names, or else a word for the user to fill in."""
    data = settings.data
    found = (settings.path(name) for name in (data.test, data.dev, data.train) if name)
    return next((file for file in found if file.is_file()), Path("FILE"))


def free_folder(name: str = "my-project") -> Path:
    """Return a name for a new folder here; with a number if there is one of this name."""
    names = (name if k < 2 else f"{name}-{k}" for k in itertools.count(1))
    return next(Path(each) for each in names if not Path(each).exists())


def announce(settings: "Project") -> None:
    """Tell, before any verb runs the code of a folder for the first time, that it does so."""
    from wiesel.project.seen import code_files, remember, was_run

    files = code_files(settings)
    if not files or was_run(settings.file):
        return
    names = listed([str(file) for file in files], limit=3)
    tell(
        f"First run of {settings.folder}: the Python code in {names} is run with all your rights. "
        f"{command_line('wiesel', 'inspect', settings.folder)} shows a project without running it."
    )
    remember(settings.file)


def open_workspace(project: Path) -> "Workspace":
    """Open a project for a verb that works on its votes, and tell which functions are broken."""
    from wiesel.project.settings import read_project
    from wiesel.project.workspace import open_workspace as opened

    settings = read_project(project)
    announce(settings)
    workspace = opened(settings)
    for problem in workspace.problems:
        tell(f"Warning: left out, because it is broken: {problem}")
    return workspace


def label_space(labels: str | None, ordered: bool = False) -> "LabelSpace | None":
    """Return the classes that --labels names; None if it is not given.

    >>> label_space("bad, good", ordered=True)
    LabelSpace('bad', 'good', ordered=True)
    """
    from wiesel.labels import LabelSpace

    names = split_names(labels)
    if names is not None:
        return LabelSpace(*names, ordered=ordered)
    if ordered:
        raise ParameterError(
            "--ordered needs the classes from the lowest to the highest: add --labels 1,2,3 with "
            "your own."
        )
    return None


def classes_of(loaded: "LoadedLFs", named: "LabelSpace | None") -> "LabelSpace":
    """Return the given classes, or else those named in the files."""
    if named is not None:
        return named
    if loaded.labels is not None:
        return loaded.labels
    seen = sorted({name for lf in loaded for name in lf.classes or ()})
    shown = ",".join(seen) if len(seen) > 1 else "ham,spam"
    raise ParameterError(
        "The classes and their order are not known: add --labels "
        f"{shown}, or a LabelSpace to the file of labeling functions."
    )


def method_name(incomplete: str) -> list[tuple[str, str]]:
    """Return the methods that start with the given text, each with a description.

    >>> [name for name, _ in method_name("maj")]
    ['majority_vote']
    """
    from wiesel.catalog import METHODS

    found = METHODS.values()
    return [(each.name, each.summary) for each in found if each.name.startswith(incomplete)]


def label_model_name(incomplete: str) -> list[tuple[str, str]]:
    """Return the label models that start with the given text, each with a description.

    >>> [name for name, _ in label_model_name("d")]
    ['dawid_skene', 'data_programming']
    """
    from wiesel.label_models import REGISTRY

    found = REGISTRY.values()
    return [(each.name, each.summary) for each in found if each.name.startswith(incomplete)]


def method_list(incomplete: str) -> list[tuple[str, str]]:
    """Return comma-separated lists of methods that start with the given text, without repeats.

    >>> [names for names, _ in method_list("weasel,maj")]
    ['weasel,majority_vote']
    """
    before, comma, last = incomplete.rpartition(",")
    named = before.split(",")
    return [
        (f"{before}{comma}{name}", summary)
        for name, summary in method_name(last)
        if name not in named
    ]


def project_or_methods(incomplete: str) -> list[tuple[str, str]]:
    """Return matching folders and lists of methods; after a folder, either may follow."""
    base, slash, last = incomplete.rpartition("/")
    parent = Path(f"{base}{slash}" or ".")
    names = sorted(entry.name for entry in parent.glob(f"{escape(last)}*") if entry.is_dir())
    folders = [(f"{base}{slash}{name}", "a folder") for name in names if not name.startswith(".")]
    return [*folders, *method_list(incomplete)]


def end_model_name(incomplete: str) -> Iterable[tuple[str, str]]:
    """Return the end models that start with the given text; nothing is offered after a colon.

    >>> [name for name, _ in end_model_name("l")]
    ['linear', 'lstm', 'linear_tagger']
    """
    from wiesel.nn.names import END_MODELS

    for name, what in END_MODELS.items():
        kind, colon, _ = name.partition(":")
        if kind.startswith(incomplete):
            yield f"{kind}{colon}", what


def is_span_model(path: Path) -> bool:
    """Whether a folder contains a span model."""
    from wiesel.saving import read_manifest

    return path.is_dir() and "spans" in map(read_manifest(path).get, ("task", "kind"))


def load_named(
    model: Path, end_model: str | None, data: str | Path = "", *, taggers: bool = False
) -> "Bundle":
    """Return a saved model with its features; a custom network is built by name."""
    from wiesel.project.bundle import load_bundle
    from wiesel.saving import read_manifest

    manifest = read_manifest(model)
    if end_model is None:
        _refuse_unnamed(model, manifest)
        return load_bundle(model, taggers=taggers)
    network = named_network(manifest, end_model, data)
    return load_bundle(model, network, taggers=taggers)


def named_network(manifest: Mapping[str, Any], end_model: str, data: str | Path = "") -> Any:
    """Return an untrained network by name, with the sizes and options used in training."""
    import numpy as np

    from wiesel.io.files import read_array
    from wiesel.nn.names import end_model_by_name

    shape = manifest.get("inputs", {}).get("shape", [])
    like: Any = np.zeros((1, *shape)) if shape else None
    if like is None and Path(data).suffix == ".npy":
        like = read_array(Path(data))
    options = manifest.get("end_model", {}).get("options", {})
    return end_model_by_name(end_model, like, len(manifest["labels"]), options=options)


def _refuse_unnamed(model: Path, manifest: Mapping[str, Any]) -> None:
    """Raise an error for a custom network that is not named: its code is not stored."""
    # A committee's networks belong to its members.
    while manifest.get("members"):
        manifest = {**manifest, "members": None, **manifest["members"][0]}
    modules = manifest.get("modules", {})
    if "end_model" not in modules or modules["end_model"] is not None:
        return
    name = manifest.get("end_model", {}).get("name", "module:FILE.py:CLASS")
    raise SavedModelError(
        f"The end model of {model} is a custom module, whose code is not stored. "
        f"If you trust that code, add {command_line('--end-model', name)}"
    )
