"""Several engines on one device, by memory fractions or by MIG slices, adding up in one budget.

An engine that shares by fraction claims every line but its margin. One in a MIG slice claims the slice, whole, margin
and all: memory cannot cross the border. Unclaimed memory is the margin of the device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ullage.errors import InputError, Rejection, Remedy
from ullage.evidence import Figure
from ullage.facts.device import Device
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.estimate import LineName
from ullage.memory.settings import share, whole

_SLICES = 8
"""A device that can be sliced gives out its memory in eighths, since A100."""

_SIZES = (1, 2, 4, 8)
"""The eighths a slice can have."""

_ROUNDING_FRACTION = 0.1
"""How far the number in a slice's name may be from its eighths: B200's are named after 180 of its 192 GB."""

_PROFILE = re.compile(r"(?P<compute>[1-7])g\.(?P<gb>\d+)gb")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What one engine takes of the device."""

    engine: str
    claim_bytes: int
    budget: MemoryBudget


@dataclass(frozen=True, kw_only=True)
class SharedDevice:
    """The engines of one device. Claims and margin add up to its memory."""

    device: Device
    claims: tuple[Claim, ...]
    margin: Figure

    @property
    def margin_bytes(self) -> int:
        return whole(self.margin)


def share_device(device: Device, budgets: Mapping[str, MemoryBudget]) -> SharedDevice | Rejection:
    """All engines of one device in one budget; refused where they claim more than it has."""
    claims = tuple(_claim(device, name, budget) for name, budget in budgets.items())
    left_bytes = device.memory_bytes - sum(claim.claim_bytes for claim in claims)
    margin = Figure(
        name="memory.shared_margin_bytes",
        value=left_bytes,
        unit="bytes",
        formula="device memory - what its engines claim",
        inputs=(device.memory, *(_claimed(claim) for claim in claims)),
    )
    if left_bytes >= 0:
        return SharedDevice(device=device, claims=claims, margin=margin)
    largest = max(claims, key=lambda claim: claim.claim_bytes)
    listed = ", ".join(f"{claim.engine} {claim.claim_bytes / 2**30:.2f} GiB" for claim in claims)
    return Rejection(
        stage="memory",
        reason=f"the engines claim {-left_bytes / 2**30:.2f} GiB more than the device has: {listed}",
        figure=margin,
        remedies=_smaller_fraction(device, largest, -left_bytes),
    )


def mig_slice_bytes(device: Device, profile: str) -> int:
    """The memory of a MIG slice such as `3g.40gb`: the eighths of the device that its name stands for.

    The number in the name is rounded by the vendor (two eighths of 141 GB are `2g.35gb`), so it only says how many.
    """
    found = _PROFILE.fullmatch(profile.strip().lower())
    if found is None:
        fix = "Give compute and memory, for example 3g.40gb."
        raise InputError(field="MIG profile", value=profile, problem="is not the name of a slice", fix=fix)
    eighth_gb = _gb(device) / _SLICES
    slices = round(int(found["gb"]) / eighth_gb)
    if slices not in _SIZES or abs(slices * eighth_gb - int(found["gb"])) > _ROUNDING_FRACTION * int(found["gb"]):
        problem = f"is not a slice of {device.name}, which has {_gb(device):.0f} GB"
        raise InputError(field="MIG profile", value=profile, problem=problem, fix=_profiles(device))
    return device.memory_bytes * slices // _SLICES


def _gb(device: Device) -> float:
    """What is printed on the box, in the GiB that vendors call GB."""
    return whole(device.marketing_memory) / 2**30


def _profiles(device: Device) -> str:
    eighth_gb = _gb(device) / _SLICES
    names = [f"{compute}g.{int(slices * eighth_gb)}gb" for compute, slices in ((1, 1), (2, 2), (3, 4), (4, 4), (7, 8))]
    return f"Give one of {', '.join(names)}."


def _claim(device: Device, name: str, budget: MemoryBudget) -> Claim:
    if budget.device.name != device.name:
        raise InputError(
            field="device", value=budget.device.name, problem=f"{name} is not on {device.name}", fix="Budget it there."
        )
    sliced = budget.device_bytes < device.memory_bytes
    own_margin = 0 if sliced else budget.line(LineName.MARGIN).line_bytes
    return Claim(engine=name, claim_bytes=budget.device_bytes - own_margin, budget=budget)


def _claimed(claim: Claim) -> Figure:
    lines = tuple(line.figure for line in claim.budget.lines if line.name is not LineName.MARGIN)
    return Figure(
        name=f"memory.claim_of_{claim.engine}_bytes",
        value=claim.claim_bytes,
        unit="bytes",
        formula="its lines, or its slice",
        inputs=lines,
    )


def _smaller_fraction(device: Device, largest: Claim, excess_bytes: int) -> tuple[Remedy, ...]:
    """A fraction for the largest engine that frees the excess, worked out again."""
    runtime = largest.budget.runtime
    fraction = share(runtime.memory_fraction) - excess_bytes / device.memory_bytes
    fraction = int(fraction * 100) / 100
    if fraction <= 0 or largest.budget.device_bytes < device.memory_bytes:
        return ()
    settings = replace(runtime.settings, memory_fraction=fraction, kv_pool_bytes=None, logged={})
    again = memory_budget(largest.budget.model, device, settings, approved=largest.budget.approved, devices=())
    if isinstance(again, Rejection) or largest.claim_bytes - _claim(device, "", again).claim_bytes < excess_bytes:
        return ()
    change = f"memory fraction {fraction:g} for {largest.engine}"
    return (Remedy(change=change, effect=f"all engines fit; {again.kv_tokens:,} KV tokens for {largest.engine}"),)
