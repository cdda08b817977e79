"""SGLang keeps the states of hybrid models in a pool of their own, which bounds how many sequences run."""

from __future__ import annotations

import pytest

from support.served import LLAMA_3_8B, QWEN3_NEXT_80B, SOURCE
from ullage.errors import Rejection
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.case import Approved, Case
from ullage.memory.estimate import StageEstimate, StatePool
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding
from ullage.memory.speculation import speculation

H200 = find_device("h200-sxm")
GIB = 2**30


def stage_of(model: object, **stated: object) -> StageEstimate:
    stated = {"engine": "sglang", "sharding": Sharding(tp=4), **stated}
    settings = RuntimeSettings(source=SOURCE, **stated)  # type: ignore[arg-type]
    return Case(model=model, device=H200, settings=settings).outcome().stage  # type: ignore[arg-type]


def states_of(model: object, **stated: object) -> StatePool:
    found = stage_of(model, **stated).states
    assert found is not None
    return found


def test_a_published_start_is_predicted() -> None:
    """Nemotron-3 Nano in NVFP4 on SGLang 0.5.21 over four GB10 with an fp8 cache (log of 2026-10-08): 0.44 + 24.84 GiB
    of states in 2,211 slots, 28.10 GiB for 19,644,177 tokens."""
    model = find_model("nemotron-3-nano-30b-a3b-nvfp4")
    found = stage_of(model, version="0.5.21", kv_pool_bytes=round((0.44 + 24.84 + 28.10) * GIB), kv_dtype="fp8")
    assert found.states is not None
    assert found.states.slots == pytest.approx(2211, rel=0.01)
    assert found.blocks * found.layout.block_tokens == pytest.approx(19_644_177, rel=0.01)


@pytest.mark.parametrize("version", ["0.5.3", "0.5.9", "0.5.18"])
def test_states_and_blocks_share_the_pool_and_no_more(version: str) -> None:
    found = stage_of(QWEN3_NEXT_80B, version=version)
    states = found.states
    assert states is not None
    assert states.pool_bytes + found.blocks * found.layout.block_bytes == found.kv_bytes <= found.pool_bytes
    assert found.pool_bytes - found.kv_bytes < states.slot_bytes + found.layout.block_bytes
    if version != "0.5.3":
        ratio = states.pool_bytes / (found.pool_bytes - states.pool_bytes)
        assert ratio == pytest.approx(0.9, rel=0.01)


@pytest.mark.parametrize(("version", "each"), [("0.5.3", 1), ("0.5.4", 3), ("0.5.13", 3), ("0.5.14", 5), ("0.5.23", 5)])
def test_a_sequence_reserves_the_slots_of_its_version(version: str, each: int) -> None:
    found = states_of(QWEN3_NEXT_80B, version=version)
    assert found.slots_per_sequence == each
    budget = memory_budget(
        QWEN3_NEXT_80B,
        H200,
        RuntimeSettings(source=SOURCE, engine="sglang", version=version, sharding=Sharding(tp=4)),
        contexts_tokens=(1024,),
    )
    assert isinstance(budget, MemoryBudget)
    (short,) = budget.concurrency
    assert short.sequences == min(found.slots // each, 2048)
    assert short.bound_by == ("states set aside" if found.slots // each < 2048 else "max sequences")


def test_without_a_cache_of_prefixes_each_sequence_takes_one() -> None:
    assert states_of(QWEN3_NEXT_80B, version="0.5.18", prefix_cache="off").slots_per_sequence == 1


def test_drafted_tokens_take_states_of_the_same_budget() -> None:
    plain, drafting = (
        states_of(QWEN3_NEXT_80B, version="0.5.18", speculation=given)
        for given in (None, speculation("ngram", 3, source=SOURCE, field="speculation", tokens_per_step=2.0))
    )
    assert drafting.slots == pytest.approx(plain.slots / (1 + 4 / 5), rel=0.01)
    assert drafting.pool_bytes == pytest.approx(plain.pool_bytes, rel=0.01)


def test_more_sequences_than_states_is_refused_and_not_an_error() -> None:
    most = states_of(QWEN3_NEXT_80B, version="0.5.18").sequences
    settings = RuntimeSettings(source=SOURCE, engine="sglang", version="0.5.18", sharding=Sharding(tp=4))
    fits, over = (
        memory_budget(QWEN3_NEXT_80B, H200, settings, approved=Approved(context_tokens=64, sequences=sequences))
        for sequences in (most, most + 1)
    )
    assert isinstance(fits, MemoryBudget)
    assert isinstance(over, Rejection)
    assert "states" in over.reason


def test_other_engines_and_other_models_have_none() -> None:
    assert stage_of(QWEN3_NEXT_80B, engine="vllm").states is None
    assert stage_of(LLAMA_3_8B).states is None
