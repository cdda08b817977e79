"""Host or buy by class, a provider's rate limits, bases with peaks sent away, and what one more costs."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.bills import MISSING, given, policy, pool, quotes, traffic
from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.marginal import MarginalStep, marginal_costs, replica_usd
from ullage.cost.provider.host_or_buy import HostOrBuy, host_or_buy
from ullage.cost.provider.minutes import Floats, granted
from ullage.cost.provider.offer import ProviderOffer
from ullage.cost.provider.spill import SpillClass, SpillPool, best_level, spill_levels
from ullage.cost.service_use import ServiceUse, TaskUse
from ullage.errors import InputError, Rejection, Remedy
from ullage.evidence import Figure
from ullage.prices.book import MissingPrice, PriceBook, Tier, TokenPrice, price_book
from ullage.readers.prices import read_prices
from ullage.readers.prices.price_file import PriceProvenance
from ullage.verbs.against import parse_offer

OFFER = ProviderOffer(provider="acme", model="model-x")


def _bill(replicas: float = 10, requests: float = 1e6, task: float | None = None) -> Bill:
    tasks = () if task is None else (TaskUse(name="answer", requests={"chat": 2.0}, success_fraction=task, basis=()),)
    use = ServiceUse(
        service="test",
        pools=(pool(replicas=replicas),),
        classes=(traffic(requests=requests),),
        providers=(),
        tools=(),
        tasks=tasks,
    )
    return monthly_bill(use, quotes(items=0.0), policy())


def _book(usd_per_token: float, *, cached: float | None = None, batch: float | None = None) -> PriceBook:
    def row(usd: float, **more: object) -> TokenPrice:
        name = f"acme.{more.get('tier', 'standard')}.{more.get('from_prompt_tokens', 0)}"
        return TokenPrice(
            provider="acme",
            model="model-x",
            input=given(f"{name}.input", usd, "USD/token"),
            output=given(f"{name}.output", usd, "USD/token"),
            cached_read=None if cached is None else given(f"{name}.cached", cached, "USD/token"),
            **more,  # type: ignore[arg-type]
        )

    rows = [row(usd_per_token), row(2.0 * usd_per_token, from_prompt_tokens=200_000)]
    return price_book([*rows, *([] if batch is None else [row(batch, tier=Tier.BATCH)])])


def _row(bill: Bill, book: PriceBook, offer: ProviderOffer = OFFER, **more: object) -> HostOrBuy:
    rows = host_or_buy(bill, book, offer, **more)  # type: ignore[arg-type]
    assert not isinstance(rows, MissingPrice)
    (row,) = rows
    return row


def test_both_ways_are_per_success_of_the_same_tokens() -> None:
    bill = _bill()
    row = _row(bill, _book(1e-5, cached=0.0))
    assert row.own.value == pytest.approx(bill.total_usd / 980_000)
    assert row.bought.value == pytest.approx(1e6 * (700 + 200) * 1e-5 / 980_000)


def test_at_the_even_volume_both_cost_the_same() -> None:
    """The fleet is fixed, so hosting pays from a volume on; there the provider's bill is the fleet's."""
    bill = _bill()
    row = _row(bill, _book(1e-5))
    assert row.even_requests is not None
    fixed = bill.total_usd - bill.figures["bill.variable_usd"].value  # type: ignore[operator]
    variable = float(bill.figures["bill.variable_usd"].value) / 1e6
    assert row.even_requests * 1200 * 1e-5 == pytest.approx(fixed + variable * row.even_requests, rel=1e-6)
    assert row.is_own_cheaper == (row.even_requests <= 1e6)


def test_a_provider_that_succeeds_less_often_costs_more_and_is_even_at_fewer_requests() -> None:
    plain = _row(_bill(), _book(1e-5))
    half = _row(_bill(), _book(1e-5), replace(OFFER, success=given("success", 0.49, "fraction")))
    assert half.bought.value == pytest.approx(2.0 * float(plain.bought.value))
    assert half.even_requests is not None
    assert plain.even_requests is not None
    assert half.even_requests < plain.even_requests


def test_the_share_of_own_tasks_that_succeed_is_stated_or_that_of_the_class_s_own_task() -> None:
    plain = float(_row(_bill(), _book(1e-5)).own.value)
    stated = replace(OFFER, own_success=given("own", 0.5, "fraction"), success=given("theirs", 0.9, "fraction"))
    assert float(_row(_bill(), _book(1e-5), stated).own.value) == pytest.approx(2.0 * plain)
    by_task = _row(_bill(task=0.8), _book(1e-5), replace(OFFER, success=given("theirs", 0.9, "fraction")))
    assert by_task.own_success_fraction == pytest.approx(0.98 * 0.8)
    assert by_task.bought_success_fraction == 0.9


def test_a_fee_is_paid_by_the_request_and_batch_tokens_at_their_own_price() -> None:
    fee = _row(_bill(), _book(1e-5), replace(OFFER, request_fee=given("fee", 0.01, "USD")))
    assert fee.bought.value == pytest.approx((1200 * 1e-5 + 0.01) / 0.98)
    batch = _row(_bill(), _book(1e-5, batch=4e-6), replace(OFFER, tier=Tier.BATCH))
    assert batch.bought.value == pytest.approx(1200 * 4e-6 / 0.98)
    assert batch.offer == "acme/model-x (batch)"


def test_a_long_prompt_pays_the_price_of_long_prompts() -> None:
    use = replace(traffic(), prompt_tokens=1e6 * 250_000, cached_tokens=0.0)
    bill = _bill()
    bill = monthly_bill(replace(bill.use, classes=(use,)), quotes(items=0.0), policy())
    assert _row(bill, _book(1e-6)).bought.value == pytest.approx((250_000 + 200) * 2e-6 / 0.98)


def test_a_model_without_price_is_said_to_be_missing_and_an_offer_takes_its_classes_alone() -> None:
    found = host_or_buy(_bill(), _book(1e-5), replace(OFFER, model="model-y"))
    assert isinstance(found, MissingPrice)
    assert "model-y" in str(found)
    assert host_or_buy(_bill(), _book(1e-5), replace(OFFER, classes=("other",))) == ()


def test_limits_refuse_what_a_minute_asks_beyond_them_and_nothing_else() -> None:
    asked = np.array([60.0, 120.0, 30.0])
    by_requests = granted({"chat": asked}, {"chat": 1000.0}, replace(OFFER, request_limit=given("rpm", 1.0, "req/s")))
    assert by_requests.shares.tolist() == [1.0, 0.5, 1.0]
    by_tokens = granted({"chat": asked}, {"chat": 1000.0}, replace(OFFER, token_limit=given("tpm", 500.0, "tokens/s")))
    assert by_tokens.shares.tolist() == [0.5, 0.25, 1.0]
    offer = replace(OFFER, request_limit=given("rpm", 1.0, "req/s"))
    row = _row(_bill(), _book(1e-5), offer, minutes={"chat": asked})
    assert row.refused_fraction == pytest.approx(60.0 / 210.0)
    assert row.limited_minutes == 1
    assert _row(_bill(), _book(1e-5), minutes={"chat": asked}).refused_fraction is None


def _spill(**changed: object) -> tuple[SpillPool, tuple[SpillClass, ...], dict[str, Floats]]:
    """Four replicas carry 4 req/s; most minutes ask for one, every tenth for four."""
    four = SpillPool(
        name="main", steady_replicas=4, reserve_replicas=1.0, base_rps=4.0, replica_usd=100.0, period_s=600.0
    )
    chat = SpillClass(
        name="chat",
        weight_ratio=1.0,
        limited_tokens=1000.0,
        usd=0.5,
        own_success_fraction=0.9,
        bought_success_fraction=0.9,
    )
    week = {"chat": np.array([60.0] * 9 + [240.0])}
    return four, (replace(chat, **changed),), week  # type: ignore[arg-type]


def test_a_base_pays_its_replicas_and_what_is_over_it() -> None:
    """A base of one spills 180 of the busy minute's 240 requests: 90 USD in place of 300 of three more replicas."""
    levels = spill_levels(*_spill(), OFFER)
    assert [each.own_usd for each in levels] == [0.0, 200.0, 300.0, 400.0, 500.0]
    assert [each.bought_usd for each in levels] == pytest.approx([390.0, 90.0, 60.0, 30.0, 0.0])
    assert levels[1].bought_fraction == pytest.approx(180 / 780)
    assert best_level(levels).base_replicas == 1
    assert [each.successes for each in levels] == pytest.approx([702.0] * 5)


def test_a_mix_that_its_limits_would_refuse_is_not_chosen() -> None:
    limited = replace(OFFER, request_limit=given("rpm", 1.0, "req/s"))
    levels = spill_levels(*_spill(), limited)
    assert levels[1].refused_fraction == pytest.approx(120 / 780)
    assert levels[3].refused_fraction == 0.0
    assert best_level(levels).base_replicas == 3


def test_a_class_that_may_not_go_there_stays_on_the_base_or_is_refused() -> None:
    levels = spill_levels(*_spill(usd=None), OFFER)
    assert [each.bought_usd for each in levels] == [0.0] * 5
    assert levels[0].refused_fraction == 1.0
    assert levels[2].refused_fraction == pytest.approx(120 / 780)
    assert best_level(levels) is levels[-1]


def test_a_dear_provider_leaves_the_pool_as_it_is_and_a_cheap_one_takes_it() -> None:
    assert best_level(spill_levels(*_spill(usd=5.0), OFFER)).base_replicas == 4
    assert best_level(spill_levels(*_spill(usd=0.01), OFFER)).base_replicas == 0
    # So cheap, but wrong twice as often: per success a base is still worth it.
    assert best_level(spill_levels(*_spill(usd=0.25, bought_success_fraction=0.3), OFFER)).base_replicas > 0


def test_an_offer_is_typed_with_its_seller_and_maybe_its_tier() -> None:
    assert parse_offer("acme/model-x") == OFFER
    assert parse_offer("acme/family/model-x@batch").model == "family/model-x"
    assert parse_offer("acme/model-x@batch").tier is Tier.BATCH
    assert parse_offer("acme/model@2026").model == "model@2026"
    for wrong in ("model-x", "acme/", "/model-x"):
        with pytest.raises(InputError, match="does not name a provider"):
            parse_offer(wrong)


def test_a_step_costs_the_difference_of_two_bills() -> None:
    bill = _bill()
    steps = [
        MarginalStep(
            name="demand", title="10 % more demand", units=1e5, per="requests", again=lambda: _bill(11, 1.1e6)
        ),
        MarginalStep(name="slo", title="an SLO a tenth tighter", units=1, per="step", again=_refused),
    ]
    demand, slo = marginal_costs(bill, steps)
    assert demand.cents == _bill(11, 1.1e6).total_cents - bill.total_cents
    assert demand.figure is not None
    assert demand.figure.value == pytest.approx((demand.cents or 0) / 100 / 1e5)
    assert slo.cents is None
    assert slo.why == "refused: too tight"


def _refused() -> Rejection:
    figure = _bill().figures["bill.total_usd"]
    return Rejection(stage="point", reason="too tight", figure=figure, remedies=(Remedy(change="x", effect="y"),))


def test_one_more_replica_costs_its_devices_for_the_period() -> None:
    found = replica_usd(pool(), quotes(), policy())
    assert isinstance(found, Figure)
    assert found.value == pytest.approx(2 * 730 * 3.0)
    assert replica_usd(pool(), replace(quotes(), devices={"main": MISSING}), policy()) is MISSING


def test_a_published_list_prices_an_offer_as_it_stands_there(shared_data: Path) -> None:
    """deepinfra's Llama 3.1 8B in LiteLLM's list: 0.03 and 0.05 USD a million tokens, none for cached ones."""
    read = read_prices(
        shared_data / "prices" / "token_prices_litellm_1.108.4.csv",
        PriceProvenance(dated=datetime.date(2026, 11, 1)),
    )
    offer = parse_offer("deepinfra/meta-llama/Meta-Llama-3.1-8B-Instruct")
    assert _row(_bill(), read.book, offer).bought.value == pytest.approx((1000 * 0.03 + 200 * 0.05) / 1e6 / 0.98)
