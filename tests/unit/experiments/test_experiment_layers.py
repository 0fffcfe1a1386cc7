"""The framework knows no study, tasks know no study; studies may ask the tasks for their halves."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3] / "experiments"
MAY_IMPORT = {
    "framework": {"framework"},
    "studies": {"framework", "studies", "tasks"},
    "tasks": {"framework", "tasks"},
}


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            module = node.module
            names = (
                [f"{module}.{a.name}" for a in node.names] if module == "experiments" else [module]
            )
        found |= {name.split(".")[1] for name in names if name.startswith("experiments.")}
    return found


def test_layers_import_what_lies_below_them_only():
    checked = 0
    for layer, allowed in MAY_IMPORT.items():
        for file in (ROOT / layer).glob("*.py"):
            checked += 1
            assert imported(file) <= allowed, file.name
    assert checked > 30


def test_every_experiment_has_a_module():
    from importlib.util import find_spec

    from experiments.__main__ import EXPERIMENTS, MODULES

    assert len(EXPERIMENTS) > 10
    for name in EXPERIMENTS:
        assert find_spec(MODULES.get(name, f"experiments.studies.{name}")), name
