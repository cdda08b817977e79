"""What a plan file says of reserves takes the place of sourced defaults, under the same names."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.files.plan_file import read_plan_file
from ullage.files.sections.policy import utilisation_caps
from ullage.files.sections.provenance import file_provenance
from ullage.files.sections.reliability import reserve_settings
from ullage.fleet.reserves import ReserveSettings

BASE = """\
version: 1
service: test
workload:
  classes:
    - name: chat
      rate: 8 req/s
      longest_context: 16Ki
      slo: {ttft_p95: 800ms}
pool: {model: llama-3.1-8b, device: l40s}
"""
PROVENANCE = file_provenance(file="plan.yaml", dated=datetime.date(2026, 11, 10), is_example=False)


def settings(written: str) -> ReserveSettings:
    file = read_plan_file(BASE + written, file="plan.yaml")
    return reserve_settings(
        reliable=file.reliability,
        rollout=file.rollout,
        maintenance=file.maintenance,
        warm=file.warm,
        failover=file.failover,
        reserves=file.reserves,
        caps=utilisation_caps(file.policy.utilisation, PROVENANCE),
        provenance=PROVENANCE,
    )


def test_nothing_said_is_every_default() -> None:
    assert settings("") == ReserveSettings()
    assert settings("").stated == ()


FULL = """\
reliability:
  availability: 99.95%
  survives: zone
  device_failures_per_year: 0.05
  device_repair: 4h
  node_failures_per_year: 0
  node_repair: 30min
  zone_failures_per_year: 1
  zone_repair: 2h
  repair_crews: 2
rollout:
  strategy: canary
  surge: 25%
  max_unavailable: 1
  within: 2h
  canary: 10%
  drain: 90s
  spare_devices: 16
maintenance: {every: 14d, work: 30min, window: 4h, window_every: 1d, drain: 2min, demand: 40%}
warm: {follows: peak, start: warm, absorbed: 2 req/s}
failover: {survives: none, share: 80%}
reserves:
  counted: sum
  overlap: [rollout+maintenance, failure+region]
  batch: never
"""


def test_everything_in_the_file_is_stated_by_the_user() -> None:
    given = settings(FULL)
    assert len(given.stated) == len(given.inputs) - 1  # nobody states the devices of a node here
    for each in given.stated:
        assert each.evidence is Evidence.STATED
        assert each.source.where == "plan.yaml"
    values: dict[str, Any] = {each.name: each.value for each in given.inputs}
    assert values["reliability.availability"] == pytest.approx(0.9995)
    assert values["reliability.node_failures_per_year"] == 0
    assert values["rollout.surge"] == 0.25
    assert values["rollout.max_unavailable"] == 1
    assert values["maintenance.window_every"] == 86_400.0
    assert values["regions.failover"] == pytest.approx(0.8)
    assert given.policy.groups == (("rollout", "maintenance"), ("failure", "region"))


def test_what_is_decided_stays_a_decision() -> None:
    decisions = {each.name for each in settings(FULL).inputs if each.decision}
    assert {"reliability.availability", "rollout.surge", "reserves.counted"} <= decisions
    assert "reliability.device_repair" not in decisions


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("reliability: {survive: zone}\n", "survives"),
        ("reliability: {survives: planet}\n", "survives"),
        ("reliability: {availability: 120%}\n", "availability"),
        ("rollout: {surge: lots}\n", "surge"),
        ("rollout: {surge: 0, max_unavailable: 0}\n", "surge"),
        ("maintenance: {window: 30d}\n", "window"),
        ("reserves: {overlap: [rollout+weather]}\n", "overlap"),
    ],
)
def test_a_mistake_names_its_field(written: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        settings(written)
