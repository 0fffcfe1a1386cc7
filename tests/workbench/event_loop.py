"""Runs coroutines in tests beside those of the browser."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_a_loop(task: Coroutine[Any, Any, Any]) -> Any:
    """Run a task in another thread: in this one, the loop of a browser may be running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, task).result()
