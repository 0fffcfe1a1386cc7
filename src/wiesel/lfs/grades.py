"""Graded answers: how sure a language model is, as a probability for each class.

There are four ways to ask:

- `logprobs`: the probabilities of the tokens that spell the classes;
- `samples`: several answers, and the share of each class;
- `rating`: a digit from 0 to 9;
- `confidence`: a class, and how sure the model says it is.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from wiesel.errors import listed
from wiesel.lfs.answer_reading import THOUGHT_END, Unreadable, read_answer, without_thinking
from wiesel.lfs.sending import Completion, Question, answer_schema, object_schema

__all__ = ["GRADES", "Grade", "graded_question", "read_grade"]

Grade = Literal["", "logprobs", "samples", "rating", "confidence"]
GRADES: tuple[str, ...] = get_args(Grade)
_RATINGS = 10


def graded_question(
    text: str, labels: Sequence[str], grade: str, samples: int, constrained: bool
) -> Question:
    r"""Return the question about a row, with the form of the answer that is wanted.

    >>> graded_question("Is it spam?", ["spam"], "rating", 1, True).text
    'Is it spam?\n\nAnswer with one digit from 0 (certainly not) to 9 (certainly).'
    """
    names = ", ".join(labels)
    integer = {"type": "integer", "enum": list(range(_RATINGS))}
    values = ("yes", "no") if len(labels) == 1 else (*labels, "abstain")
    if grade == "rating" and len(labels) == 1:
        wanted = "Answer with one digit from 0 (certainly not) to 9 (certainly)."
        schema = object_schema({"rating": integer})
    elif grade == "rating":
        example = json.dumps(dict.fromkeys(labels, 5) | {labels[0]: 2}, ensure_ascii=False)
        wanted = (
            f"Rate each of these from 0 (certainly not) to 9 (certainly): {names}. "
            f"Answer with JSON only, such as {example}."
        )
        schema = object_schema(dict.fromkeys(labels, integer))
    elif grade == "confidence":
        example = json.dumps({"answer": values[0], "confidence": 80}, ensure_ascii=False)
        wanted = (
            f"Answer with one of these: {', '.join(values)}. Say how likely it is right, in "
            f"percent. Answer with JSON only, such as {example}."
        )
        answer = {"type": "string", "enum": list(dict.fromkeys(values))}
        schema = object_schema({"answer": answer, "confidence": {"type": "number"}})
    else:
        wanted = "Answer with yes or no only."
        if len(labels) > 1:
            wanted = f"Answer with one of these only: {names}, or abstain."
        schema = answer_schema(values)
    question = Question(f"{text}\n\n{wanted}", schema if constrained else "")
    if grade == "logprobs":
        return replace(question, logprobs=True)
    return replace(question, samples=samples) if grade == "samples" else question


def read_grade(answer: Completion, labels: Sequence[str], grade: str) -> Mapping[str, float] | None:
    """Return the probability of each class, None for abstain; raise `Unreadable` if there is none.

    With one class it is the probability that the class applies.

    >>> read_grade(Completion(("7",)), ["spam"], "rating")
    {'spam': 0.75}
    >>> read_grade(Completion(("yes", "no"), (False, False)), ["spam"], "samples")
    {'spam': 0.5}
    """
    if answer.refused:
        raise Unreadable(answer.text, "is a refusal", "refusal")
    if grade == "samples":
        return _of_samples(answer, labels)
    if grade == "logprobs":
        return _of_tokens(answer, labels)
    if answer.cut_off[0] and not without_thinking(answer.text):
        raise Unreadable(answer.text, "was cut off: raise max_tokens", "unfinished")
    of_text = _of_ratings if grade == "rating" else _of_confidence
    return of_text(answer, labels)


def _of_samples(answer: Completion, labels: Sequence[str]) -> Mapping[str, float] | None:
    """The share of each class among the samples that can be read."""
    counts = dict.fromkeys(labels, 0)
    n_read, problem = 0, None
    for text, cut_off in zip(answer.texts, answer.cut_off, strict=True):
        try:
            found = read_answer(text, labels, finished=not cut_off)
        except Unreadable as error:
            problem = error
            continue
        if found is not None:
            counts[found] += 1
        n_read += found is not None or len(labels) == 1  # of one class, "no" counts
    if not n_read:
        if problem is not None:
            raise problem
        return None
    return {name: count / n_read for name, count in counts.items()}


def _of_tokens(answer: Completion, labels: Sequence[str]) -> Mapping[str, float] | None:
    """The probabilities of the classes that the tokens of the answer, and others, spell."""
    said = read_answer(answer.text, labels, finished=not answer.cut_off[0])
    if not answer.tokens:
        raise Unreadable(
            answer.text,
            "came without the probabilities of its tokens, which this server does not give: use "
            "grade='samples' or 'rating'",
        )
    if said is None and len(labels) > 1:
        return None
    single = len(labels) == 1
    spelled = {name.casefold(): name for name in (("yes", "no") if single else labels)}
    chosen = ("no" if said is None else "yes") if single else str(said).casefold()
    mass = _spelled_mass(answer, list(spelled), chosen)
    total = sum(mass.values())
    if not total:
        raise Unreadable(answer.text, "has no token that spells a class")
    shares = {spelled[name]: own / total for name, own in mass.items()}
    return {labels[0]: shares["yes"]} if single else shares


def _spelled_mass(answer: Completion, names: Sequence[str], chosen: str) -> dict[str, float]:
    """The probability of each class: where its spelling parts from that of the chosen one."""
    mass = dict.fromkeys(names, 0.0)
    text = "".join(token for token, _ in answer.tokens).casefold()
    thoughts = [found.end() for found in THOUGHT_END.finditer(text)]
    found = re.compile(rf"(?<!\w){re.escape(chosen)}(?!\w)").search(text, (thoughts or [0])[-1])
    if found is None:  # the class is written in another way, such as True for yes
        return mass
    begin, path = 0, 1.0
    for token, alternatives in answer.tokens:
        end = begin + len(token)
        if end > found.start():
            prefix = text[found.start() : begin]
            path *= _parting(mass, path, prefix, token, alternatives, chosen)
            spelled = text[found.start() : end].strip()
            if [name for name in names if _same_start(name, spelled)] == [chosen]:
                break
        begin = end
    mass[chosen] += path
    return mass


def _parting(
    mass: dict[str, float],
    path: float,
    prefix: str,
    token: str,
    alternatives: Sequence[tuple[str, float]],
    chosen: str,
) -> float:
    """Add the classes that alternatives of a token lead to; return the share that stays."""
    stays = 0.0
    for other, logprob in alternatives:
        word = prefix + (other.casefold() if prefix else other.casefold().lstrip(" \"'\n{:`*"))
        leads_to = [name for name in mass if word and _same_start(name, word)]
        if leads_to == [chosen] or (chosen in leads_to and other == token):
            stays += math.exp(logprob)
        elif len(leads_to) == 1:
            mass[leads_to[0]] += path * math.exp(logprob)
    return min(stays, 1.0)


def _same_start(name: str, word: str) -> bool:
    """Whether a word is the start of a class, or the class and what follows it."""
    return name.startswith(word) or re.match(rf"{re.escape(name)}(?!\w)", word) is not None


def _of_ratings(answer: Completion, labels: Sequence[str]) -> Mapping[str, float]:
    text = without_thinking(answer.text)
    if len(labels) == 1:
        plain = re.sub(r"(?:/| out of )\s*9\b", "", text)
        found = set(map(float, re.findall(r"(?<![\d.,/-])\d+(?:\.\d+)?(?![\d/%])", plain)))
        if len(found) != 1 or (rating := found.pop()) >= _RATINGS:
            raise Unreadable(answer.text, "has no single rating from 0 to 9")
        return {labels[0]: (min(rating, 9.0) + 0.5) / _RATINGS}
    rated = {name: _rating_of(text, name) for name in labels}
    missing = [name for name, rating in rated.items() if rating is None]
    if missing:
        raise Unreadable(answer.text, f"has no rating from 0 to 9 of {listed(missing)}")
    odds = {name: _odds((float(rating or 0) + 0.5) / _RATINGS) for name, rating in rated.items()}
    total = sum(odds.values())
    return {name: own / total for name, own in odds.items()}


def _rating_of(text: str, name: str) -> float | None:
    """The rating that stands after a class, in JSON or as "ham: 3"."""
    pattern = rf"(?<![\w-]){re.escape(name)}[\"'*`]*\s*[:=-]?\s*[\"'*`]*(\d+(?:\.\d+)?)(?![\d%])"
    found = {float(number) for number in re.findall(pattern, text, re.I)}
    return found.pop() if len(found) == 1 and max(found) < _RATINGS else None


def _odds(probability: float) -> float:
    return probability / (1 - probability)


def _of_confidence(answer: Completion, labels: Sequence[str]) -> Mapping[str, float] | None:
    text = without_thinking(answer.text)
    said = read_answer(text, labels, finished=not answer.cut_off[0])
    if said is None and len(labels) > 1:
        return None
    sure = max(_stated(answer, text), 1 / max(2, len(labels)))
    if len(labels) == 1:
        return {labels[0]: sure if said else 1 - sure}
    rest = (1 - sure) / (len(labels) - 1)
    return {name: sure if name == said else rest for name in labels}


def _stated(answer: Completion, text: str) -> float:
    """The confidence that an answer states: in percent, or as a share."""
    found: list[Any] = re.findall(
        r"(?:confiden\w*|sure|certain\w*|probability|likel\w*)[\"'*`]*\s*(?:is|of|[:=])?\s*[\"'*`]*"
        r"(\d+(?:\.\d+)?)\s*(%?)",
        text,
        re.I,
    ) or re.findall(r"(\d+(?:\.\d+)?)\s*(%)", text)
    stated = {
        float(number) / (1 if float(number) <= 1 and not sign else 100) for number, sign in found
    }
    if len(stated) != 1 or not 0 <= (sure := stated.pop()) <= 1:
        raise Unreadable(answer.text, "states no single confidence")
    return sure
