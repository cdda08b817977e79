"""`ullage measure` from the address to the changed plan: a load tool is a process, and stands in for the real one."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from support.measured_worlds import plan_file
from ullage import verbs
from ullage.cli.app import run as ullage
from ullage.errors import ExitCode, InputError
from ullage.load.evidence import read_calibration
from ullage.loadtools.endpoint import parse_endpoint, served_models
from ullage.loadtools.installed import find_tool
from ullage.verbs.measure import MeasureAnswer, MeasureBound

TOOL = Path(__file__).resolve().parents[1] / "support" / "fake_load_tool.py"


class _Endpoint(BaseHTTPRequestHandler):
    """An endpoint that serves one model, and answers a completion with one token as a stream."""

    def do_GET(self) -> None:
        if self.path == "/moved/v1/models":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.2:1/v1/models")
            self.end_headers()
            return
        self._say(json.dumps({"object": "list", "data": [{"id": "tiny"}]}).encode(), "application/json")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(b'data: {"choices": [{"text": "a"}]}\n\ndata: [DONE]\n\n', "text/event-stream")

    def _say(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plan file, and a tool called vllm on the PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "vllm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{TOOL}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan_file("20 req/s"), sort_keys=False))
    return tmp_path


def calls(place: Path) -> list[str]:
    return (place / "calls").read_text().splitlines()


@pytest.mark.slow
def test_from_an_address_to_a_changed_plan_file(
    place: Path, endpoint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second test's tool goes wrong: its time is spent, what it said is kept, and the next call goes on.
    monkeypatch.setenv("FAIL_AT", "2")
    asked = ["measure", endpoint, "--plan", str(place / "plan.yaml"), "--folder", str(place / "out"), "--within", "0"]
    assert ullage([*asked, "--most-requests", "2500"]) == ExitCode.UNDECIDED
    page = capsys.readouterr().out
    assert "the engine went away" in page
    kept = json.loads((place / "out" / "measure.json").read_text())
    assert [each["status"] for each in kept["tests"]] == ["done", "failed"]
    assert len(calls(place)) == 2

    # What failed was sent, so that its requests are spent: the bound is of both tries together.
    found = verbs.measure(
        endpoint, plan=place / "plan.yaml", folder=place / "out", within=0, bound=MeasureBound(requests=3200)
    )
    assert isinstance(found, MeasureAnswer)
    assert len(found.rows) == len(calls(place)) - 1 >= 2
    assert {each.split()[0] for each in calls(place)} == {endpoint}
    assert {each.split()[-1] for each in calls(place)} == {"1"}, "model hubs are switched off"
    assert found.rows[-1].slow_ratio < found.before.slow_ratio
    assert found.spent.requests <= found.bound.requests
    # What is left is evidence that a plan takes, and the diff says so.
    evidence = read_calibration(Path(found.calibration))
    assert evidence.configuration["device"] == "h100-sxm"
    assert "+evidence: {calibrations: [out/calibration.json]}" in found.diff
    assert (place / "out" / "plan.diff").read_text() == found.diff
    (place / "plan.yaml").write_text(
        (place / "plan.yaml").read_text() + "evidence: {calibrations: [out/calibration.json]}\n"
    )
    again = verbs.measure(endpoint, plan=place / "plan.yaml", folder=place / "out", bound=MeasureBound(requests=3200))
    assert isinstance(again, MeasureAnswer)
    assert [each.replicas for each in again.rows][: len(found.rows)] == [each.replicas for each in found.rows]


def test_a_measurement_of_something_else_is_not_gone_on_with(place: Path, endpoint: str) -> None:
    asked = {"plan": place / "plan.yaml", "folder": place / "out"}
    small = MeasureBound(requests=1)
    found = verbs.measure(endpoint, bound=small, **asked)  # type: ignore[arg-type]
    assert isinstance(found, MeasureAnswer)
    assert "requests" in found.stopped
    assert not found.rows
    state = {"schema": "ullage.measure-state/1", "url": "http://other:1", "tool": "vllm", "model": "tiny", "pool": ""}
    (place / "out" / "measure.json").write_text(json.dumps(state))
    with pytest.raises(InputError, match="another measurement"):
        verbs.measure(endpoint, bound=small, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["ftp://host", "http://", "http://user:word@host:80", "http://host:80/v1/chat", "http://host:port", "host"]
)
def test_an_address_that_is_not_one_host_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="URL"):
        parse_endpoint(url)


def test_a_redirect_is_not_followed(endpoint: str) -> None:
    assert served_models(endpoint) == ("tiny",)
    with pytest.raises(InputError, match="does not answer"):
        served_models(f"{endpoint}/moved")


def test_a_tool_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="guidellm, vllm, aiperf"):
        find_tool()
    with pytest.raises(InputError, match="is not installed"):
        find_tool("aiperf")
    with pytest.raises(InputError, match="is not one of"):
        find_tool("wrk")
