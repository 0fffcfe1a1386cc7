"""Where the votes of prompts come from: model, prompt, parameters, and how its answers were."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from wiesel.lfs.answer_reading import Unreadable
from wiesel.lfs.chat import host_of
from wiesel.lfs.costs import open_questions, prompts_of
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.function import LabelingFunction
from wiesel.lfs.prompt_rules import Prompt
from wiesel.lfs.sending import Completion
from wiesel.lfs.spending import PriceTable

__all__ = ["prompt_records", "prompt_version"]


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
