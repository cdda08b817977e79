"""statsforecast's MSTL as one more forecaster, for those who have installed it: `pip install ullage[forecast]`.

It is only ever a point forecast here: its own intervals covered 54 % where 80 % were asked (statsforecast 2.1), so its
band comes from the same past errors as everybody's. It enters the backtest like any other candidate and is used where
it wins there. The library weighs half a gigabyte with what it needs, which is why it is not a dependency.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ullage.errors import InputError
from ullage.workload.forecast.point_forecasts import FORECASTERS, Floats, Forecaster, Past, seasonal_naive

MSTL = "MSTL"


def with_mstl() -> dict[str, Forecaster]:
    """The usual forecasters and MSTL; an error that says how to install it where it is not."""
    models = _models()

    def mstl(past: Past, steps: int) -> Floats:
        return _mstl(models, past, steps)

    return {**FORECASTERS, MSTL: mstl}


def _models() -> Any:
    try:
        return importlib.import_module("statsforecast.models")
    except ImportError:
        raise InputError(
            field="challenger",
            value=MSTL,
            problem="needs statsforecast, which is not installed",
            fix="Install it with pip install 'ullage[forecast]', or leave the challenger out.",
        ) from None


def _mstl(models: Any, past: Past, steps: int) -> Floats:
    grid = past.grid
    seasons = sorted({each for each in (grid.day_steps, grid.season_steps) if 1 < each <= past.history.size // 2})
    if not seasons:
        return seasonal_naive(past, steps)
    model = models.MSTL(season_length=seasons, trend_forecaster=models.AutoETS(model="ZZN"))
    found = model.forecast(y=_filled(past), h=steps)["mean"]
    return np.maximum(np.asarray(found, np.float64), 0.0)


def _filled(past: Past) -> Floats:
    """Holes filled with the same place of other seasons, since MSTL takes none."""
    history, season_steps = past.history, past.grid.season_steps
    usual = seasonal_naive(past, season_steps)
    slot = (np.arange(history.size) - history.size) % season_steps
    return np.where(np.isnan(history), usual[slot], history)
