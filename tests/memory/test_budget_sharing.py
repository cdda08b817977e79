"""Several engines on one device: fractions and slices add up in one budget."""

from __future__ import annotations

import pytest

from support.served import LLAMA_2_7B, LLAMA_3_8B, SOURCE
from ullage.errors import InputError, Rejection
from ullage.facts.device import find_device
from ullage.facts.model import Model
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.estimate import LineName
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharing import SharedDevice, mig_slice_bytes, share_device

H100 = find_device("h100-sxm")
H200 = find_device("h200-sxm")
GIB = 2**30


def engine(model: Model, fraction: float | None = None, slice_bytes: int | None = None) -> MemoryBudget:
    settings = RuntimeSettings(
        source=SOURCE, memory_fraction=fraction, step_tokens=2048, max_sequences=128, max_context_tokens=4096
    )
    found = memory_budget(model, H100, settings, device_bytes=slice_bytes)
    assert isinstance(found, MemoryBudget), found
    return found


def test_engines_that_share_by_fraction_add_up_to_the_device() -> None:
    found = share_device(H100, {"chat": engine(LLAMA_3_8B, 0.5), "code": engine(LLAMA_2_7B, 0.4)})
    assert isinstance(found, SharedDevice)
    assert sum(claim.claim_bytes for claim in found.claims) + found.margin_bytes == H100.memory_bytes
    assert found.margin_bytes >= 0
    # An engine claims its fraction and what lies outside it: its context and, in older versions, its graphs.
    chat = found.claims[0]
    assert chat.claim_bytes > 0.5 * H100.memory_bytes
    assert chat.claim_bytes == H100.memory_bytes - chat.budget.line(LineName.MARGIN).line_bytes


def test_engines_that_claim_too_much_are_refused_with_a_fraction_that_fits() -> None:
    both = {"chat": engine(LLAMA_3_8B, 0.6), "code": engine(LLAMA_2_7B, 0.45)}
    found = share_device(H100, both)
    assert isinstance(found, Rejection)
    (remedy,) = found.remedies
    assert remedy.change.endswith("for chat")
    fraction = float(remedy.change.split()[2])
    again = share_device(H100, {**both, "chat": engine(LLAMA_3_8B, fraction)})
    assert isinstance(again, SharedDevice)


@pytest.mark.parametrize(
    ("device", "profile", "eighths"),
    [
        ("h100-sxm", "1g.10gb", 1),
        ("h100-sxm", "3g.40gb", 4),
        ("h100-sxm", "7g.80gb", 8),
        ("h200-sxm", "1g.18gb", 1),
        ("h200-sxm", "2g.35gb", 2),
        ("h200-sxm", "3g.71gb", 4),
        ("a100-40gb-sxm", "1g.5gb", 1),
        ("b200-sxm", "2g.45gb", 2),
    ],
)
def test_a_slice_is_so_many_eighths_of_the_memory(device: str, profile: str, eighths: int) -> None:
    found = find_device(device)
    assert mig_slice_bytes(found, profile) == found.memory_bytes * eighths // 8


@pytest.mark.parametrize("profile", ["40gb", "3g.50gb", "8g.80gb", "3g.400gb", ""])
def test_what_is_no_slice_is_refused_with_those_that_are(profile: str) -> None:
    with pytest.raises(InputError) as raised:
        mig_slice_bytes(H100, profile)
    assert raised.value.field == "MIG profile"
    assert "gb" in raised.value.fix


def test_slices_add_up_to_the_device() -> None:
    half = mig_slice_bytes(H100, "3g.40gb")
    found = share_device(H100, {"a": engine(LLAMA_3_8B, None, half), "b": engine(LLAMA_2_7B, None, half)})
    assert isinstance(found, SharedDevice)
    assert [claim.claim_bytes for claim in found.claims] == [half, half]
    assert found.margin_bytes == H100.memory_bytes - 2 * half
    for claim in found.claims:
        assert sum(line.line_bytes for line in claim.budget.lines) == half


def test_three_halves_are_refused() -> None:
    half = mig_slice_bytes(H100, "3g.40gb")
    found = share_device(H100, {name: engine(LLAMA_3_8B, None, half) for name in "abc"})
    assert isinstance(found, Rejection)
    assert found.remedies == ()  # a slice is a slice; no fraction inside it frees another


def test_an_engine_on_another_device_cannot_share_this_one() -> None:
    with pytest.raises(InputError, match="is not on h200-sxm"):
        share_device(H200, {"a": engine(LLAMA_3_8B, 0.5)})
