"""Starts the workbench: opens the project, guards the address, serves the pages."""

import secrets
import socket
import threading
import warnings
import webbrowser
from collections.abc import Callable
from typing import Any

from wiesel.errors import MissingExtraError, ParameterError
from wiesel.io import FilePath
from wiesel.project.settings import Project
from wiesel.workbench.security import Guard, host_in_address, is_loopback

__all__ = ["serve"]


def serve(
    project: Project | FilePath,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    show: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the workbench of a project until interrupted.

    Port 0 selects a free port. Access from other machines requires the random token in the address
    that `say` announces.
    """
    try:
        import uvicorn
        from fastapi import FastAPI
        from nicegui import ui
    except ImportError as error:
        raise MissingExtraError(
            "The workbench needs NiceGUI: pip install 'wiesel[workbench]'"
        ) from error
    from wiesel.workbench.desk import Desk
    from wiesel.workbench.pages import add_pages

    desk = Desk.open(project)
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    web = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_pages(desk)
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
    desk.warm_up()
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        desk.jobs.close()


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
