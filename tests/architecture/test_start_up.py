"""`import wiesel` is fast and free of the heavy libraries."""

import json
import subprocess
import sys
from functools import cache
from importlib import import_module

import pytest
from source_tree import sources

import wiesel

HEAVY = ("torch", "sklearn", "polars", "scipy", "pandas", "numpy")


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@cache
def modules_after(statement: str) -> frozenset[str]:
    """What a fresh interpreter has loaded after one statement."""
    code = f"{statement}\nimport sys\nmodules = sorted(sys.modules)\n"
    # Without the search for garbage at its end, which takes torch half a second.
    code += "import gc, json\nprint(json.dumps(modules))\ngc.freeze()"
    return frozenset(json.loads(run(code)))


def test_import_wiesel_loads_no_heavy_library():
    loaded = modules_after("import wiesel")
    assert "wiesel" in loaded
    assert len(loaded) > 20
    assert not [name for name in HEAVY if name in loaded]


def test_import_wiesel_loads_little_and_nothing_but_pythons_own_library():
    # What an import costs is what it loads; seconds would measure the machine and its load.
    added = modules_after("import wiesel") - modules_after("pass")
    assert {name.partition(".")[0] for name in added} - sys.stdlib_module_names == {"wiesel"}
    assert len(added) < 40


def below_the_pages() -> list[str]:
    """What the server of the workbench imports from the rest of Wiesel before its first page."""
    pages = [
        source
        for source in sources()
        # Training runs in a process of its own.
        if source.part == "workbench" and not source.name.endswith("worker.py")
    ]
    assert len(pages) > 15
    imported = {found.module for page in pages for found in page.imports() if not found.lazy}
    return sorted(
        name
        for name in imported
        if name.startswith("wiesel.") and not name.startswith("wiesel.workbench")
    )


def test_what_needs_no_network_loads_no_torch():
    names = "LabelSpace, VoteMatrix, MajorityVote, apply_lfs"
    pages = ", ".join(below_the_pages())
    # One process for both: the pages themselves need NiceGUI, which is slow to load, and no torch.
    loaded = modules_after(f"from wiesel import {names}; import wiesel.features, {pages}")
    assert {"wiesel.votes", "wiesel.label_models", "wiesel.lfs", "wiesel.features"} <= loaded
    assert {"wiesel.project.workspace", "wiesel.project.runs", "wiesel.guidance"} <= loaded
    assert not {"torch", "sklearn", "pandas", "tokenizers"} & loaded


METHODS_AND_A_NETWORK = """
import wiesel.catalog, wiesel.guidance, wiesel.aggregate
from wiesel.end_to_end.crowd.confusion_net import starting_matrix
from wiesel.end_to_end.crowd.crowd_layer import VoterLayer
from wiesel.nn import LSTM
from wiesel.nn.end_models import shapes_only
with shapes_only():
    LSTM(100, 2), starting_matrix(0.8, 3), VoterLayer(5, 3, "MW", rank=2)
"""
"""One process for two tests: it loads torch, which takes seconds."""


def test_methods_load_scikit_learn_and_its_statistics_only_where_they_are_used():
    # Together with pandas, which scikit-learn loads where it is installed, as long as torch.
    loaded = modules_after(METHODS_AND_A_NETWORK)
    assert {"torch", "wiesel.end_to_end", "wiesel.label_models", "wiesel.multilabel"} <= loaded
    optional = {"scipy.stats", "scipy.optimize", "scipy.special", "scipy.linalg", "scipy.fft"}
    assert not {"sklearn", "pandas", *optional} & loaded


def test_a_network_is_laid_out_without_torchs_compiler():
    loaded = modules_after(METHODS_AND_A_NETWORK)
    assert "wiesel.nn.end_models" in loaded
    assert "torch._dynamo" not in loaded


def test_the_lazy_names_are_the_real_ones():
    homes = {name: home for home, names in wiesel._HOMES.items() for name in names}
    assert len(homes) > 10
    assert {*homes, "__version__"} == set(wiesel.__all__)
    for name, home in homes.items():
        assert getattr(wiesel, name) is getattr(import_module(home), name)
    assert dir(wiesel) == sorted(wiesel.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Wheezel'"):
        _ = wiesel.Wheezel
