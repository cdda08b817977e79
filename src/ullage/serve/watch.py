"""What a service says of itself: Prometheus metrics, and one audit line for everything that was asked of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import IO, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from ullage.foreign import visible

_BUCKETS_S = (0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class ServeMetrics:
    """Counters of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "ullage_serve_requests", "Requests by route, method and status.", ("route", "method", "status"),
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "ullage_serve_request_seconds", "Time to the first byte of an answer.", ("route",), buckets=_BUCKETS_S,
            registry=self.registry,
        )  # fmt: skip
        self.shared = Counter(
            "ullage_serve_shared_jobs", "Requests that were given somebody's equal job.", registry=self.registry
        )
        self.uploaded_bytes = Counter("ullage_serve_uploaded_bytes", "Bytes of uploads.", registry=self.registry)

    def gauge(self, name: str, means: str, value: Callable[[], float]) -> None:
        """A number that is looked up when it is asked for."""
        Gauge(f"ullage_serve_{name}", means, registry=self.registry).set_function(value)

    def seen(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def page(self) -> bytes:
        """The page that Prometheus scrapes."""
        return generate_latest(self.registry)


class AuditLog:
    """Lines of JSON: when, who, from where, what, and how it ended. Never a header, a body, or a token."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream

    def line(self, **said: Any) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        safe = {name: visible(each)[:200] if isinstance(each, str) else each for name, each in said.items()}
        stream = sys.stderr if self._stream is None else self._stream
        try:
            stream.write(f"{json.dumps({'time': now, **safe}, ensure_ascii=True)}\n")
            stream.flush()
        except OSError:
            # Nobody to hear it is no reason to fail.
            return
