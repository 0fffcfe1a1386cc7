"""What an installation takes on disk, and what each extra adds.

Options are ignored: it measures the environment that it runs in.
"""

import importlib.metadata as metadata
from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["main"]

RUNTIME = ("numpy",)
"""What `wiesel.runtime` needs to predict with an exported .npz."""


def needed(requirements: Iterable[Requirement]) -> set[str]:
    """Return the names of all installed packages that requirements lead to."""
    found: set[str] = set()
    left = list(requirements)
    while left:
        requirement = left.pop()
        for key in {canonicalize_name(requirement.name)} - found:
            try:
                more = metadata.requires(key) or []
            except metadata.PackageNotFoundError:
                continue
            found.add(key)
            left += _active(more, requirement.extras)
    return found


def _active(texts: Iterable[str], extras: Iterable[str]) -> list[Requirement]:
    """The requirements that hold on this machine, with these extras."""
    given = [Requirement(text) for text in texts]
    return [
        each
        for each in given
        if each.marker is None
        or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def megabytes(packages: Iterable[str]) -> float:
    """Return the size of the packages' files."""
    total = 0
    for name in packages:
        for file in metadata.files(name) or []:
            path = file.locate()
            total += path.stat().st_size if path.is_file() else 0  # type: ignore[attr-defined]
    return total / 1e6


def main(argv: list[str]) -> None:
    """Print a table: Wiesel with its requirements, and what each extra adds to them."""
    base = needed([Requirement("wiesel")])
    print(f"| {'installed':24} | MB on disk |\n|{'-' * 26}|{'-' * 12}|")
    print(f"| {'wiesel, torch for CPU':24} | {megabytes(base):10,.0f} |")
    for extra in metadata.metadata("wiesel").get_all("Provides-Extra") or []:
        added = needed([Requirement(f"wiesel[{extra}]")]) - base
        size = f"{megabytes(added):,.0f}" if added else "not here"
        print(f"| {f'extra {extra} adds':24} | {size:>10} |")
    print(
        f"| {'NumPy for .npz exports':24} | {megabytes(needed(map(Requirement, RUNTIME))):10,.0f} |"
    )
