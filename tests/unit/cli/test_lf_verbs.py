"""`wiesel apply`, `try` and `inspect`."""

import polars as pl
import pytest

from wiesel import MajorityVote, VoteMatrix
from wiesel.io import read_votes


def test_apply_writes_the_votes_and_prints_a_row_for_each_labeling_function(folder, wiesel):
    result = wiesel("apply", "mails.csv", "--lfs", "lfs.py", "-o", "votes.parquet", "--id", "id")
    assert result.exit_code == 0, result.output
    votes = read_votes("votes.parquet")
    assert votes.voters == ("gifts", "short")
    assert votes.ids.tolist() == ["m1", "m2", "m3"]
    assert votes.dense().tolist() == [[1, -1], [-1, 0], [1, 0]]
    assert "gifts" in result.stdout
    assert "short" in result.stdout


@pytest.mark.parametrize("output", ["votes.csv", "votes.v1", "nowhere/votes.parquet"])
def test_apply_refuses_an_impossible_output_before_it_votes(folder, wiesel, output):
    (folder / "lfs.py").write_text(
        "from wiesel import LabelSpace, labeling_function\n"
        'labels = LabelSpace("ham", "spam")\n'
        "@labeling_function\ndef slow(row):\n    open('voted', 'w').close()\n"
    )
    result = wiesel("apply", "mails.csv", "--lfs", "lfs.py", "-o", output)
    assert result.exit_code == 1
    assert output in result.stderr
    assert not (folder / "voted").exists()


def test_inspect_says_that_there_is_no_such_file_or_folder(folder, wiesel):
    result = wiesel("inspect", "votes")
    assert result.exit_code == 1
    assert "There is no file votes" in result.stderr


def test_the_last_line_names_the_next_step_and_goes_to_stderr(folder, wiesel):
    result = wiesel("apply", "mails.csv", "--lfs", "lfs.py", "-o", "my votes.parquet")
    assert result.stderr.splitlines()[-1] == "Next: wiesel inspect 'my votes.parquet'"
    assert "Next:" not in result.stdout


def test_apply_takes_the_classes_from_the_command_line_where_the_file_has_none(folder, wiesel):
    (folder / "rules.toml").write_text(
        '[[lf]]\nkind="keywords"\nlabel="spam"\nkeywords=["free"]\ncolumn="text"\n'
        '[[lf]]\nkind="keywords"\nlabel="ham"\nkeywords=["see"]\ncolumn="text"\n'
    )
    words = ("apply", "mails.csv", "--lfs", "rules.toml")
    refused = wiesel(*words)
    assert refused.exit_code == 1
    assert "--labels ham,spam" in refused.stderr
    assert (
        wiesel("apply", "mails.csv", "--lfs", "rules.toml", "--labels", "spam, ham").exit_code == 0
    )
    assert read_votes("votes.parquet").labels.names == ("spam", "ham")


def test_a_second_apply_with_a_cache_runs_only_what_changed(folder, wiesel):
    words = ("apply", "mails.csv", "--lfs", "lfs.py", "--cache", "votes.sqlite")
    assert "0 of 2 parts were in the cache" in wiesel(*words).stderr
    source = (folder / "lfs.py").read_text()
    (folder / "lfs.py").write_text(source.replace("< 12", "< 5"))
    assert "1 of 2 parts were in the cache" in wiesel(*words).stderr
    assert read_votes("votes.parquet").dense().tolist() == [[1, -1], [-1, -1], [1, -1]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "rya"), "no engine 'rya'. Did you mean 'ray'?"),
        (("--engine", "ray"), "reads Parquet files"),
        (("--engine", "ray", "--cache", "x.sqlite"), "has no cache"),
    ],
)
def test_an_engine_that_cannot_do_it_says_why(folder, wiesel, words, said):
    pytest.importorskip("ray")
    result = wiesel("apply", "mails.csv", "--lfs", "lfs.py", *words)
    assert result.exit_code == 1
    assert said in result.stderr


@pytest.mark.parametrize("words", [(), ("--multi", "--labels", "ham,spam"), ("-o", "votes")])
def test_a_timeout_reaches_the_labeling_functions(folder, wiesel, words):
    result = wiesel("apply", "mails.csv", "--lfs", "lfs.py", "--timeout", "0", *words)
    assert result.exit_code == 1
    assert "timeout is a number of seconds above 0; got 0.0." in result.stderr


@pytest.mark.parametrize("how", ["raise", "abstain"])
def test_a_labeling_function_that_raises_is_named(folder, wiesel, how):
    (folder / "lfs.py").write_text(
        "from wiesel import LabelSpace, labeling_function\nlabels = LabelSpace('ham', 'spam')\n"
        "@labeling_function\ndef broken(row):\n    return row['txt']\n"
    )
    result = wiesel("apply", "mails.csv", "--lfs", "lfs.py", "--on-error", how)
    assert result.exit_code == (1 if how == "raise" else 0)
    assert "broken" in result.stderr
    assert "Traceback" not in result.output


def test_try_marks_what_matched(folder, wiesel, wiesel_json):
    shown = wiesel("try", "mails.csv", "--lfs", "lfs.py", "-n", 1)
    assert "A [free] [prize] for you" in shown.stdout
    assert "see you" not in shown.stdout
    answer = wiesel_json("try", "mails.csv", "--lfs", "lfs.py")
    assert [row["votes"] for row in answer["rows"]] == [
        {"gifts": "spam"},
        {"short": "ham"},
        {"gifts": "spam", "short": "ham"},
    ]


def test_inspect_measures_precision_on_gold_labels_found_by_id(folder, wiesel, wiesel_json):
    wiesel("apply", "mails.csv", "--lfs", "lfs.py", "--id", "id")
    pl.DataFrame({"id": ["m3", "m1"], "label": ["ham", "spam"]}).write_parquet("dev.parquet")
    answer = wiesel_json("inspect", "votes.parquet", "--gold", "dev.parquet")
    assert {row["voter"]: (row["support"], row["precision"]) for row in answer["voters"]} == {
        "gifts": (2, 0.5),
        "short": (1, 1.0),
    }
    assert any("gifts" in row["voters"] for row in answer["findings"])


def test_inspect_takes_gold_labels_in_order_where_there_are_no_ids(folder, wiesel):
    wiesel("apply", "mails.csv", "--lfs", "lfs.py")
    (folder / "gold.csv").write_text("label\nspam\nham\nham\n")
    assert wiesel("inspect", "votes.parquet", "--gold", "gold.csv").exit_code == 0
    (folder / "gold.csv").write_text("label\nspam\nham\n")
    refused = wiesel("inspect", "votes.parquet", "--gold", "gold.csv")
    assert refused.exit_code == 1
    assert "2 labels for 3 voted items" in refused.stderr
    assert "--id" in refused.stderr


def test_inspect_prints_the_manifest_of_a_model(folder, wiesel, wiesel_json):
    votes = VoteMatrix.from_dense([[0, 1], [1, 1]], ["ham", "spam"], ["a", "b"])
    MajorityVote(hard=True).fit(votes).save("model")
    answer = wiesel_json("inspect", "model")
    assert answer["manifest"]["class"] == "MajorityVote"
    assert set(answer["bytes"]) == set(answer["manifest"]["files"])
    shown = wiesel("inspect", "model").stdout
    assert "MajorityVote model" in shown
    assert "hard = True" in shown


def test_inspect_refuses_a_folder_that_is_no_model(folder, wiesel):
    result = wiesel("inspect", folder)
    assert result.exit_code == 1
    assert "is not a saved model" in result.stderr
