"""The difference of two bills by cause: it sums exactly, and a cause that alone is at work is alone to blame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from hypothesis import given

from support.bills import any_quotes, policy, pool, quotes, services, traffic
from support.bills import given as stated
from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.change import CAUSES, explain_change
from ullage.cost.policy import CostPolicy
from ullage.cost.quotes import Quotes
from ullage.cost.service_use import ServiceUse


def _use(**changed: object) -> ServiceUse:
    made = ServiceUse(
        service="test",
        pools=(pool(replicas=20, reserves={"failure": 2}),),
        classes=(traffic("chat", gpu_s=1e7), traffic("code", gpu_s=3e7)),
        providers=(),
        tools=(),
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def _bill(use: ServiceUse, prices: Quotes | None = None, drivers: CostPolicy | None = None) -> Bill:
    return monthly_bill(use, prices or quotes(items=1e-9), drivers or policy())


def _at_work(before: Bill, after: Bill) -> set[str]:
    """Causes that moved more than the cents of rounding."""
    found = explain_change(before, after)
    assert sum(each.cents for each in found.causes) == after.total_cents - before.total_cents
    return {each.name for each in found.causes if abs(each.cents) > 20}


@pytest.mark.slow
@given(services(), any_quotes(), services(), any_quotes())
def test_causes_sum_to_the_whole_for_any_two_bills(
    use: ServiceUse, prices: Quotes, other: ServiceUse, other_prices: Quotes
) -> None:
    before, after = monthly_bill(use, prices, policy()), monthly_bill(other, other_prices, CostPolicy())
    found = explain_change(before, after)
    assert [each.name for each in found.causes] == list(CAUSES)
    assert sum(each.cents for each in found.causes) == found.cents == after.total_cents - before.total_cents
    for each in found.causes:
        assert sum(each.by_line.values()) == each.cents


@pytest.mark.slow
@given(services(), any_quotes())
def test_nothing_moved_nothing_explained(use: ServiceUse, prices: Quotes) -> None:
    bill = monthly_bill(use, prices, policy())
    assert all(each.cents == 0 for each in explain_change(bill, bill).causes)


def test_a_cause_alone_is_alone_to_blame() -> None:
    base = _bill(_use())
    assert _at_work(base, _bill(_use(), quotes(hour=2.0, items=1e-9))) == {"price"}
    doubled = _use(
        pools=(pool(replicas=40, reserves={"failure": 2}),),
        classes=(traffic("chat", requests=2e6, gpu_s=2e7), traffic("code", requests=2e6, gpu_s=6e7)),
    )
    assert _at_work(base, _bill(doubled)) == {"volume"}
    # All requests become code, which takes three times as long as chat: 20 replicas at the mean, 30 for code alone.
    shifted = _use(
        pools=(pool(replicas=30, reserves={"failure": 2}),),
        classes=(traffic("chat", requests=0.0, gpu_s=0.0), traffic("code", requests=2e6, gpu_s=6e7)),
    )
    assert _at_work(base, _bill(shifted)) == {"mix"}
    assert _at_work(base, _bill(_use(pools=(pool(replicas=15, reserves={"failure": 2}),)))) == {"efficiency"}
    assert _at_work(base, _bill(_use(pools=(pool(replicas=20, reserves={"failure": 5}),)))) == {"reserves"}
    chatty = policy(log_bytes=stated("cost.log_bytes", 1e9, "bytes/request"))
    assert _at_work(base, _bill(_use(), drivers=chatty)) == {"policy"}


def test_a_line_that_only_one_bill_prices_is_coverage() -> None:
    use = _use()
    before = monthly_bill(use, quotes(items=1.0), policy(on_call=None))
    after = monthly_bill(use, quotes(items=1.0), policy())
    found = explain_change(before, after)
    assert found.of("coverage") == found.cents == 20 * 100
    assert found.causes[-1].by_line == {"engineering": 2000}


def test_one_workload_with_prices_of_2023_and_2026(shared_data: Path) -> None:
    """The same month on the same machines, on demand in us-east-1: every cent of the difference is price."""
    file = shared_data / "prices" / "gpu_price_history_weekly.csv.gz"
    hourly = [
        row[0] / row[1]
        for row in duckdb.execute(
            f"SELECT on_demand_usd_h, gpu_count FROM read_csv('{file}') WHERE instance = 'p5.48xlarge' "
            "AND region = 'us-east-1' AND date IN ('2023-07-29', '2026-08-15') ORDER BY date"
        ).fetchall()
    ]
    assert hourly == [98.32 / 8, 55.04 / 8]
    before, after = (_bill(_use(), quotes(hour=each, items=0.0)) for each in hourly)
    found = explain_change(before, after)
    assert found.of("price") == found.cents < 0
    paid = {"compute_usage", "idle_reserve", "failed_work"}
    assert {name for name, cents in found.causes[CAUSES.index("price")].by_line.items() if cents} == paid
    assert found.cents / found.before_cents == pytest.approx(55.04 / 98.32 - 1, abs=1e-6)


def test_price_and_volume_at_once_are_told_apart() -> None:
    """Twice the requests at half the price: volume adds as much as price takes back, and reserves stay cheaper."""
    before = _bill(_use(), quotes(items=0.0))
    grown = _use(
        pools=(pool(replicas=40, reserves={"failure": 2}),),
        classes=(traffic("chat", requests=2e6, gpu_s=2e7), traffic("code", requests=2e6, gpu_s=6e7)),
    )
    found = explain_change(before, _bill(grown, quotes(hour=1.5, items=0.0)))
    steady = before.cents_of("compute_usage") + before.cents_of("failed_work")
    assert found.of("volume") == pytest.approx(steady, abs=20)
    assert found.of("price") == pytest.approx(-(2 * steady + before.cents_of("idle_reserve")) / 2, abs=20)
