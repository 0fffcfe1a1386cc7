"""Edits a rules file as text, so that comments and the order of rules are preserved."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from wiesel.errors import LabelingFunctionError
from wiesel.lfs.rules import Rule
from wiesel.lfs.rules_file import HEAD

__all__ = ["rule_text", "with_off", "with_rule", "without_rule"]

_OFF = re.compile(r"^off[ \t]*=[ \t]*\[[^\]]*\][ \t]*\n?", re.MULTILINE)
_EMPTY = re.compile(r"^lf[ \t]*=[ \t]*\[[ \t]*\][ \t]*\n?", re.MULTILINE)


def rule_text(rule: Rule) -> str:
    """Return a rule in the format of a rules file.

    >>> from wiesel import keywords
    >>> print(rule_text(keywords("spam", ["free"], column="text", name="gifts")), end="")
    [[lf]]
    kind = "keywords"
    label = "spam"
    keywords = ["free"]
    column = "text"
    name = "gifts"
    """
    lines = [f"{name} = {_toml(value)}" for name, value in rule.to_dict().items()]
    return "\n".join(["[[lf]]", *lines]) + "\n"


def with_rule(text: str, rule: Rule, place: int | None = None) -> str:
    """Return a rules file with a rule added, or with the rule at `place` replaced."""
    if place is not None:
        before, _, after = _around(text, place)
        return _checked(before + rule_text(rule) + ("\n" if after else "") + after)
    start = _EMPTY.sub("", text)
    gap = "" if not start.strip() else "\n" if start.endswith("\n") else "\n\n"
    return _checked(start + gap + rule_text(rule))


def without_rule(text: str, place: int) -> str:
    """Return a rules file without the rule at `place`."""
    before, _, after = _around(text, place)
    rest = before.rstrip("\n") + ("\n\n" if before.strip() and after else "\n") + after
    if not HEAD.search(rest):
        rest = "lf = []\n" + rest if rest.strip() else "lf = []\n"
    return _checked(rest)


def with_off(text: str, names: Sequence[str]) -> str:
    r"""Return a rules file that names the labeling functions that are switched off.

    >>> with_off('lf = []\n', ["short"])
    'off = ["short"]\nlf = []\n'
    """
    rest = _OFF.sub("", text, count=1)
    line = f"off = {_toml(list(names))}\n" if names else ""
    return _checked(line + (rest if rest.strip() else "lf = []\n"))


def _around(text: str, place: int) -> tuple[str, str, str]:
    """The text before a rule, the rule, and the text after it."""
    heads = [match.start() for match in HEAD.finditer(text)]
    n_rules = len(tomllib.loads(_checked(text)).get("lf", []))
    if len(heads) != n_rules or not 0 <= place < len(heads):
        raise LabelingFunctionError(
            "This rules file cannot be changed from here: its labeling functions do not each "
            "start with a line [[lf]]. Change it with an editor."
        )
    end = heads[place + 1] if place + 1 < len(heads) else len(text)
    return text[: heads[place]], text[heads[place] : end], text[end:]


def _checked(text: str) -> str:
    """The text, if it is valid TOML; nothing else is ever written."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LabelingFunctionError(
            f"This rules file cannot be changed from here, because it is not TOML: {error}. Change "
            "it with an editor."
        ) from None
    return text


def _toml(value: Any) -> str:
    """A value as TOML; strings as JSON writes them, which TOML reads."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool) or not isinstance(value, (list, tuple, Mapping)):
        return json.dumps(value)
    if isinstance(value, Mapping):
        parts = [f"{_toml(str(key))} = {_toml(part)}" for key, part in value.items()]
        return "{ " + ", ".join(parts) + " }"
    return "[" + ", ".join(_toml(part) for part in value) + "]"
