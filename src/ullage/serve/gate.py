"""What every request passes before a route sees it, in this order: the name it calls us by, who asks, where from,
whether they may, how often, how much, how slowly. What every answer gets on its way out: headers, a count, a line."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ullage.serve.problems import MEDIA_TYPE, ProblemError, ServedProblem, internal
from ullage.serve.settings import ServeLimits, ServeSettings
from ullage.serve.tokens import LOCAL, Principal
from ullage.serve.watch import AuditLog, ServeMetrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SAFE = ("GET", "HEAD", "OPTIONS")
_METHODS = (*_SAFE, "POST", "DELETE")
# Whoever may load the page or ask whether we live says nothing about who they are.
_OPEN = ("/healthz", "/readyz", "/openapi.json", "/docs")
_MOST_PRINCIPALS = 10_000
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class RateLimiter:
    """A bucket for each principal: so many requests at once, and so many a second after that."""

    def __init__(self, limits: ServeLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> int | None:
        """Seconds to wait, or None where the request may pass."""
        limits, now = self._limits, self._clock()
        left, seen = self._buckets.pop(name, (float(limits.burst_requests), now))
        left = min(limits.burst_requests, left + (now - seen) * limits.requests_per_s)
        passes = left >= 1.0
        self._buckets[name] = (left - 1.0 if passes else left, now)
        while len(self._buckets) > _MOST_PRINCIPALS:
            self._buckets.popitem(last=False)
        return None if passes else max(1, round((1.0 - left) / limits.requests_per_s + 0.5))


class Gate:
    """The chain around the routes, as one ASGI application."""

    def __init__(self, app: App, settings: ServeSettings, metrics: ServeMetrics, audit: AuditLog) -> None:
        self.routes = app
        self._settings, self._metrics, self._audit = settings, metrics, audit
        self._rates = RateLimiter(settings.limits)
        # Who guesses tokens is slowed down by where they come from.
        self._strangers = RateLimiter(settings.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.routes(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun_s, status = time.perf_counter(), 0
        given = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        headers = dict(given)

        async def sent(part: MutableMapping[str, Any]) -> None:
            nonlocal status
            if part["type"] == "http.response.start":
                status = part["status"]
                part["headers"] = [*part.get("headers", ()), *_added(part.get("headers", ()))]
            await send(part)

        body = _Body(receive, self._settings.limits, self._most_bytes(scope["path"]))
        try:
            self._check_once(given)
            self._admit(scope, headers)
            body.check_length(headers)
            await self.routes(scope, body.receive, sent)
        except ProblemError as error:
            if not status:
                await _send_problem(sent, error.problem)
        except Exception as error:  # noqa: BLE001 - the last resort: a problem, never a traceback
            if not status:
                await _send_problem(sent, internal(error))
        finally:
            self._note(scope, status or 499, time.perf_counter() - begun_s)

    def _most_bytes(self, path: str) -> int:
        limits = self._settings.limits
        return limits.upload_bytes if path == "/v1/uploads" else limits.body_bytes

    def _admit(self, scope: Scope, headers: Mapping[str, str]) -> None:
        settings, method, path = self._settings, scope["method"], scope["path"]
        self._check_host(headers)
        if method not in _METHODS:
            raise ProblemError("wrong-method", f"{_METHODS} are the methods there are.")
        peer = (scope.get("client") or ("", 0))[0]
        principal = self._principal(peer, headers)
        scope.setdefault("state", {})["principal"] = principal
        if method not in _SAFE:
            _check_origin(headers)
        if principal is None:
            if path in _OPEN or not path.startswith(("/v1", "/metrics")):
                return
            wait_s = self._strangers.take(f"peer:{peer}")
            if wait_s is not None:
                raise ProblemError("too-many", "Too many requests without a token.", retry_after_s=wait_s)
            raise ProblemError("no-token", "Send Authorization: Bearer, with a token that this service knows.")
        if method not in _SAFE and not principal.may_plan:
            raise ProblemError("not-allowed", f"{principal.name} may read, and not plan.")
        wait_s = None if path in _OPEN else self._rates.take(principal.name)
        if wait_s is not None:
            detail = f"More than {settings.limits.requests_per_s:g} requests a second. Ask again in {wait_s} s."
            raise ProblemError("too-many", detail, retry_after_s=wait_s)

    def _check_once(self, given: Sequence[tuple[str, str]]) -> None:
        """Who asks stands there once: beside a proxy's own header a client's would be a second name to choose from."""
        proxy = self._settings.proxy
        for name in ("authorization", "host", *(() if proxy is None else (proxy.header,))):
            if sum(1 for each, _ in given if each == name) > 1:
                raise ProblemError("not-understood", f"There is more than one header {name}.")

    def _check_host(self, headers: Mapping[str, str]) -> None:
        """Only by its own names: a page elsewhere whose name was rebound to this address is turned away."""
        if self._settings.checks_hosts and _host(headers.get("host", "")) not in self._settings.known_hosts:
            raise ProblemError("not-allowed", "This service does not go by the name in the Host header.")

    def _principal(self, peer: str, headers: Mapping[str, str]) -> Principal | None:
        settings = self._settings
        if settings.is_open:
            return LOCAL
        found = settings.tokens.find(headers.get("authorization", ""))
        if found is None and settings.proxy is not None:
            return settings.proxy.find(peer, headers.get(settings.proxy.header))
        return found

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count every request by its route's pattern, and write down those that ask for something to be done."""
        state = scope.get("state", {})
        route = getattr(scope.get("route"), "path", None) or "other"
        self._metrics.seen(route, scope["method"] if scope["method"] in _METHODS else "other", status, seconds)
        if scope["method"] in _SAFE and (status < 400 or scope["path"] in _OPEN):
            return
        principal = state.get("principal")
        self._audit.line(
            who=None if principal is None else principal.name,
            peer=(scope.get("client") or ("",))[0],
            method=scope["method"],
            route=route,
            status=status,
            ms=round(1000.0 * seconds),
            **state.get("audit", {}),
        )


class _Body:
    """A request's body, counted and timed as it arrives."""

    def __init__(self, receive: Receive, limits: ServeLimits, most_bytes: int) -> None:
        self._receive, self._idle_s, self._most_bytes = receive, limits.idle_s, most_bytes
        self._until_s = time.monotonic() + limits.upload_s
        self._bytes = 0
        self._has_ended = False

    def check_length(self, headers: Mapping[str, str]) -> None:
        """Refuse by what the request says of itself, before a byte of it is read."""
        said = headers.get("content-length", "0")
        if not said.isdigit() or int(said) > self._most_bytes:
            raise ProblemError("too-large", f"It is longer than {self._most_bytes} bytes.")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise ProblemError("wrong-type", "Send it without Content-Encoding; uploads may be gzip files.")

    async def receive(self) -> MutableMapping[str, Any]:
        if self._has_ended:
            # Only the end of the connection is still to come, and that may take as long as it likes.
            return await self._receive()
        left_s = self._until_s - time.monotonic()
        try:
            async with asyncio.timeout(min(self._idle_s, left_s)):
                part = await self._receive()
        except TimeoutError:
            raise ProblemError("too-slow", f"Nothing arrived for {self._idle_s:g} s.") from None
        if left_s < 0.0:
            raise ProblemError("too-slow", "It did not arrive in time, a byte now and then.")
        self._bytes += len(part.get("body", b""))
        if self._bytes > self._most_bytes:
            raise ProblemError("too-large", f"It is longer than {self._most_bytes} bytes.")
        self._has_ended = part["type"] != "http.request" or not part.get("more_body", False)
        return part


def _check_origin(headers: Mapping[str, str]) -> None:
    """A browser says which page sends; only our own may. There are no cookies that another page could ride on."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    own = headers.get("host", "").lower()
    if (origin is not None and urlsplit(origin).netloc.lower() != own) or site not in ("none", "same-origin"):
        raise ProblemError("not-allowed", "Another page may not send requests to this service.")


def _host(value: str) -> str:
    """The name without its port.

    >>> _host("Localhost:8000"), _host("[::1]:8000"), _host("example.org")
    ('localhost', '[::1]', 'example.org')
    """
    text = value.strip().lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]


def _added(known: Any) -> list[tuple[bytes, bytes]]:
    names = {name.lower() for name, _ in known}
    added = {**HEADERS, "cache-control": "no-store"}
    return [(name.encode(), value.encode()) for name, value in added.items() if name.encode() not in names]


async def _send_problem(send: Send, problem: ServedProblem) -> None:
    body = problem.body()
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "connection": "close", **problem.headers}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
