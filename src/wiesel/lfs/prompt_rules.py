"""A language model as a labeling function."""

import re
import string
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import polars as pl

from wiesel.errors import Argument, LabelingFunctionError, ParameterError, listed
from wiesel.labels import LabelSpace
from wiesel.lfs.answer_reading import Unreadable, read_answer
from wiesel.lfs.ballots import read_ballots
from wiesel.lfs.batch import Batch
from wiesel.lfs.chat import ChatClient, ChatError
from wiesel.lfs.column_votes import ColumnVotes
from wiesel.lfs.completions import Completion, Question
from wiesel.lfs.failures import Failure
from wiesel.lfs.function import slug
from wiesel.lfs.grades import GRADES, Grade, graded_question, read_grade
from wiesel.lfs.rules import Rule, build, need_columns
from wiesel.lfs.spending import BudgetReached
from wiesel.parameters import check_number

__all__ = ["Prompt", "Unreadable", "prompt"]

_NUMBER_FORMAT = re.compile(r"[,_]?(\.[0-9]{1,2})?[a-zA-Z%]?")


@dataclass(frozen=True, repr=False)
class Prompt(Rule):
    """Asks a language model about every row; made by `prompt`."""

    kind: ClassVar[str] = "prompt"
    labels: tuple[str, ...]
    template: str
    client: ChatClient
    grade: str = ""
    samples: int = 5
    made_of: str = ""
    """The name and the version of the file that the template is made of."""

    def __post_init__(self) -> None:
        names = (self.labels,) if isinstance(self.labels, str) else self.labels
        if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
            raise ParameterError(f"labels is a class or a list of classes; got {names!r:.60}.")
        object.__setattr__(self, "labels", tuple(names))
        if isinstance(self.client, Mapping):
            object.__setattr__(
                self, "client", build(ChatClient, self.client, "The client of a prompt")
            )
        if not isinstance(self.client, ChatClient):
            raise ParameterError(f"client is a ChatClient; got {self.client!r:.60}.")
        if not names:
            raise ParameterError("prompt needs the class, or the classes, it can vote for.")
        if not self.reads:
            raise ParameterError(
                f"The template must name a column in braces, such as {{text}}; got "
                f"{self.template!r:.80}."
            )
        if self.grade not in GRADES:
            allowed = [name for name in GRADES if name]
            raise ParameterError(
                f"grade is one of {listed(allowed)}, or empty; got {self.grade!r}."
            )
        check_number(self, "samples", self.samples, low=2, high=100, whole=True)
        if self.grade == "samples" and not self.client.temperature:
            raise ParameterError(
                "grade='samples' needs answers that differ: ChatClient(temperature=1.0)."
            )
        super().__post_init__()

    def default_name(self) -> str:
        """Return the classes and the word prompt."""
        return "_".join(["prompt", *map(slug, self.labels[:3])])

    @property
    def pass_key(self) -> Hashable:
        """Each prompt is a separate pass."""
        return type(self), self.name

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes it can vote for."""
        return self.labels

    @property
    def n_answers(self) -> int:
        """How many answers are asked for about a row."""
        return self.samples if self.grade == "samples" else 1

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the template names."""
        return tuple(dict.fromkeys(_fields(self.template)))

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data."""
        return super().to_dict() | {"client": asdict(self.client)}

    def question(self, row: Mapping[str, Any]) -> str:
        """Return the question about a row."""
        return self._asked(row).text

    def vote(self, answer: str) -> str | None:
        """Return the class that an answer names, None for abstain; raise `Unreadable` if none.

        >>> client = ChatClient("http://127.0.0.1:8000/v1", "llama-3")
        >>> prompt(["ham", "spam"], "Spam or ham? {text}", client=client).vote("It is Spam.")
        'spam'
        """
        return read_answer(answer, self.labels)

    def _asked(self, row: Mapping[str, Any]) -> Question:
        """The question about a row, and the form of its answer."""
        text = self.template.format_map({name: row[name] for name in self.reads})
        constrained = self.client.constrained
        return graded_question(text, self.labels, self.grade, self.samples, constrained)

    @classmethod
    def run_together(
        cls, lfs: Sequence[Self], batch: Batch, labels: LabelSpace
    ) -> list[ColumnVotes]:
        """Return the votes of every prompt."""
        return [lf._votes(batch, labels) for lf in lfs]

    def questions(self, frame: pl.DataFrame) -> tuple[list[int], list[Question]]:
        """Return the rows without missing values, and the question about each."""
        need_columns(frame, self)
        rows = frame.select(self.reads).rows(named=True)
        complete = [k for k, row in enumerate(rows) if all(v is not None for v in row.values())]
        return complete, [self._asked(rows[place]) for place in complete]

    def _out_of_money(self, n_open: int, n_rows: int, reason: str) -> LabelingFunctionError:
        file = self.client.cache or "the user's cache folder"
        return LabelingFunctionError(
            f"{self.name!r} stopped: {reason}. {n_rows - n_open:,} of {n_rows:,} rows have "
            f"answers, which are kept in {file}. The same with a higher budget asks only for the "
            "rest; ",
            Argument("on_error", "abstain"),
            " goes on without it.",
        )

    def _votes(self, batch: Batch, labels: LabelSpace) -> ColumnVotes:
        complete, questions = self.questions(batch.frame)
        ballots: list[Any] = [None] * len(batch)
        failures: dict[int, Failure] = {}
        answers = self.client.ask_all(questions)
        n_open, reached = 0, ""
        for number, answer in answers:
            place = complete[number]
            try:
                ballots[place] = _spread(self.ballot(answer), labels)
            except BudgetReached as error:
                n_open, reached = n_open + 1, str(error)
                failures[place] = batch.failure(self.name, place, reached)
            except (Unreadable, ChatError) as error:
                failure = batch.failure(self.name, place, str(error))
                kind = error.kind if isinstance(error, Unreadable) else ""
                failures[place] = replace(failure, stops=not kind, kind=kind)
                if batch.stop_at_failure and failures[place].stops:
                    answers.close()
                    break
        if n_open and batch.stop_at_failure:
            raise self._out_of_money(n_open, len(complete), reached)
        votes = read_ballots(ballots, labels, self.name, batch)
        return replace(votes, failures=tuple(failures[place] for place in sorted(failures)))

    def ballot(self, answer: Completion | ChatError) -> str | Mapping[str, float] | None:
        """The vote of an answer: a class, or the probability of each class if graded."""
        if isinstance(answer, ChatError):
            raise answer
        if self.grade:
            return read_grade(answer, self.labels, self.grade)
        if answer.refused:
            raise Unreadable(answer.text, "is a refusal", "refusal")
        return read_answer(answer.text, self.labels, finished=not answer.cut_off[0])

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the vote on one row, None for abstain; with a grade, probabilities."""
        try:
            return self.ballot(
                next(answer for _, answer in self.client.ask_all([self._asked(row)]))
            )
        except ChatError as error:
            raise LabelingFunctionError(f"{self.name!r} failed: {error}.") from error
        except Unreadable:
            return None


def prompt(
    labels: str | Sequence[str],
    template: str,
    *,
    client: ChatClient,
    name: str = "",
    grade: Grade = "",
    samples: int = 5,
) -> Prompt:
    r"""Return a labeling function that queries a language model about every row.

    With one class the model must answer yes or no, with several it must pick one. Columns are named
    in braces. An answer that names no class abstains, and the reason is recorded (see
    `FailureLog`). Answers are cached on disk, so each question is sent once.

    With a `grade`, votes are probabilities: of the tokens that spell the classes (`"logprobs"`),
    the shares of several answers (`"samples"`, of which there are `samples`), a rating from 0 to 9
    (`"rating"`), or a class and how sure the model says it is (`"confidence"`). With one class,
    "no" is then a vote for the others. See `wiesel.label_models.calibrate_votes`.

    >>> client = ChatClient("http://127.0.0.1:8000/v1", "llama-3")
    >>> lf = prompt("spam", "Is this message spam?\n{text}", client=client)
    >>> lf.question({"text": "Win!"})
    'Is this message spam?\nWin!\n\nAnswer with yes or no only.'
    """
    names = (labels,) if isinstance(labels, str) else tuple(labels)
    return Prompt(names, template, client, grade, samples, name=name)


def _spread(ballot: str | Mapping[str, float] | None, labels: LabelSpace) -> Any:
    """A vote as probabilities of all classes: of one class, the others share the rest."""
    if not isinstance(ballot, Mapping) or len(ballot) > 1:
        return ballot
    ((name, share),) = ballot.items()
    rest = (1 - share) / (len(labels) - 1)
    return {each: share if each == name else rest for each in labels}


def _fields(template: str) -> list[str]:
    """The columns a template names; only plain names, so that it cannot access attributes.

    Formats are those of numbers: a width would fill the memory with blanks.
    """
    if not isinstance(template, str):
        raise ParameterError(f"The template is a text with columns in braces; got {template!r}.")
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ParameterError(f"The template {template!r:.80} is broken: {error}.") from None
    fields = [field for field in parts if field[1] is not None]
    for _, name, form, conversion in fields:
        if not name or re.search(r"[.\[]", name):
            raise ParameterError(
                f"The template may name columns only, such as {{text}}; got {name!r:.80}."
            )
        if not _NUMBER_FORMAT.fullmatch(form or "") or conversion not in (None, "r", "s", "a"):
            raise ParameterError(
                f"The template may name columns, such as {{text}}, and the decimals of numbers, "
                f"such as {{price:.2f}}; got {form or conversion!r:.80} after {name!r:.80}."
            )
    return [str(name) for _, name, _, _ in fields]
