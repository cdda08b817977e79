"""Traffic stated by hand: how requests end, what is cached, users and tokens in place of a rate, a scaled trace."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

from ullage import verbs
from ullage.errors import InputError, Rejection
from ullage.evidence import Evidence
from ullage.fleet.losses import LossVerdict
from ullage.fleet.risk.inputs import shape_uncertainties
from ullage.fleet.risk.planning_point import planned_percentile
from ullage.fleet.risk.surface import OUTPUTS
from ullage.load.plan import load_plan
from ullage.planning.spec import PlanSpec
from ullage.workload.demand.demand import Demand, forecast_demand
from ullage.workload.demand.outcomes import lengths_evidence

DAY = datetime.date(2026, 11, 15)
PLAN = """
version: 1
service: made
dated: 2026-11-15
workload:
{more}
  classes:
    - name: chat
      longest_context: 8192
      slo: {{ttft_p95: 1s, tpot_p95: 50ms}}
{shape}
pool: {{model: llama-3.1-8b, device: h100-sxm}}
"""


def spec_of(folder: Path, *lines: str, more: str = "") -> PlanSpec:
    shape = "\n".join(f"      {line}" for line in lines)
    (folder / "plan.yaml").write_text(PLAN.format(more=more, shape=shape))
    return load_plan(folder / "plan.yaml", as_of=DAY)


def demand(folder: Path, *lines: str, more: str = "") -> Demand:
    spec = spec_of(folder, *lines, more=more)
    return forecast_demand(
        spec.demands,
        horizon=spec.policy.horizon,
        percentile=planned_percentile(spec.policy.shortfall),
        measured=None if spec.traffic is None else spec.traffic.classes,
    )


def log(folder: Path, statuses: str = "ok", *, cached: bool = False) -> str:
    rows = []
    for at in range(14 * 24 * 60):
        moment = datetime.datetime(2026, 11, 1) + datetime.timedelta(minutes=at)  # noqa: DTZ001
        ended = statuses[at % len(statuses)] if len(statuses) > 2 else "o"
        status = {"o": "ok", "f": "failed", "r": "failed", "c": "cancelled"}[ended]
        output = "" if ended == "r" else "100"
        rows.append(f"{moment.isoformat()}Z,1000,{output},{status}" + (",400" if cached else ""))
    head = "timestamp,prompt_tokens,output_tokens,status" + (",cached_tokens" if cached else "")
    (folder / "log.csv").write_text("\n".join([head, *rows, ""]))
    return "  trace: [log.csv]"


# ---- how requests end ----------------------------------------------------------------------------------


def test_what_is_refused_takes_no_capacity_and_what_fails_takes_all_of_its_own(tmp_path: Path) -> None:
    plain = demand(tmp_path, "rate: 10 req/s")
    refused = demand(tmp_path, "rate: 10 req/s", "outcomes: {refused: 40%}")
    failed = demand(tmp_path, "rate: 10 req/s", "outcomes: {failed: 40%}")
    assert refused.planning_rps == pytest.approx(0.6 * plain.planning_rps)
    assert failed.planning_rps == pytest.approx(plain.planning_rps)
    assert refused.classes[0].outcomes.success_fraction == 1.0
    assert failed.classes[0].outcomes.success_fraction == pytest.approx(0.6)
    assert failed.figures["demand.chat.success_fraction"].evidence is Evidence.STATED


def test_cancelled_answers_cost_what_was_written_of_them_or_all_of_it(tmp_path: Path) -> None:
    def mean_output(*lines: str) -> float:
        return float(demand(tmp_path, "rate: 10 req/s", *lines).classes[0].model.lengths.pairs()[1].mean())

    whole = mean_output()
    half = mean_output("outcomes: {cancelled: 40%, cancelled_after: 50%}")
    none = mean_output("outcomes: {cancelled: 40%, aborts: false}")
    assert half == pytest.approx(0.8 * whole, rel=0.03)
    assert none == whole


def test_stated_lengths_stay_stated_whatever_is_assumed_of_when_clients_cancel(tmp_path: Path) -> None:
    """Whoever states that 3 % cancel knows more than who says nothing: the band of lengths is no wider for it."""
    lengths = ("rate: 10 req/s", "prompt: {p50: 1000, p95: 4500}", "output: {p50: 250, p95: 800}")
    found = demand(tmp_path, *lengths, "outcomes: {cancelled: 3%}")
    answers = found.figures["demand.chat.output_p95"]
    assert answers.evidence is Evidence.ASSUMED
    assert lengths_evidence(answers) is Evidence.STATED
    bands = [
        {each.name: each.spread for each in shape_uncertainties(one)} for one in (found, demand(tmp_path, *lengths))
    ]
    assert bands[0][OUTPUTS] == bands[1][OUTPUTS]
    borrowed = demand(tmp_path, "rate: 10 req/s", "outcomes: {cancelled: 3%}").figures["demand.chat.output_p95"]
    assert lengths_evidence(borrowed) is Evidence.ASSUMED


def test_shares_that_leave_no_success_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none can succeed"):
        spec_of(tmp_path, "rate: 10 req/s", "outcomes: {failed: 60%, cancelled: 40%}")


def test_outcomes_come_from_the_log(tmp_path: Path) -> None:
    # Of ten requests four fail: two before any output, two after it; one is cancelled.
    found = demand(tmp_path, more=log(tmp_path, "oofrofrooc"))
    ends = found.classes[0].outcomes
    assert ends.refused_fraction == pytest.approx(0.2)
    assert ends.failed_fraction == pytest.approx(0.2)
    assert ends.cancelled_fraction == pytest.approx(0.1)
    assert ends.success_fraction == pytest.approx(1 - 0.3 / 0.8)
    assert found.figures["demand.chat.success_fraction"].evidence is Evidence.MEASURED
    assert found.classes[0].model.mean_rate_rps == pytest.approx(0.8 / 60, rel=0.01)


# ---- what is cached --------------------------------------------------------------------------------------


def test_a_stated_cached_share_is_that_of_every_prompt_drawn(tmp_path: Path) -> None:
    found = demand(tmp_path, "rate: 10 req/s", "cached_fraction: 35%")
    assert found.figures["demand.chat.cached_fraction"].value == pytest.approx(0.35)
    assert found.figures["demand.chat.cached_fraction"].evidence is Evidence.STATED
    assert set(found.classes[0].model.reuse.first_turn_fractions) == {0.35}


@pytest.mark.slow
def test_a_cached_share_that_nobody_stated_is_assumed(tmp_path: Path) -> None:
    assert demand(tmp_path, "rate: 10 req/s").figures["demand.chat.cached_fraction"].evidence is Evidence.ASSUMED
    silent = demand(tmp_path, more=log(tmp_path)).figures["demand.chat.cached_fraction"]
    assert (silent.value, silent.evidence) == (0.0, Evidence.ASSUMED)
    logged = demand(tmp_path, more=log(tmp_path, cached=True)).figures["demand.chat.cached_fraction"]
    assert logged.value == pytest.approx(0.4)
    assert logged.evidence is Evidence.MEASURED


# ---- ways to state a rate ----------------------------------------------------------------------------------


def test_users_follow_the_response_time_law(tmp_path: Path) -> None:
    found = demand(tmp_path, "users: {concurrent: 300, think_time: 28s, answer_time: 2s, hours: 8, days: 5}")
    traffic = found.classes[0]
    season = np.array(traffic.model.season)
    assert season.sum() == 40
    assert season.max() / season.mean() == pytest.approx(168 / 40)
    # 300 users every 30 seconds are 10 requests a second while they work.
    assert traffic.model.mean_rate_rps * season.max() / season.mean() == pytest.approx(10.0)
    assert traffic.model.sessions.mean_think_s == 28.0


def test_seats_are_users_by_the_share_at_work(tmp_path: Path) -> None:
    users = demand(tmp_path, "users: {concurrent: 300, think_time: 30s}")
    seats = demand(tmp_path, "users: {seats: 1500, active: 20%, think_time: 30s}")
    assert seats.planning_rps == pytest.approx(users.planning_rps)


def test_thinking_longer_asks_less(tmp_path: Path) -> None:
    rates = [
        demand(tmp_path, f"users: {{concurrent: 300, think_time: {think}s}}").planning_rps for think in (10, 30, 90)
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1]


def test_tokens_a_day_are_a_rate_by_the_mean_request(tmp_path: Path) -> None:
    lengths = ("prompt: {p50: 1000, p95: 1001}", "output: {p50: 100, p95: 101}")
    found = demand(tmp_path, "tokens: 95.04 Mtokens/day", *lengths)
    assert found.classes[0].model.mean_rate_rps == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("also", ["users: {concurrent: 3, think_time: 30s}", "tokens: 5 Mtokens/day"])
def test_one_way_to_state_a_rate_is_enough(also: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="each sets the rate"):
        spec_of(tmp_path, "rate: 10 req/s", also)


def test_users_without_a_number_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="either concurrent users or seats"):
        spec_of(tmp_path, "users: {think_time: 30s}")


@pytest.mark.slow
def test_a_rate_beside_a_trace_scales_it(tmp_path: Path) -> None:
    own = demand(tmp_path, more=log(tmp_path))
    scaled = demand(tmp_path, "rate: 5 req/s", more=log(tmp_path))
    ratio = 5.0 * 60
    assert scaled.classes[0].model.mean_rate_rps == pytest.approx(5.0)
    assert scaled.planning_rps == pytest.approx(ratio * own.planning_rps, rel=0.02)
    assert scaled.classes[0].model.lengths == own.classes[0].model.lengths
    assert "scaled 300 times" in scaled.figures["demand.chat.mean_rate"].sources[0].what


@pytest.mark.parametrize("ends", ["refused: 40%", "failed: 40%", "cancelled: 40%, cancelled_after: 50%"])
def test_tokens_a_second_are_requests_a_second_of_their_length(ends: str, tmp_path: Path) -> None:
    found = demand(tmp_path, "rate: 10 req/s", f"outcomes: {{{ends}}}").figures
    rate, tokens, both = (
        float(found[f"demand.chat.{name}"].value) for name in ("planning_rate", "request_tokens", "token_rate")
    )
    assert both == pytest.approx(rate * tokens)


@pytest.mark.slow
def test_a_service_that_nobody_uses_at_night_is_planned(tmp_path: Path) -> None:
    """Planned work falls into hours without a request, and the rule's quietest hour has none: neither may be waited for
    in vain, nor divided by."""
    users = "users: {concurrent: 60, think_time: 20s, answer_time: 10s}"
    shape = "\n".join(f"      {line}" for line in (users, "prompt: {p50: 200}", "output: {p50: 50}"))
    (tmp_path / "plan.yaml").write_text(PLAN.format(more="", shape=shape))
    found = verbs.plan(tmp_path / "plan.yaml", as_of=DAY, quick=True)
    assert not isinstance(found, Rejection)
    (pool,) = found.pools
    assert min(pool.demand.classes[0].model.season) == 0.0
    checks = {each.name: each.verdict for each in pool.loss_checks.checks}
    assert checks["rollout"] is checks["maintenance"] is LossVerdict.HOLDS
    assert pool.scaling.derived.threshold_value > 1.0
    assert pool.scaling.derived.least_replicas >= 2
