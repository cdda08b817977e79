"""The chance of a shortfall: closed forms where there are any, laws everywhere."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given as given_by
from hypothesis import settings
from hypothesis import strategies as st

from support.risks import SURE, domains, risk_model, surface, uncertainties
from ullage.errors import InputError
from ullage.fleet.availability import Breakage
from ullage.fleet.risk.load_draws import DEMAND, Uncertainties, drawn_points, load_draws
from ullage.fleet.risk.quasi_random import normal_scores
from ullage.fleet.risk.shortfall import ShortfallModel, outage, quiet_hours, sensible
from ullage.fleet.risk.spread import Floats, RatioSpread, band_spread, lognormal, quantile_spread
from ullage.fleet.risk.surface import CACHED, OUTPUTS, PROMPTS, STEPS, Axis, CapacityEdge, found_edge


def _with_spread(known: Uncertainties, name: str, spread: RatioSpread) -> Uncertainties:
    inputs = (replace(each, spread=spread) if each.name == name else each for each in known.inputs)
    return replace(known, inputs=tuple(inputs))


def _above(replicas: float, middle: float, deviation: float) -> float:
    return 1.0 - NormalDist().cdf(math.log(replicas / middle) / deviation)


@pytest.mark.parametrize(("demand", "steps"), [(0.2, 0.0), (0.2, 0.3), (0.05, 0.1)])
def test_lognormal_demand_and_step_times_add_up_in_squares(demand: float, steps: float) -> None:
    model = risk_model(demand=demand, steps=steps)
    for replicas in (90, 105, 120, 150):
        known = _above(replicas, 100.0, math.hypot(demand, steps))
        assert model.fraction(replicas) == pytest.approx(known, abs=0.004)


def test_the_least_fleet_keeps_the_risk_and_one_fewer_does_not() -> None:
    model = risk_model(demand=0.2, steps=0.2)
    for target in (0.2, 0.1, 0.05, 0.01):
        least = model.least(target)
        assert least is not None
        assert model.fraction(least) <= target < model.fraction(least - 1)


def test_a_rarer_shortfall_never_needs_fewer() -> None:
    model = risk_model(demand=0.2, steps=0.2)
    fleets = [model.least(target) for target in (0.3, 0.1, 0.05, 0.01)]
    assert all(each is not None for each in fleets)
    assert fleets == sorted(fleets)  # type: ignore[type-var]


@pytest.mark.parametrize("name", [DEMAND, STEPS])
def test_halving_a_band_never_raises_the_fleet(name: str) -> None:
    given = uncertainties(demand=0.25, steps=0.25)
    classes = tuple(replace(each, spread=each.spread.narrowed(0.5)) for each in given.classes)
    steps = _with_spread(given, STEPS, given.inputs[0].spread.narrowed(0.5))
    half = steps if name == STEPS else replace(given, classes=classes)
    for target in (0.2, 0.1, 0.05, 0.01):
        wide, narrow = (risk_model(given=each).least(target) for each in (given, half))
        assert wide is not None
        assert narrow is not None
        assert narrow <= wide


@settings(max_examples=15, deadline=None)
@given_by(
    demand=st.floats(0.02, 0.4),
    steps=st.floats(0.02, 0.4),
    prompts=st.floats(0.02, 0.3),
    name=st.sampled_from([DEMAND, STEPS, PROMPTS]),
    share=st.floats(0.0, 1.0),
)
def test_a_narrower_band_of_anything_never_raises_the_fleet(
    demand: float, steps: float, prompts: float, name: str, share: float
) -> None:
    """With lengths that go against traffic, as they do, and failures; points are the same for both."""
    bent = Axis(ratios=(0.5, 1.0, 2.0), logs=(-0.5, 0.0, 1.4))
    over = surface(axes={STEPS: bent, PROMPTS: bent})
    known = uncertainties(demand=demand, steps=steps)
    extra = replace(known.inputs[0], name=PROMPTS, spread=lognormal(prompts))
    wide = replace(known, inputs=(*known.inputs, extra))
    if name == DEMAND:
        narrow = replace(wide, classes=tuple(replace(one, spread=one.spread.narrowed(share)) for one in wide.classes))
    else:
        narrow = _with_spread(wide, name, lognormal({STEPS: steps, PROMPTS: prompts}[name]).narrowed(share))
    failing = Breakage(failures_per_s=1e-6, repair_s=3600.0)
    for target in (0.2, 0.05):
        few, many = (
            risk_model(given=each, over=over, domains=lambda count: domains(count, replica=failing)).least(target)
            for each in (narrow, wide)
        )
        assert few is not None
        assert many is not None
        # Draws tell a fleet to about half a percent; lengths that go against traffic can hedge it by as little.
        assert few <= many + many // 200


def test_failures_are_summed_exactly() -> None:
    """One replica in ten is down at any time, by itself: the number up is binomial."""
    broken = Breakage(failures_per_s=1 / 9.0, repair_s=1.0)
    model = risk_model(demand=0.0, steps=0.0, load=4.0, domains=lambda count: domains(count, replica=broken))
    known = sum(math.comb(6, up) * 0.9**up * 0.1 ** (6 - up) for up in range(4))
    assert model.fraction(6) == pytest.approx(known, abs=1e-9)


def test_failures_never_make_a_fleet_safer() -> None:
    broken = Breakage(failures_per_s=1 / 99.0, repair_s=1.0)
    sure, failing = (
        risk_model(demand=0.2, steps=0.1, domains=each)
        for each in (SURE, lambda count: domains(count, replica=broken))
    )  # fmt: skip
    for replicas in (90, 110, 140):
        assert failing.fraction(replicas) >= sure.fraction(replicas)


def test_hours_of_shortfall_are_those_of_the_season() -> None:
    """A quarter of the week at the busiest hour's load, the rest at half of it; the fleet carries 60 % of it."""
    heights = tuple(1.0 if hour % 4 == 0 else 0.5 for hour in range(168))
    found = risk_model(demand=0.0, steps=0.0, heights=heights).at(60)
    assert found.shortfall_fraction == 1.0
    assert found.hours_per_month == pytest.approx(730.5 / 4)


def test_planned_work_counts_in_its_own_hours_alone() -> None:
    heights = tuple(1.0 if hour < 84 else 0.4 for hour in range(168))
    model = risk_model(demand=0.0, steps=0.0, heights=heights)
    quiet = quiet_hours(heights, 10)
    assert min(quiet) >= 84
    night, noon = (
        replace(model, outages=(outage("rollout", 20, hours, hours_a_week=5.0),)) for hours in (quiet, range(10))
    )
    assert night.at(100).hours_per_month == 0.0
    # Half of ten hours a week, on the share of the busiest hour that lies among them.
    assert noon.at(100).hours_per_month == pytest.approx(730.5 * 5.0 / 168.0)
    assert noon.fraction(100) == pytest.approx(0.5)
    assert noon.fraction(120) == 0.0


def test_a_class_of_more_work_weighs_more() -> None:
    """Two classes in the planned mix of half and half; the heavy one doubles: 5/3 of the work, not 3/2."""
    given = uncertainties(demand=0.0, steps=0.0, loads=(50.0, 50.0))
    doubled = replace(given.classes[1], middle_rps=100.0)
    given = replace(given, classes=(given.classes[0], doubled))
    drawn = load_draws(given, surface(work_s={"a": 1.0, "b": 2.0}), drawn_points(given, 4, seed=0))
    assert drawn.busiest_rps == pytest.approx(np.full(4, 100.0 * 5.0 / 3.0))


def test_classes_that_err_apart_need_less_than_those_that_err_together() -> None:
    together = uncertainties(demand=0.3, steps=0.0, loads=(50.0, 50.0))
    apart = replace(together, correlations=((1.0, 0.0), (0.0, 1.0)))
    fleets = [risk_model(given=each).least(0.05) for each in (apart, together)]
    assert fleets[0] is not None
    assert fleets[1] is not None
    assert fleets[0] < fleets[1]


def test_a_load_that_no_fleet_carries_is_said_so() -> None:
    edge = surface(axes={STEPS: Axis(ratios=(0.5, 1.0, 1.5, 1.6), logs=(-0.7, 0.0, 0.4, 13.8))})
    model = risk_model(given=uncertainties(demand=0.1, steps=0.4), over=edge)
    slow = lognormal(0.4).ratios(normal_scores(np.linspace(0.0005, 0.9995, 1000)))
    hopeless = float((edge.slowdowns({STEPS: slow}) > 20.0).mean())
    assert model.hopeless_fraction == pytest.approx(hopeless, abs=0.02)
    assert model.hopeless_fraction > 0.05
    # Needs that are printed are those of the others: a billion replicas at the 90th percentile is no need.
    assert model.helped_needs.size == round(4096 * (1.0 - model.hopeless_fraction))
    assert model.helped_needs.max() < 1000 < model.draws.needed.max()
    assert sensible(model.draws.needed).max() < 1000
    # What no number helps is no lack of replicas: the others keep the chance.
    least = model.least(0.01)
    assert least is not None
    assert model.fraction(least) <= 0.01 < model.fraction(least - 1)


def test_an_edge_is_found_where_a_nearly_idle_pool_is_late() -> None:
    slopes = {PROMPTS: 1.2, OUTPUTS: 0.0, CACHED: -0.3}
    spreads = {STEPS: lognormal(0.3), PROMPTS: lognormal(0.15), OUTPUTS: lognormal(0.15), CACHED: lognormal(0.1)}

    def excess(ratios: Mapping[str, float]) -> float:
        return 2.5 * (sum({**slopes, STEPS: 1.0}[name] * math.log(each) for name, each in ratios.items()) - 0.7)

    edge = found_edge(spreads, excess)
    assert edge is not None
    assert math.log(edge.steps_ratio) == pytest.approx(0.7, abs=1e-3)
    assert edge.slopes == pytest.approx(slopes, abs=0.01)
    assert found_edge({STEPS: lognormal(0.05), PROMPTS: lognormal(0.05)}, excess) is None


def test_beyond_the_edge_no_fleet_helps_and_that_is_no_shortfall() -> None:
    given = uncertainties(demand=0.2, steps=0.3)
    edged = replace(surface(), edge=CapacityEdge(steps_ratio=math.exp(0.5), slopes={}))
    model = risk_model(given=given, over=edged)
    assert model.hopeless_fraction == pytest.approx(_above(math.exp(0.5), 1.0, 0.3), abs=0.002)
    assert model.fraction(600) == pytest.approx(0.0, abs=1e-3)
    free = risk_model(given=given)
    assert all(model.fraction(each) <= free.fraction(each) for each in (100, 120, 150, 200))


def test_near_the_edge_short_prompts_make_up_for_slow_steps() -> None:
    """A service whose prompts count as slower steps, and for a third more: two ratios off at once follow its law."""
    at = np.linspace(-0.6, 0.6, 25)

    def law(steps: Floats, prompts: Floats) -> Floats:
        return np.expm1(3.0 * (steps + 0.8 * prompts)) + 0.3 * prompts

    known = surface(
        axes={
            STEPS: Axis(ratios=tuple(np.exp(at)), logs=tuple(law(at, 0.0 * at))),
            PROMPTS: Axis(ratios=tuple(np.exp(at)), logs=tuple(law(0.0 * at, at))),
        }
    )
    edged = replace(known, edge=CapacityEdge(steps_ratio=math.exp(0.55), slopes={PROMPTS: 0.8}))
    steps, prompts = np.array([0.3, 0.45, 0.45, -0.2, 0.2, 0.0]), np.array([0.2, -0.25, 0.0, -0.3, 0.35, 0.3])
    ratios = {STEPS: np.exp(steps), PROMPTS: np.exp(prompts)}
    assert np.log(edged.slowdowns(ratios)) == pytest.approx(law(steps, prompts), abs=0.05)
    kind = np.log(known.slowdowns(ratios)) - law(steps, prompts)
    assert kind[0] < -0.5, "each by itself is too kind where both are slow"
    assert kind[1] > 0.5, "and too strict where one makes up for the other"


def test_a_decided_size_is_carried_even_beyond_a_noisy_edge() -> None:
    edged = replace(surface(), edge=CapacityEdge(steps_ratio=math.exp(0.1), slopes={}))
    assert edged.anchored(20, 10.0, 1.5).each_rps == surface().anchored(20, 10.0, 1.5).each_rps


def test_a_spread_goes_through_its_quantiles_and_refuses_what_falls() -> None:
    spread = quantile_spread({0.1: 80.0, 0.5: 100.0, 0.9: 150.0}, 100.0)
    assert [round(spread.at(each), 6) for each in (0.1, 0.5, 0.9)] == [0.8, 1.0, 1.5]
    assert band_spread(0.82, 1.45).at(0.9) == pytest.approx(1.45)
    assert lognormal(0.2).deviation == pytest.approx(0.2)
    with pytest.raises(InputError, match="rise"):
        RatioSpread(scores=(0.0, 1.0), logs=(0.3, 0.1))


def test_more_replicas_never_fall_short_more_often() -> None:
    model: ShortfallModel = risk_model(demand=0.3, steps=0.3)
    found = [model.at(replicas) for replicas in range(60, 200, 20)]
    for one, other in itertools.pairwise(found):
        assert other.shortfall_fraction <= one.shortfall_fraction
        assert other.hours_per_month <= one.hours_per_month


def test_a_surface_is_moved_to_a_decided_size_and_no_further() -> None:
    given = surface()
    needed: Callable[[float], int] = lambda load: int(given.needed(np.array([load]))[0])  # noqa: E731
    assert needed(10.0) == 10
    assert given.anchored(10, 10.0, 1.0) == given
    larger = given.anchored(12, 10.0, 1.0)
    assert int(larger.needed(np.array([10.0]))[0]) == 12
    smaller = given.anchored(8, 10.0, 1.0)
    assert int(smaller.needed(np.array([10.0]))[0]) == 8
