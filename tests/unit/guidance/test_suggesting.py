import numpy as np
import polars as pl
import pytest
from planted import LABELS, WORDS, noisy_votes, planted

from wiesel import apply_lfs, keywords, suggest_lfs
from wiesel.errors import DataError, ParameterError


def some_gold(gold: np.ndarray, n: int = 20) -> np.ndarray:
    return np.where(np.arange(len(gold)) < n, gold, -1)


def test_from_twenty_labels_the_planted_words_are_found_with_their_class():
    data = planted()
    found = suggest_lfs(data.rows, labels=LABELS, gold=some_gold(data.gold), n=8)
    words = {each.lf.keywords[0]: each.lf.label for each in found if hasattr(each.lf, "keywords")}
    planted_words = {word: LABELS.names[k] for k, own in WORDS.items() for word in own}
    agreeing = [word for word, label in words.items() if planted_words.get(word) == label]
    assert len(agreeing) >= 6
    assert not [w for w, label in words.items() if planted_words.get(w, label) != label]


def test_suggested_lfs_can_be_applied_and_are_mostly_right():
    data = planted()
    found = suggest_lfs(data.rows, labels=LABELS, gold=some_gold(data.gold), features=data.X, n=8)
    votes = apply_lfs(found.lfs, data.rows, labels=LABELS)
    assert (votes.class_index == data.gold[votes.item_index]).mean() > 0.9
    assert votes.covered.mean() > 0.7


def test_present_votes_are_enough_without_gold():
    data = planted()
    found = suggest_lfs(data.rows, noisy_votes(data, (0.8, 0.8, 0.8)), n=6)
    votes = apply_lfs(found.lfs, data.rows, labels=LABELS)
    assert (votes.class_index == data.gold[votes.item_index]).mean() > 0.9


def test_limits_of_numbers_are_suggested_where_there_is_no_text():
    data = planted()
    table = pl.DataFrame({"size": data.X[:, 0].astype(float)})
    found = suggest_lfs(
        table, labels=LABELS, gold=some_gold(data.gold, 60), features=data.X[:, :1], n=4
    )
    assert {lf.kind for lf in found.lfs} == {"threshold"}
    assert {lf.label for lf in found.lfs} == {"ham", "spam"}
    assert all((lf.above is not None) == (lf.label == "spam") for lf in found.lfs)


def test_no_suggestion_repeats_a_word_of_another():
    data = planted()
    found = suggest_lfs(data.rows, labels=LABELS, gold=some_gold(data.gold), n=12)
    sets = [set(lf.keywords[0].split()) for lf in found.lfs if lf.kind == "keywords"]
    assert len(sets) > 4
    pairs = [(a, b) for k, a in enumerate(sets) for b in sets[:k]]
    assert not [pair for pair in pairs if pair[0] <= pair[1] or pair[1] <= pair[0]]


def topics(n_topics: int = 20, n_rows: int = 1200) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Ten topics for each class, with ten words each; the features tell the topics."""
    rng = np.random.default_rng(0)
    topic = rng.integers(0, n_topics, n_rows)
    texts = [" ".join(f"w{k}x{j}" for j in rng.choice(10, 4, replace=False)) for k in topic]
    X = np.eye(n_topics)[topic] + 0.1 * rng.normal(size=(n_rows, n_topics))
    return pl.DataFrame({"text": texts}), X.astype(np.float32), topic


def test_with_features_a_rule_lists_words_of_one_topic():
    rows, X, topic = topics()
    gold = topic % 2
    known = some_gold(gold, 100)
    found = [
        lf
        for lf in suggest_lfs(rows, labels=LABELS, gold=known, features=X, n=10).lfs
        if lf.kind == "keywords"
    ]
    several = [lf for lf in found if len(lf.keywords) > 1]
    assert len(several) >= 5
    assert max(len(lf.keywords) for lf in several) <= 5
    for lf in several:
        assert len({word.partition("x")[0] for word in lf.keywords[0].split()}) == 1
        assert len({keyword.partition("x")[0] for keyword in lf.keywords}) == 1


def test_the_figures_of_a_list_are_those_of_all_its_rows():
    rows, X, topic = topics()
    known = some_gold(topic % 2, 100)
    found = suggest_lfs(rows, labels=LABELS, gold=known, features=X, n=10)
    each = next(s for s in found if s.lf.kind == "keywords" and len(s.lf.keywords) > 1)
    own = apply_lfs([each.lf], rows, labels=LABELS)
    assert each.coverage == pytest.approx(own.covered.mean())
    assert each.support == (known[own.item_index] != -1).sum()
    assert each.correct == (known[own.item_index] == own.class_index).sum()


def test_without_features_every_rule_has_one_word():
    rows, _, topic = topics()
    found = suggest_lfs(rows, labels=LABELS, gold=some_gold(topic % 2, 100), n=10).lfs
    assert {len(lf.keywords) for lf in found if lf.kind == "keywords"} == {1}


def test_what_a_present_voter_says_already_is_not_suggested():
    data = planted()
    prizes = apply_lfs([keywords("spam", ["prize"], column="text")], data.rows, labels=LABELS)
    gold = some_gold(data.gold)
    found = suggest_lfs(data.rows, prizes, gold=gold, n=8).lfs
    words = [lf.keywords[0] for lf in found if lf.kind == "keywords"]
    assert "winner" in words
    assert not [word for word in words if "prize" in word.split()]


def test_the_same_call_gives_the_same_suggestions():
    data = planted()
    first, second = (
        suggest_lfs(data.rows, labels=LABELS, gold=some_gold(data.gold), n=8) for _ in range(2)
    )
    assert first.lfs == second.lfs


def test_a_class_of_which_nothing_is_known_is_named():
    data = planted()
    gold = np.where((np.arange(300) < 20) & (data.gold == 0), 0, -1)
    with pytest.raises(DataError, match=r"There is no evidence for 'spam': label a row"):
        suggest_lfs(data.rows, labels=LABELS, gold=gold)


def test_without_votes_the_classes_are_asked_for():
    with pytest.raises(ParameterError, match="labels="):
        suggest_lfs({"text": ["a"]})


def test_the_table_tells_rule_coverage_and_precision():
    data = planted()
    text = str(suggest_lfs(data.rows, labels=LABELS, gold=some_gold(data.gold), n=3))
    assert "3 suggested labeling functions" in text
    assert "votes for" in text
    assert "right on gold" in text
