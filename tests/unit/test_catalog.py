import dataclasses
import inspect
import re

import pytest

from wiesel import catalog, end_to_end, label_models, spans
from wiesel.catalog import METHODS, method
from wiesel.end_to_end import EndToEndModel, evidence_models
from wiesel.errors import ParameterError
from wiesel.label_models import LabelModel
from wiesel.parameters import Parameterized


def test_all_registries_are_in_one_view():
    parts = (label_models.REGISTRY, spans.REGISTRY, evidence_models.REGISTRY, end_to_end.REGISTRY)
    assert set(METHODS) == {name for part in parts for name in part}
    assert len(METHODS) == sum(map(len, parts))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_says_what_it_is_and_what_it_needs(name: str):
    entry = METHODS[name]
    assert entry.name == name
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert re.fullmatch("votes|features and votes|features and gold|features, .*", entry.needs)
    assert not entry.summary.endswith(".")
    assert len(entry.summary) < 100
    assert entry.paper
    base = (
        LabelModel
        if entry.needs == "votes"
        else (EndToEndModel, evidence_models.EvidenceLabelModel)
    )
    assert issubclass(entry.cls, base)
    assert entry.package == "wiesel"


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_keeps_the_conventions_of_an_estimator(name: str):
    cls = METHODS[name].cls
    assert dataclasses.is_dataclass(cls)
    assert issubclass(cls, Parameterized)
    assert not inspect.isabstract(cls)
    assert all(learned.endswith("_") for learned in cls.learned_names())
    assert not any(option.endswith("_") for option in cls.option_names())
    assert ">>>" in (cls.__doc__ or "")


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_refuses_an_unknown_option_with_its_own_name(name: str):
    cls = METHODS[name].cls
    with pytest.raises(ParameterError, match=f"{cls.__name__} has no option 'no_such_option'"):
        cls(no_such_option=1)


def test_class_names_are_unique_because_manifests_use_them():
    names = [entry.cls.__name__ for entry in METHODS.values()]
    assert len(set(names)) == len(names)


def test_end_to_end_methods_share_the_training_options():
    shared = set(EndToEndModel.option_names())
    assert {"epochs", "lr", "batch_size", "weight_decay", "seed", "device"} <= shared
    checked = [entry.cls for entry in METHODS.values() if issubclass(entry.cls, EndToEndModel)]
    assert len(checked) >= 3
    assert all(shared <= set(cls.option_names()) for cls in checked)


def test_a_method_is_found_or_suggested():
    assert method("weasel").cls is end_to_end.WeaSEL
    with pytest.raises(ParameterError, match="Did you mean 'weasel'"):
        catalog.method("weasle")
