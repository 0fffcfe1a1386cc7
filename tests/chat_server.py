"""A small server that speaks the chat-completions protocol and plays the language model."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ModelServer(ThreadingHTTPServer):
    """Answers chat completions with what `answer` says about the question."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str], Any]) -> None:
        super().__init__(("127.0.0.1", 0), ChatEndpoint)
        self.answer = answer
        """The content of an answer; a dict is a whole choice, a list one choice per sample."""
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.broken: list[tuple[int, dict[str, str]]] = []
        """Statuses (with headers) to fail with before anything is answered."""
        self.reply = b""
        """What to send instead of a chat completion."""
        self.refuses: dict[str, str] = {}
        """Parts of a request that are refused with status 400, and what is said about them."""
        self.most_allowed = 1000
        """Requests at once; others get status 429, without a time to wait."""
        self.streams = False
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: object) -> None:
        """Say nothing about clients that have gone."""


class ChatEndpoint(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.requests.append({"path": self.path, **body})
            server.keys.append(self.headers.get("Authorization"))
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
            failure = server.broken.pop(0) if server.broken else None
            if failure is None and server.under_way > server.most_allowed:
                failure = 429, {}
        refused = [said for name, said in server.refuses.items() if name in body]
        if failure is not None or refused:
            said = {"error": {"message": refused[0] if refused else "broken"}}
            status, headers = failure or (400, {})
            reply = json.dumps(said).encode()
        else:
            status, headers = 200, {}
            content = server.answer(body["messages"][0]["content"])
            reply = server.reply or self._completion(content, body)
        with server.lock:  # before the reply: the client may send the next request at once
            server.under_way -= 1
        self._send(status, reply, headers)

    def _completion(self, content: Any, body: dict[str, Any]) -> bytes:
        given = content if isinstance(content, list) else [content] * body.get("n", 1)
        whole = [
            each
            if isinstance(each, dict)
            else {"message": {"content": each}, "finish_reason": "stop"}
            for each in given
        ]
        question = body["messages"][0]["content"]
        used = {"prompt_tokens": len(question.split()), "completion_tokens": len(whole)}
        about = {"model": f"{body['model']}-2026", "usage": used}
        if not self.server.streams:
            return json.dumps({"choices": whole, **about}).encode()
        text = whole[0]["message"]["content"]
        halves = [text[: len(text) // 2], text[len(text) // 2 :]]
        events: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": half}}]} for half in halves
        ]
        events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **about}]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return "".join([": a comment\n\n", *lines, "data: [DONE]\n\n"]).encode()

    def _send(self, status: int, reply: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def model_server(answer: Callable[[str], Any]) -> Iterator[ModelServer]:
    """Run a server for as long as the context is open."""
    with ModelServer(answer) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()


def spam_or_ham(question: str) -> str:
    return "spam" if "prize" in question else "ham"
