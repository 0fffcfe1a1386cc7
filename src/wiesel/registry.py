"""How a method presents itself: one record for listings, tables and the command line."""

from dataclasses import dataclass

from wiesel.errors import ParameterError, suggest

__all__ = ["Method", "find_method", "index_methods"]


@dataclass(frozen=True)
class Method:
    """A registered method: its class and what a reader of a list wants to know."""

    name: str
    """The word for it on the command line and in tables, such as `dawid_skene`."""
    cls: type
    """The estimator class; its options are the constructor's arguments."""
    summary: str
    """One line: what it does."""
    paper: str
    """Where it comes from: authors, year, title or venue."""
    needs: str = "votes"
    """What `fit` must be given: `votes`, `features and votes`, or `features and gold`."""


def index_methods(*methods: Method) -> dict[str, Method]:
    """Return the methods by name, refusing a name that is taken twice."""
    index = {method.name: method for method in methods}
    if len(index) != len(methods):
        raise ParameterError("Two methods are registered under one name.")
    return index


def find_method(index: dict[str, Method], name: str) -> Method:
    """Return the method of that name, or say which there are."""
    if name not in index:
        raise ParameterError(f"There is no method {name!r}. {suggest(name, index)}")
    return index[name]
