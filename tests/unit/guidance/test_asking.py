"""What to ask a crowd next: chances by hand, whom, and what a plan holds."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from wiesel import aggregate, ask_next
from wiesel.cli.main import app
from wiesel.datasets import make_votes
from wiesel.errors import ParameterError
from wiesel.guidance.asking import (
    forecast_wrong,
    information,
    worker_confusions,
)
from wiesel.votes import VoteMatrix


@pytest.fixture(scope="module")
def answers() -> pl.DataFrame:
    accuracies = [0.9] * 4 + [0.7] * 6 + [0.5]
    votes, _ = make_votes(300, 11, accuracies=accuracies, coverage=0.4, seed=3)
    names = {"item": "task", "voter": "worker"}
    return votes.to_long().rename(names)


def test_the_forecast_is_that_of_an_enumeration():
    # P = 0.7 : 0.3, answers are right with 0.8. After one: right in 0.7 * 0.8 + 0.3 * 0.2 = 0.62
    # of cases P becomes 56 : 6; otherwise 14 : 24. Wrong: 0.06 + 0.14 = 0.20.
    # After two: 0.7 * (0.64, 0.32, 0.04), 0.3 * (0.04, 0.32, 0.64): 0.012 + 0.096 + 0.028 = 0.136.
    given = np.array([[0.8, 0.2], [0.2, 0.8]])
    found = forecast_wrong(np.array([[0.7, 0.3]]), given, np.zeros(1), 2, redundancy=0.0)
    np.testing.assert_allclose(found, [[0.3, 0.2, 0.136]], atol=0.03)
    # After four answers, an answer counts as 1 / (1 + 4 * 0.25) = 1/2 of one: halfway.
    later = forecast_wrong(np.array([[0.7, 0.3]]), given, np.array([4.0]), 2, redundancy=0.25)
    assert later[0, 1] == pytest.approx((found[0, 0] + found[0, 1]) / 2)


def test_answers_that_tell_nothing_do_not_help():
    coin = np.full((3, 3), 1 / 3)
    sure = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    found = forecast_wrong(sure, coin, np.ones(2), 4)
    np.testing.assert_allclose(found, np.repeat(1 - sure.max(axis=1, keepdims=True), 5, axis=1))


def test_workers_are_asked_about_what_they_know():
    """One knows a from the others, the other knows c from the others."""
    knows_a = [[0.98, 0.01, 0.01], [0.02, 0.49, 0.49], [0.02, 0.49, 0.49]]
    knows_c = [[0.49, 0.49, 0.02], [0.49, 0.49, 0.02], [0.01, 0.01, 0.98]]
    told = information(np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]), np.array([knows_a, knows_c]))
    assert told.argmax(axis=1).tolist() == [0, 1]


def test_confusions_of_workers_are_shrunk_counts():
    votes = VoteMatrix.from_dense([[0, 0], [0, 1], [1, 1], [1, 1]], ["a", "b"])
    proba = np.eye(2)[[0, 0, 1, 1]]
    pooled = np.array([[3.5, 1.5], [0.5, 4.5]]) / 5
    expected = np.array([[2, 0], [0, 2]]) + 5 * pooled
    found = worker_confusions(votes, proba)[0]
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True))


def test_a_plan_adds_up(answers):
    found = aggregate(answers)
    plan = ask_next(found, target=0.15, price=0.1)
    frame = plan.table.frame
    asked = frame.filter(pl.col("further").is_not_null())
    assert plan.n_answers == asked["further"].sum()
    assert plan.n_answers == plan.workers.frame["answers"].sum() + plan.n_of_new_workers
    assert f"{plan.n_of_new_workers} of these answers have to come from new workers" in str(plan)
    assert plan.cost == pytest.approx(0.1 * plan.n_answers)
    wrong = 1 - found.label_frame["confidence"]
    assert plan.n_open == len(frame) == (wrong > 0.15).sum()
    assert plan.wrong_now == pytest.approx(wrong.mean())
    assert (asked["wrong_after"] <= 0.15).all()
    saved = (asked["wrong"] - asked["wrong_after"]).sum() / len(wrong)
    assert plan.forecast[-1] == (plan.n_answers, pytest.approx(plan.wrong_now - saved))
    given = {(row["task"], row["worker"]) for row in answers.iter_rows(named=True)}
    flagged = set(found.worker_table.frame.filter(pl.col("flag") != "")["worker"])
    for row in asked.iter_rows(named=True):
        assert len(set(row["ask"])) == len(row["ask"]) <= row["further"]
        assert not given & {(row["task"], name) for name in row["ask"]}
        assert not flagged & set(row["ask"])
    # An answer to the first item tells most: it has few answers, or they are divided.
    assert asked["wrong"][0] > asked["wrong"][-1]


def test_a_budget_cuts_the_list_and_says_so(answers):
    full, part = ask_next(answers), ask_next(answers, budget=20)
    assert part.n_answers <= 20 < full.n_answers
    assert part.n_open == full.n_open
    assert "beyond the budget" in str(part)
    assert part.table.frame["task"].to_list()[:2] == full.table.frame["task"].to_list()[:2]


def test_nothing_is_asked_when_every_label_is_good_enough(answers):
    plan = ask_next(answers, target=0.9)
    assert (plan.n_answers, plan.n_open, len(plan.table)) == (0, 0, 0)
    assert "Nothing is left to ask: stop" in str(plan)


def test_what_makes_no_sense_is_refused(answers):
    for option, value in (("target", 2), ("target", "much"), ("price", -1), ("most", 0)):
        with pytest.raises(ParameterError, match=option):
            ask_next(answers, **{option: value})
    with pytest.raises(ParameterError, match=r"calibrated confidences.*dawid_skene"):
        ask_next(answers, method="majority_vote")


def test_where_no_answers_can_be_compared_a_first_round_is_asked_for():
    # Thirty workers answered once each. It said that ten more answers each would not do: stop.
    rows = {"task": [f"t{k}" for k in range(30)], "worker": [f"w{k}" for k in range(30)]}
    plan = ask_next({**rows, "label": ["a", "b"] * 15})
    assert (plan.n_open, plan.n_answers, plan.n_undecidable) == (30, 60, 0)
    assert "Too few answers can be compared" in plan.sentences()[1]
    assert plan.table.frame["wrong_after"].null_count() == 30
    assert all(len(names) == 2 for names in plan.table.frame["ask"])
    many = {"task": list(range(300)), "worker": ["x", "y"] * 150, "label": ["a", "b", "b"] * 100}
    assert ask_next(many, budget=70).n_answers == 70
    assert ask_next(many).n_answers == 100


def test_the_command_writes_the_list(answers, tmp_path):
    file, out = tmp_path / "answers.csv", tmp_path / "ask.csv"
    answers.write_csv(file)
    words = ["ask-next", str(file), "--price", "0.05", "-o", str(out), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout[done.stdout.index("{") :])
    plan = ask_next(answers, price=0.05)
    assert told["n_answers"] == plan.n_answers
    assert told["cost"] == pytest.approx(plan.cost)
    assert len(pl.read_csv(out)) == len(told["items"]) == len(plan.table)
    shown = CliRunner().invoke(app, ["ask-next", str(file)])
    assert "Next: wiesel ask-next" in shown.output
    assert "stop when the list is empty" in shown.output
