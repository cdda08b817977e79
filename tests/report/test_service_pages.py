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
        [bold]file 2[not bold]: tool 5 tool version 3, format version 4; 2 points[/not bold][/bold]
        [dim]note closed_loop_saturation: [/dim]sentence 6
        [dim]note closed_loop_saturation: [/dim]sentence 7

        [bold]name 8[/bold]: open loop, 10.1 req/s offered, evenly spaced, at most 9 at once
          model 18; precision 19; 11 x hardware 12; tp 13, pp 14, ep 15; engine 16 engine version 17; dataset 20; notes
          21; notes 22
         |
        requests | 23 ok, 24 failed, 25 unfinished in 26.3 s; 2 kept in the file
        rate | 27.3 req/s achieved, 28.3 req/s sent
        tokens | prompt 30.3, output 32.3 on average, 114 % of prompts cached, counted by the server, nominal 35.4 /
          34.3
        latency | mean | p50 | p90 | p95 | p99 | definition
        TTFT | 36.4 s | - | - | - | - | [dim]first token - sent; one a request[/dim]
        TTFT | 41.4 s | - | - | - | - | [dim]first token - sent; one a request[/dim]
        TTFT | 46.5 s | - | - | - | - | [dim]first token - sent; one a request[/dim]
        goodput as reported by the tool: 51.5 req/s, 5.2 % of those sent, verdict 53; limits ttft 54.5 s, tpot 55.5 s,
          itl 56.6 s, ntpot 57.6 s, e2e 58.6 s; a one-token answer counts as good
        goodput recounted by the rule of name 61: 62 of 63 sent (6 %), 59.6 req/s; limits ttft 1.08 min, tpot 1.09 min,
          itl 1.11 min, ntpot 1.13 min, e2e 1.14 min
        [dim]note closed_loop_saturation: [/dim]sentence 69
        [dim]note closed_loop_saturation: [/dim]sentence 70

        [bold]name 71[/bold]: open loop, 73.73 req/s offered, evenly spaced, at most 72 at once
          model 81; precision 82; 74 x hardware 75; tp 76, pp 77, ep 78; engine 79 engine version 80; dataset 83; notes
          84; notes 85
         |
        requests | 86 ok, 87 failed, 88 unfinished in 1.5 min; 2 kept in the file
        rate | 90.9 req/s achieved, 91.9 req/s sent
        tokens | prompt 93.9, output 96 on average, 104 % of prompts cached, counted by the server, nominal 99 / 98
        latency | mean | p50 | p90 | p95 | p99 | definition
        TTFT | 1.67 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        TTFT | 1.75 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        TTFT | 1.83 min | - | - | - | - | [dim]first token - sent; one a request[/dim]
        goodput as reported by the tool: 115 req/s, 11.5 % of those sent, verdict 116; limits ttft 1.97 min, tpot 1.99
          min, itl 2 min, ntpot 2.02 min, e2e 2.04 min; a one-token answer counts as good
        [dim]note closed_loop_saturation: [/dim]sentence 122
        [dim]note closed_loop_saturation: [/dim]sentence 123
        """,
    )
    bare = MadeUp(is_bare=True)
    check_page(
        loadtests_page([(bare(LoadTest), ((bare(Goodput),), ()))] * 2),
        """
        [bold]file 2[not bold]: tool 3, version not stated; 2 points[/not bold][/bold]
        [bold red]serious rows_left_out: [/bold red]sentence 4
        [bold red]serious rows_left_out: [/bold red]sentence 5

        [bold]name 6[/bold]: all requests at once
          notes 7; notes 8
         |
        requests | - ok, - failed in -; 2 kept in the file
        rate | - achieved
        tokens | prompt -, output - on average
        latency | mean | p50 | p90 | p95 | p99 | definition
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        goodput recounted by the rule of name 17: 18 of 19 determined (-), of the requests kept; limits not stored in
          the file
        [bold red]serious rows_left_out: [/bold red]sentence 20
        [bold red]serious rows_left_out: [/bold red]sentence 21

        [bold]name 22[/bold]: all requests at once
          notes 23; notes 24
         |
        requests | - ok, - failed in -; 2 kept in the file
        rate | - achieved
        tokens | prompt -, output - on average
        latency | mean | p50 | p90 | p95 | p99 | definition
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        [bold red]serious rows_left_out: [/bold red]sentence 33
        [bold red]serious rows_left_out: [/bold red]sentence 34

        [bold]file 2[not bold]: tool 3, version not stated; 2 points[/not bold][/bold]
        [bold red]serious rows_left_out: [/bold red]sentence 4
        [bold red]serious rows_left_out: [/bold red]sentence 5

        [bold]name 6[/bold]: all requests at once
          notes 7; notes 8
         |
        requests | - ok, - failed in -; 2 kept in the file
        rate | - achieved
        tokens | prompt -, output - on average
        latency | mean | p50 | p90 | p95 | p99 | definition
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        goodput recounted by the rule of name 17: 18 of 19 determined (-), of the requests kept; limits not stored in
          the file
        [bold red]serious rows_left_out: [/bold red]sentence 20
        [bold red]serious rows_left_out: [/bold red]sentence 21

        [bold]name 22[/bold]: all requests at once
          notes 23; notes 24
         |
        requests | - ok, - failed in -; 2 kept in the file
        rate | - achieved
        tokens | prompt -, output - on average
        latency | mean | p50 | p90 | p95 | p99 | definition
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        client delay | - | - | - | - | - | [dim]sent - the moment it should have been sent; one a request[/dim]
        [bold red]serious rows_left_out: [/bold red]sentence 33
        [bold red]serious rows_left_out: [/bold red]sentence 34
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
        open loop, 2.02 req/s offered, evenly spaced, at most 5 at once
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
        verdict: slower; device time per request: -33.3%
        [bold]after 4 is [bold red][/bold]slower[/bold red]: device time per request changes by -33.3% (+405.0% to
          +506.0%, 90 % interval) against before 7; the tolerance is 1%.
        [dim]replica 9, 10.1 requests of 11 prompt and 12 output tokens at once.[/dim]

        # Steps
        time | before | after | ratio | low | high
        name 13 | 3.03 s | 2.02 s | 0.667 | 5.050 | 6.060
        name 16 | 14.1 s | 15.2 s | 1.071 | 17.170 | 18.180
        name 21 | 19.2 s | 20.2 s | 1.053 | 22.220 | 23.230

        For service 24: 25 replicas (27 to 28) in place of 26, -1, at nominal step times: +29 USD in 30.3 h.

        - These tests can detect a change of 9.5% or more.
        - They do not cover unseen 31, unseen 32, 3% of that time: a change there would go unnoticed.
        """,
    )
    check_answer(
        MadeUp(is_bare=True, unseen=())(GateAnswer),
        """
        verdict: cannot tell; device time per request: -33.3%
        [bold]after 4 is [bold yellow][/bold]cannot tell[/bold yellow]: device time per request changes by -33.3%
          (+405.0% to +506.0%, 90 % interval) against before 7; the tolerance is 1%.
        [dim]replica 9, 10.1 requests of 11 prompt and 12 output tokens at once.[/dim]

        # Steps
        time | before | after | ratio | low | high
        name 13 | 3.03 s | 2.02 s | 0.667 | 5.050 | 6.060
        name 16 | 14.1 s | 15.2 s | 1.071 | 17.170 | 18.180
        name 21 | 19.2 s | 20.2 s | 1.053 | 22.220 | 23.230

        - These tests can detect a change of 9.5% or more.
        """,
    )


def test_a_gate_without_prices() -> None:
    check_answer(
        MadeUp(usd=None)(GateAnswer),
        """
        verdict: slower; device time per request: -33.3%
        [bold]after 4 is [bold red][/bold]slower[/bold red]: device time per request changes by -33.3% (+405.0% to
          +506.0%, 90 % interval) against before 7; the tolerance is 1%.
        [dim]replica 9, 10.1 requests of 11 prompt and 12 output tokens at once.[/dim]

        # Steps
        time | before | after | ratio | low | high
        name 13 | 3.03 s | 2.02 s | 0.667 | 5.050 | 6.060
        name 16 | 14.1 s | 15.2 s | 1.071 | 17.170 | 18.180
        name 21 | 19.2 s | 20.2 s | 1.053 | 22.220 | 23.230

        For service 24: 25 replicas (27 to 28) in place of 26, -1, at nominal step times; the plan has no price for
          them.

        - These tests can detect a change of 9.5% or more.
        - They do not cover unseen 29, unseen 30, 3% of that time: a change there would go unnoticed.
        """,
    )


def test_a_measurement() -> None:
    check_answer(
        MadeUp()(MeasureAnswer),
        """
        replicas: 2 (3 to 4); tests: 2; verdict: decided
        [bold]service 5: 2 replicas[/bold] (3 to 4) on nominal step times, [bold green]decided[/bold green]: stopped 6.
        [dim]replica 7, driven by tool 8.[/dim]

        after test | req/s | requests | time | replicas | range | step times within
        test 13 | 10.1 | 9 | 11.1 s | 14 | 15 to 16 | x 12.1
        test 21 | 18.2 | 17 | 19.2 s | 22 | 23 to 24 | x 20.2
        test 29 | 26.3 | 25 | 27.3 s | 2 | 3 to 4 | x 28.3

        Used: 0.5 of 0.5555 min, 34 of 35 requests, 36 of 37 tokens, 30.30 of 31.31 USD.
        Results, calibration and a diff of the plan file are in folder 39; review plan.diff.
        """,
    )
    check_answer(
        MadeUp(is_bare=True, rows=(), diff="", requests=0)(MeasureAnswer),
        """
        replicas: 2 (3 to 4); tests: 0; verdict: undecided
        [bold]service 5: 2 replicas[/bold] (3 to 4) on nominal step times, [bold yellow]undecided[/bold yellow]: stopped
          6.
        [dim]replica 7, driven by tool 8.[/dim]

        after test | req/s | requests | time | replicas | range | step times within
        test 10 |  |  |  | 2 | 3 to 4 | x 9.09

        Used: 0.2 of 0.202 min, 0 of 0 requests, 13 of 14 tokens, no price, so cost not counted.
        """,
    )


def test_a_validation() -> None:
    check_answer(
        MadeUp(step=STEP)(Validation),
        """
        verdict: validated; inside their bands: 4 of 4
        [bold]The plan for service 15 is [bold green][/bold]validated[/bold green], tested on 2026-11-15: 4 of 4
          statistics lie within their 80 % bands.
        [dim]replica 16, by the roofline step model (estimated), 1.7 % of prompt tokens cached in the plan.[/dim]

        # name 19, 18 requests: validated
        statistic | predicted | low | high | measured | ratio |
        name 22 | 20.2 unit 21 | 2.02 unit 21 | 4.04 unit 21 | 3.03 unit 21 | 0.15 | [green]inside[/green]
        name 25 | 23.2 unit 24 | 5.05 unit 24 | 7.07 unit 24 | 6.06 unit 24 | 0.26 | [green]inside[/green]
          sentence 26
          sentence 27

        # name 29, 28 requests: validated
        statistic | predicted | low | high | measured | ratio |
        name 32 | 30.3 unit 31 | 8.08 unit 31 | 10.1 unit 31 | 9.09 unit 31 | 0.30 | [green]inside[/green]
        name 35 | 33.3 unit 34 | 11.1 unit 34 | 13.1 unit 34 | 12.1 unit 34 | 0.36 | [green]inside[/green]
          sentence 36
          sentence 37
        """,
    )
    check_answer(
        MadeUp(is_bare=True, step=STEP, low_value=1.0, measured_value=3.0, high_value=90.0)(Validation),
        """
        verdict: cannot tell; inside their bands: 4 of 4
        [bold]The plan for service 2 is [bold yellow][/bold]cannot tell[/bold yellow]: 4 of 4 statistics lie within
          their 80 % bands.
        [dim]replica 3, by the roofline step model (estimated), 0.4 % of prompt tokens cached in the plan.[/dim]

        # name 5: cannot tell
        statistic | predicted | low | high | measured | ratio |
        name 8 | 6.06 unit 7 | 1 unit 7 | 90 unit 7 | 3 unit 7 | 0.50 | [green]inside[/green]
        name 11 | 9.09 unit 10 | 1 unit 10 | 90 unit 10 | 3 unit 10 | 0.33 | [green]inside[/green]
          sentence 12
          sentence 13

        # name 14: cannot tell
        statistic | predicted | low | high | measured | ratio |
        name 17 | 15.2 unit 16 | 1 unit 16 | 90 unit 16 | 3 unit 16 | 0.20 | [green]inside[/green]
        name 20 | 18.2 unit 19 | 1 unit 19 | 90 unit 19 | 3 unit 19 | 0.17 | [green]inside[/green]
          sentence 21
          sentence 22
        """,
    )


def test_a_simulation() -> None:
    pool = SimpleNamespace(count=2, routing="least_requests", between_turns=None)
    counts = Counts(*range(len(Counts._fields)))
    check_answer(
        MadeUp(step=STEP, pool=pool, counts=counts, judged=None)(Simulated),
        """
        replica: replica 2; traffic: traffic 3; goodput: 4.04 req/s; keeping up: yes
        [bold]replica 2[/bold], 2 replicas, least requests, by the roofline step model ([yellow]estimated[/yellow])
        traffic 3: 9.09 req/s for 10.1 s; all had finished after 11.1 s.

        # SLOs
        class | SLO | found | verdict
        name 14 | ttft p6.2 <= 63.63 s | 1.08 min | [red]violated[/red]
        name 14 | ttft p6.5 <= 66.66 s | 1.13 min | [red]violated[/red]
        name 27 | ttft p6.8 <= 69.69 s | 1.18 min | [red]violated[/red]
        name 27 | ttft p7.1 <= 72.72 s | 1.23 min | [red]violated[/red]

        # Latencies
        class | latency | mean | p50 | p90 | p95 | p99
        name 14 | latencies 12 | 15.2 s | 17.2 s | 19.2 s |  |
        name 14 | latencies 13 | 20.2 s | 22.2 s | 24.2 s |  |
        name 27 | latencies 25 | 28.3 s | 30.3 s | 32.3 s |  |
        name 27 | latencies 26 | 33.3 s | 35.4 s | 37.4 s |  |

        # Requests
        class | sent | late | refused: queue full | refused: longer than the cache | timed out | cancelled | failed |
          unfinished | goodput | of sent
        name 14 | 28 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 38.4 req/s | 0 %
        name 27 | 28 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 39.4 req/s | 0 %

        # While requests arrived
         | value
        goodput | 4.04 req/s
        output tokens | 44.4 tokens/s
        running, all replicas | 45.5
        waiting | 46.5, at most 47
        KV in use | 4.8 %, at most 4.9 %
        KV tokens per replica | 50
        prompt tokens served from cache | 105 %
        preemptions | 51 (52 tokens recomputed)
        busy | 5.3 %

        # Physics
        law | left | right |
        name 54 | 55.5 unit 56 | 57.6 unit 56 | holds
        name 58 | 59.6 unit 60 | 61.6 unit 60 | holds
        Little's law; tokens computed = tokens of requests |  |  | hold exactly

        - It was not measured.
        - Prefix caches are simulated block by block: 7.4% of prompt tokens were found, requests held 8% of a replica's
          blocks at most, shared ones once. prefixes 76
        - 7.7% of what was found came from host memory, loaded in the step that admitted its request.
        - 78 requests of the trace have no time or no length, and were left out.
        - 6 requests are longer than the whole cache of 50 tokens.
        """,
    )


def test_load_tests_simulated_as_they_were_run() -> None:
    check_answer(
        MadeUp(step=STEP)(RepeatedTests),
        """
        replica: replica 10; load tests: 2; measured inside the band: 0 of 4
        [bold]replica 10[/bold], 1 replica, by the roofline step model ([yellow]estimated[/yellow])

        # Load tests, as they were run
        test | latency | predicted | 80 % band | measured |
        name 12 | latency 13 statistic 14 | 15.2 s | 3.03 s to 11.1 s | 2.02 s | outside
        name 12 | latency 17 statistic 18 | 19.2 s | 5.05 s to 16.2 s | 4.04 s | outside
        name 12 | output | 21.2 tokens/s |  | 20.2 tokens/s |
        name 12 | answered | 0.02 of sent | 0.02 to 0.03 | 0.02 of sent | inside
        name 27 | latency 28 statistic 29 | 30.3 s | 7.07 s to 26.3 s | 6.06 s | outside
        name 27 | latency 32 statistic 33 | 34.3 s | 9.09 s to 31.3 s | 8.08 s | outside
        name 27 | output | 36.4 tokens/s |  | 35.4 tokens/s |
        name 27 | answered | 0.04 of sent | 0.04 to 0.04 | 0.04 of sent | inside

        - It was not measured.
        - sentence 41
        - sentence 42
        - point 43 was left out: it reason 44.
        - point 45 was left out: it reason 46.
        - name 12 lies beyond what the step model was measured in (1.9e+14 times as many sequences, KV tokens or prompt
          tokens): its band is wider for it.
        - name 27 lies beyond what the step model was measured in (3.9e+14 times as many sequences, KV tokens or prompt
          tokens): its band is wider for it.
        """,
    )
    check_answer(
        MadeUp(is_bare=True, step=STEP, success_fraction=1.0, success_low_fraction=1.0, left_out=())(RepeatedTests),
        """
        replica: replica 2; load tests: 2
        [bold]replica 2[/bold], 1 replica, by the roofline step model ([yellow]estimated[/yellow])

        # Load tests, as they were run
        test | latency | predicted | 80 % band | measured |
        name 5 | latency 6 statistic 7 | 8.08 s | 3.03 s to 4.04 s |  |
        name 5 | latency 11 statistic 12 | 13.1 s | 9.09 s to 10.1 s |  |
        name 5 | output | 14.1 tokens/s |  |  |
        name 17 | latency 18 statistic 19 | 20.2 s | 15.2 s to 16.2 s |  |
        name 17 | latency 23 statistic 24 | 25.2 s | 21.2 s to 22.2 s |  |
        name 17 | output | 26.3 tokens/s |  |  |

        - It was not measured.
        - sentence 27
        - sentence 28
        - name 5 lies beyond what the step model was measured in (6.6e+08 times as many sequences, KV tokens or prompt
          tokens): its band is wider for it.
        - name 17 lies beyond what the step model was measured in (1.3e+09 times as many sequences, KV tokens or prompt
          tokens): its band is wider for it.
        """,
    )


def test_sizes() -> None:
    check_answer(
        MadeUp()(SizeAnswer),
        """
        rate: 2.02 req/s; size: 4 replicas
        [bold]4 replicas[not bold] of replica 5 for 2.02 req/s (as stated); undecided from 6 on.[/not bold][/bold]
        At conservative step times, 16.2 x nominal: the factor at the chosen risk for evidence that is stated. At
          nominal step times 4 replicas would do.
        Note: Step basis: basis 18. The share of requests over all such windows decides.
        Note: 6 or 3 replicas: undecided after 4 windows of 17 s, the heaviest looked at most; the larger is taken.
        Note: So low a load was tried at 20.2 req/s, which one replica carries too.

        #
         | value
        devices | 28
        violated with one fewer | stability
        load per replica | 12.1 req/s
        goodput per device | 1.88 req/s
        KV in use | 1,414 %
        p95 time before admission | 15.2 s

        # At 12.1 req/s a replica
        class | latency | p50 | p95 | p99
        latencies 21 | ttft |  |  |
        latencies 21 | tpot |  |  |
        latencies 21 | itl |  |  |
        latencies 21 | e2e |  |  |
        latencies 24 | ttft |  |  |
        latencies 24 | tpot |  |  |
        latencies 24 | itl |  |  |
        latencies 24 | e2e |  |  |
        """,
    )
    check_answer(
        MadeUp(is_bare=True)(SidesSized),
        """
        rate: 2.02 req/s; prefill side: 4 replicas; decode side: 6 replicas; SLOs met together: no
        [bold]Together 4 prefill and 6 decode replicas violate an SLO, undecided: nearest to its limit is nearest 8, 1%
          of it used. KV transfer takes 7,070 ms (p95).[/bold]

        [bold]4 replicas[not bold] of prefill replica 10 for 12.1 req/s (the plan's busiest hour); undecided from 11
          on.[/not bold][/bold]
        At conservative step times, 18.2 x nominal: the factor at the chosen risk for evidence that is assumed. At
          nominal step times 4 replicas would do.
        Note: Step basis: basis 20. The share of requests over all such windows decides.
        Note: 11 or 3 replicas: undecided after 4 windows of 19 s, the heaviest looked at most; the larger is taken.
        Note: So low a load was tried at 22.2 req/s, which one replica carries too.

        #
         | value
        devices | 52
        violated with one fewer | one replica is enough
        load per replica | 14.1 req/s
        goodput per device | 1.17 req/s
        KV in use | 1,616 %
        p95 time before admission | 17.2 s

        # At 14.1 req/s a replica
        class | latency | p50 | p95 | p99
        latencies 23 | ttft |  |  |
        latencies 23 | tpot |  |  |
        latencies 23 | itl |  |  |
        latencies 23 | e2e |  |  |
        latencies 26 | ttft |  |  |
        latencies 26 | tpot |  |  |
        latencies 26 | itl |  |  |
        latencies 26 | e2e |  |  |

        [bold]6 replicas[not bold] of decode replica 29 for 2.02 req/s (the plan's busiest hour); undecided from 30
          on.[/not bold][/bold]
        At conservative step times, 36.4 x nominal: the factor at the chosen risk for evidence that is assumed. At
          nominal step times 6 replicas would do.
        Note: Step basis: basis 38. The share of requests over all such windows decides.
        Note: 30 or 5 replicas: undecided after 4 windows of 37 s, the heaviest looked at most; the larger is taken.
        Note: So low a load was tried at 40.4 req/s, which one replica carries too.

        #
         | value
        devices | 186
        violated with one fewer | one replica is enough
        load per replica | 32.3 req/s
        goodput per device | 1.08 req/s
        KV in use | 3,434 %
        p95 time before admission | 35.4 s

        # At 32.3 req/s a replica
        class | latency | p50 | p95 | p99
        latencies 41 | ttft |  |  |
        latencies 41 | tpot |  |  |
        latencies 41 | itl |  |  |
        latencies 41 | e2e |  |  |
        latencies 44 | ttft |  |  |
        latencies 44 | tpot |  |  |
        latencies 44 | itl |  |  |
        latencies 44 | e2e |  |  |
        """,
    )


def test_prefill_and_decode_apart() -> None:
    check_answer(
        MadeUp()(SplitSimulated),
        """
        decode replica: replica 2; prefill replica: prefill replica 3; best split: name 10; disaggregation pays off: no
        [bold]decode: replica 2; prefill: prefill replica 3[/bold]
        traffic 46
        A prompt token's KV is 0.0444 kB, sent at 0.0000000455 GB/s between two replicas.

        # Arrangements of 12 devices
         | ttft p50 | ttft p95 | tpot p50 | tpot p95 | e2e p95 | good | prefill busy | decode busy | is
        name 16 | 13,130 ms | 14,140 ms | 15,150 ms | 5,050 ms | 17.2 s | 0.4% | 2% | 2% | requested
        name 23 | 20,200 ms | 21,210 ms | 22,220 ms | 7,070 ms | 24.2 s | 0.6% | 2% | 3% |
        name 10 | 27,270 ms | 28,280 ms | 29,290 ms | 9,090 ms | 30.3 s | 0.8% | 3% | 3% | the best split
        name 40 | 36,360 ms | 37,370 ms | 38,380 ms | 39,390 ms | 41.4 s | 1.1% | 4% | 4% |
        notes 47
        notes 48
        Disaggregation does not pay off here: with name 10, the best split, 0.8% of requests meet SLOs against 1.1%
          colocated (TTFT p95 -24%, TPOT p95 -77%).
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
        replica: model 2 on 12 x device 5; points: 6; left out: 2; anomalies: name 7, name 8
        model 2 on device 5, engine 15, tp=3 pp=4 ep=13 dp_attention=14: 6 points

        factor | value | 80 % range | known | on
        fixed | 4.04 | 2.02 to 3.03 | yes | step time of one sequence
        sequences | 7.07 | 5.05 to 6.06 | yes | added by more sequences
        kv | 10.10 | 8.08 to 9.09 | yes | added by their KV
        prefill | 13.13 | 11.11 to 12.12 | yes | added by prompt tokens
        request | 16.16 | 14.14 to 15.15 | yes | time outside the engine

        point | latency | measured | simulated | error | error without it
        a | ttft p50 | 17.2 s | 18.2 s | +5.9 % | -5.0 %
        point 21 | rate statistic 22 | 23.2 tokens/s | 24.2 tokens/s | +4.3 % | -
        point 9 was left out: it reason 10.
        point 11 was left out: it reason 12.
        [bold red]sentence 16[/bold red]
        [bold red]sentence 17[/bold red]

        # Load tests, each fitted alone
        test | day | kind | points | decode steps | prompts | weight | why
        file 18 | 2026-11-21 | tool 21, kind 22 | 23 | 24.24 x estimate | 25.25 x estimate | 2.6 % | reason 27
        file 19 | 2026-11-29 | tool 29, kind 30 | 31 | 32.32 x estimate | 33.33 x estimate | 3.4 % | reason 35
        [yellow]disagreements 36[/yellow]
        [yellow]disagreements 37[/yellow]

        At any load that this replica may run, 8 of 10 step times lie within 38.38 to 39.39 of this model's, 8 of 10
          TTFTs of a prompt alone within 40.40 to 41.41.

        The most informative next test:
          command 42
        """,
    )


def test_a_profile_of_little() -> None:
    check_answer(
        MadeUp(is_bare=True)(Profiled),
        """
        requests: 2; span: 3.03 s; anomalies: 2
        [bold]Profile of 2 files[not bold]: 6 requests[not bold][/not bold] in 3.03 s[/not bold][/bold]
        [dim]format format 7; no clock[/dim]

        [bold]Anomalies[/bold]
         |
        [bold red]![/bold red] | sentence 10
         |
        [bold red]![/bold red] | sentence 11
         |
        [dim]?[/dim] | Not known from this trace: needs 12.
         |
        [dim]?[/dim] | Not known from this trace: needs 13.
        """,
    )


def test_a_forecast() -> None:
    made = MadeUp(calendar=False, horizon_s=4 * 86400.0, step_s=86400.0)
    drawn = np.arange(1.0, 45.0).reshape(4, 11)
    forecast = made(Forecast, quantiles=drawn, naive_quantiles=drawn, block_peaks=drawn.T, block_steps=1)
    check_page(
        forecast_page(made(ServiceForecast, parts=(made(PartForecast, forecast=forecast),), percentile_fraction=0.9)),
        """
        [bold]Forecast of source 2[not bold]: 4 d ahead in steps of 1 d, from 2 days of history[/not bold][/bold]

        [bold]name 4, unit 5[/bold]
               44 ┤  │   ░
                  ┤  │   ━
                  ┤  │  ░░
                  ┤  │  ░
                  ┤  │  ━
                  ┤  │ ░░
               22 ┤  │ ░
                  ┤  │ ━
                  ┤  │░░
                  ┤  │░
                  ┤  │━╌╌╌
                  ┤••│░
        [dim]        0 └──┴────[/dim]
        [dim]           2 d before now, and 4 d on[/dim]
        [dim]           ╌ 6.06: busiest step of the horizon, at 0.9[/dim]

        day | mean, 10 % | 50 % | 90 % | busiest step, 50 % | 0.9
        day 1 | 3 req/s | 7 req/s | 11 req/s | 6 req/s | 10 req/s
        day 2 | 14 req/s | 18 req/s | 22 req/s | 17 req/s | 21 req/s
        day 3 | 25 req/s | 29 req/s | 33 req/s | 28 req/s | 32 req/s
        day 4 | 36 req/s | 40 req/s | 44 req/s | 39 req/s | 43 req/s

        # To plan for: the busiest step of the horizon, not exceeded with 0.9 probability
        class | mean | busiest observed | busiest step | peak minute | tokens | active tokens | evidence
        name 4 | 23.5 req/s | 3.5 req/s | 6.06 req/s | 8.08 req/s | 9.09 tokens/s | 10.1 tokens | measured

        # Forecasters compared on the same past origins; the lowest pinball loss is used
        class | forecaster | pinball | error | in 80 % band |
        name 4 | name 12 | 13.1300 | 1.4% | 2% |
        name 4 | name 17 | 18.1800 | 1.9% | 2% |

        # Backtest on held-out origins
        class | forecaster | error | bias | pinball | CRPS | in 80 % band | of | 95 % interval
        name 4 | model 16 | 2.1% | +2.2% | 23.2300 | 24.2400 | 2.5% | 26 | 3% to 3%
        name 4 | seasonal naive | 2.9% | +3.0% | 31.3100 | 32.3200 | 3.3% | 34 | 4% to 4%

        [bold]Anomalies[/bold]
        [dim]- sentence 37[/dim]
        [dim]- sentence 38[/dim]

        [dim]Error is the sum of absolute errors over demand; pinball and CRPS are over the mean. Seed 39.
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
        [bold]replica 2[/bold]: how much of its tightest limit each load uses

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
        1 req/s | 10.1 req/s | 0.25 x | 11.1 | 1,212 % | 1,313 % | [yellow]violates violated 14, violated 15[/yellow]
        2 req/s | 18.2 req/s | 0.75 x | 19.2 | 2,020 % | 2,121 % | [yellow]violates violated 22, violated 23[/yellow]
        3 req/s |  |  |  |  |  | [red]not sustained: reason 24[/red]

        [bold]Operating point: [bold]5.05 req/s a replica[not bold][/bold], goodput 0.727 req/s a device; above 6.06
          req/s it violates binding 26.[/not bold][/bold]

        # From the highest load to the operating point
         | share | leaves | why
        highest that passes |  | 6.06 req/s | another seed would find 27.3 req/s to 28.3 req/s (95 %)
        name 29 | 3 % | inside | reason 31
        name 32 | 3.3 % | inside | reason 34

        # At 2 req/s a replica
        class | latency | p50 | p95 | p99
        chat | ttft |  | 750 ms ± 75 ms |
        chat | tpot |  |  |
        chat | itl |  |  |
        chat | e2e |  |  |

        - anomalies 35
        - anomalies 36
        - next test 37

        # What-ifs, one at a time; the highest load that passes is 38.4 req/s
         | change | highest |  | violated next
        kind 41 | change 42 | 39.4 req/s | no change | binding 43
        kind 47 | change 48 | 44.4 req/s | no change | binding 49
        """,
    )
    refused = made(Rejection)
    check_answer(
        MadeUp(is_bare=True)(CurveAnswer, curve=curve, point=refused, tried=(), measured=()),
        """
        operating point: refused: reason 50
        [bold]replica 2[/bold]: how much of its tightest limit each load uses

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
        1 req/s | 10.1 req/s | 0.25 x | 11.1 | 1,212 % | 1,313 % | [yellow]violates violated 14, violated 15[/yellow]
        2 req/s | 18.2 req/s | 0.75 x | 19.2 | 2,020 % | 2,121 % | [yellow]violates violated 22, violated 23[/yellow]
        3 req/s |  |  |  |  |  | [red]not sustained: reason 24[/red]

        [bold]REFUSED at stage 56: reason 50[/bold]
        figure = 51 s measured:
        What would make it fit:
          change 52: effect 53
          change 54: effect 55
        """,
    )


def test_a_profile() -> None:
    fractions = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
    made = MadeUp(fractions=fractions, values=tuple(100.0 * each for each in fractions))
    check_answer(
        made(Profiled),
        """
        requests: 2; span: 3.03 s; anomalies: 2
        [bold]Profile of 2 files[not bold]: 6 requests[not bold][/not bold] in 3.03 s[/not bold][/bold]
        [dim]format format 11; first time 7 to last time 8; written in zone 9; 1.0% of the time covered[/dim]

        # Arrivals, req/s
        window | mean | p50 | p90 | p99 | max | dispersion
        12.1 s | 13.1 | 50 | 90 | 99 | 100 | 14.1 (artefact of the time stamps)
        15.2 s | 16.2 | 50 | 90 | 99 | 100 | 17.2 (artefact of the time stamps)
        ██  requests per 20.2 s
        Gaps between requests deviate by 21.2 times their mean (Poisson: 1).
        22 bursts in windows of 23.2 s, 2.4% of the time: median 50 times their level for 50 s; the highest 25.2 req/s
          over 26.3, in 27.3 s from start to peak.

        [bold]Season by hour of the week (UTC), darkest 29 times the mean[/bold]
         Mon ████
         Tue
        [dim]     0     3     6     9     12    15    18    21    [/dim]
        It explains 3% of the variance from hour to hour.
        Growth +3.5% a week over 36 days (middle half +3.3% to +3.4%).

        # Lengths, tokens
         | mean | p50 | p90 | p95 | p99 | p99.9 | max | in the longest 1 %
        prompt | 39 | 50 | 90 | 95 | 99 | 100 | 100 | 3.7% of tokens
        output | 40 | 50 | 90 | 95 | 99 | 100 | 100 | 3.8% of tokens
        cached | 41 | 50 | 90 | 95 | 99 | 100 | 100 |
        reasoning | 42 | 50 | 90 | 95 | 99 | 100 | 100 |
        4.3% of prompt tokens were cached.
        Prompt and output are correlated by +44.44 (of their logarithms); sample them as pairs.

        Outcomes: 33.33% failed (31.94% before any output), 34.03% cancelled, of 144, 45 without a status.

        # In flight, at each second
         | mean | p50 | p90 | p95 | p99 | p99.9 | max
        requests | 50.5 | 50 | 90 | 95 | 99 | 100 | 100
        active tokens | 51.5 | 50 | 90 | 95 | 99 | 100 | 100
        ██  highest active tokens over time

        # Sessions: 54
         | mean | p50 | p90 | p95 | p99 | p99.9 | max
        turns | 56.6 | 50 | 90 | 95 | 99 | 99.9 | 100
        length | 58.6 | 50 | 90 | 95 | 99 | 99.9 | 100
        think time | 60.6 | 50 | 90 | 95 | 99 | 99.9 | 100
        tool time | 62.6 | 50 | 90 | 95 | 99 | 99.9 | 100
        tool calls per task | 64.6 | 50 | 90 | 95 | 99 | 99.9 | 100
        65 requests were sent before the session's previous answer ended.
        6.6% of prompt blocks repeat the session's previous request.

        [bold]Prefix reuse: 69 uses of 70 blocks of 67 tokens, from a sample of 6.8% of blocks[/bold]
        Share of prompt tokens that a prefix cache holds:
        cache, blocks | tokens | cold | warm
        71 | 4,757 | 7.2% | 7.3%
        74 | 4,958 | 7.5% | 7.6%
        endless |  | 7.7% | 7.8%
        The ids are not chained: 7.9% of them follow different predecessors. They were chained before counting, because
          engines reuse a block only after the same prefix.
        8.0% of block ids recur somewhere, but engines only reuse prefixes.
        With an unlimited warm cache per tenant: by tenant 81 8.3%, by tenant 82 8.4%.

        [bold]Anomalies[/bold]
         |
        [dim]-[/dim] | sentence 87
         |
        [dim]-[/dim] | sentence 88
         |
        [dim]>[/dim] | To profile them separately: --class 'name 97:model=model 89,tenant=tenant 90,product=product
          91,path=path 92,from_prompt_tokens=93,below_prompt_tokens=94,from_output_tokens=95,below_output_tokens=96'
          --class 'name 106:model=model 98,tenant=tenant 99,product=product 100,path=path
          101,from_prompt_tokens=102,below_prompt_tokens=103,from_output_tokens=104,below_output_tokens=105'
         |
        [dim]?[/dim] | Not known from this trace: needs 107.
         |
        [dim]?[/dim] | Not known from this trace: needs 108.
        """,
    )
