"""Forecasts against what came: the planning rate on simulated futures, published series rolled through, and 200
series of a known law.

    .venv/bin/python bench/forecast.py [--histories 125] [--growing 300] [--futures 8] [--series 200]
                                    [--data ../shared/data]

Every table of bands has the seasonal naive forecast, with a band made the same way, in the same run. The planning rate
has beside it the busiest hour seen times the one constant that does best in hindsight.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.demand_laws import PLANNING_LAWS, hourly, known_law
from ullage.workload.forecast.demand_series import DemandEvent
from ullage.workload.forecast.error_model import FRACTIONS
from ullage.workload.forecast.forecast import BAND_FRACTION, Forecast, forecast
from ullage.workload.forecast.scores import Scores, scores
from ullage.workload.forecast.together import busiest_together, correlation

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


KNOWN_WEEKS, AHEAD_DAYS = (1, 2, 4, 8), (1, 7, 30, 90)
PLANNED = 0.95
# The constants of the forecaster were chosen on other seeds than those from here on.
FIRST_SEED = 1000


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One history: the rate planned, the busiest hour seen, and the busiest hours observed, one a future."""

    planning: float
    seen: float
    came: Floats

    def loss(self, planning: float) -> float:
        """Mean pinball loss over the observed busiest hour, so that laws of any rate weigh the same."""
        over = (self.came - planning) / self.came
        return float(np.maximum(PLANNED * over, (PLANNED - 1.0) * over).mean())


Cells = dict[tuple[int, int, str], list[Planned]]


def planned_cells(histories: int, growing: int, futures: int) -> Cells:
    """Every law, length of history and horizon; histories of one seed end at one hour and have the same futures.

    A law that grows has histories of its own number: what it exceeds varies most from history to history.
    """
    cells: Cells = {}
    for place, law in enumerate(PLANNING_LAWS):
        for seed in range(growing if law.weekly_growth else histories):
            history, came = law.draw(FIRST_SEED + seed + 100_003 * place, weeks=8, ahead_hours=90 * 24, futures=futures)
            for weeks in KNOWN_WEEKS:
                known_hours = history[-weeks * 168 :]
                for days in AHEAD_DAYS:
                    found = forecast(hourly(known_hours), horizon_s=days * DAY_S, rng=np.random.default_rng(seed))
                    each = Planned(
                        planning=found.planning(PLANNED),
                        seen=float(known_hours.max()),
                        came=came[:, : days * 24].max(axis=1),
                    )
                    cells.setdefault((weeks, days, law.name), []).append(each)
    return cells


def planning_table(histories: int, growing: int, futures: int) -> None:
    """Over the laws every law counts the same, however many histories it has."""
    cells = planned_cells(histories, growing, futures)
    multiples = np.arange(1.0, 3.0, 0.02).tolist()
    best = min(multiples, key=lambda one: _mean_loss(cells.values(), one))
    print(
        f"{PLANNED:.0%} planning rates, {histories} histories x {futures} futures a law and cell, {growing} of a law "
        "that grows:\n"
    )
    names = [law.name for law in PLANNING_LAWS]
    print(
        f"| known | ahead | exceeded | {' | '.join(names)} | median rate / observed busiest hour "
        f"| {' | '.join(names)} | pinball | of {best:.2f} x busiest seen |"
    )
    print("|---" * (2 + 2 * (1 + len(names)) + 2) + "|")
    losses = []
    for weeks in KNOWN_WEEKS:
        for days in AHEAD_DAYS:
            by_law = [cells[weeks, days, name] for name in names]
            over = [np.concatenate([each.came > each.planning for each in cell]) for cell in by_law]
            ratio = [np.concatenate([each.planning / each.came for each in cell]) for cell in by_law]
            same = np.concatenate([np.resize(each, ratio[0].size) for each in ratio])
            ours, constant = _mean_loss(by_law), _mean_loss(by_law, best)
            losses.append((ours, constant))
            print(
                f"| {weeks} weeks | {days} days | {np.mean([each.mean() for each in over]):.1%} "
                f"| {' | '.join(f'{each.mean():.1%}' for each in over)} | {np.median(same):.2f} "
                f"| {' | '.join(f'{np.median(each):.2f}' for each in ratio)} | {ours:.4f} | {constant:.4f} |",
                flush=True,
            )
    ours, constant = np.mean(losses, axis=0).tolist()
    print(f"\nMean pinball loss over all cells: {ours:.4f}, of the constant multiple {constant:.4f}.\n")


def _mean_loss(cells: Iterable[list[Planned]], multiple: float | None = None) -> float:
    """Over the cells, of our rate, or of this multiple of the busiest hour seen."""
    means = [
        float(np.mean([each.loss(each.planning if multiple is None else multiple * each.seen) for each in cell]))
        for cell in cells
    ]
    return float(np.mean(means))


def launches(histories: int, futures: int) -> None:
    """A launch that doubles demand for three days of the horizon, stated and not."""
    law, end_s = PLANNING_LAWS[0], 4 * 168 * 3600.0
    launch = DemandEvent(name="launch", start_s=end_s + 10 * DAY_S, end_s=end_s + 13 * DAY_S, demand_ratio=2.0)
    over: dict[str, list[float]] = {"not stated": [], "stated": []}
    for seed in range(histories):
        history, came = law.draw(FIRST_SEED + seed, weeks=4, ahead_hours=720, futures=futures)
        came[:, 240:312] *= 2.0
        for name, events in (("not stated", []), ("stated", [launch])):
            found = forecast(hourly(history), horizon_s=30 * DAY_S, rng=np.random.default_rng(seed), events=events)
            over[name].append(float(np.mean(came.max(axis=1) > found.planning(PLANNED))))
    print("A launch that doubles the diurnal law for three days, 4 weeks known, 30 days ahead:")
    print(", ".join(f"{name}: exceeded in {np.mean(each):.1%} of futures" for name, each in over.items()) + ".\n")


def classes_together(histories: int, futures: int) -> None:
    """Two classes of the diurnal law, planned together by their measured correlation and by the sum of their rates."""
    print("Two classes of the diurnal law, 4 weeks known, 30 days ahead; the busiest hour of their sum:\n")
    print(
        "| variance of the levels in common | measured correlation | exceeded | median rate / observed busiest hour "
        "| sum of rates: exceeded | median |"
    )
    print("|---|---|---|---|---|---|")
    for shared in (0.0, 0.5, 1.0):
        rows = []
        for seed in range(histories):
            drawn = PLANNING_LAWS[0].draw_classes(
                FIRST_SEED + seed, classes=2, weeks=4, ahead_hours=720, futures=futures, shared_fraction=shared
            )
            series = [hourly(history) for history, _ in drawn]
            rng = np.random.default_rng(seed)
            found = [forecast(each, horizon_s=30 * DAY_S, rng=rng) for each in series]
            agreed = correlation(*series)
            plannings = np.array([each.planning(PLANNED) for each in found])
            seasons = np.array([each.at(0.5)[:168] for each in found])
            total = busiest_together(
                np.array([each.planning(0.5) for each in found]),
                plannings,
                seasons,
                np.array([[1, agreed], [agreed, 1]]),
            )
            came = (drawn[0][1] + drawn[1][1]).max(axis=1)
            summed = float(plannings.sum())
            rows.append(
                [
                    agreed,
                    np.mean(came > total),
                    np.median(total / came),
                    np.mean(came > summed),
                    np.median(summed / came),
                ]
            )
        agreed, over, ratio, sum_over, sum_ratio = np.mean(rows, axis=0).tolist()
        print(
            f"| {shared:.0%} | {agreed:.2f} | {over:.1%} | {ratio:.2f} | {sum_over:.1%} | {sum_ratio:.2f} |", flush=True
        )
    print()


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
    asked.add_argument("--histories", type=int, default=125)
    asked.add_argument("--growing", type=int, default=300)
    asked.add_argument("--futures", type=int, default=8)
    asked.add_argument("--series", type=int, default=200)
    asked.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    given = asked.parse_args()
    planning_table(given.histories, given.growing, given.futures)
    launches(given.histories, given.futures)
    classes_together(given.histories, given.futures)
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
