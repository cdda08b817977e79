"""Reported values in a budget: they replace estimates line by line, and a log of something else is refused."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.served import LLAMA_3_8B, SOURCE
from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Evidence, Figure, Source, walk
from ullage.facts.device import find_device
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.engine_report import EngineMemory, OomEvent, OomKind, Rank, engine_memory, reading
from ullage.memory.estimate import LineName
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding

A100 = find_device("a100-80gb-sxm")
GIB = 2**30
LOG = Source(what="vLLM start-up log", where="vllm.log:12", date=datetime.date(2026, 10, 6))

# Llama-3.1-8B on one A100 80GB, vLLM 0.31, as its log says: 15.0 GiB of weights, 15.26 with the workspace, 1.44 of
# activations with 0.23 of graphs in them, 56.21 of cache for 460,496 tokens, of 79.25 with 78.84 free at the start.
SAID = {
    "device_memory": 79.25 * GIB,
    "free_at_start": 78.84 * GIB,
    "weights": 15.0 * GIB,
    "weights_and_non_torch": 15.26 * GIB,
    "activations": 1.44 * GIB,
    "graphs": 0.23 * GIB,
    "kv_cache": 56.21 * GIB,
    "kv_tokens": 460_496,
}


def reported_of(said: dict[str, float], *, engine: str = "vllm", ooms: tuple[OomEvent, ...] = ()) -> EngineMemory:
    readings = [reading(name, value, Rank(), LOG) for name, value in said.items()]
    return engine_memory(engine=engine, version="0.31.0", readings=readings, oom_events=ooms)


def budget(said: dict[str, float], **stated: object) -> MemoryBudget:
    found = memory_budget(LLAMA_3_8B, A100, RuntimeSettings(source=SOURCE, **stated), reported=reported_of(said))  # type: ignore[arg-type]
    assert isinstance(found, MemoryBudget), found
    return found


def test_every_line_the_log_states_is_measured_and_shows_its_difference() -> None:
    found = budget(SAID)
    expected = {
        LineName.WEIGHTS: 15.0,
        LineName.WORKSPACE: 0.26,
        LineName.ACTIVATIONS: 1.21,
        LineName.GRAPHS: 0.23,
        LineName.CONTEXT: 0.41,
        LineName.KV_CACHE: 56.21,
    }
    for name, gib in expected.items():
        line = found.line(name)
        assert line.line_bytes / GIB == pytest.approx(gib, abs=0.005), name
        assert line.evidence is Evidence.MEASURED, name
        assert line.estimate is not None
        assert isinstance(line.estimate.value, int)
        assert line.difference_bytes == line.line_bytes - line.estimate.value
    assert found.kv_tokens == 460_496
    assert found.figures["memory.kv_tokens"].evidence is Evidence.MEASURED
    assert found.device_bytes == round(79.25 * GIB)
    assert sum(line.line_bytes for line in found.lines) == found.device_bytes


def test_the_estimate_is_what_would_have_been_said_without_the_log() -> None:
    alone = memory_budget(LLAMA_3_8B, A100, RuntimeSettings(source=SOURCE, version="0.31.0"))
    assert isinstance(alone, MemoryBudget)
    estimate = budget(SAID).line(LineName.KV_CACHE).estimate
    assert estimate is not None
    pool = alone.line(LineName.KV_CACHE).line_bytes + alone.line(LineName.ROUNDING).line_bytes
    assert estimate.value == pool
    assert estimate.value == pytest.approx(56.21 * GIB, rel=0.03)


@given(keys=st.sets(st.sampled_from(sorted(SAID)), min_size=1))
def test_whatever_part_of_the_log_there_is_wins_and_lines_still_add_up(keys: set[str]) -> None:
    found = budget({key: SAID[key] for key in keys})
    assert sum(line.line_bytes for line in found.lines) == found.device_bytes
    if "weights" in keys:
        assert found.line(LineName.WEIGHTS).line_bytes == 15 * GIB
    if "graphs" in keys:
        assert found.line(LineName.GRAPHS).line_bytes == round(0.23 * GIB)
    if "kv_tokens" in keys:
        assert found.kv_tokens == 460_496
    if "kv_cache" in keys:
        kept = found.line(LineName.KV_CACHE).line_bytes + found.line(LineName.ROUNDING).line_bytes
        assert kept == round(56.21 * GIB)


def test_a_name_means_one_number() -> None:
    values: dict[str, object] = {}
    for figure in budget(SAID).figures.values():
        for _, each in walk(figure):
            if isinstance(each, Figure | Assumption):
                assert values.setdefault(each.name, each.value) == each.value, each.name


def test_settings_in_the_log_fill_the_gaps_as_measured() -> None:
    found = budget({**SAID, "token_budget": 4096, "max_sequences": 64, "context_tokens": 32_768})
    assumed = {each.name: each for each in found.runtime.assumptions}
    assert (assumed["token budget"].value, assumed["token budget"].evidence) == (4096, Evidence.MEASURED)
    assert found.approved.context_tokens == 32_768
    assert found.runtime.version == "0.31.0"


def test_a_stated_setting_that_the_log_contradicts_is_refused() -> None:
    with pytest.raises(InputError, match=r"memory fraction = 0\.8: vllm\.log:12 says 0\.92"):
        budget({**SAID, "memory_fraction": 0.92}, memory_fraction=0.8)


def test_a_log_of_another_engine_is_refused() -> None:
    with pytest.raises(InputError, match="another engine"):
        memory_budget(
            LLAMA_3_8B, A100, RuntimeSettings(source=SOURCE, engine="sglang"), reported=reported_of(SAID, engine="vllm")
        )


def test_a_log_of_another_device_or_model_is_refused() -> None:
    with pytest.raises(InputError, match="another device"):
        budget({**SAID, "device_memory": 139.8 * GIB})
    with pytest.raises(InputError, match="something else"):
        budget({**SAID, "kv_tokens": 920_992})


def test_weights_and_workspace_in_one_number_are_taken_apart() -> None:
    found = budget({"weights_and_non_torch": 15.26 * GIB})
    both = found.line(LineName.WEIGHTS).line_bytes + found.line(LineName.WORKSPACE).line_bytes
    assert both == round(15.26 * GIB)


def test_an_out_of_memory_raises_the_margin() -> None:
    event = OomEvent(kind=OomKind.DEVICE, while_serving=True, source=LOG, shortfall_bytes=7 * GIB)
    settings = RuntimeSettings(source=SOURCE)
    found = memory_budget(LLAMA_3_8B, A100, settings, reported=reported_of(SAID, ooms=(event,)))
    assert isinstance(found, Rejection)
    assert found.reason.startswith("safety margin: ")
    change = next(each.change for each in found.remedies if each.change.startswith("memory fraction"))
    lower = RuntimeSettings(source=SOURCE, memory_fraction=float(change.split()[-1]))
    again = memory_budget(LLAMA_3_8B, A100, lower)
    assert isinstance(again, MemoryBudget)
    assert again.line(LineName.MARGIN).line_bytes >= 7 * GIB


def test_an_out_of_memory_that_the_margin_covers_is_no_reason_to_refuse() -> None:
    event = OomEvent(kind=OomKind.DEVICE, while_serving=True, source=LOG)
    found = memory_budget(LLAMA_3_8B, A100, RuntimeSettings(source=SOURCE), reported=reported_of(SAID, ooms=(event,)))
    assert isinstance(found, MemoryBudget)


def test_tokens_of_several_attention_groups_are_shared_out() -> None:
    """The log's tokens are the sum over groups; each device holds the blocks of its own."""
    said = {"kv_tokens": 4 * 160_000.0}
    found = memory_budget(
        LLAMA_3_8B,
        A100,
        RuntimeSettings(source=SOURCE, sharding=Sharding(tp=4, dp_attention=4), max_context_tokens=8192),
        reported=reported_of(said),
    )
    assert isinstance(found, MemoryBudget)
    assert found.kv_tokens == 640_000
    assert found.kv_blocks == 10_000


def test_what_a_monitor_saw_beyond_the_lines_is_fragmentation() -> None:
    quiet = budget(SAID)
    claimed = (
        quiet.device_bytes - quiet.line(LineName.MARGIN).line_bytes - quiet.line(LineName.FRAGMENTATION).line_bytes
    )
    busy = budget({**SAID, "resident_peak": claimed + GIB})
    assert busy.line(LineName.FRAGMENTATION).line_bytes == GIB
    assert busy.line(LineName.FRAGMENTATION).evidence is Evidence.MEASURED
    assert sum(line.line_bytes for line in busy.lines) == busy.device_bytes
    calm = budget({**SAID, "resident_peak": claimed - GIB})
    assert calm.line(LineName.FRAGMENTATION).line_bytes == 0


def test_memory_that_ran_out_is_noted() -> None:
    event = OomEvent(kind=OomKind.HOST, while_serving=False, source=LOG)
    found = memory_budget(LLAMA_3_8B, A100, RuntimeSettings(source=SOURCE), reported=reported_of(SAID, ooms=(event,)))
    assert isinstance(found, MemoryBudget)
    assert any("Memory ran out at start-up (host)" in note for note in found.notes)


def test_a_monitors_total_is_not_what_a_process_gets() -> None:
    """nvidia-smi prints 81,920 MiB for an A100 of which 79.25 GiB can be had."""
    found = budget({"device_memory": 81_920 * 2**20, "resident_peak": 70 * GIB})
    assert found.device_bytes == A100.memory_bytes
