"""Adapters: what they take of memory and of a step, and what a test with them on settles."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from support.calibrations import calibration_document
from ullage.evidence import Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.adapters import SLOWDOWN, Adapters
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.service.calibration.evidence import evidence_of
from ullage.service.calibration.pool_step import StepEvidence, pool_step

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 16))


def budget(adapters: Adapters | None) -> MemoryBudget:
    settings = RuntimeSettings(source=SOURCE, engine="vllm", max_context_tokens=8192, adapters=adapters)
    found = memory_budget(find_model("llama-3.1-8b"), find_device("h100-sxm"), settings)
    assert isinstance(found, MemoryBudget)
    return found


def slowed(fraction: float) -> Adapters:
    return Adapters(slots=8, rank_channels=16, slowdown=replace(SLOWDOWN, value=fraction, low=None, high=None))


def test_slots_take_kv_memory_whether_they_are_filled_or_not() -> None:
    """Rank 16 beside all seven matrices of Llama-3.1-8B: 41,943,040 values of two bytes; a token takes 128 KiB."""
    plain, with_slots = budget(None), budget(slowed(0.25))
    taken = plain.kv_tokens - with_slots.kv_tokens
    assert taken == pytest.approx(8 * 41_943_040 * 2 / 131_072, rel=0.01)


def test_a_step_is_slower_by_what_is_stated_but_for_its_kv_reads() -> None:
    plain, adapted = pool_step(budget(None)), pool_step(budget(slowed(0.5)))
    for work in ({"sequences": 1, "kv_tokens": 1}, {"sequences": 64, "kv_tokens": 64}):
        assert adapted.step_s(**work) == pytest.approx(1.5 * plain.step_s(**work))
    read = plain.step_s(sequences=64, kv_tokens=200_000) - plain.step_s(sequences=64, kv_tokens=64)
    slower = adapted.step_s(sequences=64, kv_tokens=200_000) - adapted.step_s(sequences=64, kv_tokens=64)
    assert slower == pytest.approx(read)


def test_no_slowdown_is_the_pool_without_adapters() -> None:
    plain, adapted = pool_step(budget(None)), pool_step(budget(slowed(0.0)))
    work = {"sequences": 32, "kv_tokens": 50_000, "prefill_tokens": 2048, "pairs": 1e6}
    assert adapted.step_s(**work) == pytest.approx(plain.step_s(**work))


def test_a_calibration_without_adapters_is_an_estimate_with_them() -> None:
    tested = StepEvidence(calibrations=(evidence_of(calibration_document(), file="c.json"),))
    step = pool_step(budget(Adapters(slots=8, rank_channels=16)), tested)
    assert step.evidence is Evidence.ESTIMATED
    assert SLOWDOWN in step.facts
