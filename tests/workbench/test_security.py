"""Who may talk to the workbench, and what a page can reach."""

from typing import Any

import pytest

from wiesel.workbench.server import Guard

PORT = 8330


async def passed(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def ask(guard: Guard, kind: str = "http", query: str = "", **headers: str) -> Any:
    """The first message that a request is answered with."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "headers": named, "query_string": query.encode(), "path": "/"}
    # Nothing here waits for anything, and a browser of other tests may have an event loop running.
    with pytest.raises(StopIteration):
        guard(scope, receive, send).send(None)
    return sent[0]


@pytest.fixture
def local() -> Guard:
    return Guard(passed, PORT, "127.0.0.1", None)


@pytest.fixture
def open_to_all() -> Guard:
    return Guard(passed, PORT, "0.0.0.0", "sesame")


HOST = f"127.0.0.1:{PORT}"


def test_the_own_page_is_answered(local: Guard):
    assert ask(local, host=HOST)["status"] == 200
    assert ask(local, host=f"localhost:{PORT}")["status"] == 200
    assert ask(local, host=HOST, origin=f"http://{HOST}")["status"] == 200


def test_a_name_that_points_here_is_refused(local: Guard):
    assert ask(local, host=f"evil.example:{PORT}")["status"] == 403
    assert ask(local, host="127.0.0.1:9999")["status"] == 403
    assert ask(local)["status"] == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{PORT + 1}",
        "http://127.0.0.1",
        f"http://[{HOST}",  # no address, which Python refuses to take apart
    ],
)
def test_requests_and_web_sockets_from_other_sites_are_refused(local: Guard, origin: str):
    assert ask(local, host=HOST, origin=origin)["status"] == 403
    assert ask(local, "websocket", host=HOST, origin=origin)["type"] == "websocket.close"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "surprise"])
def test_other_sites_get_no_answer_where_they_send_no_origin(local: Guard, site: str):
    image = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    frame = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert ask(local, host=HOST, **image)["status"] == 403
    assert ask(local, host=HOST, **frame)["status"] == 403
    assert ask(local, host=HOST, **{"sec-fetch-site": site})["status"] == 403
    assert ask(local, host=HOST, **link)["status"] == 200  # a link opens the page in a tab
    for own in ("same-origin", "none"):
        assert ask(local, host=HOST, **{**image, "sec-fetch-site": own})["status"] == 200


def test_a_web_socket_without_an_origin_is_refused(local: Guard):
    assert ask(local, "websocket", host=HOST)["type"] == "websocket.close"


@pytest.mark.parametrize(
    ("bound", "port", "host"),
    [
        ("::1", PORT, f"[::1]:{PORT}"),
        ("fd00::5", PORT, f"[fd00::5]:{PORT}"),
        ("127.0.0.1", 80, "localhost"),
        ("0.0.0.0", 80, "192.168.0.5"),
    ],
)
def test_the_page_is_answered_under_the_address_that_a_browser_sends(bound, port, host):
    guard = Guard(passed, port, bound, "sesame")
    assert ask(guard, query="token=sesame", host=host, origin=f"http://{host}")["status"] == 200


def test_beyond_this_machine_the_token_is_needed(open_to_all: Guard):
    host = f"192.168.0.5:{PORT}"
    assert ask(open_to_all, host=host)["status"] == 403
    assert ask(open_to_all, query="token=guess", host=host)["status"] == 403
    assert ask(open_to_all, host=host, cookie="wiesel_token=guess")["status"] == 403
    answer = ask(open_to_all, query="token=sesame", host=host)
    assert answer["status"] == 200
    cookie = dict(answer["headers"])[b"set-cookie"].decode()
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert ask(open_to_all, host=host, cookie=cookie.split(";")[0])["status"] == 200
    closed = ask(open_to_all, "websocket", host=host, origin=f"http://{host}")
    assert closed["type"] == "websocket.close"


def test_answers_may_not_be_framed_or_guessed_at(local: Guard):
    headers = dict(ask(local, host=HOST)["headers"])
    assert headers[b"x-frame-options"] == b"DENY"
    assert headers[b"x-content-type-options"] == b"nosniff"
