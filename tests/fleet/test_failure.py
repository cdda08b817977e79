"""The failure reserve: the least that keeps both rules, larger for every nine, refused where no number helps."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.fleet.choices import choice
from ullage.fleet.failure import FailureReserve, Reliability, failure_reserve, reliability
from ullage.fleet.sites import Region, Sites, Zone, equal_zones

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))


def steady(replicas: int) -> Figure:
    return Figure(
        name="fleet.replicas", value=replicas, unit="replicas", sources=(SOURCE,), own_evidence=Evidence.ASSUMED
    )


TARGET = choice("reliability.availability", 0.999, "fraction", "test")


def said(given: Reliability, **values: float | str) -> Reliability:
    stated = replace(given, availability=given.availability or TARGET) if "availability" in values else given
    return replace(
        stated,
        **{name: replace(getattr(stated, name), value=value, low=None, high=None) for name, value in values.items()},
    )


def found(replicas: int, zones: int, devices: int = 1, **values: float | str) -> FailureReserve:
    answer = failure_reserve(
        steady(replicas), equal_zones(zones), said(reliability(), **values), devices=devices, seed=0
    )
    assert isinstance(answer, FailureReserve), answer
    return answer


def test_defaults_are_published_dated_and_wide() -> None:
    given = reliability()
    assert {each.name for each in given.rates} == {
        "reliability.device_failures_per_year",
        "reliability.device_repair",
        "reliability.node_failures_per_year",
        "reliability.node_repair",
        "reliability.zone_failures_per_year",
        "reliability.zone_repair",
    }
    for each in given.rates:
        assert each.low is not None
        assert each.high is not None
        assert each.low < float(each.value) < each.high
        assert each.evidence is Evidence.ASSUMED
        assert each.max_age is not None


def test_the_device_rate_is_the_published_count() -> None:
    given = reliability()
    assert float(given.device_failures.value) == pytest.approx(0.587 * 419 / (16_384 * 54 / 365.25), rel=0.03)
    assert float(given.node_failures.value) == pytest.approx(0.413 * 419 / (2_048 * 54 / 365.25), rel=0.03)


@pytest.mark.parametrize(("replicas", "down", "target"), [(10, 0.01, 0.999), (40, 0.02, 0.9999), (3, 0.1, 0.99)])
def test_it_is_the_least_of_the_binomial_rule(replicas: int, down: float, target: float) -> None:
    """One device a replica, one replica a node, nodes and zones that never fail: k of n in closed form."""
    repair_s = 86_400.0
    rate = down / (1 - down) / repair_s * 365.25 * 86_400.0

    def enough(total: int) -> float:
        return sum(math.comb(total, up) * (1 - down) ** up * down ** (total - up) for up in range(replicas, total + 1))

    least = next(extra for extra in range(100) if enough(replicas + extra) >= target)
    answer = found(
        replicas,
        1,
        device_failures=rate,
        device_repair=repair_s,
        node_failures=0.0,
        zone_failures=0.0,
        availability=target,
        survives="nothing",
    )
    assert answer.line.replicas == least
    assert answer.availability.fraction == pytest.approx(enough(replicas + least))
    assert answer.without.fraction == pytest.approx(enough(replicas))


@pytest.mark.slow
@given(
    replicas=st.integers(1, 40),
    zones=st.integers(2, 4),
    devices=st.sampled_from([1, 2, 4, 8, 16]),
    survives=st.sampled_from(["nothing", "replica", "node", "zone"]),
    crews=st.sampled_from([None, 1, 2]),
)
def test_one_more_nine_never_lowers_it(
    replicas: int, zones: int, devices: int, survives: str, crews: int | None
) -> None:
    given_ = said(reliability(), survives=survives)
    if crews is not None:
        given_ = replace(given_, crews=replace(TARGET, name="reliability.repair_crews", value=crews, unit="crews"))
    lines = []
    for target in (0.9, 0.99, 0.999, 0.9999):
        answer = failure_reserve(
            steady(replicas), equal_zones(zones), said(given_, availability=target), devices=devices, seed=0
        )
        lines.append(math.inf if isinstance(answer, Rejection) else answer.line.replicas)
    assert lines == sorted(lines)


@pytest.mark.parametrize("survives", ["nothing", "replica", "node", "zone"])
def test_what_is_survived_leaves_the_steady_number(survives: str) -> None:
    answer = found(20, 3, 2, survives=survives, availability=0.5)
    total = 20 + answer.line.replicas

    def left(fleet: int) -> int:
        zone = math.ceil(fleet / 3)
        node = math.ceil(zone / math.ceil(zone / 4))
        return fleet - {"nothing": 0, "replica": 1, "node": node, "zone": zone}[survives]

    assert left(total) >= 20
    assert answer.line.replicas == 0 or left(total - 1) < 20


def test_a_zone_too_few_is_refused_with_what_would_help() -> None:
    answer = failure_reserve(
        steady(4), equal_zones(1), said(reliability(), survives="zone"), devices=1, seed=0
    )  # fmt: skip
    assert isinstance(answer, Rejection)
    assert "one zone" in answer.reason
    assert any("more zone" in remedy.change for remedy in answer.remedies)
    beyond = failure_reserve(
        steady(4), equal_zones(1), said(reliability(), availability=0.999999), devices=1, seed=0
    )  # fmt: skip
    assert isinstance(beyond, Rejection)
    assert float(beyond.figure.value) < 0.999999


def test_a_quota_in_the_way_is_the_placements_refusal() -> None:
    quota = Assumption(
        name="quota.zone-1", value=12, unit="devices", evidence=Evidence.STATED, source=SOURCE
    )  # fmt: skip
    sites = Sites(regions=(Region(name="home", zones=(Zone(name="zone-1", quota=quota),)),))
    answer = failure_reserve(steady(6), sites, reliability(), devices=2, seed=0)
    assert isinstance(answer, Rejection)
    assert answer.stage == "sites"


def test_the_figure_ends_in_rates_and_target() -> None:
    answer = found(10, 2)
    names = {each.name for each in answer.line.figure.inputs}
    assert {"reliability.survives", "reliability.zone_repair", "fleet.replicas"} <= names
    stated = found(10, 2, availability=0.99)
    assert "reliability.availability" in {each.name for each in stated.line.figure.inputs}


def test_wrong_words_are_named() -> None:
    with pytest.raises(InputError, match="zone"):
        said(reliability(), survives="zoen")
    with pytest.raises(InputError, match="strictly between"):
        said(reliability(), availability=1.0)
