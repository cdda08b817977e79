"""The service itself: its parts put together, listening, and stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ullage.errors import InputError
from ullage.serve.gate import Gate
from ullage.serve.jobs import JobBoard
from ullage.serve.live import LiveDesk
from ullage.serve.routes import Parts, make_app
from ullage.serve.runner import Runner
from ullage.serve.settings import ServeSettings
from ullage.serve.uploads import Uploads
from ullage.serve.watch import AuditLog, ServeMetrics


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service that can be served by uvicorn or asked in a test."""

    app: Any
    settings: ServeSettings


def make_service(settings: ServeSettings, *, audit: AuditLog | None = None) -> Service:
    """The application of these settings; its processes start with it and end with it."""
    metrics = ServeMetrics()
    running: list[Parts] = []

    @contextlib.asynccontextmanager
    async def lifespan(_app: Any) -> AsyncIterator[None]:
        runner = Runner(settings)
        await runner.start()
        limits = settings.limits
        board = JobBoard(runner, limits, workers=settings.workers)
        desk = LiveDesk(runner, board, limits, seats=settings.workers)
        uploads = Uploads(runner.uploads, limits, runner)
        running.append(
            Parts(settings=settings, runner=runner, board=board, desk=desk, uploads=uploads, metrics=metrics)
        )
        for state in ("queued", "running"):
            metrics.gauge(f"jobs_{state}", f"Jobs that are {state}.", lambda one=state: board.counts()[one])  # type: ignore[misc]
        metrics.gauge("result_bytes", "Bytes of kept answers.", lambda: board.result_bytes)
        metrics.gauge("upload_bytes", "Bytes of kept uploads.", lambda: uploads.size_bytes)
        try:
            yield
        finally:
            await desk.stop()
            await board.stop()
            await runner.stop()
            running.clear()

    app = Gate(make_app(lambda: running[0], lifespan), settings, metrics, audit or AuditLog())
    return Service(app=app, settings=settings)


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, which gives a client so long to send its headers and no longer."""

    headers_s = 10.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._waiting: asyncio.TimerHandle | None = None
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        """The clock runs from the first byte that is awaited, and more bytes do not set it back."""
        # uvicorn types it as always there; before the first request it is not.
        cycle: Any = self.cycle
        is_idle = cycle is None or cycle.response_complete
        if not is_idle:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def serve(settings: ServeSettings, *, audit: AuditLog | None = None) -> None:
    """Listen until told to stop; a port that is taken is a wrong input."""
    PatientProtocol.headers_s = settings.limits.idle_s
    service = make_service(settings, audit=audit)
    config = uvicorn.Config(
        service.app,
        host=settings.host,
        port=settings.port,
        http=PatientProtocol,
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=True,
        proxy_headers=False,
        limit_concurrency=settings.limits.connections,
        backlog=256,
        timeout_keep_alive=int(settings.limits.idle_s),
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=32 * 1024,
        lifespan="on",
    )
    try:
        uvicorn.Server(config).run()
    except SystemExit:
        problem = "cannot be listened on: it is taken, or not an address of this machine"
        where = f"{settings.host}:{settings.port}"
        raise InputError(field="--port", value=where, problem=problem, fix="Give another --port.") from None
