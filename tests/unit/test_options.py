"""What options mean, at run time."""

import inspect
import pydoc
from dataclasses import dataclass

import pytest

from wiesel import MajorityVote, WeaSEL
from wiesel.catalog import METHODS
from wiesel.end_to_end import EndToEndModel
from wiesel.parameters import Parameterized, options_of


@dataclass(eq=False, kw_only=True)
class Base(Parameterized):
    """The base."""

    shared: int = 1
    """What all have."""


@dataclass(eq=False)
class Derived(Base):
    """One line.

    >>> 1 + 1
    2
    """

    given: "list[int]"
    """Comes first,
    because it must be given."""
    own: float | None = None
    silent: str = "x"


def test_options_are_ordered_from_what_is_needed_to_what_is_shared():
    found = options_of(Derived)
    assert [option.name for option in found] == ["given", "own", "silent", "shared"]
    assert [option.default for option in found] == [None, "None", "'x'", "1"]
    assert [option.type for option in found] == ["'list[int]'", "float | None", "str", "int"]
    assert found[0].meaning == "Comes first, because it must be given."
    assert (found[2].meaning, found[3].meaning) == ("", "What all have.")


def test_the_docstring_lists_the_options_after_what_the_author_wrote():
    assert Derived.__doc__ == (
        "One line.\n\n>>> 1 + 1\n2\n\n"
        "Parameters\n----------\n"
        "given : 'list[int]'\n    Comes first, because it must be given.\n"
        "own : float | None, default=None\n"
        "silent : str, default='x'\n"
        "shared : int, default=1\n    What all have.\n"
    )
    assert inspect.getdoc(Base).startswith("The base.\n\nParameters")


def test_a_class_without_source_has_its_options_without_sentences():
    source = "@dataclass(eq=False)\nclass Typed(Base):\n    '''At a prompt.'''\n    own: int = 2\n"
    names = {"dataclass": dataclass, "Base": Base, "__name__": "nowhere"}
    exec(source, names)
    own, shared = options_of(names["Typed"])
    assert (own.name, own.type, own.meaning) == ("own", "int", "")
    assert shared.meaning == "What all have."
    assert "own : int, default=2\n" in names["Typed"].__doc__


def test_options_are_inherited():
    class Further(Derived):
        """Nothing new."""

    assert Further.__doc__.startswith("Nothing new.\n\nParameters")
    assert options_of(Further) == options_of(Derived)


def test_a_class_without_docstring_or_options_stays_as_it_is():
    class Bare(Base):
        pass

    assert Bare.__doc__ is None
    assert Parameterized.__doc__.startswith("A dataclass whose")


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_option_of_every_method_has_a_sentence(name: str):
    options = options_of(METHODS[name].cls)
    assert {option.name for option in options} == set(METHODS[name].cls.option_names())
    assert not [option.name for option in options if not option.meaning.endswith((".", "..."))]


def test_help_shows_every_option():
    shown = pydoc.plain(pydoc.render_doc(WeaSEL))
    missing = [name for name in WeaSEL.option_names() if f"|  {name} : " not in shown]
    assert len(WeaSEL.option_names()) > 20
    assert not missing
    assert "unanimous votes then give about 95 %" in shown


def test_the_signature_names_every_option():
    assert set(inspect.signature(WeaSEL).parameters) == set(WeaSEL.option_names())
    assert str(inspect.signature(MajorityVote)).startswith("(*, hard: bool = False, ties:")


def test_a_methods_own_options_come_before_what_all_methods_share():
    names = [option.name for option in options_of(WeaSEL)]
    assert names.index("start") < min(names.index(name) for name in EndToEndModel.option_names())
    start = next(option for option in options_of(WeaSEL) if option.name == "start")
    assert start.default == "FeatureChecked()"


def test_types_list_the_allowed_words_instead_of_the_name_of_an_alias():
    types = {option.name: option.type for option in options_of(WeaSEL)}
    assert types["encoding"] == "Literal['one_hot', 'signed', 'index']"
