"""Ranges: every number of a plan file has one, and what cannot be meant is refused by its key before the work.

That every refusal names line, key, value, problem and fix is tested over the whole schema in test_key_contract.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.key_probes import with_value
from ullage.cli.app import run
from ullage.errors import ExitCode
from ullage.files.keys import range_at, rows_of
from ullage.files.plan_file import PlanFile, key_rows, read_plan_document
from ullage.files.sections.quantities import Range
from ullage.files.strict_yaml import read_yaml


@pytest.mark.parametrize("row", [each for each in key_rows() if each.key is not None], ids=lambda each: each.path)
def test_every_number_has_a_range_in_the_table(row: Any) -> None:
    if re.search(r"\b(number|ratio|duration|rate|share|power|bandwidth|money|USD)\b", row.kind):
        assert " from " in row.kind or "at most" in row.kind, f"{row.path}: {row.kind}"


def test_the_range_that_is_told_is_that_of_the_key() -> None:
    assert str(range_at(PlanFile, ("policy", "horizon"))) == "from 1h to 1825d"
    assert str(range_at(PlanFile, ("workload", "classes", 0, "slo", "ttft_p95"))) == "from 100us to 30d"
    assert isinstance(range_at(PlanFile, ("sites", "regions", 0, "quotas", "l4")), Range)
    assert range_at(PlanFile, ("service",)) is None
    assert len(list(rows_of(PlanFile))) > 150


BASE = """\
version: 1
service: chat
workload:
  classes: [{name: chat, rate: 1 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}]
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("policy.zones=100000000", "is more than is plausible here. Give a value from 1 to 100."),
        ("policy.horizon=3000000d", "is more than is plausible here. Give a value from 1h to 1825d."),
        ("policy.horizon=1ns", "is less than is plausible here. Give a value from 1h to 1825d."),
        ("prices.own.items={egress: 1e300 USD/GB}", "is more than 10,000,000,000,000 USD"),
        ("prices.own.items={egress: 1e400 USD/GB}", "is more than 10,000,000,000,000 USD"),
        ("workload.classes.chat.longest_context=1", "Give a value from 2 tokens to"),
        ("workload.classes.chat.rate=1e-9 req/s", "is less than is plausible here"),
        ("workload.classes.chat.rate=inf req/s", "is not a request rate"),
        ("workload.classes.chat.rate=1e400 req/s", "is too large"),
        (f"workload.classes.chat.rate={'9' * 400} req/s", "is too large"),
        (f"workload.classes.chat.name={'n' * 300}", "is longer than 63 characters"),
        (f"pool.model={'n' * 300}", "is not known"),
        (f"pool.max_sequences={'9' * 400}", "is not a whole number"),
        (
            "cost.tasks=[{name: t, requests: {chat: 1}, attempts: inf, success: 90%}]",
            "attempts = 'inf': is not a number",
        ),
        ("cost.tasks=[{name: t, requests: {chat: nan}, success: 90%}]", "requests.chat = 'nan': is not a number"),
        ("pool.token_budget=1", "is below the 1024 sequences that may run"),
        ("pool.token_budget=512", "is below the 1024 sequences that may run"),
        ("pool.tensor_parallel=3", "--set pool.tensor_parallel = '3': does not divide"),
        ("pool.kv_dtype=fp3", "--set pool.kv_dtype = 'fp3': is not known"),
        ("pool.device=h300", "--set pool.device = 'h300': is not known"),
        ("prices.provider=nobody", "--set prices.provider = 'nobody': is not known"),
        ("workload.classes.chat.rate=15000 req/s", "makes demand.chat.planning_rate"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_the_work(
    changed: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(BASE)
    assert run(["plan", str(file), "--quiet", "--set", changed]) == ExitCode.WRONG_INPUT
    shown = capsys.readouterr().err
    assert message in shown
    assert changed.partition("=")[0] in shown


@pytest.mark.parametrize(
    "changed",
    [
        "policy.margin=0%",
        "admission.retry.jitter=0%",
        "admission.retry.budget=0%",
        "admission.retry.backoff=0s",
        "admission.scale_delay=0s",
        "rollout.drain=0s",
        "maintenance.drain=0s",
        "cost.egress_share=0%",
        "cost.zone_share=0%",
        "cost.engineering.on_call=0s",
        "prices.spot_lost=0s",
        "prices.discount={aws: 0%}",
        "reliability.device_failures_per_year=0",
        "rollout.spare_devices=0",
    ],
)
def test_nothing_can_be_stated_where_it_makes_sense(changed: str) -> None:
    key, _, value = changed.partition("=")
    read_plan_document(with_value(read_yaml(BASE, file="plan.yaml"), key, value))
