"""`forecast`: a trace or a saved profile in, its demand over the horizon out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.execute.run import Progress, silent, today

if TYPE_CHECKING:
    from ullage.verbs.answers.forecast_answer import ForecastAnswer
    from ullage.workload.anomalies import Anomaly
    from ullage.workload.profile.profile import Profile

# Weeks of made-up history behind the example: what most services have when they first plan.
EXAMPLE_WEEKS = 8
HORIZON_S = 30 * 86_400.0  # a month is what capacity is ordered for


def forecast(
    source: str | Path | None = None,
    *,
    horizon_s: float = HORIZON_S,
    step_s: float | None = None,
    percentile_fraction: float = 0.95,
    events: Sequence[str] = (),
    by: str = "class",
    challenge: bool = False,
    columns: Mapping[str, str] | None = None,
    format_name: str | None = None,
    zone: str = "",
    as_of: datetime.date | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> ForecastAnswer:
    """Forecast the demand of a trace (or of a profile that was saved) over `horizon_s` seconds.

    Without a source the built-in example is forecast. `events` are texts such as `launch:2026-12-01:2026-12-03:2`.
    `by` says which parts of the traffic are forecast beside all of it. With `challenge`, statsforecast's MSTL takes
    part in the backtest.
    """
    import numpy as np

    from ullage.load.typed import parse_event
    from ullage.verbs.answers.forecast_answer import ForecastAnswer
    from ullage.workload.forecast.challenger import with_mstl
    from ullage.workload.forecast.part_forecast import (
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
        profile = _profile(source, columns=columns, format_name=format_name, zone=zone, as_of=today(as_of))
        histories, name = histories_of(profile, horizon_s=horizon_s, step_s=step_s, by=by), str(source)
        calendar, warnings = profile.coverage.clock is Clock.UTC, profile.anomalies
    progress(0.3)
    parts = forecast_parts(
        histories,
        horizon_s=horizon_s,
        percentile_fraction=percentile_fraction,
        rng=rng,
        events=[parse_event(text, calendar=calendar) for text in events],
        forecasters=with_mstl() if challenge else FORECASTERS,
    )
    return ForecastAnswer(
        as_of=today(as_of),
        source=name,
        calendar=calendar,
        horizon_s=parts[0].forecast.horizon_s,
        percentile_fraction=percentile_fraction,
        seed=seed,
        parts=parts,
        anomalies=(*(anomaly for part in parts for anomaly in part.forecast.anomalies), *warnings),
    )


# Rates of less than a minute are bursts, which a profile describes and no forecast predicts.
LEAST_STEP_S = 60.0


def _check(step_s: float | None, percentile_fraction: float) -> None:
    from ullage.errors import InputError

    if step_s is not None and step_s < LEAST_STEP_S:
        raise InputError(
            field="--step",
            value=f"{step_s:g} s",
            problem=f"is below {LEAST_STEP_S:g} s; shorter steps show bursts, not demand",
            fix="Give for example 15min.",
        )
    if not 0.0 < percentile_fraction < 1.0:
        raise InputError(
            field="--percentile",
            value=percentile_fraction,
            problem="must lie strictly between 0 and 1: no rate is certain never to be exceeded",
            fix="Give for example 95%.",
        )


def _profile(source: str | Path, **reading: Any) -> Profile:
    from ullage.load.traffic import is_saved_profile, profile_traces, read_profile

    return read_profile(Path(source)) if is_saved_profile(source) else profile_traces([source], **reading)
