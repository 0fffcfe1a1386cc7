"""What each part of the committee adds, on the generated tasks without gold.

    python -m experiments committee_parts [--jobs N] [--recorded]

Every member is trained once on a task, as in the committee. Its networks are then averaged in
several ways: all of them (the committee), without one member, with half of the networks, and with
the members that the committee leaves out because they predict a single class. A part earns its
place if the committee is worse without it on both halves of the tasks.
"""

import sys
import time
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run
from experiments.framework.tables import cost_sentence, write_page
from experiments.tasks.compare import task_named
from experiments.tasks.make import Task
from experiments.tasks.methods import UPDATES, network_of
from experiments.tasks.page import GROUPS, TOLERATED, group_title, mean_and_error, of_group, share
from experiments.tasks.specs import all_specs
from wiesel.end_to_end.committee import default_members
from wiesel.errors import WieselWarning
from wiesel.tasks.base import find_copies, merge_copies

STORE = "committee_parts"
EPOCHS = 8
"""For all tasks, also those with more classes, for which the default is more."""
COMMITTEE = "committee"
MEMBERS = ("majority_vote", "feature_em", "feature_checked", "feature_em_mig")
VARIANTS = (
    COMMITTEE,
    *(f"without {member}" for member in MEMBERS),
    "with half of the networks",
    "with members that predict a single class",
)

Array = npt.NDArray[np.float64]


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=1, reduced_seeds=1)
    runs = [Run(spec.name, COMMITTEE, 0, {"spec": spec.fingerprint}) for spec in all_specs()]
    show(effort.records(STORE, runs, execute), effort)


def execute(run: Run) -> Record:
    """Train all members on a task, and score every way to average their networks."""
    task = task_named(run.dataset)
    cpu = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        probas, collapsed = trained(task)
    scores = {name: round(task.score(p), 6) for name, p in averages(probas, collapsed).items()}
    return {
        "scores": scores,
        "collapsed": sorted(collapsed),
        "fit_cpu_seconds": round(time.process_time() - cpu, 2),
    }


def trained(task: Task) -> tuple[dict[str, Array], set[str]]:
    """Return the test predictions of each member's networks, and the members that collapsed."""
    options = {name: value for name, value in UPDATES.items() if name != "members"}
    options["epochs"] = EPOCHS
    votes = merge_copies(task.votes, find_copies(task.votes))
    members = default_members(network_of(task), len(task.labels), **options)
    for member in members.values():
        member.fit(task.X_train, votes)
    probas = {name: member.member_probas(task.X_test) for name, member in members.items()}
    return probas, {name for name, m in members.items() if m.task_.collapsed(m.history_)}


def averages(probas: Mapping[str, Array], collapsed: set[str]) -> dict[str, Array]:
    """Return the predictions of the committee and of its variants by name.

    A variant is missing if its member is not in the committee, or if no other is left.

    >>> probas = {"majority_vote": np.zeros((2, 1, 2)), "feature_em": np.ones((4, 1, 2))}
    >>> found = averages(probas, collapsed={"majority_vote"})
    >>> float(found["committee"][0, 0])
    1.0
    >>> float(found["with members that predict a single class"][0, 0].round(3))
    0.667
    """
    kept = {name: p for name, p in probas.items() if name not in collapsed} or dict(probas)
    fewer = {name: p[: (len(p) + 1) // 2] for name, p in kept.items()}
    variants = {
        COMMITTEE: kept,
        **{
            f"without {member}": {name: p for name, p in kept.items() if name != member}
            for member in MEMBERS
            if member in probas
        },
        "with half of the networks": fewer,
        "with members that predict a single class": probas,
    }
    return {
        name: np.concatenate([*parts.values()]).mean(axis=0)
        for name, parts in variants.items()
        if parts
    }


def show(records: Sequence[Record], effort: Effort) -> None:
    """Write the difference of every variant to the committee."""
    known = {spec.name: spec.fingerprint for spec in all_specs()}
    current = [r for r in records if known.get(r["dataset"]) == r["options"]["spec"]]
    n_collapsed = sum(bool(r["collapsed"]) for r in current)
    lines = [
        f"Differences to the committee on {len(current)} generated tasks without gold, in points "
        "(ROC-AUC for binary tasks, accuracy for multi-class ones), with the standard error of "
        "their mean. A part earns its place if the committee is worse without it on both halves. "
        f"On {n_collapsed} tasks at least one member predicts a single class.",
        "",
        _table(current),
        "",
        cost_sentence(len(current), sum(r["fit_cpu_seconds"] for r in current)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _table(records: Sequence[Record]) -> str:
    header = ["committee", *(group_title(*group) for group in GROUPS)]
    header.append(f"tasks that lose more than {-TOLERATED:.0f} points by it")
    rows = []
    for name in VARIANTS[1:]:
        having = [record for record in records if name in record["scores"]]
        cells = [mean_and_error(_gains(of_group(having, *group), name)) for group in GROUPS]
        lost = np.array(_gains(having, name)) < TOLERATED
        rows.append([name, *cells, share(lost)])
    return markdown_table(header, rows)


def _gains(records: Sequence[Record], name: str) -> list[float]:
    return [100 * (r["scores"][name] - r["scores"][COMMITTEE]) for r in records]


if __name__ == "__main__":
    main(sys.argv[1:])
