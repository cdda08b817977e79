"""`forecast`: a trace or a saved profile in, its demand over the horizon out."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.workload.anomalies import Anomaly
    from ullage.workload.forecast.demand_series import DemandEvent
    from ullage.workload.forecast.part_forecast import ServiceForecast
    from ullage.workload.profile.profile import Profile

# Weeks of made-up history behind the example: what most services have when they first plan.
EXAMPLE_WEEKS = 8


def forecast(
    source: str | Path | None = None,
    *,
    horizon_s: float,
    step_s: float | None = None,
    percentile_fraction: float = 0.95,
    events: Sequence[str] = (),
    by: str = "class",
    challenge: bool = False,
    mapping: Mapping[str, str] | None = None,
    format_name: str | None = None,
    zone: str = "",
    as_of: datetime.date | None = None,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> ServiceForecast:
    """Forecast the demand of a trace (or of a profile that was saved) over `horizon_s` seconds.

    Without a source the built-in example is forecast. `events` are texts such as `launch:2026-12-01:2026-12-03:2`.
    `by` says which parts of the traffic are forecast beside all of it. With `challenge`, statsforecast's MSTL takes
    part in the backtest.
    """
    import numpy as np

    from ullage.workload.forecast.challenger import with_mstl
    from ullage.workload.forecast.part_forecast import (
        ServiceForecast,
        example_histories,
        forecast_parts,
        histories_of,
        step_for,
    )
    from ullage.workload.forecast.point_forecasts import FORECASTERS
    from ullage.workload.synthetic.builtin import builtin
    from ullage.workload.trace import Clock

    _check(step_s, percentile_fraction)
    rng = np.random.default_rng(seed)
    if source is None:
        histories = example_histories(builtin(), weeks=EXAMPLE_WEEKS, step_s=step_s or step_for(horizon_s), rng=rng)
        name, calendar = "the built-in example", False
        warnings: tuple[Anomaly, ...] = ()
    else:
        profile = _profile(source, mapping=mapping, format_name=format_name, zone=zone, as_of=as_of)
        histories, name = histories_of(profile, horizon_s=horizon_s, step_s=step_s, by=by), str(source)
        calendar, warnings = profile.coverage.clock is Clock.UTC, profile.anomalies
    progress(0.3)
    parts = forecast_parts(
        histories,
        horizon_s=horizon_s,
        percentile_fraction=percentile_fraction,
        rng=rng,
        events=[event_of(text, calendar=calendar) for text in events],
        forecasters=with_mstl() if challenge else FORECASTERS,
    )
    return ServiceForecast(
        source=name,
        calendar=calendar,
        horizon_s=parts[0].forecast.horizon_s,
        percentile_fraction=percentile_fraction,
        seed=seed,
        parts=parts,
        anomalies=(*(anomaly for part in parts for anomaly in part.forecast.anomalies), *warnings),
    )


# Rates of less than a minute are bursts, which a profile describes and no forecast foretells.
LEAST_STEP_S = 60.0


def _check(step_s: float | None, percentile_fraction: float) -> None:
    from ullage.errors import InputError

    if step_s is not None and step_s < LEAST_STEP_S:
        raise InputError(
            field="--step",
            value=f"{step_s:g} s",
            problem=f"is finer than {LEAST_STEP_S:g} s, and shorter steps are bursts, not demand",
            fix="Give for example 15min.",
        )
    if not 0.0 < percentile_fraction < 1.0:
        raise InputError(
            field="--percentile",
            value=percentile_fraction,
            problem="must lie strictly between 0 and 1: no rate is sure never to be exceeded",
            fix="Give for example 95%.",
        )


def _profile(
    source: str | Path,
    *,
    mapping: Mapping[str, str] | None,
    format_name: str | None,
    zone: str,
    as_of: datetime.date | None,
) -> Profile:
    from ullage.verbs.profile import load_profile, profile
    from ullage.workload.profile.saved import SCHEMA

    path = Path(source)
    if path.is_file() and path.suffix == ".json":
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(200)
        if SCHEMA.partition("/")[0] in head:
            return load_profile(path)
    return profile([source], mapping=mapping, format_name=format_name, zone=zone, as_of=as_of).own


def event_of(text: str, *, calendar: bool) -> DemandEvent:
    """An event from text such as `launch:2026-12-01:2026-12-03:2`: name, first day, the day after the last, ratio."""
    from ullage.errors import InputError
    from ullage.workload.forecast.demand_series import DemandEvent

    name, *rest = text.split(":")
    try:
        if not name or len(rest) not in (2, 3):
            raise ValueError
        days = [datetime.date.fromisoformat(each) for each in rest[:2]]
        ratio = float(rest[2]) if len(rest) == 3 else None
    except ValueError:
        raise InputError(
            field="--event",
            value=text,
            problem="is not NAME:FROM:TO[:RATIO]",
            fix="Give for example launch:2026-12-01:2026-12-03:2, or leave the ratio of a known holiday out.",
        ) from None
    if not calendar:
        raise InputError(
            field="--event",
            value=text,
            problem="has dates, and the trace has no calendar to put them in",
            fix="Give a trace whose times are dates.",
        )
    start_s, end_s = (datetime.datetime.combine(day, datetime.time(), tzinfo=datetime.UTC).timestamp() for day in days)
    return DemandEvent(name=name, start_s=start_s, end_s=end_s, demand_ratio=ratio)
