"""The law of summaries: a trace cut anywhere and merged again is the trace."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.traces import make_trace, where
from ullage.report.encode import to_json
from ullage.workload.anomalies import AnomalyKind
from ullage.workload.profile.merge import merge
from ullage.workload.profile.profile import Profile, profile_of
from ullage.workload.profile.summarise import groupings_of, summarise
from ullage.workload.trace import Clock, Trace

ROWS = 900
PERIOD_S = 5000.0
# Each case summarises a trace several times over; a few cuts of a few traces meet every kind of border.
FEW = settings(max_examples=8 if settings.get_current_profile_name() == "quick" else 200)


def random_trace(seed: int, clock: Clock = Clock.UTC) -> Trace:
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.uniform(0, PERIOD_S, ROWS).round(3))
    return make_trace(
        clock=clock,
        start_epoch_s=1_760_000_000.25,
        zone="UTC",
        arrival_s=(arrival_s - arrival_s[0]).tolist(),
        prompt_tokens=rng.integers(0, 3000, ROWS).tolist(),
        output_tokens=[None if chance < 0.05 else int(chance * 500) for chance in rng.random(ROWS)],
        cached_tokens=rng.integers(0, 100, ROWS).tolist(),
        duration_s=rng.exponential(5.0, ROWS).tolist(),
        status=rng.choice(["ok", "failed", "cancelled"], ROWS).tolist(),
        tenant=[f"t{n}" for n in rng.zipf(1.5, ROWS) % 20],
        model=rng.choice(["a", "b"], ROWS).tolist(),
        class_=rng.choice(["chat", "code"], ROWS).tolist(),
    )


def exact(profile: Profile) -> dict[str, object]:
    """All that merges exactly. What is in flight is a sum of fractions of tokens and is compared apart."""
    whole = replace(profile.whole, inflight=None)
    groups = tuple(replace(group, profile=replace(group.profile, inflight=None)) for group in profile.groups)
    found: dict[str, object] = to_json(replace(profile, whole=whole, groups=groups, distinct=()))
    return found


def inflight(profile: Profile) -> list[float]:
    """Every number about what is in flight, of the whole and of each group, in order."""
    parts = [part.inflight for part in (profile.whole, *(group.profile for group in profile.groups))]
    known = [part for part in parts if part is not None]
    assert known
    return [
        number for each in known for number in (each.mean_requests, *each.requests.values, *each.active_tokens.values)
    ]


def merged(trace: Trace, conditions: list[str]) -> Profile:
    groupings = groupings_of(trace)
    return profile_of(merge([summarise(where(trace, each), groupings=groupings) for each in conditions]))


@pytest.mark.slow
@FEW
@given(seed=st.integers(0, 1000), cuts=st.lists(st.floats(100, 4900), min_size=1, max_size=4, unique=True))
def test_partitions_in_time_merge_exactly(seed: int, cuts: list[float]) -> None:
    trace = random_trace(seed)
    borders = [-1.0, *sorted(cuts), 1e9]
    conditions = [f"arrival_s >= {low!r} AND arrival_s < {high!r}" for low, high in itertools.pairwise(borders)]
    together, whole = merged(trace, conditions), profile_of(summarise(trace))
    assert exact(together) == exact(whole)
    assert inflight(together) == pytest.approx(inflight(whole), abs=0.01)


@pytest.mark.slow
@FEW
@given(seed=st.integers(0, 1000), hosts=st.integers(2, 5))
def test_partitions_that_overlap_merge_all_but_the_gaps(seed: int, hosts: int) -> None:
    trace = random_trace(seed)
    conditions = [f"CAST(arrival_s * 1000 AS BIGINT) % {hosts} = {host}" for host in range(hosts)]
    together, whole = merged(trace, conditions), profile_of(summarise(trace))
    assert together.whole.arrivals is not None
    assert together.whole.arrivals.gap_cv_ratio is None
    assert whole.whole.arrivals is not None
    without = replace(whole, whole=replace(whole.whole, arrivals=replace(whole.whole.arrivals, gap_cv_ratio=None)))
    ignored = ("anomalies", "coverage")
    one, other = exact(together), exact(without)
    assert {key: one[key] for key in one if key not in ignored} == {
        key: other[key] for key in other if key not in ignored
    }


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_order_and_grouping_of_merges_do_not_matter(order: list[int]) -> None:
    trace = random_trace(7)
    groupings = groupings_of(trace)
    borders = [-1.0, 1000.0, 3000.0, 1e9]
    parts = [
        summarise(where(trace, f"arrival_s >= {low} AND arrival_s < {high}"), groupings=groupings)
        for low, high in itertools.pairwise(borders)
    ]
    at_once = profile_of(merge(parts))
    assert profile_of(merge([parts[at] for at in order])) == at_once
    assert exact(profile_of(merge([merge(parts[:2]), parts[2]]))) == exact(at_once)


def test_what_crosses_a_border_is_said_to_be_per_partition() -> None:
    trace = make_trace(arrival_s=range(10), prompt_tokens=[5] * 10, session=["s"] * 10, block_hashes=[[1, 2]] * 10)
    found = profile_of(merge([summarise(where(trace, "arrival_s < 5")), summarise(where(trace, "arrival_s >= 5"))]))
    assert found.whole.sessions is None
    assert found.reuse is None
    (said,) = [each for each in found.anomalies if each.kind is AnomalyKind.PER_PARTITION]
    assert "sessions and prefix reuse" in said.sentence


def test_partitions_of_different_clocks_do_not_merge() -> None:
    with pytest.raises(ValueError, match="share a clock"):
        merge([summarise(random_trace(1, Clock.UTC)), summarise(random_trace(1, Clock.RELATIVE))])
