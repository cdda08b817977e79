"""Engines that share a device: slower beside any neighbour, never beyond time slices, and a measurement wins."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.service.steps.colocation import Neighbour, asks_of, beside, slow_ratio
from ullage.service.steps.floor import PeakUse
from ullage.service.steps.step_model import StepModel, roofline_model

SHARE = st.floats(0.0, 1.0)
USES = st.builds(PeakUse, compute_fraction=st.floats(0.01, 1.0), bandwidth_fraction=st.floats(0.01, 1.0))


@pytest.fixture(scope="module")
def step() -> StepModel:
    return roofline_model(
        find_model("llama-3.1-8b"),
        find_device("h100-sxm"),
        sharding=Sharding(),
        engine="vllm",
        cache=kv_dtype("bf16"),
    )


@given(own=USES, asks=USES, busy=st.floats(0.001, 1.0))
def test_a_neighbour_that_runs_costs_something_and_at_most_its_time(own: PeakUse, asks: PeakUse, busy: float) -> None:
    found = slow_ratio(own, [Neighbour(name="other", busy_fraction=busy, asks=asks)])
    assert found.low is not None
    assert found.high is not None
    assert 1.0 < found.low <= float(found.value) <= found.high
    assert found.high == pytest.approx(1.0 + busy)
    assert found.evidence is Evidence.ASSUMED


@given(own=USES, asks=USES, less=SHARE, more=SHARE)
def test_a_busier_neighbour_is_not_a_better_one(own: PeakUse, asks: PeakUse, less: float, more: float) -> None:
    low, high = sorted((less, more))
    ratios = [
        float(slow_ratio(own, [Neighbour(name="other", busy_fraction=each, asks=asks)]).value) for each in (low, high)
    ]
    assert ratios[0] <= ratios[1]


def test_two_that_read_all_the_bandwidth_take_turns() -> None:
    """Both ask for all of it: whichever way they share, a step beside a busy neighbour takes twice as long."""
    whole = PeakUse(compute_fraction=0.0, bandwidth_fraction=1.0)
    found = slow_ratio(whole, [Neighbour(name="other", busy_fraction=1.0, asks=whole)])
    assert found.low == found.high == found.value == 2.0


def test_without_neighbours_nothing_changes() -> None:
    assert slow_ratio(PeakUse(compute_fraction=0.5, bandwidth_fraction=0.5), []).value == 1.0


def test_a_measured_factor_takes_the_place_of_the_bounds(step: StepModel) -> None:
    source = Source(what="a pair timed", where="here", date=datetime.date(2026, 11, 15))
    measured = Assumption(
        name="colocation.slow_ratio", value=1.37, unit="ratio", evidence=Evidence.MEASURED, source=source
    )
    assert slow_ratio(asks_of(step), [Neighbour(name="other", busy_fraction=1.0)], measured=measured) is measured
    slower = beside(step, measured)
    assert slower.evidence is Evidence.ESTIMATED
    assert slower.step_s(sequences=8, kv_tokens=8_000) == pytest.approx(
        1.37 * step.step_s(sequences=8, kv_tokens=8_000)
    )
    faster = Assumption(name="x", value=0.9, unit="ratio", evidence=Evidence.MEASURED, source=source)
    with pytest.raises(InputError, match="does not make an engine faster"):
        slow_ratio(asks_of(step), [], measured=faster)


def test_a_share_of_time_is_a_share() -> None:
    with pytest.raises(InputError, match="share of time"):
        Neighbour(name="other", busy_fraction=1.5)


def test_simulate_beside_another_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = ["--model", "llama-3.1-8b", "--device", "h100-sxm", "--prompt-tokens", "500", "--output-tokens", "50"]
    found = []
    for more in ([], ["--beside", "60%"]):
        assert run(["simulate", *load, "--rate", "2", "--span", "60s", "--json", *more]) == ExitCode.OK
        found.append(json.loads(capsys.readouterr().out))
    alone, shared = (each["served"]["classes"][0]["latencies"]["tpot"]["quantiles_s"]["0.5"] for each in found)
    assert shared > 1.2 * alone
    assert found[1]["step"]["evidence"] == "assumed"
    assert "times as long beside the other engines" in found[1]["notes"][0]
