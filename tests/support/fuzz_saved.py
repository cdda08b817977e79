"""What verbs keep and read again, and small files beside a plan: saved profiles, synthetic models, calibrations, step
profiles, facts, shared limits, names of metrics, answers of Prometheus and bills. The kind is told by a word in it."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from support.calibrations import calibration_document
from support.fuzz_traces import DAY
from support.fuzz_traces import seeds as traces
from ullage.documents import reading
from ullage.files.portfolio_file import read_portfolio_file
from ullage.load.evidence import read_calibration
from ullage.load.names import load_catalogue
from ullage.load.texts import read_text
from ullage.load.traffic import load_synthetic, read_profile
from ullage.readers.paid import read_paid
from ullage.readers.profiles import read_profile_rows
from ullage.readers.prometheus.files import observe_files
from ullage.readers.prometheus.settings import MetricNames, read_http_settings, read_metric_names
from ullage.report.encode import document, to_text
from ullage.service.steps.profile_table import read_profile as read_step_profile
from ullage.verbs.profile import profile, synthesis_of

PACKAGES = (
    "readers/paid.py",
    "readers/azure_costs.py",
    "readers/billing_exports.py",
    "readers/prometheus/files.py",
    "readers/prometheus/settings.py",
    "readers/prometheus/steps.py",
    "readers/prometheus/joined.py",
    "readers/profiles/__init__.py",
    "readers/profiles/dynamo_sweep.py",
    "service/steps/profile_table.py",
    "files/portfolio_file.py",
    "files/facts_directory.py",
    "workload/profile/saved.py",
)
_END_S = datetime.datetime.combine(DAY, datetime.time(), datetime.UTC).timestamp()


def _facts(file: Path) -> None:
    """A user's own device beside the packaged ones, which one file lays over ours."""
    folder = file.with_name("facts")
    try:
        (folder / "devices").mkdir(parents=True)
        shutil.copy(file, folder / "devices" / "l4.toml")
        load_catalogue("devices", folder)
    finally:
        shutil.rmtree(folder)


def _steps(file: Path) -> None:
    with reading(str(file), fix="Give the file as it was written."):
        read_step_profile(read_profile_rows(file, field="evidence.profile"))


def _limits(file: Path) -> None:
    read_portfolio_file(read_text(file, field="--quotas", fix="Give the file of shared limits."), file=str(file))


def _saved(file: Path) -> None:
    to_text(document("profile", read_profile(file), as_of=DAY))


KINDS: dict[bytes, Callable[[Path], Any]] = {
    b"ullage.profile": _saved,
    b"ullage.calib": read_calibration,
    b"mean_rate": load_synthetic,
    b"resultType": lambda file: observe_files([file], MetricNames()),
    b"prefill": _steps,
    b"quotas": _limits,
    b"http_": read_http_settings,
    b"metrics": read_metric_names,
    b"architecture": _facts,
}


def read(file: Path) -> None:
    data = file.read_bytes()
    kind = next((each for each in KINDS if each in data), None)
    if kind is None:
        read_paid(file, start_s=0.0, end_s=_END_S)
    else:
        KINDS[kind](file)


@cache
def seeds() -> tuple[bytes, ...]:
    return (*_kept(), *(each.encode() for each in (*_answers(), *_STEPS, *_BESIDE, *_BILLS)))


def _kept() -> tuple[bytes, ...]:
    """What profile and calibrate write."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.csv"
        file.write_bytes(traces()[0])
        profiled = profile([file], as_of=DAY)
    synthetic = document("synthetic", synthesis_of(profiled), as_of=DAY)
    documents = (profiled.to_dict(), synthetic, calibration_document())
    return tuple(to_text(each).encode() for each in documents)


def _answers() -> tuple[str, ...]:
    """Prometheus on an engine, with a restart in the middle, and what a wrong query answers."""
    times = [1_762_000_000 + 60 * at for at in range(90)]
    series = [
        {"metric": {"__name__": name, "model_name": "m"}, "values": [[at, str(low + at % 3600)] for at in times]}
        for name, low in (
            ("vllm:request_success_total", 0),
            ("vllm:prompt_tokens_total", 100),
            ("vllm:generation_tokens_total", 5),
            ("vllm:num_requests_running", 1),
            ("vllm:gpu_cache_usage_perc", 0),
        )
    ]
    buckets = [
        {
            "metric": {"__name__": "vllm:time_to_first_token_seconds_bucket", "le": le},
            "values": [[at, str(rank * (at % 3600))] for at in times],
        }
        for rank, le in enumerate(("0.1", "1.0", "+Inf"), 1)
    ]
    found: tuple[list[Any], ...] = ([*series, *buckets], series[:1], [])
    return tuple(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": each}}) for each in found)


_STEPS = (
    (
        "kind,sequences,kv_tokens,tokens,duration_s\n"
        "decode,1,1000,0,0.02\ndecode,64,64000,0,0.04\nprefill,0,0,100,0.03\nprefill,0,0,1000,0.09\n"
    ),
    json.dumps(
        {
            "prefill_isl": [100, 1000],
            "prefill_ttft": [30.0, 90.0],
            "prefill_thpt_per_gpu": [3000.0, 11000.0],
            "x_kv_usage": [0.1, 0.5],
            "y_context_length": [1000, 2000],
            "z_itl": [20.0, 40.0],
            "z_thpt_per_gpu": [50.0, 90.0],
            "max_kv_tokens": 80_000,
        }
    ),
)
_BESIDE = (
    (
        "version: 1\nregions:\n- {name: here, quotas: {h100-sxm: 40}, nodes: {h100-sxm: 5}}\n"
        "budget: 90000 USD\nservices:\n- {name: chat, shortfall: 0.1 USD, regions: [here], least: 50%}\n"
        "commitments:\n- {device: h100-sxm, region: here, devices: 8, price: 2 USD/h}\n"
    ),
    "http_headers:\n  X-Scope: {values: [a]}\nbearer_token: secret\nfollow_redirects: true\ntimeout_s: 5\n",
    "basic_auth: {username: a, password: b}\ntls_config: {insecure_skip_verify: true}\nretries: 2\nhttp_headers: {}\n",
    "metrics: {preemptions: my_preemptions_total}\nlabel: app\nclasses: {chat: web}\nselector: 'env=\"prod\"'\n",
    (
        'title = "L4"\nvendor = "NVIDIA"\narchitecture = "Ada"\naliases = ["L4 of ours"]\n'
        'source = "own"\n\n[sources.own]\n'
        'what = "our test"\nwhere = "here"\ndate = 2026-11-01\nevidence = "measured"\n\n[values]\n'
        'memory = { value = "22 GiB", high = "23034 MiB", source = "own" }\nmemory_bandwidth = "300 GB/s"\n'
    ),
)
_BILLS = (
    "ChargePeriodStart,EffectiveCost,BillingCurrency\n2026-11-01T00:00:00Z,10.25,USD\n2026-11-07T23:00:00+00:00,20,USD\n",
    "line_item_usage_start_date,line_item_unblended_cost,line_item_currency_code\n2026-11-01T00:00:00Z,10.25,USD\n",
    "Date,CostInBillingCurrency,BillingCurrency\n10/31/2026,99.5,USD\n11/01/2026,1010.25,USD\n",
    "UsageDate,CostUSD,Cost,Currency\n2026-10-31,99.5,90,EUR\n2026-11-01,1010.25,900,EUR\n",
    "Datum;Dienst;Kosten;Währung\n31.10.2026;VM;99,5;USD\n1.11.2026;VM;1.010,25;USD\n",
    json.dumps({"code": 200, "data": [{"chat": {"window": {"start": "2026-11-01T00:00:00Z"}, "totalCost": 5.0}}]}),
)
