import dataclasses

import pytest

from wiesel import MajorityVote
from wiesel.errors import ParameterError
from wiesel.registry import Method, find_method, index_methods


def method(name: str) -> Method:
    return Method(name, MajorityVote, "counts", "folklore")


def test_methods_are_found_by_name():
    index = index_methods(method("one"), method("two"))
    assert list(index) == ["one", "two"]
    assert find_method(index, "two").name == "two"


def test_a_name_is_taken_once():
    with pytest.raises(ParameterError, match="registered under one name"):
        index_methods(method("one"), method("one"))


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ParameterError, match=r"no method 'weazel'\. Did you mean 'weasel'"):
        find_method(index_methods(method("weasel")), "weazel")


def test_a_method_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        method("one").name = "two"
