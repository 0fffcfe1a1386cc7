"""wiesel.toml, key by key, from the dataclasses that read it."""

import inspect
from dataclasses import MISSING, Field, fields
from typing import Any

from wiesel.parameters import options_of
from wiesel.project import settings

__all__ = ["settings_page"]

INTRODUCTION = """\
# wiesel.toml

A project is a folder with this file. `wiesel init my-project` writes one with comments, `wiesel
run my-project` reads it. Paths are relative to its folder. Unknown keys and values of the wrong
type are errors, reported together with their lines. `wiesel inspect my-project` explains a file
without running anything.

```toml
classes = ["ham", "spam"]

[data]
train = "train.csv"      # no labels needed
dev = "dev.csv"          # a few gold labels, optional
test = "test.csv"        # gold labels for the figures of the report, optional

[votes]
lfs = ["lfs.py", "rules.toml"]

[features]
kind = "tfidf"
n_dimensions = 200       # an option of this kind of features

[end_model]
name = "mlp"
hidden = [50, 50, 25]    # an option of this network

[method]
name = "committee"
baselines = ["majority_vote", "snorkel"]

[training]
seed = 1                 # any shared training option

[options.snorkel]
l2 = 0.1                 # an option of one method
```

"""
FREE = """\
## `[training]`

Any [shared training option](options.md#shared-training-options), such as `epochs`, `lr` or
`seed`. They apply to the method and to all baselines.

## `[options.NAME]`

Options of one method, by its name in `wiesel methods`: [all of them](options.md).
"""


def settings_page() -> str:
    """Return the page."""
    text = INTRODUCTION + "## Top level\n\n" + _table(settings.Project, tuple(settings._TOP), "")
    for name, cls in settings._SECTIONS.items():
        text += f"## `[{name}]`\n\n{_sentence(cls)}\n\n"
        text += _table(cls, tuple(each.name for each in fields(cls)), f"{name}.")
    return text + FREE


def _sentence(cls: type) -> str:
    """The first line of a docstring, without the name of the table."""
    line = str(inspect.getdoc(cls)).splitlines()[0].partition(": ")[2]
    return line[:1].upper() + line[1:]


def _table(cls: type, names: tuple[str, ...], prefix: str) -> str:
    described = {option.name: option for option in options_of(cls)}
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for each in fields(cls):
        if each.name in names and each.name != "options":
            kind, default = _kind(described[each.name].type), _default(each)
            lines.append(
                f"| <span id='{prefix}{each.name}'></span>`{each.name}` | {kind} | {default} "
                f"| {described[each.name].meaning} |"
            )
    return "\n".join(lines) + "\n\n"


def _kind(written: str) -> str:
    kinds = {
        "bool": "true or false",
        "str": "text",
        "str | None": "text",
        "tuple[str, ...]": "list of texts",
        "tuple[int, ...]": "list of whole numbers",
    }
    return kinds.get(written, written.replace(" | ", " or "))


def _default(option: Field[Any]) -> str:
    value = option.default
    if value is MISSING:
        return "the folder's name"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"  # as in TOML
    written = list(value) if isinstance(value, tuple) else value
    return f"`{written!r}`".replace("'", '"')
