"""Rules written by a language model, checked on the rows and judged like other proposals."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.summary import gold_indices
from wiesel.errors import DataError, LabelingFunctionError, ParameterError, WieselWarning
from wiesel.guidance.beliefs import draw_weights, row_beliefs
from wiesel.guidance.suggesting import Suggestion, Suggestions, no_votes, text_column_of
from wiesel.guidance.terms import TermIndex
from wiesel.io.files import FilePath
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.lfs.answer_reading import Unreadable, json_answer
from wiesel.lfs.chat import ChatClient
from wiesel.lfs.function import LabelRule
from wiesel.lfs.prompt_rules import PromptFile, listed_classes
from wiesel.lfs.rules_file import rule_from_dict
from wiesel.lfs.sending import Completion
from wiesel.lfs.text_rules import Keywords, Regex
from wiesel.parameters import check_number
from wiesel.tables import as_frame, in_order_of
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["rules_from_model"]

_DOUBT = 4.0
"""Pseudo-count of rows that shrinks a precision toward the class balance, as in `suggest_lfs`."""
_REACH = 0.15
_MOST_SHARE = 0.6
"""A rule that fires on a larger share of the rows is none."""
_SHOWN = 400
"""Characters of a row that the model sees."""


def rules_from_model(  # noqa: PLR0913 - the arguments of suggest_lfs, and who writes
    rows: Any,
    client: ChatClient,
    votes: VoteMatrix | None = None,
    *,
    labels: LabelSpace | Sequence[str] | None = None,
    gold: Any = None,
    task: str = "Classify a text.",
    meanings: Mapping[str, str] | None = None,
    column: str | None = None,
    n_shown: int = 20,
    file: FilePath = "write_rules",
) -> Suggestions:
    """Return rules that a language model writes for a task, the best first, judged on the rows.

    The model sees `n_shown` rows, drawn at random, and answers with keywords and regular
    expressions. Each is applied to all rows and judged like a proposal of `suggest_lfs`: by current
    `votes` and `gold` labels if there are any, and by how many rows it covers. Rules that fire on
    no row or on most, for unknown classes, or with a broken pattern are left out, with a warning.
    Give the client enough `max_tokens`.

    >>> client = ChatClient("http://127.0.0.1:9/v1", "llama-3", max_tokens=2000, retries=0)
    >>> rules_from_model([{"text": "Win a prize!"}], client, labels=["ham", "spam"])
    Traceback (most recent call last):
    wiesel.errors.LabelingFunctionError: ...did not answer...
    """
    check_number(Suggestions, "n_shown", n_shown, low=1, whole=True)
    known_votes = no_votes(rows, labels) if votes is None else votes
    require_votes(known_votes)
    frame = as_frame(in_order_of(known_votes, rows, "rows"))
    if len(frame) != known_votes.n_items:
        raise DataError(
            f"There are {len(frame):,} rows but votes on {known_votes.n_items:,} items."
        )
    place = text_column_of(frame, column)
    if place is None:
        raise DataError("There is no column of text: name one with column=...")
    known = gold_indices(known_votes, gold)
    classes = listed_classes(known_votes.labels.names, meanings or {})
    values = {"task": task, "classes": classes, "examples": _shown(frame[place], n_shown)}
    question = PromptFile.read(file, "rules").fill(values)
    rules, problems = _rules(_proposed(client, question), place, known_votes.labels)
    found, useless = _judged(rules, frame, place, known_votes, known)
    problems += useless
    if problems:
        shown = "; ".join(problems[:5])
        warnings.warn(
            f"{len(problems)} proposed rules were left out: {shown}.", WieselWarning, stacklevel=2
        )
    return Suggestions(tuple(sorted(found, key=lambda own: -own.score)))


def _shown(texts: pl.Series, n_shown: int) -> str:
    """Some texts, drawn at random but always the same, one to a line."""
    given = texts.drop_nulls()
    drawn = np.random.default_rng(0).permutation(len(given))[:n_shown]
    return "\n".join(f"- {given[int(place)][:_SHOWN]}" for place in drawn)


def _proposed(client: ChatClient, question: str) -> list[Any]:
    """What the model answers: a list of rules, as it wrote them."""
    ((_, answer),) = client.ask_all([question])
    if not isinstance(answer, Completion):
        raise LabelingFunctionError(str(answer)) from answer
    try:
        found = json_answer(answer.text, finished=not answer.cut_off[0])
    except Unreadable as problem:
        raise LabelingFunctionError(f"The model wrote no rules: {problem}.") from problem
    rules = found.get("rules") if isinstance(found, Mapping) else found
    if not isinstance(rules, list):
        raise LabelingFunctionError(f"The model wrote no list of rules, but {answer.text[:80]!r}.")
    return rules


def _rules(
    proposed: Sequence[Any], column: str, labels: LabelSpace
) -> tuple[list[LabelRule], list[str]]:
    """The proposals that are rules, each once, and what is wrong with the others."""
    rules: dict[str, LabelRule] = {}
    problems = []
    for entry in proposed:
        try:
            if not isinstance(entry, Mapping) or entry.get("kind") not in ("keywords", "regex"):
                raise ParameterError("no rule of the kinds keywords or regex")
            rule = rule_from_dict({**entry, "column": column})
            if not isinstance(rule, (Keywords, Regex)) or rule.label not in labels:
                raise ParameterError(f"an unknown class {entry.get('label')!r:.40}")
        except (ParameterError, DataError, TypeError) as problem:
            problems.append(f"{entry!r:.80} ({problem})")
            continue
        rules.setdefault(rule.fingerprint, rule)
    return list(rules.values()), problems


def _judged(
    rules: Sequence[LabelRule], frame: pl.DataFrame, column: str, votes: VoteMatrix, gold: Any
) -> tuple[list[Suggestion], list[str]]:
    """The rules with their figures, and those that are no use."""
    certain = bool(votes.n_votes) or bool((gold != ABSTAIN).any())
    proba = np.full((len(frame), votes.n_classes), np.nan)
    if certain:
        index = TermIndex.of(frame[column].fill_null("").to_list())
        beliefs = row_beliefs(index, votes, gold, None)
        proba = np.tensordot(draw_weights(beliefs, gold), beliefs, 1)
    base = proba.mean(axis=0)
    found, useless = [], []
    for rule in rules:
        (own,) = type(rule).matching_rows([rule], frame)
        share = len(own) / max(1, len(frame))
        if not 0 < share <= _MOST_SHARE:
            useless.append(f"{rule.name} (fires on {100 * share:.0f} % of the rows)")
            continue
        label = votes.labels.index(rule.label)
        precision = float((proba[own, label].sum() + _DOUBT * base[label]) / (len(own) + _DOUBT))
        truth = gold[own][gold[own] != ABSTAIN]
        score = (precision if certain else 1.0) * share**_REACH
        found.append(
            Suggestion(rule, precision, share, len(truth), int((truth == label).sum()), score)
        )
    return found, useless
