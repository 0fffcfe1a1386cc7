"""What all fuzzers share: trying for a while, counting, and ways to damage bytes and values."""

import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from budget import fuzz_seconds

from wiesel.errors import WieselError

LONGEST = 30.0
"""Seconds of the processor after which an input counts as a hang."""
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    3_000_000,
    2**31,
    10**400,
    0.5,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "\x1b[31m",
    "../../etc/passwd",
    "__import__('os').system('touch trace')",
    "x" * 10_000,
    [],
    {},
    [[]],
    [0] * 1000,
    {"$array": [1], "dtype": "|O"},
    {"$array": [float("nan")], "dtype": "<f8"},
    {"$tuple": [1]},
    {"$labels": ["a", "b"]},
]
"""What somebody may write where another value is expected."""


def tries(name: str, least: int) -> Iterator[random.Random]:
    """Yield a generator of random numbers for each try, until a fuzzer's time is over.

    Try number n is the same on every machine. `make test` makes the first `least`, however fast
    or slow the machine is, so that it tries the same everywhere.
    """
    end, number = time.monotonic() + fuzz_seconds(name), 0
    while number < least or time.monotonic() < end:
        yield random.Random(number)
        number += 1


class Tally:
    """Counts what came of the tries; whatever is no answer and no refusal fails at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()

    def attempt(self, what: object, action: Callable[..., Any], *arguments: Any) -> Any:
        """Return what an action gives; None if it refuses with an error of Wiesel's own."""
        start = time.process_time()
        result, outcome = None, "refused"
        try:
            result, outcome = action(*arguments), "worked"
        except (WieselError, OSError) as error:
            if not str(error).strip():
                raise AssertionError(
                    f"{self.name}: {what!r:.300} was refused in silence"
                ) from error
        except BaseException as error:
            raise AssertionError(f"{self.name}: {what!r:.300} ended in {error!r:.300}") from error
        self.counts[outcome] += 1
        seconds = time.process_time() - start
        assert seconds < LONGEST, f"{self.name}: {what!r:.300} took {seconds:.0f} s"
        return result

    def report(self) -> None:
        """Print the counts; nothing tried is a failure."""
        assert sum(self.counts.values()) > 0, f"{self.name}: nothing was tried"
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        sys.stdout.write(f"\nfuzz {self.name}: {counts}\n")


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Bytes with a few changed, cut off, doubled or put in."""
    how = rng.randrange(6)
    place = rng.randrange(len(content) + 1)
    if how == 0:
        return content[:place]
    if how == 1:
        return content[:place] + rng.randbytes(rng.randrange(1, 20)) + content[place:]
    if how == 2:
        end = rng.randrange(place, len(content) + 1)
        return content[:end] + content[place:]
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def altered(value: Any, rng: random.Random) -> Any:
    """A JSON value in which one part, at any depth, is another or gone."""
    value = json.loads(json.dumps(value))
    places = list(_places(value))
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    how = rng.randrange(4)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder.extend([holder[key]] * rng.choice((1, 50)))
    elif how == 1:
        holder["strange"] = rng.choice(VALUES)
    elif how == 2 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
        holder[key] = holder[key] * rng.choice((-1, 2, 10**6)) + rng.choice((0, 1))
    else:
        holder[key] = rng.choice(VALUES)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        yield value, key
        if isinstance(part, (dict, list)):
            yield from _places(part)


def tree(folder: Path) -> set[str]:
    """Every path below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def forged(folder: Path, rng: random.Random) -> None:
    """Damage one file or change the manifest; afterwards the checksums fit, or they do not."""
    manifest = json.loads((folder / "manifest.json").read_text())
    names = sorted(manifest["files"])
    if names and rng.random() < 0.5:
        file = folder / rng.choice(names)
        if file.suffix == ".json" and rng.random() < 0.7:
            content = json.dumps(altered(json.loads(file.read_bytes()), rng)).encode()
        else:
            content = damaged(file.read_bytes(), rng)
        file.write_bytes(content)
    else:
        manifest = altered(manifest, rng)
    if rng.random() < 0.1:
        manifest_text = damaged(json.dumps(manifest).encode(), rng)
    else:
        manifest_text = json.dumps(_signed(manifest, folder)).encode()
    (folder / "manifest.json").write_bytes(manifest_text)


def _signed(manifest: Any, folder: Path) -> Any:
    """What somebody writes who knows how the checksums are made."""
    if not isinstance(manifest, dict):
        return manifest
    for name in manifest["files"] if isinstance(manifest.get("files"), dict) else ():
        file = folder / name if 0 < len(name) < 100 else folder
        if file.is_file() and file.parent == folder:
            content = file.read_bytes()
            manifest["files"][name] = hashlib.sha256(content).hexdigest()
            if isinstance(manifest.get("bytes"), dict):
                manifest["bytes"][name] = len(content)
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return {**rest, "sha256": digest}
