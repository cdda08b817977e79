"""What is in flight: requests and tokens held at once, second by second, where the trace logs durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.workload.profile.arrivals import GROUP_BINS, CountSeries
from ullage.workload.profile.series import Distribution, distribution
from ullage.workload.profile.summary import HeldLoad

# Three months of seconds: beyond, every second would be more than a distribution needs and memory can spare.
MOST_SECONDS = 8_000_000


@dataclass(frozen=True, kw_only=True)
class InFlight:
    """Requests and active tokens at whole seconds of the trace's time.

    A request holds its prompt from arrival on and its answer as it grows, at an even pace. The mean number of
    requests is Little's law on the logged durations; it is exact, and the sampled mean must agree with it. The
    series hold the highest value of each stretch. Tokens are None where lengths are not known: unknown is not 0.
    """

    timed_fraction: float
    mean_requests: float
    requests: Distribution
    active_tokens: Distribution | None
    requests_series: CountSeries
    active_tokens_series: CountSeries | None


def inflight_of(
    load: HeldLoad | None, *, requests: int, first_s: float, last_s: float, has_lengths: bool = True
) -> InFlight | None:
    """None where durations are not logged: then only a service model can say what is in flight."""
    if load is None or len(load.seconds) == 0 or last_s - first_s < 1 or last_s - first_s > MOST_SECONDS:
        return None
    first = int(load.seconds[0])
    size = int(load.seconds[-1]) - first + 1
    steps = np.zeros(size, dtype=np.int64)
    steps[load.seconds - first] = load.request_steps
    held = np.zeros(size)
    held[load.seconds - first] = load.token_steps
    slope = np.zeros(size)
    slope[load.seconds - first] = load.slope_steps
    growth = np.cumsum(slope)
    tokens = np.cumsum(held) + np.r_[0.0, np.cumsum(growth)[:-1]]
    # Before the first arrival and after the last the trace shows less than there was.
    stop = max(1, min(size, int(last_s) - first + 1))
    counts = np.cumsum(steps)[:stop]
    active = np.maximum(np.round(tokens[:stop], 3), 0.0)
    of_requests, of_tokens = distribution(counts, "requests"), distribution(active, "tokens")
    assert of_requests is not None
    assert of_tokens is not None
    return InFlight(
        timed_fraction=load.timed_requests / requests,
        mean_requests=load.busy_s / (last_s - first_s),
        requests=of_requests,
        active_tokens=of_tokens if has_lengths else None,
        requests_series=_highest(counts, first),
        active_tokens_series=_highest(active, first) if has_lengths else None,
    )


def _highest(values: NDArray[Any], first: int) -> CountSeries:
    """The highest value of each of at most GROUP_BINS stretches of equal length."""
    width = -(-len(values) // GROUP_BINS)
    highest = np.maximum.reduceat(values, np.arange(0, len(values), width))
    return CountSeries(start_s=float(first), width_s=float(width), counts=tuple(round(float(each)) for each in highest))
