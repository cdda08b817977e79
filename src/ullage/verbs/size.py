"""`size`: a plan file and a rate in, the least pool that meets every SLO out."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.service.curve.sizing import PoolSize
    from ullage.verbs.curve import CurveInputs


# A large pool is simulated as a part of it, so that a size may be asked beyond what a plan plays request by request.
_MOST_RPS = 1e6


@dataclass(frozen=True, kw_only=True)
class SizeAnswer:
    """The size, and what it was asked of."""

    pool: CurveInputs
    size: PoolSize
    is_rate_stated: bool
    seed: int


def size(
    file: Path | None = None,
    *,
    rate: str | None = None,
    slos: Sequence[str] = (),
    definitions: str | None = None,
    calibration: Path | None = None,
    beside: str | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> SizeAnswer | Rejection:
    """Size the pool in `file` (the built-in example's where it is None) for a total rate of its mix.

    Without `rate` it is the demand's planning rate. `slos` such as `chat:ttft_p95=500ms` replace or add SLOs;
    `definitions` is the load tool whose latencies they are in.
    """
    from ullage.errors import Rejection
    from ullage.execute.pool import thread_map
    from ullage.service.curve.sizing import size_pool
    from ullage.units import REQUEST_RATE, parse
    from ullage.verbs.curve import load_pool
    from ullage.workload.demand.demand import check_rate

    stated_rps = None if rate is None else parse(_with_unit(rate), REQUEST_RATE, field="--rate")
    if stated_rps is not None:
        check_rate("--rate", stated_rps, _MOST_RPS)
    pool = load_pool(file, slos=slos, definitions=definitions, calibration=calibration, beside=beside, as_of=as_of)
    if isinstance(pool, Rejection):
        return pool
    progress(0.05)
    with thread_map(workers=workers) as spread:
        found = size_pool(
            pool.bases(seed),
            rate_rps=pool.demand.planning_rps if stated_rps is None else stated_rps,
            seed=seed,
            inputs=pool.inputs,
            map=spread,
        )
    progress(1.0)
    if isinstance(found, Rejection):
        return found
    return SizeAnswer(pool=pool, size=found, is_rate_stated=stated_rps is not None, seed=seed)


def _with_unit(rate: str) -> str:
    """A bare number of `--rate` is requests a second: no other rate is asked for here."""
    return f"{rate} req/s" if rate.replace(".", "", 1).strip().isdigit() else rate
