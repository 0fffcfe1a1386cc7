"""What to do after a run: from what is there, in words, the most urgent first."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from wiesel import keywords
from wiesel.project.judged_items import ErrorBucket
from wiesel.project.next_steps import NextStep, next_steps
from wiesel.project.runs import KeptRun, RunView
from wiesel.project.workspace import Workspace


@pytest.fixture
def space(tiny: Path) -> Workspace:
    """A project whose dev rows are those that people label."""
    toml = tiny / "wiesel.toml"
    text = toml.read_text().replace('lfs = ["lfs.py"]', 'lfs = ["rules.toml"]')
    toml.write_text(text.replace('dev = "dev.csv"\ntest = "test.csv"\n', ""))
    return Workspace(tiny)


def view(space: Workspace, n_right: int, n_wrong: int, split: str = "dev") -> RunView:
    gold = np.zeros(n_right + n_wrong, np.int64)
    predicted = np.repeat([0, 1], [n_right, n_wrong])
    proba = np.eye(2)[predicted] * 0.8 + 0.1
    ids = pl.Series(map(str, range(len(gold))))
    return RunView(space.labels, split, ids, proba, predicted, gold)


def run(space: Workspace, n_labels: int = 0) -> KeptRun:
    about = {"request": {"n_labels": n_labels}, "voters": list(space.votes.voters)}
    return KeptRun("1", Path(), about)


def found(space: Workspace, kept: KeptRun, seen: RunView, buckets=()) -> list[NextStep]:
    return next_steps(space, kept, seen, seen.report() if seen.has_gold else None, buckets)


def test_a_class_that_nobody_votes_for_and_missing_labels_come_up(space: Workspace):
    space.lf_set.add(keywords("technical", ["app"], column="text"))
    space.refresh()
    unknown = view(space, 0, 0)
    steps = found(space, run(space), unknown)
    assert [step.kind for step in steps][:2] == ["rule", "label"]
    assert "billing" in steps[0].text


def test_labels_since_the_run_ask_for_another_one(space: Workspace):
    kept = run(space)
    for item in space.train.ids[:3]:
        space.store.add(str(item), "billing", "ada")
    space.lf_set.add(keywords("technical", ["app"], column="text", name="app"))
    space.refresh()
    assert "3 more rows are labeled" in found(space, kept, view(space, 9, 1))[0].text
    other = KeptRun("2", Path(), {"voters": ["gone"]})
    assert "the labeling functions are others" in found(space, other, view(space, 9, 1))[0].text


def test_how_many_labels_make_the_accuracy_certain(space: Workspace):
    # At 50 %, 1.96^2 / 4 / 0.05^2 = 384 labels leave five points in each direction.
    texts = [step.text for step in found(space, run(space), view(space, 20, 20))]
    assert any("Label 340 more rows" in text for text in texts)
    texts = [step.text for step in found(space, run(space), view(space, 400, 400))]
    assert not any("Label" in text for text in texts)
    # Labels of a file cannot be more.
    texts = [step.text for step in found(space, run(space), view(space, 20, 20, "test"))]
    assert not any("Label" in text for text in texts)


def test_the_largest_group_of_errors_of_one_rule_is_looked_at_but_not_on_test_rows(
    space: Workspace,
):
    buckets = [
        ErrorBucket("confusion", "billing predicted as technical", np.arange(9), 40),
        ErrorBucket("rule", "app", np.arange(5), 12),
    ]
    steps = found(space, run(space), view(space, 31, 9), buckets)
    look = next(step for step in steps if step.kind == "rows" and step.split == "dev")
    assert "5 errors with the same rule: app" in look.text
    assert len(look.rows) == 5
    on_test = found(space, run(space), view(space, 31, 9, "test"), buckets)
    assert not any(step.split == "test" for step in on_test)


def test_a_rule_that_is_mostly_wrong_is_named(space: Workspace):
    space.lf_set.add(keywords("technical", ["app"], column="text", name="app"))
    space.refresh()
    voted = np.flatnonzero(space.votes.covered)
    for row in voted[:8]:
        space.store.add(str(space.train.ids[int(row)]), "billing", "ada")
    space.refresh()
    texts = [step.text for step in found(space, run(space, 8), view(space, 9, 1))]
    n = min(8, len(voted))
    assert any(f"narrow app: it is right on 0 % of {n} labeled rows" in text for text in texts)
