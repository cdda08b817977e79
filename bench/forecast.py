"""Forecasts against what came: published series rolled through, and 200 series of a known law.

    .venv/bin/python bench/forecast.py [--series 200] [--data ../shared/data]

Every table has the seasonal naive forecast, with a band made the same way, in the same run.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.demand_laws import hourly, known_law
from ullage.workload.forecast.conformal import FRACTIONS
from ullage.workload.forecast.forecast import BAND_FRACTION, Forecast, forecast
from ullage.workload.forecast.scores import Scores, scores

Floats = NDArray[np.float64]
DAY_S = 86_400.0


def rolled(values: Floats, *, step_s: float, first: int, steps: int) -> dict[str, Scores]:
    """Forecast `steps` ahead from `first` on, then from where that ended, to the end of the series."""
    rng = np.random.default_rng(0)
    came: list[Floats] = []
    quantiles: dict[str, list[Floats]] = {"ours": [], "seasonal naive": []}
    for origin in range(first, values.size, steps):
        found = forecast(replace(hourly(values[:origin]), step_s=step_s), horizon_s=steps * step_s, rng=rng)
        now = values[origin : origin + steps]
        came.append(now)
        quantiles["ours"].append(found.quantiles[: now.size])
        quantiles["seasonal naive"].append(found.naive_quantiles[: now.size])
    return {
        name: scores(
            np.concatenate(came),
            np.concatenate(each),
            FRACTIONS,
            nominal_fraction=BAND_FRACTION,
            block=max(7, round(DAY_S / step_s)),
            rng=rng,
        )
        for name, each in quantiles.items()
    }


@dataclass(frozen=True, kw_only=True)
class Case:
    """So much history, so far ahead, rolled on by the horizon so often: each weekday once, or some weeks in a row."""

    weeks: int
    days: int
    rolls: int


# One day of one series is one or two witnesses, since its hours err together: 200 of them know the coverage to 1.2
# points. Rolling on makes that about half a point.
CASES = (
    Case(weeks=1, days=1, rolls=7),
    Case(weeks=1, days=7, rolls=3),
    Case(weeks=2, days=7, rolls=3),
    Case(weeks=4, days=7, rolls=3),
    Case(weeks=8, days=1, rolls=7),
    Case(weeks=8, days=7, rolls=3),
    Case(weeks=8, days=28, rolls=1),
)


def known(series: int, case: Case) -> tuple[list[float], float, float]:
    """Means over the series: coverage, width over mean, pinball, naive pinball, planning held; then the standard error
    of the coverage, a series a witness; and seconds a fit."""
    rows, spent_s = [], 0.0
    past_hours, ahead_hours = case.weeks * 168, case.days * 24
    for seed in range(series):
        values = known_law(seed, case.weeks + 5)
        rolled = []
        for first in range(0, case.rolls * ahead_hours, ahead_hours):
            past = values[first : first + past_hours]
            came = values[first + past_hours : first + past_hours + ahead_hours]
            started = time.process_time()
            found = forecast(hourly(past), horizon_s=case.days * DAY_S, rng=np.random.default_rng(seed))
            spent_s += time.process_time() - started
            rolled.append(_figures(found, came))
        rows.append(np.mean(rolled, axis=0))
    error = float(np.std([row[0] for row in rows], ddof=1)) / math.sqrt(series)
    return np.mean(rows, axis=0).tolist(), error, spent_s / series / case.rolls


def _figures(found: Forecast, came: Floats) -> list[float]:
    low, high = found.at(0.1), found.at(0.9)
    ours, naive = (
        scores(came, each, FRACTIONS, nominal_fraction=0.8, block=24, rng=np.random.default_rng(0)).pinball_ratio
        for each in (found.quantiles, found.naive_quantiles)
    )
    covered = float(np.mean((came >= low) & (came <= high)))
    width = float((high - low).mean() / came.mean())
    return [covered, width, ours, naive, float(came.max() <= found.planning(0.95))]


def answer(sql: str) -> Floats:
    return np.array(duckdb.execute(sql).fetchall(), np.float64)[:, 0]


def published(data: Path) -> None:
    if not data.is_dir():
        print(f"{data} is not there: the published series are left out.\n")
        return
    ten_minutes = answer(
        f"SELECT sum(rate_rps) FROM '{data}/traces/servegen_client_rates.parquet' "
        "WHERE model = 'm-large' GROUP BY t_s ORDER BY t_s"
    )
    large = ten_minutes.reshape(-1, 6).mean(axis=1)
    daily = answer(f"SELECT requests FROM '{data}/traces/burstgpt_agg_daily.parquet' ORDER BY day")
    cases = {
        "ServeGen m-large, hourly, 7 days known, 1 day ahead": rolled(large, step_s=3600.0, first=168, steps=24),
        "ServeGen m-large, hourly, 7 days known, 7 days ahead": rolled(large, step_s=3600.0, first=168, steps=168),
        "BurstGPT, daily, 28 days known, 1 day ahead": rolled(daily, step_s=DAY_S, first=28, steps=1),
        "BurstGPT, daily, 28 days known, 7 days ahead": rolled(daily, step_s=DAY_S, first=28, steps=7),
    }
    print("| series | forecaster | WAPE | bias | pinball | CRPS | 80 % band held | which may be |")
    print("|---|---|---|---|---|---|---|---|")
    for name, found in cases.items():
        for who, each in found.items():
            print(
                f"| {name} | {who} | {each.wape_fraction:.1%} | {each.bias_fraction:+.1%} | {each.pinball_ratio:.4f} "
                f"| {each.crps_ratio:.4f} | {each.coverage_fraction:.1%} "
                f"| {each.coverage_low_fraction:.0%} to {each.coverage_high_fraction:.0%} |"
            )
    print()


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--series", type=int, default=200)
    asked.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    given = asked.parse_args()
    published(given.data)
    print(f"{given.series} series of a known law:\n")
    print(
        "| history | ahead | forecasts | 80 % band held | width / mean | pinball | naive | p95 of peak held | s a fit |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        (covered, width, ours, naive, held), error, fit_s = known(given.series, case)
        print(
            f"| {case.weeks} weeks | {case.days} days | {given.series * case.rolls} | {covered:.1%} +- {error:.1%} "
            f"| {width:.3f} | {ours:.4f} | {naive:.4f} | {held:.1%} | {fit_s:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
