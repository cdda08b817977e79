"""Parts of a plan's page, of made-up answers: every figure, title and bar where it belongs."""

from __future__ import annotations

import pytest
from rich.text import Text

from support.made_up import MadeUp
from support.page_text import check_page
from ullage.admission.bursts import HEIGHTS, LENGTHS_S, BurstPoint
from ullage.admission.deadlines import Deadline, HopRule
from ullage.admission.limit_rows import LimitCheck
from ullage.admission.limits import AdmissionLimits
from ullage.admission.retries import BUDGET, LIMITS, LIMITS_AND_BUDGET, NO_LIMITS, Recovery, RetryLoad
from ullage.fleet.losses import LossTable
from ullage.fleet.packing import PackedShape, Packing
from ullage.fleet.reserves import Reserves
from ullage.fleet.steady import SteadyFleet
from ullage.planning.differences.difference import Difference, FigureChange
from ullage.report.plan import fleet
from ullage.report.plan.admission import _bar, admission_parts
from ullage.report.plan.difference import difference_page
from ullage.report.plan.reserves import loss_parts, reserve_parts
from ullage.service.binding import Binding
from ullage.service.headroom import Headroom
from ullage.workload.demand.routing import Routed
from ullage.workload.demand.tools import ToolLoads

WAYS = ("queue", "hot", "warm", "scale-up")


def test_admission_limits() -> None:
    made = MadeUp(class_name="chat", load="steady", slo_name="ttft_p95")
    heights = {each: 1.0 + place for place, each in enumerate(WAYS)}
    protections = (NO_LIMITS, BUDGET, LIMITS, LIMITS_AND_BUDGET)
    check_page(
        admission_parts(
            made(
                AdmissionLimits,
                deadlines={"chat": made(Deadline)},
                hops=tuple(made(HopRule, hop=each) for each in ("gateway", "queue")),
                checks=(
                    made(LimitCheck, protection=LIMITS, found_s=0.5, limit_s=1.0),
                    made(LimitCheck, protection=NO_LIMITS, found_s=float("nan"), limit_s=1.0),
                ),
                retries=tuple(made(RetryLoad, protection=each) for each in protections),
                recoveries=tuple(made(Recovery, protection=each) for each in protections),
                bursts=tuple(
                    made(BurstPoint, absorber=way, length_s=length_s, height_ratio=height)
                    for way, height in heights.items()
                    for length_s in LENGTHS_S
                ),
            )
        ),
        """
        # Admission limits
        limit | a replica | the pool | why
        name 5 | 4.04 unit 3 | 2.02 unit 3 | why 6
        name 10 | 9.09 unit 8 | 7.07 unit 8 | why 11

        # Rates by class, of the pool
        class | planned | admitted up to | tokens | if alone
        chat | 12.1 req/s | 13.1 req/s | 14.1 tokens/s | 15.2 req/s
        chat | 16.2 req/s | 17.2 req/s | 18.2 tokens/s | 19.2 req/s

        # Rates by tenant, of the pool
        tenant | sends | gets | fair share | tokens
        tenant 20 | 21.2 req/s | 22.2 req/s | 23.2 req/s | 24.2 tokens/s
        tenant 25 | 26.3 req/s | 27.3 req/s | 28.3 req/s | 29.3 tokens/s

        # Shed in this order
         | what | when | status
        30 | what 31 | when 32 | answer 33
        34 | what 35 | when 36 | answer 37
        Backpressure: slow senders down while metric 38 of a replica is at 39 or above, reject at 40 (status 41),
          Retry-After 42 s.

        # Reject a request when its remaining time is less than
        hop | chat | covers
        gateway | 43.4 s | holds 44
        queue | 45.5 s | holds 46
        deadline | 47 s | its whole deadline

        # Verified by simulation, at multiples of the planned load
        enforced by | load | succeed | refused | SLOs violated
        enforced by 50 | 51.51 | 5.2 % | 5.3 % | [red]missed 48, missed 49[/red]
        enforced by 56 | 57.57 | 5.8 % | 5.9 % | [red]missed 54, missed 55[/red]

        # At 60.6 times capacity, simulated
        SLO | limit | with limits | without | successes with | without
        chat ttft_p95 | 1 s | [green]500 ms[/green] | [green]-[/green] | 6.1 % | 6.2 %

        # Attempts per request, and share of requests that succeed
        load | no limits | retry budget | limits | both
        steady | 63.63, 6.4 % | 65.65, 6.6 % | 67.67, 6.8 % | 69.69, 7.0 %
        recovers up to | 5,163 req/s | 5,309 req/s | 5,381 req/s | 5,454 req/s
        [dim]Recovers: after a burst of twice the capacity, longer than clients wait, SLOs are met again in time.[/dim]

        # Burst budget: the highest burst absorbed, in planning rates
        length |  | queue | hot | warm | scale-up
        10 s | ▓▓▓▓▒▒▒▒▒░░░░ | 1.00 | 2.00 | 3.00 | 4.00
        30 s | ▓▓▓▓▒▒▒▒▒░░░░ | 1.00 | 2.00 | 3.00 | 4.00
        2 min | ▓▓▓▓▒▒▒▒▒░░░░ | 1.00 | 2.00 | 3.00 | 4.00
        5 min | ▓▓▓▓▒▒▒▒▒░░░░ | 1.00 | 2.00 | 3.00 | 4.00
        15 min | ▓▓▓▓▒▒▒▒▒░░░░ | 1.00 | 2.00 | 3.00 | 4.00
        [dim]Bars run from the planning rate to 8.14 times it, the highest tried: █ queue, ▓ hot, ▒ warm, ░
          scale-up.[/dim]
        Note: notes 76
        Note: notes 77
        """,
    )


def test_bars_of_bursts() -> None:
    """32 signs up to the highest tried; what several ways absorb is drawn once, for the least of them."""
    top = HEIGHTS[-1]
    assert _bar({"queue": 1.0, "hot": top}) == "▓" * 32
    assert _bar({"queue": (1 + top) / 2, "hot": top, "warm": top}) == "█" * 16 + "▓" * 16
    assert _bar({"queue": 0.5, "scale-up": 1.0}) == ""


@pytest.mark.parametrize(("replicas", "nominal"), [(4, 1), (40, 30), (80, 60)])
def test_what_evidence_adds_begins_where_the_nominal_fleet_ends(replicas: int, nominal: int) -> None:
    """A replica is a sign up to forty of them; beyond, forty signs are the whole."""
    scale = min(1.0, 40 / replicas)
    found = MadeUp(replicas=replicas, nominal_replicas=nominal)(SteadyFleet)
    rows = [each.plain for each in fleet.steady_parts(found)[1:4] if isinstance(each, Text)]
    starts = [len(f"{'':<12}{0:>5} ")] * 3
    starts[1] += round(nominal * scale)
    lengths = [round(each * scale) for each in (nominal, replicas - nominal, replicas)]
    assert [each.index("█") for each in rows] == starts
    assert [each.count("█") for each in rows] == lengths
    assert [int(each[12:17]) for each in rows] == [nominal, replicas - nominal, replicas]
    # What is said of each stands in one column.
    said = ("one replica" if nominal == 1 else "with one", "what a", f"{found.devices} devices")
    assert len({row.index(each) for row, each in zip(rows, said, strict=True)}) == 1


def test_the_fleet() -> None:
    made = MadeUp()
    chosen, other = made(PackedShape, spans_nodes=True), made(PackedShape, spans_nodes=False)
    packing = made(Packing, chosen=chosen, rows=(other, made(PackedShape, spans_nodes=True), chosen))
    check_page(
        [
            *fleet.binding_parts(made(Binding)),
            *fleet.headroom_parts(made(Headroom)),
            *fleet.packing_parts(packing),
            *fleet.tool_parts(made(ToolLoads)),
            *fleet.routing_parts(made(Routed)),
        ],
        """
        # Binding constraints
        constraint | now | limit | left | limit at | with 25% more of it
        [bold]name 2[dim] (binds)[/dim][/bold] | 4.04 unit 5 | 6.06 unit 5 | 33% | +0% traffic | +707% load
        name 8[dim] (next)[/dim] | 9.09 unit 10 | 11.1 unit 10 | 18% | +1% traffic | +1313% load
        Note: notes 15
        Note: notes 16
        [dim]Last column: how much more load 25 % more of it would allow; basis 14 step times.[/dim]
        # Headroom of 17 replicas at 18.2 req/s
        change | SLOs met up to |  | then violated
        what 21 | 2% | [cyan]███████████████████[/cyan] | breaks 23 at 2%
        what 24 | 2% | [cyan]████████████████████[/cyan] | breaks 26 at 2%
        Note: Headroom is that of the steady replicas at the planning rate, with basis 27 step times and no reserve; one
          change at a time, on the windows of the pool's size.
        # Nodes
        machine | provider | devices each | nodes | devices | used | spare | stranded
        [bold]name 28 (tensor parallelism spans nodes)[/bold] | [dim]provider 38[/dim] | 29 | 61 | 1769 | 1983 | 2105 |
          2227
        [dim]name 39[/dim] | [dim]provider 49[/dim] | [dim]40[/dim] | [dim]83[/dim] | [dim]3320[/dim] | [dim]3611[/dim]
          | [dim]3777[/dim] | [dim]3943[/dim]
        Note: notes 50
        Note: notes 51
        # Tools
        tool | load | capacity | used | waiting | KV held | recomputed
        name 53 | 54.5 tasks/s | 52.5 tasks/s by limited by 55 | 104% | 56.6 sequences | 57.6 tokens | 58.6 tokens/s
        name 60 | 61.6 tasks/s | 59.6 tasks/s by limited by 62 | 103% | 63.6 sequences | 64.6 tokens | 65.7 tokens/s
        Note: notes 66
        Note: notes 67
        # Routes
        class | pool | part | planning rate
        request class 68 | pool 69 | 0.07 | 71.7 req/s
        request class 72 | pool 73 | 0.074 | 75.8 req/s
        Note: notes 76
        Note: notes 77
        """,
    )
    bare = MadeUp(is_bare=True)
    check_page(
        [*fleet.binding_parts(bare(Binding)), *fleet.headroom_parts(bare(Headroom))],
        """
        # Binding constraints
        constraint | now | limit | left | limit at | with 25% more of it
        [bold]name 2[dim] (nearest)[/dim][/bold] | 3.03 unit 4 | 5.05 unit 4 | 40% |  |
        name 6[dim] (next)[/dim] | 7.07 unit 8 | 9.09 unit 8 | 22% |  |
        Note: notes 11
        Note: notes 12
        [dim]Last column: how much more load 25 % more of it would allow; basis 10 step times.[/dim]
        # Headroom of 13 replicas at 14.1 req/s
        change | SLOs met up to |  | then violated
        what 17 | 2% | [cyan]███████████████████[/cyan] | nothing tried
        what 18 | 2% | [cyan]████████████████████[/cyan] | nothing tried
        Note: Headroom is that of the steady replicas at the planning rate, with basis 19 step times and no reserve; one
          change at a time, on the windows of the pool's size.
        """,
    )


def test_losses() -> None:
    check_page(
        loss_parts(MadeUp()(LossTable)),
        """
        # Loss checks, simulated
        check | covered by | before | during | after | recovers in | verdict
        title 2 | covered by 3 | 404.0 ± -50.5 % | 707.0 ± -50.5 % | 1010.0 ± -50.5 % | 13.1 s | [green]holds[/green]
        title 14 | covered by 15 | 1616.0 ± -50.5 % | 1919.0 ± -50.5 % | 2222.0 ± -50.5 % | 25.2 s |
          [green]holds[/green]
        [dim]Share of requests within the worst-attained SLO, with 95 % intervals.[/dim]
        title 2: reason 26.
        title 14: reason 27.
        Note: notes 28
        Note: notes 29
        """,
    )
    check_page(
        loss_parts(MadeUp(is_bare=True, reason="", covered_by="")(LossTable)),
        """
        # Loss checks, simulated
        check | covered by | before | during | after | recovers in | verdict
        title 2 | [dim]nothing[/dim] | - | - | - | - | [red]outage[/red]
        title 3 | [dim]nothing[/dim] | - | - | - | - | [red]outage[/red]
        [dim]Share of requests within the worst-attained SLO, with 95 % intervals.[/dim]
        Note: notes 4
        Note: notes 5
        """,
    )


def test_reserves() -> None:
    check_page(
        reserve_parts(MadeUp()(Reserves)),
        """
        # Reserves
        reserve | replicas | devices | evidence | rule | protects
        name 2 | 3 | 4 | [green]measured[/green] | rule 6 | protects 7
        name 8 | 9 | 10 | [green]measured[/green] | rule 12 | protects 13
        name 14 | 15 | 16 | [green]measured[/green] | rule 18 | protects 19
        name 20 | 21 | 22 | [green]measured[/green] | rule 24 | protects 25
        name 26 | 27 | 28 | [green]measured[/green] | rule 30 | protects 31
        name 32 | 33 | 34 | [green]measured[/green] | rule 36 | protects 37
        name 38 | 39 | 40 | [green]measured[/green] | rule 42 | protects 43
        [dim]sum[/dim] | [dim]45[/dim] | [dim]1980[/dim] | [dim][/dim] | [dim]as if all of it happened at once[/dim] |
          [dim][/dim]
        [dim]overlap[/dim] | [dim]46[/dim] | [dim]2024[/dim] | [dim][/dim] | [dim]of 47 whichever is larger[/dim] |
          [dim][/dim]
        [bold]bought[/bold] | [bold]48[/bold] | [bold]2112[/bold] | [bold][/bold] | [bold]the 49, on top of 50[/bold] |
          [bold][/bold]

        # Placement of steady fleet and reserves
        region | zone | replicas | devices | quota
        region 52 | zone 53 | 54 | 55 | 51 devices
        region 57 | zone 58 | 59 | 60 | 56 devices
        Note: notes 61
        Note: notes 62
        """,
    )


def test_a_difference() -> None:
    made = MadeUp()
    moved = tuple(made(FigureChange, name=name) for name in ("fleet.replicas", "curve.other"))
    found = made(Difference, figures=moved)
    check_page(
        difference_page(found),
        """
        [bold]service 2: plan of as of 3 against plan of as of 4[/bold]

        # Inputs that changed
        input | old | new | source
        name 5 | 6 unit 7 (evidence 8) | 9 unit 10 (evidence 11) | source 12
        name 13 | 14 unit 15 (evidence 16) | 17 unit 18 (evidence 19) | source 20

        # What changed the fleet and the bill
        cause | replicas | USD a month | because of
        pool 21: name 23 | +24.2 | +25.2 | because 26, because 27
        pool 22: name 28 | +29.3 | +30.3 | because 31, because 32
        total | +53.5 | +55.5 |

        # Figures that changed
        figure | old | new | change | because of
        fleet.replicas | 33 unit 34 (evidence 35) | 36 unit 37 (evidence 38) | +9.09 % | because 39, because 40
        [dim]and 1 more: --all[/dim]
        Note: also 41.
        Note: also 42.
        """,
    )
    check_page(
        difference_page(found, every=True),
        """
        [bold]service 2: plan of as of 3 against plan of as of 4[/bold]

        # Inputs that changed
        input | old | new | source
        name 5 | 6 unit 7 (evidence 8) | 9 unit 10 (evidence 11) | source 12
        name 13 | 14 unit 15 (evidence 16) | 17 unit 18 (evidence 19) | source 20

        # What changed the fleet and the bill
        cause | replicas | USD a month | because of
        pool 21: name 23 | +24.2 | +25.2 | because 26, because 27
        pool 22: name 28 | +29.3 | +30.3 | because 31, because 32
        total | +53.5 | +55.5 |

        # Figures that changed
        figure | old | new | change | because of
        fleet.replicas | 33 unit 34 (evidence 35) | 36 unit 37 (evidence 38) | +9.09 % | because 39, because 40
        curve.other | 43 unit 44 (evidence 45) | 46 unit 47 (evidence 48) | +6.98 % | because 49, because 50
        Note: also 41.
        Note: also 42.
        """,
    )
    check_page(
        difference_page(made(Difference, inputs=(), figures=(), causes=(), also=())),
        """
        [bold]service 51: plan of as of 52 against plan of as of 53[/bold]
        Nothing changed.
        """,
    )
