"""Requests made from the service's own description, by schemathesis: what is answered must be what is described."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# Verbs whose answers are waited for; of the others the job is described, and let go.
_QUICK = ("/v1/facts", "/v1/memory", "/v1/ledger", "/v1/init", "/v1/evaluate")
_WAIT_S = 20


@dataclass(kw_only=True)
class Probed:
    """How many requests were sent to each operation, and by status."""

    requests: int = 0
    by_operation: dict[str, int] = field(default_factory=dict)
    by_status: dict[int, int] = field(default_factory=dict)

    def note(self, name: str, status: int) -> None:
        self.requests += 1
        self.by_operation[name] = self.by_operation.get(name, 0) + 1
        self.by_status[status] = self.by_status.get(status, 0) + 1


def probe(client: httpx.Client, *, seconds: float, each: int = 2, seed: int = 0) -> Probed:
    """Every operation in turn, good requests and bad ones, round after round until the time is over; two at least."""
    described = client.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(described)
    operations: list[Any] = [one.ok() for one in schema.get_all_operations()]  # type: ignore[union-attr]
    until_s, round_number, found = time.monotonic() + seconds, 0, Probed()
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    while round_number < len(modes) or time.monotonic() < until_s:
        for operation in operations:
            _probe(client, operation, modes[round_number % len(modes)], each, seed + round_number, found)
        round_number += 1
    return found


def _probe(client: httpx.Client, operation: Any, mode: Any, each: int, seed: int, found: Probed) -> None:
    @seeded(seed)
    @settings(
        max_examples=each,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if operation.method.upper() == "POST" and isinstance((case.query or {}).get("wait", 0), int):
            case.query = {**(case.query or {}), "wait": _WAIT_S if operation.path in _QUICK else 0}
        sent = case.as_transport_kwargs(base_url=str(client.base_url).rstrip("/"))
        answer = client.request(
            sent["method"],
            sent["url"],
            params=sent.get("params"),
            headers={**sent.get("headers", {}), "authorization": client.headers["authorization"]},
            cookies=None,
            json=sent.get("json"),
            content=sent.get("data"),
        )
        found.note(f"{operation.method.upper()} {operation.path}", answer.status_code)
        case.validate_response(answer, checks=CHECKS)
        if answer.status_code == 202:
            client.delete(answer.headers.get("location", f"/v1/jobs/{answer.json()['id']}"))

    ask()
