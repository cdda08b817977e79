"""The engine's own /metrics as a load test: windows, restarts, aborts, and what calibrates."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.loadtest_samples import REQUESTS, TTFT_S, engine_metrics
from ullage.errors import InputError
from ullage.readers.loadtests import read_bytes, read_loadtest
from ullage.service.calibration.calibration import Measurement
from ullage.service.calibration.repeats import RepeatTerms, measurement_of
from ullage.service.calibration.replay import EngineLimits
from ullage.service.loadtests.loadtest import Definition, Flag, Loop, SeenBy

LIMITS = EngineLimits(max_sequences=256, budget_tokens=8192, kv_tokens=500_000)


def test_two_scrapes_are_a_window_with_a_rate() -> None:
    (point,) = read_bytes(engine_metrics(), file="metrics.txt").points
    assert point.load.loop is Loop.OPEN
    assert point.load.offered_rps == pytest.approx(4.0)
    assert point.completed_count == REQUESTS


def test_one_page_has_no_rate_but_the_sequences_of_an_average_step() -> None:
    (point,) = read_bytes(engine_metrics(scrapes=False), file="metrics.txt").points
    assert point.duration_s is None
    assert point.load.loop is Loop.CLOSED
    assert point.load.concurrency_cap_count == 4


def test_what_the_engine_does_not_see_is_not_fitted_to_it() -> None:
    (point,) = read_bytes(engine_metrics(), file="metrics.txt").points
    measured = measurement_of(point, RepeatTerms(limits=LIMITS))
    assert isinstance(measured, Measurement)
    first = measured.targets[0]
    assert first.latency == "engine_ttft"
    assert first.value == pytest.approx(TTFT_S)


def test_gaps_of_the_engine_stand_in_for_the_time_of_a_token() -> None:
    (point,) = read_bytes(engine_metrics(tpot=False), file="metrics.txt").points
    measured = measurement_of(point, RepeatTerms(limits=LIMITS))
    assert isinstance(measured, Measurement)
    assert [each.latency for each in measured.targets] == ["engine_ttft", "tpot"]


def test_an_engine_that_was_started_anew_is_refused() -> None:
    data = engine_metrics()
    first, _, last = data.partition(b"# SCRAPE 1010")
    backwards = b"# SCRAPE 900.0\n" + last.split(b"\n", 1)[1] + first
    with pytest.raises(InputError, match="was restarted"):
        read_bytes(backwards, file="metrics.txt")


def test_metrics_of_several_models_are_refused() -> None:
    data = engine_metrics(scrapes=False) + engine_metrics(scrapes=False).replace(b'"example"', b'"other"')
    with pytest.raises(InputError, match="several models"):
        read_bytes(data, file="metrics.txt")


def test_published_pages(shared_data: Path) -> None:
    """vLLM 0.32 through an overload with aborts: 67 first tokens, 62 ends."""
    folder = shared_data / "engines" / "prometheus"
    (calm,) = read_loadtest(folder / "vllm_0.32.0_cpu_metrics.txt").points
    assert calm.completed_count == 128
    ttft = calm.latency(Definition.TTFT)
    assert ttft is not None
    assert ttft.mean_s == pytest.approx(8.021245241165161 / 128)
    assert ttft.seen_by is SeenBy.ENGINE
    assert ttft.floor_s == 0.001
    # 4,096 tokens in 1,616 steps.
    assert calm.load.concurrency_cap_count == 3
    assert any("--kv-tokens 524288" in each.sentence for each in calm.anomalies)
    (rough,) = read_loadtest(folder / "vllm_0.32.0_cpu_metrics_overload_preempt_abort.txt").points
    assert rough.failed_count == 5
    assert any(each.flag is Flag.FAILURES for each in rough.anomalies)
    (window,) = read_loadtest(folder / "vllm_0.32.0_cpu_scrape_timeseries_overload.txt").points
    assert window.load.loop is Loop.OPEN
    assert window.duration_s is not None
    assert window.load.offered_rps is not None
