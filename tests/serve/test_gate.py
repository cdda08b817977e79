"""What every request passes: each rule of the gate attacked, on the gate itself around a small application."""

from __future__ import annotations

import asyncio
import io
import ipaddress
import json
import os
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.services import ALICE, BOB, READER, token_file
from ullage.errors import InputError
from ullage.serve.gate import CSP, Gate, RateLimiter
from ullage.serve.problems import TITLES, wrong_input
from ullage.serve.settings import ServeLimits, ServeSettings
from ullage.serve.tokens import Role, TokenTable, TrustedProxy, parse_proxy, read_tokens
from ullage.serve.watch import AuditLog, ServeMetrics

SECRET = "a fault with /etc/shadow in it"


class Sent:
    """One request put to a gate, and its answer."""

    def __init__(self, settings: ServeSettings, **request: Any) -> None:
        self.audit = io.StringIO()
        self.metrics = ServeMetrics()
        self.read = 0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._parts = iter(request.pop("parts", [b""]))
        self._stalls = bool(request.pop("stalls", False))
        gate = request.pop("gate", None) or Gate(_reads_it_all, settings, self.metrics, AuditLog(self.audit))
        asyncio.run(gate(_scope(**request), self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        self.read += 1
        if self._stalls and self.read > 1:
            await asyncio.sleep(60.0)
        part = next(self._parts, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def _send(self, part: MutableMapping[str, Any]) -> None:
        if part["type"] == "http.response.start":
            self.status = part["status"]
            self.headers = {name.decode(): value.decode() for name, value in part["headers"]}
        elif part["type"] == "http.response.body":
            self.body += part["body"]
        else:
            self.status = part["code"]


async def _reads_it_all(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/v1/fault":
        raise ValueError(SECRET)
    while (await receive()).get("more_body"):
        pass
    who = scope["state"]["principal"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"" if who is None else who.name.encode()})


def _scope(
    path: str = "/v1/plan", method: str = "POST", peer: str = "127.0.0.1", kind: str = "http", **headers: str
) -> dict[str, Any]:
    said = {"host": "localhost:8000", **{name.replace("_", "-"): value for name, value in headers.items()}}
    # Several headers of one name stand in one text, one a line.
    encoded = [(name.encode(), each.encode()) for name, value in said.items() for each in value.split("\n")]
    return {"type": kind, "path": path, "method": method, "client": (peer, 1), "headers": encoded}


@pytest.fixture
def settings(tmp_path: Path) -> ServeSettings:
    return ServeSettings(folder=tmp_path, tokens=read_tokens(token_file(tmp_path)))


def test_only_a_known_token_is_let_in(settings: ServeSettings) -> None:
    assert Sent(settings, authorization=f"Bearer {ALICE}").body == b"alice"
    assert Sent(settings, authorization=f"bearer {BOB}").body == b"bob"
    for wrong in ("", f"Bearer {ALICE}x", f"Bearer {ALICE[:-1]}", f"Basic {ALICE}", ALICE, "Bearer ", "Bearer \xff"):
        sent = Sent(settings, authorization=wrong)
        assert (sent.status, sent.headers["www-authenticate"]) == (401, "Bearer"), wrong


def test_who_guesses_tokens_is_slowed_down(settings: ServeSettings) -> None:
    few = replace(settings, limits=ServeLimits(requests_per_s=1e-3, burst_requests=3))
    gate = Gate(_reads_it_all, few, ServeMetrics(), AuditLog(io.StringIO()))
    assert [Sent(few, gate=gate, authorization="Bearer no").status for _ in range(5)] == [401, 401, 401, 429, 429]
    assert Sent(few, gate=gate, authorization=f"Bearer {ALICE}").status == 200


def test_a_token_is_never_written_down(settings: ServeSettings) -> None:
    for token in (ALICE, "a-wrong-token-of-somebody"):
        sent = Sent(settings, authorization=f"Bearer {token}", path="/v1/fault")
        told = sent.audit.getvalue() + sent.body.decode() + sent.metrics.page().decode() + str(sent.headers)
        assert sent.audit.getvalue()
        assert token not in told
        assert SECRET not in told
    assert ALICE not in repr(settings)


def test_reading_is_not_planning(settings: ServeSettings) -> None:
    assert Sent(settings, authorization=f"Bearer {READER}", method="GET").status == 200
    for method in ("POST", "DELETE"):
        assert Sent(settings, authorization=f"Bearer {READER}", method=method).status == 403
    assert Sent(settings, authorization=f"Bearer {ALICE}", method="TRACE").status == 405


def test_another_page_cannot_send_requests(settings: ServeSettings) -> None:
    own = {"authorization": f"Bearer {ALICE}"}
    assert Sent(settings, origin="http://localhost:8000", sec_fetch_site="same-origin", **own).status == 200
    for foreign in ("http://evil.example", "http://localhost:9999", "null", "http://localhost:8000.evil.example"):
        assert Sent(settings, origin=foreign, **own).status == 403, foreign
    for site in ("cross-site", "same-site"):
        assert Sent(settings, sec_fetch_site=site, **own).status == 403
    # A page elsewhere may not even be told that it could ask.
    assert not [name for name in Sent(settings, origin="http://evil.example", **own).headers if "allow-origin" in name]


def test_a_name_that_was_rebound_to_this_machine_is_turned_away(tmp_path: Path) -> None:
    local = ServeSettings(folder=tmp_path)
    assert Sent(local).body == b"local"
    assert Sent(local, host="[::1]:8000").status == 200
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example", ""):
        assert Sent(local, host=host).status == 403, host
    named = replace(local, hosts=("plan.example.org",))
    assert Sent(named, host="Plan.Example.org:443").status == 200


def test_cookies_say_nothing_about_who_asks(settings: ServeSettings) -> None:
    assert Sent(settings, cookie=f"token={ALICE}; authorization=Bearer {ALICE}").status == 401
    assert "set-cookie" not in Sent(settings, authorization=f"Bearer {ALICE}").headers


def test_too_many_requests_are_told_when_to_come_again(settings: ServeSettings) -> None:
    few = replace(settings, limits=ServeLimits(requests_per_s=0.1, burst_requests=2))
    gate = Gate(_reads_it_all, few, ServeMetrics(), AuditLog(io.StringIO()))
    asked = [Sent(few, gate=gate, authorization=f"Bearer {ALICE}") for _ in range(3)]
    assert [each.status for each in asked] == [200, 200, 429]
    assert int(asked[2].headers["retry-after"]) == 10
    assert Sent(few, gate=gate, authorization=f"Bearer {BOB}").status == 200


def test_a_bucket_fills_again_with_time() -> None:
    now = [0.0]
    rates = RateLimiter(ServeLimits(requests_per_s=2.0, burst_requests=4), clock=lambda: now[0])
    assert [rates.take("a") for _ in range(5)] == [None] * 4 + [1]
    now[0] = 1.0
    assert [rates.take("a") for _ in range(3)] == [None, None, 1]
    now[0] = 1000.0
    assert [rates.take("a") is None for _ in range(5)] == [True] * 4 + [False]


def test_a_gigabyte_is_refused_before_a_byte_is_read(settings: ServeSettings) -> None:
    own = {"authorization": f"Bearer {ALICE}", "content_length": str(2**30)}
    for path in ("/v1/uploads", "/v1/plan"):
        sent = Sent(settings, path=path, **own)
        assert (sent.status, sent.read, sent.headers["connection"]) == (413, 0, "close")
    assert Sent(settings, authorization=f"Bearer {ALICE}", content_length="-1").status == 413


def test_a_body_without_a_length_is_counted_as_it_arrives(settings: ServeSettings) -> None:
    part = b"x" * 2**20
    sent = Sent(settings, authorization=f"Bearer {ALICE}", parts=[part] * 1000)
    assert sent.status == 413
    assert sent.read == settings.limits.body_bytes // len(part) + 1


def test_a_body_that_stalls_is_given_up(settings: ServeSettings) -> None:
    quick = replace(settings, limits=ServeLimits(idle_s=0.05))
    assert Sent(quick, authorization=f"Bearer {ALICE}", parts=[b"{"] * 9, stalls=True).status == 408


def test_a_body_that_comes_byte_by_byte_is_given_up(settings: ServeSettings) -> None:
    late = replace(settings, limits=ServeLimits(idle_s=60.0, upload_s=0.0))
    sent = Sent(late, authorization=f"Bearer {ALICE}", parts=[b"{"] * 9)
    assert (sent.status, sent.read) == (408, 1)


def test_a_packed_body_is_not_unpacked(settings: ServeSettings) -> None:
    assert Sent(settings, authorization=f"Bearer {ALICE}", content_encoding="gzip").status == 415


def test_every_answer_has_the_headers_that_keep_scripts_out(settings: ServeSettings) -> None:
    for sent in (Sent(settings), Sent(settings, authorization=f"Bearer {ALICE}"), Sent(settings, path="/healthz")):
        assert sent.headers["content-security-policy"] == CSP
        assert sent.headers["x-content-type-options"] == "nosniff"
        assert sent.headers["cache-control"] == "no-store"
    assert "unsafe" not in CSP
    assert "frame-ancestors 'none'" in CSP


def test_a_socket_is_closed(settings: ServeSettings) -> None:
    assert Sent(settings, kind="websocket").status == 1008


def test_an_audit_line_says_who_did_what(settings: ServeSettings) -> None:
    line = json.loads(Sent(settings, authorization=f"Bearer {ALICE}").audit.getvalue())
    assert {name: line[name] for name in ("who", "method", "status", "peer")} == {
        "who": "alice", "method": "POST", "status": 200, "peer": "127.0.0.1",
    }  # fmt: skip
    assert not Sent(settings, authorization=f"Bearer {ALICE}", method="GET").audit.getvalue()
    assert json.loads(Sent(settings, method="GET").audit.getvalue())["status"] == 401


def test_only_the_proxy_may_say_who_asks(tmp_path: Path) -> None:
    proxy = parse_proxy("X-Forwarded-User", ["10.1.0.0/16"], "read")
    behind = ServeSettings(folder=tmp_path, host="10.1.0.9", proxy=proxy)
    assert Sent(behind, peer="10.1.2.3", x_forwarded_user="carol", method="GET").body == b"proxy:carol"
    assert Sent(behind, peer="10.1.2.3", x_forwarded_user="carol").status == 403
    assert Sent(behind, peer="10.2.2.3", x_forwarded_user="carol", method="GET").status == 401
    assert Sent(behind, peer="10.1.2.3", method="GET").status == 401
    assert proxy == TrustedProxy(
        header="x-forwarded-user", networks=(ipaddress.ip_network("10.1.0.0/16"),), role=Role.READ
    )


def test_a_second_name_beside_the_one_that_the_proxy_gives_is_refused(tmp_path: Path) -> None:
    proxy = parse_proxy("X-Forwarded-User", ["10.1.0.0/16"], "plan")
    behind = ServeSettings(folder=tmp_path, host="10.1.0.9", proxy=proxy)
    for said in ("carol\nadmin", "admin\ncarol", "carol\ncarol"):
        assert Sent(behind, peer="10.1.2.3", x_forwarded_user=said, method="GET").status == 400, said
    assert Sent(behind, peer="10.1.2.3", host="localhost\nevil.example", x_forwarded_user="carol").status == 400


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.3", "example.org"])
def test_another_address_demands_to_know_who_asks(host: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing says who may ask"):
        ServeSettings(folder=tmp_path, host=host)
    assert not ServeSettings(folder=tmp_path, host=host, tokens=read_tokens(token_file(tmp_path))).is_open


def _bad_files() -> Iterator[tuple[str, str]]:
    yield "alice plan short", "fewer than 22"
    yield f"alice admin {ALICE}", "is not a role"
    yield f"alice {ALICE}", "NAME ROLE TOKEN"
    yield f"alice plan {ALICE}\nbob plan {ALICE}", "twice"
    yield f"alice plan {ALICE}\nalice plan {BOB}", "twice"
    yield f"<script> plan {ALICE}", "is not a name"
    yield "# nobody\n", "holds no token"


@pytest.mark.parametrize(("text", "problem"), list(_bad_files()))
def test_a_file_of_tokens_that_is_wrong_is_refused_without_the_token(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(InputError, match=problem) as found:
        read_tokens(file)
    assert ALICE not in str(found.value)


def test_a_file_of_tokens_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = token_file(tmp_path)
    file.chmod(0o644)
    with pytest.raises(InputError, match="can be read by others"):
        read_tokens(file)
    file.chmod(0o640)
    assert read_tokens(file)


def test_every_token_is_compared_whichever_matches() -> None:
    """The loop has no way out before its end, so that the time it takes says nothing."""
    import ast
    import inspect
    import textwrap

    loop = next(
        each
        for each in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(TokenTable.find))))
        if isinstance(each, ast.For)
    )
    assert not [each for each in ast.walk(loop) if isinstance(each, ast.Return | ast.Break | ast.Continue)]
    assert "compare_digest" in ast.unparse(loop)


def test_a_problem_has_the_place_and_the_remedy() -> None:
    error = InputError(
        field="plan.yaml:12: pool.device", value="h300", problem="is not known", fix="Did you mean h200?"
    )
    found = wrong_input(error).document()
    assert {name: found[name] for name in ("file", "line", "key", "value", "problem", "fix", "status")} == {
        "file": "plan.yaml", "line": 12, "key": "pool.device", "value": "h300", "problem": "is not known",
        "fix": "Did you mean h200?", "status": 422,
    }  # fmt: skip
    assert found["detail"] == str(error)
    nowhere = wrong_input(InputError(field="--rate", value=-1, problem="must be positive", fix="Give more.")).document()
    assert (nowhere["key"], "line" in nowhere) == ("--rate", False)


def test_what_a_problem_repeats_is_harmless() -> None:
    hostile = "a\x1b[31m\n\u202e" + "x" * 10_000
    found = wrong_input(InputError(field="service", value=hostile, problem="is odd", fix="Change it.")).document()
    assert "\x1b" not in found["value"]
    assert len(found["value"]) <= 2000
    assert all(400 <= status < 600 for status, _ in TITLES.values())


def test_it_works_on_the_cores_that_it_may_use(tmp_path: Path) -> None:
    own = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(own)})
        assert ServeSettings(folder=tmp_path).workers == 1
    finally:
        os.sched_setaffinity(0, own)
    assert ServeSettings(folder=tmp_path).workers == len(own)
