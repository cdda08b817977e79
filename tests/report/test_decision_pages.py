"""Pages that decide something, of made-up answers: every figure, title and sentence where it belongs."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from support.made_up import MadeUp
from support.page_text import check_answer, check_page
from support.planned import stated
from ullage.errors import NotGiven, Rejection
from ullage.planning.checks.result import Checks
from ullage.planning.drills.result import Drills
from ullage.planning.options.options import Options
from ullage.planning.portfolio.portfolio import Portfolio
from ullage.report.decisions.check_page import check_page as page_of_checks
from ullage.report.decisions.drill_page import drill_page
from ullage.report.decisions.ledger_page import damage_table, entry_page
from ullage.report.decisions.options_page import options_page
from ullage.report.decisions.reconcile_page import query_table
from ullage.scaling.compare import ScalingChart, ScalingComparison
from ullage.scaling.search import SearchStep
from ullage.uncertainty.pool_study import PoolStudy, Regret
from ullage.uncertainty.study import Study
from ullage.verbs.brownfield import BrownfieldPlan
from ullage.verbs.emit import Emitted
from ullage.verbs.ledger import LedgerAnswer
from ullage.verbs.portfolio import PortfolioAnswer
from ullage.verbs.reconcile import ReconcileAnswer
from ullage.verbs.risk import RiskAnswer
from ullage.verbs.scale import ScaleAnswer
from ullage.verbs.shadow import ShadowAnswer

PLAN: Any = SimpleNamespace(
    spec=SimpleNamespace(name="chat service"), seed=1, as_of=datetime.date(2026, 11, 15), pools=(1,)
)


def test_a_reconciliation() -> None:
    check_answer(
        MadeUp()(ReconcileAnswer),
        """
        verdict: past tolerances; replicas off: -1.01 replicas; drifted: none
        [bold]service 887: plan plan 898 of planned on 127 against start 404 to end 406: PAST TOLERANCES[/bold]
        - past 876
        - past 877

        # Scorecard
         | planned | observed | change |
        what 455 | 102 unit 408 | 501 unit 408 (620 unit 408 to 899 unit 408) | +391 % | note 537
        what 456 | 103 unit 409 | 502 unit 409 (621 unit 409 to 900 unit 409) | +387 % | note 538

        # Error by cause
        cause | replicas, in order | by Shapley | USD a month | USD per success
        traffic | +583.78 | +584.79 | +781.7 | +129.3
        traffic | +585.80 | +586.81 | +782.8 | +130.3
        total | -1.01 | -1.01 | -1.01 | -1.01
        Planned 582.8 replicas; the observed inputs need 581.8; 790.8 ran, +209.1 relative to need (scaling).
        [dim]Evaluated: the highest load of one replica of this configuration, simulated, scales the planned
          fleet.[/dim]

        [dim]Left out: left out 301.[/dim]
        [dim]Left out: left out 302.[/dim]
        # Assumptions
         | planned | observed | interval | verdict |
        name 427 | 440 unit 410 | 503 unit 410 | 622 unit 410 to 901 unit 410 | [green]holds[/green] | why 693
        name 428 | 441 unit 411 | 504 unit 411 | 623 unit 411 to 902 unit 411 | [green]holds[/green] | why 694

        # Step times fitted to production
        req/s per replica | hours | requests | fitted | checked
        624 | 374 | 830 | fitted 289, fitted 290 | 427 of 357 percentiles in their buckets
        625 | 375 | 831 | fitted 291, fitted 292 | 428 of 358 percentiles in their buckets
        Decode steps are 820 times the plan's, prefill 807 times; at these loads they are known to a factor of 279.
          --apply writes the calibration that a plan reads as evidence.calibrations.
        Note that disagreements 316.
        Note that disagreements 317.

        # SLOs
        class | SLO | limit | observed range | over the limit |
        class name 590 | slo 862 | 7.51 min | 9.98 min and 10.7 min | 18.90% to 35.50% | [green]met[/green]
        class name 591 | slo 863 | 7.52 min | 10 min and 10.7 min | 19.00% to 35.60% | [green]met[/green]
        Of 375.7 hours 304 certainly violated an SLO, 402 are undecided; 565 were above the planning rate.
        Preemptions per replica: 424/s predicted at the planning rate, 411/s observed; out-of-memory kills: 412.

        # Forecast
        class | week | WAPE | bias | pinball | CRPS | in the 80 % band
        class name 592 | week 869 | 37.9% | +23.4% | 504 | 344 | 61% (40% to 62%)
        class name 593 | week 870 | 38.0% | +23.5% | 505 | 345 | 61% (40% to 62%)
        Risk of a shortfall: stated 13.70%, it happened; over 262 reconciliations so far the Brier score is 767, and the
          record supports 16.60%.
        Forecast error moves the fleet by one replica after 4.23 min; the plan is reconciled every 13.6 min, which is
          too rarely.
        2 assumptions past their maximum age: name 429 (211 d), name 430 (212 d).

        # Backtest: 259 plans of 11.8 min each, from what was known then
        percentile | periods short | hours short | replicas | idle | USD
        697 | 751 of 551 | 237 of 373 | 284 | 16% | 422
        698 | 752 of 552 | 238 of 374 | 285 | 17% | 423

        # Proposed changes of the plan file
        key | old | new | evidence
        key 238 | old 458 | new 362 | evidence 373
        key 239 | old 459 | new 363 | evidence 374
        Not a key of the plan file: elsewhere 826.
        Not a key of the plan file: elsewhere 827.

        # What the data cannot decide
        kind | quantity | what
        counter reset | quantity 379 | what 457
        counter reset | quantity 380 | what 458
        """,
    )


def test_a_reconciliation_that_knows_little() -> None:
    check_answer(
        MadeUp(is_bare=True, past=(), stale=(), updates=(), elsewhere=(), notes=())(ReconcileAnswer),
        """
        verdict: within tolerances; drifted: none
        [bold]service 887: plan plan 898 of planned on 127 against start 404 to end 406: within tolerances[/bold]

        # Scorecard
         | planned | observed | change |
        what 455 | - | not observed |  | note 537
        what 456 | - | not observed |  | note 538

        [dim]Left out: left out 301.[/dim]
        [dim]Left out: left out 302.[/dim]
        # Assumptions
         | planned | observed | interval | verdict |
        name 427 | 440 unit 410 | - |  | [dim]unknown[/dim] | why 693
        name 428 | 441 unit 411 | - |  | [dim]unknown[/dim] | why 694

        # SLOs
        class | SLO | limit | observed range | over the limit |
        class name 590 | slo 862 | 7.51 min | not observed |  | [yellow]cannot be told[/yellow]
        class name 591 | slo 863 | 7.52 min | not observed |  | [yellow]cannot be told[/yellow]
        Of 373.7 hours 304 certainly violated an SLO, 402 are undecided; 565 were above the planning rate.
        Preemptions per replica: 424/s predicted at the planning rate, not observed; out-of-memory kills: not observed.

        # Forecast
        class | week | WAPE | bias | pinball | CRPS | in the 80 % band
        class name 592 | week 869 | 37.9% | +23.4% | 504 | 344 | 61% (40% to 62%)
        class name 593 | week 870 | 38.0% | +23.5% | 505 | 345 | 61% (40% to 62%)
        Risk of a shortfall: stated 13.70%, it did not happen; over 262 reconciliations so far the Brier score is 767,
          and the record supports 16.60%.
        Forecast error moves the fleet by one replica after not known from so few days; the plan is reconciled every
          13.6 min.

        The plan file needs no change.
        """,
    )


def test_the_queries_of_a_reconciliation() -> None:
    check_page(
        [query_table([("arrivals", "sum(rate(x[5m]))")])],
        """
        # Range queries; each uses the step it contains
        file | query
        arrivals.json | sum(rate(x[5m]))
        """,
    )


def test_a_portfolio() -> None:
    made = MadeUp()
    check_answer(
        made(PortfolioAnswer),
        """
        pools: 2; replicas: 576 replicas; devices: 447 devices; a month: 422 USD; dropped: 1,267 replicas
        [bold]It does not fit: 1267 replicas of 2 pools are dropped, first of service 887/pool 619, which loses 532 USD
          a month of requests in total; 576 replicas on 447 devices, 422 USD a month are placed.[/bold]
        888 requests a day. -315 sizes are estimates (740 evaluated), 317 planned in full. The result still depends on 2
          estimates, first undecided 782: --decide.

        # Dropped, lowest loss per device first
        pool | replicas | of | USD lost a month | per device
        service 887/pool 619 | 633 | 577 | 533 | 797
        service 888/pool 620 | 634 | 578 | 534 | 798

        # Regions
        region | device | devices | nodes | of which idle | quota | committed
        region 283 | device 371 | 448 | 193 | 668 | 119 | 462
        region 284 | device 372 | 449 | 194 | 669 | 120 | 463

        # Pools
        pool | model | device | replicas | between | where | size is
        service 887/pool 619 | model 606 | device 373 | -56 | 561 to 359 | 121 regions 120, 123 regions 122 | first
          look, as same as 764
        service 888/pool 620 | model 607 | device 374 | -56 | 562 to 360 | 125 regions 124, 127 regions 126 | first
          look, as same as 765

        Without region 285: 1159 of 581 replicas move elsewhere, 1165 there stop to make room, 746 are lost at 464 USD a
          day.
        Without region 286: 1169 of 586 replicas move elsewhere, 1175 there stop to make room, 754 are lost at 465 USD a
          day.
        # Who moves when a region is lost
        region lost | pool | starts | in |
        region 285 | pool 621 | 579 | to region 496 |
        region 285 | pool 622 | 580 | to region 497 |
        region 285 | pool 623 | -582 | from region 363 | stops to make room
        region 285 | pool 624 | -583 | from region 364 | stops to make room
        region 285 | given up 371 | 0 | nowhere | 372 lost
        region 285 | given up 373 | 0 | nowhere | 374 lost
        region 286 | pool 625 | 584 | to region 498 |
        region 286 | pool 626 | 585 | to region 499 |
        region 286 | pool 627 | -587 | from region 365 | stops to make room
        region 286 | pool 628 | -588 | from region 366 | stops to make room
        region 286 | given up 375 | 0 | nowhere | 376 lost
        region 286 | given up 377 | 0 | nowhere | 378 lost
        [dim]Note: notes 625[/dim]
        [dim]Note: notes 626[/dim]
        """,
    )
    fits = MadeUp(is_bare=True, given_up=(), losses=(), undecided=(), given_up_replicas=0, notes=())
    check_answer(
        fits(PortfolioAnswer, portfolio=fits(Portfolio)),
        """
        pools: 2; replicas: 576 replicas; devices: 447 devices; a month: 422 USD; dropped: 0 replicas
        [bold]It fits: 2 pools, 576 replicas on 447 devices, 422 USD a month.[/bold]
        888 requests a day. -315 sizes are estimates (740 evaluated), 317 planned in full. No decision depends on an
          estimate.

        # Regions
        region | device | devices | nodes | of which idle | quota | committed
        region 283 | device 371 | 448 | 193 | 668 | none stated | 462
        region 284 | device 372 | 449 | 194 | 669 | none stated | 463

        # Pools
        pool | model | device | replicas | between | where | size is
        service 888/pool 620 | model 606 | device 373 | 578 |  | 121 regions 120, 123 regions 122 | decided, as same as
          764
        service 887/pool 619 | model 607 | device 374 | 577 |  | 125 regions 124, 127 regions 126 | decided, as same as
          765
        """,
    )


def test_scaling_rules_side_by_side() -> None:
    made = MadeUp(reserve_replicas=None)
    steps = tuple(
        made(SearchStep, name=name, derived_value=derived)
        for name, derived in (("threshold_value", 7.0), ("floor_fraction", 0.5), ("down_s", 60.0))
    )
    chart = made(
        ScalingChart, needed_replicas=(1.0, 3.0, 2.0), ready_replicas=(4.0, 4.0), asked_replicas=(0.0, 8.0),
        waiting_requests=(0.0, 0.0, 5.0, 5.0),
    )  # fmt: skip
    named = MadeUp(name="ullage", steps=steps, chart=chart, present=("ullage",))
    check_answer(
        named(ScaleAnswer, plan=PLAN),
        """
        pool 619.threshold: 403 requests; pool 619.replica-hours: 195 h; pool 619.saving: 0.52 %; pool 620.threshold:
          404 requests; pool 620.replica-hours: 197 h; pool 620.saving: 0.51 %
        [bold]Scaling of pool 619: 1% fewer replica-hours than the fixed fleet of 547, meets every SLO[/bold]
        Signal      signal 378: sum(avg_over_time(metrics 364[890s])) + sum(avg_over_time(metrics 365[890s]))
        Derived     624 / (624 + 1.35e+06 req/s an hour x (731 s + 649 s)) x 443 = 359 for each replica
        Searched    threshold 7 -> 145.44 (273 h), floor 0.5 -> 146.45 (274 h), down window 60 -> 147.46 s (275 h)
        Replicas    753 to 548; up at once, down after 621 s, floor scheduled by hour of week
        [dim]Chosen on   hours of searched 547, searched 548, then whole days (searched days 529, searched days 530);
          562 rules tried[/dim]
        [dim]Judged on   traffic 693, traffic 694[/dim]
        Equal       to attain as much as against 328: scaling: {threshold: 405.01, least: 754, most: 549, down_window:
          199.98s, node_held: 835.27s, window: 890.82s, floor: 57.2%, sleepers: 287}; 12% fewer replica-hours than it

        rule | worst SLO | met | replica-h | lag | over | under | reversals/h | max queue | replicas
        ullage (running now) | 73629.00 ± 13938.00 % of slo name 617 | [green]yes[/green] | 195 | 6.65 min | 26% | 34.8%
          | 8.7e+02 | 274 | 755-550
        ullage (running now) | 73730.00 ± 13938.00 % of slo name 618 | [green]yes[/green] | 199 | 6.67 min | 26% | 34.9%
          | 8.7e+02 | 275 | 756-551
        ullage (running now) | 73831.00 ± 13938.00 % of slo name 619 | [green]yes[/green] | 200 | 6.68 min | 26% | 35.0%
          | 8.7e+02 | 276 | 757-552
        ullage (running now) | 73932.00 ± 13938.00 % of slo name 620 | [green]yes[/green] | 196 | 6.7 min | 27% | 35.1%
          | 8.7e+02 | 277 | 758-547
        ullage (running now) | 74033.00 ± 13938.00 % of slo name 621 | [green]yes[/green] | 201 | 6.72 min | 27% | 35.2%
          | 8.7e+02 | 278 | 759-553

        [bold]rule 433 on traffic 693[/bold]
          need      ▂▂ 8
          requested ▄ 8
          ready     ▄ 8
          waiting    █ 5

        [bold]SLO violations by cause[/bold]
          ullage: causes 656 79.93%, causes 654 79.68%
          ullage: causes 660 80.32%, causes 658 80.07%

        [bold]Bursts that no reactive rule absorbs[/bold]
          traffic 695 00:06: 4 min, need 779.72 times what was ready, 319 requests outside their SLO
          traffic 696 00:06: 4 min, need 780.73 times what was ready, 320 requests outside their SLO
          339 more warm replicas would absorb them.

        # When it is worse than planned
        case | worst SLO | met | replica-h | lag | max queue
        ullage | 74134.00 % of slo name 622 | [green]yes[/green] | 202 | 6.73 min | 279
        ullage | 74235.00 % of slo name 623 | [green]yes[/green] | 203 | 6.75 min | 280

        [dim]Note: notes 625[/dim]
        [dim]Note: notes 626[/dim]
        [bold]Scaling of pool 620: 1% fewer replica-hours than the fixed fleet of 554, meets every SLO[/bold]
        Signal      signal 379: sum(avg_over_time(metrics 366[892s])) + sum(avg_over_time(metrics 367[892s]))
        Derived     625 / (625 + 1.35e+06 req/s an hour x (732 s + 650 s)) x 444 = 360 for each replica
        Searched    threshold 7 -> 145.44 (273 h), floor 0.5 -> 146.45 (274 h), down window 60 -> 147.46 s (275 h)
        Replicas    760 to 555; up at once, down after 622 s, floor scheduled by hour of week
        [dim]Chosen on   hours of searched 549, searched 550, then whole days (searched days 531, searched days 532);
          563 rules tried[/dim]
        [dim]Judged on   traffic 697, traffic 698[/dim]
        Equal       to attain as much as against 329: scaling: {threshold: 406.02, least: 761, most: 556, down_window:
          200.99s, node_held: 836.28s, window: 892.84s, floor: 57.3%, sleepers: 288}; 12% fewer replica-hours than it

        rule | worst SLO | met | replica-h | lag | over | under | reversals/h | max queue | replicas
        ullage (running now) | 74336.00 ± 13938.00 % of slo name 624 | [green]yes[/green] | 197 | 6.77 min | 27% | 35.3%
          | 8.7e+02 | 281 | 762-557
        ullage (running now) | 74437.00 ± 13938.00 % of slo name 625 | [green]yes[/green] | 204 | 6.78 min | 27% | 35.4%
          | 8.7e+02 | 282 | 763-558
        ullage (running now) | 74538.00 ± 13938.00 % of slo name 626 | [green]yes[/green] | 205 | 6.8 min | 27% | 35.5%
          | 8.8e+02 | 283 | 764-559
        ullage (running now) | 74639.00 ± 13938.00 % of slo name 627 | [green]yes[/green] | 198 | 6.82 min | 27% | 35.6%
          | 8.8e+02 | 284 | 765-554
        ullage (running now) | 74740.00 ± 13938.00 % of slo name 628 | [green]yes[/green] | 206 | 6.83 min | 27% | 35.7%
          | 8.8e+02 | 285 | 766-560

        [bold]rule 433 on traffic 693[/bold]
          need      ▂▂ 8
          requested ▄ 8
          ready     ▄ 8
          waiting    █ 5

        [bold]SLO violations by cause[/bold]
          ullage: causes 664 80.70%, causes 662 80.46%
          ullage: causes 668 81.09%, causes 666 80.85%

        [bold]Bursts that no reactive rule absorbs[/bold]
          traffic 699 00:06: 4 min, need 781.74 times what was ready, 321 requests outside their SLO
          traffic 700 00:06: 4 min, need 782.75 times what was ready, 322 requests outside their SLO
          340 more warm replicas would absorb them.

        # When it is worse than planned
        case | worst SLO | met | replica-h | lag | max queue
        ullage | 74841.00 % of slo name 629 | [green]yes[/green] | 207 | 6.85 min | 286
        ullage | 74942.00 % of slo name 630 | [green]yes[/green] | 208 | 6.87 min | 287

        [dim]Note: notes 627[/dim]
        [dim]Note: notes 628[/dim]
        """,
    )
    bare = MadeUp(
        is_bare=True, name="ullage", steps=(), chart=chart, searched_margin_fraction=-0.02, bursts=(), causes={},
        searched_days=(), reserve_replicas=3,
    )  # fmt: skip
    check_answer(
        bare(ScaleAnswer, plan=PLAN, pools=(bare(ScalingComparison),)),
        """
        threshold: 403 requests; replica-hours: 195 h; saving: 0.52 %
        [bold]Scaling of pool 619: 1% fewer replica-hours than the fixed fleet of 547, meets every SLO[/bold]
        Signal      signal 378: sum(avg_over_time(metrics 364[890s])) + sum(avg_over_time(metrics 365[890s]))
        Derived     624 / (624 + 1.35e+06 req/s an hour x (731 s + 649 s)) x 443 = 359 for each replica
        Searched
        Replicas    753 to 548; up at once, down after 621 s, floor scheduled by hour of week
        Plan key    scaling: {settings 106: settings 107, settings 108: settings 109}
        [dim]Chosen on   hours of searched 547, searched 548; 562 rules tried; on the worst of them 2.0 points below its
          SLO: required only to match the fixed fleet[/dim]
        [dim]Judged on   traffic 693, traffic 694[/dim]

        rule | worst SLO | met | replica-h | lag | over | under | reversals/h | max queue | replicas
        ullage | 73629.00 ± 13938.00 % of slo name 617 | [green]yes[/green] | 195 | 6.65 min | 26% | 34.8% | 8.7e+02 |
          274 | 754-549
        ullage | 73730.00 ± 13938.00 % of slo name 618 | [green]yes[/green] | 197 | 6.67 min | 26% | 34.9% | 8.7e+02 |
          275 | 755-550
        ullage | 73831.00 ± 13938.00 % of slo name 619 | [green]yes[/green] | 196 | 6.68 min | 26% | 35.0% | 8.7e+02 |
          276 | 756-547

        [bold]rule 433 on traffic 693[/bold]
          need      ▂▂ 8
          requested ▄ 8
          ready     ▄ 8
          waiting    █ 5

        [bold]SLO violations by cause[/bold]
          ullage: none
          ullage: none

        [bold]Bursts that no reactive rule absorbs[/bold]
          none in the hours searched
          3 more warm replicas would absorb them.

        # When it is worse than planned
        case | worst SLO | met | replica-h | lag | max queue
        ullage | 73932.00 % of slo name 620 | [green]yes[/green] | 198 | 6.7 min | 277
        ullage | 74033.00 % of slo name 621 | [green]yes[/green] | 199 | 6.72 min | 278

        [dim]Note: notes 625[/dim]
        [dim]Note: notes 626[/dim]
        """,
    )


def test_rules_in_the_shadow() -> None:
    check_answer(
        MadeUp()(ShadowAnswer),
        """
        live: 506 h; name 427: 195 h
        [bold]pool 619: rules on production's traffic, 1970-01-01 00:04 to 1970-01-01 00:01 UTC[/bold]
        [dim]822 requests, from source 216[/dim]

        rule | replica-hours | replicas | violated | SLOs | worst | why
        name 428 | 506.0 | 753 to 547 | 319 of 823 | met | slo name 617 | causes 654 655, causes 656 657
        name 427 | 194.9 | 754 to 548 | 320 of 824 | met | slo name 618 | causes 658 659, causes 660 661
        name 429 | 195.9 | 755 to 549 | 321 of 825 | met | slo name 619 | causes 662 663, causes 664 665

        # Where they differ, most violations first; 778 more
        from | until | live | rule | need | why
        1970-01-01 00:03 | 00:02 | 117.2 | 448.4 | 144.4 | why 693
        1970-01-01 00:03 | 00:02 | 118.2 | 449.4 | 145.4 | why 694

        [dim]notes 625[/dim]
        [dim]notes 626[/dim]
        """,
    )
    check_answer(
        MadeUp(is_bare=True, stretches=(), causes={}, notes=())(ShadowAnswer),
        """
        live: 506 h; name 427: 195 h
        [bold]pool 619: rules on production's traffic, 1970-01-01 00:04 to 1970-01-01 00:01 UTC[/bold]
        [dim]822 requests, from source 216[/dim]

        rule | replica-hours | replicas | violated | SLOs | worst | why
        name 428 | 506.0 | 753 to 547 | 319 of 823 | met | slo name 617 | -
        name 427 | 194.9 | 754 to 548 | 320 of 824 | met | slo name 618 | -
        name 429 | 195.9 | 755 to 549 | 321 of 825 | met | slo name 619 | -
        """,
    )


def test_what_runs_beside_a_plan() -> None:
    check_answer(
        MadeUp(plan=PLAN)(BrownfieldPlan),
        """
        pool 619 needs: 150 replicas; pool 620 needs: 151 replicas
        # Running and needed
        pool | runs as | have | need | change | devices
        pool 619 | kind 446 name 427 | 576 replicas | 150 replicas | -426 replicas | -183030
        pool 620 | kind 447 name 428 | 577 replicas | 151 replicas | -426 replicas | -183881
        Devices free today: 745.
        kind 448 name 429 is running but in no plan; it keeps its devices.
        kind 449 name 430 is running but in no plan; it keeps its devices.

        # Settings that differ from the plan
        pool | setting | have | need
        pool 619 | name 431 | have 165 | need 681
        pool 619 | name 432 | have 166 | need 682
        pool 620 | name 433 | have 167 | need 683
        pool 620 | name 434 | have 168 | need 684

        # Limits of the plan
        pool | limit | have | need
        pool 619 | name 435 | have 169 | need 685
        pool 619 | name 436 | have 170 | need 686
        pool 620 | name 437 | have 171 | need 687
        pool 620 | name 438 | have 172 | need 688

        [bold]Risks[/bold]
        - stops: sentence 666
        - stops: sentence 667
        - stops: pool 619: sentence 668
        - stops: pool 619: sentence 669
        - stops: pool 620: sentence 670
        - stops: pool 620: sentence 671

        [bold]Steps, in order[/bold]
        1. steps 631
        2. steps 632
        [dim]Not read: unread 203[/dim]
        [dim]Not read: unread 204[/dim]
        """,
    )
    check_answer(
        MadeUp(is_bare=True, plan=PLAN, unplanned=(), settings=(), risks=(), steps=(), unread=(), have="")(
            BrownfieldPlan
        ),
        """
        pool 619 needs: 150 replicas; pool 620 needs: 151 replicas
        # Running and needed
        pool | runs as | have | need | change | devices
        pool 619 | nothing | 0 replicas | 150 replicas | +150 replicas | +64500
        pool 620 | nothing | 0 replicas | 151 replicas | +151 replicas | +65081
        Devices free today: not known: no node was read.

        # Limits of the plan
        pool | limit | have | need
        pool 619 | name 427 | not stated | need 681
        pool 619 | name 428 | not stated | need 682
        pool 620 | name 429 | not stated | need 683
        pool 620 | name 430 | not stated | need 684

        [bold]Risks[/bold]
        - none found

        [bold]Steps, in order[/bold]
        1. Nothing to change.
        """,
    )


def test_options() -> None:
    refused = MadeUp()(Rejection)
    check_page(
        options_page(MadeUp()(Options)),
        """
        [bold]pool 619: name 427 is best of 4 candidates: 736,290 USD per 1,000 successes, 164 devices, the current
          plan. 2 were fully simulated, 2 refused.[/bold]
        notes 625
        notes 626

        # Ranking, devices alone
         | candidate | per 1,000 successes | 95 % | replicas | devices | rounds | lead on the next
        1 | name 427 (current) | 736,290 USD | 620,140 to 898,900 | 448 + 339 | 164 | 313 | clear
        2 | name 428 (current) | 737,300 USD | 621,150 to 899,910 | 449 + 340 | 165 | 314 | clear

        # Pareto-optimal: no other candidate is better on all of these
        candidate | per 1,000 successes | devices | latency headroom | evidence
        name 427 | 736,290 USD | 164 | 81% | stated
        name 428 | 737,300 USD | 165 | 81% | stated

        [bold]Refused[/bold]
        - name 429, by stage 206: reason 497. To fix: change 613.
        - name 430, by stage 207: reason 498. To fix: change 614.

        [bold]Caches and routers, simulated[/bold]
        - name 431: 791 replicas, 166 devices -> 793 replicas, 167 devices, -0% (stated); it may not pay off at this
          load. With hits as stated it would be 382. Which prompts share prefixes is assumed from sessions, reuse
          distances and classes. measure first 809
        - name 432: 795 replicas, 168 devices -> 797 replicas, 169 devices, -0% (stated); it may not pay off at this
          load. With hits as stated it would be 383. Which prompts share prefixes is assumed from sessions, reuse
          distances and classes. measure first 810

        [bold]Disaggregated prefill and decode[/bold]
        - name 433: 555 replicas, 392 devices -> 385 prefill + 1389 decode replicas, 170 devices, -0%; it may not pay
          off at this load and these SLOs (colocated replicas need 845 devices before reserves, and violate an SLO on
          the 454 that it takes). Evidence: stated. Measure first: the transfer rate between replicas (3.72e-07 GB/s is
          stated), and TTFT of one prefill and one decode replica under load (docs/howto/split-prefill-and-decode.md
          says how far off it is).

        # Order by
        from | planning rate | replicas | devices | more | order by | waits for
        2028-01-02 | 624 req/s | 576 | 447 | +156 | 2027-07-30, 207 d ago | waits for 828
        2028-01-03 | 625 req/s | 577 | 448 | +157 | 2027-07-31, 208 d ago | waits for 829
        Too late for January 2028: its 156 devices had to be ordered 207 days ago.

        [bold]pool 620: name 434 is best of 4 candidates: 744,370 USD per 1,000 successes, 171 devices, the current
          plan. 2 were fully simulated, 2 refused.[/bold]
        notes 627
        notes 628

        # Ranking, devices alone
         | candidate | per 1,000 successes | 95 % | replicas | devices | rounds | lead on the next
        1 | name 434 (current) | 744,370 USD | 625,190 to 903,950 | 454 + 345 | 171 | 315 | clear
        2 | name 435 (current) | 745,380 USD | 626,200 to 904,960 | 455 + 346 | 172 | 316 | clear

        # Pareto-optimal: no other candidate is better on all of these
        candidate | per 1,000 successes | devices | latency headroom | evidence
        name 434 | 744,370 USD | 171 | 81% | stated
        name 435 | 745,380 USD | 172 | 81% | stated

        [bold]Refused[/bold]
        - name 436, by stage 208: reason 499. To fix: change 615.
        - name 437, by stage 209: reason 500. To fix: change 616.

        [bold]Caches and routers, simulated[/bold]
        - name 438: 803 replicas, 173 devices -> 805 replicas, 174 devices, -0% (stated); it may not pay off at this
          load. With hits as stated it would be 384. Which prompts share prefixes is assumed from sessions, reuse
          distances and classes. measure first 811
        - name 439: 807 replicas, 175 devices -> 809 replicas, 176 devices, -0% (stated); it may not pay off at this
          load. With hits as stated it would be 385. Which prompts share prefixes is assumed from sessions, reuse
          distances and classes. measure first 812

        [bold]Disaggregated prefill and decode[/bold]
        - name 440: 559 replicas, 393 devices -> 389 prefill + 1393 decode replicas, 177 devices, -0%; it may not pay
          off at this load and these SLOs (colocated replicas need 846 devices before reserves, and violate an SLO on
          the 455 that it takes). Evidence: stated. Measure first: the transfer rate between replicas (3.73e-07 GB/s is
          stated), and TTFT of one prefill and one decode replica under load (docs/howto/split-prefill-and-decode.md
          says how far off it is).

        # Order by
        from | planning rate | replicas | devices | more | order by | waits for
        2028-01-04 | 626 req/s | 578 | 449 | +158 | 2027-08-01, 209 d ago | waits for 830
        2028-01-05 | 627 req/s | 579 | 450 | +159 | 2027-08-02, 210 d ago | waits for 831
        Too late for January 2028: its 158 devices had to be ordered 209 days ago.

        # Mix of devices, simulated
        candidate | replicas | devices | serves
        name 441 | 580 + 351 | 178 | 58378% of shares 577; 58580% of shares 579
        name 442 | 581 + 352 | 179 | 58782% of shares 581; 58984% of shares 583
        267.6 USD/h, every SLO met; no mix of kinds in one pool is cheaper.
        """,
    )
    bare = MadeUp(is_bare=True, mix=refused, ranking=(), caches=(), refused=())
    check_page(
        options_page(bare(Options)),
        """
        [bold]pool 619: none of 0 candidates can serve it alone.[/bold]
        notes 625
        notes 626

        [bold]pool 620: none of 0 candidates can serve it alone.[/bold]
        notes 627
        notes 628

        Mix refused: reason 497.
          change 613: effect 631
          change 614: effect 632
        """,
    )
    not_asked = MadeUp(pools=(), mix=NotGiven(stage="mix", instead="No mix was tried.", fix="Give quotas."))
    check_page(
        options_page(not_asked(Options)),
        """
        No mix was tried. Give quotas.
        """,
    )


def test_the_risk_of_a_fleet() -> None:
    made = MadeUp(plan=PLAN, fleets={0.05: 7, 0.01: None}, name="demand")
    studied = made(PoolStudy, shortfall=_target(0.05), regrets=_regrets(made))
    check_answer(
        made(RiskAnswer, study=made(Study, pools=(studied, studied))),
        """
        pool 619.serving: 576 replicas; pool 619.shortfall: 87.3 %; pool 619.hours short: 884 h/month; pool 619.at the
          chosen risk: 7 replicas; pool 619.serving: 576 replicas; pool 619.shortfall: 87.3 %; pool 619.hours short: 884
          h/month; pool 619.at the chosen risk: 7 replicas
        [bold]Risk of pool 619: chat service, 576 serving replicas[/bold]
        Chance that the busiest hour needs more replicas than are up: 87 % (± 56 %); 884 h a month short of capacity.
        Target: 5 % (policy.shortfall); 7 replicas would do.

        # Range
        of | p10 | p50 | p90
        replicas that the busiest hour needs | 620 | 736 | 899
        USD a month of that need | 621 | 737 | 900
        USD per success of the planned fleet | 622 | 738 | 901
        hours with enough capacity | 623 | 739 | 902

        # Fleets, one machine apart
        serving replicas | shortfall | hours a month |
        577 | 87 % | 885 |
        578 | 88 % | 886 |
        7 | 5 % |  | smallest that meets it
        none | 1 % |  | smallest that meets it

        # Smallest fleet for 5 %, by cause, each added to those above it
        cause | replicas
        lines 891 | + 892
        lines 893 | + 894
        total | 1786

        Drivers of the variance in cost: demand explains 61 % (20 to 70), 70 with others; demand explains 61 % (20 to
          70), 70 with others.
        Drivers of the variance in replicas: demand explains 61 % (20 to 71), 70 with others; demand explains 61 % (20
          to 71), 70 with others.
        Drivers of the variance in shortfall: demand explains 61 % (20 to 71), 70 with others; demand explains 62 % (20
          to 71), 70 with others.

        # What a measurement is expected to change, at the same risk
        measurement | price | replicas now | expected | p10 to p90 | saves a month | risk
        what 455 | 422 USD | 568 | 359.6 | 561 to 359 | 885 USD | 39 % that no fleet meets the target
        what 456 | 423 USD | 569 | 360.6 | 562 to 360 | 886 USD | 39 % that no fleet meets the target

        Break-even, one input at a time, in the median busiest hour: demand x424, demand x425.

        # What the last machine is worth
        serving replicas | USD a month | hours short | worth it if a bad hour costs
        4 | 10 | 9 | 690 USD or more
        5 | 20 | 5 | 691 USD or more
        6 | 40 | 0 | 692 USD or more
        At 499 USD a bad hour, 6 replicas cost least: 40 USD a month including the expected bad hours.

        [bold]Risk of pool 619: chat service, 576 serving replicas[/bold]
        Chance that the busiest hour needs more replicas than are up: 87 % (± 56 %); 884 h a month short of capacity.
        Target: 5 % (policy.shortfall); 7 replicas would do.

        # Range
        of | p10 | p50 | p90
        replicas that the busiest hour needs | 620 | 736 | 899
        USD a month of that need | 621 | 737 | 900
        USD per success of the planned fleet | 622 | 738 | 901
        hours with enough capacity | 623 | 739 | 902

        # Fleets, one machine apart
        serving replicas | shortfall | hours a month |
        577 | 87 % | 885 |
        578 | 88 % | 886 |
        7 | 5 % |  | smallest that meets it
        none | 1 % |  | smallest that meets it

        # Smallest fleet for 5 %, by cause, each added to those above it
        cause | replicas
        lines 891 | + 892
        lines 893 | + 894
        total | 1786

        Drivers of the variance in cost: demand explains 61 % (20 to 70), 70 with others; demand explains 61 % (20 to
          70), 70 with others.
        Drivers of the variance in replicas: demand explains 61 % (20 to 71), 70 with others; demand explains 61 % (20
          to 71), 70 with others.
        Drivers of the variance in shortfall: demand explains 61 % (20 to 71), 70 with others; demand explains 62 % (20
          to 71), 70 with others.

        # What a measurement is expected to change, at the same risk
        measurement | price | replicas now | expected | p10 to p90 | saves a month | risk
        what 455 | 422 USD | 568 | 359.6 | 561 to 359 | 885 USD | 39 % that no fleet meets the target
        what 456 | 423 USD | 569 | 360.6 | 562 to 360 | 886 USD | 39 % that no fleet meets the target

        Break-even, one input at a time, in the median busiest hour: demand x424, demand x425.

        # What the last machine is worth
        serving replicas | USD a month | hours short | worth it if a bad hour costs
        4 | 10 | 9 | 690 USD or more
        5 | 20 | 5 | 691 USD or more
        6 | 40 | 0 | 692 USD or more
        At 499 USD a bad hour, 6 replicas cost least: 40 USD a month including the expected bad hours.

        [dim]Note: pool 619: The fleet is sized for a shortfall of 5 % with what pools are usually like; by the capacity
          surface of this one its 576 serving replicas fall short in the busiest hour with 87 %, and 7 would meet
          it.[/dim]
        [dim]Note: pool 619: Read off a capacity surface of 365 trials; at 2 drawn points it lies within 83 % of a
          trial.[/dim]
        [dim]Note: pool 619: In 40 % of the draws steps are so slow that no number of replicas meets the SLOs: only a
          measurement or another device helps there.[/dim]
        [dim]Note: pool 619: The fleet is sized for a shortfall of 5 % with what pools are usually like; by the capacity
          surface of this one its 576 serving replicas fall short in the busiest hour with 87 %, and 7 would meet
          it.[/dim]
        [dim]Note: pool 619: Read off a capacity surface of 365 trials; at 2 drawn points it lies within 83 % of a
          trial.[/dim]
        [dim]Note: pool 619: In 40 % of the draws steps are so slow that no number of replicas meets the SLOs: only a
          measurement or another device helps there.[/dim]
        """,
    )
    bare = MadeUp(
        is_bare=True, plan=PLAN, fleets={0.01: None}, measurements=(), regrets=(), lines={}, cost_drivers=(),
        shortfall_drivers=(), first_fraction=-0.1, total_fraction=1.2, notes=(), axes=(),
    )  # fmt: skip
    alone = bare(PoolStudy, shortfall=_target(0.01), replicas=4)
    check_answer(
        bare(RiskAnswer, study=bare(Study, pools=(alone,))),
        """
        serving: 4 replicas; shortfall: 87.3 %; hours short: 884 h/month; at the chosen risk: none
        [bold]Risk: chat service, 4 serving replicas[/bold]
        Chance that the busiest hour needs more replicas than are up: 87 % (± 56 %); 884 h a month short of capacity.
        Target: 1 % (policy.shortfall); no number of replicas meets it.

        # Range
        of | p10 | p50 | p90
        replicas that the busiest hour needs | 620 | 736 | 899
        hours with enough capacity | 621 | 737 | 900

        # Fleets, one machine apart
        serving replicas | shortfall | hours a month |
        576 | 87 % | 885 |
        577 | 88 % | 886 |
        none | 1 % |  | smallest that meets it

        Drivers of the variance in replicas: name 427 explains 0 % (20 to 70), 100 with others; name 428 explains 0 %
          (20 to 70), 100 with others.

        One replica carries the load many times over: nothing comes near its limit.

        [dim]Note: The fleet is sized for a shortfall of 1 % with what pools are usually like; by the capacity surface
          of this one its 4 serving replicas fall short in the busiest hour with 87 %, and no number of replicas meets
          it.[/dim]
        [dim]Note: Read off a capacity surface of 365 trials; at 2 drawn points it lies within 83 % of a trial.[/dim]
        [dim]Note: In 39 % of the draws steps are so slow that no number of replicas meets the SLOs: only a measurement
          or another device helps there.[/dim]
        """,
    )


def _target(fraction: float) -> Any:
    return stated("policy.shortfall", fraction, "fraction")


def _regrets(made: MadeUp) -> tuple[Regret, ...]:
    """Three dollars a bad hour: 10 + 3 x 9 is more than 20 + 3 x 5, and that less than 40."""
    rows = ((10.0, 9.0), (20.0, 5.0), (40.0, 0.0))
    return tuple(
        made(Regret, replicas=4 + place, usd=usd, hours_per_month=hours) for place, (usd, hours) in enumerate(rows)
    )


def test_what_was_emitted() -> None:
    check_answer(
        MadeUp(text="one\ntwo\n")(Emitted),
        """
        files: 2; not as planned: 2
        # Files from the plan for service 887 of 2029-03-13
        file | lines
        name 427 | 2
        name 428 | 2

        # Differs from the plan in compared 338
        object | value | planned | there
        object 529 | place 754 | planned 853 | found 475
        object 530 | place 755 | planned 854 | found 476
        """,
    )
    check_answer(
        MadeUp(is_bare=True, drift=(), compared="")(Emitted),
        """
        files: 2
        # Files from the plan for service 887 of 2029-03-13
        file | lines
        name 427 | 0
        name 428 | 0
        """,
    )


def test_entries_of_a_ledger() -> None:
    figures = {"a.rate": {"value": 0.95, "unit": "fraction", "evidence": "stated"}}
    check_page(
        [*entry_page("plan 12ab", {"document": {"figures": figures}}), *entry_page("b", {"seed": 3, "rows": [1, 2]})],
        """
        [bold]plan 12ab[/bold]
        figure | value | evidence
        a.rate | 95 % | stated
        [bold]b[/bold]
        what | value
        seed | 3
        rows | 2 entries; see --json
        """,
    )
    check_page(
        damage_table([("0123456789abcdef0123456789abcdef", "was changed")]),
        """
        # Damaged
        entry | problem
        0123456789ab | was changed
        """,
    )
    assert damage_table([]) == []


@pytest.mark.parametrize("action", ["list", "verify", "export", "import", "prune", "diff"])
def test_a_ledger_answers_with_its_counts(action: str) -> None:
    answer = MadeUp(content=None, removed_by="")(LedgerAnswer, action=action)
    assert [each.value for each in answer.headlines()] == [2, 2]
    assert answer.page()


def test_drills() -> None:
    made = MadeUp()
    check_page(
        drill_page(_two_pools(), made(Drills)),
        """
        # Drills on the plan for chat service: 0 of 2 fail
        pool | drill | figure | before | during | wanted | verdict
        pool 619 | title 560 | figure 831 | 9.38 min | 6.92 min | wanted 605 | [green]passes[/green]
        pool 620 | title 561 | figure 832 | 9.4 min | 6.93 min | wanted 606 | [green]passes[/green]

        pool 619: title 560: played 153
          Would pass: change 613.
        pool 620: title 561: played 154
          Would pass: change 614.

        [dim]Note: notes 625[/dim]
        [dim]Note: notes 626[/dim]
        """,
    )
    bare = MadeUp(is_bare=True, change="", pool="")
    check_page(
        drill_page(PLAN, bare(Drills)),
        """
        # Drills on the plan for chat service: 0 of 0 fail
        drill | figure | before | during | wanted | verdict
        title 560 | figure 831 | - | - | wanted 605 | [dim]not played[/dim]
        title 561 | figure 832 | - | - | wanted 606 | [dim]not played[/dim]

        title 560: played 153
        title 561: played 154

        [dim]Note: notes 625[/dim]
        [dim]Note: notes 626[/dim]
        """,
    )


def test_checks() -> None:
    check_page(
        page_of_checks(_two_pools(), MadeUp(anomalies=())(Checks)),
        """
        [bold]Check of chat service: no mistakes, no warnings[/bold]

        [yellow]evidence[/yellow] one: It was measured long ago.
        [yellow]evidence[/yellow] two: It was measured long ago.

        # What was compared
        check | pool | found
        name 427 | pool 619 | compared 338
        name 428 | pool 620 | compared 339
        """,
    )


def _two_pools() -> Any:
    step = SimpleNamespace(anomalies=(SimpleNamespace(is_decisive=True, sentence="It was measured long ago."),))
    pools = tuple(SimpleNamespace(spec=SimpleNamespace(name=each), step_model=step) for each in ("one", "two"))
    return SimpleNamespace(spec=PLAN.spec, pools=pools, stages=(), assumptions=(), figures=())
