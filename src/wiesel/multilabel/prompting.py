"""A language model as a multi-label labeling function: one question for all labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wiesel.errors import ParameterError
from wiesel.io.files import FilePath
from wiesel.lfs.answer_reading import Unreadable, json_answer
from wiesel.lfs.chat import ChatClient
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.preprocessing import BrokenRow, Preprocessor, Share
from wiesel.lfs.prompt_rules import PromptFile
from wiesel.lfs.python_function import PythonFunction
from wiesel.lfs.sending import ChatError, Completion, Question, object_schema
from wiesel.multilabel.functions import MultiLabelFunction

__all__ = ["prompt_labels"]

_ANSWER = "answer of the language model"


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
    names = tuple(labels)
    if isinstance(labels, str) or not names:
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
