"""Laws of time to ready: less work is never slower, measured phases win, phases add up, one seed one answer."""

from __future__ import annotations

import dataclasses
import datetime
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.served import LLAMA_2_7B, LLAMA_2_70B, LLAMA_3_8B, QWEN3_235B
from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source, walk
from ullage.facts.device import find_device
from ullage.facts.model import Model
from ullage.facts.startup import STORAGES, startup_facts
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding
from ullage.startup.phases import LEVELS, Level, Phase
from ullage.startup.ready import TimeToReady, time_to_ready
from ullage.startup.settings import MeasuredStart, StartSettings
from ullage.startup.spread import Spread

SOURCE = Source(what="a test", where="tests/admission/test_ready.py", date=datetime.date(2026, 11, 15))
PERCENTS = np.arange(101) / 100
LLAMA_3_8B_BYTES = 16.06e9  # 8.03 x 10^9 parameters of two bytes


def budget(model: Model = LLAMA_3_8B, *, tp: int = 1, engine: str = "vllm", device: str = "h200-sxm") -> MemoryBudget:
    settings = RuntimeSettings(
        source=SOURCE, engine=engine, sharding=Sharding(tp=tp), max_context_tokens=4096, max_sequences=16
    )
    found = memory_budget(model, find_device(device), settings)
    assert isinstance(found, MemoryBudget)
    return found


def start(
    storage: str = "network-disk", *measured: MeasuredStart, rate: tuple[float, float, float] | None = None
) -> StartSettings:
    where = Assumption(name="pool.storage", value=storage, unit="", evidence=Evidence.STATED, source=SOURCE)
    bandwidth = None
    if rate is not None:
        low, middle, high = rate
        bandwidth = dataclasses.replace(where, name="rate", value=middle, unit="bytes/s", low=low, high=high)
    return StartSettings(storage=where, bandwidth=bandwidth, measured=measured)


def measured(engine: str = "vllm", /, **phases: float) -> MeasuredStart:
    known = {Phase(name): seconds for name, seconds in phases.items()}
    return MeasuredStart(engine=engine, version="0.22.0", phases=known, source=SOURCE)


def ready(memory: MemoryBudget, settings: StartSettings | None = None, seed: int = 0) -> TimeToReady:
    return time_to_ready(memory, settings or start(), rng=np.random.default_rng(seed))


def quantiles(found: TimeToReady, level: Level) -> np.ndarray:
    return np.array([found.level(level).quantile_s(each) for each in PERCENTS])


SMALL, LARGE, PARALLEL = budget(), budget(LLAMA_2_70B, tp=2), budget(LLAMA_3_8B, tp=8)
SGLANG, STAND_IN = budget(engine="sglang"), budget(engine="tensorrt-llm")
EVERY = [SMALL, LARGE, PARALLEL, SGLANG, STAND_IN]
logs = st.fixed_dictionaries(
    {},
    optional={
        name: st.floats(min_value=0.1, max_value=5000)
        for name in ("boot", "weights", "compile", "compile_cached", "graphs", "warmup", "engine")
    },
).filter(bool)


# ---- less work is never slower ------------------------------------------------------------------------


@pytest.mark.parametrize("memory", EVERY, ids=lambda each: f"{each.runtime.engine} tp{each.runtime.sharding.tp}")
@pytest.mark.parametrize("storage", STORAGES)
def test_hot_is_not_slower_than_warm_nor_warm_than_cold(memory: MemoryBudget, storage: str) -> None:
    found = ready(memory, start(storage))
    cold, warm, hot = (quantiles(found, level) for level in Level)
    assert np.all(warm <= cold)
    assert np.all(hot <= warm)


@pytest.mark.slow
@given(st.lists(logs, min_size=1, max_size=3))
def test_so_it_is_whatever_was_measured(given_logs: list[dict[str, float]]) -> None:
    found = ready(SMALL, start("network-disk", *(measured(**each) for each in given_logs)))
    cold, warm, hot = (quantiles(found, level) for level in Level)
    assert np.all(warm <= cold)
    assert np.all(hot <= warm)


@pytest.mark.slow
@given(
    st.floats(min_value=1e7, max_value=1e11),
    st.floats(min_value=1.0, max_value=5.0),
    st.floats(min_value=1.0, max_value=5.0),
)
def test_so_it_is_at_any_rate_of_the_storage(middle: float, below: float, above: float) -> None:
    found = ready(SMALL, start(rate=(middle / below, middle, middle * above)))
    assert np.all(quantiles(found, Level.WARM) <= quantiles(found, Level.COLD))


@pytest.mark.parametrize("level", [Level.COLD, Level.WARM])
def test_more_weight_bytes_are_never_faster(level: Level) -> None:
    """Models on one device, lightest first: 13, 16, 138 and 470 GB."""
    models = [budget(model, tp=8) for model in (LLAMA_2_7B, LLAMA_3_8B, LLAMA_2_70B, QWEN3_235B)]
    found = [quantiles(ready(memory), level) for memory in models]
    for lighter, heavier in itertools.pairwise(found):
        assert np.all(lighter < heavier)


@pytest.mark.slow
@given(st.floats(min_value=1e8, max_value=1e11), st.floats(min_value=1.0, max_value=10.0))
def test_a_faster_disk_is_never_slower(rate: float, factor: float) -> None:
    slow, fast = (ready(SMALL, start(rate=(each, each, each))) for each in (rate, rate * factor))
    assert np.all(quantiles(fast, Level.COLD) <= quantiles(slow, Level.COLD))
    assert np.all(quantiles(fast, Level.WARM) <= quantiles(slow, Level.WARM))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_more_devices_are_never_faster_with_the_same_weights(engine: str) -> None:
    found = [quantiles(ready(budget(tp=tp, engine=engine)), Level.COLD) for tp in (1, 2, 4, 8)]
    assert all(np.all(few < many) for few, many in itertools.pairwise(found))


def test_weights_are_never_faster_than_the_host_link() -> None:
    """The physical floor: a device's weights over its PCIe bandwidth, however fast the disk is stated to be."""
    found = ready(LARGE, start(rate=(1e15, 1e15, 1e15)))
    link = LARGE.device.pcie_bandwidth
    assert link is not None
    floor_s = LARGE.line(LARGE.lines[0].name).line_bytes / float(link.value)
    assert found.figures["ready.weights_p50_s"].value == pytest.approx(floor_s, abs=1e-3)


def test_the_checkpoint_is_read_whole_whatever_the_cut() -> None:
    for memory in (SMALL, PARALLEL, SGLANG):
        assert float(ready(memory).figures["ready.checkpoint_bytes"].value) == pytest.approx(LLAMA_3_8B_BYTES, rel=1e-3)


# ---- phases and percentiles ---------------------------------------------------------------------------


@pytest.mark.parametrize("memory", EVERY, ids=lambda each: f"{each.runtime.engine} tp{each.runtime.sharding.tp}")
def test_means_add_up(memory: MemoryBudget) -> None:
    for level in ready(memory).levels:
        assert level.mean_s == pytest.approx(sum(phase.mean_s for phase in level.phases), rel=1e-9)


def test_a_phase_has_the_percentiles_of_its_fact() -> None:
    facts = startup_facts("vllm")
    for name in ("node", "image", "container", "probe", "discovery"):
        found = next(each for each in ready(SMALL).level(Level.COLD).phases if each.phase.value == name)
        assert found.p50_s == pytest.approx(facts.phases[name].value_s, rel=1e-3)
        assert found.p90_s == pytest.approx(facts.phases[name].high_s, rel=1e-2)
        fact = facts.phases[name]
        spread = Spread(low_s=fact.low_s, median_s=fact.value_s, high_s=fact.high_s)
        assert found.mean_s == pytest.approx(spread.mean_s, rel=1e-2)


def test_a_phase_grows_by_its_factor_for_each_doubling() -> None:
    facts = startup_facts("vllm")
    one, eight = ready(SMALL), ready(PARALLEL)
    for name in ("boot", "compile", "graphs", "warmup"):
        few, many = (float(each.figures[f"ready.{name}_p50_s"].value) for each in (one, eight))
        assert many / few == pytest.approx(facts.phases[name].per_doubling_ratio ** 3, rel=1e-3)


def test_the_sum_is_that_of_independent_draws() -> None:
    """The oracle: plain sampling, with the host's three phases drawn as one, agrees at p50, p90 and p99."""
    facts, rng = startup_facts("sglang"), np.random.default_rng(7)
    size = LLAMA_3_8B_BYTES
    draws = 400_000
    host = rng.standard_normal(draws)
    total = np.zeros(draws)
    for name in ("node", "image", "container", "boot", "graphs", "probe", "discovery"):
        fact = facts.phases[name]
        z = host if fact.moves_with == "host" else rng.standard_normal(draws)
        total += _two_sided(fact.low_s, fact.value_s, fact.high_s, z)
    rate = facts.bandwidths["network-disk"]
    assert rate.low is not None
    assert rate.high is not None
    times = (size / rate.high, size / float(rate.value), size / rate.low)
    total += _two_sided(*times, rng.standard_normal(draws))
    cold = ready(SGLANG).level(Level.COLD)
    for share, tolerance in ((0.5, 0.02), (0.9, 0.03), (0.99, 0.06)):
        assert cold.quantile_s(share) == pytest.approx(float(np.quantile(total, share)), rel=tolerance)


def _two_sided(low: float, middle: float, high: float, z: np.ndarray) -> np.ndarray:
    below, above = np.log(middle / low) / 1.2815515655446004, np.log(high / middle) / 1.2815515655446004
    return np.asarray(middle * np.exp(np.where(z < 0, below, above) * z))


@pytest.mark.parametrize("memory", EVERY, ids=lambda each: f"{each.runtime.engine} tp{each.runtime.sharding.tp}")
def test_percentiles_do_not_fall(memory: MemoryBudget) -> None:
    found = ready(memory)
    for level in Level:
        assert np.all(np.diff(quantiles(found, level)) >= 0)
        each = found.level(level)
        assert each.p50_s < each.p90_s < each.quantile_s(0.99)


def test_one_generator_one_answer() -> None:
    assert ready(LARGE, seed=3) == ready(LARGE, seed=3)
    assert ready(LARGE, seed=3) != ready(LARGE, seed=4)


def test_seeds_agree_within_the_stated_error() -> None:
    """p99 moves by a few percent from seed to seed, p50 by less: enough draws were taken."""
    found = [ready(LARGE, seed=seed).level(Level.COLD) for seed in range(12)]
    for share, tolerance in ((0.5, 0.02), (0.9, 0.03), (0.99, 0.10)):
        values = [each.quantile_s(share) for each in found]
        assert max(values) / min(values) < 1 + tolerance


def test_levels_have_the_phases_they_name() -> None:
    found = ready(SMALL)
    for level in Level:
        assert tuple(each.phase for each in found.level(level).phases) == tuple(
            phase for phase in LEVELS[level] if phase is not Phase.ENGINE
        )


def test_sglang_compiles_nothing() -> None:
    phases = {each.phase for level in ready(SGLANG).levels for each in level.phases}
    assert not phases & {Phase.COMPILE, Phase.COMPILE_CACHED, Phase.WARMUP}


def test_graphs_that_are_off_are_not_waited_for() -> None:
    settings = RuntimeSettings(source=SOURCE, engine="vllm", max_context_tokens=4096, max_sequences=16, graphs=False)
    memory = memory_budget(LLAMA_3_8B, find_device("h200-sxm"), settings)
    assert isinstance(memory, MemoryBudget)
    assert Phase.GRAPHS not in {each.phase for each in ready(memory).level(Level.COLD).phases}


# ---- measured phases win ------------------------------------------------------------------------------


def test_a_measured_phase_takes_the_place_of_the_default() -> None:
    found = ready(SMALL, start("network-disk", measured(boot=57.6, compile=15.35, graphs=14.0)))
    for name, seconds in {"boot": 57.6, "compile": 15.35, "graphs": 14.0}.items():
        figure = found.figures[f"ready.{name}_p50_s"]
        assert figure.value == pytest.approx(seconds, rel=1e-3)
        assert figure.evidence is Evidence.MEASURED
    assert found.figures["ready.warmup_p50_s"].evidence is Evidence.ASSUMED


def test_the_difference_to_the_default_is_reported() -> None:
    default = startup_facts("vllm").phases["boot"].value_s
    found = ready(SMALL, start("network-disk", measured(boot=57.6)))
    assert found.figures["ready.default.boot_p50_s"].value == pytest.approx(default)
    assert "ready.default.boot_p50_s" not in ready(SMALL).figures


def test_a_log_narrows_the_answer() -> None:
    """Hosts differ more than repeats on one host."""
    log = measured(boot=37.0, compile=24.6, compile_cached=7.6, graphs=15.4, warmup=9.5, weights=11.4)
    before, after = (ready(SMALL, each).level(Level.WARM) for each in (start(), start("network-disk", log)))
    assert after.p90_s - after.p50_s < (before.p90_s - before.p50_s) / 2
    assert after.quantile_s(0.99) < before.quantile_s(0.99)


def test_several_starts_count_by_their_median() -> None:
    starts = [measured(graphs=seconds) for seconds in (12.0, 14.0, 40.0)]
    found = ready(SMALL, start("network-disk", *starts))
    assert found.figures["ready.graphs_p50_s"].value == pytest.approx(14.0, rel=1e-3)
    assert float(found.figures["ready.graphs_p90_s"].value) == pytest.approx(40.0, rel=1e-2)


def test_an_eager_engine_neither_compiles_nor_captures() -> None:
    found = ready(SMALL, start("network-disk", measured(compile=0.0, compile_cached=0.0, graphs=0.0)))
    for name in ("compile", "compile_cached", "graphs"):
        assert found.figures[f"ready.{name}_p90_s"].value == 0.0


def test_an_engine_timed_as_a_whole_replaces_its_parts() -> None:
    found = ready(SMALL, start("network-disk", measured(compile=15.0, engine=60.0), measured(compile_cached=5.0)))
    warm = {each.phase: each for each in found.level(Level.WARM).phases}
    assert set(warm) == {Phase.CONTAINER, Phase.ENGINE, Phase.COMPILE_CACHED, Phase.PROBE, Phase.DISCOVERY}
    assert warm[Phase.ENGINE].p50_s == pytest.approx(60.0, rel=1e-3)
    cold = {each.phase for each in found.level(Level.COLD).phases}
    assert Phase.WEIGHTS in cold  # a new node waits longer for its weights than the engine that was timed
    assert not cold & {Phase.BOOT, Phase.GRAPHS, Phase.WARMUP}


def test_a_log_that_states_the_parts_comes_before_the_whole() -> None:
    found = ready(SMALL, start("network-disk", measured(engine=600.0), measured(boot=30.0, warmup=9.0)))
    assert Phase.ENGINE not in {each.phase for each in found.level(Level.WARM).phases}


def test_a_start_of_another_engine_is_refused() -> None:
    with pytest.raises(InputError, match="is a start of sglang, not of vllm"):
        ready(SMALL, start("network-disk", measured("sglang", boot=20.0)))


def test_a_rate_that_is_stated_replaces_that_of_the_storage() -> None:
    found = ready(SMALL, start(rate=(4e9, 4e9, 4e9)))
    assert found.figures["ready.weights_p50_s"].value == pytest.approx(LLAMA_3_8B_BYTES / 4e9, rel=1e-3)


def test_an_unknown_storage_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean network-disk"):
        ready(SMALL, start("network-disc"))


# ---- evidence -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [start(), start("network-disk", measured(boot=9.0)), start("streamed", measured(engine=60.0))]
)
def test_every_figure_ends_in_sources(settings: StartSettings) -> None:
    found = ready(SMALL, settings)
    for name, figure in found.figures.items():
        assert name == figure.name
        below = [each for _, each in walk(figure)]
        assert isinstance(below[-1], Source)
        assert all(each.inputs or each.sources for each in below if isinstance(each, Figure))


def test_names_mean_one_number() -> None:
    known: dict[str, object] = {}
    for figure in ready(LARGE, start("network-disk", measured(boot=9.0, engine=60.0))).figures.values():
        for _, each in walk(figure):
            if not isinstance(each, Source):
                assert known.setdefault(each.name, each) == each


def test_what_no_number_says_is_a_note() -> None:
    assert any("Give a start-up log" in note for note in ready(SMALL).notes)
    assert any("No start-up log of tensorrt-llm" in note for note in ready(STAND_IN).notes)
    assert any(
        "measured with version 0.22.0" in note for note in ready(SMALL, start("streamed", measured(boot=9.0))).notes
    )
