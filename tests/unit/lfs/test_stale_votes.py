"""Whatever a labeling function depends on changes its fingerprint, so no cached vote is stale."""

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from wiesel import apply_lfs, from_model, labeling_function
from wiesel.lfs import preprocessor, votes_by_index
from wiesel.lfs.engines.portable import pack_lfs, unpack_lfs
from wiesel.lfs.fingerprints import digest

LIMIT = 3
ROWS = [{"n": n} for n in range(6)]


def function_of(source: str) -> Any:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "lfs.py", "exec"), names)
    return names["f"]


@pytest.mark.parametrize(
    "source",
    [
        "import datetime; D = datetime.date(2020, 1, @)\ndef f(row): return row['d'] > D",
        "import decimal; D = decimal.Decimal(@)\ndef f(row): return row['n'] > D",
        "import collections; D = collections.deque([@])\ndef f(row): return row['n'] in D",
        "D = range(@)\ndef f(row): return row['n'] in D",
        "import numpy; D = numpy.float32(@)\ndef f(row): return row['n'] > D",
        "import re; find = re.compile('@').search\ndef f(row): return find(row['text'])",
        "import operator; get = operator.itemgetter('@')\ndef f(row): return get(row)",
        "import functools\nh = functools.lru_cache(lambda text: @)\ndef f(row): return h(row)",
        "import functools\nh = functools.singledispatch(lambda x: @)\ndef f(row): return h(row)",
        "class C:\n    LIMIT = @\ndef f(row): return row['n'] > C.LIMIT",
        "class C:\n    h = staticmethod(lambda: @)\ndef f(row): return C.h()",
        "class C:\n    h = classmethod(lambda cls: @)\ndef f(row): return C.h()",
        "class C:\n    h = property(lambda self: @)\ndef f(row): return C().h",
        "class B:\n    def h(self): return @\nclass C(B): pass\ndef f(row): return C().h()",
        "class C:\n    def h(self): return @\nc = C()\ndef f(row): return c.h()",
        "class C:\n    def __call__(self): return @\nc = C()\ndef f(row): return c()",
        "def f(row): return f.limit\nf.limit = @",
    ],
)
def test_every_kind_of_dependency_counts(source: str) -> None:
    first, again, other = (function_of(source.replace("@", value)) for value in "112")
    assert digest(first) == digest(again)
    assert digest(first) != digest(other)


def test_the_order_of_a_dict_counts_because_the_first_match_may_decide() -> None:
    assert digest({"free": "spam", "free lunch": "ham"}) != digest(
        {"free lunch": "ham", "free": "spam"}
    )


def test_tensors_networks_and_tables_count_by_value() -> None:
    assert digest(torch.ones(2)) == digest(torch.ones(2)) != digest(torch.zeros(2))
    assert digest(torch.ones(2, dtype=torch.bfloat16)) != digest(torch.zeros(2).bfloat16())
    assert digest(torch.nn.Linear(2, 2)) != digest(torch.nn.Linear(2, 2))
    table = pd.DataFrame({"word": ["free"]})
    assert digest(table) == digest(table.copy()) != digest(pd.DataFrame({"word": ["prize"]}))


def test_objects_that_refer_to_each_other_are_described_once() -> None:
    nodes = [types.SimpleNamespace() for _ in range(40)]
    for node in nodes:
        node.others = nodes  # there are more paths through them than atoms
    assert digest(nodes) == digest(nodes)


def test_an_open_file_stays_open(tmp_path: Path) -> None:
    with (tmp_path / "log.txt").open("w") as file:
        assert digest(file) == digest(file)
        file.write("still open")


def test_a_constant_that_changes_in_a_notebook_runs_the_function_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = preprocessor(name="half")(lambda row: row["n"] > LIMIT)
    lfs = [
        labeling_function(name="own")(lambda row: "a" if row["n"] > LIMIT else "b"),
        labeling_function(name="other", uses=half)(lambda row: "a" if row["half"] else "b"),
    ]
    apply_lfs(lfs, ROWS, labels=["a", "b"], cache=tmp_path / "votes")
    monkeypatch.setitem(globals(), "LIMIT", 1)
    votes = apply_lfs(lfs, ROWS, labels=["a", "b"], cache=tmp_path / "votes")
    assert votes.dense().T.tolist() == [[1, 1, 0, 0, 0, 0]] * 2


def test_a_model_that_is_fitted_again_votes_again(tmp_path: Path) -> None:
    class Model:
        classes_ = np.array(["a", "b"])
        share = 0.9

        def predict_proba(self, X: Any) -> Any:
            return np.tile([self.share, 1 - self.share], (len(X), 1))

    model = Model()
    lf = from_model(model, ["n"])
    apply_lfs(lf, ROWS, labels=["a", "b"], cache=tmp_path / "votes")
    model.share = 0.2
    votes = apply_lfs(lf, ROWS, labels=["a", "b"], cache=tmp_path / "votes")
    assert votes.dense().tolist() == [[1]] * 6


@labeling_function
def calls_itself(row):
    return "a" if row["n"] > LIMIT else calls_itself({"n": row["n"] + 1})


def test_a_decorated_function_may_call_itself(tmp_path: Path) -> None:
    votes = apply_lfs(calls_itself, ROWS, labels=["a", "b"], cache=tmp_path / "votes")
    assert votes.dense().tolist() == [[0]] * 6


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "own_limits.py").write_text("LIMIT = 3\n")
    (tmp_path / "own_helper.py").write_text(
        "import own_limits\ndef high(n): return n > own_limits.LIMIT\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import own_helper  # type: ignore[import-not-found]

    yield own_helper
    for name in ("own_helper", "own_limits"):
        sys.modules.pop(name)


def test_what_a_module_imports_counts_as_it_is_now(modules: Any) -> None:
    def through_a_name(row):
        return "a" if modules.high(row["n"]) else None

    def through_an_import(row):
        from own_helper import high

        return "a" if high(row["n"]) else None

    functions = [through_a_name, through_an_import]
    before = [digest(function) for function in functions]
    assert [digest(function) for function in functions] == before
    # The file still says 3. A function that runs with 4 must not be taken for one that runs with 3.
    modules.own_limits.LIMIT = 4
    after = [digest(function) for function in functions]
    assert all(old != new for old, new in zip(before, after, strict=True))


def test_another_process_votes_by_index_too() -> None:
    (lf,) = votes_by_index([labeling_function(name="lf")(lambda row: row["n"] - 1)])
    (sent,) = unpack_lfs(pack_lfs([lf]))
    assert sent.fingerprint == lf.fingerprint
