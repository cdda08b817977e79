"""Causation: parts of a fleet by who makes it necessary, against fleets worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.cost.attribution.attribution import best_rule, distances_from_causation, rule_weights
from ullage.cost.attribution.causation import MOST_PARTIES, causation
from ullage.cost.attribution.usage import GroupUse
from ullage.planning.billing.caused import between_replicas, pool_steepness, told_replicas
from ullage.service.trial.decide import Decision, Judged, Sample
from ullage.service.trial.search import LeastReplicas

NAMES = "abcd"


def of(some: frozenset[str], needs: dict[str, float]) -> int:
    return math.ceil(sum(needs[each] for each in some))


def test_separable_parties_cause_what_they_need_alone() -> None:
    needs = {"a": 3, "b": 5, "c": 11}
    found = causation(dict.fromkeys(needs, 1.0), lambda some: sum(needs[each] for each in some))
    assert found.caused == pytest.approx(needs)
    assert found.alone == needs
    assert found.without == {"a": 16, "b": 14, "c": 8}
    assert found.joint_replicas == 0


def test_a_whole_that_serves_all_is_caused_by_all_alike_and_by_nobody_alone() -> None:
    found = causation({"a": 9.0, "b": 1.0}, lambda some: 1 if some else 0)
    assert found.caused == pytest.approx({"a": 0.5, "b": 0.5})
    assert found.joint_replicas == 1


def test_a_strict_party_causes_what_its_limits_make_necessary() -> None:
    """The strict one needs 10 alone, the others 3, and all of them 11: by hand 9 and 2."""
    worth = {frozenset("s"): 10, frozenset("m"): 3, frozenset("sm"): 11}
    found = causation({"s": 1.0, "m": 20.0}, lambda some: worth[some])
    assert found.caused == pytest.approx({"s": 9.0, "m": 2.0})


def decision(used: float) -> Decision:
    judged = Judged(name="x", missed_fraction=used * 0.05, error_fraction=0.001, allowed_fraction=0.05)
    sample = Sample(weights=(1.0,), windows=((),), candidates=1)
    return Decision(rate_rps=1.0, judged=(judged,), sample=sample, is_decided=True, instability=None)


@pytest.mark.parametrize("start", [16, 20, 25])
def test_many_replicas_are_told_from_a_number_near_them(start: int) -> None:
    """What is missed falls with the sixth power of the number, and 20.3 would use all that is allowed."""
    tried: list[int] = []

    def at(replicas: int) -> Decision:
        tried.append(replicas)
        return decision((20.3 / replicas) ** 6.0)

    sized = LeastReplicas(replicas=21, low_replicas=21, at=at(21), below=at(20), tested_replicas=21, tested_rps=1.0)
    steepness = pool_steepness(sized)
    assert steepness == pytest.approx(6.0)
    tried.clear()
    assert told_replicas(at, start, steepness) == pytest.approx(20.3)
    assert len(tried) <= 2
    assert told_replicas(at, 6, steepness) is None, "few are looked for one by one"


def test_a_part_of_a_replica_is_told_by_what_is_left_over() -> None:
    """Halfway between what is enough and what is not, half a replica is spare."""
    enough, less = decision(1 / math.e), decision(math.e)
    found = LeastReplicas(
        replicas=8, low_replicas=8, at=enough, below=less, tested_replicas=8, tested_rps=1.0, step_replicas=1
    )
    assert between_replicas(found) == pytest.approx(7.5)
    assert between_replicas(replace(found, step_replicas=4)) == pytest.approx(6.0)
    assert between_replicas(replace(found, at=decision(1.0))) == pytest.approx(8.0)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.1, 40.0), min_size=1, max_size=8))
def test_parts_sum_to_the_fleet_whoever_is_in_it(needs: dict[str, float]) -> None:
    asked: list[frozenset[str]] = []

    def needed(some: frozenset[str]) -> int:
        asked.append(some)
        return of(some, needs)

    found = causation(needs, needed)
    assert found.replicas == of(frozenset(needs), needs)
    assert sum(found.caused.values()) == pytest.approx(found.replicas)
    assert set(found.caused) == set(needs)
    assert all(each >= 0.0 for each in found.caused.values())
    assert len(asked) == len(set(asked)) <= 2**MOST_PARTIES - 1, "every fleet is sized once"


def test_what_light_parties_take_with_them_is_the_sum_of_what_each_takes() -> None:
    """Of fifty alike four fleets that are nearly the whole are sized, not eight; all where one weighs much."""
    needs = {f"party-{place:02}": 1.0 + place / 50 for place in range(50)}
    asked: list[frozenset[str]] = []

    def needed(some: frozenset[str]) -> float:
        asked.append(some)
        return sum(needs[each] for each in some)

    found = causation(needs, needed)
    assert sum(found.caused.values()) == pytest.approx(found.replicas)
    assert found.caused["party-49"] == pytest.approx(needs["party-49"])
    assert found.alone["(others)"] == pytest.approx(found.replicas - sum(sorted(needs.values())[-3:]))
    assert sum(len(each) > 25 for each in asked) == 4
    asked.clear()
    heavy = causation({**needs, "party-00": 20.0}, needed)
    assert sum(len(each) > 25 for each in asked) == 8
    assert heavy.caused["party-49"] == pytest.approx(needs["party-49"])


@given(st.permutations(NAMES))
def test_the_order_of_the_parties_changes_nothing(order: list[str]) -> None:
    needs = {"a": 1.3, "b": 4.2, "c": 0.4, "d": 7.7}
    found = causation({each: needs[each] for each in order}, lambda some: of(some, needs))
    usual = causation(needs, lambda some: of(some, needs))
    assert {each: found.caused[each] for each in NAMES} == pytest.approx(usual.caused)


def test_the_best_rule_is_causation_where_it_is_known() -> None:
    heavy, light = (
        GroupUse(name=name, requests=count, successes=count, prompt_tokens=count, output_tokens=count,
                 cached_tokens=0.0, gpu_s=gpu_s, caused_devices=devices)
        for name, count, gpu_s, devices in (("heavy", 10.0, 30.0, 30.0), ("light", 90.0, 70.0, 10.0))
    )  # fmt: skip
    assert best_rule([heavy, light]) == "causation"
    assert rule_weights("causation", [heavy, light]) == [30.0, 10.0]
    distances = distances_from_causation([heavy, light])
    assert distances["gpu_time"] == pytest.approx(0.45)
    assert distances["requests"] == pytest.approx(0.65)
    unknown = replace(light, caused_devices=None)
    assert best_rule([heavy, unknown]) == "gpu_time"
    assert distances_from_causation([heavy, unknown]) == {}


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.1, 40.0), min_size=5, max_size=8))
def test_who_stands_together_is_still_told_apart(needs: dict[str, float]) -> None:
    """Separable parties cause what they need alone, however many stand together and whatever they weigh."""
    found = causation(dict.fromkeys(needs, 1.0), lambda some: sum(needs[each] for each in some), are_told_apart=True)
    assert found.caused == pytest.approx(needs)


def test_traffic_that_dilutes_the_others_takes_nothing_off() -> None:
    """The heavy one needs 12 alone and 8 among easy ones, because a percentile is of both: these pay nothing."""
    worth = {frozenset("h"): 12, frozenset("e"): 1, frozenset("he"): 8}
    found = causation({"h": 1.0, "e": 9.0}, lambda some: worth[some])
    assert found.caused == pytest.approx({"h": 8.0, "e": 0.0})
