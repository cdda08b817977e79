"""Laws of the bill over random services: it sums, it follows prices, nothing is free by not being stated."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import bills
from support.bills import (
    BASIS,
    MISSING,
    any_quotes,
    policy,
    pool,
    quotes,
    services,
    traffic,
    with_devices_at,
    without_traffic,
)
from ullage.cost.attribution.attribution import ATTRIBUTION_RULES, AttributionChoice, Idle, attribute, usable_rules
from ullage.cost.attribution.causation import causation
from ullage.cost.bill import monthly_bill
from ullage.cost.lines.line import Behaviour, Driver, Origin
from ullage.cost.lines.lines import COST_LINES
from ullage.cost.policy import CostPolicy
from ullage.cost.quotes import DeviceQuote, Quotes, priced_elsewhere, quotes_of
from ullage.cost.service_use import ServiceUse, TaskUse, ToolUse
from ullage.cost.units import class_cents, class_groups, model_cents
from ullage.evidence import Figure, Source, number, walk
from ullage.prices.book import TokenKind
from ullage.prices.packaged import packaged_book
from ullage.prices.purchase import Purchase
from ullage.report.money.bill_page import bill_parts, cause_parts
from ullage.verbs.plan_answer import bill_headlines


def _use(**changed: object) -> ServiceUse:
    made = ServiceUse(service="test", pools=(pool(),), classes=(traffic(),), providers=(), tools=())
    return replace(made, **changed)  # type: ignore[arg-type]


@pytest.mark.slow
@given(services(), any_quotes())
def test_lines_sum_to_the_bill_to_the_cent(use: ServiceUse, prices: Quotes) -> None:
    bill = monthly_bill(use, prices, policy())
    assert bill.total_cents == sum(each.cents for each in bill.lines if each.cents is not None)
    if "bill.total_usd" in bill.figures:
        assert round(float(bill.figures["bill.total_usd"].value) * 100) == bill.total_cents
    for name in COST_LINES:
        assert bill.cents_of(name) >= 0
    fixed, variable = (sum(each.cents or 0 for each in bill.lines if each.behaviour is kind) for kind in Behaviour)
    assert fixed + variable == bill.total_cents


@pytest.mark.slow
@given(services(), any_quotes(), st.sampled_from(sorted(ATTRIBUTION_RULES)), st.sampled_from(Idle))
def test_attribution_sums_to_the_lines_under_every_rule(use: ServiceUse, prices: Quotes, rule: str, idle: Idle) -> None:
    bill = monthly_bill(use, prices, policy())
    uses = {each.name: class_groups(use, each.name) for each in use.pools}
    rules = usable_rules([group for groups in uses.values() for group in groups])
    chosen = rule if rule in rules else rules[0]
    found = attribute(bill.lines, uses, AttributionChoice(by="class", rule=chosen, idle=idle))
    assert found.total_cents == bill.total_cents
    for place, line in enumerate(found.lines):
        assert sum(row.cents[place] for row in found.rows) == line.cents


@pytest.mark.slow
@given(services(), any_quotes(), st.floats(1.0, 5.0), st.integers(0, 12))
def test_raising_a_price_never_lowers_the_bill(use: ServiceUse, prices: Quotes, ratio: float, which: int) -> None:
    names = list(prices.items)
    raised = with_devices_at(prices, ratio)
    if which < len(names):
        old = prices.items[names[which]]
        new = replace(old, value=float(old.value) * ratio) if isinstance(old, Figure) else old
        raised = replace(prices, items={**prices.items, names[which]: new})
    before, after = monthly_bill(use, prices, policy()), monthly_bill(use, raised, policy())
    assert after.total_cents >= before.total_cents
    for one, other in zip(before.lines, after.lines, strict=True):
        assert (one.label, one.is_priced) == (other.label, other.is_priced)
        assert (other.cents or 0) >= (one.cents or 0)


@pytest.mark.slow
@given(services(), any_quotes())
def test_without_traffic_the_reserve_is_paid_unless_every_minimum_is_0(use: ServiceUse, prices: Quotes) -> None:
    bill = monthly_bill(without_traffic(use), prices, policy())
    devices = ("compute_reservation", "compute_usage", "idle_reserve")
    paid = sum(bill.cents_of(name) for name in devices)
    kept = [
        each
        for each in bill.use.pools
        if each.replicas
        and not any(
            line.pool == each.name and not line.is_priced and line.name == "compute_usage" for line in bill.lines
        )
    ]
    assert bool(paid) == bool(kept)
    for name in ("failed_work", "network", "provider_tokens", "tool_apis"):
        assert bill.cents_of(name) == 0
    empty = tuple(replace(each, steady_replicas=0, reserves={}) for each in bill.use.pools)
    none = replace(bill.use, pools=empty)
    assert sum(monthly_bill(none, prices, policy()).cents_of(name) for name in devices) == 0


@pytest.mark.slow
@given(services(), any_quotes())
def test_every_figure_is_explained_down_to_sources(use: ServiceUse, prices: Quotes) -> None:
    bill = monthly_bill(use, prices, policy())
    for name, figure in bill.figures.items():
        assert figure.name == name
        assert isinstance([each for _, each in walk(figure)][-1], Source)


def test_a_line_without_driver_or_price_says_what_to_give_and_is_never_0() -> None:
    use = _use(pools=(replace(pool(), stranded_devices=None, weights_bytes=None),), providers=None, tools=None)
    bill = monthly_bill(use, replace(quotes(), items={}), CostPolicy())
    silent = {each.label for each in bill.lines if not each.is_priced}
    assert {"tool_apis", "provider_tokens", "evaluation", "engineering on call", "stranded_devices main"} <= silent
    assert all(each.cents is None and each.missing for each in bill.unpriced)
    assert "Not priced, and so not in the total" in bill.notes[-1]
    assert not bill.is_complete


def test_a_device_without_price_leaves_its_pool_unpriced() -> None:
    bill = monthly_bill(_use(), replace(quotes(), devices={"main": MISSING}), policy())
    assert [each.missing for each in bill.lines if each.name == "compute_usage"] == [
        "a device-hour: nobody sells it. Give its price."
    ]
    assert not bill.is_of_devices
    headline = str(bill_parts(bill)[0])
    assert "everything else" in headline
    assert "per success" not in headline
    assert "per success" in str(bill_parts(monthly_bill(_use(), quotes(), policy()))[0])


def test_only_what_is_bought_is_said_to_be_old() -> None:
    """The packaged wage is the oldest price of all; a bill that nobody's hours are on does not rest on it."""
    book = replace(packaged_book(), as_of=datetime.date(2026, 11, 15))
    hours = policy().on_call
    assert hours is not None
    silent, asked = CostPolicy(), CostPolicy(on_call=hours)
    assert not any("engineering" in note for note in quotes_of(book, _use(), silent).notes)
    assert any("price.any.engineering is 977 days old" in note for note in quotes_of(book, _use(), asked).notes)


def test_by_hand() -> None:
    """10 replicas of 2 devices for 730 h at 3 USD, half of it used, of which 2 % failed."""
    use = _use(pools=(pool(reserves={"failure": 2}, capacity=2e6, stranded=1),), classes=(traffic(requests=1e6),))
    bill = monthly_bill(use, quotes(), policy())
    whole = 10 * 2 * 730 * 3.0
    assert bill.cents_of("failed_work") == round(whole * 0.5 * 0.02 * 100)
    assert bill.cents_of("compute_usage") == round(whole * (1 - 0.01) * 100)
    assert bill.cents_of("idle_reserve") == round(2 * 2 * 730 * 3.0 * 100)
    assert bill.cents_of("stranded_devices") == round(730 * 3.0 * 100)
    assert bill.cents_of("engineering") == 0  # 50 h at a millionth of a dollar
    line = next(each for each in bill.lines if each.name == "compute_usage")
    assert line.used_fraction == pytest.approx(0.49 / 0.99)
    success = next(each for each in bill.units if each.name == "bill.per_success_usd")
    assert success.usd == pytest.approx(bill.total_usd / 980_000)
    assert (success.model, success.region) == ("model-main", "us-east-1")
    assert success.criterion


def test_classes_that_count_as_one_where_causes_are_told_are_said_to() -> None:
    four, six = (str(cause_parts({"pool": causation(dict.fromkeys(names, 1.0), len)})) for names in ("abcd", "abcdef"))
    assert "(others)" not in four
    assert "(others) are the 3 smallest" in six


def test_a_commitment_is_paid_in_full_and_only_the_rest_follows_use() -> None:
    # Five of ten are committed. One hour in two pays three, the other nine, of which the load needs seven.
    half = _use(pools=(pool(hourly=[(3.0, 2.0), (9.0, 7.0)]),))
    bill = monthly_bill(half, quotes(committed=0.5), policy())
    assert bill.cents_of("compute_reservation") < round(0.5 * 7300 * 2 * 2.1 * 100)  # less failed work
    all_but_idle = sum(bill.cents_of(each) for each in ("compute_reservation", "compute_usage", "failed_work"))
    assert all_but_idle == pytest.approx((0.5 * 7300 * 2 * 2.1 + (7 - 5) * 365 * 2 * 3.0) * 100, abs=2)
    assert bill.cents_of("idle_hours") == (9 - 7) * 365 * 2 * 300
    usage = next(each for each in bill.lines if each.name == "compute_usage")
    assert usage.behaviour is Behaviour.VARIABLE


def test_a_fleet_that_follows_exactly_is_never_idle_and_one_that_is_held_has_no_such_line() -> None:
    """Needed hours are used hours: what one asks of the capacity that is paid is all of it."""
    month_s = 730 * 3600
    held = pool(capacity=10.0 * month_s)
    followed = pool(capacity=10.0 * month_s, hourly=[(2.0, 2.0), (6.0, 6.0)])
    asked = (traffic(requests=4.0 * month_s),)
    for each, used in ((held, 0.4), (followed, 1.0)):
        bill = monthly_bill(_use(pools=(each,), classes=asked), quotes(), policy())
        assert bill.cents_of("idle_hours") == 0
        (usage,) = [line for line in bill.lines if line.name == "compute_usage"]
        (failed,) = [line for line in bill.lines if line.name == "failed_work"]
        # Of 4 of 10 req/s, 2 % fail: the same device-hours, whatever else is paid.
        assert failed.amount.value == pytest.approx(4.0 * 730 * 2 * 0.02)
        assert usage.used_fraction == pytest.approx((used - used * 0.02) / (1.0 - used * 0.02))


@pytest.mark.slow
@given(services(), any_quotes())
def test_giving_machines_back_never_costs_more(use: ServiceUse, prices: Quotes) -> None:
    """Hours within the steady fleet, whatever is committed."""
    within = [
        replace(
            each,
            hourly_replicas=tuple(min(one, each.steady_replicas) for one in each.hourly_replicas),
            hourly_needed=tuple(min(one, each.steady_replicas) for one in each.hourly_needed),
        )
        for each in use.pools
    ]
    held = [replace(each, hourly_replicas=(), hourly_needed=()) for each in use.pools]
    released, fixed = (monthly_bill(replace(use, pools=tuple(each)), prices, policy()) for each in (within, held))
    assert released.total_cents <= fixed.total_cents + len(use.pools)
    assert released.cents_of("idle_reserve") == fixed.cents_of("idle_reserve")


def test_failed_provider_tokens_move_to_failed_work() -> None:
    use = _use(providers=(bills.bought(1e6, failed=0.25),))
    bill = monthly_bill(use, quotes(), policy())
    assert bill.cents_of("provider_tokens") == round(1e6 * 1300 * 1e-6 * 0.75 * 100)
    failed = next(each for each in bill.lines if each.name == "failed_work" and not each.pool)
    assert failed.cents == round(1e6 * 1300 * 1e-6 * 0.25 * 100)
    assert failed.origin is Origin.EXTERNAL


def test_writes_to_a_providers_cache_are_a_line_and_what_caching_saved_is_said() -> None:
    """A thousand prompt tokens a request at 3 USD a million: 600 read at 0.30, 300 written at 3.75, 100 as input."""
    rate = {TokenKind.INPUT: 3.0, TokenKind.OUTPUT: 15.0, TokenKind.CACHED_READ: 0.3, TokenKind.CACHE_WRITE: 3.75}
    tokens = {kind: bills.price(f"price.{kind}", usd / 1e6) for kind, usd in rate.items()}
    prices = replace(quotes(), tokens={"acme model-x": tokens})
    bought = replace(bills.bought(1e6, failed=0.0), cached_tokens=6e8, written_tokens=3e8)
    bill = monthly_bill(_use(providers=(bought,)), prices, policy())
    lines = {each.item: each.cents for each in bill.lines if each.name == "provider_tokens"}
    # 100 M at 3 and 300 M at 15 and 600 M at 0.30; 300 M at 3.75.
    assert lines == {"hard acme": 300_00 + 4500_00 + 180_00, "hard cache writes acme": 1125_00}
    # Reading saved 600 M x 2.70, writing cost 300 M x 0.75 more.
    assert number(bill.figures["bill.cache_saved_usd"]) == pytest.approx(1620.0 - 225.0)
    assert any("1,395.00 USD less than without" in each for each in bill.notes)
    nothing = monthly_bill(_use(providers=(bills.bought(1e6),)), quotes(), policy())
    assert number(nothing.figures["bill.cache_saved_usd"]) == 0.0
    # Two entries of one class and model are two lines, each of its own tokens.
    twice = monthly_bill(_use(providers=(bought, replace(bought, requests=1.0))), prices, policy())
    assert twice.cents_of("provider_tokens") == 2 * bill.cents_of("provider_tokens")


def test_a_task_pays_for_requests_tools_retries_and_both_attempts_of_an_escalation() -> None:
    classes = (traffic("chat", gpu_s=1e7), traffic("hard", gpu_s=3e7))
    task = TaskUse(
        name="ticket",
        requests={"chat": 2.0},
        calls={"search": 3.0},
        attempts_ratio=1.1,
        escalated_fraction=0.2,
        escalated_requests={"hard": 1.0},
        success_fraction=0.8,
        basis=BASIS,
    )
    tools = (ToolUse(name="search", calls=3e6, basis=BASIS),)
    bill = monthly_bill(
        _use(classes=classes, tasks=(task,), tools=tools), quotes(items=1e-3), policy(spans=bills.given("s", 0.0))
    )
    unit = {each.name: each.usd for each in bill.units}
    # Tools stand in every class's part of the bill; a task counts its own calls instead.
    without = monthly_bill(_use(classes=classes, tools=()), quotes(items=1e-3), policy(spans=bills.given("s", 0.0)))
    plain = {each.name: each.usd for each in without.units}
    own = 2 * plain["bill.chat.per_request_usd"] + 3e-3 + 0.2 * plain["bill.hard.per_request_usd"]
    assert unit["bill.ticket.per_task_usd"] == pytest.approx(1.1 * own, rel=1e-6)
    assert unit["bill.ticket.per_successful_task_usd"] == pytest.approx(1.1 * own / 0.8, rel=1e-6)


def test_token_costs_times_tokens_are_the_bill() -> None:
    bill = monthly_bill(_use(), quotes(), policy())
    unit = {each.per: each.usd for each in bill.units}
    chat = bill.use.classes[0]
    paid = (
        unit["million input tokens"] * (chat.prompt_tokens - chat.cached_tokens)
        + unit["million output tokens"] * chat.output_tokens
        + unit["million cached tokens"] * chat.cached_tokens
    ) / 1e6
    assert paid == pytest.approx(bill.total_usd)


def test_energy_is_an_upper_bound_from_the_data_sheet() -> None:
    bill = monthly_bill(_use(pools=(pool(reserves={"warm": 2}),)), quotes(), policy())
    assert bill.figures["power.main_watts"].value == 12 * 2 * 700
    assert "power.kwh_per_success" not in bill.figures, "nobody gave the site's factors"
    energy = bill.figures["power.joules_per_success"]
    assert energy.value == pytest.approx(12 * 2 * 700 * 730 * 3600 / 980_000)
    assert "upper bound" in energy.formula


@pytest.mark.parametrize("name", COST_LINES)
def test_every_line_function_tags_its_lines_and_stands_alone(name: str) -> None:
    use = _use(providers=(bills.bought(1e6),), tools=(ToolUse(name="search", calls=1e6, basis=BASIS),))
    hourly = [(8.0, 6.0)] if name == "idle_hours" else []
    use = replace(use, pools=(pool(reserves={"failure": 1}, hourly=hourly),))
    lines = COST_LINES[name](use, quotes(committed=0.5), policy())
    assert lines
    for each in lines:
        assert each.name == name
        assert each.cents is not None
        assert isinstance(each.driver, Driver)
        assert each.figure is not None
        assert each.figure.inputs


@pytest.mark.parametrize("name", COST_LINES)
def test_every_line_is_explained(name: str) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "cost.md"
    assert f"| `{name}` |" in page.read_text()


def test_units_by_model_add_up_to_the_bill() -> None:
    pools = (pool("main", reserves={"warm": 1}), pool("small", replicas=4))
    classes = (traffic("chat", "main"), traffic("mail", "small", requests=3e6, gpu_s=5e6))
    bill = monthly_bill(_use(pools=pools, classes=classes), quotes(("main", "small")), policy())
    unit = {each.name: each for each in bill.units}
    large, small = (unit[f"bill.model-{name}.per_request_usd"] for name in ("main", "small"))
    assert large.usd * 1e6 + small.usd * 3e6 == pytest.approx(bill.total_usd, rel=1e-6)
    assert large.model == "model-main"
    assert unit["bill.model-main.per_success_usd"].usd > large.usd


def test_a_class_that_is_bought_pays_its_tokens_and_its_part_of_what_all_share() -> None:
    use = _use(providers=(bills.bought(1e6, failed=0.1),))
    bill = monthly_bill(use, quotes(items=1.0e-9, tokens=1e-5), policy())
    paid = class_cents(use, bill.lines)
    assert sum(paid.values()) == bill.total_cents
    bought = sum(each.cents or 0 for each in bill.lines if each.owners.get("class") == "hard")
    assert bought == round(1e6 * 1300 * 1e-5 * 100)
    assert paid["hard"] > bought
    devices = sum(each.cents or 0 for each in bill.lines if each.pool)
    assert paid["chat"] > devices
    by_model = model_cents(use, bill.lines)
    assert by_model == {"model-main": paid["chat"], "model-x": paid["hard"]}


def test_a_success_emits_what_the_sites_factors_say() -> None:
    sited = policy(grid=bills.given("cost.grid", 0.4, "kg/kWh"), facility=bills.given("cost.facility", 1.5, "ratio"))
    use = ServiceUse(service="one", pools=(pool(replicas=10),), classes=(traffic(requests=1e6, success=1.0),), tools=())
    figures = monthly_bill(use, quotes(), sited).figures
    # 20 devices of 700 W for 730 h are 10,220 kWh, over a million successes.
    assert figures["power.kwh_per_success"].value == pytest.approx(1.5 * 10_220 / 1e6)
    assert figures["power.co2e_kg_per_success"].value == pytest.approx(0.4 * 1.5 * 10_220 / 1e6)
    alone = monthly_bill(use, quotes(), policy(grid=bills.given("cost.grid", 0.4, "kg/kWh"))).figures
    assert alone["power.co2e_kg_per_success"].value == pytest.approx(0.4 * 10_220 / 1e6)


def test_a_bill_without_devices_has_no_headline_that_a_whole_bill_has() -> None:
    whole = monthly_bill(_use(), quotes(), policy())
    rest = monthly_bill(_use(), replace(quotes(), devices={"main": MISSING}), policy())
    named = [{each.name for each in bill_headlines(bill)} for bill in (whole, rest)]
    assert named == [{"a month", "per success"}, {"a month, devices not priced"}]


def test_devices_priced_in_another_region_than_they_stand_in_are_said() -> None:
    def quote(region: str) -> DeviceQuote:
        share, hour = bills.given("s", 1.0), bills.price("p", 3.0)
        return DeviceQuote(purchase=Purchase.ON_DEMAND, share=share, hour=hour, provider="aws", region=region)

    quotes = Quotes(devices={"here": (quote("us-east-1"),), "any": (quote(""),)}, items={})
    assert priced_elsewhere(quotes, {"here": {"us-east-1"}, "any": {"eu-west-1"}}) == ()
    (said,) = priced_elsewhere(quotes, {"here": {"us-east-1", "eu-west-1"}})
    assert said.startswith("Devices in eu-west-1 are priced as in aws us-east-1: state prices.region")
