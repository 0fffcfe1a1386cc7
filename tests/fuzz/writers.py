"""What the processes of `test_fuzz_writers` do, all at the same moment, with the same files.

Each function gets the folder they share, the number of its process, how much to do, and a seed. It
returns what it was told was done.
"""

import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wiesel import MajorityVote, TextFeatures, TwoStage, VoteMatrix, keywords
from wiesel.features.text import cached_array
from wiesel.io import LabelStore, read_rows, read_votes, write_rows, write_votes
from wiesel.io.vote_parts import KeptSums
from wiesel.lfs import VoteCache
from wiesel.lfs.batch import ColumnVotes
from wiesel.lfs.chat import AnswerCache
from wiesel.lfs.sending import Completion
from wiesel.project.bundle import load_bundle
from wiesel.project.lf_set import LFSet
from wiesel.project.runs import claim_run
from wiesel.project.seen import remember, was_run
from wiesel.project.settings import read_project
from wiesel.saving import read_folder, write_folder, write_json

CLASSES = ["billing", "technical"]


def rules(folder: Path, who: int, n: int, rng: random.Random) -> dict[str, bool]:
    """Add, switch and remove rules of one's own; return which are left, and whether they vote."""
    lfs, own = LFSet(read_project(folder)), dict[str, bool]()
    for number in range(n):
        word = rng.choice((f"word{who}x{number}", "same"))
        name = lfs.add(keywords("billing", [word], column="text", name=word))
        assert name not in own
        own[name] = True
        chosen = rng.choice(sorted(own))
        if rng.random() < 0.3:
            lfs.switch(chosen, not own[chosen])
            own[chosen] = not own[chosen]
        elif rng.random() < 0.3:
            lfs.remove(chosen)
            del own[chosen]
        assert len(lfs.history()) > 1
    return own


def labels(folder: Path, who: int, n: int, rng: random.Random) -> dict[str, str | None]:
    """Answer, skip and undo as one person; return the answers that are left."""
    store, given = LabelStore(folder / "labels.sqlite"), list[tuple[str, str | None]]()
    for _ in range(n):
        if given and rng.random() < 0.25:
            assert store.undo(f"ada{who}") == given.pop()[0]
        else:
            given.append((f"m{rng.randrange(30)}", rng.choice((*CLASSES, None))))
            store.add(*given[-1], f"ada{who}")
        store.labels()
    return dict(given)


def projects(folder: Path, who: int, n: int, rng: random.Random) -> list[str]:
    """Note projects in the file of the user."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    files = [folder / f"project{who}-{number}" / "wiesel.toml" for number in range(n)]
    for file in files:
        file.parent.mkdir()
        file.touch()
        remember(file)
        assert was_run(file)
    return [str(file.resolve()) for file in files]


def vote_cache(folder: Path, who: int, n: int, rng: random.Random) -> list[str]:
    """Store votes under keys that others store, too."""
    cache, own = VoteCache(folder), []
    for _ in range(n):
        number = rng.randrange(40)
        own.append(f"key{number}")
        cache.put({own[-1]: ColumnVotes.of_class(np.arange(number), number % 2)})
        key = rng.choice(own)
        found = cache.get([key])[key]
        assert len(found.rows) == int(key[3:])
    return own


def answers(folder: Path, who: int, n: int, rng: random.Random) -> list[str]:
    """Store answers of a language model."""
    cache, own = AnswerCache(str(folder / "answers.sqlite")), []
    for number in range(n):
        own.append(f"question{who}-{number}")
        cache.put(own[-1], Completion((own[-1] * 50,)))
        key = rng.choice(own)
        assert cache.get([key])[key].text == key * 50
    return own


def features(folder: Path, who: int, n: int, rng: random.Random) -> None:
    """Compute and read arrays under common names."""
    for _ in range(n):
        number = rng.randrange(6)
        expected = np.full((300, 7), number, np.float32)
        found = cached_array(folder / "arrays", lambda k=number: f"a{k}", lambda e=expected: e)
        assert np.array_equal(found, expected)


def votes(folder: Path, who: int, n: int, rng: random.Random) -> None:
    """Write and read a file of votes and one of rows, which others replace all the time."""
    for _ in range(n):
        size = rng.randrange(1, 300)
        dense = np.full((size, 3), size % 2)
        write_votes(VoteMatrix.from_dense(dense, CLASSES), folder / "votes.parquet")
        found = read_votes(folder / "votes.parquet")
        assert set(found.class_index.tolist()) == {found.n_items % 2}
        ending = rng.choice(("csv", "parquet", "jsonl"))
        write_rows(pl.DataFrame({"a": [size] * size}), folder / f"rows.{ending}")
        rows = read_rows(folder / f"rows.{ending}")
        assert set(rows["a"].to_list()) == {len(rows)}


def models(folder: Path, who: int, n: int, rng: random.Random) -> None:
    """Save and read a folder with a manifest, which others replace all the time."""
    for _ in range(n):
        number = rng.randrange(256)
        content = {name: bytes([number]) * rng.randrange(1, 9000) for name in ("a.bin", "b.bin")}
        write_folder(folder / "model", {"n": number}, content)
        write_json({"n": [number] * 50}, folder / "run.json")
        manifest, files = read_folder(folder / "model")
        assert {byte for name in files for byte in files[name]} == {manifest["n"]}


def bundles(folder: Path, who: int, n: int, rng: random.Random) -> None:
    """Save and load models with features; a loaded one is a whole one of a single writer."""
    from sklearn.linear_model import LogisticRegression

    texts = [f"{CLASSES[row % 2]} message {who}" for row in range(12)]
    own = TextFeatures(n_dimensions=who + 1).fit(texts)
    told = VoteMatrix.from_dense(np.arange(12)[:, None] % 2, CLASSES, [f"writer{who}"])
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(own.transform(texts), told)
    for _ in range(n):
        model.save(folder / "bundle", features=own)
        found = load_bundle(folder / "bundle")
        voters = found.manifest["voters"]
        assert [*found.model.voters_] == [*voters], (found.model.voters_, voters)
        assert f"writer{found.features.n_dimensions - 1}" == voters[0]


def sums(folder: Path, who: int, n: int, rng: random.Random) -> None:
    """Sum over the same files of votes, and keep the sums next to them."""
    files = [folder / f"part-{number}.parquet" for number in range(3)]
    for _ in range(n):
        found = KeptSums(folder / ".sums", files).sum(n_votes)
        assert found[0].tolist() == [18]


def n_votes(part: VoteMatrix) -> tuple[Any]:
    return (np.array([part.n_votes]),)


def names_of_runs(folder: Path, who: int, n: int, rng: random.Random) -> list[str]:
    """Claim names of runs."""
    project = read_project(folder)
    return [claim_run(project).name for _ in range(n)]


def at(moment: float, what: str, *arguments: Any) -> Any:
    """Do something from a moment on; return what was told."""
    *others, seed = arguments
    time.sleep(max(0.0, moment - time.time()))
    return globals()[what](*others, random.Random(seed))
