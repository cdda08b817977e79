"""Pages about one service and its traffic, of made-up answers: every figure, title and mark where it belongs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from support.made_up import MadeUp
from support.page_text import check_answer, check_page
from support.served_replicas import class_with_slos
from ullage.errors import Rejection
from ullage.evidence import Evidence
from ullage.report.service.loadtest_page import load_in_words, loadtests_page
from ullage.report.workload.forecast_page import forecast_page
from ullage.service.calibration.calibration import ParameterRange, Residual
from ullage.service.curve.curve import ServiceCurve, StablePoint, UnstablePoint
from ullage.service.curve.point import OperatingPoint
from ullage.service.loadtests.goodput import Goodput
from ullage.service.loadtests.loadtest import LoadTest, Loop, OfferedLoad
from ullage.simulate.outcome import Counts
from ullage.simulate.statistics import Interval
from ullage.verbs.answers.split_answer import SplitSimulated
from ullage.verbs.calibrate_fit import Fitted
from ullage.verbs.curve import CurveAnswer
from ullage.verbs.gate import GateAnswer
from ullage.verbs.measure import MeasureAnswer
from ullage.verbs.profile import Profiled
from ullage.verbs.simulate import RepeatedTests, Simulated
from ullage.verbs.size import SidesSized, SizeAnswer
from ullage.verbs.validate import Validation
from ullage.workload.forecast.forecast import Forecast
from ullage.workload.forecast.part_forecast import PartForecast, ServiceForecast

STEP: Any = SimpleNamespace(kind="roofline", evidence=Evidence.ESTIMATED, notes=("It was not measured.",))


def test_load_tests() -> None:
    made = MadeUp()
    check_page(
        loadtests_page([(made(LoadTest), ((made(Goodput),), ()))]),
        """
        [bold]file 405[not bold]: tool 342 tool version 517, format version 428; 2 points[/not bold][/bold]
        [dim]note closed_loop_saturation: [/dim]sentence 666
        [dim]note closed_loop_saturation: [/dim]sentence 667

        [bold]name 427[/bold]: open loop, 724.2 req/s offered, evenly spaced, at most 211 at once
          model 606; precision 571; 447 x hardware 645; tp 726, pp 474, ep 486; engine 658 engine version 237; dataset
          437; notes 625; notes 626
         |
        requests | 213 ok, 134 failed, 290 unfinished in 12.8 min; 2 kept in the file
        rate | 258 req/s achieved, 465 req/s sent
        tokens | prompt 807, output 808 on average, 43.8 % of prompts cached, counted by the server, nominal 214 / 222
        latency | mean | p50 | p90 | p95 | p99 | definition
        TTFT | 2.42 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        TTFT | 2.44 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        TTFT | 2.46 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        goodput as reported by the tool: 357 req/s, 17.1 % of those sent, verdict 248; limits ttft 11.7 min, tpot 13
          min, itl 6.87 min, ntpot 12.4 min, e2e 15.1 min; a one-token answer counts as good
        goodput recounted by the rule of name 428: 859 of 393 sent (17.2 %), 358 req/s; limits ttft 11.8 min, tpot 13
          min, itl 6.88 min, ntpot 12.4 min, e2e 15.1 min
        [dim]note closed_loop_saturation: [/dim]sentence 668
        [dim]note closed_loop_saturation: [/dim]sentence 669

        [bold]name 429[/bold]: open loop, 725.2 req/s offered, evenly spaced, at most 212 at once
          model 607; precision 572; 448 x hardware 646; tp 727, pp 475, ep 487; engine 659 engine version 238; dataset
          438; notes 627; notes 628
         |
        requests | 214 ok, 135 failed, 291 unfinished in 12.8 min; 2 kept in the file
        rate | 259 req/s achieved, 466 req/s sent
        tokens | prompt 809, output 810 on average, 43.9 % of prompts cached, counted by the server, nominal 215 / 223
        latency | mean | p50 | p90 | p95 | p99 | definition
        TTFT | 2.47 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        TTFT | 2.49 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        TTFT | 2.51 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        goodput as reported by the tool: 359 req/s, 17.3 % of those sent, verdict 249; limits ttft 11.8 min, tpot 13
          min, itl 6.9 min, ntpot 12.4 min, e2e 15.1 min; a one-token answer counts as good
        [dim]note closed_loop_saturation: [/dim]sentence 670
        [dim]note closed_loop_saturation: [/dim]sentence 671
        """,
    )
    bare = MadeUp(is_bare=True)
    check_page(
        loadtests_page([(bare(LoadTest), ((bare(Goodput),), ()))] * 2),
        """
        [bold]file 405[not bold]: tool 342, version not stated; 2 points[/not bold][/bold]
        [bold red]serious rows_left_out: [/bold red]sentence 666
        [bold red]serious rows_left_out: [/bold red]sentence 667

        [bold]name 427[/bold]: all requests at once
          notes 625; notes 626
         |
        requests | - ok, - failed in -; 2 kept in the file
        rate | - achieved
        tokens | prompt -, output - on average
        latency | mean | p50 | p90 | p95 | p99 | definition
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        goodput recounted by the rule of name 428: 859 of 393 determined (-), of the requests kept; limits not stored in
          the file
        [bold red]serious rows_left_out: [/bold red]sentence 668
        [bold red]serious rows_left_out: [/bold red]sentence 669

        [bold]name 429[/bold]: all requests at once
          notes 627; notes 628
         |
        requests | - ok, - failed in -; 2 kept in the file
        rate | - achieved
        tokens | prompt -, output - on average
        latency | mean | p50 | p90 | p95 | p99 | definition
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        [bold red]serious rows_left_out: [/bold red]sentence 670
        [bold red]serious rows_left_out: [/bold red]sentence 671

        [bold]file 405[not bold]: tool 342, version not stated; 2 points[/not bold][/bold]
        [bold red]serious rows_left_out: [/bold red]sentence 666
        [bold red]serious rows_left_out: [/bold red]sentence 667

        [bold]name 427[/bold]: all requests at once
          notes 625; notes 626
         |
        requests | - ok, - failed in -; 2 kept in the file
        rate | - achieved
        tokens | prompt -, output - on average
        latency | mean | p50 | p90 | p95 | p99 | definition
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        goodput recounted by the rule of name 428: 859 of 393 determined (-), of the requests kept; limits not stored in
          the file
        [bold red]serious rows_left_out: [/bold red]sentence 668
        [bold red]serious rows_left_out: [/bold red]sentence 669

        [bold]name 429[/bold]: all requests at once
          notes 627; notes 628
         |
        requests | - ok, - failed in -; 2 kept in the file
        rate | - achieved
        tokens | prompt -, output - on average
        latency | mean | p50 | p90 | p95 | p99 | definition
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        [bold red]serious rows_left_out: [/bold red]sentence 670
        [bold red]serious rows_left_out: [/bold red]sentence 671
        """,
    )


def test_an_offered_load_in_words() -> None:
    made, bare = MadeUp(concurrency_cap_count=5), MadeUp(is_bare=True)
    loads = [each(OfferedLoad, loop=loop) for loop in Loop for each in (made, bare)]
    loads += [
        bare(OfferedLoad, loop=Loop.OPEN, burstiness_ratio=1.0, offered_rps=2.0),
        bare(OfferedLoad, loop=Loop.CLOSED, concurrency_cap_count=1),
    ]
    check_page(
        [load_in_words(each) for each in loads],
        """
        open loop, 724.2 req/s offered, evenly spaced, at most 5 at once
        open loop, rate not stated
        closed loop, 5 clients
        closed loop, clients not stated
        arrivals of a trace, at most 5 at once
        arrivals of a trace
        all requests at once, at most 5 at once
        all requests at once
        open loop, 2 req/s offered, Poisson
        closed loop, 1 client
        """,
    )


def test_a_gate() -> None:
    check_answer(
        MadeUp()(GateAnswer),
        """
        verdict: slower; device time per request: +288.3%
        [bold]after 774 is [bold red][/bold]slower[/bold red]: device time per request changes by +288.3% (+43633.0% to
          +46966.0%, 90 % interval) against before 563; the tolerance is 39%.
        [dim]replica 393, 712.0 requests of 812 prompt and 594 output tokens at once.[/dim]

        # Steps
        time | before | after | ratio | low | high
        name 427 | 3.16 min | 12.3 min | 3.883 | 437.330 | 470.660
        name 428 | 3.18 min | 12.3 min | 3.868 | 438.340 | 471.670
        name 429 | 3.2 min | 12.3 min | 3.853 | 439.350 | 472.680

        For service 887: 319 replicas (561 to 359) in place of 701, -382, at nominal step times: +422 USD in 304.01 h.

        - These tests can detect a change of 3.7% or more.
        - They do not cover unseen 318, unseen 319, 11% of that time: a change there would go unnoticed.
        """,
    )
    check_answer(
        MadeUp(is_bare=True, unseen=())(GateAnswer),
        """
        verdict: cannot tell; device time per request: +288.3%
        [bold]after 774 is [bold yellow][/bold]cannot tell[/bold yellow]: device time per request changes by +288.3%
          (+43633.0% to +46966.0%, 90 % interval) against before 563; the tolerance is 39%.
        [dim]replica 393, 712.0 requests of 812 prompt and 594 output tokens at once.[/dim]

        # Steps
        time | before | after | ratio | low | high
        name 427 | 3.16 min | 12.3 min | 3.883 | 437.330 | 470.660
        name 428 | 3.18 min | 12.3 min | 3.868 | 438.340 | 471.670
        name 429 | 3.2 min | 12.3 min | 3.853 | 439.350 | 472.680

        - These tests can detect a change of 3.7% or more.
        """,
    )


def test_a_gate_without_prices() -> None:
    check_answer(
        MadeUp(usd=None)(GateAnswer),
        """
        verdict: slower; device time per request: +288.3%
        [bold]after 774 is [bold red][/bold]slower[/bold red]: device time per request changes by +288.3% (+43633.0% to
          +46966.0%, 90 % interval) against before 563; the tolerance is 39%.
        [dim]replica 393, 712.0 requests of 812 prompt and 594 output tokens at once.[/dim]

        # Steps
        time | before | after | ratio | low | high
        name 427 | 3.16 min | 12.3 min | 3.883 | 437.330 | 470.660
        name 428 | 3.18 min | 12.3 min | 3.868 | 438.340 | 471.670
        name 429 | 3.2 min | 12.3 min | 3.853 | 439.350 | 472.680

        For service 887: 319 replicas (561 to 359) in place of 701, -382, at nominal step times; the plan has no price
          for them.

        - These tests can detect a change of 3.7% or more.
        - They do not cover unseen 318, unseen 319, 11% of that time: a change there would go unnoticed.
        """,
    )


def test_a_measurement() -> None:
    check_answer(
        MadeUp()(MeasureAnswer),
        """
        replicas: 576 (561 to 359); tests: 2; verdict: decided
        [bold]service 887: 576 replicas[/bold] (561 to 359) on nominal step times, [bold green]decided[/bold green]:
          stopped 401.
        [dim]replica 393, driven by tool 342.[/dim]

        after test | req/s | requests | time | replicas | range | step times within
        test 497 | 624 | 822 | 14.7 min | 577 | 562 to 360 | x 279
        test 498 | 625 | 823 | 14.7 min | 578 | 563 to 361 | x 280
        test 499 | 626 | 824 | 14.7 min | 576 | 561 to 359 | x 281

        Used: 14.8 of 14.7797 min, 825 of 826 requests, 755 of 756 tokens, 422.18 of 423.19 USD.
        Results, calibration and a diff of the plan file are in folder 818; review plan.diff.
        """,
    )
    check_answer(
        MadeUp(is_bare=True, rows=(), diff="", requests=0)(MeasureAnswer),
        """
        replicas: 576 (561 to 359); tests: 0; verdict: undecided
        [bold]service 887: 576 replicas[/bold] (561 to 359) on nominal step times, [bold yellow]undecided[/bold yellow]:
          stopped 401.
        [dim]replica 393, driven by tool 342.[/dim]

        after test | req/s | requests | time | replicas | range | step times within
        test 497 |  |  |  | 576 | 561 to 359 | x 279

        Used: 14.7 of 14.7292 min, 0 of 0 requests, 755 of 756 tokens, no price, so cost not counted.
        """,
    )


def test_a_validation() -> None:
    check_answer(
        MadeUp(step=STEP)(Validation),
        """
        verdict: validated; inside their bands: 0 of 4
        [bold]The plan for service 887 is [bold green][/bold]validated[/bold green], tested on 2028-01-22: 0 of 4
          statistics lie within their 80 % bands.
        [dim]replica 393, by the roofline step model (estimated), 67.3 % of prompt tokens cached in the plan.[/dim]

        # name 427, 822 requests: validated
        statistic | predicted | low | high | measured | ratio |
        name 428 | 179 unit 408 | 788 unit 408 | 173 unit 408 | 231 unit 408 | 1.29 | [bold red]beyond twice the
          band[/bold red]
        name 429 | 180 unit 409 | 789 unit 409 | 174 unit 409 | 232 unit 409 | 1.29 | [bold red]beyond twice the
          band[/bold red]
          sentence 666
          sentence 667

        # name 430, 823 requests: validated
        statistic | predicted | low | high | measured | ratio |
        name 431 | 181 unit 410 | 790 unit 410 | 175 unit 410 | 233 unit 410 | 1.29 | [bold red]beyond twice the
          band[/bold red]
        name 432 | 182 unit 411 | 791 unit 411 | 176 unit 411 | 234 unit 411 | 1.29 | [bold red]beyond twice the
          band[/bold red]
          sentence 668
          sentence 669
        """,
    )
    check_answer(
        MadeUp(is_bare=True, step=STEP, low_value=1.0, measured_value=3.0, high_value=90.0)(Validation),
        """
        verdict: cannot tell; inside their bands: 4 of 4
        [bold]The plan for service 887 is [bold yellow][/bold]cannot tell[/bold yellow]: 4 of 4 statistics lie within
          their 80 % bands.
        [dim]replica 393, by the roofline step model (estimated), 67.3 % of prompt tokens cached in the plan.[/dim]

        # name 427: cannot tell
        statistic | predicted | low | high | measured | ratio |
        name 428 | 179 unit 408 | 1 unit 408 | 90 unit 408 | 3 unit 408 | 0.02 | [green]inside[/green]
        name 429 | 180 unit 409 | 1 unit 409 | 90 unit 409 | 3 unit 409 | 0.02 | [green]inside[/green]
          sentence 666
          sentence 667

        # name 430: cannot tell
        statistic | predicted | low | high | measured | ratio |
        name 431 | 181 unit 410 | 1 unit 410 | 90 unit 410 | 3 unit 410 | 0.02 | [green]inside[/green]
        name 432 | 182 unit 411 | 1 unit 411 | 90 unit 411 | 3 unit 411 | 0.02 | [green]inside[/green]
          sentence 668
          sentence 669
        """,
    )


def test_a_simulation() -> None:
    pool = SimpleNamespace(count=2, routing="least_requests", between_turns=None)
    counts = Counts(*range(len(Counts._fields)))
    check_answer(
        MadeUp(step=STEP, pool=pool, counts=counts, judged=None)(Simulated),
        """
        replica: replica 393; traffic: traffic 693; goodput: 476 req/s; keeping up: yes
        [bold]replica 393[/bold], 2 replicas, least requests, by the roofline step model ([yellow]estimated[/yellow])
        traffic 693: 724 req/s for 12.8 min; all had finished after 12.8 min.

        # SLOs
        class | SLO | found | verdict
        name 427 | ttft p23.5 <= 450.46 s | 2.24 min | [green]met[/green]
        name 427 | ttft p23.6 <= 451.47 s | 2.26 min | [green]met[/green]
        name 428 | ttft p23.7 <= 452.48 s | 2.27 min | [green]met[/green]
        name 428 | ttft p23.8 <= 453.49 s | 2.29 min | [green]met[/green]

        # Latencies
        class | latency | mean | p50 | p90 | p95 | p99
        name 427 | latencies 133 | 2.42 min | 3.03 min | 3.06 min |  |
        name 427 | latencies 134 | 2.44 min | 3.1 min | 3.13 min |  |
        name 428 | latencies 135 | 2.46 min | 3.16 min | 3.2 min |  |
        name 428 | latencies 136 | 2.47 min | 3.23 min | 3.27 min |  |

        # Requests
        class | sent | late | refused: queue full | refused: longer than the cache | timed out | cancelled | failed |
          unfinished | goodput | of sent
        name 427 | 28 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 477 req/s | 0 %
        name 428 | 28 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 478 req/s | 0 %

        # While requests arrived
         | value
        goodput | 476 req/s
        output tokens | 154 tokens/s
        running, all replicas | 585
        waiting | 676, at most 274
        KV in use | 33.2 %, at most 63 %
        KV tokens per replica | 472
        prompt tokens served from cache | 46.6 %
        preemptions | 355 (616 tokens recomputed)
        busy | 73.6 %

        # Physics
        law | left | right |
        name 429 | 470 unit 408 | 898 unit 408 | holds
        name 430 | 471 unit 409 | 899 unit 409 | holds
        Little's law; tokens computed = tokens of requests |  |  | hold exactly

        - It was not measured.
        - Prefix caches are simulated block by block: 77.6% of prompt tokens were found, requests held 11% of a
          replica's blocks at most, shared ones once. prefixes 575
        - 33.6% of what was found came from host memory, loaded in the step that admitted its request.
        - 763 requests of the trace have no time or no length, and were left out.
        - 6 requests are longer than the whole cache of 472 tokens.
        """,
    )


def test_load_tests_simulated_as_they_were_run() -> None:
    check_answer(
        MadeUp(step=STEP)(RepeatedTests),
        """
        replica: replica 393; load tests: 2; measured inside the band: 0 of 4
        [bold]replica 393[/bold], 1 replica, by the roofline step model ([yellow]estimated[/yellow])

        # Load tests, as they were run
        test | latency | predicted | 80 % band | measured |
        name 427 | latency 285 statistic 257 | 6.77 min | 9.98 min to 10.7 min | 7.14 min | outside
        name 427 | latency 286 statistic 258 | 6.78 min | 10 min to 10.7 min | 7.15 min | outside
        name 427 | output | 154 tokens/s |  | 895 tokens/s |
        name 427 | answered | 0.42 of sent | 0.46 to 0.27 | 0.56 of sent | outside
        name 428 | latency 287 statistic 259 | 6.8 min | 10 min to 10.7 min | 7.17 min | outside
        name 428 | latency 288 statistic 260 | 6.82 min | 10 min to 10.8 min | 7.19 min | outside
        name 428 | output | 155 tokens/s |  | 896 tokens/s |
        name 428 | answered | 0.42 of sent | 0.47 to 0.27 | 0.56 of sent | outside

        - It was not measured.
        - sentence 666
        - sentence 667
        - point 713 was left out: it reason 497.
        - point 714 was left out: it reason 498.
        - name 427 lies beyond what the step model was measured in (3.3e+129 times as many sequences, KV tokens or
          prompt tokens): its band is wider for it.
        - name 428 lies beyond what the step model was measured in (6.7e+129 times as many sequences, KV tokens or
          prompt tokens): its band is wider for it.
        """,
    )
    check_answer(
        MadeUp(is_bare=True, step=STEP, success_fraction=1.0, success_low_fraction=1.0, left_out=())(RepeatedTests),
        """
        replica: replica 393; load tests: 2
        [bold]replica 393[/bold], 1 replica, by the roofline step model ([yellow]estimated[/yellow])

        # Load tests, as they were run
        test | latency | predicted | 80 % band | measured |
        name 427 | latency 285 statistic 257 | 6.77 min | 9.98 min to 10.7 min |  |
        name 427 | latency 286 statistic 258 | 6.78 min | 10 min to 10.7 min |  |
        name 427 | output | 154 tokens/s |  |  |
        name 428 | latency 287 statistic 259 | 6.8 min | 10 min to 10.7 min |  |
        name 428 | latency 288 statistic 260 | 6.82 min | 10 min to 10.8 min |  |
        name 428 | output | 155 tokens/s |  |  |

        - It was not measured.
        - sentence 666
        - sentence 667
        - name 427 lies beyond what the step model was measured in (3.3e+129 times as many sequences, KV tokens or
          prompt tokens): its band is wider for it.
        - name 428 lies beyond what the step model was measured in (6.7e+129 times as many sequences, KV tokens or
          prompt tokens): its band is wider for it.
        """,
    )


def test_sizes() -> None:
    check_answer(
        MadeUp()(SizeAnswer),
        """
        rate: 624 req/s; size: 577 replicas
        [bold]577 replicas[not bold] of replica 393 for 624 req/s (as stated); undecided from 561 on.[/not bold][/bold]
        At conservative step times, 279 x nominal: the factor at the chosen risk for evidence that is stated. At nominal
          step times 577 replicas would do.
        Note: Step basis: basis 284. The share of requests over all such windows decides.
        Note: 561 or 576 replicas: undecided after 866 windows of 767 s, the heaviest looked at most; the larger is
          taken.
        Note: Simulated as a sub-pool of 333 replicas with its share of the load; a smaller pool smooths less, so the
          number errs on the safe side.

        #
         | value
        devices | 257919
        violated with one fewer | stability
        load per replica | 724 req/s
        goodput per device | 1.65 req/s
        KV in use | 73,730 %
        p95 time before admission | 12.3 min

        # At 724 req/s a replica
        class | latency | p50 | p95 | p99
        latencies 133 | ttft |  |  |
        latencies 133 | tpot |  |  |
        latencies 133 | itl |  |  |
        latencies 133 | e2e |  |  |
        latencies 136 | ttft |  |  |
        latencies 136 | tpot |  |  |
        latencies 136 | itl |  |  |
        latencies 136 | e2e |  |  |
        """,
    )
    check_answer(
        MadeUp(is_bare=True)(SidesSized),
        """
        rate: 624 req/s; prefill side: 577 replicas; decode side: 579 replicas; SLOs met together: no
        [bold]Together 577 prefill and 579 decode replicas violate an SLO, undecided: nearest to its limit is nearest
          739, 27% of it used. KV transfer takes 529,240 ms (p95).[/bold]

        [bold]577 replicas[not bold] of prefill replica 522 for 625 req/s (the plan's planning rate); undecided from 561
          on.[/not bold][/bold]
        At conservative step times, 279 x nominal: the factor at the chosen risk for evidence that is assumed. At
          nominal step times 577 replicas would do.
        Note: Step basis: basis 284. The share of requests over all such windows decides.
        Note: 561 or 576 replicas: undecided after 866 windows of 767 s, the heaviest looked at most; the larger is
          taken.
        Note: Simulated as a sub-pool of 333 replicas with its share of the load; a smaller pool smooths less, so the
          number errs on the safe side.

        #
         | value
        devices | 257919
        violated with one fewer | one replica is enough
        load per replica | 724 req/s
        goodput per device | 1.65 req/s
        KV in use | 73,730 %
        p95 time before admission | 12.3 min

        # At 724 req/s a replica
        class | latency | p50 | p95 | p99
        latencies 133 | ttft |  |  |
        latencies 133 | tpot |  |  |
        latencies 133 | itl |  |  |
        latencies 133 | e2e |  |  |
        latencies 136 | ttft |  |  |
        latencies 136 | tpot |  |  |
        latencies 136 | itl |  |  |
        latencies 136 | e2e |  |  |

        [bold]579 replicas[not bold] of decode replica 468 for 624 req/s (the plan's planning rate); undecided from 562
          on.[/not bold][/bold]
        At conservative step times, 280 x nominal: the factor at the chosen risk for evidence that is assumed. At
          nominal step times 579 replicas would do.
        Note: Step basis: basis 285. The share of requests over all such windows decides.
        Note: 562 or 578 replicas: undecided after 867 windows of 768 s, the heaviest looked at most; the larger is
          taken.
        Note: Simulated as a sub-pool of 334 replicas with its share of the load; a smaller pool smooths less, so the
          number errs on the safe side.

        #
         | value
        devices | 259392
        violated with one fewer | one replica is enough
        load per replica | 725 req/s
        goodput per device | 1.65 req/s
        KV in use | 74,033 %
        p95 time before admission | 12.4 min

        # At 725 req/s a replica
        class | latency | p50 | p95 | p99
        latencies 139 | ttft |  |  |
        latencies 139 | tpot |  |  |
        latencies 139 | itl |  |  |
        latencies 139 | e2e |  |  |
        latencies 142 | ttft |  |  |
        latencies 142 | tpot |  |  |
        latencies 142 | itl |  |  |
        latencies 142 | e2e |  |  |
        """,
    )


def test_prefill_and_decode_apart() -> None:
    check_answer(
        MadeUp()(SplitSimulated),
        """
        decode replica: replica 393; prefill replica: prefill replica 522; best split: name 427; disaggregation pays
          off: no
        [bold]decode: replica 393; prefill: prefill replica 522[/bold]
        traffic 693
        A prompt token's KV is 0.452 kB, sent at 0.000000338 GB/s between two replicas.

        # Arrangements of 447 devices
         | ttft p50 | ttft p95 | tpot p50 | tpot p95 | e2e p95 | good | prefill busy | decode busy | is
        name 428 | 419,150 ms | 143,420 ms | 874,660 ms | 697,910 ms | 659 s | 39.0% | 16% | 64% | requested
        name 429 | 420,160 ms | 144,430 ms | 875,670 ms | 698,920 ms | 660 s | 39.1% | 17% | 64% |
        name 427 | 421,170 ms | 145,440 ms | 876,680 ms | 699,930 ms | 661 s | 39.2% | 17% | 64% | the best split
        name 430 | 422,180 ms | 146,450 ms | 877,690 ms | 700,940 ms | 662 s | 39.3% | 17% | 64% |
        notes 625
        notes 626
        Disaggregation does not pay off here: with name 427, the best split, 39.2% of requests meet SLOs against 39.3%
          colocated (TTFT p95 -1%, TPOT p95 -0%).
        Not simulated: failures of either pool, transfers that queue for a link, and prompts recomputed where a decode
          replica runs out of cache.
        """,
    )


def test_a_calibration() -> None:
    made = MadeUp()
    factors = tuple(made(ParameterRange, name=name) for name in ("fixed", "sequences", "kv", "prefill", "request"))
    same = {"point": "a", "latency": "ttft", "statistic": "p50"}
    residuals = (made(Residual, **same), made(Residual, latency="rate"))
    check_answer(
        MadeUp(parameters=factors, residuals=residuals, held_out=(made(Residual, **same),))(Fitted),
        """
        replica: model 606 on 344124 x device 371; points: 814; left out: 2; anomalies: name 427, name 428
        model 606 on device 371, engine 658, tp=726 pp=474 ep=486 dp_attention=242: 814 points
        Disaggregated: 192 prefill replicas (tp=727 on device 372) and 694 decode replicas, 3.384e-07 GB/s between them.
          The factors hold for both sides.

        factor | value | 80 % range | known | on
        fixed | 380.77 | 437.33 to 470.66 | yes | step time of one sequence
        sequences | 381.78 | 438.34 to 471.67 | yes | added by more sequences
        kv | 382.79 | 439.35 to 472.68 | yes | added by their KV
        prefill | 383.80 | 440.36 to 473.69 | yes | added by prompt tokens
        request | 384.81 | 441.37 to 474.70 | yes | time outside the engine

        point | latency | measured | simulated | error | error without it
        a | ttft p50 | 3.85 min | 6.36 min | +65.1 % | +64.8 %
        point 713 | rate statistic 257 | 233 tokens/s | 384 tokens/s | +64.5 % | -
        point 713 was left out: it reason 497.
        point 714 was left out: it reason 498.
        [bold red]sentence 666[/bold red]
        [bold red]sentence 667[/bold red]

        # Load tests, each fitted alone
        test | day | kind | points | decode steps | prompts | weight | why
        file 405 | 2028-05-19 | tool 342, kind 446 | 815 | 820.12 x estimate | 806.99 x estimate | 72.8 % | reason 499
        file 406 | 2028-05-20 | tool 343, kind 447 | 816 | 821.13 x estimate | 808.00 x estimate | 72.9 % | reason 500
        [yellow]disagreements 316[/yellow]
        [yellow]disagreements 317[/yellow]

        At any load that this replica may run, 8 of 10 step times lie within 378.75 to 671.65 of this model's, 8 of 10
          TTFTs of a prompt alone within 155.54 to 496.92.

        The most informative next test:
          command 761
        """,
    )


def test_a_profile_of_little() -> None:
    check_answer(
        MadeUp(is_bare=True)(Profiled),
        """
        requests: 568; span: 12.8 min; anomalies: 2
        [bold]Profile of 2 files[not bold]: 822 requests[not bold][/not bold] in 12.8 min[/not bold][/bold]
        [dim]format format 356; no clock[/dim]

        [bold]Anomalies[/bold]
         |
        [bold red]![/bold red] | sentence 666
         |
        [bold red]![/bold red] | sentence 667
         |
        [dim]?[/dim] | Not known from this trace: needs 179.
         |
        [dim]?[/dim] | Not known from this trace: needs 180.
        """,
    )


def test_a_forecast() -> None:
    made = MadeUp(calendar=False, horizon_s=4 * 86400.0, step_s=86400.0)
    drawn = np.arange(1.0, 45.0).reshape(4, 11)
    forecast = made(Forecast, quantiles=drawn, naive_quantiles=drawn, block_peaks=drawn.T, block_steps=1)
    check_page(
        forecast_page(made(ServiceForecast, parts=(made(PartForecast, forecast=forecast),), percentile_fraction=0.9)),
        """
        [bold]Forecast of source 216[not bold]: 4 d ahead in steps of 1 d, from 2 days of history[/not bold][/bold]

        [bold]name 427, unit 408[/bold]
              428 ┤••│
                  ┤  │
                  ┤  │
                  ┤  │
                  ┤  │
                  ┤  │
              214 ┤  │╌╌╌╌
                  ┤  │
                  ┤  │
                  ┤  │
                  ┤  │   ━
                  ┤  │━━━
        [dim]        0 └──┴────[/dim]
        [dim]           2 d before now, and 4 d on[/dim]
        [dim]           ╌ 213: busiest step of the horizon, at 0.9[/dim]

        day | mean, 10 % | 50 % | 90 % | busiest step, 50 % | 0.9
        day 1 | 3 req/s | 7 req/s | 11 req/s | 6 req/s | 10 req/s
        day 2 | 14 req/s | 18 req/s | 22 req/s | 17 req/s | 21 req/s
        day 3 | 25 req/s | 29 req/s | 33 req/s | 28 req/s | 32 req/s
        day 4 | 36 req/s | 40 req/s | 44 req/s | 39 req/s | 43 req/s

        # To plan for: the busiest step of the horizon, not exceeded with 0.9 probability
        class | mean | busiest observed | busiest step | peak minute | tokens | active tokens | evidence
        name 427 | 23.5 req/s | 428 req/s | 213 req/s | 128 req/s | 819 tokens/s | 844 tokens | measured

        # Forecasters compared on the same past origins; the lowest pinball loss is used
        class | forecaster | pinball | error | in 80 % band |
        name 427 | name 428 | 503.9900 | 37.9% | 28% |
        name 427 | name 429 | 505.0000 | 38.0% | 28% |

        # Backtest on held-out origins
        class | forecaster | error | bias | pinball | CRPS | in 80 % band | of | 95 % interval
        name 427 | model 606 | 38.1% | +23.4% | 506.0100 | 344.4100 | 61.2% | 205 | 40% to 62%
        name 427 | seasonal naive | 38.2% | +23.5% | 507.0200 | 345.4200 | 61.3% | 206 | 40% to 62%

        [bold]Anomalies[/bold]
        [dim]- sentence 666[/dim]
        [dim]- sentence 667[/dim]

        [dim]Error is the sum of absolute errors over demand; pinball and CRPS are over the mean. Seed 267.
          docs/explanation/demand.md explains how a forecast is made.[/dim]
        """,
    )


def test_a_curve() -> None:
    made = MadeUp()

    def at(rate_rps: float, value: float) -> StablePoint:
        found = made(Interval, value=value, low=value - 0.05, high=value + 0.1)
        return made(StablePoint, offered_rps=rate_rps, latencies={"chat": {"ttft_p95": found}})

    stable, unstable = (at(1.0, 0.25), at(2.0, 0.75)), made(UnstablePoint, offered_rps=3.0)
    trial = SimpleNamespace(classes=(class_with_slos("chat", ttft_p95=1.0),))
    bases = SimpleNamespace(trial=lambda _: trial)
    curve = made(ServiceCurve, points=(*stable, unstable), bases=bases)
    check_answer(
        made(CurveAnswer, curve=curve, point=made(OperatingPoint, at_point=stable[1]), measured=(), agreement=None),
        """
        [bold]replica 393[/bold]: how much of its tightest limit each load uses

        [dim]     10 x ┤                                                                                    [/dim]
        [dim]          ┤                                                                                    [/dim]
        [dim]          ┤                                                                                    [/dim]
        [dim]          ┤                                                                                    [/dim]
        [dim]          ┤                                                                                    [/dim]
        [dim]    limit ┤╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌[/dim]
                  ┤                                                ░░░░░━━━
                  ┤                                   ░░░░░░░━━━━━━━━━━━░░
                  ┤                            ░░░━━━━━━━━━━━░░░
                  ┤                            ●━━░░░░░
        [dim]          ┤                                                                                    [/dim]
        [dim]    0.1 x ┤                                                                                    [/dim]
        [dim]          └────────────────────────────────────────────────────────────────────────────────────[/dim]
        [bold]                                                                                               [/bold]
        [dim]           0                                                                  3 req/s a replica[/dim]
        [dim]● load tried   ░ 95 % interval   ▓ not sustained   P operating point   H highest that passes[/dim]

        # Loads on one replica
        offered | goodput | of limit | running | KV | preempted | verdict
        1 req/s | 739 req/s ± 139 req/s | 0.25 x | 740 | 74,134 % | 74,235 % | [yellow]violates violated 327, violated
          328[/yellow]
        2 req/s | 743 req/s ± 139 req/s | 0.75 x | 744 | 74,538 % | 74,639 % | [yellow]violates violated 329, violated
          330[/yellow]
        3 req/s |  |  |  |  |  | [red]not sustained: reason 497[/red]

        [bold]Operating point: [bold]801 req/s a replica[not bold][/bold], goodput 1.66 req/s a device; above 738 req/s
          it violates binding 842.[/not bold][/bold]

        # From the highest load to the operating point
         | share | leaves | why
        highest that passes |  | 738 req/s | another seed would find 622 req/s to 901 req/s (95 %)
        name 427 | 77.6 % | inside | reason 498
        name 428 | 77.7 % | inside | reason 499

        # At 2 req/s a replica
        class | latency | p50 | p95 | p99
        chat | ttft |  | 750 ms ± 75 ms |
        chat | tpot |  |  |
        chat | itl |  |  |
        chat | e2e |  |  |

        - anomalies 586
        - anomalies 587
        - next test 699

        # What-ifs, one at a time; the highest load that passes is 189 req/s
         | change | highest |  | violated next
        kind 446 | change 613 | 571 req/s | no change | binding 843
        kind 447 | change 614 | 572 req/s | no change | binding 844
        """,
    )
    refused = made(Rejection)
    check_answer(
        MadeUp(is_bare=True)(CurveAnswer, curve=curve, point=refused, tried=(), measured=()),
        """
        operating point: refused: reason 500
        [bold]replica 393[/bold]: how much of its tightest limit each load uses

        [dim]     10 x ┤                                                                                    [/dim]
        [dim]          ┤                                                                                    [/dim]
        [dim]          ┤                                                                                    [/dim]
        [dim]          ┤                                                                                    [/dim]
        [dim]          ┤                                                                                    [/dim]
        [dim]    limit ┤╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌[/dim]
                  ┤                                                ░░░░░━━━
                  ┤                                   ░░░░░░░━━━━━━━━━━━░░
                  ┤                            ░░░━━━━━━━━━━━░░░
                  ┤                            ●━━░░░░░
        [dim]          ┤                                                                                    [/dim]
        [dim]    0.1 x ┤                                                                                    [/dim]
        [dim]          └────────────────────────────────────────────────────────────────────────────────────[/dim]
        [bold]                                                                                               [/bold]
        [dim]           0                                                                  3 req/s a replica[/dim]
        [dim]● load tried   ░ 95 % interval   ▓ not sustained   [/dim]

        # Loads on one replica
        offered | goodput | of limit | running | KV | preempted | verdict
        1 req/s | 739 req/s ± 139 req/s | 0.25 x | 740 | 74,134 % | 74,235 % | [yellow]violates violated 327, violated
          328[/yellow]
        2 req/s | 743 req/s ± 139 req/s | 0.75 x | 744 | 74,538 % | 74,639 % | [yellow]violates violated 329, violated
          330[/yellow]
        3 req/s |  |  |  |  |  | [red]not sustained: reason 497[/red]

        [bold]REFUSED at stage 206: reason 500[/bold]
        figure = 13.8 min measured:
        What would make it fit:
          change 615: effect 631
          change 616: effect 632
        """,
    )


def test_a_profile() -> None:
    fractions = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
    made = MadeUp(period_hours=24, fractions=fractions, values=tuple(100.0 * each for each in fractions))
    check_answer(
        made(Profiled),
        """
        requests: 568; span: 12.8 min; anomalies: 2
        [bold]Profile of 2 files[not bold]: 822 requests[not bold][/not bold] in 12.8 min[/not bold][/bold]
        [dim]format format 356; first time 502 to last time 638; written in zone 780; 34.4% of the time covered[/dim]

        # Arrivals, req/s
        window | mean | p50 | p90 | p99 | max | dispersion
        1.87 min | 113 | 50 | 90 | 99 | 100 | 330 (artefact of the time stamps)
        1.89 min | 114 | 50 | 90 | 99 | 100 | 331 (artefact of the time stamps)
        ██  requests per 1.9 min
        Gaps between requests deviate by 851 times their mean (Poisson: 1).
        354 bursts in windows of 1.92 min, 11.1% of the time: median 50 times their level for 50 s; the highest 363
          req/s over 505, in 12.8 min from start to peak.

        [bold]Season by hour of the day (UTC), darkest 7.8e+02 times the mean[/bold]
         day ████
        [dim]     0     3     6     9     12    15    18    21    [/dim]
        It explains 45% of the variance from hour to hour.
        Growth +22.1% a week over 683 days (middle half +28.8% to +87.6%).

        # Lengths, tokens
         | mean | p50 | p90 | p95 | p99 | p99.9 | max | in the longest 1 %
        prompt | 115 | 50 | 90 | 95 | 99 | 100 | 100 | 84.5% of tokens
        output | 116 | 50 | 90 | 95 | 99 | 100 | 100 | 10.8% of tokens
        cached | 117 | 50 | 90 | 95 | 99 | 100 | 100 |
        reasoning | 118 | 50 | 90 | 95 | 99 | 100 | 100 |
        61.8% of prompt tokens were cached.
        Prompt and output are correlated by +474.70 (of their logarithms); sample them as pairs.

        Outcomes: 13.51% failed (83.37% before any output), 57.36% cancelled, of 992, 618 without a status.

        # In flight, at each second
         | mean | p50 | p90 | p95 | p99 | p99.9 | max
        requests | 119 | 50 | 90 | 95 | 99 | 100 | 100
        active tokens | 120 | 50 | 90 | 95 | 99 | 100 | 100
        ██  highest active tokens over time

        # Sessions: 632
         | mean | p50 | p90 | p95 | p99 | p99.9 | max
        turns | 121 | 50 | 90 | 95 | 99 | 99.9 | 100
        length | 122 | 50 | 90 | 95 | 99 | 99.9 | 100
        think time | 123 | 50 | 90 | 95 | 99 | 99.9 | 100
        tool time | 124 | 50 | 90 | 95 | 99 | 99.9 | 100
        tool calls per task | 125 | 50 | 90 | 95 | 99 | 99.9 | 100
        168 requests were sent before the session's previous answer ended.
        85.9% of prompt blocks repeat the session's previous request.

        [bold]Prefix reuse: 132 uses of 356 blocks of 298 tokens, from a sample of 24.7% of blocks[/bold]
        Share of prompt tokens that a prefix cache holds:
        cache, blocks | tokens | cold | warm
        255 | 75,990 | 44.7% | 67.0%
        256 | 76,288 | 44.8% | 67.1%
        endless |  | 38.3% | 82.0%
        The ids are not chained: 36.9% of them follow different predecessors. They were chained before counting, because
          engines reuse a block only after the same prefix.
        40.3% of block ids recur somewhere, but engines only reuse prefixes.
        With an unlimited warm cache per tenant: by tenant 333 82.1%, by tenant 334 82.2%.

        [bold]Anomalies[/bold]
         |
        [dim]-[/dim] | sentence 666
         |
        [dim]-[/dim] | sentence 667
         |
        [dim]>[/dim] | To profile them separately: --class 'name 427:model=model 606,tenant=tenant 327,product=product
          338,path=path
          500,from_prompt_tokens=173,below_prompt_tokens=252,from_output_tokens=469,below_output_tokens=468' --class
          'name 428:model=model 607,tenant=tenant 328,product=product 339,path=path
          501,from_prompt_tokens=174,below_prompt_tokens=253,from_output_tokens=470,below_output_tokens=469'
         |
        [dim]?[/dim] | Not known from this trace: needs 179.
         |
        [dim]?[/dim] | Not known from this trace: needs 180.
        """,
    )
