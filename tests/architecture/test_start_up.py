"""`import wiesel` is fast and free of the heavy libraries."""

import json
import statistics
import subprocess
import sys
from importlib import import_module

import pytest

import wiesel

HEAVY = ("torch", "sklearn", "polars", "scipy", "pandas", "numpy")


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cpu_seconds(statement: str) -> float:
    """The median CPU time of a fresh interpreter that runs one statement."""
    code = f"{statement}\nimport os\nt = os.times()\nprint(t.user + t.system)"
    return statistics.median(float(run(code)) for _ in range(3))


def test_import_wiesel_loads_no_heavy_library():
    loaded = json.loads(run("import sys, json, wiesel; print(json.dumps(list(sys.modules)))"))
    assert "wiesel" in loaded
    assert len(loaded) > 20
    assert not [name for name in HEAVY if name in loaded]


def test_import_wiesel_costs_less_than_half_a_second_of_cpu_time():
    assert cpu_seconds("import wiesel") - cpu_seconds("pass") < 0.5


@pytest.mark.parametrize("name", ["LabelSpace", "VoteMatrix", "MajorityVote", "apply_lfs"])
def test_what_needs_no_network_loads_no_torch(name: str):
    assert run(f"import sys; from wiesel import {name}; print('torch' in sys.modules)") == "False\n"


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
