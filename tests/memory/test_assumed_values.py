"""Values of ours are those that their sources state."""

from __future__ import annotations

import re

import pytest

from support.served import LLAMA_3_8B, SOURCE
from ullage.errors import InputError
from ullage.facts.device import find_device
from ullage.memory.assumed import FRAGMENTATION, HOST_PROCESS, ONE_SEQUENCE, SGLANG_SEQUENCES
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding
from ullage.memory.sharing import mig_slice_bytes


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"\d+(?:\.\d+)?", text)]


def test_fragmentation_is_what_was_reserved_beyond_what_was_in_use() -> None:
    said = numbers(FRAGMENTATION.source.what.split(":")[1])
    assert float(FRAGMENTATION.value) == pytest.approx(said[0] / said[1], abs=0.005)


def test_a_worker_takes_what_one_took() -> None:
    (gigabytes,) = numbers(HOST_PROCESS.source.what.split(":")[1])
    assert float(HOST_PROCESS.value) == pytest.approx(gigabytes * 1e9, rel=0.005)


def test_sequences_lie_where_the_engines_source_says() -> None:
    least, most = numbers(SGLANG_SEQUENCES.source.what.split("fit,")[1])
    assert (SGLANG_SEQUENCES.value, SGLANG_SEQUENCES.low, SGLANG_SEQUENCES.high) == (least, least, most)
    assert ONE_SEQUENCE.value == 1


def test_fragmentation_is_a_share_of_activations() -> None:
    settings = RuntimeSettings(
        source=SOURCE, engine="vllm", max_context_tokens=4096, step_tokens=2048, max_sequences=64
    )
    found = memory_budget(LLAMA_3_8B, find_device("h100-sxm"), settings)
    assert isinstance(found, MemoryBudget)
    activations = float(found.figures["memory.activations_bytes"].value)
    assert float(found.figures["memory.fragmentation_bytes"].value) == pytest.approx(0.11 * activations, rel=1e-6)


def test_the_parallelism_is_among_the_assumptions_by_name() -> None:
    settings = RuntimeSettings(source=SOURCE, engine="vllm", max_context_tokens=4096, sharding=Sharding(tp=4, pp=2))
    found = memory_budget(LLAMA_3_8B, find_device("h100-sxm"), settings)
    assert isinstance(found, MemoryBudget)
    held = {each.name: each.value for each in found.runtime.assumptions}
    assert {name: held[name] for name in ("tp", "pp", "ep", "dp_attention")} == {
        "tp": 4,
        "pp": 2,
        "ep": 1,
        "dp_attention": 1,
    }
    assert held["context"] == 4096


@pytest.mark.parametrize("profile", ["1g.12gb", "3g.36gb", "3g.30gb", "2g.23gb", "1g.0gb"])
def test_a_slice_whose_name_is_off_by_a_tenth_is_none(profile: str) -> None:
    with pytest.raises(InputError, match="MIG profile"):
        mig_slice_bytes(find_device("h100-sxm"), profile)


def test_half_a_device_is_half_of_its_memory() -> None:
    h100 = find_device("h100-sxm")
    assert mig_slice_bytes(h100, "3g.40gb") == h100.memory_bytes // 2
    assert mig_slice_bytes(h100, "1g.20gb") == h100.memory_bytes // 4
    assert mig_slice_bytes(h100, "7g.80gb") == h100.memory_bytes
