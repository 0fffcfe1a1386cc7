"""Rerun the committed experiments: `python -m experiments [name ...]`; without names, all.

Finished runs are kept in experiments/results and not run again; delete a file to start over.
Needs the data sets: set WIESEL_DATA to their folder.
"""

import os
import sys
from importlib import import_module

EXPERIMENTS = ("imdb", "duplicates", "labelme")


def main(names: list[str]) -> int:
    """Run the experiments named and return the exit code."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown or not os.environ.get("WIESEL_DATA"):
        problem = f"there is no {unknown[0]!r}" if unknown else "WIESEL_DATA is not set"
        print(f"experiments: {problem}. {__doc__}Experiments: {', '.join(EXPERIMENTS)}.")
        return 2
    for name in names or EXPERIMENTS:
        print(f"\n# {name}\n", flush=True)
        import_module(f"experiments.{name}").main([])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
