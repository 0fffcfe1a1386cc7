"""Requests to a slow service from several threads, in a way that Ctrl-C can interrupt.

The threads are daemons and are never joined, so a hanging request blocks neither Ctrl-C nor the
end of the program.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

__all__ = ["ask_in_threads"]

Answer = TypeVar("Answer")
Asked = TypeVar("Asked")
Answers: TypeAlias = "queue.SimpleQueue[tuple[Asked, Answer | None, BaseException | None]]"
"""Each question with its answer or its exception."""

_POLL_SECONDS = 0.1
"""Seconds between two checks for Ctrl-C, which does not interrupt a wait without a timeout once
Polars has been imported."""


def ask_in_threads(
    ask: Callable[[Asked], Answer],
    questions: Sequence[Asked],
    n_threads: int,
    stopped: threading.Event,
) -> Iterator[tuple[Asked, Answer]]:
    """Yield every question with its answer, as answers arrive.

    If the iterator is closed or interrupted, `stopped` is set and no more questions are sent.

    >>> sorted(ask_in_threads(str.upper, ["a", "b"], 2, threading.Event()))
    [('a', 'A'), ('b', 'B')]
    """
    waiting: queue.SimpleQueue[Asked] = queue.SimpleQueue()
    answers: Answers[Asked, Answer] = queue.SimpleQueue()
    for question in questions:
        waiting.put(question)
    for _ in range(min(n_threads, len(questions))):
        work = threading.Thread(target=_work, args=(ask, waiting, answers, stopped), daemon=True)
        work.start()
    try:
        for _ in questions:
            question, answer, error = _next(answers)
            if error is not None:
                raise error
            yield question, answer  # type: ignore[misc]
    finally:
        stopped.set()


def _work(
    ask: Callable[[Asked], Answer],
    waiting: "queue.SimpleQueue[Asked]",
    answers: "Answers[Asked, Answer]",
    stopped: threading.Event,
) -> None:
    """Ask one question after another until none is left."""
    while not stopped.is_set():
        try:
            question = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            answers.put((question, ask(question), None))
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            answers.put((question, None, error))


def _next(answers: "Answers[Asked, Answer]") -> tuple[Asked, Answer | None, BaseException | None]:
    while True:
        try:
            return answers.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            continue
