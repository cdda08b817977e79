"""Step times fitted to production: what was planted comes back, and the calibration is one that a plan reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.kept_case import KeptCase
from support.planned import AS_OF
from support.production import Planted
from ullage.errors import Rejection
from ullage.evidence import Source
from ullage.load.pool import load_pool
from ullage.reconcile.inputs import DriftInputs, InputVerdict, ratio_by_day
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.reconcile.refit import FitReplica, StepRefit, refit_steps
from ullage.service.calibration.calibration import Calibration
from ullage.service.calibration.evidence import engine_limits
from ullage.service.calibration.pool_step import pool_step

HOUR_S = 3600.0


def by_the_engine(kept: KeptCase, seen: Observation, ratio: float) -> Observation:
    """TTFT as an engine counts it: without what a request spends outside, which the simulated client has in it."""
    outside_s = ratio * kept.evaluation.trial(DriftInputs()).replica.engine.request_overhead_s
    first = [
        None if each is None else replace(each, sum_s=each.sum_s - each.count * outside_s)
        for each in seen.latencies[ObservedQuantity.TTFT]
    ]
    return replace(seen, latencies={**seen.latencies, ObservedQuantity.TTFT: tuple(first)})


def produced(kept: KeptCase, planted: Planted) -> Observation:
    seen = kept.production.observation(planted, start_s=kept.start_s, weeks=1.0, seed=4)
    return by_the_engine(kept, seen, planted.inputs.step_ratio)


def refitted(kept: KeptCase, seen: Observation) -> tuple[StepRefit, Calibration] | None:
    pool = load_pool(kept.file, as_of=AS_OF, seed=0)
    assert not isinstance(pool, Rejection)
    replica = FitReplica(
        estimate=pool_step(pool.memory),
        step=pool.step,
        limits=engine_limits(pool.memory.runtime, pool.memory.kv_tokens),
        source=Source(what="production", where="a test", date=AS_OF),
    )
    found = refit_steps(replica, kept.evaluation, seen, DriftInputs(), seed=0)
    return None if found is None else (found[0], found[1].calibration)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 1.4])
def test_planted_step_times_come_back_within_their_band(kept: KeptCase, ratio: float) -> None:
    found = refitted(kept, produced(kept, Planted(inputs=DriftInputs(step_ratio=ratio))))
    assert found is not None
    refit, fit = found
    assert len(refit.loads) >= 2
    assert refit.decode_ratio / refit.slow_ratio <= ratio <= refit.decode_ratio * refit.slow_ratio
    assert refit.decode_ratio == pytest.approx(ratio, rel=0.08)
    # Production narrows what an estimate leaves open.
    assert refit.slow_ratio < kept.expected.pools[0].step_slow_ratio
    assert refit.disagreements == ()
    assert "fixed" not in fit.not_identified


@pytest.mark.slow
def test_without_gaps_between_tokens_the_time_in_the_system_says_how_long_they_were(kept: KeptCase) -> None:
    seen = produced(kept, Planted(inputs=DriftInputs(step_ratio=1.4)))
    kinds = (ObservedQuantity.TTFT, ObservedQuantity.E2E)
    for known in (kinds, kinds[:1]):
        bare = replace(seen, latencies={each: seen.latencies[each] for each in known})
        found = refitted(kept, bare)
        assert found is not None
        assert found[0].decode_ratio == pytest.approx(1.4, rel=0.12)


@pytest.mark.slow
def test_counts_that_break_littles_law_are_named_and_no_latency_is_no_fit(kept: KeptCase) -> None:
    seen = produced(kept, Planted())
    levels = {**seen.levels, ObservedQuantity.RUNNING: 2.0 * seen.levels[ObservedQuantity.RUNNING]}
    found = refitted(kept, replace(seen, levels=levels))
    assert found is not None
    assert "Little's law" in found[0].disagreements[0]
    assert refitted(kept, replace(seen, latencies={})) is None


def test_a_stretch_of_hours_is_judged_by_its_parts() -> None:
    at_s = HOUR_S * (np.arange(8, dtype=np.float64) + 0.5)
    rng = np.random.default_rng(0)
    expected = np.full(8, 100.0)
    steady = expected * (1.0 + 0.02 * rng.normal(size=8))
    assert (found := ratio_by_day(steady, expected, at_s)) is not None
    assert found.verdict is InputVerdict.HOLDS
    assert (found := ratio_by_day(3.0 * steady, expected, at_s)) is not None
    assert found.verdict is InputVerdict.DRIFTED
    # One step has no scatter, and what has none is no drift.
    assert (found := ratio_by_day(3.0 * steady[:1], expected[:1], at_s[:1])) is not None
    assert found.verdict is InputVerdict.HOLDS
