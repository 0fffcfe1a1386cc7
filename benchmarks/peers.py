"""A separate environment for the peers in .cache/peers; Wiesel's stays free of their packages.

Snorkel and crowd-kit require packages that label models never import (tensorboard, transformers,
pyarrow), and FlyingSquid declares no requirements at all. So the peers are installed without
dependencies, and the packages they actually import are pinned here. Snorkel 0.10.0 and crowd-kit
1.4.2 run on current NumPy and pandas. FlyingSquid needs an old pgmpy (its `MarkovModel` was renamed
later); 0.1.14 is the newest that imports without pkg_resources, and the worker restores the
`numpy.product` that NumPy 2 removed.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".cache" / "peers"

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
SKWEAK = ("skweak==0.3.3", "spacy==3.8.18", "hmmlearn==0.3.3", "numpy==2.4.6", "pandas==3.1.1")
"""skweak needs spaCy, so it has a separate environment with its dependencies."""


def ensure_peers() -> Path:
    """Return the Python with the peers, after installing them if needed."""
    return _ensured(FOLDER, TORCH, PACKAGES, ("--no-deps", *PEERS))


def ensure_skweak() -> Path:
    """Return the Python with skweak, after installing it if needed."""
    return _ensured(FOLDER.with_name("skweak"), SKWEAK)


def _ensured(folder: Path, *installs: tuple[str, ...]) -> Path:
    """Return the Python of an environment, after these installs in order."""
    stamp, python = folder / ".ready", folder / "bin" / "python"
    wanted = hashlib.sha256(json.dumps(installs).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"Installing {folder.name} in {folder} ...", file=sys.stderr, flush=True)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for packages in installs:
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *packages], check=True)
    stamp.write_text(wanted)
    return python


if __name__ == "__main__":
    print(ensure_peers())
