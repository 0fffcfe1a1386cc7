"""An error about an option of wiesel.toml names the line of this option, whatever else is there."""

import re
from dataclasses import fields

import pytest

from tiny_project import tiny_project
from wiesel.catalog import METHODS
from wiesel.end_to_end import TwoStage
from wiesel.errors import ParameterError
from wiesel.label_models import LabelModel
from wiesel.project import read_project, run_project, write_starter
from wiesel.project.pipeline import check_project
from wiesel.project.settings import DataSettings, MethodSettings, VoteSettings, key_lines
from wiesel.project.vectors import KINDS

BEGINNING = """\
# epochs = "nonsense", name = "nonsense"
name = 'nonsense'
output = "epochs"
classes = [
    "billing",
    "technical",
]
"""
"""The words of the wrong options also stand where they are right."""
NOT_IN_FILES = ("end_model", "label_model", "labels")
KNOWN_WITH_VOTERS = ("weights", "statistics", "dependencies")
"""These options are checked when the voters are known, in `fit`."""


@pytest.fixture
def project(tmp_path):
    folder = tiny_project(tmp_path)
    _, _, rest = (folder / "wiesel.toml").read_text().partition("\n")
    (folder / "wiesel.toml").write_text(BEGINNING + rest)
    return folder


def planted(folder, table, line, check=check_project):
    """The lines that are reported for a line in a table, and the line where it stands."""
    text = (folder / "wiesel.toml").read_text()
    above, header, below = text.partition(f"[{table}]\n")
    key = line.partition(" ")[0]
    if header:
        own, blank, others = below.partition("\n\n")
        own = re.sub(rf"(?m)^{key} = .*$\n?", "", own)
        text = f"{above}{header}{own}\n{line}{blank}{others}"
    else:
        text = f"{text}\n[{table}]\n\n# a comment\n{line}\n"
    file = folder / "wiesel.toml"
    file.write_text(text)
    with pytest.raises(ParameterError) as caught:
        check(read_project(folder))
    expected = 1 + text.splitlines().index(line)
    assert key_lines(text)[f"{table}.{key}"] == expected
    return [int(n) for n in re.findall(r"(?:toml,|And) line (\d+): ", str(caught.value))], expected


def options_of_method(name):
    cls = METHODS[name].cls
    trained = TwoStage.option_names() if issubclass(cls, LabelModel) else ()
    return [o for o in dict.fromkeys((*cls.option_names(), *trained)) if o not in NOT_IN_FILES]


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"two_stage", "hidden_markov"}))
def test_every_option_of_a_method_is_reported_where_it_stands(project, name):
    file = project / "wiesel.toml"
    before = file.read_text().replace('name = "majority_vote"', f'name = "{name}"')
    checked = 0
    for option in options_of_method(name):
        if option in KNOWN_WITH_VOTERS:
            continue
        file.write_text(before)
        reported, expected = planted(project, f"options.{name}", f'{option} = "nonsense"')
        assert reported == [expected], option
        checked += 1
    assert checked > 8


@pytest.mark.parametrize(
    ("name", "option"),
    [("weighted_vote", "weights"), ("weasel", "statistics"), ("snorkel", "dependencies")],
)
def test_an_option_that_voters_decide_is_reported_where_it_stands(project, name, option):
    file = project / "wiesel.toml"
    text = file.read_text().replace('name = "majority_vote"', f'name = "{name}"')
    file.write_text(text.replace("n_dimensions = 3", ""))
    line = f'{option} = ["nonsense"]'
    reported, expected = planted(project, f"options.{name}", line, check=run_project)
    assert reported == [expected]


@pytest.mark.parametrize(
    ("table", "line"),
    [
        *(("data", f"{each.name} = 3") for each in fields(DataSettings)),
        *(("votes", f"{each.name} = []") for each in fields(VoteSettings) if each.name != "lfs"),
        *(("method", f"{each.name} = true") for each in fields(MethodSettings)),
        ("votes", 'lfs = ["nonsense"]'),
        ("votes", "timeout = -1"),
        ("features", "kind = true"),
        ("features", 'kind = "nonsense"'),
        ("features", "column = true"),
        ("end_model", "name = true"),
        ("end_model", 'name = "nonsense"'),
        ("end_model", 'nonsense = "linear"'),
        ("method", 'name = "nonsense"'),
        ("method", 'baselines = ["nonsense"]'),
        ("training", 'engine = "nonsense"'),
        ("training", 'epochs = "nonsense"'),
        ("training", "nonsense = 3"),
        ("training", "seed = 3"),
        ("training", 'device = "nonsense"'),
        ("training", "class_balance = [1, 2, 3]"),
        ("options.nonsense", "epochs = 3"),
        ("options.weasel", "nonsense = 3"),
    ],
)
def test_every_key_of_a_table_is_reported_where_it_stands(project, table, line):
    file = project / "wiesel.toml"
    file.write_text(file.read_text().replace("baselines = []", 'baselines = ["weasel"]'))
    reported, expected = planted(project, table, line)
    if table == "options.nonsense":  # the method is wrong
        expected -= 3
    assert reported == [expected]


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_features_is_reported_where_it_stands(project, kind):
    file = project / "wiesel.toml"
    before = file.read_text().replace("n_dimensions = 3\n", "").replace('"tfidf"', f'"{kind}"')
    names = [each.name for each in fields(KINDS[kind]) if each.init and each.name != "kind"]
    for name in [*names, "nonsense"]:
        file.write_text(before)
        reported, expected = planted(project, "features", f"{name} = -7.5")
        assert reported == [expected], name


@pytest.mark.parametrize("option", ["hidden", "dropout", "activation"])
def test_an_option_of_the_end_model_is_reported_where_it_stands(project, option):
    file = project / "wiesel.toml"
    file.write_text(file.read_text().replace('name = "linear"', 'name = "mlp"'))
    reported, expected = planted(project, "end_model", f"{option} = -7.5")
    assert reported == [expected]


def test_lines_are_found_in_inline_tables_dotted_keys_and_long_values():
    text = (
        'classes = [\n  "epochs = 3",\n  "[data]",\n]\n'
        "options.weasel.epochs = 3\n"
        'name = """\n[training]\nepochs = 3\n"""\n'
        "[training]\n"
        'lr = 3\n"a b" = {c = [{d = 1}]}\n'
    )
    lines = key_lines(text)
    assert lines["options.weasel.epochs"] == 5
    assert (lines["name"], lines["training"], lines["training.lr"]) == (6, 10, 11)
    assert lines["training.a b.c.d"] == 12
    assert "training.epochs" not in lines


def test_a_wrong_file_in_a_long_list_is_reported_with_its_own_line(project):
    file = project / "wiesel.toml"
    file.write_text(
        file.read_text().replace('lfs = ["lfs.py"]', 'lfs = [\n  "lfs.py",\n  "none.py",\n]')
    )
    expected = 1 + file.read_text().splitlines().index('  "none.py",')
    with pytest.raises(ParameterError, match=rf"toml, line {expected}: .*none\.py"):
        check_project(read_project(project))


@pytest.mark.parametrize(
    ("kind", "name"),
    [("multi", "snorkel"), ("spans", "weasel")],
)
def test_projects_of_other_kinds_report_an_option_where_it_stands(tmp_path, kind, name):
    write_starter(tmp_path / "demo", kind=kind)
    file = tmp_path / "demo" / "wiesel.toml"
    text = re.sub(r"(?ms)^\[(training|method|options.*)\].*?(?=^\[|\Z)", "", file.read_text())
    file.write_text(
        f'{text}\n[method]\nname = "{name}"\nbaselines = []\n\n[training]\nepochs = 2\n'
    )
    reported, expected = planted(
        tmp_path / "demo", f"options.{name}", "epochs = -7.5", check=run_project
    )
    assert reported == [expected]


def test_a_committee_that_a_span_project_names_is_not_replaced(tmp_path):
    write_starter(tmp_path / "demo", kind="spans")
    file = tmp_path / "demo" / "wiesel.toml"
    text = re.sub(r"(?ms)^\[method\].*?(?=^\[|\Z)", "", file.read_text())
    file.write_text(text)
    assert read_project(tmp_path / "demo").methods == ("hidden_markov", "majority_vote")
    file.write_text(f'{text}\n[method]\nname = "committee"\n')
    assert read_project(tmp_path / "demo").method.name == "committee"
    assert check_project(read_project(tmp_path / "demo"))[0] == "committee"
