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
        [bold]service 12: plan plan 13 of planned on 14 against start 15 to end 16: PAST TOLERANCES[/bold]
        - past 2
        - past 3

        # Scorecard
         | planned | observed | change |
        what 19 | 17.2 unit 20 | 18.2 unit 20 (21.2 unit 20 to 22.2 unit 20) | +5.88 % | note 23
        what 26 | 24.2 unit 27 | 25.2 unit 27 (28.3 unit 27 to 29.3 unit 27) | +4.17 % | note 30

        # Error by cause
        cause | replicas, in order | by Shapley | USD a month | USD per success
        traffic | +32.32 | +33.33 | +34.34 | +35.35
        traffic | +36.36 | +37.37 | +38.38 | +39.39
        total | -1.01 | -1.01 | -1.01 | -1.01
        Planned 5.0 replicas; the observed inputs need 4.0; 31.3 ran, +27.3 relative to need (scaling).
        [dim]Evaluated: the highest load of one replica of this configuration, simulated, scales the planned
          fleet.[/dim]

        [dim]Left out: left out 40.[/dim]
        [dim]Left out: left out 41.[/dim]
        # Assumptions
         | planned | observed | interval | verdict |
        name 45 | 46.5 unit 44 | 47.5 unit 44 | 42.4 unit 44 to 43.4 unit 44 | [green]holds[/green] | why 48
        name 52 | 53.5 unit 51 | 54.5 unit 51 | 49.5 unit 51 to 50.5 unit 51 | [green]holds[/green] | why 55

        # Step times fitted to production
        req/s per replica | hours | requests | fitted | checked
        58.6 | 59.6 | 61 | fitted 61, fitted 62 | 57 of 56 percentiles in their buckets
        65.7 | 66.7 | 68 | fitted 68, fitted 69 | 64 of 63 percentiles in their buckets
        Decode steps are 70.7 times the plan's, prefill 71.7 times; at these loads they are known to a factor of 72.7.
          --apply writes the calibration that a plan reads as evidence.calibrations.
        Note that disagreements 73.
        Note that disagreements 74.

        # SLOs
        class | SLO | limit | observed range | over the limit |
        class name 79 | slo 80 | 1.36 min | 1.26 min and 1.28 min | 7.70% to 7.80% | [green]met[/green]
        class name 86 | slo 87 | 1.48 min | 1.38 min and 1.4 min | 8.40% to 8.50% | [green]met[/green]
        Of 91.91 hours 92.9 certainly violated an SLO, 93.9 are undecided; 94.9 were above the planning rate.
        Preemptions per replica: 96/s predicted at the planning rate, 89.9/s observed; out-of-memory kills: 90.

        # Forecast
        class | week | WAPE | bias | pinball | CRPS | in the 80 % band
        class name 96 | week 97 | 9.8% | +9.9% | 101 | 102 | 10% (10% to 10%)
        class name 105 | week 106 | 10.7% | +10.8% | 110 | 111 | 11% (11% to 11%)
        Risk of a shortfall: stated 11.60%, it happened; over 117 reconciliations so far the Brier score is 119, and the
          record supports 11.90%.
        Forecast error moves the fleet by one replica after 1.92 min; the plan is reconciled every 1.94 min, which is
          too rarely.
        2 assumptions past their maximum age: name 120 (121 d), name 122 (123 d).

        # Backtest: 124 plans of 2.1 min each, from what was known then
        percentile | periods short | hours short | replicas | idle | USD
        127 | 128 of 129 | 130 of 131 | 133 | 13% | 135
        136 | 136 of 137 | 138 of 139 | 141 | 14% | 143

        # Proposed changes of the plan file
        key | old | new | evidence
        key 143 | old 144 | new 145 | evidence 146
        key 147 | old 148 | new 149 | evidence 150
        Not a key of the plan file: elsewhere 10.
        Not a key of the plan file: elsewhere 11.

        # What the data cannot decide
        kind | quantity | what
        counter reset | quantity 151 | what 152
        counter reset | quantity 153 | what 154
        """,
    )


def test_a_reconciliation_that_knows_little() -> None:
    check_answer(
        MadeUp(is_bare=True, past=(), stale=(), updates=(), elsewhere=(), notes=())(ReconcileAnswer),
        """
        verdict: within tolerances; drifted: none
        [bold]service 2: plan plan 3 of planned on 4 against start 5 to end 6: within tolerances[/bold]

        # Scorecard
         | planned | observed | change |
        what 7 | - | not observed |  | note 9
        what 10 | - | not observed |  | note 12

        [dim]Left out: left out 13.[/dim]
        [dim]Left out: left out 14.[/dim]
        # Assumptions
         | planned | observed | interval | verdict |
        name 15 | 16.2 unit 17 | - |  | [dim]unknown[/dim] | why 18
        name 19 | 20.2 unit 21 | - |  | [dim]unknown[/dim] | why 22

        # SLOs
        class | SLO | limit | observed range | over the limit |
        class name 23 | slo 24 | 25.2 s | not observed |  | [yellow]cannot be told[/yellow]
        class name 26 | slo 27 | 28.3 s | not observed |  | [yellow]cannot be told[/yellow]
        Of 29.29 hours 30.3 certainly violated an SLO, 31.3 are undecided; 32.3 were above the planning rate.
        Preemptions per replica: 33.3/s predicted at the planning rate, not observed; out-of-memory kills: not observed.

        # Forecast
        class | week | WAPE | bias | pinball | CRPS | in the 80 % band
        class name 34 | week 35 | 3.6% | +3.7% | 38.4 | 39.4 | 4% (4% to 4%)
        class name 43 | week 44 | 4.5% | +4.6% | 47.5 | 48.5 | 5% (5% to 5%)
        Risk of a shortfall: stated 5.20%, it did not happen; over 53 reconciliations so far the Brier score is 54.5,
          and the record supports 5.50%.
        Forecast error moves the fleet by one replica after not known from so few days; the plan is reconciled every
          56.6 s.

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
        pools: 2; replicas: 2 replicas; devices: 3 devices; a month: 4.04 USD; dropped: 11 replicas
        [bold]It does not fit: 11 replicas of 2 pools are dropped, first of service 9/pool 10, which loses 14.1 USD a
          month of requests in total; 2 replicas on 3 devices, 4.04 USD a month are placed.[/bold]
        16.2 requests a day. -13 sizes are estimates (7 evaluated), 15 planned in full. The result still depends on 2
          estimates, first undecided 17: --decide.

        # Dropped, lowest loss per device first
        pool | replicas | of | USD lost a month | per device
        service 9/pool 10 | 5 | 19 | 20.2 | 8.08
        service 12/pool 13 | 6 | 21 | 22.2 | 11.1

        # Regions
        region | device | devices | nodes | of which idle | quota | committed
        region 24 | device 25 | 26 | 27 | 28 | 23 | 29
        region 31 | device 32 | 33 | 34 | 35 | 30 | 36

        # Pools
        pool | model | device | replicas | between | where | size is
        service 12/pool 13 | model 46 | device 47 | 15 | 39 to 40 | 42 regions 41, 44 regions 43 | first look, as same
          as 45
        service 9/pool 10 | model 55 | device 56 | 14 | 48 to 49 | 51 regions 50, 53 regions 52 | first look, as same as
          54

        Without region 59: 115 of 60 replicas move elsewhere, 123 there stop to make room, 130 are lost at 67.7 USD a
          day.
        Without region 70: 137 of 71 replicas move elsewhere, 145 there stop to make room, 152 are lost at 78.8 USD a
          day.
        # Who moves when a region is lost
        region lost | pool | starts | in |
        region 59 | pool 79 | 57 | to region 80 |
        region 59 | pool 81 | 58 | to region 82 |
        region 59 | pool 83 | -61 | from region 84 | stops to make room
        region 59 | pool 85 | -62 | from region 86 | stops to make room
        region 59 | given up 63 | 0 | nowhere | 64 lost
        region 59 | given up 65 | 0 | nowhere | 66 lost
        region 70 | pool 87 | 68 | to region 88 |
        region 70 | pool 89 | 69 | to region 90 |
        region 70 | pool 91 | -72 | from region 92 | stops to make room
        region 70 | pool 93 | -73 | from region 94 | stops to make room
        region 70 | given up 74 | 0 | nowhere | 75 lost
        region 70 | given up 76 | 0 | nowhere | 77 lost
        [dim]Note: notes 95[/dim]
        [dim]Note: notes 96[/dim]
        """,
    )
    fits = MadeUp(is_bare=True, given_up=(), losses=(), undecided=(), given_up_replicas=0, notes=())
    check_answer(
        fits(PortfolioAnswer, portfolio=fits(Portfolio)),
        """
        pools: 2; replicas: 2 replicas; devices: 3 devices; a month: 4.04 USD; dropped: 0 replicas
        [bold]It fits: 2 pools, 2 replicas on 3 devices, 4.04 USD a month.[/bold]
        7.07 requests a day. -4 sizes are estimates (5 evaluated), 6 planned in full. No decision depends on an
          estimate.

        # Regions
        region | device | devices | nodes | of which idle | quota | committed
        region 8 | device 9 | 10 | 11 | 12 | none stated | 13
        region 14 | device 15 | 16 | 17 | 18 | none stated | 19

        # Pools
        pool | model | device | replicas | between | where | size is
        service 26/pool 27 | model 33 | device 34 | 24 |  | 29 regions 28, 31 regions 30 | decided, as same as 32
        service 22/pool 23 | model 40 | device 41 | 20 |  | 36 regions 35, 38 regions 37 | decided, as same as 39
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
        pool 2.threshold: 3.03 requests; pool 2.replica-hours: 4 h; pool 2.saving: 20 %; pool 6.threshold: 7.07
          requests; pool 6.replica-hours: 8.1 h; pool 6.saving: 11.1 %
        [bold]Scaling of pool 2: 20% fewer replica-hours than the fixed fleet of 16, meets every SLO[/bold]
        Signal      signal 17: sum(avg_over_time(metrics 18[20s])) + sum(avg_over_time(metrics 19[20s]))
        Derived     21.2 / (21.2 + 8e+04 req/s an hour x (23 s + 24 s)) x 25.2 = 0.656 for each replica
        Searched    threshold 7 -> 2.02 (3 h), floor 0.5 -> 4.04 (5 h), down window 60 -> 6.06 s (7 h)
        Replicas    27 to 16; up at once, down after 28 s, floor scheduled by hour of week
        [dim]Chosen on   hours of searched 31, searched 32, then whole days (searched days 33, searched days 34); 35
          rules tried[/dim]
        [dim]Judged on   traffic 37, traffic 38[/dim]

        rule | worst SLO | met | replica-h | lag | over | under | reversals/h | max queue | replicas
        ullage (running now) | 1414.00 ± -50.50 % of slo name 44 | [green]yes[/green] | 4 | 45.5 s | 5% | 4.7% | 48 | 49
          | 50-51
        ullage (running now) | 3939.00 ± -50.50 % of slo name 54 | [green]yes[/green] | 41 | 55.5 s | 6% | 5.7% | 59 |
          59 | 60-61
        ullage (running now) | 6464.00 ± -50.50 % of slo name 65 | [green]yes[/green] | 5 | 1.13 min | 7% | 6.9% | 71 |
          71 | 72-73
        ullage (running now) | 7676.00 ± -50.50 % of slo name 77 | [green]yes[/green] | 80 | 1.35 min | 8% | 8.2% | 84 |
          84 | 85-86

        [bold]rule 8 on traffic 9[/bold]
          need      ▂▂ 8
          requested ▄ 8
          ready     ▄ 8
          waiting    █ 5

        [bold]SLO violations by cause[/bold]
          ullage: causes 89 98.90%, causes 87 96.70%
          ullage: causes 94 98.96%, causes 92 96.88%

        [bold]Bursts that no reactive rule absorbs[/bold]
          traffic 97 00:01: 2 min, need 101.00 times what was ready, 101 requests outside their SLO
          traffic 102 00:01: 2 min, need 106.05 times what was ready, 106 requests outside their SLO
          107 more warm replicas would absorb them.

        # When it is worse than planned
        case | worst SLO | met | replica-h | lag | max queue
        ullage | 10908.00 % of slo name 109 | [green]yes[/green] | 112 | 1.89 min | 113
        ullage | 11514.00 % of slo name 115 | [green]yes[/green] | 118 | 1.99 min | 119

        [dim]Note: notes 120[/dim]
        [dim]Note: notes 121[/dim]
        [bold]Scaling of pool 6: 11% fewer replica-hours than the fixed fleet of 128, meets every SLO[/bold]
        Signal      signal 129: sum(avg_over_time(metrics 130[133s])) + sum(avg_over_time(metrics 131[133s]))
        Derived     134 / (134 + 4.87e+05 req/s an hour x (136 s + 137 s)) x 138 = 19.1 for each replica
        Searched    threshold 7 -> 2.02 (3 h), floor 0.5 -> 4.04 (5 h), down window 60 -> 6.06 s (7 h)
        Replicas    139 to 128; up at once, down after 141 s, floor scheduled by hour of week
        [dim]Chosen on   hours of searched 143, searched 144, then whole days (searched days 145, searched days 146);
          147 rules tried[/dim]
        [dim]Judged on   traffic 149, traffic 150[/dim]

        rule | worst SLO | met | replica-h | lag | over | under | reversals/h | max queue | replicas
        ullage (running now) | 12726.00 ± -50.50 % of slo name 156 | [green]yes[/green] | 8 | 2.64 min | 16% | 15.9% |
          1.6e+02 | 161 | 162-163
        ullage (running now) | 15251.00 ± -50.50 % of slo name 166 | [green]yes[/green] | 155 | 2.81 min | 17% | 16.9% |
          1.7e+02 | 171 | 172-173
        ullage (running now) | 17776.00 ± -50.50 % of slo name 177 | [green]yes[/green] | 9 | 3.01 min | 18% | 18.1% |
          1.8e+02 | 183 | 184-185
        ullage (running now) | 18988.00 ± -50.50 % of slo name 189 | [green]yes[/green] | 193 | 3.23 min | 19% | 19.4% |
          2e+02 | 196 | 197-198

        [bold]rule 8 on traffic 9[/bold]
          need      ▂▂ 8
          requested ▄ 8
          ready     ▄ 8
          waiting    █ 5

        [bold]SLO violations by cause[/bold]
          ullage: causes 201 99.51%, causes 199 98.52%
          ullage: causes 206 99.52%, causes 204 98.56%

        [bold]Bursts that no reactive rule absorbs[/bold]
          traffic 209 00:03: 4 min, need 214.12 times what was ready, 213 requests outside their SLO
          traffic 214 00:03: 4 min, need 219.17 times what was ready, 218 requests outside their SLO
          219 more warm replicas would absorb them.

        # When it is worse than planned
        case | worst SLO | met | replica-h | lag | max queue
        ullage | 22220.00 % of slo name 221 | [green]yes[/green] | 225 | 3.77 min | 225
        ullage | 22826.00 % of slo name 227 | [green]yes[/green] | 231 | 3.87 min | 231

        [dim]Note: notes 232[/dim]
        [dim]Note: notes 233[/dim]
        """,
    )
    bare = MadeUp(
        is_bare=True, name="ullage", steps=(), chart=chart, searched_margin_fraction=-0.02, bursts=(), causes={},
        searched_days=(), reserve_replicas=3,
    )  # fmt: skip
    check_answer(
        bare(ScaleAnswer, plan=PLAN, pools=(bare(ScalingComparison),)),
        """
        threshold: 2.02 requests; replica-hours: 3 h; saving: 25 %
        [bold]Scaling of pool 9: 25% fewer replica-hours than the fixed fleet of 12, meets every SLO[/bold]
        Signal      signal 13: sum(avg_over_time(metrics 14[16s])) + sum(avg_over_time(metrics 15[16s]))
        Derived     17.2 / (17.2 + 6.54e+04 req/s an hour x (19 s + 20 s)) x 21.2 = 0.467 for each replica
        Searched
        Replicas    23 to 12; up at once, down after 24 s, floor scheduled by hour of week
        Plan key    scaling: {settings 5: settings 6, settings 7: settings 8}
        [dim]Chosen on   hours of searched 27, searched 28; 29 rules tried; on the worst of them 2.0 points below its
          SLO: required only to match the fixed fleet[/dim]
        [dim]Judged on   traffic 30, traffic 31[/dim]

        rule | worst SLO | met | replica-h | lag | over | under | reversals/h | max queue | replicas
        ullage | 1010.00 ± -50.50 % of slo name 39 | [green]yes[/green] | 3 | 40.4 s | 4% | 4.2% | 43 | 44 | 45-46
        ullage | 3232.00 ± -50.50 % of slo name 49 | [green]yes[/green] | 34 | 50.5 s | 5% | 5.2% | 54 | 54 | 55-56
        ullage | 5959.00 ± -50.50 % of slo name 60 | [green]yes[/green] | 4 | 1.04 min | 6% | 6.4% | 66 | 66 | 67-68

        [bold]rule 8 on traffic 9[/bold]
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
        ullage | 6969.00 % of slo name 70 | [green]yes[/green] | 73 | 1.23 min | 74
        ullage | 7575.00 % of slo name 76 | [green]yes[/green] | 79 | 1.33 min | 80

        [dim]Note: notes 81[/dim]
        [dim]Note: notes 82[/dim]
        """,
    )


def test_rules_in_the_shadow() -> None:
    check_answer(
        MadeUp()(ShadowAnswer),
        """
        live: 8.1 h; name 9: 4 h
        [bold]pool 12: rules on production's traffic, 1970-01-01 00:00 to 1970-01-01 00:00 UTC[/bold]
        [dim]13 requests, from source 14[/dim]

        rule | replica-hours | replicas | violated | SLOs | worst | why
        name 19 | 8.1 | 20 to 21 | 22 of 23 | met | slo name 26 | causes 15 16, causes 17 18
        name 9 | 4.0 | 31 to 32 | 33 of 34 | met | slo name 35 | causes 27 28, causes 29 30
        name 40 | 7.1 | 41 to 42 | 43 of 44 | met | slo name 45 | causes 36 37, causes 38 39

        # Where they differ, most violations first; 46 more
        from | until | live | rule | need | why
        1970-01-01 00:00 | 00:00 | 49.5 | 50.5 | 51.5 | why 52
        1970-01-01 00:00 | 00:00 | 55.5 | 56.6 | 57.6 | why 58

        [dim]notes 59[/dim]
        [dim]notes 60[/dim]
        """,
    )
    check_answer(
        MadeUp(is_bare=True, stretches=(), causes={}, notes=())(ShadowAnswer),
        """
        live: 8.1 h; name 9: 4 h
        [bold]pool 12: rules on production's traffic, 1970-01-01 00:00 to 1970-01-01 00:00 UTC[/bold]
        [dim]13 requests, from source 14[/dim]

        rule | replica-hours | replicas | violated | SLOs | worst | why
        name 15 | 8.1 | 16 to 17 | 18 of 19 | met | slo name 22 | -
        name 9 | 4.0 | 23 to 24 | 25 of 26 | met | slo name 27 | -
        name 28 | 7.1 | 29 to 30 | 31 of 32 | met | slo name 33 | -
        """,
    )


def test_what_runs_beside_a_plan() -> None:
    check_answer(
        MadeUp(plan=PLAN)(BrownfieldPlan),
        """
        pool 2 needs: 3 replicas; pool 4 needs: 5 replicas
        # Running and needed
        pool | runs as | have | need | change | devices
        pool 2 | kind 6 name 7 | 8 replicas | 3 replicas | -5 replicas | -42
        pool 4 | kind 11 name 12 | 13 replicas | 5 replicas | -8 replicas | -107
        Devices free today: 16.
        kind 17 name 18 is running but in no plan; it keeps its devices.
        kind 19 name 20 is running but in no plan; it keeps its devices.

        # Settings that differ from the plan
        pool | setting | have | need
        pool 2 | name 21 | have 22 | need 23
        pool 2 | name 24 | have 25 | need 26
        pool 4 | name 27 | have 28 | need 29
        pool 4 | name 30 | have 31 | need 32

        # Limits of the plan
        pool | limit | have | need
        pool 2 | name 33 | have 34 | need 35
        pool 2 | name 36 | have 37 | need 38
        pool 4 | name 39 | have 40 | need 41
        pool 4 | name 42 | have 43 | need 44

        [bold]Risks[/bold]
        - stops: sentence 45
        - stops: sentence 46
        - stops: pool 2: sentence 47
        - stops: pool 2: sentence 48
        - stops: pool 4: sentence 49
        - stops: pool 4: sentence 50

        [bold]Steps, in order[/bold]
        1. steps 51
        2. steps 52
        [dim]Not read: unread 53[/dim]
        [dim]Not read: unread 54[/dim]
        """,
    )
    check_answer(
        MadeUp(is_bare=True, plan=PLAN, unplanned=(), settings=(), risks=(), steps=(), unread=(), have="")(
            BrownfieldPlan
        ),
        """
        pool 2 needs: 3 replicas; pool 4 needs: 5 replicas
        # Running and needed
        pool | runs as | have | need | change | devices
        pool 2 | nothing | 0 replicas | 3 replicas | +3 replicas | +18
        pool 4 | nothing | 0 replicas | 5 replicas | +5 replicas | +35
        Devices free today: not known: no node was read.

        # Limits of the plan
        pool | limit | have | need
        pool 2 | name 8 | not stated | need 9
        pool 2 | name 10 | not stated | need 11
        pool 4 | name 12 | not stated | need 13
        pool 4 | name 14 | not stated | need 15

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
        [bold]pool 2: name 3 is best of 4 candidates: 5,050 USD per 1,000 successes, 6 devices. 2 were fully simulated,
          2 refused.[/bold]
        notes 7
        notes 8

        # Ranking, devices alone
         | candidate | per 1,000 successes | 95 % | replicas | devices | runs | is
        1 | name 3 | 5,050 USD | 9,090 to 10,100 | 11 + 12 | 6 | 13 | current plan, clearly ahead of the next
        2 | name 14 | 16,160 USD | 17,170 to 18,180 | 19 + 20 | 21 | 22 | current plan, clearly ahead of the next

        # Pareto-optimal: no other candidate is better on all of these
        candidate | per 1,000 successes | devices | latency headroom | evidence
        name 3 | 5,050 USD | 6 | 2% | stated
        name 14 | 16,160 USD | 21 | 2% | stated

        [bold]Refused[/bold]
        - name 26, by stage 27: reason 28. To fix: change 25.
        - name 30, by stage 31: reason 32. To fix: change 29.

        [bold]Caches and routers, simulated[/bold]
        - name 44: 75 replicas, 40 devices -> 71 replicas, 41 devices, -2% (stated); it pays off at this load. With hits
          as stated it would be 39. Which prompts share prefixes is assumed from sessions, reuse distances and classes.
          measure first 45
        - name 57: 101 replicas, 53 devices -> 97 replicas, 54 devices, -2% (stated); it pays off at this load. With
          hits as stated it would be 52. Which prompts share prefixes is assumed from sessions, reuse distances and
          classes. measure first 58

        [bold]Disaggregated prefill and decode[/bold]
        - name 69: 129 replicas, 70 devices -> 119 prefill + 123 decode replicas, 63 devices, -1%; it pays off at this
          load and these SLOs. Evidence: stated. Measure first: the transfer rate between replicas (7.4e-08 GB/s is
          stated), and TTFT of one prefill and one decode replica under load (docs/howto/split-prefill-and-decode.md
          says how far off it is).

        # Order by
        from | planning rate | replicas | devices | more | order by | waits for
        2027-01-17 | 78.8 req/s | 79 | 80 | +81 | 2027-01-15, 76 d ago | waits for 82
        2027-01-25 | 86.9 req/s | 87 | 88 | +89 | 2027-01-23, 84 d ago | waits for 90
        Too late for January 2027: its 81 devices had to be ordered 76 days ago.

        [bold]pool 91: name 92 is best of 4 candidates: 94,940 USD per 1,000 successes, 95 devices. 2 were fully
          simulated, 2 refused.[/bold]
        notes 96
        notes 97

        # Ranking, devices alone
         | candidate | per 1,000 successes | 95 % | replicas | devices | runs | is
        1 | name 92 | 94,940 USD | 98,980 to 99,990 | 100 + 101 | 95 | 102 | current plan, clearly ahead of the next
        2 | name 103 | 106,050 USD | 107,060 to 108,070 | 108 + 109 | 110 | 111 | current plan, clearly ahead of the
          next

        # Pareto-optimal: no other candidate is better on all of these
        candidate | per 1,000 successes | devices | latency headroom | evidence
        name 92 | 94,940 USD | 95 | 11% | stated
        name 103 | 106,050 USD | 110 | 11% | stated

        [bold]Refused[/bold]
        - name 115, by stage 116: reason 117. To fix: change 114.
        - name 119, by stage 120: reason 121. To fix: change 118.

        [bold]Caches and routers, simulated[/bold]
        - name 133: 253 replicas, 129 devices -> 249 replicas, 130 devices, -1% (stated); it pays off at this load. With
          hits as stated it would be 128. Which prompts share prefixes is assumed from sessions, reuse distances and
          classes. measure first 134
        - name 146: 279 replicas, 142 devices -> 275 replicas, 143 devices, -1% (stated); it pays off at this load. With
          hits as stated it would be 141. Which prompts share prefixes is assumed from sessions, reuse distances and
          classes. measure first 147

        [bold]Disaggregated prefill and decode[/bold]
        - name 158: 307 replicas, 159 devices -> 297 prefill + 301 decode replicas, 152 devices, -1%; it pays off at
          this load and these SLOs. Evidence: stated. Measure first: the transfer rate between replicas (1.63e-07 GB/s
          is stated), and TTFT of one prefill and one decode replica under load (docs/howto/split-prefill-and-decode.md
          says how far off it is).

        # Order by
        from | planning rate | replicas | devices | more | order by | waits for
        2027-04-16 | 169 req/s | 168 | 169 | +170 | 2027-04-14, 165 d ago | waits for 171
        2027-04-24 | 177 req/s | 176 | 177 | +178 | 2027-04-22, 173 d ago | waits for 179
        Too late for April 2027: its 170 devices had to be ordered 165 days ago.

        # Mix of devices, simulated
        candidate | replicas | devices | serves
        name 186 | 184 + 185 | 187 | 18281% of shares 180; 18483% of shares 182
        name 194 | 192 + 193 | 195 | 19089% of shares 188; 19291% of shares 190
        198 USD/h, every SLO met; one kind for each pool costs 199 USD/h.
        """,
    )
    bare = MadeUp(is_bare=True, mix=refused, ranking=(), caches=(), refused=())
    check_page(
        options_page(bare(Options)),
        """
        [bold]pool 2: none of 0 candidates can serve it alone.[/bold]
        notes 3
        notes 4

        [bold]pool 5: none of 0 candidates can serve it alone.[/bold]
        notes 6
        notes 7

        Mix refused: reason 2.
          change 3: effect 4
          change 5: effect 6
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
        pool 2.serving: 3 replicas; pool 2.shortfall: 0.4 %; pool 2.hours short: 5.05 h/month; pool 2.at the chosen
          risk: 7 replicas; pool 2.serving: 3 replicas; pool 2.shortfall: 0.4 %; pool 2.hours short: 5.05 h/month; pool
          2.at the chosen risk: 7 replicas
        [bold]Risk of pool 2: chat service, 3 serving replicas[/bold]
        Chance that the busiest hour needs more replicas than are up: 0.4 % (± 1.4 %); 5.05 h a month short of capacity.
        Target: 5 % (policy.shortfall); 7 replicas would do.

        # Range
        of | p10 | p50 | p90
        replicas that the busiest hour needs | 8.08 | 9.09 | 10.1
        USD a month of that need | 12.1 | 13.1 | 14.1
        USD per success of the planned fleet | 16.2 | 17.2 | 18.2
        hours with enough capacity | 20.2 | 21.2 | 22.2

        # Fleets, one machine apart
        serving replicas | shortfall | hours a month |
        24 | 2.5 % | 26.3 |
        27 | 2.8 % | 29.3 |
        7 | 5 % |  | smallest that meets it
        none | 1 % |  | smallest that meets it

        # Smallest fleet for 5 %, by cause, each added to those above it
        cause | replicas
        lines 30 | + 31
        lines 32 | + 33
        total | 64

        Drivers of the variance in cost: demand explains 3 % (4 to 4); demand explains 4 % (4 to 4).
        Drivers of the variance in replicas: demand explains 4 % (4 to 4); demand explains 5 % (5 to 5).
        Drivers of the variance in shortfall: demand explains 5 % (5 to 5); demand explains 5 % (6 to 6).

        # What a measurement is expected to change, at the same risk
        measurement | price | replicas now | expected | p10 to p90 | saves a month | risk
        what 58 | 59.6 USD | 60 | 61.6 | 62 to 63 | 64.6 USD | 6.5 % that no fleet meets the target
        what 66 | 67.7 USD | 68 | 69.7 | 70 to 71 | 72.7 USD | 7.3 % that no fleet meets the target

        Break-even, one input at a time, in the median busiest hour: demand x74.7, demand x75.8.

        # What the last machine is worth
        serving replicas | USD a month | hours short | worth it if a bad hour costs
        4 | 10 | 9 | 78.8 USD or more
        5 | 20 | 5 | 79.8 USD or more
        6 | 40 | 0 | 80.8 USD or more
        At 6.06 USD a bad hour, 6 replicas cost least: 40 USD a month including the expected bad hours.

        [bold]Risk of pool 2: chat service, 3 serving replicas[/bold]
        Chance that the busiest hour needs more replicas than are up: 0.4 % (± 1.4 %); 5.05 h a month short of capacity.
        Target: 5 % (policy.shortfall); 7 replicas would do.

        # Range
        of | p10 | p50 | p90
        replicas that the busiest hour needs | 8.08 | 9.09 | 10.1
        USD a month of that need | 12.1 | 13.1 | 14.1
        USD per success of the planned fleet | 16.2 | 17.2 | 18.2
        hours with enough capacity | 20.2 | 21.2 | 22.2

        # Fleets, one machine apart
        serving replicas | shortfall | hours a month |
        24 | 2.5 % | 26.3 |
        27 | 2.8 % | 29.3 |
        7 | 5 % |  | smallest that meets it
        none | 1 % |  | smallest that meets it

        # Smallest fleet for 5 %, by cause, each added to those above it
        cause | replicas
        lines 30 | + 31
        lines 32 | + 33
        total | 64

        Drivers of the variance in cost: demand explains 3 % (4 to 4); demand explains 4 % (4 to 4).
        Drivers of the variance in replicas: demand explains 4 % (4 to 4); demand explains 5 % (5 to 5).
        Drivers of the variance in shortfall: demand explains 5 % (5 to 5); demand explains 5 % (6 to 6).

        # What a measurement is expected to change, at the same risk
        measurement | price | replicas now | expected | p10 to p90 | saves a month | risk
        what 58 | 59.6 USD | 60 | 61.6 | 62 to 63 | 64.6 USD | 6.5 % that no fleet meets the target
        what 66 | 67.7 USD | 68 | 69.7 | 70 to 71 | 72.7 USD | 7.3 % that no fleet meets the target

        Break-even, one input at a time, in the median busiest hour: demand x74.7, demand x75.8.

        # What the last machine is worth
        serving replicas | USD a month | hours short | worth it if a bad hour costs
        4 | 10 | 9 | 78.8 USD or more
        5 | 20 | 5 | 79.8 USD or more
        6 | 40 | 0 | 80.8 USD or more
        At 6.06 USD a bad hour, 6 replicas cost least: 40 USD a month including the expected bad hours.

        [dim]Note: pool 2: The fleet is sized for a shortfall of 5 % with what pools are usually like; by the capacity
          surface of this one its 3 serving replicas fall short in the busiest hour with 0.4 %, and 7 would meet
          it.[/dim]
        [dim]Note: pool 2: Read off a capacity surface of 85 trials; at 2 drawn points it lies within 1 % of a
          trial.[/dim]
        [dim]Note: pool 2: In 8.6 % of the draws steps are so slow that no number of replicas meets the SLOs: only a
          measurement or another device helps there.[/dim]
        [dim]Note: pool 2: The fleet is sized for a shortfall of 5 % with what pools are usually like; by the capacity
          surface of this one its 3 serving replicas fall short in the busiest hour with 0.4 %, and 7 would meet
          it.[/dim]
        [dim]Note: pool 2: Read off a capacity surface of 85 trials; at 2 drawn points it lies within 1 % of a
          trial.[/dim]
        [dim]Note: pool 2: In 8.6 % of the draws steps are so slow that no number of replicas meets the SLOs: only a
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
        serving: 4 replicas; shortfall: 0.2 %; hours short: 3.03 h/month; at the chosen risk: none
        [bold]Risk: chat service, 4 serving replicas[/bold]
        Chance that the busiest hour needs more replicas than are up: 0.2 % (± 0.8 %); 3.03 h a month short of capacity.
        Target: 1 % (policy.shortfall); no number of replicas meets it.

        # Range
        of | p10 | p50 | p90
        replicas that the busiest hour needs | 5.05 | 6.06 | 7.07
        hours with enough capacity | 9.09 | 10.1 | 11.1

        # Fleets, one machine apart
        serving replicas | shortfall | hours a month |
        13 | 1.4 % | 15.2 |
        16 | 1.7 % | 18.2 |
        none | 1 % |  | smallest that meets it

        Drivers of the variance in replicas: name 21 explains 0 % (2 to 2), 100 with others; name 24 explains 0 % (2 to
          2), 100 with others.

        One replica carries the load many times over: nothing comes near its limit.

        [dim]Note: The fleet is sized for a shortfall of 1 % with what pools are usually like; by the capacity surface
          of this one its 4 serving replicas fall short in the busiest hour with 0.2 %, and no number of replicas meets
          it.[/dim]
        [dim]Note: Read off a capacity surface of 31 trials; at 2 drawn points it lies within 4 % of a trial.[/dim]
        [dim]Note: In 3.2 % of the draws steps are so slow that no number of replicas meets the SLOs: only a measurement
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
        # Files from the plan for service 13 of 2026-11-15
        file | lines
        name 11 | 2
        name 12 | 2

        # Differs from the plan in compared 2
        object | value | planned | there
        object 3 | place 4 | planned 5 | found 6
        object 7 | place 8 | planned 9 | found 10
        """,
    )
    check_answer(
        MadeUp(is_bare=True, drift=(), compared="")(Emitted),
        """
        files: 2
        # Files from the plan for service 6 of 2026-11-08
        file | lines
        name 2 | 0
        name 4 | 0
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
        pool 2 | title 3 | figure 4 | 5 s | 6 s | wanted 7 | [green]passes[/green]
        pool 8 | title 9 | figure 10 | 11 s | 12 s | wanted 13 | [green]passes[/green]

        pool 2: title 3: played 14
          Would pass: change 15.
        pool 8: title 9: played 16
          Would pass: change 17.

        [dim]Note: notes 18[/dim]
        [dim]Note: notes 19[/dim]
        """,
    )
    bare = MadeUp(is_bare=True, change="", pool="")
    check_page(
        drill_page(PLAN, bare(Drills)),
        """
        # Drills on the plan for chat service: 0 of 0 fail
        drill | figure | before | during | wanted | verdict
        title 2 | figure 3 | - | - | wanted 4 | [dim]not played[/dim]
        title 5 | figure 6 | - | - | wanted 7 | [dim]not played[/dim]

        title 2: played 8
        title 5: played 9

        [dim]Note: notes 10[/dim]
        [dim]Note: notes 11[/dim]
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
        name 2 | pool 3 | compared 4
        name 5 | pool 6 | compared 7
        """,
    )


def _two_pools() -> Any:
    step = SimpleNamespace(anomalies=(SimpleNamespace(is_decisive=True, sentence="It was measured long ago."),))
    pools = tuple(SimpleNamespace(spec=SimpleNamespace(name=each), step_model=step) for each in ("one", "two"))
    return SimpleNamespace(spec=PLAN.spec, pools=pools, stages=(), assumptions=(), figures=())
