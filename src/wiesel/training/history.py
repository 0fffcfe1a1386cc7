"""The history of training as plain data, and the checkpoint that training resumes from."""

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from wiesel.errors import SavedModelError
from wiesel.saving import read_json, write_file

__all__ = [
    "Checkpoint",
    "History",
    "MemberProgress",
    "NotebookLine",
    "described",
    "in_notebook",
    "line_html",
    "mean_record",
    "one_line",
    "progress_bar",
    "progress_of",
    "read_checkpoint",
    "watching",
    "write_checkpoint",
]

_COMPARABLE = ("epoch", "validation_")
"""What members that minimize different losses have in common."""
Show = Callable[[Mapping[str, Any]], None]

_BAR = "display:inline-block;width:12em;height:.7em;border-radius:.35em;overflow:hidden;"
_BLUE, _TRACK = "#2a78d6", "rgba(128,128,128,.25)"

_WATCHER: ContextVar[Show | None] = ContextVar("watcher", default=None)
_LINE: ContextVar["NotebookLine | None"] = ContextVar("line", default=None)
_FORMAT = 3


@dataclass(repr=False)
class History:
    """One record (a dict of numbers) for every epoch.

    >>> History([{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.6}])
    History of 2 epochs: loss 0.7000 to 0.6000. All numbers: to_frame()
    >>> history = History([{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.6}])
    >>> history.column("loss"), history.last["epoch"], len(history)
    ([0.7, 0.6], 2, 2)
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int | None = None
    """The epoch whose weights were kept; None without a validation set."""
    interrupted: bool = False
    """Whether the user stopped training before its last epoch."""
    members: list["History"] = field(default_factory=list)
    """For an ensemble, the history of every member; `records` are then their means."""

    def __repr__(self) -> str:
        names = [name for name in (self.records[0] if self.records else {}) if "loss" in name]
        ends = [f"{n} {self[0][n]:.4f} to {self.last[n]:.4f}" for n in names if n in self.last]
        of_members = f", {len(self.members)} members" if self.members else ""
        losses = f": {', '.join(ends)}. All numbers: to_frame()" if ends else ""
        return f"History of {len(self)} epochs{of_members}{losses}"

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return self.records[position]

    @property
    def last(self) -> dict[str, Any]:
        """The record of the last epoch."""
        return self.records[-1]

    @property
    def kept(self) -> dict[str, Any]:
        """The record of the epoch whose weights were kept."""
        return self.last if self.best_epoch is None else self.records[self.best_epoch - 1]

    def column(self, name: str) -> list[Any]:
        """Return one quantity over all epochs."""
        return [record[name] for record in self.records]

    def to_frame(self) -> pl.DataFrame:
        """Return the records as a Polars data frame with one row for every epoch."""
        return pl.DataFrame(self.records)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-compatible data."""
        data: dict[str, Any] = {
            "records": self.records,
            "best_epoch": self.best_epoch,
            "interrupted": self.interrupted,
        }
        return {**data, "members": [m.to_dict() for m in self.members]} if self.members else data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "History":
        """Return the history that `to_dict` described."""
        members = [cls.from_dict(member) for member in data.get("members", [])]
        return cls(data["records"], data["best_epoch"], data["interrupted"], members)

    @classmethod
    def of_members(
        cls, members: Sequence["History"], losses: Sequence[object] | None = None
    ) -> "History":
        """Return the history of an ensemble: its members' histories and their mean in each epoch.

        A member that ended earlier than others counts with its last record, so a curve does not
        jump where it ends. `losses` says what each member minimized: the means are over the members
        with the loss of the first one, except for validation scores, which compare for all. The
        ensemble as a whole has no best epoch.

        >>> first, second = History([{"loss": 0.2}, {"loss": 0.1}]), History([{"loss": 0.4}])
        >>> History.of_members([first, second]).column("loss")
        [0.30000000000000004, 0.25]
        >>> History.of_members([first, second], ["ce", "mig"]).column("loss")
        [0.2, 0.1]
        """
        averaged = list(members)
        if losses is not None:
            pairs = zip(members, losses, strict=True)
            averaged = [m if loss == losses[0] else m._comparable() for m, loss in pairs]
        n_epochs = max(map(len, averaged), default=0)
        records = [mean_record([m.at(k) for m in averaged if len(m)]) for k in range(n_epochs)]
        return cls(records, None, any(member.interrupted for member in members), list(members))

    def at(self, position: int) -> dict[str, Any]:
        """Return the record at a position, or the last one, if training ended earlier.

        >>> History([{"epoch": 1, "loss": 0.7}]).at(4)
        {'epoch': 5, 'loss': 0.7}
        """
        if position < len(self):
            return self.records[position]
        return {**self.last, "epoch": position + 1} if "epoch" in self.last else self.last

    def _comparable(self) -> "History":
        kept = [
            {name: value for name, value in record.items() if name.startswith(_COMPARABLE)}
            for record in self.records
        ]
        return History(kept if any(set(record) - {"epoch"} for record in kept) else [])


def mean_record(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of each quantity over the records that contain it.

    >>> mean_record([{"epoch": 1, "shares": [0.0, 1.0]}, {"epoch": 1, "shares": [1.0, 0.0]}])
    {'epoch': 1, 'shares': [0.5, 0.5]}
    """
    if len(records) == 1:
        return records[0]
    names = dict.fromkeys(name for record in records for name in record)
    return {name: _mean([r[name] for r in records if name in r]) for name in names}


def _mean(values: list[Any]) -> Any:
    if isinstance(values[0], list):
        return [_mean(list(column)) for column in zip(*values, strict=True)]
    return values[0] if len(set(values)) == 1 else sum(values) / len(values)


@contextmanager
def watching(show: Show) -> Iterator[None]:
    """Call `show` with every epoch's record of all training inside; show no progress bar.

    `epochs` in a record is how many there will be at most.

    >>> seen = []
    >>> with watching(seen.append), progress_bar(2, 0, None) as tell:
    ...     tell({"epoch": 1})
    >>> seen
    [{'epoch': 1, 'epochs': 2}]
    """
    token = _WATCHER.set(show)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@contextmanager
def one_line(fit: bool = False) -> Iterator[None]:
    """Let all training inside share one line of a notebook; a terminal is not affected.

    `fit` says that all of it belongs to one model. After several models, such as those of a
    comparison, the line has no epochs and no losses, because they differ.
    """
    shared = _LINE.get()
    line = shared or NotebookLine()
    token = None if shared is not None else _LINE.set(line)
    line.n_fits += fit
    try:
        yield
    finally:
        if token is not None:
            _LINE.reset(token)


@contextmanager
def progress_bar(total: int, done: int, enabled: bool | None) -> Iterator[Show]:
    """Yield a function that shows an epoch's record.

    `enabled=None` shows it on a terminal and in a notebook.
    """
    watcher = _WATCHER.get()
    if watcher is not None:
        yield lambda record: watcher({**record, "epochs": total})
    elif enabled is not False and in_notebook():
        with _notebook_bar(total, done) as show:
            yield show
    elif sys.stderr.isatty() if enabled is None else enabled:
        with _terminal_bar(total, done) as show:
            yield show
    else:
        yield lambda record: None


@contextmanager
def _terminal_bar(total: int, done: int) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), Remaining())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda record: bar.update(
            task, completed=record["epoch"], description=_described(record)
        )


@contextmanager
def _notebook_bar(total: int, done: int) -> Iterator[Show]:
    """A bar in a line that is updated, and that finally shows how far training came."""
    line, last = _LINE.get() or NotebookLine(), {"epoch": done}
    line.show(f"epoch {done} of {total}", done / total)

    def show(record: Mapping[str, Any]) -> None:
        last.update(record)
        words = f"epoch {record['epoch']} of {total}  {_described(record)}"
        line.show(words.rstrip(), record["epoch"] / total)

    outcome = "Stopped after"
    try:
        yield show
        outcome = "Trained"
    finally:
        line.end(outcome, last)


def _described(record: Mapping[str, Any]) -> str:
    """The numbers a person watches: losses, the validation score, agreement."""
    shown = [
        f"{name.removeprefix('validation_').replace('_', ' ')} {value:.3f}"
        for name, value in record.items()
        if name.startswith(("loss", "validation", "agreement")) and isinstance(value, float)
    ]
    return "  ".join(shown)


def in_notebook() -> bool:
    """Return whether this code runs in the kernel of a notebook, without importing IPython.

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookLine:
    """One output of a cell that is replaced as work progresses; it needs no widgets.

    Every front end that shows outputs can show it, and a saved notebook keeps its last state.
    """

    def __init__(self) -> None:
        self.n_fits = 0
        """How many models have begun to train."""
        self._handle: Any = None
        self._start = time.perf_counter()
        self._longest: Mapping[str, Any] = {"epoch": 0}

    def end(self, outcome: str, last: Mapping[str, Any]) -> None:
        """Show that networks have finished, with the last record of those that trained longest.

        Stacks of one model may train for fewer epochs, such as those that learn from gold alone.
        """
        seconds = f"{time.perf_counter() - self._start:.1f} s"
        if self.n_fits > 1:
            self.show(f"{outcome} {'for ' if outcome == 'Trained' else ''}{seconds}")
            return
        if last["epoch"] > self._longest["epoch"] or outcome != "Trained":
            self._longest = last
        n_epochs = self._longest["epoch"]
        epochs = f"{n_epochs} epoch{'' if n_epochs == 1 else 's'}"
        self.show(f"{outcome} {epochs} in {seconds}  {_described(self._longest)}".rstrip())

    def show(self, text: str, share: float | None = None) -> None:
        """Replace the text of the line; the `share` of the work done is drawn as a bar."""
        bundle = {"text/plain": text, "text/html": line_html(text, share)}
        if self._handle is None:
            self._handle = import_module("IPython.display").DisplayHandle()
            self._handle.display(bundle, raw=True)
        else:
            self._handle.update(bundle, raw=True)


def line_html(text: str, share: float | None = None) -> str:
    """Return a line of text as HTML, after a bar if a share is given.

    >>> line_html("a < b")
    '<div style="font-variant-numeric:tabular-nums">a &lt; b</div>'
    """
    words = escape(text)
    if share is not None:
        done = f"{100 * min(max(share, 0.0), 1.0):.0f}%"
        fill = f'<span style="display:block;width:{done};height:100%;background:{_BLUE}"></span>'
        words = f'<span style="{_BAR}background:{_TRACK}">{fill}</span> {words}'
    return f'<div style="font-variant-numeric:tabular-nums">{words}</div>'


@dataclass
class MemberProgress:
    """How far a network has come."""

    history: History = field(default_factory=History)
    best_score: float = -math.inf
    best_weights: dict[str, Tensor] | None = None
    stopped: bool = False
    """Whether patience ran out."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that training needs to continue."""

    weights: dict[str, Tensor]
    optimizer: dict[int, dict[str, Tensor]]
    """The optimizer's state for every parameter, by the parameter's index."""
    random_states: list[Tensor]
    """The state of each network's random number generator."""
    progress: list[MemberProgress]
    """How far each network has come: a single one, or the members of a stack."""
    averages: list[Tensor] = field(default_factory=list)
    """Running averages of the parameters; empty if there are none."""


def write_checkpoint(path: str | Path, checkpoint: Checkpoint, fingerprint: str) -> None:
    """Write the checkpoint; a crash leaves either the old file or the new one."""
    tensors = {f"weights/{name}": value for name, value in checkpoint.weights.items()}
    for number, progress in enumerate(checkpoint.progress):
        best = progress.best_weights or {}
        tensors |= {f"best/{number}/{name}": value for name, value in best.items()}
    for number, values in checkpoint.optimizer.items():
        tensors |= {f"optimizer/{number}/{name}": value for name, value in values.items()}
    tensors |= {f"average/{k}": value for k, value in enumerate(checkpoint.averages)}
    tensors["random_states"] = torch.stack(checkpoint.random_states)
    # Tied weights share memory, which the file format refuses: every tensor is written separately.
    tensors = {name: value.detach().clone().contiguous() for name, value in tensors.items()}
    about = json.dumps(
        {
            "format": _FORMAT,
            "fingerprint": fingerprint,
            "standings": [described(progress) for progress in checkpoint.progress],
        }
    )
    metadata = {"wiesel": about, "sha256": _digest(about, tensors)}
    write_file(path, save(tensors, metadata=metadata))


def read_checkpoint(path: str | Path, fingerprint: str) -> Checkpoint | None:
    """Return the checkpoint at `path`, or None if there is none yet."""
    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise SavedModelError(
            f"{path} is not a readable checkpoint ({error}). Delete it to start over."
        ) from error
    about = metadata.get("wiesel", "")
    if not about:
        raise SavedModelError(f"{path} is not a checkpoint; give the run a file of its own.")
    if metadata.get("sha256") != _digest(about, tensors):
        raise SavedModelError(
            f"The checkpoint {path} is damaged or was edited. Delete it to start over."
        )
    try:
        return _checkpoint(path, read_json(about.encode(), path), tensors, fingerprint)
    except (LookupError, TypeError, ValueError) as error:
        raise SavedModelError(
            f"The checkpoint {path} is inconsistent ({error!r}). Delete it to start over."
        ) from error


def _checkpoint(
    path: str | Path, about: dict[str, Any], tensors: dict[str, Tensor], fingerprint: str
) -> Checkpoint:
    if about["format"] != _FORMAT:
        raise SavedModelError(
            f"The checkpoint {path} has the format {about['format']!r}; this version reads format "
            f"{_FORMAT}. Delete it to start over."
        )
    if about["fingerprint"] != fingerprint:
        raise SavedModelError(
            f"The checkpoint {path} was made with other options or other data. Delete it to "
            "start over, "
            "or give the run a checkpoint of its own."
        )
    return Checkpoint(
        weights=_below(tensors, "weights/"),
        averages=[value for _, value in sorted(_below(tensors, "average/").items())],
        optimizer=_by_number(_below(tensors, "optimizer/")),
        # A generator does not accept views as its state.
        random_states=[state.clone() for state in tensors["random_states"]],
        progress=progress_of(about["standings"], _by_number(_below(tensors, "best/"))),
    )


def described(progress: MemberProgress) -> dict[str, Any]:
    """Return how far a network has come as JSON-compatible data, without its best weights."""
    return {
        "history": progress.history.to_dict(),
        "best_score": progress.best_score,
        "stopped": progress.stopped,
    }


def progress_of(
    about: list[Any], best: Mapping[int, dict[str, Tensor]] = MappingProxyType({})
) -> list[MemberProgress]:
    """Return the progress from the data of `described`, with each network's best weights."""
    return [
        MemberProgress(
            History.from_dict(one["history"]), one["best_score"], best.get(k), one["stopped"]
        )
        for k, one in enumerate(about)
    ]


def _digest(about: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy(force=True).tobytes())
    return digest.hexdigest()


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): value for k, value in tensors.items() if k.startswith(prefix)}


def _by_number(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = value
    return state
