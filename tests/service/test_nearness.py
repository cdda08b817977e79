"""Nearness: a published configuration corrects its own estimate, kin narrow its band, and strangers change nothing."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from ullage.evidence import Evidence, Source, number
from ullage.facts.device import find_device
from ullage.facts.efficiency import efficiencies
from ullage.facts.model_sheet import find_model
from ullage.facts.published import published_fits
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding
from ullage.service.stage import band_of
from ullage.service.steps.nearness import EXACT, FAMILY, SIBLING, nearness
from ullage.service.steps.scaled import PARAMETERS
from ullage.service.steps.step_model import StepModel, replica_step, roofline_model

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))


def estimated(model: str, device: str, engine: str, tp: int) -> tuple[StepModel, StepModel]:
    """The estimate as published measurements leave it, and the bare roofline."""
    settings = RuntimeSettings(
        source=SOURCE, engine=engine, sharding=Sharding(tp=tp), max_context_tokens=4096, max_sequences=8
    )
    memory = memory_budget(find_model(model), find_device(device), settings)
    assert isinstance(memory, MemoryBudget)
    runtime = memory.runtime
    bare = roofline_model(
        memory.model, memory.device, sharding=runtime.sharding, engine=runtime.engine, cache=runtime.cache
    )
    return replica_step(memory.model, memory.device, runtime), bare


def test_every_published_fit_has_its_factors_and_a_device_that_is_known() -> None:
    fits = published_fits()
    assert len(fits) > 50
    for each in fits:
        assert set(each.ratios) == set(PARAMETERS)
        assert all(0.1 < ratio < 10 for ratio in each.ratios.values())
        assert find_device(each.device).name == each.device
    assert len({each.name for each in fits}) == len(fits)


@pytest.mark.parametrize(
    ("model", "device", "engine", "tp", "kind"),
    [
        ("deepseek-r1", "h200-sxm", "sglang", 8, EXACT),
        ("deepseek-r1", "h200-sxm", "sglang", 16, SIBLING),
        ("deepseek-r1", "h200-sxm", "vllm", 8, FAMILY),
        ("gpt-oss-20b", "h100-sxm", "vllm", 1, None),
        ("qwen3-32b", "h100-sxm", "vllm", 2, None),
    ],
)
def test_the_nearest_class_is_taken(model: str, device: str, engine: str, tp: int, kind: str | None) -> None:
    found = nearness(find_model(model), device=device, engine=engine, sharding=Sharding(tp=tp))
    assert found.kind == kind
    assert bool(found.fits) == (kind is not None)
    assert len(found.notes) == (0 if kind is None else 1)


def test_an_exact_neighbour_corrects_the_estimate_and_narrows_its_band() -> None:
    step, bare = estimated("deepseek-r1", "h200-sxm", "sglang", 8)
    ratio = step.step_s(sequences=1, kv_tokens=1) / bare.step_s(sequences=1, kv_tokens=1)
    assert ratio == pytest.approx(nearness_ratio(), rel=1e-6)
    assert step.evidence is Evidence.ESTIMATED
    assert band_of(step).slow_ratio < band_of(bare).slow_ratio
    assert "published" in step.notes[0]


def nearness_ratio() -> float:
    found = nearness(find_model("deepseek-r1"), device="h200-sxm", engine="sglang", sharding=Sharding(tp=8))
    return found.factors.fixed_ratio


def test_a_family_keeps_its_estimate_and_a_stranger_its_band() -> None:
    step, bare = estimated("deepseek-r1", "h200-sxm", "vllm", 8)
    assert replace(step, band=bare.band, notes=()) == bare
    assert step.band.tpot_high_ratio < bare.band.tpot_high_ratio
    other, same = estimated("qwen3-32b", "h100-sxm", "vllm", 2)
    assert other == same


def test_nearer_is_never_less_sure() -> None:
    sheets = efficiencies().sheets
    for name in ("tpot_high", "steps_high"):
        high = [number(sheets[f"band-{each}"].values[name]) for each in (EXACT, FAMILY, "model", "vendor")]
        assert high == sorted(high)


def test_a_plan_takes_the_band_of_decisions_and_not_that_of_one_latency() -> None:
    for step in estimated("deepseek-r1", "h200-sxm", "sglang", 8):
        values = efficiencies().sheets[f"band-{step.band.new}"].values
        found = band_of(step)
        assert (found.fast_ratio, found.slow_ratio) == (number(values["steps_low"]), number(values["steps_high"]))
        assert found.assumption.source == values["steps_high"].source
