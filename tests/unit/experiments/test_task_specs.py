from dataclasses import replace
from pathlib import Path

import pytest
from experiments.tasks.cards import CARDS
from experiments.tasks.families import TASKS_PER_HALF, family_specs
from experiments.tasks.halves import BASE_HALVES
from experiments.tasks.skew import class_shares, n_items_with_skew
from experiments.tasks.specs import STYLES, all_specs, spec_named

LISTING = Path(__file__).parents[3] / "experiments" / "results" / "tasks_listing.txt"


def test_there_are_two_hundred_tasks_with_names_of_their_own():
    assert len({spec.name for spec in all_specs()}) == len(all_specs()) >= 200


def test_the_tasks_are_those_of_the_committed_listing():
    """Results are of these tasks: a change of the draw must not go unnoticed."""
    lines = [f"{spec.fingerprint} {spec.describe()}" for spec in all_specs()]
    assert LISTING.read_text().splitlines() == lines


def test_every_base_has_tasks_and_both_halves_have_as_many():
    assert CARDS.keys() == BASE_HALVES.keys() == {spec.base for spec in all_specs()}
    chosen = sum(spec.half == "choose" for spec in all_specs())
    assert abs(2 * chosen - len(all_specs())) <= 10
    for half in ("choose", "confirm"):
        binary = [spec.is_binary for spec in all_specs() if spec.half == half]
        assert 0.35 < sum(binary) / len(binary) < 0.65


def test_tasks_vary_as_widely_as_they_should():
    specs, plans = all_specs(), [spec.voters for spec in all_specs()]
    assert {plan.style for plan in plans} == set(STYLES)
    for values, low, high in (
        ([plan.n_voters for plan in plans], 3, 300),
        ([plan.precision for plan in plans], 0.35, 0.95),
        ([plan.coverage for plan in plans], 0.05, 1.0),
        ([spec.n_classes for spec in specs], 2, 20),
        ([spec.skew for spec in specs if spec.skew], 2, 50),
        ([spec.n_train for spec in specs], 300, 20_000),
    ):
        assert (min(values), max(values)) == (low, high)
    for trap in ("copies", "adversaries", "constants"):
        assert sum(getattr(plan, trap) > 0 for plan in plans) >= 20
    assert all(plan.n_honest >= 3 for plan in plans)


def test_a_spec_is_described_in_one_line_and_known_by_its_fingerprint():
    spec = all_specs()[0]
    assert spec.describe().startswith(f"{spec.name}: {spec.n_classes} classes")
    assert "\n" not in spec.describe()
    assert spec_named(spec.name) is spec
    assert replace(spec, n_train=spec.n_train + 1).fingerprint != spec.fingerprint


def test_purposes_have_random_numbers_of_their_own():
    spec = all_specs()[0]
    first, again, other = (spec.generator(name).random() for name in ("votes", "votes", "rows"))
    assert first == again != other


def test_an_unknown_task_is_refused_with_where_to_look():
    with pytest.raises(KeyError, match="--list"):
        spec_named("agnews-99")


def test_a_skew_leaves_what_the_rarest_class_allows():
    """1:4 over three classes is 4 to 2 to 1; of 100, 100, 10 items 70 are left."""
    assert class_shares(3, 4) * 7 == pytest.approx([4, 2, 1])
    assert n_items_with_skew([100, 100, 10], 4) == pytest.approx(70)
    assert n_items_with_skew([100, 100, 10], None) == 210


def test_the_families_are_those_of_the_committed_listing_in_both_halves():
    lines = [f"{spec.fingerprint} {spec.describe()}" for spec in family_specs()]
    assert LISTING.with_name("families_listing.txt").read_text().splitlines() == lines
    for half in ("choose", "confirm"):
        of_half = [spec for spec in family_specs() if spec.half == half]
        assert {spec.family for spec in of_half} == set(TASKS_PER_HALF)
        assert 25 <= sum(spec.is_quick for spec in of_half) == len(of_half) / 2
