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
        name 427 | 495 unit 408 | 480 unit 408 | why 693
        name 428 | 496 unit 409 | 481 unit 409 | why 694

        # Rates by class, of the pool
        class | planned | admitted up to | tokens | if alone
        chat | 213 req/s | 624 req/s | 609 tokens/s | 486 req/s
        chat | 214 req/s | 625 req/s | 610 tokens/s | 487 req/s

        # Rates by tenant, of the pool
        tenant | sends | gets | fair share | tokens
        tenant 327 | 844 req/s | 193 req/s | 626 req/s | 611 tokens/s
        tenant 328 | 845 req/s | 194 req/s | 627 req/s | 612 tokens/s

        # Shed in this order
         | what | when | status
        554 | what 455 | when 225 | answer 426
        555 | what 456 | when 226 | answer 427
        Backpressure: slow senders down while metric 168 of a replica is at 412 or above, reject at 517 (status 353),
          Retry-After 627 s.

        # Reject a request when its remaining time is less than
        hop | chat | covers
        gateway | 8.45 min | holds 170
        queue | 8.47 min | holds 171
        deadline | 12.5 min | its whole deadline

        # Verified by simulation, at multiples of the planned load
        enforced by | load | succeed | refused | SLOs violated
        enforced by 488 | 116.15 | 42.3 % | 34.4 % | [red]missed 808, missed 809[/red]
        enforced by 489 | 117.16 | 42.4 % | 34.5 % | [red]missed 810, missed 811[/red]

        # At 251 times capacity, simulated
        SLO | limit | with limits | without | successes with | without
        chat ttft_p95 | 1 s | [green]500 ms[/green] | [green]-[/green] | 42.5 % | 42.6 %

        # Attempts per request, and share of requests that succeed
        load | no limits | retry budget | limits | both
        steady | 161.60, 42.7 % | 162.61, 42.8 % | 163.62, 42.9 % | 164.63, 43.0 %
        recovers up to | 395,015 req/s | 395,597 req/s | 396,179 req/s | 396,760 req/s
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
        Note: notes 625
        Note: notes 626
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
    # The remark on each stands in one column.
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
        [bold]name 427[dim] (binds)[/dim][/bold] | 736 unit 408 | 483 unit 408 | -53% | +29% traffic | +73730% load
        name 428[dim] (next)[/dim] | 738 unit 409 | 484 unit 409 | -53% | +29% traffic | +73932% load
        Note: notes 625
        Note: notes 626
        [dim]Last column: how much more load 25 % more of it would allow; basis 284 step times.[/dim]
        # Headroom of 576 replicas at 624 req/s
        change | SLOs met up to |  | then violated
        what 455 | 38% | [cyan]████████████████████[/cyan] | breaks 406 at 25%
        what 456 | 38% | [cyan]████████████████████[/cyan] | breaks 407 at 25%
        Note: Headroom is that of the steady replicas at the planning rate, with basis 285 step times and no reserve;
          one change at a time, on the windows of the pool's size.
        # Nodes
        machine | provider | devices each | nodes | devices | used | spare | stranded
        [bold]name 429 (tensor parallelism spans nodes)[/bold] | [dim]provider 289[/dim] | 687 | 387 | 265869 | 266450 |
          276125 | 50117
        [dim]name 430[/dim] | [dim]provider 290[/dim] | [dim]688[/dim] | [dim]391[/dim] | [dim]269008[/dim] |
          [dim]269986[/dim] | [dim]279761[/dim] | [dim]51417[/dim]
        Note: notes 627
        Note: notes 628
        # Tools
        tool | load | capacity | used | waiting | KV held | recomputed
        name 431 | 432 tasks/s | 173 tasks/s by limited by 266 | 250% | 676 sequences | 788 tokens | 383 tokens/s
        name 432 | 433 tasks/s | 174 tasks/s by limited by 267 | 249% | 677 sequences | 789 tokens | 384 tokens/s
        Note: notes 629
        Note: notes 630
        # Routes
        class | pool | part | planning rate
        request class 255 | pool 619 | 0.51 | 213 req/s
        request class 256 | pool 620 | 0.511 | 214 req/s
        Note: notes 631
        Note: notes 632
        """,
    )
    bare = MadeUp(is_bare=True)
    check_page(
        [*fleet.binding_parts(bare(Binding)), *fleet.headroom_parts(bare(Headroom))],
        """
        # Binding constraints
        constraint | now | limit | left | limit at | with 25% more of it
        [bold]name 427[dim] (nearest)[/dim][/bold] | 736 unit 408 | 483 unit 408 | -53% |  |
        name 428[dim] (next)[/dim] | 737 unit 409 | 484 unit 409 | -52% |  |
        Note: notes 625
        Note: notes 626
        [dim]Last column: how much more load 25 % more of it would allow; basis 284 step times.[/dim]
        # Headroom of 576 replicas at 624 req/s
        change | SLOs met up to |  | then violated
        what 455 | 38% | [cyan]████████████████████[/cyan] | nothing tried
        what 456 | 38% | [cyan]████████████████████[/cyan] | nothing tried
        Note: Headroom is that of the steady replicas at the planning rate, with basis 285 step times and no reserve;
          one change at a time, on the windows of the pool's size.
        """,
    )


def test_losses() -> None:
    check_page(
        loss_parts(MadeUp()(LossTable)),
        """
        # Loss checks, simulated
        check | covered by | before | during | after | recovers in | verdict
        title 560 | covered by 667 | 73629.0 ± 13938.0 % | 73730.0 ± 13938.0 % | 73831.0 ± 13938.0 % | 7.22 min |
          [green]holds[/green]
        title 561 | covered by 668 | 73932.0 ± 13938.0 % | 74033.0 ± 13938.0 % | 74134.0 ± 13938.0 % | 7.24 min |
          [green]holds[/green]
        [dim]Share of requests within the worst-attained SLO, with 95 % intervals.[/dim]
        title 560: reason 497.
        title 561: reason 498.
        Note: notes 625
        Note: notes 626
        """,
    )
    check_page(
        loss_parts(MadeUp(is_bare=True, reason="", covered_by="")(LossTable)),
        """
        # Loss checks, simulated
        check | covered by | before | during | after | recovers in | verdict
        title 560 | [dim]nothing[/dim] | - | - | - | - | [red]outage[/red]
        title 561 | [dim]nothing[/dim] | - | - | - | - | [red]outage[/red]
        [dim]Share of requests within the worst-attained SLO, with 95 % intervals.[/dim]
        Note: notes 625
        Note: notes 626
        """,
    )


def test_reserves() -> None:
    check_page(
        reserve_parts(MadeUp()(Reserves)),
        """
        # Reserves
        reserve | replicas | devices | evidence | rule | protects
        name 427 | 576 | 447 | [green]measured[/green] | rule 433 | protects 204
        name 428 | 577 | 448 | [green]measured[/green] | rule 434 | protects 205
        name 429 | 578 | 449 | [green]measured[/green] | rule 435 | protects 206
        name 430 | 579 | 450 | [green]measured[/green] | rule 436 | protects 207
        name 431 | 580 | 451 | [green]measured[/green] | rule 437 | protects 208
        name 432 | 581 | 452 | [green]measured[/green] | rule 438 | protects 209
        name 433 | 582 | 453 | [green]measured[/green] | rule 439 | protects 210
        [dim]sum[/dim] | [dim]564[/dim] | [dim]242520[/dim] | [dim][/dim] | [dim]as if all of it happened at once[/dim]
          | [dim][/dim]
        [dim]overlap[/dim] | [dim]102[/dim] | [dim]43860[/dim] | [dim][/dim] | [dim]of 351 whichever is larger[/dim] |
          [dim][/dim]
        [bold]bought[/bold] | [bold]583[/bold] | [bold]250690[/bold] | [bold][/bold] | [bold]the 494, on top of
          448[/bold] | [bold][/bold]

        # Placement of steady fleet and reserves
        region | zone | replicas | devices | quota
        region 283 | zone 780 | 584 | 454 | 119 devices
        region 284 | zone 781 | 585 | 455 | 120 devices
        Note: notes 625
        Note: notes 626
        """,
    )


def test_a_difference() -> None:
    made = MadeUp()
    moved = tuple(made(FigureChange, name=name) for name in ("fleet.replicas", "curve.other"))
    found = made(Difference, figures=moved)
    check_page(
        difference_page(found),
        """
        [bold]service 887: plan of as of 863 against plan of as of 864[/bold]

        # Inputs that changed
        input | old | new | source
        name 427 | 729 unit 408 (evidence 373) | 730 unit 409 (evidence 374) | source 216
        name 428 | 731 unit 410 (evidence 375) | 732 unit 411 (evidence 376) | source 217

        # What changed the fleet and the bill
        cause | replicas | USD a month | because of
        pool 619: name 429 | +582 | +422 | because 414, because 415
        pool 620: name 430 | +583 | +423 | because 416, because 417
        total | +1.16e+03 | +845 |

        # Figures that changed
        figure | old | new | change | because of
        fleet.replicas | 733 unit 412 (evidence 377) | 734 unit 413 (evidence 378) | +0.136 % | because 418, because 419
        [dim]and 1 more: --all[/dim]
        Note: also 263.
        Note: also 264.
        """,
    )
    check_page(
        difference_page(found, every=True),
        """
        [bold]service 887: plan of as of 863 against plan of as of 864[/bold]

        # Inputs that changed
        input | old | new | source
        name 427 | 729 unit 408 (evidence 373) | 730 unit 409 (evidence 374) | source 216
        name 428 | 731 unit 410 (evidence 375) | 732 unit 411 (evidence 376) | source 217

        # What changed the fleet and the bill
        cause | replicas | USD a month | because of
        pool 619: name 429 | +582 | +422 | because 414, because 415
        pool 620: name 430 | +583 | +423 | because 416, because 417
        total | +1.16e+03 | +845 |

        # Figures that changed
        figure | old | new | change | because of
        fleet.replicas | 733 unit 412 (evidence 377) | 734 unit 413 (evidence 378) | +0.136 % | because 418, because 419
        curve.other | 735 unit 414 (evidence 379) | 736 unit 415 (evidence 380) | +0.136 % | because 420, because 421
        Note: also 263.
        Note: also 264.
        """,
    )
    check_page(
        difference_page(made(Difference, inputs=(), figures=(), causes=(), also=())),
        """
        [bold]service 888: plan of as of 865 against plan of as of 866[/bold]
        Nothing changed.
        """,
    )
