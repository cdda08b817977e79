"""Laws of a whole plan on random services: a few here, many with `make soak`, and counted by `make bench-laws`."""

from __future__ import annotations

import functools
import os

import pytest

from support.plan_laws import LAWS, order_of_classes, planned, random_service
from ullage.errors import Rejection
from ullage.planning.document import Plan

pytestmark = pytest.mark.slow

# One class each, so that a plan takes two seconds; a soak takes services as they come.
SEEDS = range(1, 13) if os.environ.get("HYPOTHESIS_PROFILE") == "full" else (28,)
TWO_CLASSES = 5


@functools.cache
def plan_of(seed: int) -> Plan | Rejection:
    return planned(random_service(seed))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_law_holds_beyond_the_printed_interval(seed: int, name: str) -> None:
    plan = plan_of(seed)
    if isinstance(plan, Rejection):
        pytest.skip("a service that is refused has no size")
    found = LAWS[name](plan, random_service(seed))
    assert not found.is_beyond, found.sentence


def test_the_order_of_two_classes_changes_nothing() -> None:
    service = random_service(TWO_CLASSES)
    assert len(service["workload"]["classes"]) == 2
    plan = plan_of(TWO_CLASSES)
    assert isinstance(plan, Plan)
    found = order_of_classes(plan, service)
    assert not found.is_wrong, found.sentence
