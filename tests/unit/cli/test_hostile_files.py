"""Wrong files, given to every verb that reads data: one line that helps, and the exit code 1."""

import gzip
import json
import os
import shutil
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from wiesel.io import dialects, rows

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

HEAD = b"id,text,label\n"
FILES = {
    "missing.csv": (None, "There is no file"),
    "empty.csv": (b"", "is empty (0 bytes)"),
    "header.csv": (HEAD, "has columns but no rows"),
    "damaged.csv": (HEAD + b"a,caf\xe9 \xc3\xbc,billing\n", "is not UTF-8 text"),
    "quote.csv": (HEAD + b'a,"never closed,billing\n', "cannot be read as csv"),
    "cut.csv": (HEAD + b"a,caf\xc3", "is not UTF-8 text: the first wrong byte is at position 19"),
    "cut.jsonl": (b'{"id":"a","text":"caf\xc3', "is not UTF-8 text"),
    "digits.jsonl": (b'{"id":"a","text":' + b"1" * 5000 + b"}\n{]", "no valid JSON in line 1"),
    "broken.jsonl": (b'{"id":"a","text":"x"}\n{"id"\n', "no valid JSON in line 2"),
    "marked.jsonl": (b'\xef\xbb\xbf{"id":"a","text":"x"}\n', "starts with a byte order mark"),
    "packed.csv": (gzip.compress(HEAD + b"a,x,billing\n"), "is compressed"),
    "packed.jsonl": (gzip.compress(b'{"id":"a","text":"x"}\n'), "is compressed"),
    "ragged.csv": (HEAD + b"a,x, y,billing\n", "has 4 fields in line 2 but 3 in the header"),
    "inches.csv": (HEAD + b'a,5" disk,billing\nb,x,technical\n', "a quote within a text in line 2"),
    "nan.jsonl": (b'{"id":"a","text":NaN}\n', "line 1: NaN is not JSON; write null"),
    "broken.parquet": (b"PAR1xxxx", "is it complete?"),
    "table.xlsx": (b"PK", "is a spreadsheet (.xlsx)"),
}
"""What no verb can read, and what each of them says."""

WITH_GOOD_ROWS = {"broken.jsonl": 3, "marked.jsonl": 0, "inches.csv": 0}
"""The exit codes of `wiesel predict`, which reads damaged files line by line."""

VERBS = {
    "run": ("run", "PROJECT"),
    "compare": ("compare", "PROJECT", "majority_vote"),
    "predict": ("predict", "MODEL", "FILE"),
    "evaluate": ("evaluate", "MODEL", "FILE"),
    "evaluate_votes": ("evaluate", "MODEL", "TEST", "--votes", "FILE"),
    "fit": ("fit", "snorkel", "FILE", "-o", "NEW"),
    "inspect": ("inspect", "FILE"),
    "apply": ("apply", "FILE", "--lfs", "LFS", "--labels", "billing,technical", "-o", "VOTES"),
    "try": ("try", "FILE", "--lfs", "LFS"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny project after a run; nobody changes it."""
    from typer.testing import CliRunner

    from wiesel.cli.main import app

    folder = tmp_path_factory.mktemp("hostile") / "demo"
    runner = CliRunner()
    assert runner.invoke(app, ["init", str(folder)]).exit_code == 0
    with (folder / "wiesel.toml").open("a") as file:
        file.write("\n[training]\nepochs = 1\n[options.majority_vote]\nmembers = 1\n")
    done = runner.invoke(app, ["run", str(folder), "--method", "majority_vote"])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def call(trained, tmp_path, wiesel):
    """Run a verb with a file in the place where it reads data."""

    def run(verb: str, file):
        project = tmp_path / "project"
        if verb in ("run", "compare"):
            ignored = shutil.ignore_patterns("out")
            shutil.copytree(trained, project, ignore=ignored, dirs_exist_ok=True)
            text = (project / "wiesel.toml").read_text()
            (project / "wiesel.toml").write_text(text.replace('"dev.csv"', f'"{file}"'))
        places = {
            "PROJECT": project,
            "MODEL": trained / "out/model",
            "TEST": trained / "test.csv",
            "LFS": trained / "lfs.py",
            "FILE": file,
            "NEW": tmp_path / "new",
            "VOTES": tmp_path / "votes.parquet",
        }
        return wiesel(*(places.get(word, word) for word in VERBS[verb]))

    return run


def check_refused(result, words: str) -> None:
    assert result.exit_code == 1, result.output
    assert words in result.stderr
    assert "Unexpected" not in result.stderr
    assert "Traceback" not in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_names_the_file_and_what_is_wrong_with_it(call, tmp_path, verb):
    for name, (content, words) in FILES.items():
        file = tmp_path / name
        if verb == "predict" and name in WITH_GOOD_ROWS:
            continue  # a bad row is not the end of the others
        if content is not None:
            file.write_bytes(content)
        result = call(verb, file)
        check_refused(result, words)
        assert name in result.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_a_line_that_is_too_long_is_refused_before_it_is_read(call, tmp_path, monkeypatch, verb):
    monkeypatch.setattr(rows, "first_long_line", lambda file: dialects.first_long_line(file, 3000))
    file = tmp_path / "long.csv"
    file.write_bytes(HEAD + b"a,short,billing\nb," + b"x" * 4000 + b",billing\n")
    check_refused(call(verb, file), "MB in line 3: is the end of a line or a quote missing?")


def test_the_good_rows_of_a_damaged_file_are_predicted(call, tmp_path):
    for name, code in WITH_GOOD_ROWS.items():
        (tmp_path / name).write_bytes(FILES[name][0])
        result = call("predict", tmp_path / name)
        assert result.exit_code == code, result.output
        assert result.stdout.splitlines()[1].startswith("a\t")
    same = b"a,a refund,billing\na,crash,technical\n"
    for number, content in enumerate([same, same.replace(b"a,c", b",c")]):
        (tmp_path / "ids.csv").write_bytes(HEAD + content)
        result = call("predict", tmp_path / "ids.csv")
        assert result.exit_code == 0, result.output
        assert ("1 rows have an id that", "1 rows have no id")[number] in result.stderr


@pytest.mark.parametrize("verb", ["run", "compare", "evaluate"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEAD + b"a,a refund,billing\na,crash,technical\n", "share the id 'a'"),
        (HEAD + b",a refund,billing\nb,crash,technical\n", "rows have no id"),
        (b"id,txt,label\na,a refund,billing\n", "Did you mean 'txt'?"),
    ],
)
def test_ids_and_columns_that_are_wrong_are_named(call, tmp_path, verb, content, words):
    (tmp_path / "rows.csv").write_bytes(content)
    check_refused(call(verb, tmp_path / "rows.csv"), words)


@pytest.mark.parametrize("verb", ["run", "compare", "evaluate"])
def test_a_class_that_is_not_in_the_project_is_named_with_those_that_are(call, tmp_path, verb):
    (tmp_path / "rows.csv").write_bytes(HEAD + b"a,a refund,biling\nb,crash,technical\n")
    words = "is 'biling'; it must be one of 'billing', 'technical'"
    check_refused(call(verb, tmp_path / "rows.csv"), words)


@pytest.mark.parametrize("name", ["X.csv", "X.npy", "objects.npy", "short.npy"])
def test_an_array_that_is_none_is_refused_without_praise_of_pickles(
    trained, tmp_path, wiesel, name
):
    if name == "objects.npy":
        np.save(tmp_path / name, np.array([{"a": 1}], dtype=object))
    elif name == "short.npy":
        np.save(tmp_path / name, np.zeros((600, 4)))
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:500])
    else:
        (tmp_path / name).write_bytes(b"1,2\n")
    votes = trained / "out/votes.parquet"
    words = ("fit", "weasel", votes, "--features", tmp_path / name, "-o", tmp_path / "model")
    result = wiesel(*words)
    check_refused(result, "numpy.save('X.npy', X)")
    assert "pickle" not in result.stderr


def test_lines_before_a_wrong_one_are_answered(trained, wiesel):
    good = json.dumps({"id": 1, "text": "a refund"}).encode() + b"\n"
    for wrong, words in (
        (b"nonsense\n", "Line 2 of the input is not JSON"),
        (b'{"text": "caf\xe9"}\n', "Line 2 of the input is not UTF-8 text"),
        (b"[" * 100_000 + b"\n", "Line 2 of the input is not JSON"),
    ):
        result = wiesel("predict", trained / "out/model", "-", input=good + wrong + good)
        assert result.exit_code == 3
        first, bad, last = [json.loads(line) for line in result.stdout.splitlines()]
        assert (first["id"], first["prediction"]) == (last["id"], last["prediction"])
        assert first["id"] == 1
        assert bad["line"] == 2
        assert words in bad["error"]


def test_ids_that_are_no_json_are_answered_with_null(trained, wiesel):
    lines = b'{"id": NaN, "text": "a refund"}\n{"id": 1e999, "text": "a refund"}\n'
    result = wiesel("predict", trained / "out/model", "-", input=lines)
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [None, None]


def test_votes_without_classes_can_be_given_them(tmp_path, wiesel):
    cells = {"first": [0, 1, -1, 0], "second": [0, 1, 1, -1]}
    pl.DataFrame(cells).write_csv(tmp_path / "votes.csv")
    words = ("fit", "majority_vote", tmp_path / "votes.csv", "-o", tmp_path / "model")
    assert wiesel(*words, "--labels", "ham,spam").exit_code == 0


def test_too_little_memory_is_said_in_words(trained, tmp_path, wiesel, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr("wiesel.project.predicting.read_batches", full)
    result = wiesel("predict", trained / "out/model", trained / "test.csv")
    check_refused(result, "There is not enough memory")


def test_what_is_read_is_not_overwritten(trained, tmp_path, wiesel):
    rows, model, votes = tmp_path / "rows", trained / "out/model", tmp_path / "votes.parquet"
    rows.mkdir()
    pl.read_csv(trained / "dev.csv").head(4).write_parquet(rows / "a.parquet")
    shutil.copy(trained / "out/votes.parquet", votes)
    lfs = ("--lfs", trained / "lfs.py", "--labels", "billing,technical")
    assert wiesel("fit", "majority_vote", votes, "-o", tmp_path / "voted").exit_code == 0
    link = tmp_path / "link.parquet"
    link.symlink_to(rows / "a.parquet")
    before = {file: file.read_bytes() for file in (votes, rows / "a.parquet")}
    for words in (
        ("predict", model, rows / "a.parquet", "-o", link),
        ("apply", rows / "a.parquet", *lfs, "-o", rows / "a.parquet"),
        ("apply", rows / "*.parquet", *lfs, "-o", rows / "a.parquet"),
        ("apply", rows, *lfs, "-o", rows),
        ("soft-labels", tmp_path / "voted", votes, "-o", votes),
        ("aggregate", rows / "a.parquet", "--workers", rows / "a.parquet"),
        ("spans", "apply", rows / "a.parquet", *lfs, "-o", rows / "a.parquet"),
    ):
        check_refused(wiesel(*words), "is read here, and would be lost: choose another output")
    assert {file: file.read_bytes() for file in before} == before


def test_columns_of_unusual_types_are_described_or_refused(tmp_path, wiesel):
    odd = {"bytes": [b"\xff"] * 4, "time": [timedelta(1)] * 4, "id": [{"a": k} for k in range(4)]}
    odd |= {"text": ["a"] * 4, "label": [["spam"]] * 4}
    frame = pl.DataFrame(odd, schema_overrides={"text": pl.Categorical})
    frame.write_parquet(tmp_path / "odd.parquet")
    assert wiesel("inspect", tmp_path / "odd.parquet").exit_code == 0
    (tmp_path / "rules.toml").write_text(
        '[[lf]]\nkind = "keywords"\nlabel = "spam"\ncolumn = "text"\nkeywords = ["a"]\n'
    )
    lfs = ("--lfs", tmp_path / "rules.toml", "--labels", "ham,spam", "-o", tmp_path / "v.parquet")
    refused = wiesel("apply", tmp_path / "odd.parquet", *lfs, "--id", "id")
    check_refused(
        refused, "Item ids are numbers or text that can be stored; that of row 0 is {'a': 0}"
    )
    wide = frame.with_columns(pl.Series("id", range(4), dtype=pl.Int128))
    wide.write_parquet(tmp_path / "wide.parquet")
    assert wiesel("apply", tmp_path / "wide.parquet", *lfs, "--id", "id").exit_code == 0
    judged = wiesel("inspect", tmp_path / "v.parquet", "--gold", tmp_path / "odd.parquet")
    check_refused(judged, "The label of row 0 is ")


def test_links_to_nothing_and_pipes_are_named(tmp_path, wiesel):
    (tmp_path / "rows.csv").symlink_to("rows.csv")
    check_refused(wiesel("inspect", tmp_path / "rows.csv"), "is a link to a file that does not")
    os.mkfifo(tmp_path / "pipe.csv")
    check_refused(wiesel("inspect", tmp_path / "pipe.csv"), "is a pipe or a device, not a file")


def test_a_misspelled_file_is_named_before_the_functions_are_loaded(tmp_path, wiesel):
    (tmp_path / "rows.csv").write_text("text\nfree\n")
    (tmp_path / "lfs.py").write_text("raise SystemExit('loaded')\n")
    given = ("--lfs", tmp_path / "lfs.py", "-o", tmp_path / "votes.parquet")
    check_refused(wiesel("apply", tmp_path / "rwos.csv", *given), "Did you mean 'rows.csv'?")
