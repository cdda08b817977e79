"""Two fits of one replica: what differs, how sure that is, and that luck is not called a change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.calibrations import FACTORS, calibration_document
from support.planned import AS_OF
from support.tested_worlds import SOURCE, calibrated, estimate
from ullage import verbs
from ullage.cli.app import run as ullage
from ullage.errors import ExitCode, InputError
from ullage.load.changes import parse_changes
from ullage.load.pool_money import replica_period_usd
from ullage.service.calibration.calibration import prior_covariance
from ullage.service.calibration.step_change import (
    MixedRequest,
    StepDifference,
    StepVerdict,
    mixed_request,
    step_difference,
)
from ullage.service.stage import calibrated_step
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import Factors
from ullage.service.steps.step_model import StepModel
from ullage.verbs.gate import GateAnswer

REQUEST = MixedRequest(prompt_tokens=2000.0, computed_tokens=1000.0, output_tokens=200.0, sequences=16.0)
SAME = Factors(**FACTORS | {"fixed_ratio": 1.0})


@pytest.fixture(scope="module")
def step() -> StepModel:
    return estimate()


def fitted(step: StepModel, factors: Factors = SAME, spread: float = 0.01) -> StepModel:
    like = calibrated(step, spread).spread
    return calibrated_step(step, factors, SOURCE, spread=like)


def by(ratio: float) -> Factors:
    return Factors(**{f"{name}_ratio": ratio for name in ("fixed", "sequences", "kv", "prefill", "request")})


def between(one: StepModel, other: StepModel, tolerance: float = 0.05) -> StepDifference:
    return step_difference(one, other, REQUEST, tolerance_fraction=tolerance)


def test_a_fit_and_itself_are_alike(step: StepModel) -> None:
    found = between(fitted(step), fitted(step))
    assert found.verdict is StepVerdict.ALIKE
    assert found.whole.ratio == 1.0
    assert found.whole.low_ratio * found.whole.high_ratio == pytest.approx(1.0)


@pytest.mark.parametrize(("before", "ratio", "verdict"), [(0.8, 1.2, StepVerdict.SLOWER), (1, 0.8, StepVerdict.FASTER)])
def test_all_factors_by_one_ratio_move_every_time_by_it(
    step: StepModel, before: float, ratio: float, verdict: StepVerdict
) -> None:
    """Where both sides are as fast as the estimate or faster; what is above it for one sequence, growth hides."""
    found = between(fitted(step, by(before)), fitted(step, by(before * ratio)))
    assert found.verdict is verdict
    assert [each.ratio for each in (found.whole, *found.parts)] == pytest.approx([ratio] * 4)
    assert found.whole.low_ratio < ratio < found.whole.high_ratio


def test_growth_hides_what_one_sequence_takes_longer(step: StepModel) -> None:
    found = between(fitted(step), fitted(step, Factors(fixed_ratio=1.5)))
    decode = found.parts[0]
    one = float(step.times.decode_s(np.ones(1), np.ones(1))[0])
    assert 0.0 < decode.after_s - decode.before_s < 0.5 * one
    assert found.verdict is StepVerdict.SLOWER


def test_before_and_after_change_places(step: StepModel) -> None:
    one, other = fitted(step, by(1.1)), fitted(step, Factors(**FACTORS))
    there, back = between(one, other), between(other, one)
    assert there.whole.ratio * back.whole.ratio == pytest.approx(1.0)
    assert there.whole.low_ratio * back.whole.high_ratio == pytest.approx(1.0)


def test_what_is_slower_within_the_tolerance_passes(step: StepModel) -> None:
    assert between(fitted(step), fitted(step, by(1.04))).verdict is StepVerdict.ALIKE
    assert between(fitted(step), fitted(step, by(1.04)), 0.02).verdict is StepVerdict.SLOWER


def test_more_of_a_spread_tells_less(step: StepModel) -> None:
    widths = [
        (found := between(fitted(step, spread=each), fitted(step, by(1.08), spread=each))).seen_fraction
        for each in (0.005, 0.02, 0.06)
    ]
    assert widths == sorted(widths)
    assert found.verdict is StepVerdict.CANNOT_TELL


def test_what_nobody_measured_is_neither_alike_nor_different(step: StepModel) -> None:
    """Two fits that know the prior alone share all of it: no width is left, and nothing was seen either."""
    blind = FactorSpread(
        covariance=tuple(tuple(row) for row in prior_covariance().tolist()),
        fit_spreads={"tpot": 0.04, "ttft": 0.1},
        degrees=4,
    )
    one = replace(fitted(step), spread=blind)
    found = between(one, one)
    assert found.verdict is StepVerdict.CANNOT_TELL
    assert len(found.unseen) == 5
    assert found.unseen_fraction == pytest.approx(1.0)


def test_an_estimate_is_no_side_of_a_comparison(step: StepModel) -> None:
    with pytest.raises(InputError, match="not a fit to load tests"):
        between(step, fitted(step))


def test_more_traffic_keeps_more_sequences_running(step: StepModel) -> None:
    shape = {"prompt_tokens": 2000.0, "cached_tokens": 1000.0, "output_tokens": 200.0}
    found = [mixed_request(fitted(step), **shape, rate_rps=rate, most=64).sequences for rate in (0.01, 2.0, 6.0, 1e4)]
    assert found == sorted(found)
    assert found[0] == 1.0
    assert found[-1] == 64.0
    held = mixed_request(fitted(step), **shape, rate_rps=4.0, most=256)
    decode_s = fitted(step).decode_s(np.array([held.sequences]), np.array([held.kv_tokens]))[0]
    assert held.sequences > 4.0 * 200.0 * decode_s


PLAN = """
version: 1
service: gated
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 2 req/s, longest_context: 4096, slo: {ttft_p95: 2s, tpot_p95: 100ms}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.yaml").write_text(PLAN)
    for name, ratio in (("old", 1.0), ("same", 1.01), ("new", 1.3)):
        factors = {key: ratio * value for key, value in FACTORS.items()}
        (tmp_path / f"{name}.json").write_text(json.dumps(calibration_document(factors)))
    return tmp_path


def test_the_verb_and_its_exit_codes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--plan", str(folder / "plan.yaml"), "--as-of", "2026-11-15", "--quiet", "--no-replicas"]
    old, same, new = (str(folder / f"{name}.json") for name in ("old", "same", "new"))
    assert ullage(["gate", old, new, *words, "--json"]) == ExitCode.REFUSED
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "ullage.gate/2"
    # All factors are 1.3 times as large, and growth hides a little of what one sequence takes longer.
    assert found["difference"]["whole"]["ratio"] == pytest.approx(1.3, rel=0.01)
    assert ullage(["gate", new, old, *words]) == ExitCode.OK
    assert "faster" in capsys.readouterr().out
    assert ullage(["gate", old, same, *words, "--tolerance", "10%"]) == ExitCode.OK
    assert ullage(["gate", old, same, *words, "--tolerance", "0.5%"]) == ExitCode.UNDECIDED
    assert ullage(["gate", old, str(folder / "none.json"), *words]) == ExitCode.WRONG_INPUT


@pytest.mark.slow
def test_slower_steps_mean_no_fewer_replicas_and_their_price(folder: Path) -> None:
    found = verbs.gate(
        folder / "old.json",
        folder / "new.json",
        plan=folder / "plan.yaml",
        set={"workload.classes.chat.rate": "60 req/s"},
    )
    assert isinstance(found, GateAnswer)
    meant = found.meant
    assert meant is not None
    assert meant.after_replicas > meant.before_replicas
    assert meant.low_replicas <= meant.after_replicas <= meant.high_replicas
    one, hours = replica_period_usd(folder / "plan.yaml", as_of=AS_OF, seed=0)
    two, _ = replica_period_usd(
        folder / "plan.yaml", as_of=AS_OF, seed=0, changes=parse_changes({"pool.tensor_parallel": "2"})
    )
    assert one is not None
    assert two == pytest.approx(2.0 * one)
    assert meant.period_hours == hours
    assert meant.usd == pytest.approx((meant.after_replicas - meant.before_replicas) * one)
