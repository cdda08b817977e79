"""Range queries over HTTP: in chunks, with patience, and with every part that is missing named.

A server takes at most 11,000 points a query, and long ones cost it dearly, so that a stretch is asked for a week at a
time. What fails for a while (no connection, 429, 5xx) is asked again, later every time; a chunk that fails to the end
is a gap with a name, and only where every chunk fails is there no answer.
"""

from __future__ import annotations

import datetime
import email.utils
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from ullage.errors import InputError
from ullage.readers.prometheus.settings import HttpSettings

MOST_POINTS = 10_000
CHUNK_S = 7 * 86_400.0
MOST_BYTES = 256 * 2**20
_PAUSE_S, _MOST_PAUSE_S = 0.5, 30.0
# The time-out is between two pieces of an answer. One that trickles in is given up after so many of them.
_WHOLE_RATIO = 4.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class RangeSeries:
    """One series of an answer: its labels, times in seconds since 1970, and values."""

    labels: Mapping[str, str]
    times_s: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class RangeAnswer:
    """What a range query gave. `missing_s` are spans without an answer; `warnings` are the server's own."""

    series: tuple[RangeSeries, ...]
    missing_s: tuple[tuple[float, float], ...] = ()
    warnings: tuple[str, ...] = ()


class PrometheusClient:
    """A server. `pause` waits between attempts, `now` is the clock that the server's is compared with."""

    def __init__(
        self,
        address: str,
        settings: HttpSettings,
        *,
        pause: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not address.startswith(("http://", "https://")):
            fix = "Give for example http://prometheus:9090."
            raise InputError(field="--prometheus", value=address, problem="is not an http address", fix=fix)
        self.address = address.rstrip("/")
        self._settings = settings
        self._pause = pause
        self.clock_ahead_s: float | None = None
        self._client = httpx.Client(
            headers=dict(settings.headers),
            auth=settings.basic,
            verify=_context(settings),
            follow_redirects=settings.follows,
            timeout=httpx.Timeout(settings.timeout_s, connect=min(10.0, settings.timeout_s)),
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def names(self, *, start_s: float, end_s: float) -> frozenset[str] | None:
        """Metrics that the server has in this stretch; None where it does not say."""
        try:
            found = self._ask("/api/v1/label/__name__/values", {"start": str(start_s), "end": str(end_s)})
        except (InputError, httpx.HTTPError):
            return None
        data = found.get("data")
        return frozenset(str(each) for each in data) if isinstance(data, list) and data else None

    def range(self, query: str, *, start_s: float, end_s: float, step_s: float) -> RangeAnswer:
        """Values at the ends of steps: at start + step, ..., end."""
        parts: dict[tuple[tuple[str, str], ...], tuple[list[float], list[float]]] = {}
        missing, warnings, failed = [], list[str](), None
        chunks = _chunks(start_s + step_s, end_s, step_s)
        for first, last in chunks:
            asked = {"query": query, "start": repr(first), "end": repr(last), "step": repr(step_s)}
            try:
                answer = self._ask("/api/v1/query_range", asked)
            except httpx.HTTPError as error:
                missing.append((first - step_s, last))
                failed = error
                continue
            warnings += [str(each) for each in answer.get("warnings") or ()]
            for each in matrix(answer, where=f"{self.address}: {query}"):
                times, values = parts.setdefault(tuple(sorted(each.labels.items())), ([], []))
                # A server, or a cache before it, that answers for other times than were asked is not followed.
                asked_for = [(at, value) for at, value in _pairs(each) if first - step_s < at < last + step_s]
                if len(asked_for) < len(each.times_s):
                    warnings.append("values at times that were not requested were left out")
                times.extend(at for at, _ in asked_for)
                values.extend(value for _, value in asked_for)
        if failed is not None and len(missing) == len(chunks):
            raise self._unreached(failed)
        series = tuple(
            RangeSeries(labels=dict(labels), times_s=tuple(times), values=tuple(values))
            for labels, (times, values) in sorted(parts.items())
        )
        return RangeAnswer(series=series, missing_s=tuple(missing), warnings=tuple(dict.fromkeys(warnings)))

    def _ask(self, path: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """One request, asked again while that may help; what the server refuses is an InputError at once."""
        for attempt in range(self._settings.retries + 1):
            last = attempt == self._settings.retries
            try:
                response = self._send(path, asked)
            except (httpx.TransportError, httpx.TooManyRedirects):
                if last:
                    raise
                self._pause(_backoff_s(attempt, None))
                continue
            self._hear_clock(response)
            if response.status_code in _AGAIN:
                if last:
                    response.raise_for_status()
                self._pause(_backoff_s(attempt, response.headers.get("Retry-After")))
                continue
            return self._document(response)
        raise AssertionError("the last attempt returns or raises")

    def _send(self, path: str, asked: Mapping[str, str]) -> httpx.Response:
        """A query may be longer than an address, so that it is posted."""
        extensions = {"sni_hostname": self._settings.server_name} if self._settings.server_name else {}
        if "query" in asked:
            sent = self._client.stream("POST", f"{self.address}{path}", data=dict(asked), extensions=extensions)
        else:
            sent = self._client.stream("GET", f"{self.address}{path}", params=dict(asked), extensions=extensions)
        until_s = time.monotonic() + _WHOLE_RATIO * self._settings.timeout_s
        with sent as response:
            pieces, size_bytes = [], 0
            for piece in response.iter_raw():
                pieces.append(piece)
                size_bytes += len(piece)
                if size_bytes > MOST_BYTES:
                    break
                if time.monotonic() > until_s:
                    raise httpx.ReadTimeout("the answer trickled in and did not end", request=response.request)
        return httpx.Response(
            response.status_code, headers=response.headers, content=b"".join(pieces), request=response.request
        )

    def _document(self, response: httpx.Response) -> dict[str, Any]:
        if response.status_code in (401, 403):
            fix = "Give credentials in --http-config: authorization, basic_auth, tls_config or http_headers."
            problem = f"refuses us (HTTP {response.status_code})"
            raise InputError(field="--prometheus", value=self.address, problem=problem, fix=fix)
        if len(response.content) > MOST_BYTES:
            problem = f"answered with {len(response.content)} bytes"
            raise InputError(field=self.address, value=MOST_BYTES, problem=problem, fix="Select fewer series.")
        try:
            found = response.json()
        except (ValueError, RecursionError):
            problem = f"does not answer as Prometheus does (HTTP {response.status_code})"
            fix = "Give the address up to where /api/v1 begins; Mimir has /prometheus in it."
            raise InputError(field="--prometheus", value=self.address, problem=problem, fix=fix) from None
        if not isinstance(found, dict) or found.get("status") != "success":
            said = found.get("error") if isinstance(found, dict) else None
            problem = f"refuses the query: {said or response.status_code}"
            fix = "Check the address, --names and the selector."
            raise InputError(field="--prometheus", value=self.address, problem=problem, fix=fix)
        return found

    def _hear_clock(self, response: httpx.Response) -> None:
        try:
            said = email.utils.parsedate_to_datetime(response.headers.get("Date", ""))
        except ValueError:
            return
        # A date without a zone is in UTC, as HTTP has it.
        there = said if said.tzinfo is not None else said.replace(tzinfo=datetime.UTC)
        self.clock_ahead_s = (there - datetime.datetime.now(tz=datetime.UTC)).total_seconds()

    def _unreached(self, error: httpx.HTTPError) -> InputError:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        fix = "Check the address, the network and the time-out in --http-config."
        return InputError(field="--prometheus", value=self.address, problem=f"cannot be reached ({said})", fix=fix)


def matrix(answer: Mapping[str, Any], *, where: str) -> list[RangeSeries]:
    """The series of a query_range answer; what is none is an InputError."""
    data = answer.get("data")
    result = data.get("result") if isinstance(data, Mapping) else None
    if not isinstance(result, list) or not isinstance(data, Mapping) or data.get("resultType", "matrix") != "matrix":
        problem = "is not the answer to a range query"
        raise InputError(field=where, value=str(answer)[:40], problem=problem, fix="Ask /api/v1/query_range.")
    try:
        return [
            RangeSeries(
                labels={str(key): str(value) for key, value in each.get("metric", {}).items()},
                times_s=tuple(float(at) for at, _ in each["values"]),
                values=tuple(float(value) for _, value in each["values"]),
            )
            for each in result
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"has a series that is not times and values ({error})"
        raise InputError(field=where, value=str(result)[:40], problem=problem, fix="Give the answer whole.") from None


def _pairs(series: RangeSeries) -> Sequence[tuple[float, float]]:
    return list(zip(series.times_s, series.values, strict=True))


def _chunks(first_s: float, last_s: float, step_s: float) -> Sequence[tuple[float, float]]:
    """Stretches of at most so many points and so many days, each beginning a step after the one before."""
    points = max(1, min(MOST_POINTS, int(CHUNK_S / step_s)))
    count = round((last_s - first_s) / step_s) + 1
    return [(first_s + at * step_s, first_s + (min(at + points, count) - 1) * step_s) for at in range(0, count, points)]


def _backoff_s(attempt: int, retry_after: str | None) -> float:
    """Twice as long every time; what the server asks for where that is longer, within reason."""
    own = min(_MOST_PAUSE_S, _PAUSE_S * 2.0**attempt)
    try:
        return min(_MOST_PAUSE_S, max(own, float(retry_after or 0.0)))
    except ValueError:
        return own


def _context(settings: HttpSettings) -> ssl.SSLContext | bool:
    if not settings.verifies:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        try:
            context = ssl.create_default_context(cafile=settings.ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise _bad_certificate("ca_file", settings.ca_file, error) from None
    if settings.certificate is not None:
        certificate, key = settings.certificate
        try:
            context.load_cert_chain(certificate, key or None)
        except (OSError, ssl.SSLError) as error:
            raise _bad_certificate("cert_file", certificate, error) from None
    return context


def _bad_certificate(key: str, file: str, error: Exception) -> InputError:
    return InputError(field=f"tls_config.{key}", value=file, problem=f"cannot be used ({error})", fix="Check the file.")
