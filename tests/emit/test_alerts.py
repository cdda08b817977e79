"""Alerts put to promtool: each fires on a series that shows its failure, and stays silent on one that does not."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.debian import require_program
from support.emitted import choice, document, documents, emitted, numbers, settings
from ullage.emit.numbers import Expiry, plan_numbers
from ullage.emit.targets import emit_files
from ullage.planning.drills.drills import DRILLS

# promtool's clock begins in 1970, and so does the plan that these rules are of.
DAY = datetime.date(1970, 1, 1)
POOL = '{namespace="llm", model_name="qwen3-32b"'
TTFT = "time_to_first_token_seconds"
POD = '{namespace="llm", pod="chat-7d9f-x2"'


def rules(*, as_of: datetime.date = DAY, last_day: datetime.date = DAY, engine: str = "vllm") -> str:
    plan = replace(numbers(), as_of=as_of, expiries=(Expiry(assumption="platform node time", last_day=last_day),))
    (file,) = emit_files(plan, {"pool": choice(engine)}, settings(), ["prometheus"])
    return file.text


def series(name: str, values: str, labels: str = POOL) -> dict[str, str]:
    return {"series": f"{name}{labels}}}", "values": values}


def engine(*, running: int = 10, waiting: int = 0, per_minute: float = 30, kv: float = 0.3) -> list[dict[str, str]]:
    return [
        series("vllm:num_requests_running", f"{running}x200"),
        series("vllm:num_requests_waiting", f"{waiting}x200"),
        series("vllm:request_success_total", f"0+{per_minute}x200"),
        series("vllm:kv_cache_usage_perc", f"{kv}x200"),
    ]


def latency(metric: str, bound: str, quick: int) -> list[dict[str, str]]:
    """A hundred requests a minute, so many of them within the bound."""
    return [
        series(f"vllm:{metric}_bucket", f"0+{quick}x800", f'{POOL}, le="{bound}"'),
        series(f"vllm:{metric}_count", "0+100x800"),
    ]


def quota(used: int) -> list[dict[str, str]]:
    labels = '{namespace="llm", resource="requests.nvidia.com/gpu", type='
    return [
        series("kube_resourcequota", f"{used}x60", f'{labels}"used"'),
        series("kube_resourcequota", "100x60", f'{labels}"hard"'),
    ]


def pods(*, ready: int) -> list[dict[str, str]]:
    return [
        series("kube_pod_created", "0x200", POD),
        series("kube_pod_status_ready", f"{ready}x200", f'{POD}, condition="true"'),
        series("kube_pod_status_phase", "0x200", f'{POD}, phase="Failed"'),
    ]


def hits(share: int) -> list[dict[str, str]]:
    return [
        series("vllm:prefix_cache_hits_total", f"0+{share}x200"),
        series("vllm:prefix_cache_queries_total", "0+100x200"),
    ]


Series = list[dict[str, str]]
# Alert -> when to look, what fires it, what does not.
CASES: dict[str, tuple[str, Series, Series]] = {
    "UllageMemoryPressure": ("20m", engine(kv=0.95), engine(kv=0.6)),
    "UllageQueueCollapse": ("10m", engine(waiting=2), engine(waiting=1)),
    "UllageIdleFleet": ("90m", engine(per_minute=6), engine(per_minute=60)),
    "UllageWarmUpOverrun": ("60m", pods(ready=0), pods(ready=1)),
    "UllageCacheHitsFell": ("70m", hits(30), hits(80)),
    "UllageQuotaNearlyUsed": ("20m", quota(81), quota(79)),
    "UllageCostPerSuccessDrift": ("90m", engine(per_minute=1), engine(per_minute=60)),
    "UllageSloBurn": ("70m", latency(TTFT, "5.0", 20), latency(TTFT, "5.0", 99)),
    "UllageShortfall": ("15m", engine(per_minute=120), engine(per_minute=60)),
    "UllageReconcileOverdue": ("8d", [], []),
    "UllageAssumptionExpired": ("8d", [], []),
}  # fmt: skip
# What makes the last two silent is the plan's dates, not a series.
SILENT_DATES = {
    "UllageReconcileOverdue": {"as_of": datetime.date(1970, 1, 8)},
    "UllageAssumptionExpired": {"last_day": datetime.date(1970, 1, 9)},
}


def tried(folder: Path, text: str, alert: str, when: str, given: Series, *, fires: bool) -> str:
    """What promtool says against it; '' where the alert does as expected."""
    (folder / "rules.yaml").write_text(text)
    case = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "6h" if when.endswith("d") else "10m" if when.endswith("h") else "1m",
        "tests": [
            {
                "interval": "1h" if when.endswith("d") else "1m",
                "input_series": given or [{"series": "nothing", "values": "0"}],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) > bool 0 or vector(0)',
                        "eval_time": when,
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                ],
            }
        ],
    }
    (folder / "case.yaml").write_text(yaml.safe_dump(case))
    promtool = require_program("promtool", package="prometheus")
    done = subprocess.run(
        [promtool, "test", "rules", folder / "case.yaml"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_where_it_must_and_is_silent_elsewhere(alert: str, tmp_path: Path) -> None:
    when, fires, silent = CASES[alert]
    # One engine stands for each replica; the count of series is the count of replicas.
    assert tried(tmp_path, rules(), alert, when, fires, fires=True) == ""
    calm: Mapping[str, Any] = SILENT_DATES.get(alert, {})
    assert tried(tmp_path, rules(**calm), alert, when, silent, fires=False) == ""


def test_preempted_requests_press_on_memory_too(tmp_path: Path) -> None:
    taken = [*engine(kv=0.3), series("vllm:num_preemptions_total", "0+3x200")]
    assert tried(tmp_path, rules(), "UllageMemoryPressure", "20m", taken, fires=True) == ""


@pytest.mark.slow
def test_a_slow_burn_is_a_ticket_and_a_fast_one_a_page(tmp_path: Path) -> None:
    (found,) = yaml.safe_load_all(rules())
    burns = [each for group in found["groups"] for each in group["rules"] if each.get("alert") == "UllageSloBurn"]
    assert {(each["labels"]["slo"], each["labels"]["severity"]) for each in burns} == {
        (slo, severity) for slo in ("ttft_p95", "tpot_p95", "e2e_p95") for severity in ("page", "ticket")
    }
    slow = latency(TTFT, "5.0", 60)
    assert tried(tmp_path, rules(), "UllageSloBurn", "12h", slow, fires=True) == ""
    assert tried(tmp_path, rules(), "UllageSloBurn", "12h", latency(TTFT, "5.0", 80), fires=False) == ""


def test_every_alert_is_tried_and_every_drill_of_the_seven_has_one() -> None:
    (found,) = yaml.safe_load_all(rules())
    alerts = [each for group in found["groups"] for each in group["rules"] if "alert" in each]
    assert {each["alert"] for each in alerts} == set(CASES)
    seven = ("memory", "queue-collapse", "idle-fleet", "warm-up", "cache-miss", "quota", "unit-economics")
    assert set(seven) <= set(DRILLS)
    assert {each["labels"]["failure_mode"] for each in alerts} == {
        *seven, "slo-burn", "shortfall", "reconcile-overdue", "assumption-age"
    }  # fmt: skip


@pytest.mark.parametrize("engine_name", ["sglang", "tensorrt-llm"])
def test_other_engines_are_watched_by_what_they_tell(engine_name: str, tmp_path: Path) -> None:
    text = rules(engine=engine_name)
    assert checked(tmp_path, text) == ""
    if engine_name == "sglang":
        assert "Left out: UllageSloBurn for tpot of 0.08 s, since sglang has no histogram of tpot." in text
    (found,) = yaml.safe_load_all(text)
    names = {each["alert"] for group in found["groups"] for each in group["rules"] if "alert" in each}
    assert names == set(CASES)


def test_no_alert_fires_where_all_is_as_planned(tmp_path: Path) -> None:
    """Memory that one approved request fills is less than the planned load's, and the emitted quota is all in use."""
    figures = {"memory.headroom_bytes": 41_000_000_000, "score.kv_peak_fraction": 0.55, "fleet.total_devices": 100}
    figures |= {"fleet.total_replicas": 50, "scaling.most_replicas": 44}
    (file,) = emitted("prometheus", figures=figures)
    as_planned = [*engine(kv=0.5), *quota(100), *hits(70)]
    for alert in ("UllageMemoryPressure", "UllageQuotaNearlyUsed", "UllageCacheHitsFell", "UllageQueueCollapse"):
        assert tried(tmp_path, file.text, alert, "20m", as_planned, fires=False) == "", alert


def test_a_burn_is_as_fast_as_its_threshold_says() -> None:
    (found,) = yaml.safe_load_all(rules())
    burns = [each for group in found["groups"] for each in group["rules"] if each.get("alert") == "UllageSloBurn"]
    for each in burns:
        threshold = float(each["expr"].rsplit(" > ", 1)[1])
        assert f" {threshold / 0.05:.3g} times too fast" in each["annotations"]["summary"]


def test_what_only_the_headline_compares_with_does_not_expire() -> None:
    made = document()
    other = {**made["assumptions"]["vllm token_budget"], "name": "price.other", "max_age_days": 1}
    made["assumptions"]["price.other"] = other
    made["figures"]["surprise.seller_fraction"] = {
        "value": 1.0,
        "unit": "",
        "evidence": "stated",
        "inputs": ["price.other"],
    }
    assert "price.other" not in [each.assumption for each in plan_numbers(made, file="plan.json").expiries]


def test_a_provider_s_quota_in_the_plan_is_the_one_that_is_watched(tmp_path: Path) -> None:
    figures = {"sites.west.h100-sxm.quota": 100.0, "sites.west.wa.h100-sxm.quota": 50.0}
    (file,) = emitted("prometheus", figures=figures)
    asked = series("kube_pod_container_resource_requests", "81x60", '{resource="nvidia_com_gpu"')
    assert tried(tmp_path, file.text, "UllageQuotaNearlyUsed", "20m", [asked], fires=True) == ""
    assert tried(tmp_path, file.text, "UllageQuotaNearlyUsed", "20m", [{**asked, "values": "79x60"}], fires=False) == ""


def test_what_a_plan_gives_no_ground_for_is_left_out_by_name() -> None:
    from support.emitted import without

    plan = without(numbers({"score.cached_fraction": 0.0}), "answer.devices_usd")
    (file,) = emit_files(replace(plan, expiries=()), {"pool": choice()}, settings(), ["prometheus"])
    for alert in ("UllageCacheHitsFell", "UllageCostPerSuccessDrift", "UllageAssumptionExpired"):
        assert f"Left out: {alert}, since" in file.text
        assert f"alert: {alert}" not in file.text


def checked(folder: Path, text: str) -> str:
    (folder / "checked.yaml").write_text(text)
    promtool = require_program("promtool", package="prometheus")
    done = subprocess.run(
        [promtool, "check", "rules", folder / "checked.yaml"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stderr


def test_every_query_of_other_files_is_promql(tmp_path: Path) -> None:
    (dashboard,) = emitted("grafana")
    queries = [one["expr"] for panel in json.loads(dashboard.text)["panels"] for one in panel.get("targets", ())]
    (scaled,) = documents(emitted("keda"))
    queries += [each["metadata"]["query"] for each in scaled["spec"]["triggers"]]
    _, adapter = documents(emitted("hpa"))
    queries += [each[key] for each in adapter["rules"]["external"] for key in ("metricsQuery", "seriesQuery")]
    _, *slos = documents(emitted("openslo"))
    ratios = [each["spec"]["indicator"]["spec"]["ratioMetric"] for each in slos]
    queries += [each[part]["metricSource"]["spec"]["query"] for each in ratios for part in ("good", "total")]
    assert len(queries) > 30

    def written(exprs: list[str]) -> str:
        rows = [{"record": f"query_{place}", "expr": each} for place, each in enumerate(exprs)]
        return yaml.safe_dump({"groups": [{"name": "queries", "rules": rows}]})

    assert checked(tmp_path, written(queries)) == ""
    assert checked(tmp_path, written([*queries, "sum("])) != ""
