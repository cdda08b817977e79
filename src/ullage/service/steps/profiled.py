"""The step model of a profile: its grid on the estimate of the same replica, with a band and notes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.efficiency import efficiencies
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.service.steps.coefficients import StepErrorBand, band
from ullage.service.steps.grid import (
    MOST_KERNEL_RATIO,
    ProfiledStep,
    ProfileGrid,
    estimated_decode_s,
    estimated_prefill_s,
    of_kernels,
)
from ullage.service.steps.nearness import EXACT
from ullage.service.steps.profile_table import KERNELS, STEPS, ProfileTable
from ullage.service.steps.step_model import MeasuredRange, StepModel

_NEARER = (
    "The step profile adds up kernels, and this exact configuration was published: its measurements are nearer, so the "
    "profile is not used."
)


def profiled_model(table: ProfileTable, *, like: StepModel, source: Source) -> StepModel:
    """What was measured in place of the estimate `like`, whose floor it keeps.

    It remains an estimate where decode steps or prefill steps are missing, or half of their points are not used.
    """
    is_kernels = table.timed == KERNELS
    if is_kernels and like.band.new == EXACT:
        return replace(like, notes=(_NEARER, *like.notes))
    too_slow = _too_slow(table.grid, like) if is_kernels else {}
    grid = of_kernels(table.grid, like) if is_kernels else table.grid
    missing = [kind for kind, points in (("decode", grid.decode), ("prefill", grid.prefill)) if not points]
    is_profiled = not missing and all(each < 0.5 for each in too_slow.values())
    name = "grid of measured kernels" if is_kernels else "grid of measured steps"
    evidence = Evidence.PROFILED if is_profiled else Evidence.ESTIMATED
    profile = Assumption(name=name, value=source.what, unit="text", evidence=evidence, source=source)
    return replace(
        like,
        kind="grid",
        times=ProfiledStep(grid=grid, estimate=like.times),
        evidence=evidence,
        request_overhead_s=0.0 if table.is_client and grid.prefill else like.request_overhead_s,
        band=_band(like, is_kernels=is_kernels) if is_profiled else like.band,
        facts=(profile,) if is_profiled else (profile, *like.facts),
        measured=table.measured,
        notes=(*_notes(table.measured, missing, too_slow), *(() if is_profiled else like.notes)),
    )


def _too_slow(grid: ProfileGrid, like: StepModel) -> dict[str, float]:
    """The share of points at which kernels add up to more than engines' steps are ever found to be, by kind."""
    ratios = {
        "decode": [each.duration_s / estimated_decode_s(like.times, each) for each in grid.decode],
        "prefill": [each.duration_s / estimated_prefill_s(like.times, each) for each in grid.prefill],
    }
    return {kind: float(np.mean(np.array(each) > MOST_KERNEL_RATIO)) for kind, each in ratios.items() if each}


def _band(like: StepModel, *, is_kernels: bool) -> StepErrorBand:
    if is_kernels:
        return band(efficiencies().sheets[f"band-{KERNELS}"], KERNELS)
    known = DEFAULT_BANDS[Evidence.PROFILED]
    return replace(like.band, new=STEPS, tpot_low_ratio=known.fast_ratio, tpot_high_ratio=known.slow_ratio)


def _notes(measured: MeasuredRange, missing: list[str], too_slow: dict[str, float]) -> Iterator[str]:
    for kind in missing:
        yield f"The step profile has no {kind} steps; they are estimated."
    for kind, share in too_slow.items():
        if share > 0.0:
            yield (
                f"At {100 * share:.0f} % of its {kind} points the profile adds kernels up to more than "
                f"{MOST_KERNEL_RATIO:g} times the estimate. Published configurations of which that was said were as "
                f"fast as estimated, so these points are estimated."
            )
    limits = {
        "decode": f"{measured.sequences:,} sequences and {measured.kv_tokens:,} KV tokens",
        "prefill": f"{measured.prefill_tokens:,} prompt tokens a step",
    }
    said = " and ".join(text for kind, text in limits.items() if kind not in missing)
    yield f"Beyond {said}, which were profiled, steps grow as the estimate does, from the profile's last points on."
