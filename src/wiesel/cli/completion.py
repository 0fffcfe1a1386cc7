"""Shell completion for arguments that are neither files nor options."""

from collections.abc import Iterable
from glob import escape
from pathlib import Path

__all__ = [
    "end_model_name",
    "label_model_name",
    "method_list",
    "method_name",
    "project_or_methods",
]


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
