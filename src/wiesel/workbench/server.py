"""Starts the workbench: opens the project, guards the address, serves the pages."""

import hmac
import secrets
import socket
import threading
import warnings
import webbrowser
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import Request
from nicegui import ui

from wiesel.errors import MissingExtraError, ParameterError
from wiesel.io import FilePath
from wiesel.io.files import FORMATS
from wiesel.project.settings import (
    FILE_NAME,
    ONE_LABEL,
    SEVERAL_LABELS,
    SPANS,
    Project,
    read_project,
)
from wiesel.workbench.crowd_page import CrowdPage
from wiesel.workbench.data_page import DataPage
from wiesel.workbench.desk import Desk
from wiesel.workbench.entrance import Entrance, EntrancePage
from wiesel.workbench.label_page import LabelPage
from wiesel.workbench.label_results import LabelResultsPage
from wiesel.workbench.label_sets_page import LabelSetPage
from wiesel.workbench.layout import PAGES, frame
from wiesel.workbench.lfs_page import LFsPage
from wiesel.workbench.map_page import MapPage
from wiesel.workbench.mark_page import MarkPage
from wiesel.workbench.results_page import ResultsPage
from wiesel.workbench.train_page import TrainPage

__all__ = ["Guard", "add_pages", "has_no_project", "host_in_address", "is_loopback", "serve"]

_LABEL_PAGES = {ONE_LABEL: LabelPage, SEVERAL_LABELS: LabelSetPage, SPANS: MarkPage}
"""What rows are labeled with, by kind of task."""
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_COOKIE = "wiesel_token"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_USUAL_PORT = 80
"""The port of http, which browsers leave out."""
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)

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
    from wiesel.workbench.server import add_pages

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


def add_pages(entrance: Entrance) -> None:
    """Add the six pages; while there is no project, the way to one is in their place."""
    builders: dict[str, Callable[[Desk, dict[str, str]], Any]] = {
        "/": DataPage,
        "/map": MapPage,
        "/lfs": lambda desk, query: (CrowdPage if desk.space.has_crowd else LFsPage)(desk),
        "/label": lambda desk, query: _LABEL_PAGES[desk.space.project.task](desk, query),
        "/train": lambda desk, query: TrainPage(desk),
        "/results": lambda desk, query: _results(desk)(desk, query.get("run", "")),
    }
    for address, name in PAGES:
        _add(entrance, address, name, builders[address])


def _results(desk: Desk) -> type[ResultsPage]:
    return ResultsPage if desk.space.project.task == ONE_LABEL else LabelResultsPage


def _add(
    entrance: Entrance, address: str, name: str, builder: Callable[[Desk, dict[str, str]], Any]
) -> None:
    @ui.page(address, title=name)
    def page(request: Request) -> None:
        desk = entrance.desk
        if desk is None:
            EntrancePage(entrance).build()
            return
        with frame(desk, address):
            builder(desk, dict(request.query_params)).build()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    return host in _LOOPBACK


def host_in_address(host: str, port: int) -> str:
    """Return host and port as addresses and browsers write them.

    >>> host_in_address("::1", 8330), host_in_address("127.0.0.1", 80)
    ('[::1]:8330', '127.0.0.1')
    """
    name = f"[{host}]" if ":" in host else host
    return name if port == _USUAL_PORT else f"{name}:{port}"


class Guard:
    """Accepts a request only if it comes from the workbench's own page.

    The Host header must name this server; this blocks other sites that resolve their name to
    127.0.0.1. Browsers send an Origin header with every web socket and most cross-site requests; it
    must be the workbench's origin. Where there is none, Sec-Fetch-Site tells: other sites may only
    open a page in a tab. An address other than loopback requires the token: once in the URL, then
    in a cookie.
    """

    def __init__(self, app: Any, port: int, host: str, token: str | None) -> None:
        self.app, self.port, self.token = app, port, token
        names = _LOOPBACK if is_loopback(host) or host == "0.0.0.0" else (host, *_LOOPBACK)
        self.hosts = {host_in_address(name, port) for name in names}
        self.any_host = token is not None and host in ("0.0.0.0", "::")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or reject a request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        problem = self.problem(scope, headers)
        if problem:
            await _refuse(scope, receive, send, problem)
            return
        fresh = self.token is not None and self._in_address(scope)
        await self.app(scope, receive, self._with_headers(send, fresh))

    def problem(self, scope: Scope, headers: dict[bytes, str]) -> str:
        """Return why a request is rejected; empty if it is accepted."""
        host = headers.get(b"host", "")
        end = "" if self.port == _USUAL_PORT else f":{self.port}"
        if host not in self.hosts and not (self.any_host and host.endswith(end)):
            return "This address is not the workbench's own."
        origin = headers.get(b"origin")
        if scope["type"] == "websocket" and origin is None:
            return "A web socket needs an Origin."
        if origin is not None and _place_of(origin) != host:
            return "Requests from other sites are not answered."
        if _is_foreign(headers):
            return "Requests from other sites are not answered."
        if self.token is not None and not (self._in_address(scope) or self._in_cookie(headers)):
            return "The token is missing: open the address that `wiesel workbench` printed."
        return ""

    def _in_address(self, scope: Scope) -> bool:
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        return self._is_token(given)

    def _in_cookie(self, headers: dict[bytes, str]) -> bool:
        cookie: SimpleCookie = SimpleCookie()
        try:
            cookie.load(headers.get(b"cookie", ""))
        except Exception:  # noqa: BLE001 - an unreadable cookie counts as none
            return False
        return _COOKIE in cookie and self._is_token(cookie[_COOKIE].value)

    def _is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def _with_headers(self, send: Send, fresh: bool) -> Send:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                added = list(_HEADERS)
                if fresh:
                    cookie = f"{_COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                    added.append((b"set-cookie", cookie.encode()))
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        return sending


def _is_foreign(headers: dict[bytes, str]) -> bool:
    """Whether the browser says that another site asks, for more than to open a page in a tab.

    Requests for images and scripts have no Origin. Other ports of this machine are other sites.
    """
    if headers.get(b"sec-fetch-site", "none") in ("same-origin", "none"):
        return False
    asked = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    return asked != ("navigate", "document")


def _place_of(origin: str) -> str:
    """The host and port of an origin; empty if it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


async def _refuse(scope: Scope, receive: Receive, send: Send, problem: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": problem})
        return
    body = problem.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
