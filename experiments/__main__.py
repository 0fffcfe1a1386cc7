"""Rerun the paper: `python -m experiments NAME ... [--full] [--seeds N] [--jobs N]`; or `all`.

`all` is the paper's tables and figures, and `default`; closer looks go by name.
Finished runs are kept in experiments/results and not run again; delete a file to start over.
Needs the data sets: set WIESEL_DATA to their folder.
"""

import os
import sys
from importlib import import_module

ALL = (
    "datasets",
    "table1",
    "duplicates",
    "independent",
    "adversarial",
    "ablation",
    "labelme",
    "default",
)
BY_NAME = (
    "blind_crowds",
    "equilibrium",
    "better_features",
    "committee_parts",
    "ask_next",
    "crowd_confidence",
    "crowd_sizes",
    "default_planted",
    "embedded_features",
    "few_labels",
    "graph_encoder",
    "input_kinds",
    "judges",
    "paper",
    "paper_sample",
    "interval_coverage",
    "rough_balance",
    "rows_to_label",
    "rule_methods",
    "tasks",
    "spans",
    "spouse_lstm",
    "multilabel",
    "suggest",
    "suggested_precision",
    "text_features",
    "unseen_tables",
    "with_votes",
)
EXPERIMENTS = (*ALL, *BY_NAME)
MODULES = {
    "tasks": "experiments.tasks.compare",
    "committee_parts": "experiments.tasks.parts",
    "unseen_tables": "experiments.tasks.tables",
    "paper": "experiments.studies.paper_page",
    "spouse_lstm": "experiments.studies.spouse_evidence",
}
"""Where an experiment is, if not in the file of its name among the studies."""


def main(words: list[str]) -> int:
    """Run the experiments named, with the options given to each, and return the exit code."""
    first_option = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    names, options = words[:first_option], words[first_option:]
    unknown = [name for name in names if name not in (*EXPERIMENTS, "all")]
    if unknown or not names or not os.environ.get("WIESEL_DATA"):
        problem = "WIESEL_DATA is not set" if names else "no experiment is named"
        problem = f"there is no {unknown[0]!r}" if unknown else problem
        print(f"experiments: {problem}. {__doc__}Experiments: {', '.join(EXPERIMENTS)}.")
        return 2
    for name in ALL if "all" in names else names:
        print(f"\n# {name}\n", flush=True)
        import_module(MODULES.get(name, f"experiments.studies.{name}")).main(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
