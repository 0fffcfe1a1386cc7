"""Rules files: declarative labeling functions in TOML, and votes that are columns already.

A file looks like this; `labels` and `off` (labeling functions that do not vote) are optional:

    labels = ["ham", "spam"]
    off = ["very_short"]

    [[lf]]
    kind = "keywords"
    label = "spam"
    keywords = ["free", "prize"]
    column = "text"
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from wiesel.errors import (
    DataError,
    LabelingFunctionError,
    ParameterError,
    VoteError,
    WieselError,
    listed,
    suggest,
)
from wiesel.io import read_rows
from wiesel.io.files import parse_toml, read_text
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.lfs.access import Access, inside
from wiesel.lfs.batch import Batch, ColumnVotes, read_column
from wiesel.lfs.function import Rule, need_columns
from wiesel.lfs.prompt_rules import Prompt, PromptFile
from wiesel.lfs.table_rules import Expression, Lookup, Threshold, column_names, known_rows
from wiesel.lfs.text_rules import Keywords, Regex
from wiesel.vote_entries import without_blanks

__all__ = [
    "HEAD",
    "RULES",
    "ColumnRule",
    "from_columns",
    "read_each_rule",
    "read_off",
    "read_rules",
    "read_rules_beside",
    "rule_from_dict",
    "rule_text",
    "trusted_rule",
    "with_off",
    "with_rule",
    "without_rule",
]

_FILE_OPTIONS = ("prompt_file", "task", "column", "meanings", "examples")
"""The options of a prompt from a file, which make its template."""


@dataclass(frozen=True, repr=False)
class ColumnRule(Rule):
    """Votes with the values of a column; made by `from_columns`."""

    kind: ClassVar[str] = "column"
    column: str

    def default_name(self) -> str:
        """Return the name of the column."""
        return self.column

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of votes."""
        return (self.column,)

    @classmethod
    def run_together(
        cls, lfs: Sequence[Self], batch: Batch, labels: LabelSpace
    ) -> list[ColumnVotes]:
        """Return the votes of every column."""
        return [lf._votes(batch, labels) for lf in lfs]

    def _votes(self, batch: Batch, labels: LabelSpace) -> ColumnVotes:
        need_columns(batch.frame, self)
        column = without_blanks(batch.frame[self.column])
        if not column.dtype.is_integer():
            return read_column(column, labels, self.name, batch)
        codes = column.cast(pl.Int64).fill_null(ABSTAIN).to_numpy()
        bad = np.flatnonzero((codes < ABSTAIN) | (codes >= len(labels)))
        if len(bad):
            raise VoteError(
                f"{self.name!r} holds {codes[bad[0]]} on {batch.item(int(bad[0]))}; allowed are "
                f"the classes {listed(labels)}, their index, or -1 to abstain."
            )
        return ColumnVotes.of_codes(codes)

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the vote of the column on one row; -1 and blank texts are None."""
        vote = row[self.column]
        is_blank = isinstance(vote, str) and not vote.strip()
        return None if is_blank or (isinstance(vote, int) and vote == ABSTAIN) else vote


RULES: dict[str, type[Rule]] = {
    rule.kind: rule for rule in (Keywords, Regex, Expression, Threshold, Lookup, ColumnRule, Prompt)
}
"""Every kind of declarative labeling function, by its name in rules files."""

HEAD = re.compile(r"^[ \t]*\[\[[ \t]*lf[ \t]*\]\][^\n]*\n?", re.MULTILINE)
"""The line with which a labeling function begins."""


def rule_from_dict(
    data: Mapping[str, Any], *, access: Access | None = None, folder: Path | None = None
) -> Rule:
    """Return the labeling function that a rule's `to_dict` described.

    The data may come from an untrusted source: a prompt may call this machine, and hosts that
    `access` or the user's environment allows (see `Access`). Its cache is in `folder`, by default
    the current one.

    >>> rule_from_dict({"kind": "regex", "label": "spam", "pattern": "w+", "column": "text"})
    regex(label='spam', pattern='w+', column='text')
    """
    options = dict(data)
    if options.get("kind") == Prompt.kind and "client" in options:
        allowed = access or Access.of_user()
        options["client"] = allowed.client(options["client"], folder or Path.cwd())
    return trusted_rule(options)


def trusted_rule(data: Mapping[str, Any]) -> Rule:
    """Return the labeling function of data that this program wrote, without limits on access."""
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in RULES:
        given = "needs a kind" if kind is None else f"has the unknown kind {kind!r}"
        raise ParameterError(f"A labeling function {given}. {suggest(kind, RULES)}")
    return RULES[kind].from_dict(data)


def read_rules(path: Path, access: Access | None = None) -> tuple[list[Rule], LabelSpace | None]:
    """Return the labeling functions of a rules file, and the classes where it names them."""
    found, labels = read_rules_beside(path, (), access)
    return [rule for rule, _ in found], labels


def read_rules_beside(
    path: Path, keys: Sequence[str], access: Access | None = None
) -> tuple[list[tuple[Rule, dict[str, Any]]], LabelSpace | None]:
    """Return the labeling functions of a rules file, each with the values of extra `keys`.

    These keys are not part of the rule, such as the meaning of its abstentions.
    """
    found, labels = read_each_rule(path, keys, access)
    rules = []
    for rule, beside in found:
        if isinstance(rule, LabelingFunctionError):
            raise rule
        rules.append((rule, beside))
    return rules, labels


def read_each_rule(
    path: Path, keys: Sequence[str] = (), access: Access | None = None
) -> tuple[list[tuple[Rule | LabelingFunctionError, dict[str, Any]]], LabelSpace | None]:
    """Do the same as `read_rules_beside`, but with an error in the place of a broken rule."""
    text = read_text(path)
    content = _content(path, text)
    lines = _Lines(text, len(content["lf"]))
    found: list[tuple[Rule | LabelingFunctionError, dict[str, Any]]] = []
    for number, entry in enumerate(content["lf"]):
        if isinstance(entry, LabelingFunctionError):
            found.append((entry, {}))
            continue
        beside = {name: entry[name] for name in keys if name in entry}
        own = {name: value for name, value in entry.items() if name not in beside}
        try:
            found.append((_rule(own, path.parent, access), beside))
        except (ParameterError, DataError) as error:
            place = f"{path}{lines.of(number, str(error), entry)}"
            found.append((LabelingFunctionError(f"{place}: {error}"), beside))
    return found, _labels(path, content)


def read_off(path: Path) -> tuple[str, ...]:
    """Return the names of the labeling functions that a rules file switches off."""
    names = _content(path, read_text(path)).get("off", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise LabelingFunctionError(f"{path}: off is a list of names; got {names!r:.60}.")
    return tuple(names)


def _content(path: Path, text: str) -> dict[str, Any]:
    """The content of a rules file; in a file that is not TOML, errors for the broken entries."""
    try:
        content = parse_toml(text)
    except ValueError as error:
        return _content_by_entry(path, text, error)
    _check_top(path, content)
    return content


def _content_by_entry(path: Path, text: str, problem: ValueError) -> dict[str, Any]:
    """Read the text before the first entry, and every entry, as if it were a file of its own."""
    heads = [match.start() for match in HEAD.finditer(text)]
    if not heads:
        raise LabelingFunctionError(f"{path}: this is not TOML: {problem}.")
    entries: list[Any] = []
    for start, end in zip(heads, [*heads[1:], len(text)], strict=True):
        above = "\n" * text.count("\n", 0, start)  # so that errors name the right line
        try:
            part = parse_toml(above + text[start:end])
        except ValueError as error:
            entries.append(LabelingFunctionError(f"{path}: this is not TOML: {error}."))
            continue
        _check_top(path, part)
        entries += part["lf"]
    try:
        top = parse_toml(text[: heads[0]])
    except ValueError as error:
        raise LabelingFunctionError(f"{path}: this is not TOML: {error}.") from None
    if not any(isinstance(entry, LabelingFunctionError) for entry in entries):
        raise LabelingFunctionError(f"{path}: this is not TOML: {problem}.")
    _check_top(path, {**top, "lf": []})
    return {**top, "lf": entries}


def _rule(entry: Mapping[str, Any], folder: Path, access: Access | None) -> Rule:
    if entry.get("kind") == Prompt.kind and "prompt_file" in entry:
        return rule_from_dict(_with_template(entry, folder), access=access, folder=folder)
    if entry.get("kind") != Lookup.kind or "known_file" not in entry:
        return rule_from_dict(entry, access=access, folder=folder)
    if "columns" not in entry:
        raise ParameterError("lookup needs 'columns'.")
    options = {name: value for name, value in entry.items() if name != "known_file"}
    names = column_names(entry["columns"])
    file = inside(entry["known_file"], folder, "known_file")
    return rule_from_dict({**options, "known": known_rows(read_rows(file), names)})


def _with_template(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The entry of a prompt with the template that its file and its texts make."""
    given = {name: entry[name] for name in _FILE_OPTIONS if name in entry}
    options = {name: value for name, value in entry.items() if name not in given}
    if "template" in options or "labels" not in options:
        raise ParameterError("A prompt with a prompt_file needs labels, and has no template.")
    name = given["prompt_file"]
    is_path = isinstance(name, str) and name.endswith(".toml")
    path = inside(name, folder, "prompt_file") if is_path else str(name)
    file = PromptFile.read(path, "classify")
    labels = options["labels"]
    names = [labels] if isinstance(labels, str) else list(labels)
    examples, meanings = given.get("examples", []), given.get("meanings", {})
    if not isinstance(meanings, dict) or not all(map(_is_pair, examples)):
        raise ParameterError(
            'meanings is a table of texts, examples a list such as [["Win a prize!", "spam"]].'
        )
    task, column = given.get("task", "Classify a text."), given.get("column", "text")
    template = file.template(names, str(task), column, meanings, [(t, c) for t, c in examples])
    return {**options, "template": template, "made_of": f"{file.name} {file.version}"}


def _is_pair(example: Any) -> bool:
    return isinstance(example, list) and [type(each) for each in example] == [str, str]


def _check_top(path: Path, content: Mapping[str, Any]) -> None:
    for name in content:
        if name not in ("lf", "labels", "ordered", "off"):
            raise LabelingFunctionError(
                f"{path}: there is no entry {name!r} in a rules file. "
                f"{suggest(name, ['lf', 'labels', 'ordered', 'off'])}"
            )
    entries = content.get("lf")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise LabelingFunctionError(
            f"{path}: there are no labeling functions. Each starts with a line [[lf]], followed by "
            f"kind = one of {listed(RULES)} and its options."
        )


def _labels(path: Path, content: Mapping[str, Any]) -> LabelSpace | None:
    if "labels" not in content:
        return None
    try:
        labels, ordered = LabelSpace.of(content["labels"]), content.get("ordered", False)
        if not isinstance(ordered, bool):
            raise LabelingFunctionError(f"ordered is true or false; got {ordered!r:.60}.")
        return LabelSpace(*labels, ordered=ordered)
    except (WieselError, TypeError) as error:
        raise LabelingFunctionError(f"{path}: labels: {error}") from None


class _Lines:
    """The line numbers of the entries of a file, for messages; the parser does not have them."""

    def __init__(self, text: str, n_entries: int) -> None:
        self.lines = text.splitlines()
        heads = [k for k, line in enumerate(self.lines) if re.match(r"\s*\[\[\s*lf\s*\]\]", line)]
        # A quoted text may look like a table header; then no line is better than a wrong one.
        self.heads = heads if len(heads) == n_entries else []

    def of(self, number: int, message: str, entry: Mapping[str, Any]) -> str:
        """Return `, line 7` for the option that a message names, else for the entry."""
        if not self.heads:
            return f", labeling function number {number + 1}"
        end = self.heads[number + 1] if number + 1 < len(self.heads) else len(self.lines)
        for name in sorted(entry, key=len, reverse=True):
            if re.search(rf"\b{re.escape(name)}\b", message, re.IGNORECASE):
                for k in range(self.heads[number], end):
                    if re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", self.lines[k]):
                        return f", line {k + 1}"
        return f", line {self.heads[number] + 1}"


_OFF = re.compile(r"^off[ \t]*=[ \t]*\[[^\]]*\][ \t]*\n?", re.MULTILINE)
_EMPTY = re.compile(r"^lf[ \t]*=[ \t]*\[[ \t]*\][ \t]*\n?", re.MULTILINE)


def rule_text(rule: Rule, beside: Mapping[str, Any] | None = None) -> str:
    """Return a rule in the format of a rules file, with options that are not part of the rule.

    >>> from wiesel import keywords
    >>> print(rule_text(keywords("spam", ["free"], column="text", name="gifts")), end="")
    [[lf]]
    kind = "keywords"
    label = "spam"
    keywords = ["free"]
    column = "text"
    name = "gifts"
    """
    lines = [
        f"{name} = {_toml(value)}" for name, value in {**rule.to_dict(), **(beside or {})}.items()
    ]
    return "\n".join(["[[lf]]", *lines]) + "\n"


def with_rule(
    text: str, rule: Rule, place: int | None = None, beside: Mapping[str, Any] | None = None
) -> str:
    """Return a rules file with a rule added, or with the rule at `place` replaced.

    `beside` are options that are not part of the rule, as in `read_rules_beside`.
    """
    if place is not None:
        before, _, after = _around(text, place)
        return _checked(before + rule_text(rule, beside) + ("\n" if after else "") + after)
    start = _EMPTY.sub("", text)
    gap = "" if not start.strip() else "\n" if start.endswith("\n") else "\n\n"
    return _checked(start + gap + rule_text(rule, beside))


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


def from_columns(*columns: str | Sequence[str]) -> list[ColumnRule]:
    """Return one labeling function for each column of votes that the table already has.

    A column holds class names (missing or blank abstains), class indices (missing or -1 abstains),
    or distributions (missing, zeros or NaN abstain).

    >>> from wiesel import apply_lfs
    >>> rows = {"lf_link": [1, -1], "worker": ["ham", None]}
    >>> apply_lfs(from_columns("lf_link", "worker"), rows, labels=["ham", "spam"]).dense()
    array([[ 1,  0],
           [-1, -1]], dtype=int16)
    """
    names = [name for each in columns for name in ([each] if isinstance(each, str) else list(each))]
    if not names:
        raise ParameterError("from_columns needs the names of the columns that hold votes.")
    return [ColumnRule(name) for name in names]
