"""Batch files: requests of prompts as JSONL, answered later by the service for a lower price."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wiesel.errors import DataError
from wiesel.io.files import FilePath, existing_file, read_text, write_text
from wiesel.lfs.chat import AnswerCache
from wiesel.lfs.costs import open_questions, prompts_of
from wiesel.lfs.function import LabelingFunction, slug
from wiesel.lfs.prompt_rules import Prompt
from wiesel.lfs.sending import Completion, NotACompletion, request_body

__all__ = ["BatchAnswers", "read_batch_answers", "write_batch_requests"]


@dataclass(frozen=True)
class BatchAnswers:
    """What was in files of answers."""

    answered: int
    """Answers that are now in the cache."""
    failed: int
    """Requests that the service could not answer; they stay open."""
    unknown: int
    """Answers to questions that are not asked about these rows."""
    still_open: int
    """Questions without an answer."""

    def __str__(self) -> str:
        return (
            f"{self.answered:,} answers were added to the cache; {self.failed:,} failed, "
            f"{self.unknown:,} belong to other questions, {self.still_open:,} questions are open."
        )


def write_batch_requests(
    lfs: LabelingFunction | Iterable[Any], rows: Any, path: FilePath
) -> dict[Path, int]:
    """Write the open questions of prompts as a batch file; return the files and their requests.

    Several models get a file each, as services require. Answers that are in the cache, and equal
    questions, are left out. The files contain the rows, and no key.

    >>> import tempfile
    >>> from wiesel import prompt
    >>> from wiesel.lfs import ChatClient
    >>> client = ChatClient("https://models.example/v1", "tiny", cache=None)
    >>> path = Path(tempfile.mkdtemp()) / "requests.jsonl"
    >>> written = write_batch_requests(prompt("spam", "{t}", client=client), [{"t": "a"}], path)
    >>> list(written.values())
    [1]
    >>> sorted(json.loads(path.read_text()))
    ['body', 'custom_id', 'method', 'url']
    """
    target = Path(path)
    if target.suffix != ".jsonl":
        raise DataError(f"Batch files are JSONL; give {path} the extension .jsonl.")
    by_model: dict[tuple[str, str], list[Prompt]] = {}
    for lf in prompts_of(lfs):
        by_model.setdefault((lf.client.endpoint, lf.client.model), []).append(lf)
    written: dict[Path, int] = {}
    for number, ((_, model), own) in enumerate(by_model.items(), start=1):
        name = f"{target.stem}-{number}-{slug(model)}.jsonl" if len(by_model) > 1 else target.name
        lines = {key: line for lf in own for key, line in _requests(lf, rows)}
        if lines:
            write_text(target.with_name(name), "".join(f"{line}\n" for line in lines.values()))
            written[target.with_name(name)] = len(lines)
    return written


def read_batch_answers(
    lfs: LabelingFunction | Iterable[Any], rows: Any, *paths: FilePath
) -> BatchAnswers:
    """Put the answers of batch files into the caches of the prompts that asked.

    `apply_lfs` on the same rows then sends nothing for them.

    >>> read_batch_answers([], [], "answers.jsonl")
    Traceback (most recent call last):
    wiesel.errors.ParameterError: There are no labeling functions: the list is empty. ...
    """
    caches: dict[str, AnswerCache] = {}
    n_open = 0
    for lf in prompts_of(lfs):
        if lf.client.cache is None:
            raise DataError(
                f"{lf.name!r} has no cache for the answers: ChatClient(cache='answers.sqlite')."
            )
        for key, _, answer, _ in open_questions(lf, rows):
            caches[key] = AnswerCache(lf.client.cache)
            n_open += answer is None
    found = [entry for path in paths for entry in _answers(existing_file(path))]
    known = {key: answer for key, answer in found if key in caches and answer is not None}
    for key, answer in known.items():
        caches[key].put(key, answer)
    unknown = sum(key not in caches for key, _ in found)
    failed = sum(key in caches and answer is None for key, answer in found)
    return BatchAnswers(len(known), failed, unknown, max(0, n_open - len(known)))


def _requests(lf: Prompt, rows: Any) -> Iterable[tuple[str, str]]:
    client = lf.client
    for key, question, answer, _ in open_questions(lf, rows):
        if answer is None:
            body = request_body(question, client.model, client.temperature, client.max_tokens)
            request = {"custom_id": key, "method": "POST", "url": urlsplit(client.endpoint).path}
            yield key, json.dumps({**request, "body": body}, ensure_ascii=False)


def _answers(path: Path) -> Iterable[tuple[str, Completion | None]]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            key, response = str(entry["custom_id"]), entry.get("response")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{path}, line {number}: this is not an answer of a batch, which has a "
                f"custom_id and a response; got {line.strip()!r:.80}."
            ) from error
        yield key, None if entry.get("error") else _completion(response)


def _completion(response: Any) -> Completion | None:
    if not isinstance(response, Mapping) or response.get("status_code", 200) != 200:
        return None
    try:
        return Completion.of_reply(json.dumps(response.get("body")).encode())
    except NotACompletion:
        return None
