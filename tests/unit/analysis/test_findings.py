import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.analysis import findings
from wiesel.analysis.findings import vote_findings


def found(votes, gold=None):
    """Findings by kind; a kind found twice keeps the first."""
    by_kind = {}
    for record in findings(votes, gold).to_records():
        by_kind.setdefault(record["kind"], record)
    return by_kind


def binary(dense, voters=None):
    return VoteMatrix.from_dense(dense, ["neg", "pos"], voters)


def noisy(truth, accuracy, rng):
    return np.where(rng.random(len(truth)) < accuracy, truth, 1 - truth)


def test_duplicates_are_named_once_as_a_group():
    column = np.tile([0, 1], 10)
    other = np.repeat([0, 1], 10)
    votes = binary(np.column_stack([column, column, column, other]), ["a", "b", "c", "d"])
    record = found(votes)["duplicate"]
    assert record["voters"] == ["a", "b", "c"]
    assert record["sentence"] == (
        "'a', 'b' and 'c' always vote the same: they count 3 times in a majority vote. "
        "Keep one of them."
    )


def test_near_duplicates_come_with_the_share_on_which_they_agree():
    column = np.tile([0, 1], 20)
    nearly = column.copy()
    nearly[0] = 1
    record = found(binary(np.column_stack([column, nearly]), ["a", "b"]))["near_duplicate"]
    assert record["voters"] == ["a", "b"]
    assert record["value"] == pytest.approx(39 / 40)
    assert "97.5 %" in record["sentence"]


def test_a_class_nobody_votes_for_is_named():
    votes = VoteMatrix.from_dense([[0, 1], [1, 0]], ["x", "y", "z"])
    record = found(votes)["missing_class"]
    assert record["classes"] == ["z"]
    assert "No voter votes for the class 'z'" in record["sentence"]


def test_one_sided_votes_are_said_once_and_not_as_missing_classes():
    kinds = found(binary([[1, -1], [1, 1]]))
    assert "all voters vote 'pos'" in kinds["one_sided"]["sentence"]
    assert kinds["one_sided"]["value"] == 1
    assert "missing_class" not in kinds


def test_skewed_votes_and_the_only_voter_for_a_class_are_named():
    dense = np.ones((20, 2), int)
    dense[0, 0] = 0
    kinds = found(binary(dense, ["a", "b"]))
    assert kinds["skewed"]["value"] == pytest.approx(39 / 40)
    assert kinds["single_voter_class"]["voters"] == ["a"]


def test_silent_rare_and_constant_voters_are_named():
    dense = np.full((200, 4), -1)
    dense[:, 0] = 1
    dense[:3, 1] = 0
    dense[50:150, 2] = np.tile([0, 1], 50)
    kinds = found(binary(dense, ["always", "rare", "normal", "silent"]))
    assert kinds["never_votes"]["voters"] == ["silent"]
    assert kinds["few_votes"]["voters"] == ["rare"]
    assert kinds["constant"]["voters"] == ["always"]
    assert kinds["constant"]["classes"] == ["pos"]


def test_no_votes_at_all_is_one_finding():
    assert list(found(binary([[-1, -1]]))) == ["no_votes"]


def test_low_coverage_and_low_overlap_are_shares():
    dense = np.full((100, 2), -1)
    dense[:10, 0] = np.tile([0, 1], 5)
    dense[10:20, 1] = np.tile([0, 1], 5)
    kinds = found(binary(dense))
    assert kinds["low_coverage"]["value"] == pytest.approx(0.2)
    assert kinds["low_overlap"]["value"] == 0


def test_a_voter_worse_than_chance_is_named_with_its_interval():
    gold = np.tile([0, 1], 50)
    wrong = 1 - gold
    wrong[:20] = gold[:20]
    record = found(binary(np.column_stack([gold, wrong]), ["good", "bad"]), gold)
    record = record["worse_than_chance"]
    assert record["voters"] == ["bad"]
    assert record["value"] == pytest.approx(0.2)
    assert "right on 20 of 100" in record["sentence"]
    assert "interval" in record["sentence"]


def test_a_few_wrong_votes_are_no_evidence_against_a_voter():
    votes = binary([[0, 1], [1, 0], [0, 0]], ["a", "b"])
    assert "worse_than_chance" not in found(votes, gold=[0, 1, 0])


def test_a_one_sided_voter_is_compared_with_the_share_of_its_class():
    # 'rare' votes pos on 100 items, 30 of them rightly: bad for balanced classes, but pos is rare.
    gold = np.zeros(1000, int)
    gold[:50] = 1
    rare = np.full(1000, -1)
    rare[20:120] = 1
    assert "worse_than_chance" not in found(binary(rare[:, None], ["rare"]), gold)


def test_voters_that_mostly_disagree_are_a_conflict():
    a = np.tile([0, 1], 10)
    b = 1 - a
    b[0] = a[0]
    record = found(binary(np.column_stack([a, b]), ["a", "b"]))["conflict"]
    assert record["voters"] == ["a", "b"]
    assert record["value"] == pytest.approx(0.95)
    assert (
        "contradict each other on 19 items; about 10 are expected by chance" in (record["sentence"])
    )


def test_two_one_sided_voters_of_different_classes_are_no_conflict():
    # They cannot agree, so it says nothing that they never do; they meet as often as by chance.
    rng = np.random.default_rng(0)
    prize = np.where(rng.random(400) < 0.5, 1, -1)
    greeting = np.where(rng.random(400) < 0.5, 0, -1)
    kinds = found(binary(np.column_stack([prize, greeting]), ["prize", "greeting"]))
    assert not {"conflict", "high_conflict", "spammer", "contrary"} & set(kinds)


def test_one_sided_voters_that_meet_far_beyond_chance_are_a_conflict():
    prize, greeting = np.full(1000, -1), np.full(1000, -1)
    prize[:60], greeting[20:90] = 1, 0
    record = found(binary(np.column_stack([prize, greeting]), ["prize", "greeting"]))["conflict"]
    assert record["voters"] == ["prize", "greeting"]
    assert "on 40 items; about 4 are expected by chance" in record["sentence"]


def test_the_only_voter_of_a_class_is_no_spammer():
    # 85 % right where it votes; the others, who never vote pos, cannot agree with it.
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 600)
    only = np.where(noisy(truth, 0.85, rng) == 1, 1, -1)
    others = [np.where(noisy(truth, 0.85, rng) == 0, 0, -1) for _ in range(2)]
    kinds = found(binary(np.column_stack([only, *others]), ["only", "a", "b"]))
    assert not {"spammer", "contrary"} & set(kinds)
    assert kinds["single_voter_class"]["voters"] == ["only"]


def test_a_rule_for_a_rare_class_is_not_accused_by_rules_for_the_common_one():
    # 'shares' is always right; the rules for 'neg' that it meets are wrong there.
    rng = np.random.default_rng(0)
    truth = (rng.random(1000) < 0.4).astype(int)
    shares = np.where((truth == 1) & (rng.random(1000) < 0.2), 1, -1)
    other = np.where((truth == 1) & (rng.random(1000) < 0.3), 1, -1)
    broad = [np.where(rng.random(1000) < 0.5, 0, -1) for _ in range(3)]
    names = ["shares", "other", "a", "b", "c"]
    kinds = found(binary(np.column_stack([shares, other, *broad]), names))
    assert not {"spammer", "contrary"} & set(kinds)


def test_gold_clears_a_voter_that_the_others_disagree_with():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    wrong = noisy(truth, 0.3, rng)
    good = noisy(truth, 0.95, rng)
    dense = np.column_stack([wrong, wrong, wrong, good])
    votes = binary(dense, ["bad_1", "bad_2", "bad_3", "good"])
    assert found(votes)["contrary"]["voters"] == ["good"]
    judged = findings(votes, truth).to_records()
    assert not [row for row in judged if row["kind"] == "contrary" and "good" in row["voters"]]
    worse = [row["voters"] for row in judged if row["kind"] == "worse_than_chance"]
    assert worse == [["bad_1"], ["bad_2"], ["bad_3"]]


def test_a_class_balance_far_from_that_of_gold_is_named():
    gold = np.repeat([0, 1], [160, 40])
    votes = np.full((200, 2), -1)
    votes[:20, 0] = 0
    votes[160:, 1] = 1
    votes[100:140, 1] = 1
    record = found(binary(votes, ["ham", "spam"]), gold)["class_balance"]
    assert record["classes"] == ["neg"]
    assert "20.0 %" in record["sentence"]
    assert "by 200 gold labels, 80.0 %" in record["sentence"]
    given = findings(binary(votes, ["ham", "spam"]), class_balance=[0.8, 0.2]).to_records()
    assert [row["classes"] for row in given if row["kind"] == "class_balance"] == [["neg"]]
    fitting = findings(binary(votes, ["ham", "spam"]), class_balance=[0.2, 0.8]).to_records()
    assert "class_balance" not in {row["kind"] for row in fitting}


@pytest.mark.parametrize(("times", "sure"), [(1, False), (10, True)])
def test_a_few_gold_labels_do_not_contradict_the_votes(times: int, sure: bool):
    # By the votes half of the items are neg; 8 of 10 gold labels are, with a 95 % interval (Wilson)
    # from 49.0 to 94.3 %. Of 80 of 100 it is 71.1 to 86.7 %.
    gold = np.full(200, -1)
    gold[: 10 * times] = np.repeat([0, 1], [8 * times, 2 * times])
    votes = binary(np.column_stack([np.tile([0, 1], 100)] * 2), ["a", "b"])
    assert ("class_balance" in found(votes, gold)) is sure


def test_a_class_whose_items_are_out_of_reach_is_named():
    gold = np.repeat([0, 1], [50, 50])
    votes = np.full((100, 2), -1)
    votes[:40, 0] = 0
    votes[50:52, 1] = 1
    record = found(binary(votes), gold)["uncovered_class"]
    assert record["classes"] == ["pos"]
    assert "of its 50 gold items, 2 have a vote for it" in record["sentence"]


def test_a_voter_that_never_votes_alone_adds_nothing():
    votes = np.full((300, 3), -1)
    votes[:100, 0] = 1
    votes[200:, 1] = 0
    votes[:30, 2] = 1
    kinds = found(binary(votes, ["wide", "other", "within"]))
    assert kinds["never_alone"]["voters"] == ["within"]


def test_the_gravest_finding_comes_first():
    votes = np.full((200, 3), -1)
    votes[:60, 0] = 1
    votes[:60, 1] = 1
    kinds = [row["kind"] for row in findings(binary(votes)).to_records()]
    assert kinds[0] == "one_sided"
    assert kinds.index("duplicate") < kinds.index("never_votes")


def test_random_and_contrary_voters_stand_out_from_the_others():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 2000)
    columns = [noisy(truth, 0.8, rng) for _ in range(5)]
    columns += [noisy(truth, 0.5, rng), noisy(truth, 0.3, rng)]
    names = [f"good_{j}" for j in range(5)] + ["random", "contrary"]
    kinds = found(binary(np.column_stack(columns), names))
    assert kinds["spammer"]["voters"] == ["random"]
    assert kinds["contrary"]["voters"] == ["contrary"]


def test_voters_that_all_draw_at_random_quarrel():
    dense = np.random.default_rng(0).integers(0, 2, (500, 4))
    assert found(binary(dense))["high_conflict"]["value"] == pytest.approx(0.5, abs=0.05)


def test_good_votes_have_no_findings():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 500)
    table = findings(binary(np.column_stack([noisy(truth, 0.8, rng) for _ in range(4)])), truth)
    assert len(table) == 0
    assert "No problems" in str(table)


def test_a_name_that_looks_like_html_is_escaped():
    table = findings(binary([[1], [1]], ["<img src=x>"]))
    assert len(table) > 0
    assert "<img" not in table.to_html()


def test_a_contrary_voter_is_one_finding_and_not_a_conflict_with_everybody():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    right = rng.random((300, 6)) < 0.9
    dense = np.where(right, truth[:, None], 1 - truth[:, None])
    dense[:, 0] = np.where(rng.random(300) < 0.05, truth, 1 - truth)
    names = ["liar", *"abcde"]
    table = findings(VoteMatrix.from_dense(dense, ["ham", "spam"], names))
    assert table.frame["kind"].to_list() == ["contrary"]
    assert str(table).startswith("1 finding\n")


def test_a_catch_all_is_named_with_its_share():
    """'other' votes on the 60 of 100 items that no other voter votes on."""
    dense = np.full((100, 3), -1)
    dense[:20, 0], dense[10:40, 1], dense[40:, 2] = 1, 2, 0
    votes = VoteMatrix.from_dense(dense, ["rest", "b", "c"], ["one", "two", "other"])
    (found,) = [each for each in vote_findings(votes) if each.kind == "catch_all"]
    assert (list(found.voters), found.value) == (["other"], 0.6)
    assert "votes 'rest' on 60.0 % of the items, and almost only where" in found.sentence
    dense[:40:2, 2] = 0  # and on half of theirs: it is a voter as any other
    again = VoteMatrix.from_dense(dense, ["rest", "b", "c"], ["one", "two", "other"])
    assert "catch_all" not in {each.kind for each in vote_findings(again)}


def test_a_voter_of_one_class_is_constant_only_if_it_votes_on_nearly_every_item():
    rng = np.random.default_rng(0)
    other = rng.integers(2, size=100)
    some = np.where(np.arange(100) < 50, 1, -1)
    assert "constant" not in found(binary(np.column_stack([some, other]), ["some", "other"]))


@pytest.mark.parametrize(("voted", "given"), [(0.12, 0.02), (0.05, 0.19)])
def test_of_a_given_class_balance_a_factor_of_three_is_far_off(voted, given):
    # Differences below .15 count only if one share is at least three times the other.
    votes = binary(np.where(np.arange(300) < 300 * voted, 1, 0)[:, None].repeat(2, axis=1))
    named = findings(votes, class_balance=[1 - given, given]).to_records()
    assert [row["classes"][0] for row in named if row["kind"] == "class_balance"] == ["pos"]
    near = findings(votes, class_balance=[1 - 2 * voted, 2 * voted]).to_records()
    assert "class_balance" not in {row["kind"] for row in near}


def test_a_rare_voter_that_always_meets_a_frequent_one_contradicts_it():
    # b votes on 100 of the 4,000 items, all of them with a, and always for the other class; by
    # chance, they would meet on 400 * 100 / 4,000 = 10 items.
    a, b = np.full(4000, -1), np.full(4000, -1)
    a[:400] = 1
    b[:100] = 0
    record = found(binary(np.column_stack([a, b]), ["a", "b"]))["conflict"]
    assert record["voters"] == ["a", "b"]
    assert "contradict each other on 100 items; about 10 are expected" in record["sentence"]
