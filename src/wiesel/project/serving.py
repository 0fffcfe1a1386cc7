"""A model behind HTTP: JSON in, JSON out, in batches, with limits, health and metrics."""

import asyncio
import hmac
import html
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException as AnyHTTPException

from wiesel.project.bundle import Bundle
from wiesel.project.predicting import predict_records
from wiesel.saving import plain_data
from wiesel.version import __version__

__all__ = ["Limits", "prediction_app"]

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "testserver")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the histogram of answer times."""


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, and how requests are put together."""

    rows: int = 1_000
    """The largest number of rows of a request."""
    megabytes: float = 4.0
    """The largest size of a request."""
    seconds: float = 10.0
    """How long a request may wait for its answer."""
    waiting: int = 200
    """How many requests may wait; further ones are refused at once."""
    batch_rows: int = 256
    """Requests are predicted together until they have so many rows."""
    batch_milliseconds: float = 2.0
    """How long a batch waits for further requests."""


@dataclass
class _Metrics:
    """What the server has done so far, in the text format that Prometheus reads."""

    requests: Counter[int] = field(default_factory=Counter)
    """The number of answers, by status."""
    predicted: Counter[str] = field(default_factory=Counter)
    """The number of rows, by predicted class."""
    n_errors: int = 0
    n_batches: int = 0
    times: list[int] = field(default_factory=lambda: [0] * (len(_SECONDS) + 1))
    total_seconds: float = 0.0

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests[status] += 1
        self.total_seconds += seconds
        self.times[sum(seconds > bound for bound in _SECONDS)] += 1

    def text(self, n_waiting: int) -> str:
        """Return all metrics."""
        lines = ["# TYPE wiesel_requests_total counter"]
        lines += [f'wiesel_requests_total{{status="{k}"}} {n}' for k, n in self.requests.items()]
        lines += ["# TYPE wiesel_predictions_total counter"]
        lines += [
            f"wiesel_predictions_total{{class={json.dumps(name, ensure_ascii=False)}}} {count}"
            for name, count in self.predicted.items()
        ]
        lines += [
            "# TYPE wiesel_row_errors_total counter",
            f"wiesel_row_errors_total {self.n_errors}",
        ]
        lines += ["# TYPE wiesel_batches_total counter", f"wiesel_batches_total {self.n_batches}"]
        lines += ["# TYPE wiesel_waiting gauge", f"wiesel_waiting {n_waiting}"]
        lines += ["# TYPE wiesel_request_seconds histogram"]
        total = 0
        for bound, count in zip((*_SECONDS, "+Inf"), self.times, strict=True):
            total += count
            lines.append(f'wiesel_request_seconds_bucket{{le="{bound}"}} {total}')
        lines += [f"wiesel_request_seconds_sum {self.total_seconds}"]
        return "\n".join([*lines, f"wiesel_request_seconds_count {total}", ""])


class _Batches:
    """Puts the rows of waiting requests together, and predicts them in one thread."""

    def __init__(self, bundle: Bundle, limits: Limits, metrics: _Metrics) -> None:
        self._bundle, self._limits, self._metrics = bundle, limits, metrics
        self._waiting: asyncio.Queue[tuple[Sequence[Any], asyncio.Future[list[Any]]]]
        self._waiting = asyncio.Queue(limits.waiting)
        self._thread = ThreadPoolExecutor(1, "wiesel-predict")

    @property
    def n_waiting(self) -> int:
        """How many requests wait for a batch."""
        return self._waiting.qsize()

    async def answers(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the answer for each row, when its batch has been predicted."""
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((rows, answer))
        return await asyncio.wait_for(answer, self._limits.seconds)

    async def run(self) -> None:
        """Predict batches for ever."""
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._next()
            rows = [row for own, _ in batch for row in own]
            self._metrics.n_batches += 1
            try:
                found = await loop.run_in_executor(self._thread, self._predicted, rows)
            except Exception as error:  # noqa: BLE001 - the requests raise it
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            start = 0
            for own, answer in batch:
                if not answer.done():
                    answer.set_result(found[start : start + len(own)])
                start += len(own)

    async def _next(self) -> list[tuple[Sequence[Any], asyncio.Future[list[Any]]]]:
        batch = [await self._waiting.get()]
        end = time.monotonic() + self._limits.batch_milliseconds / 1000
        while sum(len(rows) for rows, _ in batch) < self._limits.batch_rows:
            try:
                left = end - time.monotonic()
                batch.append(await asyncio.wait_for(self._waiting.get(), max(left, 0)))
            except TimeoutError:
                break
        # Whoever has stopped waiting needs no answer.
        return [(rows, answer) for rows, answer in batch if not answer.done()]

    def _predicted(self, rows: list[Any]) -> list[dict[str, Any]]:
        records = [row if isinstance(row, dict) else None for row in rows]
        answers = predict_records(self._bundle, records)
        for answer in answers:
            self._metrics.n_errors += "error" in answer
            if "error" not in answer:
                self._metrics.predicted[answer["prediction"]] += 1
        found: list[dict[str, Any]] = plain_data(answers)
        return found


def prediction_app(
    bundle: Bundle, *, token: str | None = None, limits: Limits | None = None
) -> FastAPI:
    """Return an ASGI application that predicts rows with a loaded model; it runs no stored code.

    `POST /predict` takes `{"rows": [...]}`. With a token, every request but `/health` needs the
    header `Authorization: Bearer TOKEN`. Without one, only requests to this machine's own name are
    answered, so that no web page can reach it.
    """
    service = _Service(bundle, token, limits or Limits())
    app = FastAPI(
        title="Wiesel", version=__version__, lifespan=service.running, docs_url=None,
        redoc_url=None, description=f"Predicts {', '.join(bundle.labels.names)}.",
    )  # fmt: skip
    app.middleware("http")(service.guarded)
    app.exception_handler(AnyHTTPException)(_refused)
    app.get("/health", summary="Whether the server runs")(service.health)
    app.get("/model", summary="What the model reads and predicts")(service.model)
    app.get("/metrics", summary="Counters and times for Prometheus")(service.counters)
    app.post("/predict", summary="Predict rows", openapi_extra=_schema(bundle))(service.predict)
    app.get("/", include_in_schema=False)(service.page)
    return app


class _Service:
    """What the application does for each address."""

    def __init__(self, bundle: Bundle, token: str | None, limits: Limits) -> None:
        self._bundle, self._token, self._limits = bundle, token, limits
        self._metrics = _Metrics()
        self._batches = _Batches(bundle, limits, self._metrics)

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(self._batches.run())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def guarded(self, request: Request, call_next: Any) -> Response:
        start = time.perf_counter()
        problem = _refusal(request, self._token)
        if problem is None:
            response: Response = await call_next(request)
        else:
            response = JSONResponse({"error": problem[1]}, problem[0])
        self._metrics.answered(response.status_code, time.perf_counter() - start)
        return response

    async def health(self) -> dict[str, str]:
        return {"status": "ok"}

    async def model(self) -> dict[str, Any]:
        return _described(self._bundle, self._limits)

    async def counters(self) -> Response:
        return PlainTextResponse(self._metrics.text(self._batches.n_waiting))

    async def predict(self, request: Request) -> Response:
        rows = _rows(await _body(request, self._limits), self._limits)
        try:
            answers = await self._batches.answers(rows)
        except asyncio.QueueFull:
            raise HTTPException(503, "Too many requests wait.", {"Retry-After": "1"}) from None
        except TimeoutError:
            seconds = self._limits.seconds
            raise HTTPException(504, f"No answer within {seconds:g} seconds.") from None
        return JSONResponse({"predictions": answers})

    async def page(self, request: Request) -> Response:
        return HTMLResponse(_page(request.app.openapi()))


async def _refused(_: Request, error: Exception) -> Response:
    """All errors have one shape."""
    found: Any = error
    return JSONResponse({"error": found.detail}, found.status_code, found.headers)


def _refusal(request: Request, token: str | None) -> tuple[int, str] | None:
    """Status and reason of a request that is not answered; None if it is."""
    if token is None:
        host = request.headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in _LOOPBACK or request.headers.get("sec-fetch-site", "none") == "cross-site":
            return 403, "Without a token, only this machine's own programs are answered."
        return None
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if request.url.path == "/health" or hmac.compare_digest(given.encode(), token.encode()):
        return None
    return 401, "The header 'Authorization: Bearer TOKEN' is missing or wrong."


async def _body(request: Request, limits: Limits) -> bytes:
    content, most = bytearray(), int(limits.megabytes * 1e6)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "Send JSON, with the header 'Content-Type: application/json'.")
    async for chunk in request.stream():
        content += chunk
        if len(content) > most:
            raise HTTPException(413, f"A request may have {limits.megabytes:g} MB.")
    return bytes(content)


def _rows(content: bytes, limits: Limits) -> list[Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The request is not JSON: {error}.") from None
    rows = value.get("rows") if isinstance(value, Mapping) else None
    if not isinstance(rows, list) or not rows:
        raise HTTPException(400, 'Send {"rows": [{...}, ...]} with at least one row.')
    if len(rows) > limits.rows:
        raise HTTPException(
            413, f"A request may have {limits.rows:,} rows; this has {len(rows):,}."
        )
    return rows


def _columns(bundle: Bundle) -> dict[str, str]:
    """The columns that a row needs, and their JSON types."""
    if bundle.manifest["inputs"]["kind"] == "tabular":
        numbers = dict.fromkeys(bundle.features.numeric, "number")
        return {**numbers, **dict.fromkeys(bundle.features.categorical, "string")}
    return {bundle.manifest["inputs"]["column"]: "string"}


def _described(bundle: Bundle, limits: Limits) -> dict[str, Any]:
    manifest = bundle.manifest
    return {
        "labels": bundle.labels.names,
        "threshold": plain_data(bundle.model.threshold_),
        "columns": _columns(bundle),
        "sha256": manifest["sha256"],
        "wiesel": manifest.get("wiesel"),
        "limits": {"rows": limits.rows, "megabytes": limits.megabytes, "seconds": limits.seconds},
    }


def _schema(bundle: Bundle) -> dict[str, Any]:
    columns = _columns(bundle)
    row = {
        "type": "object",
        "properties": {name: {"type": [kind, "null"]} for name, kind in columns.items()},
        "required": list(columns),
    }
    rows = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": rows}}}}


def _page(schema: Mapping[str, Any]) -> str:
    """A page about the interface that needs nothing from elsewhere."""
    rows = "".join(
        f"<tr><td><code>{method.upper()} {html.escape(path)}</code></td>"
        f"<td>{html.escape(about.get('summary', ''))}</td></tr>"
        for path, methods in schema["paths"].items()
        for method, about in methods.items()
    )
    post = schema["paths"]["/predict"]["post"]
    row = post["requestBody"]["content"]["application/json"]["schema"]["properties"]["rows"]
    kinds = row["items"]["properties"].items()
    example = {name: 0 if "number" in kind["type"] else "..." for name, kind in kinds}
    body = html.escape(json.dumps({"rows": [example]}, ensure_ascii=False))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Wiesel: predictions</title>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:48em;margin:2em auto;"
        "padding:0 1em}td{padding:.2em 1.5em .2em 0}"
        "pre{background:#8881;padding:1em;overflow:auto}</style>"
        f"<h1>Wiesel</h1><p>{html.escape(schema['info']['description'])}</p><table>{rows}</table>"
        f"<h2>POST /predict</h2><pre>{body}</pre><p>Each row is answered with "
        "<code>prediction</code> and <code>proba</code>, or with an <code>error</code>. "
        "Machine-readable: <a href=openapi.json>openapi.json</a></p></html>"
    )
