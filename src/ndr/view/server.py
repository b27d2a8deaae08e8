"""The explorer's server: our own page, three questions, nothing else.

The client names a network by its place among those given at the start; it can name no file and no code.
"""

import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from ndr import __version__
from ndr.errors import Refusal
from ndr.tasks import MalformedText
from ndr.view.contract import Busy, Models, PackedTrace, Parsed, ParseRequest, Problem, TraceRequest
from ndr.view.guard import Guard
from ndr.view.line import Line
from ndr.view.page import FILES, page_file, served_page

if TYPE_CHECKING:
    # The page is served before the networks are open, so nothing here may wait for torch.
    from ndr.view.studio import Studio

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is not JSON"},
    403: {"model": Problem, "description": "Asked from another site"},
    413: {"model": Problem, "description": "The body is too large"},
    421: {"model": Problem, "description": "Asked under a foreign host name"},
    422: {
        "model": Problem,
        "description": "The request or its text cannot be used; `position` says where",
    },
    431: {"model": Problem, "description": "The headers are too large"},
    503: {"model": Problem, "description": "Too many traces at once: ask again in a moment"},
}


def open_later(open_studio: Callable[[], "Studio"]) -> "Future[Studio]":
    """Open the networks in a thread: importing torch takes longer than everything else together."""
    opening: Future[Studio] = Future()

    def work() -> None:
        try:
            opening.set_result(open_studio())
        except BaseException as error:
            opening.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return opening


def make_app(studio: "Studio | Future[Studio]", hosts: tuple[str, ...] = (), line: Line | None = None) -> FastAPI:
    def opened() -> "Studio":
        return studio.result() if isinstance(studio, Future) else studio

    line = line or Line()

    # FastAPI's own documentation pages load scripts from a CDN, so they stay off; /openapi.json is there.
    app = FastAPI(
        title="ndr explorer",
        version=__version__,
        summary="What a Neural Data Router does to a text, step by step",
        docs_url=None,
        redoc_url=None,
    )
    app.state.line = line
    app.add_middleware(Guard, hosts=hosts)
    add_refusals(app)
    add_page(app)
    elsewhere: dict[int | str, dict[str, Any]] = {code: REFUSALS[code] for code in (403, 413, 421, 431)}

    @app.get("/api/models", responses=elsewhere, summary="The networks that can be looked into")
    def models() -> Models:
        return opened().models

    @app.post("/api/parse", responses=REFUSALS, summary="The columns of a text, and its tree with the true values")
    def parse(request: ParseRequest) -> Parsed:
        return opened().parse(request.model, request.text)

    @app.post(
        "/api/trace",
        response_model=PackedTrace,
        responses=REFUSALS,
        summary="What every step of a network does to a text",
    )
    async def trace(request: TraceRequest) -> Response:
        def work() -> str:
            # Megabytes are written as JSON here, in a thread, so that others are answered meanwhile.
            return opened().trace(request.model, request.text, request.steps).model_dump_json()

        return Response(await line.serve(work), media_type="application/json")

    return app


def add_page(app: FastAPI) -> None:
    """The page's files are read once; a path that is not one of them does not exist."""

    def offer(path: str, content: str, kind: str) -> None:
        def answer() -> Response:
            return Response(content, media_type=kind)

        app.add_api_route(path, answer, methods=["GET"], include_in_schema=False, response_class=Response)

    offer("/", served_page(), "text/html")
    for name in FILES:
        offer(f"/page/{name}", page_file(name), TYPES[Path(name).suffix])


def add_refusals(app: FastAPI) -> None:
    """Every refusal is a Problem: one sentence and, for a text, the position."""

    def problem(status: int, reason: str, position: int | None = None) -> JSONResponse:
        retry = {"retry-after": "1"} if status == 503 else None
        # Half a surrogate pair can be asked for in JSON but not be answered in UTF-8.
        reason = reason.encode("utf-8", "backslashreplace").decode("utf-8")
        return JSONResponse(Problem(reason=reason, position=position).model_dump(), status, headers=retry)

    @app.exception_handler(MalformedText)
    def malformed(_: Request, error: MalformedText) -> JSONResponse:
        return problem(422, error.reason, error.position)

    @app.exception_handler(Refusal)
    def refused(_: Request, error: Refusal) -> JSONResponse:
        return problem(422, str(error))

    @app.exception_handler(Busy)
    def busy(_: Request, __: Busy) -> JSONResponse:
        return problem(503, "too many traces at once; ask again in a moment")

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return problem(400, "the body is not JSON")
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return problem(422, f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(HTTPException)
    def http(_: Request, error: HTTPException) -> JSONResponse:
        answer = problem(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or a refusal that says what is wrong with the address."""
    # Checked here because the system would quietly take the port modulo 65536.
    if not 0 <= port <= 65535:
        raise Refusal(f"a port lies between 0 and 65535, not {port}")
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(kind, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # From here on a browser may call: it waits in line until the server is up.
        listener.listen(128)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise Refusal(f"cannot listen on {host!a} port {port}: {why}; try another --port or --host") from error
    return listener


def serve(app: FastAPI, listener: socket.socket, opening: "Future[Studio]") -> None:
    """Serve until SIGINT or SIGTERM, finish what is under way, and return; stop if the networks cannot be opened."""
    import uvicorn

    from ndr.view.connection import Connection

    class Server(uvicorn.Server):
        """Who still waits in line is sent away before the rest is finished."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.line.close()
            await super().shutdown(sockets)

    def stop_quietly(*_: object) -> None:
        """Uvicorn raises the signal once more after it has stopped; by then there is nothing left to do."""

    before = {kind: signal.signal(kind, stop_quietly) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            # A client must not be able to fill the log with complaints about its requests.
            log_level="error",
            timeout_graceful_shutdown=20,
            server_header=False,
        )
        server = Server(config)

        def stop_on_error(done: "Future[Studio]") -> None:
            server.should_exit = server.should_exit or done.exception() is not None

        opening.add_done_callback(stop_on_error)
        server.run(sockets=[listener])
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
        listener.close()
    if opening.done():
        opening.result()
