"""Machines and prices of one fleet are of one seller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.planned import AS_OF, SMALL
from ullage.load.plan import load_plan
from ullage.planning.device_hours import device_hours, sold_shapes
from ullage.planning.spec import PlanSpec
from ullage.prices.book import MissingPrice

OWN = {"provider": "me", "own": {"devices": [{"device": "h100-sxm", "provider": "me", "price": "3 USD/h"}]}}


def _spec(prices: Mapping[str, Any], **pool: str) -> PlanSpec:
    return load_plan({**SMALL, "prices": dict(prices), "pool": {**SMALL["pool"], **pool}}, as_of=AS_OF, seed=0)


def _sellers(spec: PlanSpec) -> set[str]:
    return {each.provider for each in sold_shapes(spec, spec.pool, replica_devices=1)}


@pytest.mark.parametrize("provider", ["aws", "lambda", "runpod"])
def test_machines_are_those_of_the_provider_whose_prices_are_taken(provider: str) -> None:
    assert _sellers(_spec({"provider": provider})) == {provider}


def test_without_a_provider_machines_are_those_of_the_cheapest_offer() -> None:
    spec = _spec({})
    quotes = device_hours(spec, spec.pool, replica_devices=1)
    assert not isinstance(quotes, MissingPrice)
    assert _sellers(spec) == {each.provider for each in quotes}


def test_a_named_machine_is_bought_from_who_sells_it_though_others_are_cheaper() -> None:
    spec = _spec({}, instance="p5.48xlarge")
    quotes = device_hours(spec, spec.pool, replica_devices=1)
    assert not isinstance(quotes, MissingPrice)
    assert {each.provider for each in quotes} == {"aws"}


def test_a_named_machine_is_bought_at_the_user_s_own_price() -> None:
    spec = _spec({"own": OWN["own"]}, instance="p5.48xlarge")
    quotes = device_hours(spec, spec.pool, replica_devices=1)
    assert not isinstance(quotes, MissingPrice)
    assert [(each.provider, each.usd_per_hour) for each in quotes] == [("me", 3.0)]


def test_a_provider_without_a_price_in_the_region_still_has_its_own_machines() -> None:
    spec = _spec({"provider": "azure", "region": "us-east-1"})
    assert isinstance(device_hours(spec, spec.pool, replica_devices=1), MissingPrice)
    assert _sellers(spec) == {"azure"}


def test_machines_that_nobody_has_named_are_nodes_of_an_assumed_size() -> None:
    spec = _spec(OWN)
    (shape,) = sold_shapes(spec, spec.pool, replica_devices=1)
    assert (shape.name, shape.provider) == ("node of 8", "me")
