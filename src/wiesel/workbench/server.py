"""Starts the workbench: opens the project, guards the address, serves the pages."""

import secrets
import socket
import threading
import warnings
import webbrowser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wiesel.errors import MissingExtraError, ParameterError
from wiesel.io import FilePath
from wiesel.io.files import FORMATS
from wiesel.project.settings import FILE_NAME, Project, read_project
from wiesel.workbench.security import Guard, host_in_address, is_loopback

__all__ = ["has_no_project", "serve"]

_THREADS = 100


def serve(
    project: Project | FilePath,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    show: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the workbench of a project until interrupted.

    In place of a project, a table or a folder without one is enough: the page asks what is needed
    for a project and makes it there.

    Port 0 selects a free port. Access from other machines requires the random token in the address
    that `say` announces.
    """
    try:
        import uvicorn
        from fastapi import FastAPI
        from nicegui import run, ui
    except ImportError as error:
        raise MissingExtraError(
            "The workbench needs NiceGUI: pip install 'wiesel[workbench]'"
        ) from error
    from wiesel.workbench.entrance import Entrance
    from wiesel.workbench.pages import add_pages

    if not isinstance(project, Project):
        project = Path(project) if has_no_project(project) else read_project(project)
    entrance = Entrance(project)
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    # Some threads of every open page may wait for votes or features, without stopping the others.
    run.thread_pool = ThreadPoolExecutor(_THREADS)
    web = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_pages(entrance)
    ui.run_with(web, title="Wiesel", dark=None, show_welcome_message=False, reconnect_timeout=30)
    # NiceGUI inspects every object, including torch's deprecated ones.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"nicegui\.")
    config = uvicorn.Config(
        Guard(web, port, host, token), log_level="warning", lifespan="on", ws_max_size=2**22
    )
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    address = f"http://{host_in_address(shown, port)}/" + (f"?token={token}" if token else "")
    say(address)
    if show:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    if entrance.desk is not None:
        entrance.desk.warm_up()
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        if entrance.desk is not None:
            entrance.desk.close()


def has_no_project(place: FilePath) -> bool:
    """Whether a place is a table, or a folder without a project, so that the page makes one."""
    path = Path(place)
    if path.is_dir():
        return not (path / FILE_NAME).exists()
    return path.is_file() and path.suffix.lower() in FORMATS


def _listen(host: str, port: int) -> Any:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # a browser that connects early waits for the pages
    except OSError as error:
        listening.close()
        raise ParameterError(
            f"Port {port} of {host} cannot be used: {error.strerror}. Choose another with --port."
        ) from None
    return listening
