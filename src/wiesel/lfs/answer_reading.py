"""Reads the class out of a language model's answer. It never guesses: in doubt there is no vote.

An answer is read from the most explicit statement to the least: a JSON value, the exact name of a
class, a final answer ("Answer: ham"), a leading yes or no, a leading class, and a class that is
mentioned in a sentence. A sentence with a negation never gives a vote for a class that it mentions.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wiesel.errors import listed

__all__ = [
    "ANSWER_KEYS",
    "BOTH",
    "CLAUSE",
    "CORRECTION",
    "DENIED_AFTER",
    "FENCED",
    "FINAL",
    "MARKUP",
    "NEGATION",
    "NESTED",
    "NO",
    "READ",
    "REASON",
    "REFUSAL",
    "SILENT",
    "THOUGHT_END",
    "THOUGHT_START",
    "TYPOGRAPHIC",
    "WEAK",
    "YES",
    "YES_NO",
    "Kind",
    "Unreadable",
    "json_answer",
    "read_answer",
    "without_thinking",
]

Kind = Literal["negation", "refusal", "unfinished", "several", "nothing"]
"""Why an answer gives no vote: it denies a class, the model refuses, the answer is cut off, names
several classes, or names none."""


class Unreadable(Exception):
    """An answer that names no class; the message is the recorded reason."""

    def __init__(self, answer: str, problem: str, kind: Kind = "nothing") -> None:
        shown = " ".join(answer.split())
        super().__init__(f"the answer {shown[:80]!r}{'…' * (len(shown) > 80)} {problem}")
        self.kind: Kind = kind


def read_answer(answer: str, labels: Sequence[str], *, finished: bool = True) -> str | None:
    """Return the class that an answer names, None for abstain; raise `Unreadable` if none.

    With one class, the question was whether it applies, and "no" abstains. An answer that is not
    `finished` was cut off by the limit on its length.

    >>> read_answer("<think>An offer...</think>**Spam**.", ["ham", "spam"])
    'spam'
    >>> read_answer('{"answer": "yes"}', ["spam"])
    'spam'
    >>> read_answer("This is not spam.", ["ham", "spam"])
    Traceback (most recent call last):
    wiesel.lfs.answer_reading.Unreadable: the answer 'This is not spam.' denies 'spam'
    """
    text = without_thinking(answer)
    if len(text) > 2 * READ:
        text = f"{text[:READ]}\n{text[-READ:]}"
    if not text:
        problem = "was cut off before it began: raise max_tokens" if not finished else "is empty"
        raise Unreadable(answer, problem, "nothing" if finished else "unfinished")
    return _Reader(answer, tuple(labels), finished).read(text)


def without_thinking(answer: str) -> str:
    """Return an answer without the thoughts before it and the marks of chat templates.

    >>> without_thinking("<think>Is it? Yes.</think> No<|im_end|>")
    'No'
    """
    # Some templates leave out how a thought begins, and one that is cut off has no end.
    text = THOUGHT_END.split(answer)[-1]
    text = text if text.strip() else THOUGHT_END.split(answer)[0]
    text = THOUGHT_START.split(text)[0]
    return MARKUP.sub(" ", text).strip()


def json_answer(answer: str, *, finished: bool = True) -> Any:
    """Return the value of an answer in JSON, wherever it stands; raise `Unreadable` if none.

    >>> json_answer('Here it is: {"labels": ["sports"]}')
    {'labels': ['sports']}
    """
    value = _json_value(without_thinking(answer))
    if value is not _NOTHING:
        return value
    if not finished:
        raise Unreadable(answer, "was cut off: raise max_tokens", "unfinished")
    if REFUSAL.search(_plain(answer[:READ])):
        raise Unreadable(answer, "is a refusal", "refusal")
    raise Unreadable(answer, "is not JSON")


@dataclass(frozen=True)
class _Reader:
    """Reads one answer: every step returns what it found, or raises `Unreadable`."""

    answer: str
    labels: tuple[str, ...]
    finished: bool

    def read(self, text: str) -> str | None:
        value = _json_value(text)
        if value is not _NOTHING:
            return self._of_json(value)
        return self._of_text(text)

    def _of_json(self, value: Any) -> str | None:
        for _ in range(NESTED):
            if isinstance(value, list) and len(value) == 1:
                value = value[0]
            elif isinstance(value, dict):
                value = _chosen(value, self.labels)
        if value is None:
            return None
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if isinstance(value, (list, dict)):
            raise Unreadable(self.answer, f"names more or less than one of {self._all}", "several")
        whole = isinstance(value, float) and value.is_integer()
        text = str(int(value) if whole else value).strip()
        return self._of_text(text) if text else None

    def _of_text(self, text: str) -> str | None:
        plain = _plain(text)
        exact = self._exact(plain)
        if exact is not _NOTHING:
            return None if exact is None else str(exact)
        if REFUSAL.search(plain):
            raise Unreadable(self.answer, "is a refusal", "refusal")
        final = self._final(plain)
        if final is not _NOTHING:
            return None if final is None else str(final)
        return self._leading(plain)

    def _exact(self, plain: str) -> Any:
        """The class that is the whole text, None for abstain or a plain no."""
        bare = _bare(plain)
        if not self.finished and sum(_plain(n).startswith(bare) for n in self.labels) > 1:
            return _NOTHING
        for name in self.labels:
            if _bare(_plain(name)) == bare:
                return name
        spelled = re.sub(r"[\s_-]+", " ", bare)
        alike = [
            name for name in self.labels if re.sub(r"[\s_-]+", " ", _bare(_plain(name))) == spelled
        ]
        if len(alike) == 1:
            return alike[0]
        if bare in SILENT:
            return None
        if len(self.labels) == 1 and bare in YES | NO:
            return self.labels[0] if bare in YES else None
        return _NOTHING

    def _final(self, plain: str) -> Any:
        """What follows the last "the answer is", or stands alone on the first or last line."""
        marks = list(FINAL.finditer(plain))
        if marks:
            rest = plain[marks[-1].end() :].strip()
            before = plain[: marks[-1].start()]
            stated = {self._exact(plain[mark.end() :].split("\n")[0]) for mark in marks}
            if len(stated - {_NOTHING}) > 1 and "final" not in marks[-1].group():
                raise Unreadable(self.answer, "states several answers", "several")
            if rest and not re.search(r"\b(?:if|whether|unless|not|wrong)\b[^.\n]*$", before):
                return self._stated(rest)
        lines = [line for line in plain.split("\n") if line.strip()]
        return self._alone(plain, lines[0], lines[-1]) if len(lines) > 1 else _NOTHING

    def _alone(self, plain: str, first: str, last: str) -> Any:
        """The class that stands alone on the first or on the last line."""
        begin, end = self._exact(first), self._exact(last)
        if end is _NOTHING:
            return _NOTHING if CORRECTION.search(plain) else begin
        if begin not in (_NOTHING, end):
            raise Unreadable(self.answer, f"names {listed([str(begin), str(end)])}", "several")
        return end if self.finished or begin is not _NOTHING else _NOTHING

    def _stated(self, rest: str) -> str | None:
        first = rest.split("\n")[0]
        inner = re.match(r"\{(?:\\text\{)?([^{}]*)\}", first)
        exact = self._exact(inner.group(1) if inner else first)
        if exact is _NOTHING:
            return self._leading(rest)
        return None if exact is None else str(exact)

    def _leading(self, plain: str) -> str | None:
        start = re.sub(r"^(?:[\"'`*_#>(\[\s]|-\s)+", "", plain)
        if said := YES_NO.match(start):
            own = [name for name in self.labels if _plain(name) == said.group(1)]
            if (own or len(self.labels) == 1) and (BOTH.match(start) or CORRECTION.search(start)):
                raise Unreadable(self.answer, "says both yes and no", "several")
            if own or len(self.labels) == 1:
                return own[0] if own else self._confirmed(start, said.group(1) in YES)
        if (rated := self._rated(start)) is not None:
            return rated
        for name in sorted(self.labels, key=len, reverse=True):
            if (found := re.match(_pattern(name), start)) and self._answers(start, found.end()):
                return name
        return self._mentioned(plain)

    def _confirmed(self, start: str, yes: bool) -> str | None:
        """The class after a leading yes, unless the rest takes it back; None after a no."""
        if yes and any(denied for _, denied in self._mentions(start)):
            raise Unreadable(self.answer, f"takes back what it says about {self._all}", "negation")
        return self.labels[0] if yes else None

    def _answers(self, start: str, end: int) -> bool:
        """Whether a text that starts with a class ends there, or goes on with an explanation."""
        rest = start[end:].lstrip("\"'`*_")
        if not self.finished and not rest.strip():
            return False
        goes_on = re.match(
            r"\s*$|\s*[.!;\n:,(\[)\]]|\s+-|\s+(?:because|since|as|due to|given)\b|\s+\d+\s*%", rest
        )
        if not goes_on or CORRECTION.search(rest):
            return False
        following = rest[goes_on.end() :].lstrip(" \"'`*_-")
        if re.match(r"(?:no|not|false|wrong|never|0|maybe not|unlikely|n't)\b", following):
            return False
        clause = re.split(r"[.;!?\n]", following)[0]
        if re.search(r"\b(?:not|no|wrong|false|incorrect|n't)\W*$", clause):
            return False
        listing = re.match(r"\s*(?:[,/|\n;]|\s-)\s*(?:(?:or|and)\s+)?(.*)", rest, re.S)
        others = [name for name in self.labels if not start.startswith(_plain(name))]
        return not (listing and any(re.match(_pattern(n), _bare_start(listing[1])) for n in others))

    def _rated(self, start: str) -> str | None:
        """The class of "4 stars" or "4/5", where 5 is the largest class."""
        found = re.match(r"(\d+)\s*(?:(?:out of|/)\s*(\d+)(?:\s*stars?)?|stars?)\W*$", start)
        if not found or not all(name.isdecimal() for name in self.labels):
            return None
        scale = found.group(2) in (None, str(max(map(int, self.labels))))
        return found.group(1) if scale and found.group(1) in self.labels else None

    def _mentioned(self, plain: str) -> str:
        """The one class that sentences mention and none denies."""
        found = self._mentions(plain)
        affirmed = {name for name, negated in found if not negated}
        denied = {name for name, negated in found if negated}
        if len(affirmed | denied) == 0:
            raise Unreadable(self.answer, f"names none of {self._all}")
        if len(affirmed) > 1:
            raise Unreadable(self.answer, f"names {listed(sorted(affirmed))}", "several")
        if denied - affirmed != denied or not affirmed:
            raise Unreadable(self.answer, f"denies {listed(sorted(denied))}", "negation")
        if not self.finished:
            problem = "was cut off before it was clear: raise max_tokens"
            raise Unreadable(self.answer, problem, "unfinished")
        if CORRECTION.search(plain):
            raise Unreadable(self.answer, "corrects itself", "several")
        return affirmed.pop()

    def _mentions(self, plain: str) -> list[tuple[str, bool]]:
        """Every mention of a class, and whether the clause around it denies it."""
        names = [name for name in self.labels if not _is_weak(name)]
        if not names:
            return []
        longest_first = sorted(names, key=len, reverse=True)
        pattern = "|".join(f"(?P<c{names.index(n)}>{_pattern(n)})" for n in longest_first)
        found, start = [], 0
        for end in [*(m.start() for m in CLAUSE.finditer(plain)), len(plain)]:
            clause = plain[start:end]
            if not plain[end : end + 2].lstrip(".;!").startswith("?"):
                found += _in_clause(clause, pattern, names)
            start = end
        return found

    @property
    def _all(self) -> str:
        return str(listed(self.labels))


def _in_clause(clause: str, pattern: str, names: Sequence[str]) -> list[tuple[str, bool]]:
    mentions = list(re.finditer(pattern, clause))
    found = []
    for number, match in enumerate(mentions):
        following = mentions[number + 1].start() if number + 1 < len(mentions) else len(clause)
        after = clause[match.end() : following]
        if number + 1 < len(mentions):  # what denies the next class stands behind a comma, or "("
            after = re.split(r"[,(]|\s-\s|\band\b", after)[0]
        after = REASON.split(after)[0]
        before = re.sub(pattern, " ", clause[: match.start()])  # a class may be "not spam"
        denied = NEGATION.search(before) or DENIED_AFTER.search(after)
        name = names[int(str(match.lastgroup)[1:])]
        found.append((name, denied is not None))
    return found


_NOTHING = object()
"""No statement was found, which is not the same as an abstention."""


def _plain(text: str) -> str:
    """A text in lower case with plain quotes, one blank between words, and its line breaks."""
    lines = (" ".join(line.split()) for line in text.translate(TYPOGRAPHIC).split("\n"))
    return re.sub(r"\b(non|not)-", r"\1 ", "\n".join(lines).strip().casefold())


def _bare(plain: str) -> str:
    return plain.strip().strip("\"'`*_.!()[]{}<>#$,;: \n").strip()


def _bare_start(plain: str) -> str:
    return plain.lstrip("\"'`*_([ ")


def _is_weak(name: str) -> bool:
    """Whether a class may stand in a sentence by chance: numbers, single letters, other, no."""
    plain = _plain(name)
    return plain in WEAK or len(plain) < 2 or re.fullmatch(r"[\d.,+-]+", plain) is not None


def _pattern(name: str) -> str:
    """A pattern for a class as a whole word; a number is not part of another one."""
    words = [re.escape(word) for word in re.split(r"[\s_-]+", _plain(name)) if word]
    whole = r"[\s_-]+".join(words) or re.escape(_plain(name))
    after = r"(?![.,:/]\d)" if re.search(r"\d$", name) else ""
    return rf"(?<![\w-])(?<!\d[.,:/]){whole}(?!\w)(?!-\w)(?!'\w){after}"


def _json_value(text: str) -> Any:
    """The value of an answer in JSON; a mark if there is no JSON."""
    fenced = FENCED.findall(text)
    inner = [*reversed(fenced), text]
    found = re.search(r"\{.*\}", text, re.S)
    inner += [found.group()] if found else []
    for candidate in inner:
        try:
            return json.loads(candidate.strip())
        except (ValueError, RecursionError):
            continue
    return _NOTHING


def _chosen(value: dict[str, Any], labels: Sequence[str]) -> Any:
    """The answer among the entries of an object."""
    by_name = {_plain(str(key)): entry for key, entry in value.items()}
    for key in ANSWER_KEYS:
        if key in by_name or key.replace("_", " ") in by_name:
            return by_name.get(key, by_name.get(key.replace("_", " ")))
    names = {_plain(name): name for name in labels}
    of_classes = {names[key]: entry for key, entry in by_name.items() if key in names}
    if len(labels) == 1 and (is_it := by_name.get(f"is_{_plain(labels[0])}")) is not None:
        of_classes = {labels[0]: is_it}
    if of_classes:
        if len(labels) == 1:
            return next(iter(of_classes.values()))
        said_yes = [n for n, entry in of_classes.items() if _plain(str(entry)) in ("true", "yes")]
        return said_yes
    return next(iter(value.values())) if len(value) == 1 else list(value.values())


THOUGHT_START = re.compile(
    r"<(?:think|thinking|thought|reasoning|scratchpad)>|\[think\]|<\|channel\|>analysis",
    re.I,
)
THOUGHT_END = re.compile(
    r"</(?:think|thinking|thought|reasoning|scratchpad)>|\[/think\]|<\|channel\|>final|assistantfinal",
    re.I,
)
MARKUP = re.compile(r"<\|[^|>]{1,40}\|>|</?s>|<(?:end|start)_of_turn>|\[/?INST\]")
FENCED = re.compile(r"```(?:json|\w*)\s*\n?(.*?)```", re.S)
READ = 2_000
"""Characters that are read at the start and at the end of a long answer."""
NESTED = 3
"""Levels of lists and objects around a value in JSON."""
TYPOGRAPHIC = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2212\u2011\u00a0", "''\"\"---- ")

SILENT = {
    *("abstain", "none", "unknown", "unsure", "n/a", "na", "null", "undecided", "undetermined"),
    *("none of the above", "none of these", "neither", "not sure", "i'm not sure", "i am not sure"),
    *("i don't know", "i do not know", "unclear", "cannot determine", "cannot be determined"),
    *("insufficient information", "not applicable", "i abstain", "cannot tell"),
}
YES, NO = {"yes", "true", "y", "yeah", "yep", "correct"}, {"no", "false", "n", "nope"}
WEAK = {*YES, *NO, *SILENT, "other", "not", "others"}
"""Words that are a class only where they stand for the whole answer, or at its start or end."""
ANSWER_KEYS = (
    *("final_answer", "answer", "label", "class", "category", "classification", "prediction"),
    *("predicted_label", "predicted_class", "result", "verdict", "decision", "choice", "vote"),
    *("sentiment", "output", "response", "rating"),
)
FINAL = re.compile(
    r"(?:^|[\s*_#(\"'>])(?:(?:my |the |so |thus |therefore,? )*(?:final |correct |best |most "
    r"likely |predicted |right |overall )*"
    r"(?:answer|label|class|category|classification|sentiment|prediction|verdict|decision|rating|"
    r"result|conclusion|output)(?: here| would be| should be)?"
    r"(?:[\"']?\s*\**\s*[:=]\s*\**|\s+is\s*:?)|answer\s*\n|\\boxed\s*(?=\{)|####)\s*",
    re.I,
)
YES_NO = re.compile(
    r"(yes|yeah|yep|true|no|nope|false)(?=$|\s*[.,:;!)\]}\"'*_\n]|\s+-|\s*\(|\s+(?:it|it's|this|that|the|"
    r"there|because|since|as|i|indeed|definitely|absolutely|clearly)\b)"
)
BOTH = re.compile(r"yes\s*(?:/|and|or|,)\s*no\b|no\s*(?:/|and|or|,)\s*yes\b")
NEGATION = re.compile(
    r"\b(?:not|no|non|none|never|neither|nor|without|hardly|barely|scarcely|cannot|unlikely|"
    r"isnt|doesnt|dont|wasnt|arent|cant|wont|nothing|nobody|nowhere|lacks?|lacking|excluded?|"
    r"excluding|except|unless|if|whether|doubt|doubtful|opposite|anything but|far from|rather than|"
    r"instead of|ruled? out|rules out|fails? to|too \w+ to|false|wrong|incorrect|inaccurate|"
    r"mistaken|untrue|absence|absent|denies|deny|denied|refutes?|contradicts?|ain't|zero|0 ?%)\b"
    r"|n't\b|\b(?:kein\w*|nicht|niemals|ohne|pas|aucune?|sans|jamais|ningun[ao]?|ningún|nunca|sin|"
    r"não|nao|nessun[ao]?|senza|geen|niet|nooit|inte|ingen|inget|ikke|nie|не|нет)\b"
)
"""Words that deny what follows, in English and in some other languages."""
DENIED_AFTER = re.compile(
    r"\b(?:not|no|never|cannot|unlikely|wrong|incorrect|false|inaccurate|excluded|doubtful|"
    r"ruled out|would be|can be ruled|mistaken|does|do|if|unless|nicht|niet|inte|ikke)\b|n't\b"
    r"|\b0(?:\.0+)?\b ?%?"
)
CORRECTION = re.compile(
    r"\b(?:actually|wait|correction|on second thought|scratch that|i mean|let me re|hmm|sorry|"
    r"or rather|no,|to be precise|apologies|my mistake|in fact)\b"
)
REFUSAL = re.compile(
    r"\b(?:i'?m sorry|i am sorry|i apologi[sz]e|as an ai|i (?:cannot|can't|can not|won't|will not|"
    r"am unable to|'m unable to|am not able to|'m not able to) (?:assist|help|provide|comply|"
    r"answer|classify|label|fulfill|process|engage|do that|judge|rate|respond)|i'm "
    r"(?:unable|not able) to|against (?:my|our) (?:guidelines|polic)|content polic)"
)
REASON = re.compile(
    r"\b(?:because|since|given that|due to|as it|as the|as there)\b"
    r"|, not (?:a|an|the|just|merely|only)\b"
)
"""Where a clause goes on with a reason, or with what the item is not."""
CLAUSE = re.compile(
    r"[.;!?\n]+(?:\s|$)|\n|(?<!anything)(?<!nothing),? but\b|, (?:it is|it's|this is)\b|\bhowever\b"
)
