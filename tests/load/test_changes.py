"""Laws of what-if: a change does what an edit of the file would do, is checked like one, and leaves the file alone."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from ullage.errors import InputError
from ullage.fleet.risk.planning_point import planned_percentile
from ullage.load.changes import Changes, SetValues, parse_changes
from ullage.load.plan import load_plan
from ullage.load.typed import parse_traffic
from ullage.planning.spec import PlanSpec
from ullage.workload.demand.demand import forecast_demand

AS_OF = datetime.date(2026, 11, 15)
FILE = """
version: 1
service: chat and code
workload:
  classes:
    - {name: chat, pool: small, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 2s, e2e_p99.9: 60s}}
    - {name: code, pool: large, rate: 1 req/s, longest_context: 16384, slo: {ttft_p95: 5s}}
pools:
  - {name: small, model: llama-3.1-8b, device: h100-sxm}
  - {name: large, model: llama-3.1-70b, device: h100-sxm, tensor_parallel: 4}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "plan.yaml"
    found.write_text(FILE)
    return found


def loaded(source: Any, values: SetValues = (), traffic: str | float | None = None) -> PlanSpec:
    return load_plan(source, as_of=AS_OF, changes=parse_changes(values, traffic))


def values(spec: PlanSpec) -> dict[str, Any]:
    return {each.name: each.value for each in spec.inputs}


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ("workload.classes.chat.rate=9 req/s", "rate: 4 req/s", "rate: 9 req/s"),
        ("workload.classes.1.rate=9 req/s", "rate: 1 req/s", "rate: 9 req/s"),
        ("workload.classes.chat.slo.e2e_p99.9=30s", "e2e_p99.9: 60s", "e2e_p99.9: 30s"),
        ("workload.classes.code.slo={ttft_p95: 7s}", "ttft_p95: 5s", "ttft_p95: 7s"),
        ("pools.large.tensor_parallel=8", "tensor_parallel: 4", "tensor_parallel: 8"),
        ("pools.large.tensor_parallel=", ", tensor_parallel: 4", ""),
        ("policy.horizon=90d", "version: 1", "version: 1\npolicy: {horizon: 90d}"),
    ],
)
def test_a_change_is_what_an_edit_of_the_file_is(file: Path, change: str, old: str, new: str) -> None:
    assert FILE.count(old) == 1
    edited = file.with_name("edited.yaml")
    edited.write_text(FILE.replace(old, new))
    changed = loaded(file, [change])
    assert values(changed) == values(loaded(edited)) != values(loaded(file))
    assert file.read_text() == FILE


def test_changes_of_a_program_are_those_of_a_command_line(file: Path) -> None:
    typed = loaded(file, ["pools.large.max_sequences=64", "policy.shortfall=1%"])
    assert values(typed) == values(loaded(file, {"pools.large.max_sequences": 64, "policy.shortfall": 0.01}))


def test_a_plan_as_a_dict_has_the_limits_of_a_file() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(3000):
        inner["a"] = inner = {}
    loop: dict[str, Any] = {}
    loop["a"] = loop
    for policy, said in ((deep, "deeper than 64"), (loop, "holds itself"), ({"zones": 10**5000}, "more digits")):
        with pytest.raises(InputError, match=said):
            load_plan({"version": 1, "policy": policy}, as_of=AS_OF)


def test_a_plan_as_a_dict_is_the_plan_of_the_file(tmp_path: Path) -> None:
    plan = {
        "version": 1,
        "service": "chat",
        "dated": AS_OF,
        "workload": {
            "classes": [{"name": "chat", "rate": "4 req/s", "longest_context": 8192, "slo": {"ttft_p95": "2s"}}]
        },
        "pool": {"model": "llama-3.1-8b", "device": "h100-sxm", "memory_fraction": 0.9, "max_sequences": 64},
    }
    file = tmp_path / "plan.yaml"
    file.write_text(
        """
version: 1
service: chat
dated: 2026-11-15
workload: {classes: [{name: chat, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}]}
pool: {model: llama-3.1-8b, device: h100-sxm, memory_fraction: 0.9, max_sequences: 64}
"""
    )
    assert values(loaded(plan)) == values(loaded(file)) == values(loaded(str(file)))
    assert loaded(plan).pool.settings.memory_fraction == loaded(file).pool.settings.memory_fraction == 0.9


@pytest.mark.parametrize(("text", "ratio"), [("+30%", 1.3), ("-20%", 0.8), ("x2", 2.0), ("x0.5", 0.5)])
def test_traffic_scales_every_class_alike(file: Path, text: str, ratio: float) -> None:
    before, after = loaded(file), loaded(file, traffic=text)
    assert parse_traffic(text) == pytest.approx(ratio)
    for old, new in zip(before.demands, after.demands, strict=True):
        assert float(new.mean_rate.value) == pytest.approx(float(old.mean_rate.value) * ratio)
        assert [each.value for each in new.slo_limits] == [each.value for each in old.slo_limits]


@pytest.mark.slow
@pytest.mark.parametrize("hours", [2, 60])
def test_traffic_scales_what_a_trace_measured(tmp_path: Path, hours: int) -> None:
    """Short logs borrow their season, long ones are forecast: both plan for twice as much."""
    rows = ["arrival_s,prompt_tokens,output_tokens"]
    rows += [f"{second * 7},{200 + second * 7 % 900},{20 + second * 3 % 90}" for second in range(hours * 3600 // 7)]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    file = tmp_path / "plan.yaml"
    file.write_text(
        """
version: 1
service: chat
workload:
  trace: [log.csv]
  classes: [{name: chat, longest_context: 8192, slo: {ttft_p95: 2s}}]
pool: {model: llama-3.1-8b, device: h100-sxm}
"""
    )

    def planned_rps(traffic: str | None) -> tuple[float, float]:
        spec = loaded(file, traffic=traffic)
        policy = spec.policy
        demand = forecast_demand(
            spec.demands,
            horizon=policy.horizon,
            percentile=planned_percentile(policy.shortfall),
            measured=spec.measured,
        )
        return demand.planning_rps, demand.model.classes[0].mean_rate_rps

    (rate, mean), (twice, twice_mean) = planned_rps(None), planned_rps("x2")
    assert twice == pytest.approx(2 * rate)
    assert twice_mean == pytest.approx(2 * mean)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "pools.large.tensor_paralel=4",
            "is not a known key. Did you mean tensor_parallel",
        ),
        ("pools.large.tensor_parallel=four", "--set pools.large.tensor_parallel = 'four': is not a whole number"),
        ("workload.classes.chat.rate=30", "--set workload.classes.chat.rate = '30': has no unit"),
        ("workload.classes.caht.rate=3 req/s", "--set workload.classes.caht.rate = 'caht': is not known. Did you mean"),
        ("pool.device=h200", "could belong to any of several pools. Write pools.small.device."),
        ("pools.large.model.name=x", "model has no keys of its own"),
        ("pools.large", "--set = 'pools.large': is not KEY=VALUE"),
        ("=4", "is not KEY=VALUE"),
        ("sites.regions.north=1", "--set sites.regions.north = 'north': is not known"),
    ],
)
def test_a_wrong_change_is_answered_like_a_wrong_line(file: Path, change: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        loaded(file, [change])
    assert message in str(raised.value)


@pytest.mark.parametrize("text", ["30%", "+x", "x", "x-1", "+30", "", "nan"])
def test_a_wrong_change_of_traffic_says_how_to_write_one(text: str) -> None:
    with pytest.raises(InputError, match=r"--traffic = .*: is not a change of traffic. Write for example \+30%"):
        parse_traffic(text)


def test_traffic_is_never_taken_to_nothing() -> None:
    for text in ("-100%", "-250%", "x0"):
        with pytest.raises(InputError, match="leaves no traffic"):
            parse_traffic(text)


def test_changes_say_what_they_are() -> None:
    assert not Changes()
    assert parse_changes(["pool.tensor_parallel=4"], "+30%").texts == ("pool.tensor_parallel=4", "traffic x1.3")


@pytest.mark.parametrize(
    ("device", "taken"), [("h100", "h100-sxm"), ("a100", "a100-80gb-sxm"), ("h100-sxm", None), ("h200", None)]
)
def test_a_short_name_says_what_it_was_taken_for(device: str, taken: str | None) -> None:
    said = values(loaded(None, {"pool.device": device}))
    assert said.get("pool.device_read_as") == taken
