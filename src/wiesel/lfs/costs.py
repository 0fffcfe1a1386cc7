"""Prompts as files: what they would cost, batches to send, where their votes came from."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wiesel.errors import DataError, as_path
from wiesel.io.files import FilePath, existing_file, read_text, write_text
from wiesel.lfs.answer_reading import Unreadable
from wiesel.lfs.batch import RowSource
from wiesel.lfs.chat import AnswerCache, host_of
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.function import LabelingFunction, as_lfs, slug
from wiesel.lfs.prompt_rules import Prompt
from wiesel.lfs.sending import Completion, NotACompletion, Question, request_body
from wiesel.lfs.spending import PriceTable, count_tokens

__all__ = [
    "BatchAnswers",
    "CostEstimate",
    "PromptCost",
    "estimate_cost",
    "open_questions",
    "prompt_records",
    "prompt_version",
    "prompts_of",
    "read_batch_answers",
    "write_batch_requests",
]


@dataclass(frozen=True)
class PromptCost:
    """What one prompt would use."""

    lf: str
    model: str
    rows: int
    """Rows without missing values, about which there is a question."""
    cached: int
    """Different questions that are answered already."""
    requests: int
    """Different questions that would be sent."""
    tokens_in: int
    tokens_out: int
    """What the answers would use, judged by those in the cache; else `max_tokens` for each."""
    cost: float | None
    """None if the price is unknown."""
    at_most: float | None
    """The cost if every answer were as long as `max_tokens` allows."""
    counted: str
    """How the tokens were counted."""


@dataclass(frozen=True)
class CostEstimate:
    """What all prompts would use; made by `estimate_cost`."""

    prompts: tuple[PromptCost, ...]
    prices: PriceTable

    @property
    def cost(self) -> float | None:
        """The cost of all; None if a price is unknown."""
        costs = [own.cost for own in self.prompts]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def requests(self) -> int:
        """The requests of all."""
        return sum(own.requests for own in self.prompts)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain data."""
        rows = [asdict(own) for own in self.prompts]
        return {"requests": self.requests, "cost": self.cost, "prompts": rows}

    def __str__(self) -> str:
        lines = [self._line(own) for own in self.prompts]
        unknown = dict.fromkeys(own.model for own in self.prompts if own.cost is None)
        lines += [f"The price of {m!r} is unknown: {self.prices.missing(m)}" for m in unknown]
        if len(self.prompts) > 1:
            lines.append(f"all: {self.requests:,} requests, {self.prices.amount(self.cost)}")
        return "\n".join(lines) or "There are no prompts among the labeling functions: no cost."

    def _line(self, own: PromptCost) -> str:
        batch = self.prices.models.get(own.model)
        half = batch.batch if batch else 0.5
        price = self.prices.amount(own.cost)
        if own.cost:
            price += (
                f" (at most {self.prices.amount(own.at_most)}; in batch files about "
                f"{self.prices.amount(own.cost * half)})"
            )
        return (
            f"{own.lf} ({own.model}): {own.requests:,} requests for {own.rows:,} rows, "
            f"{own.cached:,} answers in the cache; {own.tokens_in:,} tokens in, "
            f"{own.tokens_out:,} out ({own.counted}); {price}"
        )


def estimate_cost(
    lfs: LabelingFunction | Iterable[Any], rows: Any, *, prices: PriceTable | None = None
) -> CostEstimate:
    """Return what the prompts among labeling functions would cost on rows. Nothing is sent.

    `rows` is what `apply_lfs` takes. Equal questions are sent once, and those with an answer in the
    cache never. Tokens are counted by the tokenizer that the price table names for the model, or
    estimated; if the cache has answers, the estimate is corrected by what these really used.

    >>> from wiesel import prompt
    >>> from wiesel.lfs import ChatClient
    >>> client = ChatClient("http://127.0.0.1:8000/v1", "llama-3", cache=None)
    >>> lf = prompt("spam", "Spam?{text}", client=client, name="ask")
    >>> print(estimate_cost(lf, [{"text": "a"}, {"text": "b"}, {"text": "b"}]))
    ask (llama-3): 2 requests for 3 rows, 0 answers in the cache; 106 tokens in, 64 out...
    """
    table = PriceTable.read() if prices is None else prices
    return CostEstimate(tuple(_cost(lf, rows, table) for lf in prompts_of(lfs)), table)


def prompts_of(lfs: LabelingFunction | Iterable[Any]) -> list[Prompt]:
    """Return the prompts among labeling functions."""
    return [lf for lf in as_lfs(lfs) if isinstance(lf, Prompt)]


def open_questions(lf: Prompt, rows: Any) -> Iterator[tuple[str, Question, Completion | None, int]]:
    """Yield every different question of a prompt: its key, its answer if cached, and its rows."""
    answers = AnswerCache(lf.client.cache)
    seen: dict[str, int] = {}
    asked: dict[str, Question] = {}
    for batch in RowSource(rows, columns=lf.reads).batches():
        for question in lf.questions(batch.frame)[1]:
            key = lf.client.key(question)
            seen[key] = seen.get(key, 0) + 1
            asked.setdefault(key, question)
    known = answers.get(list(seen))
    for key, question in asked.items():
        yield key, question, known.get(key), seen[key]


def _cost(lf: Prompt, rows: Any, prices: PriceTable) -> PromptCost:
    price = prices.of(lf.client)
    tokenizer = price.tokenizer if price else ""
    n_rows = n_cached = n_open = guess = real = estimated = out = 0
    for _, question, answer, n_same in open_questions(lf, rows):
        n_rows += n_same
        tokens = count_tokens(question.text + question.schema, tokenizer)
        if answer is None:
            n_open += 1
            guess += tokens
            continue
        n_cached += 1
        if answer.tokens_in is not None and answer.tokens_out is not None:
            real += answer.tokens_in
            estimated += tokens
            out += answer.tokens_out
    most_out = lf.client.max_tokens * lf.n_answers * n_open
    counted = "counted by the tokenizer" if tokenizer else "estimated"
    tokens_in, tokens_out = guess, most_out
    if estimated:
        tokens_out = round(out / n_cached * n_open)
        if not tokenizer:
            tokens_in = round(guess * real / estimated)
            counted = f"estimated, corrected by {n_cached:,} answers"
    return PromptCost(
        *(lf.name, lf.client.model, n_rows, n_cached, n_open, tokens_in, tokens_out),
        None if price is None else price.of(tokens_in, tokens_out),
        None if price is None else price.of(tokens_in, most_out),
        counted,
    )


def prompt_records(
    lfs: LabelingFunction | Iterable[Any], rows: Any, prices: PriceTable | None = None
) -> dict[str, dict[str, Any]]:
    """Return a record of each prompt's votes on rows, by voter, from the answers in its cache.

    `write_votes(votes, path, sources=...)` stores them with the votes, and `wiesel inspect` shows
    them. A record has no key and no rows.

    >>> from wiesel import prompt
    >>> from wiesel.lfs import ChatClient
    >>> client = ChatClient("http://127.0.0.1:8000/v1", "llama-3", cache=None)
    >>> ask = prompt("spam", "Spam? {text}", client=client, name="ask")
    >>> records = prompt_records(ask, [{"text": "a"}])
    >>> records["ask"]["model"], records["ask"]["parameters"]["temperature"]
    ('llama-3', 0.0)
    """
    table = PriceTable.read() if prices is None else prices
    return {lf.name: _record(lf, rows, table) for lf in prompts_of(lfs)}


def prompt_version(lf: Prompt) -> str:
    """Return a short digest of all that decides what is asked, apart from the row."""
    return digest(lf.template, lf.labels, lf.grade, lf.client.constrained)[:8]


def _record(lf: Prompt, rows: Any, prices: PriceTable) -> dict[str, Any]:
    client = lf.client
    parameters = {"temperature": client.temperature, "max_tokens": client.max_tokens}
    parameters |= {"constrained": client.constrained, "samples": lf.n_answers}
    record: dict[str, Any] = {
        "model": client.model,
        "server": ":".join(map(str, host_of(client.url))),
        "prompt_version": prompt_version(lf),
        "prompt_file": lf.made_of,
        "template": lf.template,
        "classes": list(lf.labels),
        "grade": lf.grade,
        "parameters": parameters,
    }
    return record if client.cache is None else record | _answered(lf, rows, prices)


def _answered(lf: Prompt, rows: Any, prices: PriceTable) -> dict[str, Any]:
    """What the answers in the cache say: numbers of rows, and the tokens of different questions."""
    counts: Counter[str] = Counter()
    models: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    tokens_in, tokens_out = 0, 0
    for _, _, answer, n_rows in open_questions(lf, rows):
        counts["rows"] += n_rows
        if answer is None:
            counts["unanswered"] += n_rows
            continue
        counts[_kind(lf, answer)] += n_rows
        models[answer.model or lf.client.model] += n_rows
        left_out.update(dict.fromkeys(answer.left_out, n_rows))
        tokens_in += answer.tokens_in or 0
        tokens_out += answer.tokens_out or 0
    price = prices.of(lf.client)
    names = ("rows", "votes", "abstentions", "unanswered")
    unreadable = {kind: n for kind, n in sorted(counts.items()) if kind not in names}
    return {
        **{name: counts[name] for name in names},
        "unreadable": unreadable,
        "answered_by": dict(models),
        "left_out": dict(left_out),
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "cost": None if price is None else price.of(tokens_in, tokens_out),
    }


def _kind(lf: Prompt, answer: Completion) -> str:
    try:
        return "abstentions" if lf.ballot(answer) is None else "votes"
    except Unreadable as problem:
        return problem.kind


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
    target = as_path(path)
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
