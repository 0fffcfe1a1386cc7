"""The record of a prompt's votes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from chat_server import ModelServer, model_server, spam_or_ham
from wiesel import VoteMatrix, apply_lfs, keywords, prompt
from wiesel.errors import DataError
from wiesel.io import read_votes, write_votes
from wiesel.io.vote_files import vote_note
from wiesel.lfs import ChatClient, PriceTable, VoteCache, prompt_records
from wiesel.lfs.costs import prompt_version
from wiesel.lfs.prompt_rules import Prompt
from wiesel.lfs.spending import Price

LABELS = ["ham", "spam"]
ROWS = [{"text": "a prize"}, {"text": "see you"}, {"text": "see you"}, {"text": None}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(spam_or_ham) as running:
        yield running


@pytest.fixture
def ask(server: ModelServer, tmp_path: Path) -> Prompt:
    client = ChatClient(server.url, "tiny", cache=str(tmp_path / "answers.sqlite"))
    return prompt(LABELS, "{text}", client=client, name="ask")


def test_a_record_counts_rows_and_tokens_of_different_questions(ask: Prompt) -> None:
    lfs = [ask, keywords("spam", ["prize"], column="text", name="word")]
    apply_lfs(lfs, ROWS[:1], labels=LABELS)
    (record,) = prompt_records(lfs, ROWS).values()
    assert (record["rows"], record["votes"], record["unanswered"]) == (3, 1, 2)
    apply_lfs(lfs, ROWS, labels=LABELS)
    (record,) = prompt_records(lfs, ROWS, PriceTable({"tiny": Price(0, 1e6)})).values()
    assert (record["rows"], record["votes"], record["unanswered"]) == (3, 3, 0)
    assert record["tokens_out"] == 2  # one for each of two different questions
    assert record["cost"] == 2
    assert record["answered_by"] == {"tiny-2026": 3}


def test_every_option_that_changes_answers_is_part_of_both_cache_keys(
    ask: Prompt, server: ModelServer, tmp_path: Path
) -> None:
    cache = VoteCache(tmp_path / "votes.sqlite")
    client = ask.client
    variants = [
        ask,
        replace(ask, template="Now: {text}"),
        replace(ask, labels=("spam", "ham")),
        replace(ask, grade="rating"),
        replace(ask, client=replace(client, model="other")),
        replace(ask, client=replace(client, temperature=0.5)),
        replace(ask, client=replace(client, max_tokens=64)),
        replace(ask, client=replace(client, constrained=False)),
    ]
    server.answer = lambda _: '{"ham": 1, "spam": 8, "answer": "spam"}'
    for number, variant in enumerate(variants, start=1):
        apply_lfs(variant, ROWS[:1], labels=LABELS, cache=cache)
        assert (len(server.requests), cache.misses) == (number, number)
    apply_lfs(ask, ROWS[:1], labels=LABELS, cache=cache)
    assert (len(server.requests), cache.hits) == (8, 1)


def test_the_version_of_a_prompt_is_that_of_its_words() -> None:
    client = ChatClient("http://127.0.0.1:9/v1", "tiny")
    ask = prompt(LABELS, "{text}", client=client)
    assert prompt_version(ask) == prompt_version(replace(ask, name="another"))
    assert prompt_version(ask) != prompt_version(replace(ask, template="{text}!"))
    assert len(prompt_version(ask)) == 8


def test_votes_keep_their_sources_in_the_file(tmp_path: Path) -> None:
    votes = VoteMatrix.from_dense([[0], [1]], LABELS, ["ask"])
    path = tmp_path / "votes.parquet"
    write_votes(votes, path, sources={"ask": {"model": "tiny"}})
    note = vote_note(path)
    assert note is not None
    assert note.sources == {"ask": {"model": "tiny"}}
    assert read_votes(path).equals(votes)
    bad = pl.read_parquet_metadata(path)["wiesel"].replace('{"model": "tiny"}', "3")
    pl.read_parquet(path).write_parquet(path, metadata={"wiesel": bad})
    with pytest.raises(DataError, match="not a file of votes"):
        read_votes(path)
