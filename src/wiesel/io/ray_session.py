"""The connection to a Ray cluster: the program's existing one, or a temporary one."""

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
    """Return the package `ray`; if it is missing, the error says how to install it."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("Scaling out needs Ray: pip install 'wiesel[ray]'") from error
    return ray


@contextmanager
def ray_session(address: str | None = None) -> Iterator[Any]:
    """Yield the package `ray`, connected to a cluster.

    An existing connection of the program is used and left open. Otherwise a temporary one is made
    to `address` (`host:port`, `auto`, or `local` for a new cluster on this machine). Without
    `address`, it connects to the cluster in `RAY_ADDRESS`, to one that runs on this machine, or to
    a new one on this machine. Workers of a temporary connection do not import modules from the
    current folder.
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
            # The user's logging setup is not changed; Ray forwards what workers print.
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
    # Ray has no base class for what can go wrong here: other versions, a bad address, a time-out.
    except Exception as error:
        where = f"connect to {address!r}" if address else "start or connect"
        raise ParameterError(
            f"Ray could not {where}: {' '.join(str(error).split()):.400} Every machine needs the "
            "same versions of Python and Ray, and this one enough free memory and time to start it."
        ) from error


def _check_reachable(address: str | None) -> None:
    """Reject an address without a listening server, which Ray would retry for minutes."""
    host, _, port = (address or "").rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
