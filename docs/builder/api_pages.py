"""The pages of the Python reference: every public name, with its docstring."""

import sys
from importlib import import_module

import wiesel

TITLES = {
    "wiesel.labels": "Classes",
    "wiesel.votes": "Votes",
    "wiesel.lfs": "Labeling functions",
    "wiesel.analysis": "Analysis of votes",
    "wiesel.aggregate": "Crowd answers",
    "wiesel.guidance": "Suggestions",
    "wiesel.label_models": "Label models",
    "wiesel.end_to_end": "End-to-end methods",
    "wiesel.catalog": "Saved models",
    "wiesel.compare": "Comparison of methods",
    "wiesel.evaluation": "Evaluation",
    "wiesel.explain": "Explanations",
    "wiesel.plots": "Plots",
    "wiesel.features": "Features",
    "wiesel.nn": "Networks and losses",
    "wiesel.training": "Training",
    "wiesel.datasets": "Data sets",
    "wiesel.io": "Files",
    "wiesel.multilabel": "Several labels",
    "wiesel.spans": "Spans",
    "wiesel.project": "Projects",
    "wiesel.runtime": "Exported models",
    "wiesel.registry": "Methods by name, and your own",
    "wiesel.testing": "Contracts for methods of your own",
    "wiesel.errors": "Errors and warnings",
}
"""The modules with public names, in the order of the navigation."""


def api_pages() -> list[tuple[str, str, str]]:
    """Return title, place and Markdown of every page."""
    homes = public_homes()
    modules = [*TITLES, *(home for home in homes if home not in TITLES)]
    return [
        (TITLES.get(module, module), page_uri(module), page_text(module, homes.get(module, [])))
        for module in modules
    ]


def page_uri(module: str) -> str:
    """Return the place of a module's page.

    >>> page_uri("wiesel.label_models")
    'reference/api/label_models.md'
    """
    return f"reference/api/{module.removeprefix('wiesel.').replace('.', '_')}.md"


def public_homes() -> dict[str, list[str]]:
    """Return what is importable from `wiesel` itself, by the module it is documented with."""
    homes: dict[str, list[str]] = {}
    for name in wiesel.__all__:
        if name == "__version__":
            continue
        homes.setdefault(wiesel._HOME_OF[name], []).append(name)
    return homes


def page_text(module: str, public: list[str]) -> str:
    """Return the page of one module: its public names first, then what else it has."""
    import_module(module)
    rest = [name for name in getattr(sys.modules[module], "__all__", ()) if name not in public]
    text = f"# {TITLES.get(module, module)}\n\n"
    if public:
        text += f"Import these from `wiesel`.\n\n{_entries('wiesel', public)}"
    if rest:
        also = "Also" if public else "Import these"
        heading = f"{also} from `{module}`."
        text += f"{heading}\n\n{_entries(module, rest)}"
    return text


def _entries(module: str, names: list[str]) -> str:
    return "".join(f"::: {module}.{name}\n\n" for name in sorted(names, key=str.lower))
