"""Replay: as it was, scaled without losing its bursts, drawn anew by whole days."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.demand_laws import local_dispersion
from ullage.errors import InputError
from ullage.readers.traces.open import open_trace
from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.model import ClassModel, LengthModel, SyntheticModel, synthesised
from ullage.workload.synthetic.modulation import Modulation
from ullage.workload.synthetic.replay import moved, replayed, scaled
from ullage.workload.synthetic.stream import PS_PER_S, Stream
from ullage.workload.trace import Trace

WIDTHS_S = (1.0, 4.0, 10.0, 60.0)


def bursty(hours: float = 24.0, rate_rps: float = 10.0) -> Stream:
    one = ClassModel(
        name="one",
        mean_rate_rps=rate_rps,
        lengths=LengthModel(prompt_tokens=(50.0,) * 12, output_tokens=(5.0,) * 12),
        bursts=Modulation(variances=(0.3, 0.1, 0.1, 0.1, 0.05, 0.05)),
    )
    return synthesised(SyntheticModel(classes=(one,)), span_s=hours * 3600.0, rng=np.random.default_rng(5))


def curve(stream: Stream) -> list[float]:
    return [local_dispersion(stream.counts(width_s)) for width_s in WIDTHS_S]


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.25, 0.5, 0.9, 1.5, 2.0, 3.25])
def test_scaling_multiplies_counts_and_keeps_dispersion_at_every_width(factor: float) -> None:
    source = bursty(hours=48.0)
    streams = [scaled(source, factor, np.random.default_rng(seed)) for seed in range(5)]
    assert np.mean([each.requests for each in streams]) == pytest.approx(factor * source.requests, rel=0.03)
    assert np.mean([curve(each) for each in streams], axis=0) == pytest.approx(curve(source), rel=0.2)
    # A law that coins tossed one by one would break: they lose the share (1 - factor) of all that exceeds Poisson's.
    assert curve(source)[-1] > 20.0


def test_scaling_by_one_is_the_stream_itself() -> None:
    source = bursty(hours=1.0)
    assert scaled(source, 1.0, np.random.default_rng(0)) is source


def test_scaling_keeps_sessions_whole() -> None:
    source = synthesised(builtin(), span_s=4 * 3600.0, rng=np.random.default_rng(2))
    turns = dict(zip(*np.unique(source.session, return_counts=True), strict=True))
    half = scaled(source, 0.5, np.random.default_rng(3))
    for session, kept in zip(*np.unique(half.session, return_counts=True), strict=True):
        assert kept == turns[session]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_a_factor_that_is_none_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match="factor"):
        scaled(bursty(hours=0.1), factor, np.random.default_rng(0))


def test_a_turned_stream_has_the_same_rows() -> None:
    source = synthesised(builtin(), span_s=3600.0, rng=np.random.default_rng(2))
    turned = moved(source, 1_000 * PS_PER_S)
    assert (np.diff(turned.arrival_ps) >= 0).all()
    assert sorted((turned.arrival_ps - 1_000 * PS_PER_S) % source.until_ps) == source.arrival_ps.tolist()
    assert turned.prompt_tokens.sum() == source.prompt_tokens.sum()


def test_what_is_turned_to_the_very_end_comes_in_at_the_start() -> None:
    source = synthesised(builtin(), span_s=600.0, rng=np.random.default_rng(2))
    last = int(source.arrival_ps[-1])
    turned = moved(source, source.until_ps - last)
    assert turned.arrival_ps[0] == 0
    assert (turned.arrival_ps < source.until_ps).all()
    assert turned.prompt_tokens[0] == source.prompt_tokens[source.arrival_ps == last][0]


def test_exact_replay_is_the_trace(shared_data: Path) -> None:
    trace = open_trace([str(shared_data / "traces" / "azure2023_conv.parquet")])
    assert isinstance(trace, Trace)
    stream = replayed(trace)
    assert stream.requests == 19_366
    assert int(np.median(stream.prompt_tokens)) == 1_020
    assert stream.rate_rps == pytest.approx(5.53, rel=0.01)
    doubled = scaled(stream, 2.0, np.random.default_rng(0))
    assert doubled.requests == 2 * stream.requests
    assert [local_dispersion(doubled.counts(w)) for w in (1.0, 4.0)] == pytest.approx(
        [local_dispersion(stream.counts(w)) for w in (1.0, 4.0)], rel=0.15
    )


def test_rows_without_a_length_are_counted_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,10,\n2,10,7\n")
    trace = open_trace([str(file)])
    assert isinstance(trace, Trace)
    stream = replayed(trace)
    assert stream.output_tokens.tolist() == [5, 7]
    assert stream.left_out_count == 1


def test_sessions_without_a_common_clock_cannot_be_replayed(shared_data: Path) -> None:
    trace = open_trace([str(shared_data / "traces" / "weka_claude_code.parquet")])
    assert isinstance(trace, Trace)
    with pytest.raises(InputError, match="no common clock"):
        replayed(trace)
