"""Labeling functions and prompts that name any number of labels."""

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, overload

import numpy as np
import numpy.typing as npt

from wiesel.errors import LabelingFunctionError, ParameterError, VoteError, as_list, listed
from wiesel.io.files import FilePath
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import LabelSpace
from wiesel.lfs.answer_reading import Unreadable, json_answer
from wiesel.lfs.apply import OnError, apply_lfs
from wiesel.lfs.chat import ChatClient
from wiesel.lfs.engines import Engine
from wiesel.lfs.failures import Failure, FailureLog
from wiesel.lfs.fingerprints import VoteCache, digest
from wiesel.lfs.function import LabelingFunction, as_lfs
from wiesel.lfs.prompt_rules import PromptFile
from wiesel.lfs.python_function import (
    BrokenRow,
    Preprocessor,
    PythonFunction,
    Share,
    as_preprocessors,
)
from wiesel.lfs.sending import ChatError, Completion, Question, object_schema
from wiesel.multilabel.votes import MultiLabelVotes, votes_of_cells
from wiesel.votes import VoteMatrix

__all__ = [
    "MultiLabelFunction",
    "against",
    "apply_multilabel_lfs",
    "as_multilabel_lfs",
    "check_labels",
    "exhaustive",
    "multilabel_function",
    "prompt_labels",
    "read_ballot",
]

Scope = bool | tuple[str, ...]
"""The labels for which not being named is a vote against: none, all, or those listed."""
_PRESENCE = LabelSpace("absent", "present")
Cells = npt.NDArray[np.int64]
"""Votes as rows of (item, voter, label, present)."""
_ANSWER = "answer of the language model"


@dataclass(frozen=True, eq=False)
class MultiLabelFunction:
    """A labeling function, and how to treat the labels that it does not name.

    The decorator `multilabel_function` makes one from a Python function; `exhaustive` and
    `against` make one from any labeling function.
    """

    lf: LabelingFunction
    """A Python function that returns a set of labels, or a rule that votes for one label."""
    exhaustive: Scope = False
    """Unless it abstains, it votes against the labels it does not name: all, or those listed."""
    against: bool = False
    """Whether a rule votes against its label, wherever it fires."""

    applied_by: ClassVar[str] = "apply_multilabel_lfs, or wiesel apply --multi"

    def __post_init__(self) -> None:
        if not isinstance(self.lf, LabelingFunction):
            raise ParameterError(f"Expected a labeling function; got {self.lf!r:.60}.")
        if isinstance(self.lf, PythonFunction) and self.lf.vectorized:
            raise ParameterError(
                f"{self.name!r} is vectorized: it gives one class for each row, and no sets of "
                "labels. Write it as a function of a row."
            )
        object.__setattr__(self, "exhaustive", _scope(self.exhaustive, self.name))
        if self.against and self.exhaustive:
            raise ParameterError(
                f"{self.name!r} votes against its label, so it cannot be exhaustive too."
            )

    @property
    def name(self) -> str:
        """The name of the voter."""
        return self.lf.name

    @property
    def returns_sets(self) -> bool:
        """Whether it is a Python function that returns sets, not a rule for one label."""
        return isinstance(self.lf, PythonFunction)

    def renamed(self, name: str) -> "MultiLabelFunction":
        """Return the same function under another name."""
        return replace(self, lf=self.lf.renamed(name))

    def closed_labels(self, labels: MultiLabelSpace) -> tuple[str, ...]:
        """Return the labels that it votes against by not naming them."""
        if isinstance(self.exhaustive, tuple):
            return self.exhaustive
        return labels.names if self.exhaustive else ()

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return its answer for one row."""
        return self.lf(row)


@overload
def multilabel_function(function: Callable[..., Any], /) -> MultiLabelFunction: ...


@overload
def multilabel_function(
    *,
    exhaustive: bool | Sequence[str] = False,
    name: str = "",
    uses: Preprocessor | Iterable[Preprocessor] = (),
) -> Callable[[Callable[..., Any]], MultiLabelFunction]: ...


def multilabel_function(
    function: Callable[..., Any] | None = None,
    /,
    *,
    exhaustive: bool | Sequence[str] = False,
    name: str = "",
    uses: Preprocessor | Iterable[Preprocessor] = (),
) -> MultiLabelFunction | Callable[[Callable[..., Any]], MultiLabelFunction]:
    """Make a multi-label labeling function from a Python function (a decorator).

    The function gets a row and returns a set of labels, or None to abstain on all of them. It
    abstains on labels that it does not name. With `exhaustive=True` it votes against them, with
    `exhaustive=["sports", "money"]` only against these two. An exhaustive function may return the
    empty set: none of the labels. A dict such as `{"sports": False}` votes for or against single
    labels.

    >>> @multilabel_function(exhaustive=True)
    ... def section(row):
    ...     return {"sports"} if row["url"].startswith("/sports/") else None
    >>> section({"url": "/sports/17"})
    {'sports'}
    """
    if function is None:
        return functools.partial(_decorated, exhaustive=exhaustive, name=name, uses=uses)
    return _decorated(function, exhaustive=exhaustive, name=name, uses=uses)


def exhaustive(
    lf: LabelingFunction | MultiLabelFunction, labels: Sequence[str] | None = None
) -> MultiLabelFunction:
    """Return a labeling function that, unless it abstains, votes against labels it does not name.

    `labels` are the labels for which this holds; None means all of them.

    >>> from wiesel import keywords
    >>> exhaustive(keywords("sports", ["goal"], column="text"), ["politics"]).exhaustive
    ('politics',)
    """
    given: Scope = True if labels is None else tuple(_names(labels, "exhaustive"))
    return replace(_as_function(lf), exhaustive=given)


def against(lf: LabelingFunction | MultiLabelFunction) -> MultiLabelFunction:
    """Return a rule that votes against its label wherever it fires.

    >>> from wiesel import keywords
    >>> against(keywords("sports", ["parliament"], column="text")).against
    True
    """
    function = _as_function(lf)
    if function.returns_sets:
        raise ParameterError(
            f"{function.name!r} returns sets; to vote against labels let it return a dict such as "
            '{"sports": False}.'
        )
    return replace(function, against=True)


def as_multilabel_lfs(lfs: Any) -> list[MultiLabelFunction]:
    """Return labeling functions, multi-label or not, as a flat list with unique names."""
    functions = [_as_function(lf) for lf in _flattened(lfs)]
    if not functions:
        raise ParameterError("There are no labeling functions: the list is empty.")
    named = as_lfs([function.lf for function in functions])
    return [replace(each, lf=lf) for each, lf in zip(functions, named, strict=True)]


def check_labels(functions: Sequence[MultiLabelFunction], labels: MultiLabelSpace) -> None:
    """Refuse functions that vote on unknown labels."""
    for function in functions:
        spoken = (*(function.lf.classes or ()), *function.closed_labels(labels))
        unknown = [name for name in spoken if name not in labels]
        if unknown:
            raise VoteError(
                f"{function.name!r} votes on {listed(unknown)}; the labels are {listed(labels)}."
            )


def read_ballot(
    ballot: Any, labels: Sequence[str], closed: Sequence[str]
) -> dict[str, bool] | None:
    """Return a function's votes: True or False for each label it votes on; None abstains.

    >>> read_ballot({"a"}, ("a", "b", "c"), closed=("a", "b"))
    {'a': True, 'b': False}
    """
    if ballot is None:
        return None
    space = _space(tuple(labels))
    if isinstance(ballot, Mapping):
        wrong = [value for value in ballot.values() if not isinstance(value, bool)]
        if wrong:
            raise VoteError(
                f"It returned {ballot!r:.80}: a dict says True or False for each label."
            )
        space.checked_names(list(ballot), "It returned a dict")
        return dict.fromkeys(closed, False) | dict(ballot)
    names = space.checked_names(ballot, "It must return a set of labels, or None to abstain")
    if not names and not closed:
        raise VoteError(
            "It returned an empty set without being exhaustive, which is ambiguous. Return None to "
            "abstain, or declare exhaustive=True if it means that no label holds."
        )
    return dict.fromkeys(closed, False) | dict.fromkeys(names, True)


@functools.lru_cache(maxsize=64)
def _space(labels: tuple[str, ...]) -> MultiLabelSpace:
    return MultiLabelSpace(*labels)


def _decorated(
    function: Callable[..., Any],
    exhaustive: bool | Sequence[str],
    name: str,
    uses: Preprocessor | Iterable[Preprocessor],
) -> MultiLabelFunction:
    if not callable(function):
        raise ParameterError(
            f"multilabel_function decorates a function; got {function!r:.60}. "
            "Its options are given by name: @multilabel_function(exhaustive=True)."
        )
    own_name = name or getattr(function, "__name__", type(function).__name__)
    given = PythonFunction(function, own_name, False, as_preprocessors(uses))
    return MultiLabelFunction(given, _scope(exhaustive, own_name))


def _scope(value: Any, name: str) -> Scope:
    if isinstance(value, bool):
        return value
    return tuple(_names(value, f"exhaustive of {name!r}"))


def _names(value: Any, what: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ParameterError(f"{what} is True, False or a list of labels; got {value!r:.60}.")
    names = list(value)
    if not names or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"{what} is True, False or a list of labels; got {names!r:.60}.")
    return names


def _as_function(lf: Any) -> MultiLabelFunction:
    if isinstance(lf, MultiLabelFunction):
        return lf
    if isinstance(lf, LabelingFunction):
        return MultiLabelFunction(lf)
    hint = " Put @multilabel_function above its definition." if callable(lf) else ""
    raise ParameterError(f"Expected a labeling function; got {lf!r:.80}.{hint}")


def _flattened(lfs: Any) -> Iterable[Any]:
    if isinstance(lfs, (LabelingFunction, MultiLabelFunction)):
        yield lfs
    elif isinstance(lfs, Iterable) and not isinstance(lfs, (str, Mapping)):
        for lf in lfs:
            yield from _flattened(lf)
    else:
        yield lfs


def apply_multilabel_lfs(  # noqa: PLR0913 - the options of `apply_lfs`
    lfs: Any,
    rows: Any,
    *,
    labels: Sequence[str],
    engine: str | Engine = "local",
    cache: VoteCache | str | os.PathLike[str] | None = None,
    on_error: OnError = "raise",
    ids: str | None = None,
    timeout: float | None = None,
) -> MultiLabelVotes:
    """Return the votes of labeling functions on rows, for every label.

    Python functions return sets of labels (see `multilabel_function`). Builders such as `keywords`
    vote for the one label that they name. The other options are those of `apply_lfs`.

    >>> from wiesel import keywords
    >>> from wiesel.multilabel import multilabel_function
    >>> @multilabel_function(exhaustive=True)
    ... def section(row):
    ...     return {"sports"} if "goal" in row["text"] else None
    >>> lfs = [section, keywords("money", ["bank"], column="text")]
    >>> votes = apply_multilabel_lfs(lfs, [{"text": "a goal at the bank"}, {"text": "a bank"}],
    ...     labels=["sports", "money"])
    >>> votes["money"].dense().tolist()
    [[0, 1], [-1, 1]]
    """
    space = MultiLabelSpace.of(labels)
    functions = as_multilabel_lfs(lfs)
    check_labels(functions, space)
    log = FailureLog()
    stops = on_error == "raise"
    given: Any = log if isinstance(on_error, FailureLog) or on_error == "abstain" else on_error
    options: dict[str, Any] = {"engine": engine, "cache": cache, "ids": ids, "on_error": given}
    options["timeout"] = timeout
    parts, found = [], None
    for make in (_set_votes, _rule_votes):
        own = [k for k, each in enumerate(functions) if each.returns_sets == (make is _set_votes)]
        if own:
            cells, votes = make([functions[k] for k in own], rows, space, options)
            cells[:, 1] = np.asarray(own)[cells[:, 1]]
            parts.append(cells)
            found = votes
    if not stops:
        _report_failures(log, on_error, functions)
    every = found.ids if found is not None else np.empty(0)
    return votes_of_cells(np.concatenate(parts), space, [each.name for each in functions], every)


def _rule_votes(
    functions: Sequence[MultiLabelFunction],
    rows: Any,
    labels: MultiLabelSpace,
    options: dict[str, Any],
) -> tuple[Cells, VoteMatrix]:
    """The votes of functions that vote for one label: rules, models, lookups."""
    votes = apply_lfs([each.lf for each in functions], rows, labels=labels.classes, **options)
    if votes.distribution is not None:
        unsure = functions[int(votes.voter_index[0])].name
        raise VoteError(
            f"A labeling function such as {unsure!r} gives a distribution over the labels; where "
            "an item may have several labels it must name the one it votes for."
        )
    item, voter, named = votes.item_index, votes.voter_index, votes.class_index.astype(np.int64)
    against = np.array([each.against for each in functions])
    parts = [np.stack([item, voter, named, ~against[voter]], axis=1).astype(np.int64)]
    for place, each in enumerate(functions):
        own = np.flatnonzero(voter == place)
        for label in map(labels.index, each.closed_labels(labels)):
            silent = own[named[own] != label]
            cells = np.zeros((len(silent), 4), dtype=np.int64)
            cells[:, 0], cells[:, 1], cells[:, 2] = item[silent], place, label
            parts.append(cells)
    return np.concatenate(parts), votes


def _set_votes(
    functions: Sequence[MultiLabelFunction],
    rows: Any,
    labels: MultiLabelSpace,
    options: dict[str, Any],
) -> tuple[Cells, VoteMatrix]:
    """The votes of functions that return sets: one labeling function per label, called once."""
    single = [lf for each in functions for lf in _one_by_one(each, labels)]
    try:
        votes = apply_lfs(single, rows, labels=_PRESENCE, **options)
    except LabelingFunctionError as error:
        if not isinstance(error.failure, Failure):
            raise
        raise _error_of(_own_failure(error.failure, functions)) from error.__cause__
    voter, label = np.divmod(votes.voter_index.astype(np.int64), len(labels))
    present = votes.class_index.astype(np.int64)
    return np.stack([votes.item_index, voter, label, present], axis=1), votes


def _one_by_one(function: MultiLabelFunction, labels: MultiLabelSpace) -> list[PythonFunction]:
    """One labeling function for each label; all share a single call of the user's function."""
    lf: Any = function.lf
    called = Preprocessor(lf.bound, function.name, lf.uses, is_function=True)
    closed = list(function.closed_labels(labels))
    return [
        PythonFunction(
            _vote_on_label,
            f"{function.name} on {label}",
            False,
            (called,),
            {"ballot": function.name, "label": label, "labels": list(labels), "closed": closed},
        )
        for label in labels
    ]


def _vote_on_label(
    row: Any,
    ballot: str = "",
    label: str = "",
    labels: Sequence[str] = (),
    closed: Sequence[str] = (),
) -> str | None:
    """Return a function's vote on one label; the row contains its answer, under its name."""
    answer = row[ballot]
    # The function of the first label has checked the whole answer.
    if label != labels[0] and isinstance(answer, (set, frozenset)):
        return "present" if label in answer else "absent" if label in closed else None
    votes = read_ballot(answer, labels, closed)
    if votes is None or label not in votes:
        return None
    return _PRESENCE.names[votes[label]]


def _own_failure(failure: Failure, functions: Sequence[MultiLabelFunction]) -> Failure:
    """Return the failure of a function from `_one_by_one` as one of the user's function."""
    for each in functions:
        if each.returns_sets and failure.lf.startswith(f"{each.name} on "):
            return replace(failure, lf=each.name)
    return failure


def _error_of(failure: Failure) -> Exception:
    kind, _, reason = failure.reason.partition(": ")
    if kind in ("VoteError", "DataError"):  # abstaining on errors does not help
        return VoteError(failure.sentence("on", reason))
    return failure.error()


def _report_failures(
    log: FailureLog, on_error: OnError, functions: Sequence[MultiLabelFunction]
) -> None:
    """Report every failure once, under the function's name; a wrong vote is still an error."""
    noted: dict[tuple[str, str], Failure] = {}
    for failure in (_own_failure(each, functions) for each in log.failures):
        error = _error_of(failure)
        if isinstance(error, VoteError):
            raise error
        noted.setdefault((failure.lf, failure.item), failure)
    if isinstance(on_error, FailureLog):
        on_error.add(noted.values())
    elif noted:
        warnings.warn(FailureLog(list(noted.values())).warning(), stacklevel=3)


def prompt_labels(  # noqa: PLR0913 - what a prompt is filled with
    labels: Sequence[str],
    *,
    client: ChatClient,
    task: str = "Classify a text.",
    column: str = "text",
    meanings: Mapping[str, str] | None = None,
    file: FilePath = "labels",
    name: str = "prompt_labels",
    exhaustive: bool = True,
) -> MultiLabelFunction:
    """Return a labeling function that asks a language model for all labels of a row at once.

    `file` is the prompt: `"labels"`, or a changed copy of it. With `exhaustive`, it votes against
    the labels that the answer does not name. An answer that cannot be read is a failure there.

    >>> client = ChatClient("http://127.0.0.1:8000/v1", "llama-3")
    >>> topics = prompt_labels(["sports", "money"], client=client)
    >>> topics.name, topics.exhaustive
    ('prompt_labels', ('sports', 'money'))
    """
    names = () if isinstance(labels, str) else tuple(as_list(labels, "Labels", "['a', 'b']"))
    if not names:
        raise ParameterError(f"labels is a list of labels; got {labels!r:.60}.")
    template = PromptFile.read(file, "labels").template(names, task, column, meanings)
    asking = _Asking(_unused, _ANSWER, names=names, template=template, client=client)
    lf = PythonFunction(_labels_in_row, name, False, (asking,), {})
    return MultiLabelFunction(lf, exhaustive=names if exhaustive else False)


def _labels_in_row(row: Any) -> Any:
    return row[_ANSWER]


def _unused(row: Any) -> Any:
    raise NotImplementedError


@dataclass(frozen=True, eq=False)
class _Asking(Preprocessor):
    """The labels that a language model names for each row; all rows are asked about at once."""

    names: tuple[str, ...] = ()
    template: str = ""
    client: Any = None

    def __reduce__(self) -> Any:
        """Refuse to be sent to another process: this one counts what is spent."""
        raise TypeError("A prompt stays in the process that counts what it costs.")

    @property
    def fingerprint_parts(self) -> tuple[Any, ...]:
        """What decides the answers."""
        key = self.client.key(Question(self.template, self._schema))
        return (digest(key, self.names), self.name)

    @property
    def _schema(self) -> str:
        if not self.client.constrained:
            return ""
        label = {"type": "string", "enum": list(self.names)}
        return object_schema({"labels": {"type": "array", "items": label}})

    def __call__(self, row: dict[str, Any]) -> Any:
        """Return the labels of one row."""
        (found,) = self._asked([row])
        if isinstance(found, BrokenRow):
            raise found.error
        return found

    def values(self, rows: Sequence[Any], share: Share) -> list[Any]:
        """Return the labels of every row, a `BrokenRow` where there is no answer."""
        return share(self, partial(self._asked, rows))

    def _asked(self, rows: Sequence[Any]) -> list[Any]:
        found: list[Any] = [row if isinstance(row, BrokenRow) else None for row in rows]
        places, questions = [], []
        for place, row in enumerate(rows):
            text = None if isinstance(row, BrokenRow) else self._question(row)
            if text is not None:
                places.append(place)
                questions.append(text)
        for number, answer in self.client.ask_all(questions):
            try:
                found[places[number]] = self._labels(answer)
            except (Unreadable, ChatError) as problem:
                found[places[number]] = BrokenRow(problem)
        return found

    def _question(self, row: Mapping[str, Any]) -> Question | None:
        """The question about a row; None if its text is missing."""
        try:
            text = self.template.format_map(row)
        except KeyError as error:
            raise ParameterError(
                f"The prompt reads the column {error}, which is not there."
            ) from None
        missing = any(row[name] is None for name in row if f"{{{name}}}" in self.template)
        return None if missing else Question(text, self._schema)

    def _labels(self, answer: Completion | ChatError) -> set[str]:
        if isinstance(answer, ChatError):
            raise answer
        given = json_answer(answer.text, finished=not answer.cut_off[0])
        named = given.get("labels") if isinstance(given, Mapping) else given
        if not isinstance(named, list):
            raise Unreadable(answer.text, "has no list of labels")
        known = {name.casefold(): name for name in self.names}
        unknown = [each for each in named if str(each).strip().casefold() not in known]
        if unknown:
            raise Unreadable(answer.text, f"has the label {unknown[0]!r:.40}")
        return {known[str(each).strip().casefold()] for each in named}
