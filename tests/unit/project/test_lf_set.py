"""The labeling functions of a project: changed by several at the same time, and broken ones."""

import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wiesel import keywords, prompt
from wiesel.errors import LabelingFunctionError, ParameterError
from wiesel.lfs import ChatClient
from wiesel.project.lf_set import LFSet, with_lfs_file
from wiesel.project.settings import read_project
from wiesel.project.workspace import Workspace

ADD = """
import sys
from wiesel import keywords
from wiesel.project.lf_set import LFSet, with_lfs_file
from wiesel.project.settings import read_project

lfs = LFSet(read_project(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    word = f"{sys.argv[2]}{number}"
    print(lfs.add(keywords("billing", [word], column="text", name=word)), flush=True)
"""


@pytest.fixture
def project(tiny: Path) -> Path:
    """A project whose rules are only data, in a file that does not exist yet."""
    toml = tiny / "wiesel.toml"
    toml.write_text(toml.read_text().replace('lfs = ["lfs.py"]', 'lfs = ["rules.toml"]'))
    return tiny


def lf_set(project: Path) -> LFSet:
    return LFSet(read_project(project))


def names(project: Path) -> list[str]:
    return [entry.name for entry in lf_set(project).read().entries]


def word(name: str) -> object:
    return keywords("billing", [name], column="text", name=name)


def test_rules_that_threads_add_at_the_same_time_are_all_there(project: Path):
    lfs = lf_set(project)
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda number: lfs.add(word(f"rule{number}")), range(24)))
    assert sorted(told) == sorted(names(project)) == sorted(f"rule{n}" for n in range(24))
    assert len(lfs.history()) == 25  # the start, and every rule


def test_rules_of_one_name_that_are_added_at_the_same_time_get_different_names(project: Path):
    lfs = lf_set(project)
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda _: lfs.add(word("same")), range(8)))
    assert sorted(told) == sorted(names(project)) == ["same", *(f"same_{n}" for n in range(2, 9))]


def test_rules_that_two_processes_add_at_the_same_time_are_all_there(project: Path):
    commands = [[sys.executable, "-c", ADD, str(project), who, "12"] for who in ("ada", "bob")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    programs = [subprocess.Popen(command, **pipes) for command in commands]
    for program in programs:
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        program.stdin.write("go\n")
        program.stdin.flush()
    told = [name for program in programs for name in program.communicate()[0].split()]
    assert [program.returncode for program in programs] == [0, 0]
    assert len(told) == 24
    assert sorted(told) == sorted(names(project))


def test_switches_and_removals_at_the_same_time_are_all_kept(project: Path):
    lfs = lf_set(project)
    for number in range(12):
        lfs.add(word(f"rule{number}"))
    with ThreadPoolExecutor(8) as threads:
        removing = [threads.submit(lfs.remove, f"rule{number}") for number in range(4)]
        switching = [threads.submit(lfs.switch, f"rule{number}", False) for number in range(4, 8)]
        for change in [*removing, *switching]:
            change.result()
    off = {entry.name: entry.off for entry in lf_set(project).read().entries}
    assert off == {f"rule{number}": number < 8 for number in range(4, 12)}


def test_changes_that_are_undone_at_the_same_time_are_undone_once_each(project: Path):
    lfs = lf_set(project)
    for number in range(8):
        lfs.add(word(f"rule{number}"))
    with ThreadPoolExecutor(4) as threads:
        undone = list(threads.map(lambda _: lfs.undo(), range(4)))
    assert sorted(map(str, undone)) == [f"added rule{number}" for number in range(4, 8)]
    assert names(project) == [f"rule{number}" for number in range(4)]


def test_the_score_of_an_earlier_state_is_not_kept_with_a_later_one(project: Path):
    lfs = lf_set(project)
    lfs.add(word("first"))
    early = lfs.read()
    lfs.add(word("second"))
    lfs.note({"accuracy": 0.5}, early)
    assert [state.figures for state in lfs.history()] == [{}, {}, {}]


GOOD = """[[lf]]
kind = "keywords"
label = "billing"
keywords = ["{word}"]
column = "text"
name = "{word}"
"""
BROKEN = {
    "pattern": ('kind="regex"\nlabel="billing"\npattern="(["\ncolumn="text"', "line 11"),
    "kind": ('kind="regexx"\nlabel="billing"', "regexx"),
    "class": ('kind="regex"\nlabel="bilking"\npattern="a"\ncolumn="text"', "votes for 'bilking'"),
    "column": (
        'kind="regex"\nlabel="billing"\npattern="a"\ncolumn="mail"',
        "reads the column 'mail'",
    ),
    "name": (
        'kind="regex"\nlabel="billing"\npattern="a"\ncolumn="text"\nname="invoice"',
        "more than",
    ),
    "condition": ('kind="expression"\nlabel="billing"\ncondition="size(text) > 3"', "'size'"),
    "file": ('kind="lookup"\ncolumns=["text"]\nknown_file="none.csv"', "none.csv"),
    "toml": ('kind="regex"\nlabel="billing', "at line 10"),
}


def with_broken_rule(project: Path, broken: str) -> Path:
    file = project / "rules.toml"
    parts = ['off = ["bill"]\n', GOOD.format(word="invoice"), f"[[lf]]\n{broken}\n"]
    file.write_text("".join([*parts, *(GOOD.format(word=w) for w in ("refund", "bill"))]))
    return file


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_rule_switches_off_that_rule_alone(project: Path, kind: str):
    content, told = BROKEN[kind]
    with_broken_rule(project, content)
    cast = Workspace(project).cast
    assert cast.train.voters == ("invoice", "refund")  # bill is switched off
    assert len(cast.state.problems) == 1
    assert told in cast.state.problems[0]


@pytest.mark.parametrize("kind", [kind for kind in BROKEN if kind != "toml"])
def test_beside_a_broken_rule_others_are_added_changed_and_removed(project: Path, kind: str):
    file = with_broken_rule(project, BROKEN[kind][0])
    space = Workspace(project)
    assert space.accept(word("crash")) == "crash"
    assert space.votes.voters == ("invoice", "refund", "crash")
    space.lf_set.replace("refund", word("refund").renamed("money_back"))
    space.lf_set.switch("bill", True)
    space.lf_set.remove("invoice" if kind != "name" else "crash")
    space.refresh()
    there = {"invoice", "money_back", "bill", "crash"} - {"invoice" if kind != "name" else "crash"}
    assert set(space.votes.voters) == there
    assert BROKEN[kind][0] in file.read_text()


def test_a_file_that_is_not_toml_is_told_instead_of_changed(project: Path):
    file = with_broken_rule(project, BROKEN["toml"][0])
    before, lfs = file.read_bytes(), lf_set(project)
    for change in (lambda: lfs.add(word("x")), lambda: lfs.remove("refund")):
        with pytest.raises(LabelingFunctionError, match=r"not TOML.*line 10.*with an editor"):
            change()
    assert file.read_bytes() == before


def test_a_rule_is_not_added_to_a_file_that_is_not_read(project: Path):
    file = project / "rules.toml"
    file.write_text("offf = []\n" + GOOD.format(word="invoice"))
    before = file.read_bytes()
    with pytest.raises(LabelingFunctionError, match="no entry 'offf'"):
        lf_set(project).add(word("refund"))
    assert file.read_bytes() == before


def test_a_rule_that_breaks_the_file_is_not_added(project: Path):
    lfs = lf_set(project)
    lfs.add(word("first"))
    client = ChatClient("https://llm.example/v1", "llama-3")
    with pytest.raises(LabelingFunctionError, match="not allowed"):
        lfs.add(prompt("billing", "Is this about money?\n{text}", client=client))
    assert names(project) == ["first"]
    assert len(lfs.history()) == 2


def test_a_function_that_another_rules_file_switches_off_is_told(project: Path):
    toml = project / "wiesel.toml"
    toml.write_text(toml.read_text().replace('["rules.toml"]', '["rules.toml", "more.toml"]'))
    (project / "more.toml").write_text('off = ["bill"]\n' + GOOD.format(word="bill"))
    with pytest.raises(ParameterError, match=r"'bill' is switched off in more\.toml"):
        lf_set(project).switch("bill", True)


def test_classes_that_a_rules_file_names_are_kept_when_a_rule_breaks(project: Path):
    toml = project / "wiesel.toml"
    toml.write_text(toml.read_text().replace('classes = ["billing", "technical"]\n', ""))
    file = with_broken_rule(project, BROKEN["pattern"][0])
    file.write_text('labels = ["technical", "billing"]\n' + file.read_text())
    assert list(Workspace(project).labels) == ["technical", "billing"]


@pytest.mark.parametrize("words", [["suggest"], ["rows-to-label"], ["blame", "--item", "m0"]])
def test_the_verbs_tell_which_rules_are_left_out(project: Path, wiesel, words: list[str]):
    with_broken_rule(project, BROKEN["class"][0])
    result = wiesel(words[0], project, *words[1:])
    assert "Warning: left out, because it is broken: 'bilking_a' votes for" in result.stderr


def test_the_first_change_of_a_project_in_python_names_a_rules_file(tiny: Path):
    toml = tiny / "wiesel.toml"
    (tiny / "rules.toml").write_text("# of somebody else")
    before = toml.read_text()
    lfs = lf_set(tiny)
    first = lfs.read().entries[0].name
    lfs.switch(first, on=False)
    assert toml.read_text() == before.replace('["lfs.py"]', '["lfs.py", "rules_2.toml"]')
    assert [entry.off for entry in lf_set(tiny).read().entries if entry.name == first] == [True]
    lfs.switch(first, on=True)
    assert lfs.add(word("charge")) == "charge"
    assert "charge" in names(tiny)
    # Another process, which opened the project before, finds the same file.
    other = LFSet(read_project(tiny))
    assert other.rules_file == lfs.rules_file


def test_a_rule_in_python_that_is_changed_gets_a_copy_and_is_switched_off(tiny: Path):
    (tiny / "lfs.py").write_text(
        "from wiesel import keywords\n"
        'money = keywords("billing", ["money"], column="text", name="money")\n'
    )
    lfs = lf_set(tiny)
    assert lfs.replace("money", keywords("billing", ["cash"], column="text")) == "money_2"
    assert {entry.name: entry.off for entry in lfs.read().entries} == {
        "money": True,
        "money_2": False,
    }
    assert lfs.undo() == "changed money"
    assert [entry.off for entry in lfs.read().entries] == [False]


@pytest.mark.parametrize(
    "text",
    [
        '[votes]\nlfs = ["a.py"]',
        '[votes]\nlfs = [\n  "a.py", # one\n]\n[method]\nname = "committee"',
        '[votes]\nlfs=["a.py","b[1].py"]',
        '# lfs = ["no"]\n[votes]\nlfs = ["a.py",]',
    ],
)
def test_a_file_of_labeling_functions_is_named_without_changing_anything_else(text: str):
    changed = with_lfs_file(text, "rules.toml")
    if changed is None:  # refused rather than guessed
        assert "b[1]" in text or "# one" in text
        return
    votes = tomllib.loads(changed)["votes"]["lfs"]
    assert votes == [*tomllib.loads(text)["votes"]["lfs"], "rules.toml"]


def test_a_list_of_words_is_split_into_one_rule_for_each_and_back(project: Path):
    lfs = lf_set(project)
    lfs.add(keywords("billing", ["cash", "fee"], column="text", name="money"))
    lfs.add(keywords("billing", ["fee"], column="text", name="billing_fee"))
    before = lfs.rules_file.read_text()
    assert lfs.split("money") == ["billing_cash", "billing_fee_2"]
    assert names(project) == ["billing_fee", "billing_cash", "billing_fee_2"]
    assert lfs.undo() == "split money"
    assert lfs.rules_file.read_text() == before
    with pytest.raises(ParameterError, match="no list of several words"):
        lfs.split("billing_fee")
