"""The client against a real HTTP server that fails in the ways servers do, and against a real Prometheus."""

from __future__ import annotations

import base64
import datetime
import json
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from support.prometheus import prometheus
from ullage.errors import InputError
from ullage.readers.prometheus.client import CHUNK_S, PrometheusClient
from ullage.readers.prometheus.observe import client_of, observe_server
from ullage.readers.prometheus.settings import HttpSettings, MetricNames
from ullage.reconcile.observation import NoteKind, ObservedQuantity

DAY_S = 86_400.0
Reply = Callable[[str, dict[str, str], dict[str, str]], tuple[int, dict[str, str], bytes]]


def line(asked: dict[str, str]) -> bytes:
    """A series whose value is its time, at every point that was asked for."""
    start, end, step = (float(asked[each]) for each in ("start", "end", "step"))
    times = np.arange(round((end - start) / step) + 1) * step + start
    values = [[at, str(at)] for at in times.tolist()]
    result = [{"metric": {}, "values": values}]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


@contextmanager
def serving(reply: Reply) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that answers by a function; its address, and all that it was asked."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.answer(dict(urllib.parse.parse_qsl(body)))

        def do_GET(self) -> None:
            self.answer(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query)))

        def answer(self, values: dict[str, str]) -> None:
            asked.append(values)
            code, headers, body = reply(self.path, values, dict(self.headers.items()))
            self.send_response_only(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def client(address: str, settings: HttpSettings | None = None) -> Iterator[tuple[PrometheusClient, list[float]]]:
    pauses: list[float] = []
    made = PrometheusClient(address, settings or HttpSettings(), pause=pauses.append)
    try:
        yield made, pauses
    finally:
        made.close()


def test_a_long_stretch_is_asked_in_chunks_that_miss_and_repeat_nothing() -> None:
    with serving(lambda _p, asked, _h: (200, {}, line(asked))) as (address, asked), client(address) as (made, _):
        found = made.range("x", start_s=0.0, end_s=30 * DAY_S, step_s=300.0)
    (series,) = found.series
    assert series.times_s == tuple(300.0 * np.arange(1, 30 * 288 + 1))
    assert len(asked) == 5
    assert all(float(each["end"]) - float(each["start"]) < CHUNK_S for each in asked)


def test_what_fails_for_a_while_is_asked_again_later_every_time() -> None:
    failures = iter([503, 429, 500])

    def reply(_path: str, asked: dict[str, str], _headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        code = next(failures, 200)
        return (code, {"Retry-After": "7"} if code == 429 else {}, b"" if code != 200 else line(asked))

    with serving(reply) as (address, asked), client(address) as (made, pauses):
        found = made.range("x", start_s=0.0, end_s=600.0, step_s=60.0)
    assert len(found.series[0].values) == 10
    assert len(asked) == 4
    assert pauses == [0.5, 7.0, 2.0]


def test_a_chunk_that_never_comes_is_a_gap_with_a_name() -> None:
    def reply(_path: str, asked: dict[str, str], _headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return (502, {}, b"") if float(asked["start"]) > 6 * DAY_S else (200, {}, line(asked))

    with serving(reply) as (address, _), client(address, HttpSettings(retries=1)) as (made, _pauses):
        found = made.range("x", start_s=0.0, end_s=14 * DAY_S, step_s=3600.0)
    assert found.missing_s == ((7 * DAY_S, 14 * DAY_S),)
    assert len(found.series[0].values) == 7 * 24


def test_a_server_that_is_not_there_is_named_after_patience() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with (
        client(address, HttpSettings(retries=2)) as (made, pauses),
        pytest.raises(InputError, match="cannot be reached"),
    ):
        made.range("x", start_s=0.0, end_s=600.0, step_s=60.0)
    assert pauses == [0.5, 1.0]


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [
        (401, b"", "refuses us"),
        (400, b'{"status": "error", "error": "exceeded maximum resolution"}', "exceeded maximum resolution"),
        (200, b"<html>hello", "does not answer as Prometheus"),
        (404, b"not here", "does not answer as Prometheus"),
        (200, b'{"status": "success", "data": {"resultType": "scalar", "result": []}}', "not the answer to a range"),
        (200, b'{"status": "success", "data": {"result": [{"values": 3}]}}', "not times and values"),
    ],
)
def test_an_answer_that_is_none_is_an_error_at_once(code: int, body: bytes, said: str) -> None:
    with (
        serving(lambda *_: (code, {}, body)) as (address, asked),
        client(address) as (made, pauses),
        pytest.raises(InputError, match=said),
    ):
        made.range("x", start_s=0.0, end_s=600.0, step_s=60.0)
    assert len(asked) == 1
    assert pauses == []


def test_credentials_and_the_tenant_reach_the_server() -> None:
    seen: list[dict[str, str]] = []

    def reply(_path: str, asked: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        seen.append({name.lower(): value for name, value in headers.items()})
        return 200, {}, line(asked)

    with serving(reply) as (address, _):
        for settings in (
            HttpSettings(headers={"Authorization": "Bearer token", "X-Scope-OrgID": "team"}),
            HttpSettings(basic=("me", "secret")),
        ):
            with client(address, settings) as (made, _):
                made.range("x", start_s=0.0, end_s=60.0, step_s=60.0)
    assert seen[0]["authorization"] == "Bearer token"
    assert seen[0]["x-scope-orgid"] == "team"
    assert seen[1]["authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()


def test_a_partial_answer_and_a_lying_clock_are_named() -> None:
    late = (datetime.datetime.now(tz=datetime.UTC) + datetime.timedelta(hours=2)).strftime("%a, %d %b %Y %H:%M:%S GMT")

    def reply(path: str, asked: dict[str, str], _headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/api/v1/label"):
            return 200, {}, b'{"status": "success", "data": ["http_requests_total"]}'
        found = json.loads(line(asked))
        found["warnings"] = ["store 3 did not answer"]
        return 200, {"Date": late}, json.dumps(found).encode()

    with serving(reply) as (address, _), client(address) as (made, _pauses):
        found = observe_server(made, MetricNames(), start_s=0.0, end_s=3600.0)
    assert any(each.kind is NoteKind.PARTIAL and "store 3" in each.what for each in found.notes)
    assert any(each.kind is NoteKind.CLOCK and "from this machine's" in each.what for each in found.notes)


def test_a_name_that_is_no_address_and_a_certificate_that_is_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an http address"):
        PrometheusClient("prometheus:9090", HttpSettings())
    with pytest.raises(InputError, match="cannot be used"):
        PrometheusClient("https://x", HttpSettings(ca_file=str(tmp_path / "none.pem")))


def samples(start_s: float) -> Iterator[str]:
    """Twelve hours of two replicas scraped each minute: a reset at six hours, a rename at eight, a hole of an hour."""
    times = start_s + 60.0 * np.arange(721)

    def seen(minute: int) -> bool:
        return not 180 < minute <= 240

    yield "# TYPE http_requests counter\n"
    for pod in (0, 1):
        for minute, at in enumerate(times):
            count = 30 * minute if minute <= 360 or pod else 30 * (minute - 361)
            if seen(minute):
                yield f'http_requests_total{{handler="/v1/chat",product="web",pod="{pod}"}} {count} {at:.0f}\n'
    for name, first, last in (("vllm:gpu_cache_usage_perc", 0, 480), ("vllm:kv_cache_usage_perc", 481, 720)):
        yield f"# TYPE {name} gauge\n"
        for minute, at in enumerate(times):
            if first <= minute <= last and seen(minute):
                yield f'{name}{{pod="0"}} 0.5 {at:.0f}\n'
    yield "# TYPE vllm:num_requests_running gauge\n"
    for pod in (0, 1):
        yield from (
            f'vllm:num_requests_running{{pod="{pod}"}} 4 {at:.0f}\n' for minute, at in enumerate(times) if seen(minute)
        )
    # It went away with the hole, and came back as another process.
    yield "# TYPE process_start_time_seconds gauge\n"
    for minute, at in enumerate(times):
        if seen(minute):
            began_s = start_s if minute <= 180 else start_s + 200 * 60.0
            yield f'process_start_time_seconds{{pod="0"}} {began_s:.0f} {at:.0f}\n'
    name = "vllm:time_to_first_token_seconds"
    yield f"# TYPE {name} histogram\n"
    for edge, each in (("0.1", 15), ("0.25", 27), ("+Inf", 30)):
        yield from (
            f'{name}_bucket{{le="{edge}"}} {each * minute} {at:.0f}\n'
            for minute, at in enumerate(times)
            if seen(minute)
        )
    yield from (f"{name}_count {30 * minute} {at:.0f}\n" for minute, at in enumerate(times) if seen(minute))
    yield from (f"{name}_sum {4.5 * minute} {at:.0f}\n" for minute, at in enumerate(times) if seen(minute))
    yield "# EOF\n"


def test_a_real_prometheus_gives_what_was_put_in(tmp_path: Path) -> None:
    start_s = 1_760_000_400.0
    names = MetricNames(label="product", classes={"chat": "web"})
    with prometheus(tmp_path, samples(start_s)) as address, client_of(address, HttpSettings()) as made:
        found = observe_server(made, names, start_s=start_s, end_s=start_s + 12 * 3600.0)
    assert (found.step_s, found.steps) == (60.0, 720)
    rate = found.rate_rps(ObservedQuantity.ARRIVALS)
    assert np.nanmedian(rate) == pytest.approx(1.0, rel=0.02)
    assert np.isnan(rate[185:235]).all()
    assert found.level(ObservedQuantity.REPLICAS) == pytest.approx(2.0, rel=0.02)
    assert found.total(ObservedQuantity.RESTARTS) == 1.0
    # No request failed, so that the engine has no series of failures; that is none, and not unknown.
    assert found.total(ObservedQuantity.FAILURES) == 0.0
    assert found.level(ObservedQuantity.RUNNING) == pytest.approx(8.0)
    assert found.level(ObservedQuantity.KV_USE) == pytest.approx(0.5)
    assert np.nanmedian(found.arrivals_by_class["chat"]) == pytest.approx(60.0, rel=0.02)
    ttft = found.latency(ObservedQuantity.TTFT)
    assert ttft is not None
    assert ttft.mean_s == pytest.approx(0.15, rel=0.01)
    bounds = ttft.quantile_s(0.7)
    assert bounds is not None
    assert (bounds.low, bounds.high) == (0.1, 0.25)
    kinds = {each.kind: each for each in found.notes if each.quantity in ("arrivals", "kv_use")}
    assert "reset 1 times" in kinds[NoteKind.RESET].what
    assert NoteKind.GAP in kinds
    assert "vllm:gpu_cache_usage_perc" in kinds[NoteKind.RENAMED].what


@pytest.mark.slow
def test_promql_of_every_query_is_taken_by_a_real_prometheus(tmp_path: Path) -> None:
    from ullage.readers.prometheus.observe import queries
    from ullage.readers.prometheus.steps import StepGrid

    asked = queries(MetricNames(selector='namespace="prod"'), StepGrid(start_s=0.0, step_s=3600.0, steps=2))
    with prometheus(tmp_path, samples(1_760_000_400.0)) as address, client_of(address, HttpSettings()) as made:
        for _, query in asked:
            assert made.range(query, start_s=0.0, end_s=7200.0, step_s=3600.0).series == ()
