import math

import pytest
from experiments.cost import Listing, pace_of, paces_of
from experiments.framework import runner
from experiments.framework.definitions import Effort, Row, chosen
from experiments.framework.methods import groups_of
from experiments.framework.runner import Run
from experiments.studies.ablation import ROWS as ABLATION
from experiments.studies.ablation import results as ablation_results
from experiments.studies.duplicates import STUDY as DUPLICATES
from experiments.studies.paper import ABLATION as PAPER_ABLATION
from experiments.studies.paper import TABLE_1
from experiments.studies.table1 import LABEL_FREE, OF_PAPER, ROWS, by_store, choices_of


def test_every_seed_has_a_run_for_every_learning_rate():
    choices = Row("WeaSEL", "weasel", {"tau_1": 2.0}).runs("tiny", 2, (1e-4, 3e-5), {"epochs": 5})
    assert [[run.seed for run in candidates] for candidates in choices] == [[0, 0], [1, 1]]
    first, second = choices[0]
    assert first.options == {"epochs": 5, "tau_1": 2.0}  # 1e-4 is the protocol's own
    assert second.options == {"epochs": 5, "tau_1": 2.0, "lr": 3e-5}


def test_validation_chooses_whatever_test_says():
    good, bad = Run("tiny", "a", 0), Run("tiny", "a", 0, {"lr": 3e-5})
    done = {
        good.key: {"validation": 0.9, "f1": 0.1},
        bad.key: {"validation": 0.8, "f1": 0.99},
    }
    assert chosen([[bad, good]], done) == [done[good.key]]


def test_nothing_is_chosen_for_a_seed_before_all_its_candidates_were_run():
    first, second = Run("tiny", "a", 0), Run("tiny", "a", 0, {"lr": 3e-5})
    assert chosen([[first, second]], {first.key: {"validation": 0.9}}) == []


def test_groups_differ_in_seed_and_learning_rate_only():
    runs = [
        Run("tiny", method, seed, options)
        for method in ("weasel", "majority_vote")
        for seed in (0, 1)
        for options in ({}, {"lr": 3e-5}, {"tau_1": 2.0})
    ]
    sizes = [(group[0].method, group[0].options, len(group)) for group in groups_of(runs)]
    assert sizes == [
        ("weasel", {}, 4),
        ("weasel", {"tau_1": 2.0}, 2),
        ("majority_vote", {}, 4),
        ("majority_vote", {"tau_1": 2.0}, 2),
    ]


@pytest.mark.parametrize(
    ("method", "options", "n_groups"),
    [
        ("triplet", {}, 2),  # each seed draws its own triplets
        ("triplet_mean", {}, 1),
        ("weasel", {"copies": 5}, 2),  # each seed flips its own coin
        ("weasel", {"copies": 5, "draw": 0}, 1),
    ],
)
def test_runs_with_targets_of_their_own_are_not_grouped(method, options, n_groups):
    runs = [Run("tiny", method, seed, options) for seed in (0, 1)]
    assert len(groups_of(runs)) == n_groups


def test_the_words_on_the_command_line_decide_the_effort():
    assert Effort.parsed([], None) == Effort(full=False, seeds=3, jobs=1)
    assert Effort.parsed(["--full", "--jobs", "2"], None) == Effort(full=True, seeds=7, jobs=2)
    assert Effort.parsed(["--full"], None, full_seeds=5).seeds == 5
    assert Effort.parsed(["--full", "--seeds", "2"], None).words == "--full --seeds 2"


def test_what_is_only_recorded_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    runs, trained = [Run("tiny", "a", 0), Run("tiny", "a", 1)], []

    def execute(run):
        trained.append(run.seed)
        return {"score": run.seed}

    first = Effort().records("study", runs[:1], execute)
    assert [record["score"] for record in first] == [0]
    again = Effort(recorded=True).records("study", runs, execute)
    assert [record["score"] for record in again] == [0]
    assert trained == [0]


def test_table_1_has_the_rows_and_sets_of_the_paper():
    titles = {row.title for row in ROWS}
    assert titles >= set(LABEL_FREE) | TABLE_1.keys()
    assert len(titles) == len(ROWS)
    assert set(OF_PAPER) >= {name for figures in TABLE_1.values() for name in figures}


def test_what_ignores_votes_is_run_once_for_both_imdb_sets():
    stores = by_store("imdb_12")
    assert [row.title for row in stores["imdb_136"]] == ["gold", "validation set only"]
    assert len(stores["imdb_12"]) == len(ROWS) - 2
    assert "gold" not in {row.title for row in by_store("spouse")["spouse"]}  # it has no gold


def test_a_set_with_fewer_lfs_is_a_setting_of_the_whole_one():
    row = next(row for row in ROWS if row.title == "Snorkel")
    [candidates] = choices_of("imdb_10", row, Effort(seeds=1))
    assert {run.dataset for run in candidates} == {"imdb_12"}
    assert candidates[0].options["silent"] == ["could", "would"]


def test_the_finished_runs_of_imdb_136_are_part_of_table_1():
    row = next(row for row in ROWS if row.title == "WeaSEL")
    keys = [
        run.key for candidates in choices_of("imdb_136", row, Effort(seeds=1)) for run in candidates
    ]
    assert keys[1] == "edff60de237b"


def test_the_ablation_has_weasel_and_its_twenty_changes():
    assert [row.title for row in ABLATION] == list(PAPER_ABLATION)
    assert len(ABLATION) == 21
    options = [str(sorted(row.options.items())) for row in ABLATION]
    assert len(set(options)) == 21


def test_a_full_study_runs_the_variants_at_every_count():
    reduced, full = DUPLICATES.definitions(Effort()), DUPLICATES.definitions(Effort(full=True))
    assert ("sigmoid", 500) in reduced
    assert ("sigmoid", 2000) not in reduced
    assert ("WeaSEL", 2000) in reduced
    assert ("WeaSEL", 5) not in reduced
    assert {("sigmoid", 2000), ("WeaSEL", 5)} <= full.keys()


def test_what_is_missing_is_estimated_from_the_runs_most_like_it():
    def record(method, seconds, **options):
        run = Run("tiny", method, 0, {"epochs": 10, **options})
        return {"key": run.key, **vars(run), "cpu_seconds": seconds}

    paces = paces_of(
        [record("weasel", 20.0), record("gold", 10.0), record("weasel", 900.0, copies=9)]
    )
    assert pace_of(Run("tiny", "weasel", 1), paces) == 2.0
    assert pace_of(Run("tiny", "weasel", 1, {"copies": 9}), paces) == 90.0
    assert pace_of(Run("tiny", "weasel", 1, {"copies": 8}), paces) == 2.0
    assert pace_of(Run("tiny", "snorkel", 1), paces) == 1.5
    assert math.isnan(pace_of(Run("other", "weasel", 1), paces))


def test_a_listing_asks_for_what_the_study_runs():
    listing = Listing(seeds=2)
    ablation_results(listing)
    assert len(listing.wanted) == 21 * 4 * 2
