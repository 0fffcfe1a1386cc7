"""The connection to a Ray cluster: the program's own, or one for as long as it is needed."""

import logging
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wiesel.errors import MissingExtraError, ParameterError

__all__ = ["load_ray", "ray_session"]

_PATIENCE = 10.0
"""Seconds to wait for a cluster to answer."""


def load_ray() -> Any:
    """Return the package `ray`, or say how to install it."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("Scaling out needs Ray: pip install 'wiesel[ray]'") from error
    return ray


@contextmanager
def ray_session(address: str | None = None) -> Iterator[Any]:
    """Give the package `ray`, connected to a cluster.

    A connection that the program already has is used and left as it is. Otherwise one is made
    for the time being: to `address` (`host:port`, `auto`, or `local` for a new one on this
    machine), or without it to the cluster that `RAY_ADDRESS` names or that runs on this machine,
    or to a new one on this machine. The workers of such a connection do not import modules from
    the current folder.
    """
    ray = load_ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    try:
        _check_reachable(address)
        with tempfile.TemporaryDirectory(prefix="wiesel-") as nothing:
            # The user's logging set-up stays as it is; what workers print is passed on by Ray.
            # Without a working_dir, Ray puts the current folder first on the search path of every
            # worker, where a polars.py among downloaded data would be imported.
            ray.init(
                address=address,
                configure_logging=False,
                logging_level=logging.WARNING,
                log_to_driver=True,
                runtime_env={"working_dir": nothing},
            )
    except OSError as error:
        raise ParameterError(
            f"There is no Ray cluster at {address!r} ({str(error).partition(chr(10))[0]}). "
            "Start one with `ray start --head`, or leave the address out."
        ) from error


def _check_reachable(address: str | None) -> None:
    """Refuse an address without a listening server, which Ray would retry for minutes."""
    host, _, port = (address or "").rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
