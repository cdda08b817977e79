"""What vLLM's serving benchmark and its descendants (SGLang's, InferenceX's) have in common.

Statistics are flat keys such as `p99_ttft_ms`; requests, where kept, are parallel arrays in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ullage.readers.loadtests.fields import Fields, latency
from ullage.service.loadtests.loadtest import Definition, LatencySummary, Loop, MeasuredRequest, OfferedLoad, Status

# The most that two arrays of one run may differ in length: not at all.
_ARRAYS = (
    *("input_lens", "output_lens", "ttfts", "itls", "latencies"),
    *("start_times", "queue_times", "errors", "cached_tokens"),
)


def flat_latency(fields: Fields, suffix: str, definition: Definition, *, scale: float) -> LatencySummary | None:
    """The statistics under keys that end so. A mean of exactly 0 is how these tools write that nothing was measured."""
    found = latency(fields.ending_in(suffix), definition, scale=scale)
    return None if found is None or found.mean_s == 0.0 else found


def load_of(fields: Fields) -> OfferedLoad:
    """`request_rate` is a number, the word inf (or a bare Infinity) or the word trace; `max_concurrency` caps it.

    A rate that was ramped up is written as inf, and no one rate is that of the test.
    """
    cap = fields.whole("max_concurrency")
    if fields.text("ramp_up_strategy") is not None:
        return OfferedLoad(loop=Loop.OPEN, concurrency_cap_count=cap)
    rate = fields.raw("request_rate")
    burstiness = fields.amount("burstiness")
    if rate == "trace":
        return OfferedLoad(loop=Loop.TRACE, concurrency_cap_count=cap)
    if rate == "inf" or rate is None or (isinstance(rate, float) and math.isinf(rate)):
        return OfferedLoad(loop=Loop.BURST if cap is None else Loop.CLOSED, concurrency_cap_count=cap)
    offered = fields.amount("request_rate")
    return OfferedLoad(loop=Loop.OPEN, offered_rps=offered, concurrency_cap_count=cap, burstiness_ratio=burstiness)


def array_requests(fields: Fields) -> tuple[MeasuredRequest, ...]:
    """The requests, where the tool was told to keep them; arrays of different length mean a damaged file."""
    ttfts, prompts, outputs = fields.numbers("ttfts"), fields.numbers("input_lens"), fields.numbers("output_lens")
    if ttfts is None or prompts is None or outputs is None:
        return ()
    _require_one_length(fields)
    ends = fields.numbers("latencies") or _ends(fields, ttfts)
    starts, waits = fields.numbers("start_times"), fields.numbers("queue_times")
    errors = fields.raw("errors")
    cached = fields.numbers("cached_tokens") if None not in (fields.raw("cached_tokens") or []) else None
    first = min(starts) if starts else 0.0
    return tuple(
        _request(
            failed=isinstance(errors, list) and bool(errors[i]),
            sent_s=None if starts is None else starts[i] - first,
            waited_s=None if waits is None else waits[i],
            ttft_s=ttfts[i],
            e2e_s=None if ends is None else ends[i],
            tokens=(int(prompts[i]), int(outputs[i])),
            cached_tokens=None if cached is None else int(cached[i]),
        )
        for i in range(len(ttfts))
    )


def _request(
    *,
    failed: bool,
    sent_s: float | None,
    waited_s: float | None,
    ttft_s: float,
    e2e_s: float | None,
    tokens: tuple[int, int],
    cached_tokens: int | None,
) -> MeasuredRequest:
    # A request that failed carries zeros, which are not measurements.
    return MeasuredRequest(
        status=Status.FAILED if failed else Status.OK,
        sent_s=sent_s,
        due_s=None if sent_s is None or waited_s is None else sent_s - waited_s,
        ttft_s=None if failed or ttft_s == 0.0 else ttft_s,
        e2e_s=None if failed else e2e_s,
        prompt_tokens=tokens[0],
        output_tokens=None if failed else tokens[1],
        cached_tokens=cached_tokens,
    )


def _ends(fields: Fields, ttfts: Sequence[float]) -> list[float] | None:
    """End to end where it is not kept: the first token plus all gaps after it."""
    gaps = fields.raw("itls")
    if not isinstance(gaps, list):
        return None
    each_of = [fields.with_data({"gaps": each}, f"itls[{index}]").numbers("gaps") for index, each in enumerate(gaps)]
    return [first + math.fsum(each or ()) for first, each in zip(ttfts, each_of, strict=True)]


def _require_one_length(fields: Fields) -> None:
    found = {name: len(fields.raw(name)) for name in _ARRAYS if isinstance(fields.raw(name), list)}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in found.items())
        raise fields.wrong("ttfts", f"the arrays of one run differ in length ({shown})")
