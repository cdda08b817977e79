"""The integer program against every mix there is, on cases small enough to try them all."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.planning.options.mixes import MixKind, MixProblem, Slice, best_mix

PARTS = 3


def compositions(parts: int, places: int) -> list[tuple[int, ...]]:
    return [each for each in itertools.product(range(parts + 1), repeat=places) if sum(each) == parts]


def brute_force_usd(problem: MixProblem) -> float | None:
    """The least cost over every way to deal every slice, in parts, to every kind."""
    ways = [
        [
            dealt
            for dealt in compositions(problem.parts, len(problem.kinds))
            if all(not count or problem.can_serve(kind, part) for kind, count in zip(problem.kinds, dealt, strict=True))
        ]
        for part in problem.slices
    ]
    best = None
    for deal in itertools.product(*ways):
        replicas = [
            math.ceil(
                sum(
                    dealt[number] * problem.work(kind, part)
                    for part, dealt in zip(problem.slices, deal, strict=True)
                    if dealt[number]
                )
                - 1e-7
            )
            for number, kind in enumerate(problem.kinds)
        ]
        used: dict[str, float] = {}
        for kind, count in zip(problem.kinds, replicas, strict=True):
            used[kind.device] = used.get(kind.device, 0) + count * kind.devices
        if any(used.get(device, 0) > quota for device, quota in problem.quotas.items()):
            continue
        usd = sum(kind.usd_per_hour * count for kind, count in zip(problem.kinds, replicas, strict=True))
        best = usd if best is None else min(best, usd)
    return best


@st.composite
def problems(draw: st.DrawFn) -> MixProblem:
    """Two pools at most, three kinds, three slices, sometimes a pair that cannot serve and a quota that binds."""
    pools = draw(st.sampled_from([("a",), ("a", "b")]))
    slices = tuple(
        Slice(name=f"s{number}", pool=draw(st.sampled_from(pools)), rate_rps=draw(st.integers(1, 40)) / 2.0)
        for number in range(draw(st.integers(1, 3)))
    )
    kinds = tuple(
        MixKind(
            name=f"k{number}",
            pool=draw(st.sampled_from(pools)),
            device=draw(st.sampled_from(("x", "y"))),
            devices=draw(st.sampled_from((1, 2, 4))),
            usd_per_hour=float(draw(st.integers(1, 12))),
        )
        for number in range(draw(st.integers(1, 3)))
    )
    # Odd numbers, so that a load is seldom exactly full.
    carries = {
        (kind.name, part.name): draw(st.sampled_from((0.0, 0.7, 1.3, 2.9, 5.3, 11.9)))
        for kind in kinds
        for part in slices
    }
    quotas = {device: draw(st.integers(0, 24)) for device in draw(st.sets(st.sampled_from(("x", "y"))))}
    return MixProblem(slices=slices, kinds=kinds, carries=carries, quotas=quotas, parts=PARTS)


@given(problems())
def test_no_mix_is_cheaper_than_the_programs(problem: MixProblem) -> None:
    found, best = best_mix(problem), brute_force_usd(problem)
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert math.isclose(found.usd_per_hour, best, rel_tol=1e-6)


@pytest.mark.slow
@given(problems(), st.integers(1, 8))
def test_a_larger_quota_never_costs_more(problem: MixProblem, more: int) -> None:
    wider = replace(problem, quotas={device: quota + more for device, quota in problem.quotas.items()})
    tight, loose = best_mix(problem), best_mix(wider)
    if tight is not None:
        assert loose is not None
        assert loose.usd_per_hour <= tight.usd_per_hour + 1e-6


def test_a_quota_sends_the_rest_to_the_dearer_device() -> None:
    problem = MixProblem(
        slices=(Slice(name="all", pool="p", rate_rps=10.0),),
        kinds=(
            MixKind(name="cheap", pool="p", device="x", devices=1, usd_per_hour=1.0),
            MixKind(name="dear", pool="p", device="y", devices=1, usd_per_hour=3.0),
        ),
        carries={("cheap", "all"): 1.0, ("dear", "all"): 1.0},
        quotas={"x": 4},
    )
    found = best_mix(problem)
    assert found is not None
    assert found.replicas == {"cheap": 4, "dear": 6}
    assert found.parts == {("cheap", "all"): 4, ("dear", "all"): 6}
    assert best_mix(replace(problem, kinds=problem.kinds[:1])) is None
