"""Labeling functions that return sets: what they may say, and what their silence means."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from wiesel import keywords, labeling_function, regex
from wiesel.errors import DataError, LabelingFunctionError, ParameterError, VoteError
from wiesel.lfs.failures import FailureLog
from wiesel.multilabel import (
    MultiLabelSpace,
    against,
    apply_multilabel_lfs,
    exhaustive,
    load_multilabel_lfs,
    multilabel_function,
)

LABELS = ["sports", "money", "law"]
ROWS = [{"text": "a goal at the bank"}, {"text": "a bank"}, {"text": "nothing"}]


def votes_of(*lfs, rows=ROWS, **options):
    return apply_multilabel_lfs(list(lfs), rows, labels=LABELS, **options)


def said(votes):
    return {label: votes[label].dense().tolist() for label in LABELS}


@multilabel_function
def topics(row):
    words = {"goal": "sports", "bank": "money"}
    return {words[word] for word in row["text"].split() if word in words} or None


def test_what_a_function_does_not_name_it_abstains_on():
    assert said(votes_of(topics)) == {
        "sports": [[1], [-1], [-1]],
        "money": [[1], [1], [-1]],
        "law": [[-1], [-1], [-1]],
    }


def test_what_an_exhaustive_function_does_not_name_it_votes_against():
    votes = votes_of(exhaustive(topics))
    assert said(votes) == {
        "sports": [[1], [0], [-1]],
        "money": [[1], [1], [-1]],
        "law": [[0], [0], [-1]],
    }


def test_a_function_may_be_exhaustive_for_some_labels_only():
    votes = votes_of(exhaustive(topics, ["sports"]))
    assert said(votes)["sports"] == [[1], [0], [-1]]
    assert said(votes)["law"] == [[-1], [-1], [-1]]


def test_an_exhaustive_function_may_say_that_there_is_none():
    @multilabel_function(exhaustive=True)
    def none_of_them(row):
        return set() if "nothing" in row["text"] else None

    assert said(votes_of(none_of_them))["law"] == [[-1], [-1], [0]]


def test_a_dict_votes_for_and_against():
    @multilabel_function
    def both(row):
        return {"sports": True, "law": False}

    found = said(votes_of(both))
    assert (found["sports"][0], found["money"][0], found["law"][0]) == ([1], [-1], [0])


def test_rules_vote_for_the_label_they_name_or_against_it():
    bank = keywords("money", ["bank"], column="text", name="bank")
    goal = against(regex("money", "goal", column="text", name="goal"))
    assert said(votes_of(bank, goal))["money"] == [[1, 0], [1, -1], [-1, -1]]
    assert said(votes_of(exhaustive(bank)))["sports"] == [[0], [0], [-1]]


def test_voters_keep_their_order_whatever_they_are_made_of():
    bank = keywords("money", ["bank"], column="text", name="bank")
    votes = votes_of(bank, topics, keywords("law", ["court"], column="text", name="court"))
    assert votes.voters == ("bank", "topics", "court")
    assert votes["money"].dense().tolist() == [[1, 1, -1], [1, 1, -1], [-1, -1, -1]]


def test_a_function_is_called_once_for_every_row():
    calls = []

    @multilabel_function
    def counted(row):
        calls.append(row["text"])
        return {"law"}

    votes_of(counted)
    assert len(calls) == len(ROWS)


def test_ids_and_the_cache_work_as_in_apply_lfs(tmp_path):
    rows = pl.DataFrame(ROWS).with_columns(pl.Series("id", ["x", "y", "z"]))
    first = votes_of(topics, rows=rows, ids="id", cache=tmp_path / "votes.sqlite")
    again = votes_of(topics, rows=rows, ids="id", cache=tmp_path / "votes.sqlite")
    assert first.ids.tolist() == ["x", "y", "z"]
    assert again.equals(first)


@pytest.mark.parametrize("on_error", ["raise", "abstain"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("sports", "'wrong' on row 0.*the text 'sports'.*Write {'sports'}"),
        ("sports|law", "Write {'sports', 'law'}"),
        (set(), "'wrong' on row 0.*empty set.*exhaustive=True"),
        ({"sprts"}, "'sprts' is not a label. Did you mean 'sports'"),
        (7, "a set of labels is needed"),
        ({"sports": "yes"}, "True or False"),
    ],
)
def test_an_answer_that_is_no_set_of_labels_is_an_error_always(answer, words, on_error):
    wrong = multilabel_function(name="wrong")(lambda row: answer)
    with pytest.raises(VoteError, match=words):
        votes_of(wrong, on_error=on_error)


def test_a_function_that_raises_is_named_once_for_a_row():
    broken = multilabel_function(name="broken")(lambda row: row["txt"])
    with pytest.raises(LabelingFunctionError, match="'broken' failed on row 0: KeyError: 'txt'"):
        votes_of(broken)
    log = FailureLog()
    assert votes_of(topics, broken, on_error=log).voters == ("topics", "broken")
    assert log.counts == {"broken": 3}


def test_labels_that_do_not_exist_are_refused_before_anything_runs():
    with pytest.raises(VoteError, match="'art'"):
        votes_of(keywords("art", ["paint"], column="text"))
    with pytest.raises(VoteError, match="'art'"):
        votes_of(exhaustive(topics, ["art"]))


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ParameterError, match="list of labels"):
        exhaustive(topics, "sports")
    with pytest.raises(ParameterError, match="returns sets"):
        against(topics)
    with pytest.raises(ParameterError, match="vectorized"):
        votes_of(labeling_function(vectorized=True)(lambda frame: frame["text"]))
    with pytest.raises(ParameterError, match="@multilabel_function"):
        votes_of(lambda row: {"sports"})
    with pytest.raises(ParameterError, match="empty"):
        votes_of()


def test_a_rules_file_says_what_silence_means(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text(
        'labels = ["sports", "money", "law"]\n'
        '[[lf]]\nkind = "keywords"\nlabel = "money"\nkeywords = ["bank"]\ncolumn = "text"\n'
        "exhaustive = true\n"
        '[[lf]]\nkind = "regex"\nlabel = "law"\npattern = "goal"\ncolumn = "text"\nagainst = true\n'
    )
    loaded = load_multilabel_lfs(file)
    assert loaded.labels == MultiLabelSpace(*LABELS)
    found = said(apply_multilabel_lfs(loaded, ROWS, labels=loaded.labels))
    assert found["sports"] == [[0, -1], [0, -1], [-1, -1]]
    assert found["law"] == [[0, 0], [0, -1], [-1, -1]]


def test_a_wrong_key_of_a_rules_file_is_named(tmp_path):
    file = tmp_path / "rules.toml"
    rule = '[[lf]]\nkind = "regex"\nlabel = "law"\npattern = "x"\ncolumn = "text"\n'
    for key, words in (('against = "yes"', "true or false"), ("exhaustive = 3", "list of labels")):
        file.write_text(f"{rule}{key}\n")
        with pytest.raises(LabelingFunctionError, match=words):
            load_multilabel_lfs(file)


def test_a_rules_file_switches_off_what_is_there(tmp_path):
    file = tmp_path / "rules.toml"
    rules = [
        f'[[lf]]\nname = "{name}"\nkind = "regex"\nlabel = "law"\npattern = "x"\ncolumn = "text"\n'
        for name in ("first", "second")
    ]
    file.write_text("\n".join(['off = ["first"]', *rules]))
    assert [lf.name for lf in load_multilabel_lfs(file)] == ["second"]
    file.write_text("\n".join(['off = ["frist"]', *rules]))
    with pytest.raises(LabelingFunctionError, match="Did you mean 'first'"):
        load_multilabel_lfs(file)


def test_a_python_file_gives_its_functions_and_labels(tmp_path):
    file = tmp_path / "lfs.py"
    file.write_text(
        "from wiesel import keywords\n"
        "from wiesel.multilabel import MultiLabelSpace, exhaustive, multilabel_function\n"
        'labels = MultiLabelSpace("sports", "money")\n'
        'bank = keywords("money", ["bank"], column="text", name="bank")\n'
        "closed = exhaustive(bank)\n"
        "@multilabel_function\n"
        'def goal(row):\n    return {"sports"} if "goal" in row["text"] else None\n'
    )
    loaded = load_multilabel_lfs(file)
    # `bank` is part of `closed`, so it is there once.
    assert [(lf.name, lf.exhaustive) for lf in loaded] == [("bank", True), ("goal", False)]
    assert loaded.labels == MultiLabelSpace("sports", "money")


def test_gold_labels_are_sets_or_numbers():
    labels = MultiLabelSpace("a", "b")
    wanted = [[1, 0], [0, 0], [-1, -1]]
    assert labels.presence([{"a"}, [], None]).tolist() == wanted
    assert labels.presence(pl.Series([["a"], [], None])).tolist() == wanted
    assert labels.presence(pd.Series([{"a"}, [], np.nan])).tolist() == wanted
    table = pl.DataFrame({"a": [1, 0, None], "b": [0, 0, None]})
    assert labels.presence(table).tolist() == wanted
    assert labels.presence(table.to_numpy()).tolist() == wanted
    with pytest.raises(DataError, match="row 1: 'c' is not a label"):
        labels.presence([{"a"}, {"c"}])
    with pytest.raises(DataError, match="the text 'a'"):
        labels.presence(["a"])
    with pytest.raises(DataError, match="0, 1"):
        labels.presence(pl.DataFrame({"a": [2], "b": [0]}))
