"""A plan from a record without lengths: they are stated, measured in a second log, or borrowed and called so."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.fleet.risk.planning_point import planned_percentile
from ullage.load.plan import load_plan
from ullage.workload.demand.demand import Demand, forecast_demand

DAY = datetime.date(2026, 11, 15)
PLAN = """
version: 1
service: made
dated: 2026-11-15
workload:
  trace: [rates.csv]
{more}
  classes:
    - name: chat
      longest_context: 16384
      slo: {{ttft_p95: 1s}}
{shape}
pool: {{model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}}
"""


def demand(folder: Path, *, more: str = "", shape: str = "", sums: bool = False) -> Demand:
    head = "timestamp,requests" + (",input_tokens,output_tokens" if sums else "")
    rows = [
        f"2026-11-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z,{7200 + 60 * (hour % 24)}"
        + (f",{(7200 + 60 * (hour % 24)) * 900},{(7200 + 60 * (hour % 24)) * 90}" if sums else "")
        for hour in range(14 * 24)
    ]
    (folder / "rates.csv").write_text("\n".join([head, *rows, ""]))
    (folder / "plan.yaml").write_text(PLAN.format(more=more, shape=shape))
    spec = load_plan(folder / "plan.yaml", as_of=DAY)
    assert spec.traffic is not None
    return forecast_demand(
        spec.demands,
        horizon=spec.policy.horizon,
        percentile=planned_percentile(spec.policy.shortfall),
        measured=spec.traffic.classes,
    )


def test_stated_percentiles_are_the_lengths_and_rates_stay_measured(tmp_path: Path) -> None:
    found = demand(tmp_path, shape="      prompt: {p50: 700, p95: 3000}\n      output: {p50: 200, p95: 800}")
    assert found.figures["demand.chat.prompt_p50"].value == pytest.approx(700, rel=0.01)
    assert found.figures["demand.chat.prompt_p50"].evidence is Evidence.STATED
    assert found.figures["demand.chat.mean_rate"].evidence is not Evidence.ASSUMED
    prompts, _ = found.classes[0].model.lengths.pairs()
    assert float(np.quantile(prompts, 0.95)) == pytest.approx(3000, rel=0.02)


def test_a_second_log_gives_the_lengths(tmp_path: Path) -> None:
    rows = [f"{at},{1000 + at},{100 + at % 50}" for at in range(500)]
    (tmp_path / "some.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows, ""]))
    found = demand(tmp_path, more="  lengths: [some.csv]")
    figure = found.figures["demand.chat.prompt_p50"]
    assert figure.value == pytest.approx(1250, rel=0.01)
    assert figure.evidence is Evidence.MEASURED
    assert figure.sources[0].where == "some.csv"


def test_a_second_file_without_lengths_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("arrival_s,path\n0,/a\n1,/a\n")
    with pytest.raises(InputError, match="has no request lengths"):
        demand(tmp_path, more="  lengths: [some.csv]")


def test_without_any_the_built_in_lengths_are_assumed(tmp_path: Path) -> None:
    figure = demand(tmp_path).figures["demand.chat.request_tokens"]
    assert figure.evidence is Evidence.ASSUMED
    assert "built-in" in figure.sources[0].what


def test_means_that_are_known_are_kept_and_only_the_spread_is_borrowed(tmp_path: Path) -> None:
    found = demand(tmp_path, sums=True)
    prompts, outputs = found.classes[0].model.lengths.pairs()
    assert float(prompts.mean()) == pytest.approx(900, rel=0.02)
    assert float(outputs.mean()) == pytest.approx(90, rel=0.02)
    assert float(np.quantile(prompts, 0.99)) > 3 * float(np.median(prompts))
    assert found.figures["demand.chat.request_tokens"].evidence is Evidence.ASSUMED


def test_a_second_log_that_nothing_asks_for_is_refused(tmp_path: Path) -> None:
    rows = [f"2026-11-01T00:{minute:02d}:00Z,900,90" for minute in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["timestamp,prompt_tokens,output_tokens", *rows]))
    whole = PLAN.format(more="  lengths: [log.csv]", shape="").replace("rates.csv", "log.csv")
    stated = PLAN.format(more="  lengths: [log.csv]", shape="      rate: 2 req/s").replace("  trace: [rates.csv]\n", "")
    for text, problem in ((whole, "the trace has lengths of its own"), (stated, "beside no trace")):
        (tmp_path / "plan.yaml").write_text(text)
        with pytest.raises(InputError, match=rf"plan\.yaml:\d+: workload\.lengths = 'log\.csv': .*{problem}"):
            load_plan(tmp_path / "plan.yaml", as_of=DAY)


def test_a_file_that_is_not_there_is_told_at_the_line_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PLAN.format(more="", shape="")
    Path("plan.yaml").write_text(text)
    line = 1 + text.split("\n").index("  trace: [rates.csv]")
    with pytest.raises(InputError, match=rf"^plan\.yaml:{line}: workload\.trace\.0 = 'rates\.csv': names no file"):
        load_plan(Path("plan.yaml"), as_of=DAY)
