"""Whole plans for tests of their answers: made once, and varied by replacing what a stage found."""

from __future__ import annotations

import datetime
import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.kept_plans import kept_plans
from ullage import verbs
from ullage.errors import Rejection
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.planning.document import Plan

AS_OF = datetime.date(2026, 11, 15)
SOURCE = Source(what="a test", where="tests", date=AS_OF)

ONE_REPLICA = """
version: 1
service: small
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 1 req/min, longest_context: 8192, slo: {ttft_p95: 2s}}
pool: {model: llama-3.1-8b, device: h100-sxm}
prices: {provider: me, own: {devices: [{device: h100-sxm, provider: me, price: 3 EUR/h}]}}
"""
"""Its devices are priced in EUR, and no rate to USD is known."""

SMALL: dict[str, Any] = {
    "version": 1,
    "service": "small",
    "dated": "2026-11-15",
    "workload": {"classes": [{"name": "chat", "rate": "2 req/s", "longest_context": 8192, "slo": {"ttft_p95": "2s"}}]},
    "pool": {"model": "llama-3.1-8b", "device": "h100-sxm"},
    "options": {"devices": ["h100-sxm", "l40s"], "tensor_parallel": [1]},
}
"""What verbs are asked of. Its class and its pool are those of most small plans here: windows are the same for all."""

TWO_POOLS = """
version: 1
service: two models
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 2s}, pool: small}
    - {name: coding, rate: 1 req/s, longest_context: 16384, slo: {ttft_p95: 5s}, pool: large}
pools:
  - {name: small, model: llama-3.1-8b, device: h100-sxm}
  - {name: large, model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}
"""


def planned(text: str | None = None) -> Plan:
    """The plan of this file, the built-in example's without one."""
    return _planned(text)


@functools.cache
def _planned(text: str | None) -> Plan:
    with tempfile.TemporaryDirectory() as folder, kept_plans():
        file = None
        if text is not None:
            file = Path(folder) / "plan.yaml"
            file.write_text(text)
        found = verbs.plan(file, as_of=AS_OF, seed=0)
    assert not isinstance(found, Rejection), found
    return found


def stated(name: str, value: float | str, unit: str = "") -> Assumption:
    return Assumption(name=name, value=value, unit=unit, evidence=Evidence.STATED, source=SOURCE)


def read(name: str, value: float, unit: str, evidence: Evidence = Evidence.STATED) -> Figure:
    return Figure(name=name, value=value, unit=unit, sources=(SOURCE,), own_evidence=evidence)


def with_stage(plan: Plan, name: str, figures: dict[str, Figure]) -> Plan:
    """The plan with other figures in one stage; what the stage found is left as it was."""
    return replace(
        plan,
        stages=tuple(
            replace(each, figures={**each.figures, **figures}) if each.name == name else each for each in plan.stages
        ),
    )


def with_pool(plan: Plan, **parts: Any) -> Plan:
    """The plan with other results of its first pool."""
    return replace(plan, pools=(replace(plan.pools[0], **parts), *plan.pools[1:]))
