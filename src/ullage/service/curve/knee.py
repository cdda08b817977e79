"""The knee of a service curve: where more load begins to cost latency out of proportion.

The knee is where latency begins to climb with load; it does not depend on SLOs. It may lie above the operating
point (strict SLOs) or below it (lax ones), which is why both are shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# A curve whose largest distance from its chord is below this is straight, and a straight line has no knee.
LEAST_BEND = 0.1


def knee_rps(loads_rps: Sequence[float], latencies_s: Sequence[float]) -> float | None:
    """The load at which the curve lies furthest below the chord between its ends.

    Both axes are scaled to 0..1 first; for a smooth convex curve this is the point of greatest curvature (Satopaa et
    al., "Finding a Kneedle in a Haystack", 2011). Latencies are raised to their running maximum, since noise is no
    bend. None for fewer than four loads, and for a curve that is straight.

    >>> loads = [0.1 * k for k in range(1, 10)]
    >>> round(knee_rps(loads, [1 / (1 - load) for load in loads]), 1)
    0.7
    """
    if len(loads_rps) < 4:
        return None
    order = np.argsort(np.asarray(loads_rps, np.float64))
    loads = np.asarray(loads_rps, np.float64)[order]
    latencies = np.maximum.accumulate(np.asarray(latencies_s, np.float64)[order])
    width, height = loads[-1] - loads[0], latencies[-1] - latencies[0]
    if width <= 0.0 or height <= 0.0:
        return None
    below = (loads - loads[0]) / width - (latencies - latencies[0]) / height
    place = int(np.argmax(below))
    return float(loads[place]) if below[place] >= LEAST_BEND else None
