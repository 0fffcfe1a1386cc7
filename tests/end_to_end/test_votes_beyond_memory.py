"""Label models are fitted on votes that do not fit into the memory of the process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.io import write_votes

resource = pytest.importorskip("resource")

N_PARTS = 20
ROOM = 50 * 2**20
"""Bytes that the process may take beyond what it has before it sees the second part."""

SCRIPT = """
import json, resource, sys
from pathlib import Path
from wiesel import VoteMatrix
from wiesel.io import VoteParts
from wiesel.label_models import DawidSkene, Snorkel

part, n_parts, room = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
models = DawidSkene(max_iter=2), Snorkel()
for model in models:
    model.fit(VoteParts([part]))
taken = next(l for l in Path("/proc/self/status").read_text().splitlines() if "VmData" in l)
limit = int(taken.split()[1]) * 1024 + room
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
parts = VoteParts([part] * n_parts)
fitted = [model.fit(parts).class_balance_.tolist() for model in models]
print(json.dumps({"n_items": parts.n_items, "balance": fitted}), flush=True)
print(len(VoteMatrix.concatenate(list(parts))))
"""
"""Fits models, then tries to read all votes at once, with the same limit."""


def run(part: Path) -> subprocess.CompletedProcess[str]:
    arguments = [str(part), str(N_PARTS), str(ROOM)]
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is limited as on Linux")
def test_votes_that_do_not_fit_into_memory_are_fitted_part_by_part(tmp_path: Path):
    rng = np.random.default_rng(0)
    votes = VoteMatrix.from_dense(rng.integers(-1, 2, (40_000, 12)), ["ham", "spam"])
    write_votes(votes, tmp_path / "part.parquet")
    done = run(tmp_path / "part.parquet")
    said = done.stdout.splitlines()
    assert said, done.stderr
    told = json.loads(said[0])
    assert told["n_items"] == 40_000 * N_PARTS
    assert np.allclose(np.sum(told["balance"], axis=1), 1)
    assert len(said) == 1, "all votes fit into the room given: the test shows nothing"
    assert done.returncode != 0
    assert "memory" in done.stderr.lower()
