"""The peers' own environment, under .cache/peers: nothing of theirs enters Wiesel's.

Snorkel and crowd-kit ask for packages that label models never import (tensorboard, transformers,
pyarrow), and FlyingSquid states no requirements at all, so the peers are installed without
dependencies and what they really import is pinned here. Snorkel 0.10.0 and crowd-kit 1.4.2 run
on current NumPy and pandas. FlyingSquid needs an old pgmpy (its `MarkovModel` was renamed later);
0.1.14 is the newest that imports without pkg_resources, and the worker gives it back the
`numpy.product` that NumPy 2 removed.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".cache" / "peers"
PYTHON = FOLDER / "bin" / "python"

TORCH = ("torch==2.13.0",)
PACKAGES = (
    "attrs==26.1.0",
    "munkres==3.0.0",
    "nltk==3.9.1",
    "numpy==2.4.6",
    "pandas==3.1.1",
    "pyparsing==3.3.3",
    "scikit-learn==1.9.1",
    "scipy==1.17.1",
    "statsmodels==0.15.0",
    "tqdm==4.70.1",
)
PEERS = (
    "crowd-kit==1.4.2",
    "flyingsquid==0.0.0a0",
    "pgmpy==0.1.14",
    "snorkel==0.10.0",
)


def ensure_peers() -> Path:
    """Return the Python that has the peers, after installing them where needed."""
    stamp = FOLDER / ".ready"
    wanted = hashlib.sha256(json.dumps([TORCH, PACKAGES, PEERS]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return PYTHON
    print(f"Installing the peers in {FOLDER} ...", file=sys.stderr, flush=True)
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    _pip(*TORCH)
    _pip(*PACKAGES)
    _pip("--no-deps", *PEERS)
    stamp.write_text(wanted)
    return PYTHON


def _pip(*arguments: str) -> None:
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)


if __name__ == "__main__":
    print(ensure_peers())
