"""Where a fit of stacked networks spends its CPU time, by part."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

__all__ = ["time_parts"]

_REST = "label model, plan, and results"


class Stopwatch:
    """The CPU seconds of each part, without those of the parts that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open = [_REST]
        self._since = time.thread_time()

    def switch(self) -> None:
        """Count the time until now for the innermost open part."""
        now = time.thread_time()
        part = self._open[-1]
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Count the time inside for this part."""
        self.switch()
        self._open.append(part)
        try:
            yield
        finally:
            self.switch()
            self._open.pop()

    def timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """Return the function with its time counted for this part."""

        @wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            with self.timing(part):
                return function(*args, **options)

        return timed


def time_parts(fit: Callable[[], object]) -> dict[str, float]:
    """Return the CPU seconds of the parts of a fit; they add up to the whole."""
    watch = Stopwatch()
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in _parts()]
    for owner, name, part in _parts():
        setattr(owner, name, watch.timed(getattr(owner, name), part))
    try:
        watch.switch()
        watch.seconds.clear()
        fit()
        watch.switch()
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)
    return watch.seconds


def _parts() -> list[tuple[Any, str, str]]:
    """The functions that are timed: where they are, and the part they belong to."""
    from wiesel.nn.stacking import RandomStreams, StackedDropout, StackedLinear
    from wiesel.training import loop
    from wiesel.training.batches import StackedItems
    from wiesel.training.loop import TrainingState
    from wiesel.training.objective import FlatParameters, FusedAdam, SoftLabelObjective

    return [
        (loop, "run", "the loop itself"),
        (loop, "_evaluate", "diagnosis between epochs"),
        (TrainingState, "batches", "order of the items"),
        (StackedItems, "_batch", "gathering of batches"),
        (SoftLabelObjective, "outputs", "forward: ReLU and calls of modules"),
        (StackedLinear, "forward", "forward: linear layers"),
        (StackedDropout, "forward", "forward: dropout"),
        (RandomStreams, "uniform", "forward: random numbers of dropout"),
        (SoftLabelObjective, "compare", "loss"),
        (FlatParameters, "differentiate", "backward pass"),
        (FusedAdam, "step", "Adam"),
        (FlatParameters, "average_into", "average of the weights"),
    ]
