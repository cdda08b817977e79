"""`ullage curve` on the built-in example: one answer, whole, the same every time."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
import yaml

from support.calibrations import FACTORS, calibration_document
from support.loadtest_samples import to_json, vllm_run
from support.planned import TWO_POOLS
from ullage.cli.app import run
from ullage.errors import InputError, Rejection
from ullage.evidence import Evidence, Source, walk
from ullage.load.pool import load_pool, load_pools
from ullage.load.typed import with_slos
from ullage.service.curve.curve import UnstablePoint
from ullage.service.curve.point import OperatingPoint
from ullage.service.stage import band_of
from ullage.verbs.curve import CurveAnswer, curve
from ullage.workload.classes import Metric, RequestClass, Slo

AS_OF = datetime.date(2026, 11, 15)


@pytest.fixture(scope="module")
def found() -> CurveAnswer:
    answer = curve(as_of=AS_OF, seed=1, workers=2)
    assert isinstance(answer, CurveAnswer)
    return answer


@pytest.mark.slow
def test_the_example_has_a_curve_and_a_point_below_its_highest_load(found: CurveAnswer) -> None:
    assert isinstance(found.point, OperatingPoint)
    assert 0 < found.point.operating_rps <= found.point.highest.rps
    assert found.point.highest.rps <= found.curve.unstable[-1].offered_rps
    assert isinstance(found.curve.points[-1], UnstablePoint)
    assert [each.name for each in found.point.margins] == ["bursts", "evidence", "policy"]


@pytest.mark.slow
def test_every_figure_is_explained_down_to_sources(found: CurveAnswer) -> None:
    assert isinstance(found.point, OperatingPoint)
    for name in (*found.curve.figures, *found.point.figures):
        assert isinstance([one for _, one in walk(found.explained(name))][-1], Source)
    with pytest.raises(InputError, match="operating_rps"):
        found.explained("point.operating_rp")


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_a_point(found: CurveAnswer) -> None:
    alone = curve(as_of=AS_OF, seed=1, workers=1)
    assert isinstance(alone, CurveAnswer)
    assert alone.curve.points == found.curve.points
    assert isinstance(alone.point, OperatingPoint)
    assert isinstance(found.point, OperatingPoint)
    assert alone.point.operating_rps == found.point.operating_rps


@pytest.mark.slow
def test_json_is_the_same_bytes_and_no_unstable_load_has_a_percentile(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for _ in range(2):
        assert run(["curve", "--json", "--quiet", "--as-of", "2026-11-15"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    document = json.loads(texts[0])
    assert document["schema"] == "ullage.curve/2"
    unstable = [each for each in document["curve"]["points"] if "instability" in each]
    assert unstable
    assert all("latencies" not in each and "goodput" not in each for each in unstable)


@pytest.mark.slow
def test_measured_points_lie_over_the_curve_with_their_residuals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two tests of one configuration that differ by a factor: dots, residuals, and an anomaly that names both."""
    files = []
    for name, k in (("fast", 1.0), ("slow", 3.0)):
        sample = vllm_run(k, request_rate=1.0, max_concurrency=None, p95_ttft_ms=100.0 * k)
        files.append(tmp_path / f"{name}.json")
        files[-1].write_bytes(to_json(sample | {"request_throughput": 1.0, "duration": 40.0}))
    asked = [word for each in files for word in ("--measured", str(each))]
    assert run(["curve", "--quiet", "--as-of", "2026-11-15", "--no-color", *asked]) == 0
    page = capsys.readouterr().out
    assert "◆" in page
    assert "disagree" in page
    assert run(["curve", "--quiet", "--json", "--as-of", "2026-11-15", *asked]) == 0
    document = json.loads(capsys.readouterr().out)
    ratios = {each["name"].split()[0]: each["residuals"][-1]["ratio"] for each in document["measured"]}
    assert ratios["slow"] == pytest.approx(3 * ratios["fast"], rel=0.05)
    assert [each["weighing"]["weight_fraction"] for each in document["agreement"]["results"]] == [1.0, 1.0]
    assert len(document["agreement"]["disagreements"]) >= 1


def test_engines_on_the_same_devices_slow_a_replica_and_never_narrow_its_band() -> None:
    alone, shared = (load_pool(None, beside=each, as_of=AS_OF) for each in (None, "50%"))
    assert not isinstance(alone, Rejection)
    assert not isinstance(shared, Rejection)
    busy = {"sequences": 16, "kv_tokens": 16_000}
    assert shared.step.step_s(**busy) > 1.05 * alone.step.step_s(**busy)
    assert shared.step.evidence is Evidence.ASSUMED
    assert band_of(shared.step).slow_ratio >= band_of(alone.step).slow_ratio


@pytest.mark.slow
def test_an_slo_that_cannot_be_met_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["curve", "--quiet", "--slo", "chat:tpot_p95=1ms"]) == 3
    assert "no load meets the SLOs" in capsys.readouterr().out


@pytest.mark.slow
def test_what_if_tries_settings_and_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["curve", "--sensitivity", "--quiet", "--as-of", "2026-11-15"]) == 0
    page = capsys.readouterr().out
    assert "no prefix hits" in page
    assert "max sequences" in page


def test_slos_are_replaced_added_and_given_to_all() -> None:
    slo = Slo(metric=Metric.TTFT, percentile_fraction=0.95, limit_s=1.0)
    classes = [RequestClass(name="chat", slos=(slo,)), RequestClass(name="coding", slos=(slo,))]
    chat, coding = with_slos(classes, ["chat:ttft_p95=500ms", "e2e_p99=1min"])
    assert [str(each) for each in chat.slos] == ["ttft p95 <= 500 ms", "e2e p99 <= 60 s"]
    assert [str(each) for each in coding.slos] == ["ttft p95 <= 1 s", "e2e p99 <= 60 s"]
    with pytest.raises(InputError, match="coding"):
        with_slos(classes, ["codng:ttft_p95=1s"])
    for wrong in ("ttft=1s", "ttft_p95", "ttft_p95=1", "chat:speed_p95=1s"):
        with pytest.raises(InputError, match="--slo"):
            with_slos(classes, [wrong])


def _calibration(**changes: object) -> dict[str, object]:
    factors = {**FACTORS, "fixed_ratio": 1.2, "prefill_ratio": 1.1}
    return calibration_document(factors, **{"model": "qwen3-32b", "tp": 2, **changes})


def test_a_calibration_scales_the_steps_and_narrows_the_band(tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(_calibration()))
    plain, fitted = load_pool(None, as_of=AS_OF), load_pool(None, calibration=file, as_of=AS_OF)
    assert not isinstance(plain, Rejection)
    assert not isinstance(fitted, Rejection)
    alone = [each.step.step_s(sequences=1, kv_tokens=1) for each in (plain, fitted)]
    assert alone[1] == pytest.approx(1.2 * alone[0])
    assert fitted.step.evidence is Evidence.CALIBRATED
    assert band_of(fitted.step).slow_ratio < band_of(plain.step).slow_ratio


@pytest.mark.parametrize("change", [{"model": "qwen3-8b"}, {"engine": "sglang"}, {"kv_dtype": "fp8"}, {"date": "soon"}])
def test_a_calibration_of_another_configuration_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(_calibration(**change)))
    with pytest.raises(InputError, match=next(iter(change))):
        load_pool(None, calibration=file, as_of=AS_OF)


@pytest.mark.parametrize("text", ["", "[1]", '{"schema": "other"}', "not json"])
def test_a_damaged_calibration_is_an_input_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(text)
    with pytest.raises(InputError, match="calibrat"):
        load_pool(None, calibration=file, as_of=AS_OF)
    with pytest.raises(InputError, match="no such file"):
        load_pool(None, calibration=tmp_path / "none.json", as_of=AS_OF)


def test_a_stated_slo_is_an_input_of_the_figures() -> None:
    pool = load_pool(None, slos=["chat:ttft_p95=700ms"], as_of=AS_OF)
    assert not isinstance(pool, Rejection)
    stated = {each.name: each for each in pool.slo_limits}
    assert stated["chat.ttft_p95"].value == 0.7
    assert stated["chat.ttft_p95"].source.where == "--slo"


def test_of_several_pools_it_says_which_one_it_is_and_takes_its_own_traffic_as_the_plan_does() -> None:
    two = load_pool(yaml.safe_load(TWO_POOLS), as_of=AS_OF)
    assert not isinstance(two, Rejection)
    assert two.replica.endswith("x h100-sxm, pool small; large left out")
    assert [each.name for each in two.classes] == [each.name for each in two.demand.classes] == ["chat"]
    own = load_pools(yaml.safe_load(TWO_POOLS), as_of=AS_OF)
    assert not isinstance(own, Rejection)
    assert two.demand.planning_rps == own["small"].demand.planning_rps
    assert two.band == own["small"].band
    one = load_pool(None, as_of=AS_OF)
    assert not isinstance(one, Rejection)
    assert "left out" not in one.replica
