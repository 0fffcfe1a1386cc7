"""Write public_api.txt: `python tests/architecture/write_public_api.py`.

Every public name of `wiesel` with its signature, and the public methods and fields of classes. A
change of that file in a commit is a change of what users rely on.
"""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import wiesel
import wiesel.multilabel
import wiesel.spans

SNAPSHOT = Path(__file__).with_name("public_api.txt")


def public_api() -> str:
    """The text of the snapshot."""
    lines: list[str] = []
    for name in sorted(wiesel.__all__):
        lines += _described(name, getattr(wiesel, name))
    for name in sorted(wiesel.multilabel.__all__):
        lines += _described(f"multilabel.{name}", getattr(wiesel.multilabel, name))
    for name in sorted(wiesel.spans.__all__):
        lines += _described(f"spans.{name}", getattr(wiesel.spans, name))
    return "\n".join(lines) + "\n"


def _described(name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        return [f"class {name}{_signature(value)}", *_members(value)]
    if callable(value):
        return [f"{name}{_signature(value)}"]
    return [name if name == "__version__" else f"{name} = {value!r}"]


def _members(cls: type) -> list[str]:
    lines = []
    for name in sorted(dir(cls)):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_") or not _is_own(cls, name):
            continue
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        if inspect.isfunction(value):
            lines.append(f"    {name}{_signature(value)}")
        elif not dataclasses.is_dataclass(cls) or name not in cls.__dataclass_fields__:
            lines.append(f"    {name}")
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    lines += [f"    {field.name}" for field in fields if not field.init]
    return lines


def _is_own(cls: type, name: str) -> bool:
    """Whether a member is Wiesel's, and not inherited from somebody else's class."""
    owner = next((base for base in cls.__mro__ if name in vars(base)), cls)
    return owner.__module__.startswith("wiesel")


def _signature(value: Any) -> str:
    """Names, kinds and defaults of the arguments; types are mypy's business."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(value).parameters.values()
    ]
    text = str(inspect.Signature(parameters))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api())
