"""The tree of errors and warnings, from the classes themselves."""

import inspect

from wiesel import errors

__all__ = ["errors_page"]

INTRODUCTION = """\
# Errors and warnings

Every error that Wiesel raises on purpose is a `WieselError`. A message names the culprit, the
place, the value, the allowed values and the remedy. Several classes also inherit from the matching
built-in error, so existing handlers keep working. On the
command line an error is one line and exit code 1; `--debug` shows the traceback.

```python
from wiesel import MajorityVote
from wiesel.errors import WieselError

try:
    MajorityVote(hart=True)
except WieselError as error:
    print(error)  # MajorityVote has no option 'hart'. Did you mean 'hard'?
```

| class | also a | when |
|---|---|---|
"""


def errors_page() -> str:
    """Return the page: every class below its base, with its sentence."""
    rows = [*_rows(errors.WieselError, 0), *_rows(errors.WieselWarning, 0)]
    return INTRODUCTION + "\n".join(rows) + "\n"


def _rows(cls: type, depth: int) -> list[str]:
    own = {each for each in _classes() if cls in each.__bases__}
    builtin = [f"`{base.__name__}`" for base in cls.__bases__ if base.__module__ == "builtins"]
    also = ", ".join(name for name in builtin if name not in ("`Exception`",)) or "-"
    indent = "&nbsp;" * 4 * depth
    rows = [f"| {indent}`{cls.__name__}` | {also} | {inspect.getdoc(cls)} |"]
    for each in sorted(own, key=lambda one: one.__name__):
        rows += _rows(each, depth + 1)
    return rows


def _classes() -> list[type]:
    found = [getattr(errors, name) for name in errors.__all__]
    return [each for each in found if inspect.isclass(each)]
