"""A language model as a span function: it quotes parts of a text, which are then found in it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiesel.errors import LabelingFunctionError, ParameterError
from wiesel.io.files import FilePath
from wiesel.lfs.answer_reading import Unreadable, json_answer
from wiesel.lfs.chat import ChatClient
from wiesel.lfs.failures import Failure
from wiesel.lfs.prompt_rules import PromptFile
from wiesel.lfs.sending import ChatError, Completion, Question, object_schema
from wiesel.spans.documents import Documents
from wiesel.spans.functions import Marks, SpanFunction
from wiesel.spans.reading import runs_of_spans, without_overlaps
from wiesel.spans.tags import OUTSIDE, SpanLabels

__all__ = ["PromptSpans", "prompt_spans"]


@dataclass(frozen=True, eq=False)
class PromptSpans(SpanFunction):
    """Asks a language model about every document; made by `prompt_spans`."""

    names: tuple[str, ...]
    template: str
    client: ChatClient
    name: str
    exhaustive: bool = True
    made_of: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels it can mark."""
        return self.names

    def run(self, documents: Documents, labels: SpanLabels, stop_at_failure: bool = True) -> Marks:
        """Return the quoted parts of every document; what cannot be read or found is a failure."""
        texts = [document.text for document in documents]
        spans: list[Any] = [[] for _ in texts]
        answered = np.ones(len(texts), dtype=bool)
        failures: dict[int, Failure] = {}
        for place, answer in self.client.ask_all([self.question(text) for text in texts]):
            try:
                spans[place] = self.spans_of(answer, texts[place])
            except (Unreadable, ChatError) as problem:
                kind = problem.kind if isinstance(problem, Unreadable) else ""
                document = f"document {documents.id_of(place)!r}"
                failure = Failure(
                    self.name, document, str(problem), texts[place][:200], stops=not kind, kind=kind
                )
                if stop_at_failure and failure.stops:
                    raise failure.error() from problem
                failures[place], answered[place] = failure, False
        runs = runs_of_spans(spans, documents, (*labels.names, OUTSIDE), f"{self.name!r}:")
        kept = without_overlaps(runs)
        in_order = tuple(failures[place] for place in sorted(failures))
        return Marks(kept, answered, len(runs.first) - len(kept.first), in_order)

    def question(self, text: str) -> Question:
        """Return the question about a text."""
        label = {"type": "string", "enum": list(self.names)}
        part = json.loads(object_schema({"text": {"type": "string"}, "label": label}))
        schema = object_schema({"spans": {"type": "array", "items": part}})
        asked = self.template.format_map({"text": text})
        return Question(asked, schema if self.client.constrained else "")

    def spans_of(self, answer: Completion | ChatError, text: str) -> list[tuple[int, int, str]]:
        """Return the parts of a text that an answer quotes: all places where a quote stands."""
        if isinstance(answer, ChatError):
            raise answer
        given = json_answer(answer.text, finished=not answer.cut_off[0])
        parts = given.get("spans") if isinstance(given, Mapping) else given
        if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
            raise Unreadable(answer.text, "has no list of spans")
        found: list[tuple[int, int, str]] = []
        for part in parts:
            quote, label = str(part.get("text") or "").strip(), part.get("label")
            if label not in self.names:
                raise Unreadable(answer.text, f"has the label {label!r:.40}")
            own = [(m.start(), m.end(), str(label)) for m in _places(quote, text)] if quote else []
            if not own:
                raise Unreadable(answer.text, f"quotes {quote[:40]!r}, which is not in the text")
            found += own
        return sorted(set(found))


def prompt_spans(
    labels: str | Sequence[str],
    *,
    client: ChatClient,
    task: str = "Read a text.",
    meanings: Mapping[str, str] | None = None,
    file: FilePath = "spans",
    name: str = "",
    exhaustive: bool = True,
) -> PromptSpans:
    """Return a span function that asks a language model to quote the spans of every document.

    Give the client enough `max_tokens` for the quotes. `file` is the prompt: `"spans"`, or a
    changed copy of it. An answer with a quote that is not in the text is an abstention.

    >>> client = ChatClient("http://127.0.0.1:8000/v1", "llama-3", max_tokens=400)
    >>> people = prompt_spans("PER", client=client, meanings={"PER": "a person"})
    >>> people.name, "- PER: a person" in people.question("Ask Mr Brown").text
    ('prompt_PER', True)
    """
    names = (labels,) if isinstance(labels, str) else tuple(labels)
    if not names or not all(isinstance(each, str) and each for each in names):
        raise ParameterError(f"labels is a label or a list of labels; got {labels!r:.60}.")
    if not isinstance(client, ChatClient):
        raise LabelingFunctionError(f"client is a ChatClient; got {client!r:.60}.")
    found = PromptFile.read(file, "spans")
    template = found.template(names, task, "text", meanings)
    own = name or "_".join(["prompt", *names[:3]])
    return PromptSpans(names, template, client, own, exhaustive, f"{found.name} {found.version}")


def _places(quote: str, text: str) -> list[re.Match[str]]:
    """Where a quote stands in a text, as whole words; any blanks match any others."""
    words = r"\s+".join(map(re.escape, quote.split()))
    exact = list(re.finditer(rf"(?<!\w){words}(?!\w)", text))
    return exact or list(re.finditer(rf"(?<!\w){words}(?!\w)", text, re.I))
