"""Nothing imports upward; torch stays where design.md section 1 puts it."""

import ast
from collections.abc import Iterable

from source_tree import Source, parts, sources

LEVELS = (
    ("__main__",),
    ("cli", "workbench"),
    ("aggregate", "compare", "plots", "project", "report", "testing"),
    ("catalog",),
    ("end_to_end",),
    ("tasks",),
    ("training", "nn"),
    ("guidance",),
    (
        "label_models",
        "analysis",
        "evaluation",
        "features",
        "lfs",
        "io",
        "datasets",
        "multilabel",
        "spans",
    ),
    ("saving", "explain", "scikit_learn"),
    ("unfinished",),
    ("votes",),
    (
        "vote_entries",
        "labels",
        "label_sets",
        "errors",
        "parameters",
        "registry",
        "runtime",
        "tables",
        "version",
        "threads",
        "progress",
    ),
)
LEVEL_OF = {part: depth for depth, level in enumerate(LEVELS) for part in level}

WITH_TORCH = {"end_to_end", "tasks", "training", "nn", "catalog", "testing"}
WITH_LAZY_TORCH = {"saving", "features"}


def below_wiesel(source: Source) -> list[tuple[str, int, bool]]:
    """The parts of Wiesel that a file imports: (part, line, lazy)."""
    return [
        (found.module.split(".")[1], found.line, found.lazy)
        for found in source.imports()
        if found.module.startswith("wiesel.")
    ]


def package_sources() -> list[Source]:
    return [source for source in sources() if source.part != "__init__"]


def test_every_part_of_the_package_has_a_level():
    assert len(parts()) > 15
    unknown = sorted(parts() - LEVEL_OF.keys())
    assert not unknown, f"give {unknown} a level here and in design.md section 1"


def test_nothing_imports_upward():
    checked, wrong = 0, []
    for source in package_sources():
        for part, line, _ in below_wiesel(source):
            checked += 1
            if LEVEL_OF.get(part, -1) < LEVEL_OF.get(source.part, -1):
                wrong.append(f"{source.name}:{line} imports wiesel.{part}")
    assert checked > 100
    assert not wrong, "\n".join(wrong)


def test_the_package_does_not_import_from_its_own_front_door():
    """`from wiesel import VoteMatrix` would load whatever the lazy table says, at any level."""
    checked, wrong = 0, []
    for source in package_sources():
        for part, line, _ in below_wiesel(source):
            checked += 1
            if part not in parts():
                wrong.append(f"{source.name}:{line} imports {part} from wiesel")
    assert checked > 100
    assert not wrong, "\n".join(wrong)


def test_imports_are_absolute():
    statements = [(source, found) for source in sources() for found in source.imports()]
    assert len(statements) > 200
    assert not [f"{s.name}:{f.line}" for s, f in statements if f.module.startswith(".")]


def test_packages_do_not_import_each_other_in_a_circle():
    graph: dict[str, set[str]] = {part: set() for part in parts()}
    for source in package_sources():
        graph[source.part] |= {part for part, *_ in below_wiesel(source)} - {source.part}
    assert sum(map(len, graph.values())) > 30
    circle = find_circle(graph)
    assert not circle, " -> ".join(circle)


def test_a_circle_is_found():
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_circle({"a": {"b"}, "b": set()}) == []


def test_torch_is_imported_only_where_networks_live():
    checked, wrong = 0, []
    for source in package_sources():
        for found in source.imports():
            if found.module.split(".")[0] != "torch":
                continue
            checked += 1
            lazily = found.lazy and source.part in WITH_LAZY_TORCH
            if source.part not in WITH_TORCH and not lazily:
                wrong.append(f"{source.name}:{found.line}")
    assert checked > 20
    assert not wrong, "\n".join(wrong)


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """A path that returns to where it started, or nothing."""
    finished: set[str] = set()

    def search(part: str, path: list[str]) -> list[str]:
        if part in path:
            return [*path[path.index(part) :], part]
        if part in finished:
            return []
        found = first(search(target, [*path, part]) for target in sorted(graph.get(part, ())))
        finished.add(part)
        return found

    return first(search(part, []) for part in sorted(graph))


def first(found: Iterable[list[str]]) -> list[str]:
    return next((circle for circle in found if circle), [])


def test_the_stages_before_networks_open_files_through_io_only():
    opening = {"open", "connect", "read_bytes", "read_text", "write_bytes", "write_text"}
    checked, wrong = 0, []
    for source in package_sources():
        if source.part in ("lfs", "analysis", "label_models"):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Call):
                    checked += 1
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    is_method = isinstance(node.func, ast.Attribute)
                    if name in opening and (is_method or name == "open"):
                        wrong.append(f"{source.name}:{node.lineno} {name}")
    assert checked > 1000
    assert not wrong, "\n".join(wrong)
