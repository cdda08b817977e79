"""Latencies by other definitions: each counted from the very requests of a run, and a stricter count never cheaper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.served_replicas import QUICK, PoissonLoad, batching_replica, class_with_slos, poisson_trial, short_bases
from ullage.errors import InputError
from ullage.files.plan_file import ClassSection
from ullage.load.plan_spec import request_class
from ullage.service.trial.defined import good_requests, histograms
from ullage.service.trial.mix import simulated_class
from ullage.service.trial.search import highest_load
from ullage.service.trial.trial import play
from ullage.service.trial.window import window
from ullage.simulate.fleet import Fleet
from ullage.simulate.histogram import LogHistogram, bin_edges_s
from ullage.simulate.kernel import BINS, bin_of
from ullage.simulate.load import OpenLoop
from ullage.simulate.outcome import Outcome
from ullage.workload.classes import Metric, RequestClass
from ullage.workload.definitions import TOOL_DEFINITIONS, Definitions, ItlCount, TpotCount, TtftCount, definitions_of

WITH_FIRST = Definitions(tpot=TpotCount.WITH_FIRST)
PER_REQUEST = Definitions(itl=ItlCount.PER_REQUEST)
OVERHEAD_S, FROM_S = 0.02, 5.0


def counted(definitions: Definitions) -> RequestClass:
    return replace(class_with_slos(ttft_p95=0.5, tpot_p95=0.0145), definitions=definitions)


def simulated(slo_class: RequestClass) -> tuple[Outcome, OpenLoop]:
    load = PoissonLoad(classes=(slo_class,))(rate_rps=30.0, span_s=60.0, seed=3)
    engine = batching_replica(request_overhead_s=OVERHEAD_S).engine
    return play(engine, Fleet(), load, seed=3, warmup_s=FROM_S, keep_requests=True), load


def test_tpot_with_the_first_token_is_e2e_over_tokens_weighted_by_them() -> None:
    slo_class = counted(WITH_FIRST)
    outcome, load = simulated(slo_class)
    found = histograms(outcome, load, slo_class, from_s=FROM_S)[Metric.TPOT]
    kept = outcome.requests
    assert kept is not None
    inside = kept.arrival_s >= FROM_S
    tokens = load.requests.output_tokens[inside]
    values = (kept.end_s - kept.arrival_s + OVERHEAD_S)[inside] / tokens
    assert found.total_count == tokens.sum()
    assert found.mean_s == pytest.approx(float(np.average(values, weights=tokens)), rel=0.01)


def test_itl_per_request_is_the_tpot_of_each_and_hides_the_pauses() -> None:
    outcome, load = simulated(counted(PER_REQUEST))
    own = histograms(outcome, load, counted(PER_REQUEST), from_s=FROM_S)
    pooled = histograms(outcome, load, counted(Definitions()), from_s=FROM_S)
    assert own[Metric.ITL] is own[Metric.TPOT]
    assert pooled[Metric.ITL].quantile_s(0.999) > own[Metric.ITL].quantile_s(0.999)


def test_goodput_counts_by_the_definition_of_the_slo() -> None:
    slo_class = counted(WITH_FIRST)
    outcome, load = simulated(slo_class)
    kept = outcome.requests
    assert kept is not None
    first_s, e2e_s = kept.first_token_s - kept.arrival_s + OVERHEAD_S, kept.end_s - kept.arrival_s
    good = (
        (first_s <= 0.5) & ((e2e_s + OVERHEAD_S) / load.requests.output_tokens <= 0.0145) & (kept.arrival_s >= FROM_S)
    )
    assert 0 < good.sum() < (kept.arrival_s >= FROM_S).sum()
    assert good_requests(outcome, load, (slo_class,), from_s=FROM_S) == good.sum()
    assert simulated_class(slo_class).tpot_slo_s is None


def test_our_own_definitions_change_nothing() -> None:
    trial = poisson_trial(counted(Definitions(ttft=TtftCount.FROM_SENT)))
    other = replace(trial, classes=(counted(Definitions()),))
    one, two = window(trial, 30.0, 1), window(other, 30.0, 1)
    assert one.goodput_rps == two.goodput_rps
    assert np.array_equal(
        one.histograms["chat"][Metric.TPOT].whole.counts, two.histograms["chat"][Metric.TPOT].whole.counts
    )


def test_a_count_that_includes_the_first_token_is_never_passed_at_a_higher_load() -> None:
    """Each request's E2E over its tokens is above its TPOT as long as TTFT is above one gap."""

    def highest(definitions: Definitions) -> float:
        bases = short_bases(poisson_trial(replace(class_with_slos(tpot_p95=0.03), definitions=definitions)))
        return highest_load(bases.nominal, bases.nominal_probe, seed=1, effort=QUICK, with_interval=False).rps

    assert 0 < highest(WITH_FIRST) <= highest(Definitions())


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=50))
def test_kept_durations_fall_into_the_kernels_bins(durations_s: list[float]) -> None:
    found = LogHistogram.of(np.array(durations_s), bins=BINS)
    assert found.total_count == len(durations_s)
    edges = bin_edges_s(BINS)
    for each in durations_s:
        place = bin_of(int(each * 1e12))
        near = found.counts[max(0, place - 1) : place + 2].sum()
        assert near >= 1
        assert edges[max(0, place - 1)] <= each * (1 + 1e-9)


def test_tools_and_choices_are_read_and_unknown_ones_named() -> None:
    assert TOOL_DEFINITIONS["guidellm"].changed == ("ttft from_sent", "tpot with_first_token", "itl per_request")
    assert definitions_of({"tpot": "with_first_token"}) == WITH_FIRST
    with pytest.raises(InputError, match="guidellm"):
        definitions_of("guidelm")
    with pytest.raises(InputError, match="ttft"):
        definitions_of({"ttfx": "from_due"})
    with pytest.raises(InputError, match="pooled or per_request"):
        definitions_of({"itl": "both"})


@pytest.mark.parametrize("given", ["guidellm", {"tpot": "with_first_token", "itl": "per_request", "ttft": "from_sent"}])
def test_a_class_of_a_plan_file_says_how_its_slos_are_counted(given: object) -> None:
    fields = {"name": "chat", "longest_context": "8192 tokens", "slo": {"tpot_p95": "50ms"}, "definitions": given}
    assert request_class(ClassSection.model_validate(fields)).definitions == TOOL_DEFINITIONS["guidellm"]
    with pytest.raises(InputError, match=r"classes\.chat\.definitions"):
        request_class(ClassSection.model_validate({**fields, "definitions": "gidellm"}))
