"""Methods by name: ours, registered ones, and those of installed packages."""

import dataclasses
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from wiesel import EndToEndModel, LabelModel, MajorityVote, TwoStage, load_model, register, registry
from wiesel.catalog import METHODS, method
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.evidence_models import FeatureChecked
from wiesel.errors import ParameterError, SavedModelError, WieselWarning
from wiesel.nn import Linear
from wiesel.registry import JoinedRegistries, Method, Registry, find_method, method_name

TASK = make_votes(60, n_voters=4)


@dataclass(eq=False, kw_only=True)
class SmoothedVote(LabelModel):
    """Vote shares, with a little of the class balance.

    >>> SmoothedVote(smoothing=2.0).smoothing
    2.0
    """

    smoothing: float = 1.0
    """How many votes the class balance counts for."""
    shares_: np.ndarray = field(init=False, repr=False)

    def _fit(self, votes, class_balance):
        self.shares_ = votes.sum(lambda part: (part.counts().sum(axis=0),))[0]

    def _predict_proba(self, votes):
        counts = votes.counts() + self.smoothing * self.class_balance_
        return counts / counts.sum(axis=1, keepdims=True)


@dataclass(eq=False)
class HardTwoStage(TwoStage):
    """Two stages that learn the most probable class."""

    hard: bool = True
    """Always."""


def record(name: str, cls: type = MajorityVote) -> Method:
    return Method(name, cls, "counts", "folklore")


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry among no others, so that nothing is taken."""
    monkeypatch.setattr(registry, "_REGISTRIES", [])
    return Registry(LabelModel)


def test_methods_are_found_by_name(empty: Registry):
    empty.add(record("one"))
    empty.add(record("two", SmoothedVote))
    assert list(empty) == ["one", "two"]
    assert find_method(empty, "two").cls is SmoothedVote
    with pytest.raises(ParameterError, match=r"no method 'onne'\. Did you mean 'one'"):
        find_method(empty, "onne")


def test_a_method_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        record("one").name = "two"


def test_a_name_and_a_class_name_are_taken_once(empty: Registry):
    empty.add(record("one"))
    with pytest.raises(ParameterError, match=r"'one' is taken by wiesel\.label_models"):
        empty.add(record("one", SmoothedVote))
    impostor = type("MajorityVote", (SmoothedVote,), {"__module__": "elsewhere"})
    with pytest.raises(ParameterError, match=r"another class 'MajorityVote'.*rename yours"):
        empty.add(record("two", impostor))


def test_a_class_that_is_defined_again_takes_the_place_of_the_first(empty: Registry):
    empty.add(record("smoothed_vote", SmoothedVote))
    again = type("SmoothedVote", (SmoothedVote,), {"__module__": SmoothedVote.__module__})
    empty.add(record("smoothed_vote", again))
    assert empty["smoothed_vote"].cls is again


def test_joined_registries_see_what_is_added_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_REGISTRIES", [])
    first, second = Registry(LabelModel, record("one")), Registry(EndToEndModel)
    joined = JoinedRegistries(first, second)
    second.add(record("two", TwoStage))
    assert (list(joined), len(joined), joined["two"].cls) == (["one", "two"], 2, TwoStage)
    assert "three" not in joined


def test_what_is_registered_is_listed_saved_and_loaded_as_ours(tmp_path: Path):
    assert register(SmoothedVote) is SmoothedVote
    found = method("smoothed_vote")
    assert (found.needs, found.package) == ("votes", "test_registry")
    assert found.summary == "Vote shares, with a little of the class balance"
    votes, gold = TASK
    model = SmoothedVote(smoothing=0.5).fit(votes)
    model.save(tmp_path / "alone")
    loaded = load_model(tmp_path / "alone")
    assert isinstance(loaded, SmoothedVote)
    assert np.array_equal(loaded.predict_proba(votes), model.predict_proba(votes))
    X = make_features(gold, n_features=3)
    both = TwoStage(model, Linear(3, 2), epochs=1).fit(X, votes)
    both.save(tmp_path / "both")
    assert load_model(tmp_path / "both").label_model.smoothing == 0.5


def test_end_to_end_methods_and_label_models_with_features_find_their_own_kind():
    register(HardTwoStage, name="hard_votes", summary="as it is", paper="none", needs="everything")
    found = method("hard_votes")
    assert (found.summary, found.paper, found.needs) == ("as it is", "none", "everything")
    doubt = dataclass(eq=False, kw_only=True)(type("Doubt", (FeatureChecked,), {}))
    register(doubt)
    assert method("doubt").needs == "features and votes"


def test_a_model_of_an_unregistered_class_is_not_loaded(tmp_path: Path):
    SmoothedVote().fit(TASK[0]).save(tmp_path / "model")
    with pytest.raises(SavedModelError, match=r"'SmoothedVote'.*wiesel\.register"):
        load_model(tmp_path / "model")


class NoMethod:
    pass


class Unfinished(LabelModel):
    pass


class WithoutDataclass(SmoothedVote):
    further: int = 1


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (MajorityVote(), "takes the class"),
        (NoMethod, "derived from wiesel.LabelModel or wiesel.EndToEndModel"),
        (Unfinished, "does not implement '_fit', '_predict_proba' yet"),
        (WithoutDataclass, r"Put @dataclass\(eq=False\) above the class WithoutDataclass"),
        (dataclass(type("Equal", (SmoothedVote,), {})), r"@dataclass\(eq=False\)"),
    ],
)
def test_what_cannot_be_a_method_is_refused(cls, words: str):
    with pytest.raises(ParameterError, match=words):
        register(cls)


def test_a_name_is_one_for_the_command_line():
    with pytest.raises(ParameterError, match="lower-case letters"):
        register(SmoothedVote, name="Smoothed vote")


@pytest.mark.parametrize(
    ("cls", "name"),
    [(METHODS["max_mig"].cls, "max_mig"), (SmoothedVote, "smoothed_vote"), (NoMethod, "no_method")],
)
def test_every_class_has_a_name(cls: type, name: str):
    assert method_name(cls) == name


PLUG_IN = '''
from dataclasses import dataclass
from wiesel import MajorityVote, VoteCounts
from wiesel.registry import Method

@dataclass(eq=False, kw_only=True)
class Installed(MajorityVote):
    """A vote from afar."""

@dataclass(eq=False, kw_only=True)
class Described(VoteCounts):
    """Counts from afar."""

RECORD = Method("counts_from_afar", Described, "counts", "A paper")
'''
ENTRY_POINTS = """[wiesel.methods]
from_afar = plug_in:Installed
counts_from_afar = plug_in:RECORD
broken = no_such_module:Method
"""


def test_packages_bring_methods_by_entry_points(tmp_path: Path, monkeypatch):
    """A package as pip leaves it: a module, and the entry points beside it."""
    (tmp_path / "plug_in.py").write_text(PLUG_IN)
    facts = tmp_path / "plug_in-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-in\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_LOADED", set())
    with pytest.warns(WieselWarning, match=r"'broken' of an installed package.*no_such_module"):
        found = method("from_afar")
    assert (found.summary, found.package) == ("A vote from afar", "plug_in")
    assert method("counts_from_afar").paper == "A paper"
    assert "broken" not in METHODS


def test_importing_wiesel_runs_no_plug_in(tmp_path: Path):
    facts = tmp_path / "loud-1.0.dist-info"
    facts.mkdir()
    (tmp_path / "loud.py").write_text("print('loud')")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[wiesel.methods]\nloud = loud:Loud\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from wiesel import MajorityVote"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "loud" not in done.stdout
