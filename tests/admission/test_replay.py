"""A burst played moment by moment: every request counted once, and what limits are for."""

from __future__ import annotations

import pytest

from support.admission_pools import limits
from ullage.admission.replay import BurstReplay
from ullage.admission.retries import LIMITS_AND_BUDGET, NO_LIMITS


def replay(protection: str) -> BurstReplay:
    return next(each for each in limits().replays if each.protection == protection)


@pytest.mark.slow
def test_every_request_that_comes_is_in_time_late_or_refused() -> None:
    for each in limits().replays:
        parts = zip(each.success_rps, each.late_rps, each.refused_rps, strict=True)
        assert [sum(part) for part in parts] == pytest.approx(each.offered_rps, rel=2e-3, abs=1e-6)
        assert min(each.late_rps) >= 0.0
        assert len(each.waiting_requests) == len(each.offered_rps)


@pytest.mark.slow
def test_both_protections_meet_the_same_burst_and_it_is_where_it_is_said_to_be() -> None:
    bare, guarded = replay(NO_LIMITS), replay(LIMITS_AND_BUDGET)
    assert bare.offered_rps == guarded.offered_rps
    burst = range(int(bare.from_s / bare.step_s) + 1, int(bare.until_s / bare.step_s))
    assert sum(bare.offered_rps[at] for at in burst) / len(burst) == pytest.approx(bare.burst_rps, rel=0.1)
    quiet = bare.offered_rps[: int(bare.from_s / bare.step_s)]
    assert sum(quiet) / len(quiet) == pytest.approx(bare.planned_rps, rel=0.15)


@pytest.mark.slow
def test_limits_refuse_so_that_more_is_in_time_and_the_queue_stays_short() -> None:
    bare, guarded = replay(NO_LIMITS), replay(LIMITS_AND_BUDGET)
    assert max(bare.refused_rps) == 0.0
    assert max(guarded.refused_rps) > 0.0
    assert guarded.success_fraction > bare.success_fraction
    assert max(guarded.waiting_requests) < 0.5 * max(bare.waiting_requests)
    assert guarded.back_after_s is not None
    figures = limits().figures
    assert figures["replay.budgeted_success_fraction"].value == guarded.success_fraction
    assert figures["replay.bare_queue_requests"].value == pytest.approx(max(bare.waiting_requests) / bare.replicas)
    assert ("replay.bare_back_s" in figures) == (bare.back_after_s is not None)
