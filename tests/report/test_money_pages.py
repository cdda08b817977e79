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
        committed now: 0 nodes; expected: 845 USD; saved: 5.05 USD; regret at most: 603 USD
        [bold]Buy chat: 193 nodes instrument 738; the rest rule.[/bold]
        Over 12 months it is expected to cost 422 USD (p10 655, p90 655), 0.476 % less than rule, the cheapest fixed
          rule; nodes of 8 devices, a seller.
        Worst case is world 232: 0 USD above the best mix for it, and in no single future more than 301 USD.
        389 nodes already committed count until their terms end.
        Spot is interrupted 4.6e+02 times a month and leaves 6.5e+02 node-hours unserved, of classes that may be
          interrupted.

        # Orders
        from | until | what | nodes | devices | USD a month | up front | order by |
        2026-12 | 2029-01 | instrument 738 | 193 | 447 | 780 | 413 | 2027-07-30 | 3 days ago
        2028-07 | 2029-01 | instrument 739 | 196 | 448 | 781 | 414 | 2027-07-31 |

        # Prices
        what | USD a node-hour | a device-hour | of on demand | term | evidence
        rule | 477.00 | 59.62 | 100 % | 680 months | measured
        rule | 478.00 | 59.75 | 100 % | 681 months | measured
        rule | 479.00 | 59.88 | 100 % | 682 months | measured
        rule | 480.00 | 60.00 | 101 % | 683 months | measured

        # Expected cost, over 781 held-out futures
        mix | USD | p10 | p90 | more
        rule | 422 | 655 | 655 |
        rule | 424 | 656 | 656 | +28.2 %
        rule | 425 | 658 | 658 | +28.3 %

        # Regret: USD above the best mix in each case
        world | chosen | rule | rule
        world 232 | 0 | 0 | 0
        world 233 | 0 | 0 | 0

        # Mean nodes by month
        month | held | term | on demand | spot | of which idle |
        2076-01 | 320 | 736 | 476 | 575 | 152 | ████████████████
        2076-02 | 321 | 737 | 477 | 576 | 153 | ████████████████

        [bold]Buy chat: 193 nodes instrument 738; the rest rule.[/bold]
        Over 24 months it is expected to cost 423 USD (p10 659, p90 659), 0.711 % less than rule, the cheapest fixed
          rule; nodes of 8 devices, a seller.
        Worst case is world 234: 0 USD above the best mix for it, and in no single future more than 302 USD.
        395 nodes already committed count until their terms end.

        # Orders
        from | until | what | nodes | devices | USD a month | up front | order by |
        2026-12 | 2029-01 | instrument 738 | 193 | 447 | 780 | 413 | 2027-07-30 | 3 days ago
        2028-07 | 2029-01 | instrument 739 | 196 | 448 | 781 | 414 | 2027-07-31 |

        # Prices
        what | USD a node-hour | a device-hour | of on demand | term | evidence
        rule | 481.00 | 60.12 | 100 % | 684 months | measured
        rule | 482.00 | 60.25 | 100 % | 685 months | measured
        rule | 483.00 | 60.38 | 100 % | 686 months | measured
        rule | 484.00 | 60.50 | 101 % | 687 months | measured

        # Expected cost, over 782 held-out futures
        mix | USD | p10 | p90 | more
        rule | 423 | 659 | 659 |
        rule | 426 | 660 | 660 | +28.4 %
        rule | 427 | 661 | 661 | +28.5 %

        # Regret: USD above the best mix in each case
        world | chosen | rule | rule
        world 234 | 0 | 0 | 0
        world 235 | 0 | 0 | 0

        # Mean nodes by month
        month | held | term | on demand | spot | of which idle |
        2026-12 | 322 | 738 | 478 | 577 | 154 | ███████████████▉
        2027-03 | 325 | 741 | 481 | 580 | 155 | ████████████████

        [dim]Note: notes 625[/dim]
        [dim]Note: notes 626[/dim]
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
        committed now: 0 nodes; expected: 422 USD; saved: 1.01 USD; regret at most: 301 USD
        [bold]Buy: no commitment now; the rest rule.[/bold]
        Over 1 month it is expected to cost 422 USD (p10 655, p90 655), 0.239 % less than rule, the cheapest fixed rule;
          nodes of 1 device, a seller.
        Worst case is world 232: 0 USD above the best mix for it, and in no single future more than 301 USD.

        # Prices
        what | USD a node-hour | a device-hour | of on demand | term | evidence
        rule | 477.00 | 477.00 | 100 % | 680 months | measured
        rule | 478.00 | 478.00 | 100 % | 681 months | measured
        rule | 479.00 | 479.00 | 100 % | 682 months | measured

        # Expected cost, over 781 held-out futures
        mix | USD | p10 | p90 | more
        rule | 422 | 655 | 655 |
        rule | 423 | 656 | 656 | +28.2 %
        rule | 424 | 658 | 658 | +28.3 %

        # Regret: USD above the best mix in each case
        world | chosen | rule | rule
        world 232 | 0 | 0 | 0
        world 233 | 0 | 0 | 0

        # Mean nodes by month
        month | held | term | on demand | spot | of which idle |
        2075-11 | 320 | 736 | 476 | 575 | 152 | ████████████████
        2075-12 | 321 | 737 | 477 | 576 | 153 | ████████████████
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
        class name 590: host. A successful task costs 102.00 USD here and 212.00 at offer 483 (108 % more); break-even
          is at 681 requests a month, and this is 830.
        class name 591: buy. A successful task costs 212.00 USD here and 102.00 at offer 484 (51.9 % less); break-even
          is at 682 requests a month, and this is 831.
        class name 592: host. A successful task costs 103.00 USD here and 213.00 at offer 485 (107 % more); break-even
          is at 683 requests a month, and this is 832.
        class name 590: host. A successful task costs 102.00 USD here and 212.00 at offer 483 (108 % more); hosting is
          not cheaper at any volume.
        # Host or buy, USD per successful task
        class | against | host | buy | cheaper | succeed here / there | break-even | rate limits | evidence
        class name 590 | offer 483 | 102.00 | 212.00 | host | 13.1 % / 21.6 % | 681 a month, above the 303 it is sized
          for | reached in 8.09 % of minutes: 34.4 % refused | [green]measured[/green]
        class name 591 | offer 484 | 212.00 | 102.00 | buy | 13.2 % / 21.7 % | 682 a month, above the 2 it is sized for
          | reached in 8.1 % of minutes: 34.5 % refused | [green]measured[/green]
        class name 592 | offer 485 | 103.00 | 213.00 | host | 13.3 % / 21.8 % | 683 a month, above the 304 it is sized
          for | not reached | [green]measured[/green]
        class name 590 | offer 483 | 102.00 | 212.00 | host | 13.1 % / 21.6 % | never | not stated |
          [green]measured[/green]

        pool 619: keep 4 of 9 replicas and send peaks to offer 486: 640 USD a month, -0.316 % less than all of them,
          confirmed by simulating the base; 53 % of requests go there, 34.7 % are refused.
        pool 620: keep all 9 replicas; no mix with offer 487 costs less.
        pool 621: send all of it to offer 488: 642 USD a month, -0.633 % less.
        # Base on own replicas, peaks to a provider: USD a month, devices and tokens alone
        pool | against |  | replicas | own | bought | together | per success | sent there | refused
        pool 619 | offer 486 | all own | 9 | 227.25 | 411.07 | 638.32 | 1.92 | 53.1 % | 34.8 %
        pool 619 | offer 486 | all bought | 296 | 230.28 | 414.10 | 644.38 | 1.93 | 53.2 % | 34.9 %
        pool 619 | offer 486 | chosen mix | 4 | 228.26 | 412.08 | 640.34 | 1.92 | 53 % | 34.7 %
        pool 620 | offer 487 | all own | 9 | 227.25 | 411.07 | 638.32 | 1.92 | 53.1 % | 34.8 %
        pool 620 | offer 487 | all bought | 297 | 231.29 | 415.11 | 646.40 | 1.93 | 53.3 % | 35 %
        pool 621 | offer 488 | all own | 9 | 227.25 | 411.07 | 638.32 | 1.92 | 53.1 % | 34.8 %
        pool 621 | offer 488 | all bought | 298 | 232.30 | 416.12 | 648.42 | 1.93 | 53.4 % | 35.1 %
        """,
    )
    assert host_or_buy_parts([], [mix]) == []


def test_a_budget() -> None:
    made = MadeUp(causes={"volume": 1500.0, "mix": -20.0, "price": 0.0})
    check_page(
        budget_parts(made(Budget)),
        """
        [bold]422 USD from 2028-01 to 2028-01 (P10 655, P90 655), 25.5 % less than 2 months of today's bill.[/bold]

        # Budget by month, a fleet that follows demand, 781 futures
        month | P10 | P50 | P90 | M requests | devices | order | by |  | events
        2028-01 | 656 | 423 | 656 | 0.00083 | 451 | +156 | 2027-07-30 | ██████████▎ | events 335; events 336
        2028-01 | 658 | 424 | 658 | 0.000831 | 452 | +157 | 2027-07-31 | ██████████▍ | events 337; events 338
        sum | 655 | 422 | 655 |  |  |  |  |  |

        # Why the median months differ from today's bill
        cause | USD
        today's bill | 567
        volume | +1.5 k
        mix | -20
        median months | 709

        # Past months
        month | planned | paid | variance | volume | mix | efficiency | reserve | price
        2028-01 | 530 | 276 | -255 | +1.5 k | -20 |  |  | +0
        2028-01 | 531 | 277 | -255 | +1.5 k | -20 |  |  | +0
        [dim]Note: notes 625[/dim]
        [dim]Note: notes 626[/dim]
        """,
    )
    bare = MadeUp(is_bare=True, past=(), notes=(), more_devices=0)
    check_page(
        budget_parts(bare(Budget)),
        """
        [bold]422 USD from 2028-01 to 2028-01 (P10 655, P90 655), 25.5 % less than 2 months of today's bill.[/bold]

        # Budget by month, a fixed fleet, 781 futures
        month | P10 | P50 | P90 | M requests | devices | order | by |  | events
        2028-01 | 656 | 423 | 656 | 0.00083 | 451 |  |  | ██████████▎ | events 335; events 336
        2028-01 | 658 | 424 | 658 | 0.000831 | 452 |  |  | ██████████▍ | events 337; events 338
        sum | 655 | 422 | 655 |  |  |  |  |  |

        # Why the median months differ from today's bill
        cause | USD
        today's bill | 567
        causes 654 | +662
        causes 656 | +664
        median months | 709
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
        [bold]5.53 USD for 563 hours of the service 887[bold]. [/bold][/bold]

        # Lines
        line | for | amount | USD |  | kind | evidence
        name 429 | pool 619 item 771 | 736 unit 408 | 2.76 | ████████████████ | fixed shared | [green]measured[/green]
        name 430 | pool 620 item 772 | 737 unit 409 | 2.77 | ████████████████ | fixed shared | [green]measured[/green]
        [bold]total[/bold] |  |  | [bold]5.53[/bold] |  |  |

        # Unit costs, all lines included
        of | per | USD | model | prices | evidence
        of 703 | per 821 | 833.00 | model 606 | region 283 2029-04-18 2029-04-19 | [green]measured[/green]
        of 704 | per 822 | 834.00 | model 607 | region 284 2029-04-20 2029-04-21 | [green]measured[/green]
        Note: Prices: 2029-04-22 to 2029-04-23, regions 120, regions 121. They may change; the plan does not guarantee
          them.
        Note: notes 625
        Note: notes 626

        # Who caused it: by by 743, rule rule 433, usage basis, idle apart
        by 743 | USD |  | share | between rules
        name 431 | 5.61 | ████████████████ | 50.2 % |
        name 432 | 5.57 | ███████████████▉ | 49.8 % |

        Steady replicas of causes 654, 581.8 for all: chat alone needs 2.5, without it 1.5. 2 are shared: they go only
          when several leave.
        Steady replicas of causes 655, 582.8 for all: chat alone needs 2.5, without it 1.5. 2 are shared: they go only
          when several leave.

        class name 590: host. A successful task costs 102.00 USD here and 212.00 at offer 483 (108 % more); break-even
          is at 681 requests a month, and this is 830.
        class name 591: host. A successful task costs 103.00 USD here and 213.00 at offer 484 (107 % more); break-even
          is at 682 requests a month, and this is 831.
        # Host or buy, USD per successful task
        class | against | host | buy | cheaper | succeed here / there | break-even | rate limits | evidence
        class name 590 | offer 483 | 102.00 | 212.00 | host | 13.1 % / 21.6 % | 681 a month, above the 303 it is sized
          for | reached in 8.09 % of minutes: 34.4 % refused | [green]measured[/green]
        class name 591 | offer 484 | 103.00 | 213.00 | host | 13.2 % / 21.7 % | 682 a month, above the 304 it is sized
          for | reached in 8.1 % of minutes: 34.5 % refused | [green]measured[/green]

        pool 621: keep 296 of 297 replicas and send peaks to offer 485: 640 USD a month, -0.316 % less than all of them,
          confirmed by simulating the base; 53 % of requests go there, 34.6 % are refused.
        pool 622: keep 298 of 299 replicas and send peaks to offer 486: 644 USD a month, -0.314 % less than all of them,
          confirmed by simulating the base; 53.1 % of requests go there, 34.7 % are refused.
        # Base on own replicas, peaks to a provider: USD a month, devices and tokens alone
        pool | against |  | replicas | own | bought | together | per success | sent there | refused
        pool 621 | offer 485 | all own | 297 | 227.25 | 411.07 | 638.32 | 1.92 | 53.2 % | 34.8 %
        pool 621 | offer 485 | all bought | 300 | 231.29 | 415.11 | 646.40 | 1.94 | 53.3 % | 34.9 %
        pool 621 | offer 485 | chosen mix | 296 | 228.26 | 412.08 | 640.34 | 1.92 | 53 % | 34.6 %
        pool 622 | offer 486 | all own | 299 | 229.27 | 413.09 | 642.36 | 1.92 | 53.4 % | 35 %
        pool 622 | offer 486 | all bought | 301 | 232.30 | 416.12 | 648.42 | 1.93 | 53.5 % | 35.1 %
        pool 622 | offer 486 | chosen mix | 298 | 230.28 | 414.10 | 644.38 | 1.91 | 53.1 % | 34.7 %

        # What one more costs
        step | adds USD | USD per |
        one more replica of chat | 12.00 | 12.00 | replica
        title 560 | 2.82 | 835.00 | per 823
        title 561 | 2.83 | 836.00 | per 824

        # How much to commit, of steady replicas that follow demand
        pool | commit | none | best | all | because
        pool 623 | 549 of 550 | 422.18 | 423.19 | 424.20 |
        pool 624 | 551 of 552 | 425.21 | 426.22 | 427.23 |

        # Why the bill changed
        cause | USD | lines
        before | 4.20 |
        name 433 | 2.84 | by line 272 2.73, by line 274 2.75
        name 434 | 2.85 | by line 276 2.77, by line 278 2.79
        after | 3.16 |
        Note: notes 627
        Note: notes 628
        """,
    )
    bare = MadeUp(is_bare=True, attribution=None, against=(), commitments=(), causes={}, replicas=())
    check_answer(
        bare(CostAnswer, budget=made(Budget)),
        """
        2 months, P10: 655 USD; 2 months, P50: 428 USD; 2 months, P90: 655 USD
        [bold]428 USD from 2028-01 to 2028-01 (P10 655, P90 655), 24.4 % less than 2 months of today's bill.[/bold]

        # Budget by month, a fleet that follows demand, 781 futures
        month | P10 | P50 | P90 | M requests | devices | order | by |  | events
        2028-01 | 656 | 429 | 656 | 0.000832 | 451 | +156 | 2027-07-30 | ██████████▌ | events 335; events 336
        2028-01 | 658 | 430 | 658 | 0.000833 | 452 | +157 | 2027-07-31 | ██████████▌ | events 337; events 338
        sum | 655 | 428 | 655 |  |  |  |  |  |

        # Why the median months differ from today's bill
        cause | USD
        today's bill | 567
        causes 656 | +664
        causes 658 | +666
        median months | 709

        # Past months
        month | planned | paid | variance | volume | mix | efficiency | reserve | price
        2028-01 | 530 | 276 | -255 |  |  |  |  |
        2028-01 | 531 | 277 | -255 |  |  |  |  |
        [dim]Note: notes 629[/dim]
        [dim]Note: notes 630[/dim]

        [bold]0.00 USD for 563 hours of the service 887[bold]. [not bold][/bold]2 lines are not priced and not in
          it.[/not bold][/bold]

        # Lines
        line | for | amount | USD |  | kind | evidence
        [bold]total[/bold] |  |  | [bold]0.00[/bold] |  |  |

        # Not priced
        line | for | what to give
        name 427 | pool 619 item 771 | missing 606
        name 428 | pool 620 item 772 | missing 607

        # Unit costs, all lines included
        of | per | USD | model | prices | evidence
        of 703 | per 821 | 831.00 | model 606 | region 283 2029-04-18 2029-04-19 | [green]measured[/green]
        of 704 | per 822 | 832.00 | model 607 | region 284 2029-04-20 2029-04-21 | [green]measured[/green]
        Note: Prices: 2029-04-22 to 2029-04-23, regions 120, regions 121. They may change; the plan does not guarantee
          them.
        Note: notes 625
        Note: notes 626
        Note: Not priced, and so not in the total: name 427, name 428.

        # What one more costs
        step | adds USD | USD per |
        title 560 |  |  | why 693
        title 561 |  |  | why 694
        Note: notes 627
        Note: notes 628
        """,
    )
