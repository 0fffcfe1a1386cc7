"""Methods by name: those of Wiesel, registered methods, and those of installed packages."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

from wiesel.errors import ParameterError, WieselWarning, listed, suggest, warn_user

__all__ = [
    "GROUP",
    "JoinedRegistries",
    "Method",
    "Registry",
    "find_method",
    "method_name",
    "register",
    "registered_classes",
]

GROUP = "wiesel.methods"
"""The group of entry points in which packages declare their methods."""

Estimator = TypeVar("Estimator", bound=type)


@dataclass(frozen=True)
class Method:
    """A registered method: its class and its description in lists."""

    name: str
    """Its name on the command line and in tables, such as `dawid_skene`."""
    cls: type
    """The estimator class; its options are the constructor's arguments."""
    summary: str
    """What it does, in one line."""
    paper: str
    """Its source: authors, year, title or venue."""
    needs: str = "votes"
    """What `fit` needs: `votes`, `features and votes`, or `features and gold`."""

    @property
    def package(self) -> str:
        """The package that contains the method."""
        return self.cls.__module__.partition(".")[0]


class Registry(Mapping[str, Method]):
    """The methods of one kind, by name. Methods of packages are looked up on first use."""

    def __init__(self, base: type, *methods: Method) -> None:
        self.base = base
        """The base class of every class in the registry."""
        self._methods: dict[str, Method] = {}
        _REGISTRIES.append(self)
        for method in methods:
            self.add(method)

    def add(self, method: Method) -> None:
        """Add a method; the same class under the same name replaces the earlier entry."""
        for other in (other for index in _REGISTRIES for other in index._methods.values()):
            same_class = _origin(other.cls) == _origin(method.cls)
            if other.name == method.name and not same_class:
                raise ParameterError(
                    f"The name {method.name!r} is taken by {other.cls.__module__}."
                    f"{other.cls.__qualname__}: register {method.cls.__name__} under another."
                )
            if other.cls.__name__ == method.cls.__name__ and not same_class:
                raise ParameterError(
                    f"There is another class {method.cls.__name__!r} among the methods, of "
                    f"{other.cls.__module__}. Saved models are known by it: rename yours."
                )
        self._methods[method.name] = method

    def __getitem__(self, name: str) -> Method:
        if not isinstance(name, str):
            raise ParameterError(f"A method is named by a string; got {name!r:.60}.")
        _load_plug_ins()
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        _load_plug_ins()
        return iter(self._methods)

    def __len__(self) -> int:
        _load_plug_ins()
        return len(self._methods)


class JoinedRegistries(Mapping[str, Method]):
    """A view of several registries, which includes methods that are added to them later."""

    def __init__(self, *registries: Registry) -> None:
        self._registries = registries

    def __getitem__(self, name: str) -> Method:
        for registry in self._registries:
            if name in registry:
                return registry[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        for registry in self._registries:
            yield from registry

    def __len__(self) -> int:
        return sum(map(len, self._registries))


_REGISTRIES: list[Registry] = []
_LOADED: set[str] = set()
"""The groups of entry points that have been loaded."""


def register(
    cls: Estimator,
    *,
    name: str | None = None,
    summary: str | None = None,
    paper: str | None = None,
    needs: str | None = None,
) -> Estimator:
    """Register your own method, so that it can be listed, compared, saved and loaded by name.

    It returns the class, so it also works as a decorator. A package can instead declare entry
    points in the group `wiesel.methods`.

    Parameters
    ----------
    cls
        A dataclass derived from `LabelModel` or `EndToEndModel`.
    name
        Its name on the command line and in tables; by default derived from the class name.
    summary
        What it does, in one line; by default the first line of the docstring.
    paper
        Its source; by default the package's name.
    needs
        What `fit` needs; by default what methods of its kind need.

    >>> from dataclasses import dataclass
    >>> from wiesel import MajorityVote
    >>> from wiesel.catalog import method
    >>> @register
    ... @dataclass(eq=False, kw_only=True)
    ... class PlainVote(MajorityVote):
    ...     '''Majority vote under another name.'''
    >>> method("plain_vote").summary
    'Majority vote under another name'
    """
    registry = _registry_for(cls)
    first_line = (inspect.getdoc(cls) or cls.__name__).partition("\n")[0]
    kin = next(iter(registry._methods.values()), None)
    registry.add(
        Method(
            name=_checked_name(name or _snake_case(cls.__name__)),
            cls=cls,
            summary=summary or first_line.rstrip("."),
            paper=paper or f"the package {cls.__module__.partition('.')[0]}",
            needs=needs or (kin.needs if kin else "votes"),
        )
    )
    return cls


def find_method(index: Mapping[str, Method], name: str) -> Method:
    """Return the method with this name, or raise an error that lists all names."""
    if name not in index:
        raise ParameterError(f"There is no method {name!r}. {suggest(name, index)}")
    return index[name]


def method_name(cls: type) -> str:
    """Return the name under which a class is registered, or else one derived from its class name.

    >>> from wiesel import MaxMIG
    >>> method_name(MaxMIG)
    'max_mig'
    """
    found = (method.name for index in _REGISTRIES for method in index.values() if method.cls is cls)
    return next(found, _snake_case(cls.__name__))


def registered_classes(base: type) -> dict[str, Any]:
    """Return the registered classes derived from `base` by the names that saved models use."""
    methods = [method for index in _REGISTRIES for method in index.values()]
    return {method.cls.__name__: method.cls for method in methods if issubclass(method.cls, base)}


def _registry_for(cls: type) -> Registry:
    """The registry for a class's kind; raises an error for a class that cannot be a method."""
    if not isinstance(cls, type):
        raise ParameterError(f"register takes the class, not an instance; got {cls!r:.80}.")
    fitting = [index for index in _REGISTRIES if issubclass(cls, index.base)]
    if not fitting:
        raise ParameterError(
            f"{cls.__name__} must be derived from wiesel.LabelModel or wiesel.EndToEndModel."
        )
    if inspect.isabstract(cls):
        missing = sorted(cls.__abstractmethods__)  # type: ignore[attr-defined]
        raise ParameterError(f"{cls.__name__} does not implement {listed(missing)} yet.")
    forgotten = "__annotations__" in vars(cls) and "__dataclass_fields__" not in vars(cls)
    if forgotten or not dataclasses.is_dataclass(cls) or cls.__hash__ is None:
        raise ParameterError(f"Put @dataclass(eq=False) above the class {cls.__name__}.")
    return max(fitting, key=lambda index: len(index.base.__mro__))


def _load_plug_ins() -> None:
    """Register the methods of installed packages, once; skip those that fail, with a warning."""
    if GROUP in _LOADED:
        return
    # First, because a package may itself use the methods while it is imported.
    _LOADED.add(GROUP)
    for point in entry_points(group=GROUP):
        try:
            found = point.load()
            if isinstance(found, Method):
                _registry_for(found.cls).add(found)
            else:
                register(found, name=point.name)
        except Exception as error:  # noqa: BLE001 - another package may raise anything
            warn_user(
                f"The method {point.name!r} of an installed package ({point.value}) cannot be "
                f"used: {type(error).__name__}: {error}",
                WieselWarning,
            )


def _origin(cls: type) -> tuple[str, str]:
    """Equal for a class that is defined again, as when a notebook cell is rerun."""
    return cls.__module__, cls.__qualname__


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ParameterError(
            f"A method's name has lower-case letters, digits and underscores; got {name!r}."
        )
    return name


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("WeaSEL", "Weasel")).lower()
