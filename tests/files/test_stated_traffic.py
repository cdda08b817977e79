"""Traffic that is stated: lengths, growth, peak, events, a saved profile, an edited synthetic model."""

from __future__ import annotations

import csv
import datetime
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.fleet.risk.planning_point import planned_percentile
from ullage.load.plan import load_plan
from ullage.planning.spec import PlanSpec
from ullage.report.encode import to_json
from ullage.verbs.profile import profile, save_profile
from ullage.workload.demand.demand import Demand, forecast_demand
from ullage.workload.demand.stated import StatedShape, with_lengths
from ullage.workload.synthetic.builtin import builtin

AS_OF = datetime.date(2026, 11, 15)
FILE = """
version: 1
service: chat
dated: DATED
workload:
  WORKLOAD
  classes:
    - {name: chat, longest_context: 16384, slo: {ttft_p95: 2s}CLASS}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""
SOURCE = Source(what="a test", where="here", date=AS_OF)


def spec(
    folder: Path, *, workload: str = "columns: {}", said: str = ", rate: 4 req/s", dated: datetime.date = AS_OF
) -> PlanSpec:
    file = folder / "plan.yaml"
    file.write_text(FILE.replace("WORKLOAD", workload).replace("CLASS", said).replace("DATED", dated.isoformat()))
    return load_plan(file, as_of=AS_OF)


def demand(found: PlanSpec) -> Demand:
    policy = found.policy
    measured = None if found.traffic is None else found.traffic.classes
    return forecast_demand(
        found.demands, horizon=policy.horizon, percentile=planned_percentile(policy.shortfall), measured=measured
    )


def test_stated_lengths_are_met_and_stated(tmp_path: Path) -> None:
    found = spec(tmp_path, said=", rate: 4 req/s, prompt: {p50: 3000, p95: 9000}, output: {p50: 100, p99: 900}")
    figures = demand(found).figures
    assert figures["demand.chat.prompt_p50"].value == pytest.approx(3000, rel=0.02)
    assert figures["demand.chat.prompt_p95"].value == pytest.approx(9000, rel=0.02)
    assert figures["demand.chat.output_p99"].value == pytest.approx(900, rel=0.05)
    assert figures["demand.chat.prompt_p95"].evidence is Evidence.STATED
    assert {"chat.prompt_p50", "chat.output_p99"} <= {each.name for each in found.inputs}


@given(
    middle=st.integers(1, 20_000),
    ratio=st.floats(1.0, 50.0),
    longest=st.integers(64, 100_000),
)
def test_lengths_rise_and_fit_whatever_was_stated(middle: int, ratio: float, longest: int) -> None:
    def said(value: float) -> Assumption:
        return Assumption(name="p", value=value, unit="tokens", evidence=Evidence.STATED, source=SOURCE)

    shape = StatedShape(prompt={0.5: said(middle), 0.95: said(middle * ratio)})
    model = with_lengths(builtin().classes[0], shape, longest_tokens=longest)
    prompts, outputs = model.lengths.prompt_tokens, model.lengths.output_tokens
    assert list(prompts) == sorted(prompts)
    assert prompts[-1] + outputs[-1] <= longest + 1
    assert min(*prompts, *outputs) >= 1


def test_growth_peak_and_events_multiply_the_planning_rate(tmp_path: Path) -> None:
    def planned(said: str, workload: str = "columns: {}") -> float:
        return demand(spec(tmp_path, workload=workload, said=f", rate: 4 req/s, peak_hour: 2{said}")).planning_rps

    base = planned(", weekly_growth: 0%")
    weeks = 30 / 7
    assert planned(", weekly_growth: 2%") == pytest.approx(base * 1.02**weeks)
    # What shrinks is highest on the day of planning.
    assert planned(", weekly_growth: -3%") == pytest.approx(base)
    launch = "events: [{name: launch, from: 2026-12-01, to: 2026-12-03, demand: 2.5}]"
    assert planned(", weekly_growth: 0%", launch) == pytest.approx(2.5 * base)
    assert planned(", weekly_growth: 0%", launch.replace("2026-12", "2027-12")) == pytest.approx(base)


@settings(max_examples=10)
@given(days=st.integers(1, 300), percent=st.floats(-9.0, 9.0), rate_rps=st.floats(0.1, 5.0))
def test_a_rate_of_some_days_ago_is_planned_like_what_it_has_grown_to(
    days: int, percent: float, rate_rps: float
) -> None:
    percent = round(percent, 3)
    grown = rate_rps * (1.0 + percent / 100.0) ** (days / 7.0)
    growth = f", weekly_growth: {percent}%, peak_hour: 2"
    with tempfile.TemporaryDirectory() as folder:
        old, new = (
            demand(spec(Path(folder), said=f", rate: {rate} req/s{growth}", dated=AS_OF - datetime.timedelta(days=ago)))
            for rate, ago in ((rate_rps, days), (grown, 0))
        )
        (was,), (now,) = old.classes, new.classes
        assert was.model.mean_rate_rps == pytest.approx(now.model.mean_rate_rps)
        assert was.model.weekly_growth_fraction == now.model.weekly_growth_fraction
        # Its age widens the band, and leaves the middle where it is.
        assert was.middle_rps == pytest.approx(now.middle_rps)
        assert was.mean_rps == pytest.approx(now.mean_rps)
        assert was.planning_rps >= now.planning_rps * (1.0 - 1e-9)


def test_a_rate_without_a_stated_growth_stays_what_was_stated(tmp_path: Path) -> None:
    old = AS_OF - datetime.timedelta(days=80)
    (kept,) = spec(tmp_path, dated=old).demands
    assert (kept.mean_rate.value, kept.dated_rate) == (4.0, None)
    (grown,) = spec(tmp_path, said=", rate: 4 req/s, weekly_growth: 2%", dated=old).demands
    assert grown.dated_rate is not None
    assert grown.dated_rate.value == 4.0
    assert "4 req/s on 2026-08-27, grown 2 % a week since" in grown.mean_rate.source.what
    assert grown.mean_rate.age(AS_OF).days == 80


@pytest.mark.parametrize("said", ["", ", rate: 4 req/s"])
def test_a_short_log_grows_from_its_own_day_and_a_stated_rate_from_its(tmp_path: Path, said: str) -> None:
    log = tmp_path / "log.csv"
    start = datetime.datetime(2026, 9, 6, 12, tzinfo=datetime.UTC)
    rows = [(start + datetime.timedelta(seconds=1.5 * at)).isoformat() + ",900,100" for at in range(800)]
    log.write_text("timestamp,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    dated = AS_OF - datetime.timedelta(weeks=4)
    growth = f", weekly_growth: 5%, peak_hour: 2{said}"
    flat, grown = (
        demand(spec(tmp_path, workload="trace: [log.csv]", said=each, dated=dated)).classes[0].middle_rps
        for each in (growth.replace("5%", "0%"), growth)
    )
    weeks = (4 if said else 10) + 30 / 7
    assert grown == pytest.approx(flat * 1.05**weeks)


def test_an_edited_synthetic_model_is_the_class(tmp_path: Path) -> None:
    document = {"schema": "ullage.synthetic/2", "model": to_json(builtin())}
    document["model"]["classes"][0]["lengths"]["prompt_tokens"] = [10] * 12
    (tmp_path / "model.json").write_text(json.dumps(document))
    found = demand(spec(tmp_path, workload="synthetic: model.json", said=""))
    assert found.figures["demand.chat.prompt_p99"].value == 10
    assert found.figures["demand.chat.prompt_p99"].evidence is Evidence.STATED
    assert found.classes[0].model.mean_rate_rps == builtin().classes[0].mean_rate_rps


@pytest.mark.slow
def test_a_saved_profile_plans_like_its_trace(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    at = np.sort(rng.uniform(0.0, 3 * 86_400.0, 30_000))
    with (tmp_path / "log.csv").open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["arrival_s", "prompt_tokens", "output_tokens"])
        writer.writerows([f"{each:.3f}", int(rng.integers(50, 900)), int(rng.integers(5, 200))] for each in at)
    save_profile(profile([tmp_path / "log.csv"], as_of=AS_OF), tmp_path / "profile.json")
    traced = demand(spec(tmp_path, workload="trace: [log.csv]", said=""))
    saved = demand(spec(tmp_path, workload="profile: profile.json", said=""))
    assert saved.planning_rps == pytest.approx(traced.planning_rps, rel=1e-6)


@pytest.mark.parametrize(
    ("workload", "said", "message"),
    [
        ("columns: {}", ", rate: 4 req/s, prompt: {p50: 100, p95: 50}", "is less than a lower percentile"),
        ("columns: {}", ", rate: 4 req/s, prompt: {mean: 100}", "is not a percentile"),
        ("columns: {}", ", rate: 4 req/s, prompt: {median: 100, p50: 100}", "states the same percentile twice"),
        ("columns: {}", ", rate: 4 req/s, prompt: {}", "is empty"),
        ("columns: {}", ", rate: 4 req/s, peak_hour: often", "is not a ratio"),
        ("columns: {}", ", rate: 4 req/s, weekly_growth: much", "is not a share"),
        ("synthetic: gone.json", "", "workload.synthetic = 'gone.json': no such file or directory"),
        ("profile: gone.json", "", "workload.profile = 'gone.json': no such file or directory"),
        ("{trace: [a.csv], profile: b.json}", "", "cannot be combined with trace"),
        ("events: [{name: x, from: 2026-12-03, to: 2026-12-01, demand: 2}]", ", rate: 4 req/s", "ends before"),
        ("events: [{name: x, form: 2026-12-03}]", ", rate: 4 req/s", "Did you mean from"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, workload: str, said: str, message: str) -> None:
    written = workload.strip("{}").replace(", profile", "\n  profile") if workload.startswith("{") else workload
    with pytest.raises(InputError) as caught:
        demand(spec(tmp_path, workload=written, said=said))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("peak_hour: 0.5", "is less than is plausible here. Give a value from 1 to 168"),
        ("weekly_growth: -100%", "is less than is plausible here. Give a value from -99% to 100%"),
        ("weekly_growth: -150%", "is a change of more than 100 %"),
        ("prompt: {p50: 400, p95: 40000}", "longest context of 16384 tokens"),
    ],
)
def test_a_shape_that_no_week_has_is_refused(tmp_path: Path, said: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        spec(tmp_path, said=f", rate: 4 req/s, {said}")


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_no_demand_is_certain(tmp_path: Path, fraction: float) -> None:
    found = spec(tmp_path)
    sure = Assumption(
        name="risk.demand_percentile", value=fraction, unit="fraction", evidence=Evidence.STATED, source=SOURCE
    )
    with pytest.raises(InputError, match=r"risk\.demand_percentile"):
        forecast_demand(found.demands, horizon=found.policy.horizon, percentile=sure)


@pytest.mark.parametrize(
    "said", [", rate: 9000 req/s", ", rate: 4 req/s, weekly_growth: 10%", ", rate: 4 req/s, weekly_growth: 50%"]
)
def test_a_rate_beyond_all_simulation_is_refused_by_name(tmp_path: Path, said: str) -> None:
    found = spec(tmp_path, said=said)
    century = Assumption(name="policy.horizon", value=3.2e9, unit="s", evidence=Evidence.STATED, source=SOURCE)
    with pytest.raises(InputError, match=r"demand\.chat\.planning_rate = .* req/s.*simulated"):
        forecast_demand(found.demands, horizon=century, percentile=planned_percentile(found.policy.shortfall))
