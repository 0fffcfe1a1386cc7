"""Tables, vote files and project files, damaged: read, or refused with the name of the file."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from attacks import Tally, altered, damaged, tree, tries
from budget import SHARES, fuzz_seconds

from wiesel import MajorityVote, keywords
from wiesel.io import read_answers, read_gold, read_rows, read_votes, write_votes
from wiesel.lfs import apply_lfs_to_folder
from wiesel.project import read_project
from wiesel.project.seen import project_overview
from wiesel.votes import VoteMatrix

pytestmark = pytest.mark.filterwarnings("ignore")

CSV = """\
id,text,label
m1,A free prize,spam
m2,"see, you",ham
m3,caf\u00e9 \u4f60\u597d,ham
""".encode()
TSV = CSV.replace(b",", b"\t")
JSONL = (
    '{"id": 1, "text": "free", "label": "spam"}\n{"id": 2, "text": "caf\u00e9", "label": null}\n'
).encode()
TABLES = {"rows.csv": CSV, "rows.tsv": TSV, "rows.jsonl": JSONL}
TOML = """\
name = "mails"
classes = ["ham", "spam"]
output = "out"
[data]
train = "train.csv"
dev = "dev.csv"
id = "id"
[votes]
lfs = ["rules.toml", "lfs.py"]
on_error = "abstain"
[features]
kind = "tfidf"
n_dimensions = 3
[end_model]
name = "mlp"
hidden = [5]
[method]
name = "weasel"
baselines = ["majority_vote"]
seeds = [0, 1]
[training]
epochs = 2
lr = 0.05
[options.weasel]
members = 1
"""


LABELS = ["ham", "spam"]
VOTES = b"id,gifts,short\nm1,spam,\nm2,,ham\nm3,spam,ham\nm4,ham,ham\n"
RULES = """
[[lf]]
kind = "keywords"
name = "gifts"
label = "spam"
column = "text"
keywords = ["free"]
"""


def read_named_votes(file: Path) -> VoteMatrix:
    return read_votes(file, labels=LABELS, id_column="id")


def read_named_answers(file: Path) -> VoteMatrix:
    return read_answers(file, item="id", voter="text")


def test_tables(tmp_path):
    tally = Tally("tables")
    for rng in tries("tables", least=60):
        name = rng.choice(sorted(TABLES))
        file = tmp_path / name
        file.write_bytes(damaged(TABLES[name], rng))
        what = (name, file.read_bytes())
        tally.attempt(what, read_rows, file)
        tally.attempt(what, read_named_votes, file)
        tally.attempt(what, read_gold, file, LABELS)
        tally.attempt(what, read_named_answers, file)
    tally.report()
    assert tally.counts["worked"]
    assert tally.counts["refused"]


READER = """
import random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from attacks import Tally, damaged
from wiesel.io import VoteParts, read_rows, read_votes
place, first, last = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
originals = [file.read_bytes() for file in sorted(place.glob("*.parquet"))]
tally, file = Tally("parquet"), place / "damaged" / "votes.parquet"
for number in range(first, last):
    print(number, flush=True)
    rng = random.Random(number)
    file.write_bytes(damaged(rng.choice(originals), rng))
    for read in (read_votes, read_rows, lambda file: VoteParts(file).read()):
        tally.attempt(number, read, file)
print(dict(tally.counts), flush=True)
"""
_AT_ONCE = 40


def test_parquet(tmp_path):
    """In a process of its own: an allocation that fails inside Polars ends the process.

    That is Polars' own limit (docs/security.md); here it is counted, and everything else fails.
    """
    dense = [[0, 0, -1], [0, 1, -1], [1, 1, 1], [-1, 1, 0]] * 20
    votes = VoteMatrix.from_dense(dense, ["ham", "spam"], ["a", "b", "c"])
    write_votes(votes, tmp_path / "wide.parquet")
    write_votes(votes, tmp_path / "list.parquet", layout="list")
    (tmp_path / "damaged").mkdir()
    here, tally, number = str(Path(__file__).parent), Tally("parquet"), 0
    for _ in tries("parquet", least=1):
        words = [here, str(tmp_path), str(number), str(number + _AT_ONCE)]
        done = subprocess.run(
            [sys.executable, "-c", READER, *words],
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
        lines = done.stdout.splitlines()
        if done.returncode == 0:
            counts = json.loads(lines[-1].replace("'", '"'))
            tally.counts.update(counts)
            number += _AT_ONCE
            continue
        number = int(lines[-1]) + 1
        assert "memory allocation of" in done.stderr, done.stderr[-2000:]
        tally.counts["ended Polars for lack of memory"] += 1
    tally.report()
    assert tally.counts["refused"]


def test_vote_folders(tmp_path):
    """A folder of votes with a damaged note or part: gone on with, or refused."""
    tally, rows, folder = Tally("vote folders"), tmp_path / "rows", tmp_path / "votes"
    rows.mkdir()
    for number in range(2):
        (rows / f"part-{number}.csv").write_bytes(CSV)
    lf = keywords("spam", ["free"], column="text", name="gifts")

    def vote():
        return apply_lfs_to_folder(
            lf, rows / "*.csv", folder, labels=LABELS, engine="local", ids="id"
        )

    vote()
    note = json.loads((folder / "applied.json").read_text())
    for rng in tries("vote folders", least=10):
        text = json.dumps(altered(note, rng)).encode()
        text = damaged(text, rng) if rng.random() < 0.3 else text
        (folder / "applied.json").write_bytes(text)
        if rng.random() < 0.3:
            (folder / "part-0.parquet").unlink(missing_ok=True)
        parts = tally.attempt(text, vote)
        if parts is not None:
            tally.attempt(text, MajorityVote().fit, parts)
    tally.report()
    assert tally.counts["worked"]
    assert tally.counts["refused"]


def _toml(rng: random.Random) -> bytes:
    """A project file with a line gone, doubled, moved or given another value."""
    lines = TOML.splitlines()
    for _ in range(rng.choice((1, 2, 4))):
        place = rng.randrange(len(lines))
        key = lines[place].partition("=")[0]
        values = (
            "1",
            "-1",
            '"x"',
            "[]",
            "[1]",
            "{}",
            "true",
            "1e400",
            "nan",
            '"../../x"',
            '"\\u0000"',
        )
        how = rng.randrange(4)
        if how == 0:
            del lines[place]
        elif how == 1:
            lines.insert(place, rng.choice(lines))
        else:
            lines[place] = f"{key}= {rng.choice(values)}"
    text = "\n".join(lines).encode()
    return damaged(text, rng) if rng.random() < 0.3 else text


def test_project_files(tmp_path):
    tally = Tally("project files")
    (tmp_path / "lfs.py").write_text("open('trace', 'w')")
    for rng in tries("project files", least=60):
        file = tmp_path / "wiesel.toml"
        file.write_bytes(_toml(rng))
        before = tree(tmp_path)
        project = tally.attempt(file.read_bytes(), read_project, tmp_path)
        if project is not None:
            tally.attempt(file.read_bytes(), project_overview, project)
        assert tree(tmp_path) == before, "looking at a project ran or wrote something"
    tally.report()
    assert tally.counts["worked"]
    assert tally.counts["refused"]


def test_verbs_on_damaged_files(tmp_path, wiesel):
    """Whatever the file, a verb ends with 0 or with one line that starts with Error."""
    tally = Tally("verbs")
    (tmp_path / "rules.toml").write_text(RULES)
    for rng in tries("verbs", least=15):
        name = rng.choice(sorted(TABLES))
        file, votes = tmp_path / name, tmp_path / "votes.csv"
        file.write_bytes(damaged(TABLES[name], rng))
        votes.write_bytes(damaged(VOTES, rng))
        words = (
            ("inspect", votes, "--labels", "ham,spam", "--id", "id"),
            ("fit", "majority_vote", votes, "-o", tmp_path / "model", "--labels", "ham,spam"),
            ("try", file, "--lfs", tmp_path / "rules.toml"),
        )
        result = wiesel(*rng.choice(words))
        _check_ended_well(result, file)
        tally.counts["worked" if result.exit_code == 0 else "refused"] += 1
    tally.report()
    assert tally.counts["worked"] + tally.counts["refused"]


def _check_ended_well(result, file: Path) -> None:
    said = result.stdout + result.stderr
    assert result.exit_code in (0, 1), said
    assert "Unexpected" not in said, (said, file.read_bytes())
    assert "Traceback" not in said
    assert "\x1b" not in said
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
    assert len(errors) == result.exit_code, said


def test_the_seconds_are_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("WIESEL_FUZZ_SECONDS", "100")
    assert sum(map(fuzz_seconds, SHARES)) == pytest.approx(100), "an hour is an hour"
    monkeypatch.delenv("WIESEL_FUZZ_SECONDS")
    assert sum(map(fuzz_seconds, SHARES)) == 0
    assert len(pl.read_csv(CSV)) == 3, "the file that is damaged is whole at first"
