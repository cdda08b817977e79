"""Start-up facts: complete, in order, and what the published start-ups say when they are fitted again."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ullage import verbs
from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.facts.startup import PHASES, STORAGES, startup_facts, startups

BENCH = Path(__file__).resolve().parents[2] / "bench" / "ready.py"
OURS = """\
title = "ours"
source = "us"
[sources.us]
what = "our cluster"
where = "ops"
date = 2026-11-01
evidence = "measured"
"""


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_ready", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_phase_is_a_spread_with_a_source(engine: str) -> None:
    facts = startup_facts(engine)
    assert not facts.fallback
    for name, fact in facts.phases.items():
        assert name in PHASES
        assert 0 < fact.low_s < fact.value_s < fact.high_s
        assert fact.per_doubling_ratio >= 1
        assert fact.time.evidence is Evidence.ASSUMED
        assert fact.time.max_age is not None
    assert {"node", "image", "container", "boot", "graphs", "wake", "probe", "discovery"} <= set(facts.phases)


def test_vllm_compiles_and_a_cache_is_faster() -> None:
    phases = startup_facts("vllm").phases
    assert phases["compile_cached"].value_s < phases["compile"].value_s
    assert not {"compile", "compile_cached"} & set(startup_facts("sglang").phases)


def test_every_storage_has_a_rate() -> None:
    rates = startup_facts("vllm").bandwidths
    assert tuple(rates) == STORAGES
    order = ["page-cache", "local-nvme", "shared-filesystem", "network-disk", "object-store"]
    values = [float(rates[name].value) for name in order]
    assert values == sorted(values, reverse=True)


def test_an_engine_without_a_sheet_says_so() -> None:
    assert "No start-up log of tensorrt-llm" in startup_facts("tensorrt-llm").fallback


def test_the_facts_are_what_the_start_ups_say(bench: ModuleType, shared_data: Path) -> None:
    """Fitted again from the published logs; the stored values are rounded to three digits."""
    starts = bench.read_starts(shared_data / "measured")
    facts = startup_facts("vllm")
    for name in bench.ENGINE_PHASES["vllm"]:
        found, stored = bench.fit(bench.phase_points(starts, "vllm", name)), facts.phases[name]
        assert stored.value_s == pytest.approx(found.median, rel=0.01)
        assert stored.high_s == pytest.approx(found.median * found.spread, rel=0.01)
        assert stored.low_s == pytest.approx(found.median / found.spread, rel=0.01)
        assert stored.per_doubling_ratio == pytest.approx(found.per_doubling, rel=0.01)
    for name in bench.PLATFORM_PHASES:
        found, stored = bench.fit(bench.platform_points(name), grows=False, claims=True), facts.phases[name]
        assert stored.value_s == pytest.approx(found.median, rel=0.01)
        assert stored.high_s == pytest.approx(found.median * found.spread, rel=0.01)
    for name in STORAGES:
        points = bench.rate_points(starts, name)
        found = bench.fit(points, grows=False, claims=name in bench.CLAIMED)
        assert float(facts.bandwidths[name].value) == pytest.approx(found.median, rel=0.01)
        assert float(facts.bandwidths[name].low or 0) == pytest.approx(found.median / found.spread, rel=0.01)
    assert facts.repeat_spread_ratio == pytest.approx(bench.repeat_spread(starts), rel=0.01)


def test_a_users_phase_lies_over_ours_and_keeps_the_rest() -> None:
    node = '[[phases]]\nphase = "node"\nvalue = { value = "70 s", low = "60 s", high = "90 s" }\n'
    facts = startup_facts("vllm", startups().overlaid({"platform.toml": OURS + node}))
    assert facts.phases["node"].value_s == 70.0
    assert facts.phases["node"].time.evidence is Evidence.MEASURED
    assert set(facts.phases) == set(startup_facts("vllm").phases)
    assert facts.repeat_spread == startup_facts("vllm").repeat_spread


def test_a_user_may_add_an_engine() -> None:
    boot = '[[phases]]\nphase = "boot"\nvalue = { value = "30 s", low = "25 s", high = "50 s" }\n'
    facts = startup_facts("tensorrt-llm", startups().overlaid({"tensorrt-llm.toml": OURS + boot}))
    assert not facts.fallback
    assert "compile" not in facts.phases


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("vllm.toml", '[[phases]]\nphase = "boost"\nvalue = "3 s"\n', "is not a phase of a start"),
        ("vllm.toml", '[[phases]]\nphase = "boot"\nvalue = "3 s"\n', "has no range"),
        ("storage.toml", '[[bandwidths]]\nstorage = "tape"\nvalue = "3 GB/s"\n', "is not a kind of storage"),
    ],
)
def test_a_sheet_that_does_not_hold_is_refused(file: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        startup_facts("vllm", startups().overlaid({file: OURS + text}))


def test_the_sheets_are_among_the_facts() -> None:
    found = verbs.facts("startups", "vllm")
    assert found.is_one
    assert [row.texts["phase"] for row in found.sheets[0].rows["phases"]][:1] == ["boot"]
