"""Run benchmarks: `python -m benchmarks [name ...] [options]`; without names, all of them.

A benchmark is a module of this folder with a function `main(argv)`; the first line of its
docstring describes it. Options apply to every benchmark that runs: `--quick` uses small sizes and
stores nothing, `--show` prints stored results, `--only TEXT` selects cases, and `--repeats N` sets
the number of processes for the median.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent


def discovered() -> dict[str, str]:
    """Return the benchmarks of this folder with their descriptions, without importing them."""
    found = {}
    for path in sorted(FOLDER.glob("[a-z]*.py")):
        tree = ast.parse(path.read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "main" in functions:
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def run(argv: list[str]) -> int:
    """Run the named benchmarks, and return the exit code."""
    benchmarks = discovered()
    if "--list" in argv or "-h" in argv[:1] or "--help" in argv[:1]:
        print(__doc__)
        for name, line in benchmarks.items():
            print(f"  {name:<14} {line}")
        return 0
    names = [word for word in argv if word in benchmarks] or list(benchmarks)
    options = [word for word in argv if word not in benchmarks]
    for name in names:
        print(f"\n# {name}: {benchmarks[name]}\n", flush=True)
        import_module(f"benchmarks.{name}").main(options)
    if not {"--quick", "--show"} & set(options):
        import_module("benchmarks.report").write_report()
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
