"""The service as clients meet it: a process of its own, asked over HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from typing import Any

import httpx
import pytest
import yaml

from support.services import ALICE, BOB, READER, RunningService
from ullage import verbs
from ullage.cli.help import VERBS
from ullage.report.encode import to_text
from ullage.serve.requests import REQUESTS

AS_OF = "2026-11-15"
TRACE = "arrival_s,prompt_tokens,output_tokens\n" + "".join(
    f"{0.5 * n},{100 + n % 50},{20 + n % 30}\n" for n in range(999)
)


@pytest.fixture
def client(service: RunningService) -> Any:
    with service.client() as found:
        yield found


def upload(client: httpx.Client, content: str | bytes = TRACE, name: str = "trace.csv") -> str:
    stored = client.post("/v1/uploads", params={"name": name}, content=content)
    assert stored.status_code == 201, stored.text
    return str(stored.json()["upload"])


def ended(client: httpx.Client, job: str, seconds: float = 120.0) -> dict[str, Any]:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        found: dict[str, Any] = client.get(f"/v1/jobs/{job}").json()
        if found["state"] not in ("queued", "running"):
            return found
        time.sleep(0.1)
    raise AssertionError(found)


# ---- verbs ------------------------------------------------------------------------------------------------------


def test_every_verb_is_served() -> None:
    # A report is a page around the JSON of a plan; the live page makes it itself. A portfolio is a folder of files, and
    # measuring sends requests to a host.
    assert set(REQUESTS) == set(VERBS) - {"report", "measure", "portfolio"}


def test_an_answer_is_the_bytes_that_the_command_line_prints(client: httpx.Client) -> None:
    asked = {"model": "llama-3.1-8b", "device": "h100-sxm", "as_of": AS_OF}
    found = client.post("/v1/memory", json=asked)
    assert found.status_code == 200
    import datetime

    said = verbs.memory("llama-3.1-8b", device="h100-sxm", as_of=datetime.date.fromisoformat(AS_OF))
    assert found.text == to_text(said.to_dict())


def test_simulate_takes_what_the_command_line_takes(client: httpx.Client) -> None:
    asked = {
        "model": "llama-3.1-8b", "device": "h100-sxm", "prompt_tokens": 400, "output_tokens": 40, "rate": "4 req/s",
        "span": "20s", "as_of": AS_OF,
    }  # fmt: skip
    apart = client.post("/v1/simulate", json={**asked, "prefill": "1", "transfer": "50GB/s:30%"})
    assert apart.status_code == 200, apart.text
    assert apart.json()["asked"]["prefill_replicas"] == 1
    plain, drafted = (
        client.post("/v1/simulate", json={**asked, **more}).json() for more in ({}, {"speculation": "ngram:2:2.0"})
    )
    pace_s = [each["served"]["classes"][0]["latencies"]["tpot"]["mean_s"] for each in (plain, drafted)]
    assert pace_s[1] < 0.8 * pace_s[0]
    alone = client.post("/v1/simulate", json={**asked, "prefill": "1"})
    assert (alone.status_code, alone.json()["key"]) == (422, "--transfer")
    path = client.post("/v1/simulate", json={**asked, "speculation": "draft:2:1.5@/etc/passwd"})
    assert (path.status_code, path.json()["key"]) == (422, "speculation")


def test_a_plan_file_is_refused_at_its_line(client: httpx.Client) -> None:
    text = "version: 1\nservice: x\nworkload:\n  classes: []\npool: {model: qwen3-32b, device: h300}\n"
    found = client.post("/v1/plan", json={"plan": text})
    assert (found.status_code, found.headers["content-type"]) == (422, "application/problem+json")
    said = found.json()
    assert said["file"] == "plan.yaml"
    assert said["line"] >= 1
    assert said["fix"]


def test_a_change_is_refused_by_its_own_name(client: httpx.Client) -> None:
    found = client.post("/v1/evaluate", json={"set": {"pool.device": "h300"}}).json()
    assert found["key"] == "--set pool.device"
    assert "h200" in found["fix"]


def test_a_refused_plan_has_its_document(client: httpx.Client) -> None:
    found = client.post("/v1/memory", json={"model": "llama-3.1-405b", "device": "h100-sxm"})
    assert found.status_code == 409
    assert found.json()["refused"]["stage"] == "memory"
    assert found.json()["refused"]["remedies"]


def test_uploads_are_read_by_the_same_readers(client: httpx.Client) -> None:
    plain, packed = upload(client), upload(client, gzip.compress(TRACE.encode()), "trace.csv.gz")
    assert plain != packed
    profiles = [client.post("/v1/profile", json={"traces": [each], "as_of": AS_OF}).json() for each in (plain, packed)]
    assert profiles[0]["rows"] == profiles[1]["rows"]
    started = client.post("/v1/init", json={"traces": [plain], "model": "llama-3.1-8b"}).text
    assert yaml.safe_load(started)["workload"]["trace"] == [plain]
    # The starter is itself a plan that this service takes.
    assert client.post("/v1/evaluate", json={"plan": started, "decide": False}).status_code == 200


def test_parquet_is_measured_before_it_is_kept(client: httpx.Client, tmp_path: Any) -> None:
    import duckdb

    file = tmp_path / "t.parquet"
    duckdb.execute(
        "COPY (SELECT range * 0.5 AS arrival_s, 100 AS prompt_tokens, 20 AS output_tokens FROM range(2000)) "
        f"TO '{file}' (FORMAT parquet)"
    )
    kept = upload(client, file.read_bytes(), "t.parquet")
    assert client.post("/v1/profile", json={"traces": [kept]}).status_code == 200
    broken = client.post("/v1/uploads", params={"name": "x.parquet"}, content=file.read_bytes()[:-40])
    assert broken.status_code == 415


# ---- attacks ----------------------------------------------------------------------------------------------------


def test_no_path_or_address_in_a_request_is_followed(client: httpx.Client, service: RunningService) -> None:
    with socket.socket() as trap:
        trap.bind(("127.0.0.1", 0))
        trap.listen()
        trap.settimeout(0.2)
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/x"
        for value in ("/etc/passwd", "../../../etc/passwd", url, f"{service.log}"):
            asked: list[tuple[str, dict[str, Any]]] = [
                ("evaluate", {"set": {"workload.trace": [value]}}),
                ("evaluate", {"set": [f"workload.trace=[{value}]"]}),
                ("evaluate", {"set": {"facts": value}}),
                ("evaluate", {"set": {"pool.model": value}}),
                ("evaluate", {"set": {"evidence.load_tests": [value]}}),
                ("plan", {"plan": f"version: 1\nservice: x\nworkload: {{profile: '{value}', classes: []}}\n"}),
                ("memory", {"model": value, "device": "h100-sxm"}),
                ("profile", {"traces": [value]}),
                ("compare", {"old_saved": value}),
                ("reconcile", {"plan": value}),
                ("reconcile", {"from_prometheus": True, "prometheus": url}),
                ("ledger", {"action": "import", "names": [value]}),
                ("ledger", {"action": "export", "out": value}),
                ("forecast", {"source": value}),
                ("init", {"folder": value}),
            ]
            for verb, body in asked:
                found = client.post(f"/v1/{verb}", json=body)
                assert found.status_code in (404, 422), (verb, body, found.text)
                assert "root:" not in found.text
        with pytest.raises(TimeoutError):
            trap.accept()


def test_an_upload_is_no_way_around_the_keys_that_name_files(client: httpx.Client) -> None:
    plan = "version: 1\nservice: x\nworkload: {trace: [/etc/passwd], classes: []}\n"
    sly = upload(client, plan, "plan.yaml")
    for side in ("old_saved", "new_saved"):
        found = client.post("/v1/compare", json={side: sly}, params={"wait": 60})
        assert (found.status_code, found.json()["problem"]) == (422, "is not the JSON of a plan")


def test_files_of_the_page_stay_within_its_folder(client: httpx.Client) -> None:
    for place in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd",
                  "/.git/config", "/assets/../../settings.py", "/__init__.py%00.js"):  # fmt: skip
        found = client.get(place)
        assert found.status_code == 404, place


def test_another_s_upload_cannot_be_used(client: httpx.Client, service: RunningService) -> None:
    own = upload(client, TRACE + "600,1,1\n")
    with service.client(BOB) as other:
        assert other.post("/v1/profile", json={"traces": [own]}).status_code == 404
        sly = other.post("/v1/evaluate", json={"set": {"workload.trace": [own]}})
        assert (sly.status_code, sly.json()["problem"]) == (422, "is not an upload of yours")
        assert other.delete(f"/v1/uploads/{own}").status_code == 404
        assert own not in other.get("/v1/uploads").text
    assert client.post("/v1/evaluate", json={"set": {"workload.trace": [own]}, "decide": False}).status_code in (
        200,
        422,
    )


def test_names_with_scripts_come_back_as_text(client: httpx.Client) -> None:
    script = "<script>alert(1)</script>"
    found = client.post("/v1/uploads", params={"name": f"{script}.csv"}, content=TRACE)
    assert (found.headers["content-type"], found.headers["x-content-type-options"]) == ("application/json", "nosniff")
    said = client.post("/v1/evaluate", json={"set": {"service": script, "pool.device": script}})
    assert said.headers["content-type"] == "application/problem+json"
    assert script not in client.get("/docs").text


def test_a_gigabyte_is_refused_without_being_sent(service: RunningService) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20.0) as line:
        line.sendall(
            f"POST /v1/uploads?name=t.csv HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {ALICE}\r\n"
            f"Content-Length: {2**30}\r\n\r\n".encode()
        )
        answer = line.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_headers_that_never_end_are_given_up(service: RunningService) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60.0) as line:
        line.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\n".encode())
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            _drip(line, seconds=50.0)
    with service.client(None) as other:
        assert other.get("/healthz").status_code == 200


def _drip(line: socket.socket, *, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        line.sendall(b"X-More: of the same\r\n")
        time.sleep(0.3)


def test_deep_and_odd_requests_are_refused_in_one_shape(client: httpx.Client) -> None:
    deep = '{"plan": ' + '{"a":' * 300 + "1" + "}" * 300 + "}"
    odd = (
        deep, "{", '"text"', "[]", '{"plan": 1e999}', '{"seed": 1e30}', '{"unknown": 1}', '{"plan": "a: [1"}',
        '{"plan": "a: &a [*a]"}', '{"plan": "\\ud800"}', '{"set": {"": 1}}', '{"set": ["novalue"]}',
    )  # fmt: skip
    for body in odd:
        found = client.post("/v1/evaluate", content=body, headers={"content-type": "application/json"})
        assert found.status_code in (400, 422), (body[:40], found.text)
        assert found.headers["content-type"] == "application/problem+json"
    form = client.post("/v1/evaluate", content="plan=x", headers={"content-type": "text/plain"})
    assert form.status_code in (400, 415, 422)


def test_tokens_are_in_no_log(service: RunningService) -> None:
    with service.client("not-a-token-at-all-0123456789") as stranger:
        assert stranger.get("/v1/jobs").status_code == 401
    # A request is noted once it is answered: the answer may be here before the note.
    written, patience = service.log.read_text(), 100
    while '"status": 401' not in written and (patience := patience - 1):
        time.sleep(0.1)
        written = service.log.read_text()
    assert '"status": 401' in written
    for token in (ALICE, BOB, READER, "not-a-token"):
        assert token not in written


# ---- jobs -------------------------------------------------------------------------------------------------------


def test_equal_requests_are_one_job_and_strangers_see_none(client: httpx.Client, service: RunningService) -> None:
    asked = {"rate": "3 req/s", "as_of": AS_OF, "seed": 11}
    first = client.post("/v1/size", params={"wait": 0}, json=asked)
    assert first.status_code == 202
    job = first.json()["id"]
    assert first.headers["location"] == f"/v1/jobs/{job}"
    with service.client(BOB) as other:
        assert other.get(f"/v1/jobs/{job}").status_code == 404
        shared = other.post("/v1/size", params={"wait": 60}, json=asked)
        assert shared.status_code == 200
        assert other.get(f"/v1/jobs/{job}").json()["state"] == "done"
    assert client.get(f"/v1/jobs/{job}/result").content == shared.content


def test_progress_is_told_as_it_happens_and_ends(client: httpx.Client) -> None:
    job = client.post("/v1/size", params={"wait": 0}, json={"rate": "4 req/s", "seed": 12}).json()["id"]
    seen = []
    with client.stream("GET", f"/v1/jobs/{job}/events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        kind = ""
        for line in events.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                seen.append((kind, json.loads(line.removeprefix("data: "))))
    assert [kind for kind, _ in seen][-1] == "end"
    assert seen[-1][1]["state"] == "done"
    fractions = [each["fraction"] for _, each in seen]
    assert fractions == sorted(fractions)
    assert {each["stage"] for _, each in seen} & {"sizing"}


def test_a_cancelled_job_is_killed(client: httpx.Client, service: RunningService) -> None:
    with service.client(READER) as reader:
        job = client.post("/v1/plan", params={"wait": 0}, json={"seed": 977}).json()["id"]
        assert reader.delete(f"/v1/jobs/{job}").status_code == 403
    until_s = time.monotonic() + 60.0
    while client.get(f"/v1/jobs/{job}").json()["state"] == "queued" and time.monotonic() < until_s:
        time.sleep(0.05)
    assert client.delete(f"/v1/jobs/{job}").status_code == 204
    assert ended(client, job, 10.0)["state"] == "cancelled"
    assert client.get(f"/v1/jobs/{job}/result").status_code == 410
    # Its process is gone, and the next job is not held up by it.
    assert client.post("/v1/facts", params={"wait": 30}, json={"kind": "engines"}).status_code == 200


def test_a_newer_move_of_a_page_takes_the_place_of_the_older(client: httpx.Client) -> None:
    looks = [
        client.post("/v1/evaluate", json={"set": {"pool.tensor_parallel": each}, "session": "tab", "seed": 31}).json()
        for each in (2, 4)
    ]
    assert [each["status"] for each in looks] == ["estimate, being decided"] * 2
    older, newer = (each["decided"]["id"] for each in looks)
    assert client.get(f"/v1/jobs/{older}").json()["state"] == "cancelled"
    assert client.get(f"/v1/jobs/{newer}").json()["state"] in ("queued", "running")
    other = client.post("/v1/evaluate", json={"session": "another", "seed": 31}).json()
    assert client.get(f"/v1/jobs/{newer}").json()["state"] != "cancelled"
    for each in (newer, other["decided"]["id"]):
        client.delete(f"/v1/jobs/{each}")


def test_a_crowd_of_moves_is_asked_to_come_again_and_equal_ones_are_shared(service: RunningService) -> None:
    async def crowd(count: int, seeds: int) -> list[httpx.Response]:
        headers = {"authorization": f"Bearer {ALICE}"}
        async with httpx.AsyncClient(base_url=service.url, headers=headers, timeout=120.0, trust_env=False) as client:
            asked = ({"seed": 700 + each % seeds, "decide": False} for each in range(count))
            return list(await asyncio.gather(*(client.post("/v1/evaluate", json=each) for each in asked)))

    different = asyncio.run(crowd(24, 24))
    assert {each.status_code for each in different} == {200, 429}
    assert all(int(each.headers["retry-after"]) >= 1 for each in different if each.status_code == 429)
    equal = asyncio.run(crowd(24, 2))
    assert {each.status_code for each in equal} == {200}
    assert len({each.content for each in equal}) == 2


def test_lists_come_in_pages(client: httpx.Client) -> None:
    for kind in ("devices", "models", "engines"):
        client.post("/v1/facts", json={"kind": kind, "as_of": AS_OF})
    seen: list[str] = []
    after: str | None = None
    while True:
        page = client.get("/v1/jobs", params={"limit": 2} | ({} if after is None else {"after": after})).json()
        seen += [each["id"] for each in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) >= 3
    assert client.get("/v1/jobs", params={"limit": 0}).status_code == 422


# ---- what a cluster asks ----------------------------------------------------------------------------------------


def test_a_cluster_is_told_how_it_is(service: RunningService, client: httpx.Client) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    with service.client(None) as stranger:
        assert stranger.get("/healthz").text == "ok\n"
        assert stranger.get("/readyz").text == "ready\n"
        assert stranger.get("/metrics").status_code == 401
    found = {each.name: each for each in text_string_to_metric_families(client.get("/metrics").text)}
    routes = {sample.labels["route"] for sample in found["ullage_serve_requests"].samples if "route" in sample.labels}
    assert "/v1/jobs/{job_id}" in routes
    assert not [each for each in routes if "passwd" in each]
    assert "process_resident_memory_bytes" in found


def test_the_page_and_the_description_need_no_token(service: RunningService) -> None:
    with service.client(None) as stranger:
        for path in ("/", "/docs", "/openapi.json"):
            found = stranger.get(path)
            assert found.status_code == 200
            assert "script-src 'self'" in found.headers["content-security-policy"]
        described = stranger.get("/openapi.json").json()
    assert {f"/v1/{verb}" for verb in REQUESTS} <= set(described["paths"])
    assert "answer.plan" in described["components"]["schemas"]


@pytest.mark.slow
def test_the_decided_plan_is_the_one_that_the_command_line_makes(client: httpx.Client) -> None:
    import datetime

    changes = {"workload.classes.chat.rate": "6 req/s"}
    look = client.post("/v1/evaluate", json={"set": changes, "as_of": AS_OF, "session": "live"}).json()
    job = look["decided"]["id"]
    assert ended(client, job, 400.0)["state"] == "done"
    decided = client.get(f"/v1/jobs/{job}/result")
    said = verbs.plan(set=changes, as_of=datetime.date.fromisoformat(AS_OF), quick=True)
    assert decided.text == to_text(said.to_dict())
    figures = decided.json()["figures"]
    estimate = look["estimate"]["pools"][0]
    assert estimate["low_replicas"] <= figures["fleet.replicas"]["value"] <= estimate["high_replicas"]
    # Somebody who asks for the plan itself is given it from memory.
    again = client.post("/v1/plan", json={"set": changes, "as_of": AS_OF, "quick": True}, params={"wait": 5})
    assert again.content == decided.content
