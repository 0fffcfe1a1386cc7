"""`wiesel serve`: a model behind HTTP."""

import os
import secrets
from typing import Annotated

import typer

from wiesel.cli.project_options import EndModelName, ModelFolder, load_named
from wiesel.cli.verb import Answer, tell, verb
from wiesel.errors import DataError, MissingExtraError

__all__ = ["serve"]

_TOKEN = "WIESEL_TOKEN"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@verb
def serve(
    model: ModelFolder,
    port: Annotated[int, typer.Option(help="The port; 0 picks a free one.")] = 8340,
    host: Annotated[
        str,
        typer.Option(
            help="Another address than this machine's own; needs a token, from the variable "
            f"{_TOKEN}, or the one shown."
        ),
    ] = "127.0.0.1",
    max_rows: Annotated[int, typer.Option(min=1, help="The most rows of a request.")] = 1_000,
    max_megabytes: Annotated[float, typer.Option(min=0.001, help="The most MB of one.")] = 4.0,
    max_seconds: Annotated[
        float, typer.Option(min=0.01, help="Seconds to wait for an answer.")
    ] = 10.0,
    end_model: EndModelName = None,
) -> Answer | None:
    """Answer predictions over HTTP.

    POST /predict; GET /health, /metrics, /model, /openapi.json. Rows are JSON objects with the
    columns that the model reads. Requests are predicted in batches. No code of the model is run.
    """
    try:
        import uvicorn

        from wiesel.project.serving import Limits, prediction_app
    except ImportError as error:
        raise MissingExtraError(
            f"The server needs a package that is missing ({error.name}): pip install "
            "'wiesel[workbench]', or only fastapi and uvicorn."
        ) from error
    bundle = load_named(model, end_model)
    if bundle.features is None or bundle.manifest["inputs"]["kind"] in ("images", "given"):
        raise DataError(f"{model} reads arrays: only models of texts or tables are served.")
    own = os.environ.get(_TOKEN)
    token = own or (None if host in _LOOPBACK else secrets.token_urlsafe(24))
    limits = Limits(rows=max_rows, megabytes=max_megabytes, seconds=max_seconds)
    config = uvicorn.Config(
        prediction_app(bundle, token=token, limits=limits),
        host=host, port=port, log_level="warning", access_log=False,
        limit_concurrency=4 * limits.waiting, timeout_keep_alive=10,
    )  # fmt: skip
    listening = config.bind_socket()
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    name = f"[{shown}]" if ":" in shown else shown
    typer.echo(f"The model is served at http://{name}:{listening.getsockname()[1]}/")
    if token is not None and own is None:
        typer.echo(f"Token: {token}")
    tell("Ctrl-C ends it.")
    uvicorn.Server(config).run(sockets=[listening])
    return None
