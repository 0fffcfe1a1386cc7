"""wiesel.toml: what it may say, and what is said about mistakes."""

import re

import polars as pl
import pytest

from wiesel.errors import DataError, ParameterError
from wiesel.multilabel import load_multilabel_lfs
from wiesel.project import read_project, run_project, write_starter
from wiesel.project.rows import project_classes
from wiesel.project.settings import key_lines
from wiesel.spans import load_span_lfs, read_annotated
from wiesel.training import RayTrain


def refused(folder, old: str, new: str) -> str:
    file = folder / "wiesel.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(ParameterError) as caught:
        read_project(folder)
    return str(caught.value)


@pytest.mark.parametrize(("kind", "option"), [("multi", "multi"), ("spans", "spans")])
def test_the_other_starters_have_gold_labels_of_their_kind(tmp_path, kind, option):
    write_starter(tmp_path / "demo", kind=kind)
    assert getattr(read_project(tmp_path / "demo"), option)
    if kind == "spans":
        documents, spans = read_annotated(tmp_path / "demo" / "dev.jsonl")
        marked = {
            text[span.start : span.end]
            for text, own in zip(documents.texts, spans, strict=True)
            for span in own
        }
        assert {"tablet", "July"} <= marked
        assert load_span_lfs(tmp_path / "demo" / "lfs.py", tmp_path / "demo" / "rules.toml")
    else:
        rows = pl.read_ndjson(tmp_path / "demo" / "dev.jsonl")
        assert rows["label"].list.len().max() == 3
        files = (tmp_path / "demo" / "lfs.py", tmp_path / "demo" / "rules.toml")
        assert len(load_multilabel_lfs(*files).lfs) == 7


def test_a_project_is_read_from_its_folder_or_its_file(tiny):
    project = read_project(tiny)
    assert project == read_project(tiny / "wiesel.toml")
    assert project.name == "tiny"
    assert project.votes.lfs == ("lfs.py",)
    assert project.features.options == {"n_dimensions": 3}
    assert project.output_folder == tiny / "out"


def test_a_wrong_key_is_named_with_its_line_and_a_suggestion(tiny):
    said = refused(tiny, "train = ", "trian = ")
    assert "wiesel.toml, line 4: There is no key 'trian' in [data]. Did you mean 'train'?" in said


def test_the_network_is_no_option_of_training(tmp_path):
    """It was a TypeError about a constructor, after the rows had been read."""
    write_starter(tmp_path / "demo", kind="spans")
    said = refused(tmp_path / "demo", "epochs = 5", 'epochs = 5\nend_model = "linear_tagger"')
    assert "'end_model' is not an option of a project" in said
    assert "[end_model] and, below it, name" in said


def test_a_wrong_table_is_named(tiny):
    assert "line 18: There is no key or table 'methd'. Did you mean 'method'?" in refused(
        tiny, "[method]", "[methd]"
    )


def test_all_mistakes_are_told_at_once(tiny):
    said = refused(tiny, 'lfs = ["lfs.py"]', "lfs = 3\non_eror = 1")
    assert "line 9: 'lfs' is a list of texts; got 3." in said
    assert "line 10: There is no key 'on_eror'" in said


def test_a_value_of_the_wrong_kind_is_shown(tiny):
    assert "line 1: 'classes' is a list of texts; got 'billing'. Write [\"billing\"]." in refused(
        tiny, 'classes = ["billing", "technical"]', 'classes = "billing"'
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0", "line 10: timeout is a number of seconds above 0; got 0."),
        ("true", "line 10: timeout is a number of seconds above 0; got True."),
        ("nan", "line 10: timeout is a number of seconds above 0; got nan."),
        ('"30"', "line 10: 'timeout' is a number; got '30'."),
    ],
)
def test_a_timeout_that_is_none_is_told_with_its_line(tiny, value, words):
    assert words in refused(tiny, 'lfs = ["lfs.py"]', f'lfs = ["lfs.py"]\ntimeout = {value}')


def test_a_timeout_is_refused_where_this_process_runs_the_functions(tmp_path):
    write_starter(tmp_path / "demo", kind="spans")
    said = refused(tmp_path / "demo", "[votes]\n", "[votes]\ntimeout = 30\n")
    assert "With spans = true this process runs the labeling functions: leave 'timeout' out" in said


def test_rows_and_votes_come_from_one_place_each(tiny):
    assert "train, dataset or module; got 'train', 'dataset'" in refused(
        tiny, "[data]", '[data]\ndataset = "movie_reviews"'
    )


def test_votes_must_come_from_somewhere(tiny):
    assert "[votes] names lfs, answers or file, one of them; got nothing" in refused(
        tiny, 'lfs = ["lfs.py"]', ""
    )


def test_broken_toml_says_where(tiny):
    assert "line 3" in refused(tiny, "[data]", "[data")


def test_a_folder_without_a_project_says_how_to_make_one(tmp_path):
    with pytest.raises(ParameterError, match="wiesel init"):
        read_project(tmp_path)


def test_lines_of_quoted_keys_and_nested_tables_are_found():
    text = '# a comment\n[options.weasel]\n"tau_1" = 1\n\n[[lf]]\nname = "x"\n'
    assert key_lines(text) == {
        "options": 2,
        "options.weasel": 2,
        "options.weasel.tau_1": 3,
        "lf": 5,
        "lf.name": 6,
    }


def test_the_starter_is_a_valid_project_and_is_never_written_over_something(tmp_path):
    written = write_starter(tmp_path / "demo")
    assert {file.name for file in written} >= {"wiesel.toml", "lfs.py", "rules.toml", "README.md"}
    assert read_project(tmp_path / "demo").method.name == "committee"
    with pytest.raises(DataError, match="not empty"):
        write_starter(tmp_path / "demo")


def test_the_same_seed_writes_the_same_starter(tmp_path):
    for name in ("a", "b"):
        write_starter(tmp_path / name, seed=3)
    assert (tmp_path / "a/train.csv").read_text() == (tmp_path / "b/train.csv").read_text()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("epochs = 2", "epoch = 2", "line 23: .*Did you mean 'epochs'"),
        ("lr = 0.05", 'lr = "fast"', "line 24: .*'lr'"),
        ("n_dimensions = 3", "n_dimension = 3", "line 13: .*Did you mean 'n_dimensions'"),
        ('kind = "tfidf"', 'kind = "tfdif"', "line 12: .*Did you mean 'tfidf'"),
        ('name = "linear"', 'name = "liner"', "line 16: .*Did you mean 'linear'"),
        ('name = "linear"', 'name = "linear"\nbais = 1', "line 17: There is no option 'bais'"),
        ('name = "majority_vote"', 'name = "majorty"', "line 19: .*Did you mean"),
        ("baselines = []", 'baselines = ["snorkle"]', "line 20: .*Did you mean 'snorkel'"),
        ("lr = 0.05", "[options.snorkle]\ntol = 1", "line 24: .*Did you mean 'snorkel'"),
        ('["billing", "technical"]', '["billing", "billing"]', "line 1: Each class is named once"),
    ],
)
def test_a_wrong_option_or_name_is_told_with_its_line(tiny, old, new, words):
    file = tiny / "wiesel.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(ParameterError, match=words):
        run_project(read_project(tiny))


def test_a_wrong_option_of_one_method_is_told_with_its_own_line(tiny):
    """Not with the line of the same option in [training], which is right."""
    file = tiny / "wiesel.toml"
    more = '\n[options.weasel]\nepochs = "two"\n'
    text = file.read_text().replace('"majority_vote"', '"weasel"').rstrip("\n") + more
    file.write_text(text)
    assert "epochs = 2" in text.splitlines()[22], "line 23, in [training]"
    n_lines = len(text.splitlines())
    with pytest.raises(ParameterError, match=rf"line {n_lines}: .*'epochs'.*got 'two'"):
        run_project(read_project(tiny))


@pytest.mark.parametrize("name", ["committee", "hidden_markov"])
def test_the_method_that_a_span_project_names_is_its_method(tmp_path, name):
    write_starter(tmp_path / "demo", kind="spans")
    file = tmp_path / "demo" / "wiesel.toml"
    text, n_named = re.subn(r'(\[method\]\nname = )"\w+"', rf'\1"{name}"', file.read_text())
    assert n_named == 1
    file.write_text(text)
    assert read_project(tmp_path / "demo").methods[0] == name


def test_a_wrong_method_of_the_command_line_is_not_looked_for_in_the_file(tiny):
    with pytest.raises(ParameterError, match=r"^There is no method 'wesel'"):
        run_project(read_project(tiny), ["wesel"])


def test_an_output_that_is_a_file_is_refused(tiny):
    file = tiny / "wiesel.toml"
    file.write_text('output = "lfs.py"\n' + file.read_text())
    with pytest.raises(ParameterError, match=r"line 1: 'output' is a folder.*is a file"):
        read_project(tiny)


def test_the_engine_of_training_is_read_and_is_no_option_of_methods(tiny):
    file = tiny / "wiesel.toml"
    engine = '[training]\nengine = "ray:10.0.0.1:6379"\nworkers = 3\n'
    file.write_text(file.read_text().replace("[training]\n", engine))
    project = read_project(tiny)
    assert project.training_engine == RayTrain(workers=3, address="10.0.0.1:6379")
    options = project.method_options("committee")
    assert options
    assert not {"engine", "workers"} & set(options)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('engine = "spark"', "There is no training engine 'spark'"),
        ("workers = 2", "'workers' is for engine"),
        ('engine = "ray"\nworkers = 0', "'workers'"),
    ],
)
def test_a_wrong_engine_is_said_before_any_work(tiny, lines, words):
    file = tiny / "wiesel.toml"
    file.write_text(file.read_text().replace("[training]\n", f"[training]\n{lines}\n"))
    with pytest.raises(ParameterError, match=words):
        run_project(read_project(tiny))


def test_ordered_classes_are_read_and_refused_for_several_labels(tiny):
    file = tiny / "wiesel.toml"
    text = file.read_text()
    file.write_text(f"ordered = true\n{text}")
    project = read_project(tiny)
    assert project.ordered
    assert project_classes(project, None).ordered
    file.write_text(f"ordered = true\nmulti = true\n{text}")
    with pytest.raises(ParameterError, match=r"line 1.*'ordered' needs one class for each item"):
        read_project(tiny)
