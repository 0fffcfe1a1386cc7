"""Access control for the workbench: only its own local pages, or a browser with the token."""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["Guard", "host_in_address", "is_loopback"]

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
