"""The requests that `simulate` sends: a trace replayed, stated lengths at a rate, or the busy hour of a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import InputError

if TYPE_CHECKING:
    from numpy.random import Generator

    from ullage.load.pool import CurveInputs
    from ullage.verbs.simulate import LoadChoice
    from ullage.workload.synthetic.stream import Stream

DEFAULT_SPAN_S = 600.0
"""How long traffic that is made rather than replayed lasts: long enough for thousands of requests of a busy replica."""
MOST_REQUESTS = 50_000_000


def load_stream(load: LoadChoice, planned: CurveInputs | None, rng: Generator) -> tuple[Stream, str]:
    """The requests of a load, and what they are in a sentence."""
    if load.traces:
        return _replayed(load, rng)
    if load.prompt_tokens is not None:
        return _made(load, rng)
    assert planned is not None
    return _of_mix(load, planned, rng)


def _replayed(load: LoadChoice, rng: Generator) -> tuple[Stream, str]:
    from ullage.load.traffic import open_requests
    from ullage.workload.synthetic.replay import replayed, scaled

    trace = open_requests(
        load.traces,
        columns=dict(load.columns),
        zone=load.zone,
        field="trace",
        problem="holds rates and length summaries, not single requests, so there is nothing to replay",
        fix="Plan with it (workload.trace in a plan file), and simulate the plan: ullage simulate --plan FILE.",
    )
    whole = replayed(trace)
    stream = whole if load.span_s is None else _cut(whole, load.span_s)
    factor = load.traffic_ratio * (1.0 if load.rate_rps is None else load.rate_rps / stream.rate_rps)
    _require_size(stream.requests * factor)
    said = f"{whole.requests:,} requests of {', '.join(Path(each).name for each in load.traces)}"
    if stream.requests != whole.requests:
        said = f"the first {stream.requests:,} of {said}"
    if factor == 1.0:
        return stream, f"{said}, as they arrived"
    return scaled(stream, factor, rng), f"{said}, scaled to {factor:.4g} times the traffic"


def _cut(stream: Stream, span_s: float) -> Stream:
    import numpy as np

    from ullage.workload.synthetic.stream import PS_PER_S

    until_ps = min(stream.until_ps, round(span_s * PS_PER_S))
    return replace(stream.where(np.flatnonzero(stream.arrival_ps < until_ps)), until_ps=until_ps)


def _made(load: LoadChoice, rng: Generator) -> tuple[Stream, str]:
    """Requests of stated lengths, evenly spaced or by a Poisson process."""
    import numpy as np

    from ullage.service.calibration.replay import uniform_lengths
    from ullage.workload.synthetic.stream import NO_SESSION, PS_PER_S, Stream

    assert load.prompt_tokens is not None
    assert load.output_tokens is not None
    if load.rate_rps is None:
        fix = "Give --rate, for example 5/s."
        raise InputError(field="--rate", value="not given", problem="synthetic requests need a rate", fix=fix)
    rate_rps, span_s = load.rate_rps * load.traffic_ratio, load.span_s or DEFAULT_SPAN_S
    _require_size(rate_rps * span_s)
    if load.arrivals == "constant":
        arrival_s = np.arange(max(1, round(rate_rps * span_s))) / rate_rps
    else:
        count = max(1, int(rng.poisson(rate_rps * span_s)))
        arrival_s = np.sort(rng.uniform(0.0, span_s, count))
    count = arrival_s.size
    least = 1.0 if load.least_fraction is None else load.least_fraction
    prompt = uniform_lengths(load.prompt_tokens, count, least_fraction=least, rng=rng)
    stream = Stream(
        arrival_ps=np.rint(arrival_s * PS_PER_S).astype(np.int64),
        prompt_tokens=prompt,
        output_tokens=uniform_lengths(load.output_tokens, count, least_fraction=least, rng=rng),
        cached_tokens=np.minimum(np.rint((load.cached_fraction or 0.0) * prompt), prompt - 1).astype(np.int32),
        reuse_blocks=np.zeros(count, np.int32),
        class_index=np.zeros(count, np.int16),
        tenant=np.zeros(count, np.int32),
        session=np.full(count, NO_SESSION, np.int32),
        class_names=("all",),
        deadlines_s=(float("inf"),),
        until_ps=round(span_s * PS_PER_S),
    )
    return stream, (
        f"{count:,} requests of {load.prompt_tokens:,} prompt and {load.output_tokens:,} output tokens, {load.arrivals}"
    )


def _of_mix(load: LoadChoice, planned: CurveInputs, rng: Generator) -> tuple[Stream, str]:
    """The plan's busy hour, with its bursts and sessions, without season and growth."""
    import numpy as np

    from ullage.workload.synthetic.model import HOURS_PER_WEEK, SyntheticModel, recipe
    from ullage.workload.synthetic.stream import generate

    model = planned.demand.busy_model
    level = SyntheticModel(
        classes=tuple(
            replace(each, season=(1.0,) * HOURS_PER_WEEK, weekly_growth_fraction=0.0, launches=())
            for each in model.classes
        )
    )
    own_rps = sum(each.mean_rate_rps for each in level.classes)
    rate_rps = (load.rate_rps or own_rps) * load.traffic_ratio
    span_s = load.span_s or DEFAULT_SPAN_S
    _require_size(rate_rps * span_s)
    drawn = recipe(level, span_s=span_s, rng=rng)
    # Bursts move the rate inside the run; its mean is what was asked for, class by class.
    wanted = np.array([each.mean_rate_rps for each in level.classes]) * (rate_rps / own_rps)
    held = drawn.rates_rps * (wanted / np.maximum(drawn.rates_rps.mean(axis=0), 1e-300))
    stream = generate(replace(drawn, rates_rps=held), rng)
    return stream, f"{stream.requests:,} requests of the busy hour of {planned.service}"


def _require_size(requests: float) -> None:
    if requests > MOST_REQUESTS:
        raise InputError(
            field="traffic",
            value=f"{requests:,.0f} requests",
            problem=f"is more than {MOST_REQUESTS:,}",
            fix="Shorten it with --span, or lower --rate or --traffic.",
        )
