"""What the plan file decides reaches the figure that it decides, with a trace and without."""

from __future__ import annotations

import datetime
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from support.demand_laws import known_law
from ullage import verbs
from ullage.errors import InputError, Rejection
from ullage.evidence import number
from ullage.fleet.risk.planning_point import planned_percentile
from ullage.load.plan import load_plan
from ullage.planning.spec import PlanSpec
from ullage.workload.demand.demand import Demand, forecast_demand

AS_OF = datetime.date(2026, 11, 15)
FILE = """
version: 1
service: chat
dated: 2026-11-15
workload:
  {trace}
  classes: [{{name: chat, {rate} longest_context: 8192, slo: {{ttft_p95: 2s, tpot_p95: 60ms}}}}]
pool: {{model: llama-3.1-70b, device: h100-sxm, tensor_parallel: 2{pool}}}
policy: {{horizon: {horizon}, shortfall: {shortfall}}}
"""
TRACE = {"trace": "trace: [log.csv]", "rate": ""}


def written(
    folder: Path,
    *,
    trace: str = "",
    rate: str = "rate: 2 req/s,",
    pool: str = "",
    horizon: str = "7d",
    shortfall: str = "5%",
) -> Path:
    file = folder / "plan.yaml"
    file.write_text(FILE.format(trace=trace, rate=rate, pool=pool, horizon=horizon, shortfall=shortfall))
    return file


def demanded(spec: PlanSpec) -> Demand:
    """The plan's first stage."""
    return forecast_demand(
        spec.demands,
        horizon=spec.policy.horizon,
        percentile=planned_percentile(spec.policy.shortfall),
        measured=spec.measured,
    )


def log(folder: Path, weeks: int) -> None:
    """So many weeks of hours of a known law, a quarter of its requests, evenly within the hour."""
    counts = np.maximum(1, np.round(known_law(0, weeks) * 3600.0 / 4.0)).astype(int)
    rows = [f"{3600.0 * hour + 3600.0 * k / n:.3f},100,20" for hour, n in enumerate(counts) for k in range(n)]
    (folder / "log.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n")


@pytest.mark.slow
def test_the_planning_percentile_is_read_off_the_forecast_of_a_trace(tmp_path: Path) -> None:
    log(tmp_path, 4)
    found = {}
    for percentile in (0.5, 0.9, 0.99):
        spec = load_plan(written(tmp_path, **TRACE, shortfall=f"{100 * (1 - percentile):.4g}%"), as_of=AS_OF)
        demand = demanded(spec)
        forecast = spec.measured["chat"].forecast
        assert forecast is not None
        found[percentile] = demand.planning_rps
        # So many of the drawn futures stay below it, each for its whole week.
        below, up_to = np.mean(forecast.busiest < demand.planning_rps), np.mean(forecast.busiest <= demand.planning_rps)
        assert below - 0.01 <= percentile <= up_to + 0.01
        # The mean is no percentile: it stays where it is.
        assert float(demand.figures["demand.chat.mean_rate"].value) == pytest.approx(forecast.mean)
    assert found[0.5] < found[0.9] < found[0.99]


def test_a_short_trace_plans_at_the_percentile_of_what_it_cannot_know(tmp_path: Path) -> None:
    """Twenty minutes of log: the rate is lognormal around peak and growth, with the deviation that is printed."""
    rows = [f"{second},100,20" for second in range(1200)]
    (tmp_path / "log.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n")
    rates = {}
    for percentile in (0.5, 0.9, 0.99):
        spec = load_plan(written(tmp_path, **TRACE, shortfall=f"{100 * (1 - percentile):.4g}%"), as_of=AS_OF)
        figure = demanded(spec).figures["demand.chat.planning_rate"]
        assumed = {each.name: number(each) for each in figure.inputs if not hasattr(each, "formula")}
        rates[percentile] = float(figure.value)
        deviation = assumed["chat.rate_deviation"]
    for percentile, rate_rps in rates.items():
        above = np.exp(NormalDist().inv_cdf(percentile) * deviation)
        assert rate_rps / rates[0.5] == pytest.approx(above)
    grown = (1.0 + assumed["chat.weekly_growth"]) ** 1.0
    assert rates[0.5] == pytest.approx(assumed["chat.peak_hour_ratio"] * grown, rel=0.01)
    assert deviation > 0.2


@pytest.mark.parametrize(("horizon", "weeks"), [("7d", 1.0), ("28d", 4.0)])
def test_a_stated_rate_grows_to_the_end_of_the_horizon(tmp_path: Path, horizon: str, weeks: float) -> None:
    shape = "rate: 2 req/s, weekly_growth: 10%, peak_hour: 3,"
    spec = load_plan(written(tmp_path, rate=shape, horizon=horizon, shortfall="10%"), as_of=AS_OF)
    demand = demanded(spec)
    # Twice a second on average, three times that in the busiest hour; a stated mean is off by a fifth in one of three.
    assert demand.planning_rps == pytest.approx(2 * 3 * 1.1**weeks * np.exp(0.2 * NormalDist().inv_cdf(0.9)))
    # The mean is that of the middle of the horizon.
    assert demand.classes[0].mean_rps == pytest.approx(2 * 1.1 ** (weeks / 2))


def test_a_context_longer_than_any_class_asks_for_must_fit(tmp_path: Path) -> None:
    """A 70B model leaves little beside it on two devices: requests of 8,192 tokens fit, one of 131,072 does not.

    Its KV is 80 layers x 8 heads x 128 x 2 x 2 bytes: 160 KiB a token and device, 20 GiB for that one.
    """
    refused = verbs.plan(written(tmp_path, pool=", max_context: 131072"), as_of=AS_OF)
    assert isinstance(refused, Rejection)
    assert refused.stage == "memory"
    spec = load_plan(written(tmp_path, pool=", max_context: 16384"), as_of=AS_OF)
    assert spec.pools[0].settings.max_context_tokens == 16_384
    # Left out, it is what the classes need.
    assert load_plan(written(tmp_path), as_of=AS_OF).pools[0].settings.max_context_tokens == 8192


def test_a_context_shorter_than_a_class_needs_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="4096"):
        verbs.plan(written(tmp_path, pool=", max_context: 4096"), as_of=AS_OF)
