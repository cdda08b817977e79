"""Pages about money, of made-up answers: every figure, title and bar where it belongs."""

from __future__ import annotations

import datetime

from support.made_up import MadeUp
from support.page_text import check_answer, check_page
from support.planned import read
from ullage.cost.attribution.attribution import RuleSpread
from ullage.cost.budget.budget import Budget
from ullage.cost.provider.host_or_buy import HostOrBuy
from ullage.cost.provider.spill import SpillLevel
from ullage.cost.purchase.purchase import MonthNodes, PurchasePlan
from ullage.planning.billing.spilled import SpilledPool
from ullage.report.money.budget_page import budget_parts
from ullage.report.money.host_or_buy_page import host_or_buy_parts
from ullage.uncertainty.buying import Buying, DatedOrder
from ullage.verbs.buy import BuyAnswer
from ullage.verbs.cost import CostAnswer

FIRST = datetime.date(2026, 12, 1)


def test_what_to_buy() -> None:
    made = MadeUp(
        sellers={"chat": "a seller"}, nodes_of={"chat": 8}, pool="chat", rules_usd={"rule": 90.0}, name="rule",
        first_month=FIRST,
    )  # fmt: skip
    orders = (made(DatedOrder, begins=FIRST, late_days=3), made(DatedOrder, late_days=0))
    pools = (made(PurchasePlan, months=12), made(PurchasePlan, months=24, interruptions=0.0, by_month=months(made)))
    check_answer(
        made(BuyAnswer, buying=made(Buying, orders=orders, pools=pools)),
        """
        committed now: 0 nodes; expected: 21.2 USD; saved: 5.05 USD; regret at most: 33.3 USD
        [bold]Buy chat: 19 nodes instrument 20; the rest rule.[/bold]
        Over 12 months it is expected to cost 10.1 USD (p10 21.2, p90 22.2), 16.7 % less than rule, the cheapest fixed
          rule; nodes of 8 devices, a seller.
        Worst case is world 27: 0 USD above the best mix for it, and in no single future more than 16.2 USD.
        57 nodes already committed count until their terms end.
        Spot is interrupted 30 times a month and leaves 31 node-hours unserved, of classes that may be interrupted.

        # Orders
        from | until | what | nodes | devices | USD a month | up front | order by |
        2026-12 | 2026-12 | instrument 20 | 19 | 33 | 34.3 | 35.4 | 2026-12-07 | 3 days ago
        2026-11 | 2026-12 | instrument 38 | 39 | 40 | 41.4 | 42.4 | 2026-12-14 |

        # Prices
        what | USD a node-hour | a device-hour | of on demand | term | evidence
        rule | 44.00 | 5.50 | 100 % | 45 months | measured
        rule | 46.00 | 5.75 | 105 % | 47 months | measured
        rule | 48.00 | 6.00 | 109 % | 49 months | measured
        rule | 50.00 | 6.25 | 114 % | 51 months | measured

        # Expected cost, over 52 held-out futures
        mix | USD | p10 | p90 | more
        rule | 10.1 | 21.2 | 22.2 |
        rule | 12.1 | 54.5 | 55.5 | +5.3 %
        rule | 13.1 | 57.6 | 58.6 | +5.6 %

        # Regret: USD above the best mix in each case
        world | chosen | rule | rule
        world 27 | 0 | 65.8 | 65.8
        world 59 | 0 | 63.7 | 63.7

        # Mean nodes by month
        month | held | term | on demand | spot | of which idle |
        2032-09 | 60.6 | 61.6 | 62.6 | 63.6 | 68.7 | ███████████████
        2032-11 | 64.6 | 65.7 | 66.7 | 67.7 | 70.7 | ████████████████

        [bold]Buy chat: 19 nodes instrument 20; the rest rule.[/bold]
        Over 24 months it is expected to cost 11.1 USD (p10 72.7, p90 73.7), 21.4 % less than rule, the cheapest fixed
          rule; nodes of 8 devices, a seller.
        Worst case is world 78: 0 USD above the best mix for it, and in no single future more than 17.2 USD.
        159 nodes already committed count until their terms end.

        # Orders
        from | until | what | nodes | devices | USD a month | up front | order by |
        2026-12 | 2026-12 | instrument 20 | 19 | 33 | 34.3 | 35.4 | 2026-12-07 | 3 days ago
        2026-11 | 2026-12 | instrument 38 | 39 | 40 | 41.4 | 42.4 | 2026-12-14 |

        # Prices
        what | USD a node-hour | a device-hour | of on demand | term | evidence
        rule | 81.00 | 10.12 | 100 % | 82 months | measured
        rule | 83.00 | 10.38 | 102 % | 84 months | measured
        rule | 85.00 | 10.62 | 105 % | 86 months | measured
        rule | 87.00 | 10.88 | 107 % | 88 months | measured

        # Expected cost, over 89 held-out futures
        mix | USD | p10 | p90 | more
        rule | 11.1 | 72.7 | 73.7 |
        rule | 14.1 | 91.9 | 92.9 | +9.0 %
        rule | 15.2 | 94.9 | 96 | +9.3 %

        # Regret: USD above the best mix in each case
        world | chosen | rule | rule
        world 78 | 0 | 14.2 | 14.2
        world 96 | 0 | 12.2 | 12.2

        # Mean nodes by month
        month | held | term | on demand | spot | of which idle |
        2026-12 | 98 | 99 | 100 | 101 | 122 | █████████████▎
        2027-03 | 110 | 111 | 112 | 113 | 123 | ██████████████▉

        [dim]Note: notes 123[/dim]
        [dim]Note: notes 124[/dim]
        """,
    )


def months(made: MadeUp) -> tuple[MonthNodes, ...]:
    """Half a year of which a page of quarters shows the first and the fourth."""
    return tuple(made(MonthNodes, after_months=each) for each in range(6))


def test_one_pool_that_buys_nothing() -> None:
    made = MadeUp(
        is_bare=True, sellers={"chat": "a seller"}, nodes_of={"chat": 1}, pool="chat", first_month=FIRST,
        name="rule", rules_usd={"rule": 1.0}, held=(), interruptions=0.0,
    )  # fmt: skip
    check_answer(
        made(BuyAnswer, buying=made(Buying, orders=(), notes=(), pools=(made(PurchasePlan, months=1),))),
        """
        committed now: 0 nodes; expected: 6.06 USD; saved: 1.01 USD; regret at most: 9.09 USD
        [bold]Buy: no commitment now; the rest rule.[/bold]
        Over 1 month it is expected to cost 6.06 USD (p10 10.1, p90 11.1), 14.3 % less than rule, the cheapest fixed
          rule; nodes of 1 device, a seller.
        Worst case is world 16: 0 USD above the best mix for it, and in no single future more than 9.09 USD.

        # Prices
        what | USD a node-hour | a device-hour | of on demand | term | evidence
        rule | 17.00 | 17.00 | 100 % | 18 months | measured
        rule | 19.00 | 19.00 | 112 % | 20 months | measured
        rule | 21.00 | 21.00 | 124 % | 22 months | measured

        # Expected cost, over 23 held-out futures
        mix | USD | p10 | p90 | more
        rule | 6.06 | 10.1 | 11.1 |
        rule | 7.07 | 25.2 | 26.3 | +2.4 %
        rule | 8.08 | 28.3 | 29.3 | +2.7 %

        # Regret: USD above the best mix in each case
        world | chosen | rule | rule
        world 16 | 0 | 0 | 0
        world 30 | 0 | 0 | 0

        # Mean nodes by month
        month | held | term | on demand | spot | of which idle |
        2030-04 | 31.3 | 32.3 | 33.3 | 34.3 | 39.4 | ██████████████▎
        2030-06 | 35.4 | 36.4 | 37.4 | 38.4 | 41.4 | ████████████████
        """,
    )


def test_own_devices_beside_a_provider() -> None:
    made = MadeUp()
    whole = made(SpillLevel, base_replicas=9)
    mix = made(SpilledPool, own=whole, chosen=made(SpillLevel, base_replicas=4))
    alone = made(SpilledPool, own=whole, chosen=whole)
    none = made(SpilledPool, own=whole, chosen=made(SpillLevel, base_replicas=0))
    dear = made(HostOrBuy)
    cheap = made(HostOrBuy, own=dear.bought, bought=dear.own, capacity_requests=2.0)
    unreached = made(HostOrBuy, limited_minutes=0)
    check_page(
        host_or_buy_parts([dear, cheap, unreached, MadeUp(is_bare=True)(HostOrBuy)], [mix, alone, none]),
        """
        class name 4: buy. A successful task costs 3.00 USD here and 2.00 at offer 5 (33.3 % less); break-even is at 6
          requests a month, and this is 7.
        class name 8: host. A successful task costs 2.00 USD here and 3.00 at offer 9 (50 % more); break-even is at 10
          requests a month, and this is 11.
        class name 14: host. A successful task costs 12.00 USD here and 13.00 at offer 15 (8.33 % more); break-even is
          at 16 requests a month, and this is 17.
        class name 4: host. A successful task costs 2.00 USD here and 3.00 at offer 5 (50 % more); hosting is not
          cheaper at any volume.
        # Host or buy, USD per successful task
        class | against | host | buy | cheaper | succeed here / there | break-even | rate limits | evidence
        class name 4 | offer 5 | 3.00 | 2.00 | buy | 1.9 % / 2 % | 6 a month | reached in 0.218 % of minutes: 2.1 %
          refused | [green]measured[/green]
        class name 8 | offer 9 | 2.00 | 3.00 | host | 2.3 % / 2.4 % | 10 a month, above the 2 it is sized for | reached
          in 0.258 % of minutes: 2.5 % refused | [green]measured[/green]
        class name 14 | offer 15 | 12.00 | 13.00 | host | 2.8 % / 2.9 % | 16 a month | not reached |
          [green]measured[/green]
        class name 4 | offer 5 | 2.00 | 3.00 | host | 0.6 % / 0.7 % | never | not stated | [green]measured[/green]

        pool 36: keep 4 of 9 replicas and send peaks to offer 37: 67.7 USD a month, -6.35 % less than all of them,
          confirmed by simulating the base; 3.8 % of requests go there, 3.9 % are refused.
        pool 40: keep all 9 replicas; no mix with offer 41 costs less.
        pool 44: send all of it to offer 45: 85.8 USD a month, -34.9 % less.
        # Base on own replicas, peaks to a provider: USD a month, devices and tokens alone
        pool | against |  | replicas | own | bought | together | per success | sent there | refused
        pool 36 | offer 37 | all own | 9 | 31.31 | 32.32 | 63.63 | 1.37 | 4.7 % | 4.8 %
        pool 36 | offer 37 | all bought | 49 | 50.50 | 51.51 | 102.01 | 1.94 | 5.3 % | 5.4 %
        pool 36 | offer 37 | chosen mix | 4 | 33.33 | 34.34 | 67.67 | 1.22 | 3.8 % | 3.9 %
        pool 40 | offer 41 | all own | 9 | 31.31 | 32.32 | 63.63 | 1.37 | 4.7 % | 4.8 %
        pool 40 | offer 41 | all bought | 56 | 57.57 | 58.58 | 116.15 | 1.95 | 6 % | 6.1 %
        pool 44 | offer 45 | all own | 9 | 31.31 | 32.32 | 63.63 | 1.37 | 4.7 % | 4.8 %
        pool 44 | offer 45 | all bought | 62 | 63.63 | 64.64 | 128.27 | 1.95 | 6.6 % | 6.7 %
        """,
    )
    assert host_or_buy_parts([], [mix]) == []


def test_a_budget() -> None:
    made = MadeUp(causes={"volume": 1500.0, "mix": -20.0, "price": 0.0})
    check_page(
        budget_parts(made(Budget)),
        """
        [bold]5.05 USD from 2026-11 to 2026-11 (P10 6.06, P90 7.07), 25 % more than 2 months of today's bill.[/bold]

        # Budget by month, a fleet that follows demand, 8 futures
        month | P10 | P50 | P90 | M requests | devices | order | by |  | events
        2026-11 | 12.1 | 13.1 | 9.09 | 1.41e-05 | 15.2 | +16 | 2026-11-12 | ████████████████ | events 17; events 18
        2026-11 | 20.2 | 21.2 | 10.1 | 2.22e-05 | 23.2 | +24 | 2026-11-20 | ████████████████ | events 25; events 26
        sum | 6.06 | 5.05 | 7.07 |  |  |  |  |  |

        # Why the median months differ from today's bill
        cause | USD
        today's bill | 4.04
        volume | +1.5 k
        mix | -20
        median months | 27.3

        # Past months
        month | planned | paid | variance | volume | mix | efficiency | reserve | price
        2026-12 | 28.3 | 29.3 | +1.01 | +1.5 k | -20 |  |  | +0
        2026-12 | 31.3 | 32.3 | +1.01 | +1.5 k | -20 |  |  | +0
        [dim]Note: notes 34[/dim]
        [dim]Note: notes 35[/dim]
        """,
    )
    bare = MadeUp(is_bare=True, past=(), notes=(), more_devices=0)
    check_page(
        budget_parts(bare(Budget)),
        """
        [bold]5.05 USD from 2026-11 to 2026-11 (P10 6.06, P90 7.07), 25 % more than 2 months of today's bill.[/bold]

        # Budget by month, a fixed fleet, 8 futures
        month | P10 | P50 | P90 | M requests | devices | order | by |  | events
        2026-11 | 11.1 | 12.1 | 9.09 | 1.31e-05 | 14.1 |  |  | ████████████████ | events 15; events 16
        2026-11 | 17.2 | 18.2 | 10.1 | 1.92e-05 | 20.2 |  |  | ████████████████ | events 21; events 22
        sum | 6.06 | 5.05 | 7.07 |  |  |  |  |  |

        # Why the median months differ from today's bill
        cause | USD
        today's bill | 4.04
        causes 23 | +24.2
        causes 25 | +26.3
        median months | 27.3
        """,
    )


def test_a_bill() -> None:
    spread = tuple(
        RuleSpread(name=name, cents={"tokens": 300 + less, "causation": 500}) for name, less in (("a", 0), ("b", 40))
    )
    made = MadeUp(budget=None, without={"chat": 1.5}, alone={"chat": 2.5}, is_group=True, spread=spread)
    replicas = (read("bill.chat.one_more_replica", 12.0, "USD"),)
    check_answer(
        made(CostAnswer, replicas=replicas),
        """
        [bold]0.05 USD for 4 hours of the service 5[bold]. [/bold][/bold]

        # Lines
        line | for | amount | USD |  | kind | evidence
        name 8 | pool 9 item 10 | 12.1 unit 11 | 0.02 | ██████████▋ | fixed shared | [green]measured[/green]
        name 14 | pool 15 item 16 | 18.2 unit 17 | 0.03 | ████████████████ | fixed shared | [green]measured[/green]
        [bold]total[/bold] |  |  | [bold]0.05[/bold] |  |  |

        # Unit costs, all lines included
        of | per | USD | model | prices | evidence
        of 23 | per 24 | 25.00 | model 26 | region 20 2026-11-22 2026-11-23 | [green]measured[/green]
        of 30 | per 31 | 32.00 | model 33 | region 27 2026-11-29 2026-11-30 | [green]measured[/green]
        Note: Prices: 2026-12-05 to 2026-12-06, regions 36, regions 37. They may change; the plan does not guarantee
          them.
        Note: notes 38
        Note: notes 39

        # Who caused it: by by 40, rule rule 41, usage basis, idle apart
        by 40 | USD |  | share | between rules
        name 46 | 0.89 | ████████████████ | 51.1 % |
        name 47 | 0.85 | ███████████████▎ | 48.9 % |

        Steady replicas of causes 48, 50.5 for all: chat alone needs 2.5, without it 1.5. 2 are shared: they go only
          when several leave.
        Steady replicas of causes 49, 51.5 for all: chat alone needs 2.5, without it 1.5. 2 are shared: they go only
          when several leave.

        class name 54: host. A successful task costs 52.00 USD here and 53.00 at offer 55 (1.92 % more); break-even is
          at 57 requests a month, and this is 58.
        class name 60: host. A successful task costs 58.00 USD here and 59.00 at offer 61 (1.72 % more); break-even is
          at 63 requests a month, and this is 64.
        # Host or buy, USD per successful task
        class | against | host | buy | cheaper | succeed here / there | break-even | rate limits | evidence
        class name 54 | offer 55 | 52.00 | 53.00 | host | 6.5 % / 6.6 % | 57 a month | reached in 0.675 % of minutes:
          6.7 % refused | [green]measured[/green]
        class name 60 | offer 61 | 58.00 | 59.00 | host | 7 % / 7.1 % | 63 a month | reached in 0.724 % of minutes: 7.2
          % refused | [green]measured[/green]

        pool 81: keep 74 of 75 replicas and send peaks to offer 82: 159 USD a month, -2.61 % less than all of them,
          confirmed by simulating the base; 8.3 % of requests go there, 8.4 % are refused.
        pool 92: keep 85 of 86 replicas and send peaks to offer 93: 181 USD a month, -2.29 % less than all of them,
          confirmed by simulating the base; 9.4 % of requests go there, 9.5 % are refused.
        # Base on own replicas, peaks to a provider: USD a month, devices and tokens alone
        pool | against |  | replicas | own | bought | together | per success | sent there | refused
        pool 81 | offer 82 | all own | 75 | 76.76 | 77.77 | 154.53 | 1.59 | 9.7 % | 9.8 %
        pool 81 | offer 82 | all bought | 99 | 101.00 | 102.01 | 203.01 | 1.97 | 10.3 % | 10.4 %
        pool 81 | offer 82 | chosen mix | 74 | 78.78 | 79.79 | 158.57 | 1.50 | 8.3 % | 8.4 %
        pool 92 | offer 93 | all own | 86 | 87.87 | 88.88 | 176.75 | 1.65 | 10.7 % | 10.8 %
        pool 92 | offer 93 | all bought | 109 | 111.10 | 112.11 | 223.21 | 1.97 | 11.3 % | 11.4 %
        pool 92 | offer 93 | chosen mix | 85 | 89.89 | 90.90 | 180.79 | 1.56 | 9.4 % | 9.5 %

        # What one more costs
        step | adds USD | USD per |
        one more replica of chat | 12.00 | 12.00 | replica
        title 118 | 1.17 | 116.00 | per 119
        title 122 | 1.21 | 120.00 | per 123

        # How much to commit, of the steady replicas
        pool | commit | none | best | all | because
        pool 124 | 125 of 126 | 128.27 | 129.28 | 130.29 |
        pool 132 | 133 of 134 | 136.35 | 137.36 | 138.37 |

        # Why the bill changed
        cause | USD | lines
        before | 1.40 |
        name 145 | 1.46 | by line 141 1.42, by line 143 1.44
        name 151 | 1.52 | by line 147 1.48, by line 149 1.50
        after | 1.53 |
        Note: notes 154
        Note: notes 155
        """,
    )
    bare = MadeUp(is_bare=True, attribution=None, against=(), commitments=(), causes={}, replicas=())
    check_answer(
        bare(CostAnswer, budget=made(Budget)),
        """
        2 months, P10: 158 USD; 2 months, P50: 159 USD; 2 months, P90: 160 USD
        [bold]159 USD from 2027-04 to 2027-04 (P10 158, P90 160), 2.48 % less than 2 months of today's bill.[/bold]

        # Budget by month, a fleet that follows demand, 162 futures
        month | P10 | P50 | P90 | M requests | devices | order | by |  | events
        2027-04 | 168 | 169 | 165 | 0.00017 | 171 | +170 | 2027-04-15 | ████████████████ | events 171; events 172
        2027-04 | 176 | 177 | 166 | 0.000178 | 179 | +178 | 2027-04-23 | ████████████████ | events 179; events 180
        sum | 158 | 159 | 160 |  |  |  |  |  |

        # Why the median months differ from today's bill
        cause | USD
        today's bill | 163
        causes 181 | +184
        causes 183 | +186
        median months | 187

        # Past months
        month | planned | paid | variance | volume | mix | efficiency | reserve | price
        2027-05 | 188 | 189 | +1.01 |  |  |  |  |
        2027-05 | 195 | 196 | +1.01 |  |  |  |  |
        [dim]Note: notes 200[/dim]
        [dim]Note: notes 201[/dim]

        [bold]0.00 USD for 4 hours of the service 5[bold]. [not bold][/bold]2 lines are not priced and not in it.[/not
          bold][/bold]

        # Lines
        line | for | amount | USD |  | kind | evidence
        [bold]total[/bold] |  |  | [bold]0.00[/bold] |  |  |

        # Not priced
        line | for | what to give
        name 2 | pool 8 item 9 | missing 10
        name 3 | pool 11 item 12 | missing 13

        # Unit costs, all lines included
        of | per | USD | model | prices | evidence
        of 17 | per 18 | 19.00 | model 20 | region 14 2026-11-16 2026-11-17 | [green]measured[/green]
        of 24 | per 25 | 26.00 | model 27 | region 21 2026-11-23 2026-11-24 | [green]measured[/green]
        Note: Prices: 2026-11-29 to 2026-11-30, regions 30, regions 31. They may change; the plan does not guarantee
          them.
        Note: notes 32
        Note: notes 33
        Note: Not priced, and so not in the total: name 2, name 3.

        # What one more costs
        step | adds USD | USD per |
        title 34 |  |  | why 35
        title 36 |  |  | why 37
        Note: notes 38
        Note: notes 39
        """,
    )
