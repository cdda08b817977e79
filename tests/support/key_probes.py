"""Plans small enough to plan again for every key, and the cheapest stage that carries the figure a key is to move."""

from __future__ import annotations

import copy
import csv
import datetime
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from support.calibrations import calibration_document
from support.loadtest_samples import to_json, vllm_run
from ullage.admission.limits import admission_limits
from ullage.errors import NotGiven, Rejection
from ullage.evidence import Assumption, Figure
from ullage.files.plan_file import put_value
from ullage.files.strict_yaml import Document, read_scalar
from ullage.fleet.steady import KeptFree, SteadyFleet, steady_fleet
from ullage.load.plan import load_plan
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.planning import pipeline
from ullage.planning.billing.service_bill import service_bill
from ullage.planning.checks.checks import CHECKS, check_plan
from ullage.planning.document import Plan
from ullage.planning.machines import on_machines
from ullage.planning.options.apart import apart_sides
from ullage.planning.options.candidates import candidates_of
from ullage.planning.options.lead_times import OrderNeed, order_dates
from ullage.planning.options.mix import slices_of
from ullage.planning.options.screen import Fit, OptionRequest, fit_of
from ullage.planning.planned_for import planned_for, pool_steps
from ullage.planning.sides import limit_figures, pool_asked
from ullage.planning.spec import PlanSpec, PoolSpec
from ullage.report.encode import to_json as encoded
from ullage.scaling.stage import scaling_stage
from ullage.service.calibration.pool_step import pool_step
from ullage.service.stage import band_of, pool_bases, pool_curve, pool_point, rests_on
from ullage.service.steps.step_model import StepModel
from ullage.service.trial.bases import Bases
from ullage.service.trial.trial import CONSERVATIVE
from ullage.startup.ready import TimeToReady, time_to_ready
from ullage.uncertainty.study import study
from ullage.verbs.profile import profile, save_profile
from ullage.workload.demand.demand import Demand
from ullage.workload.demand.routing import routed
from ullage.workload.demand.tools import tool_loads
from ullage.workload.synthetic.builtin import builtin

AS_OF = datetime.date(2026, 11, 15)
Values = dict[str, object]

ONE = """
version: 1
service: one
dated: 2026-11-10
workload:
  classes:
    - {name: chat, rate: 4 req/s, longest_context: 4096, slo: {ttft_p95: 2s, tpot_p95: 80ms}}
    - {name: batch, rate: 1 req/s, longest_context: 4096, slo: {e2e_p95: 60s}, priority: 1}
pool: {model: llama-3.1-8b, device: l40s, engine_version: 0.32.0}
prices: {provider: aws}
admission: {tenants: [{name: acme, share: 60%}, {name: other, share: 40%}]}
claims: {cost: {per_success: 0.5 USD}}
rollout: {demand: 100%}
maintenance: {demand: 100%}
"""
MOE = """
version: 1
service: experts
workload:
  classes: [{name: chat, rate: 1 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}]
pool: {model: gpt-oss-20b, device: h100-sxm, tensor_parallel: 2, expert_parallel: 2}
"""
RESERVED = """
version: 1
service: reserved
workload:
  classes: [{name: chat, rate: 2 req/s, longest_context: 4096, slo: {e2e_p95: 120s}}]
pool: {model: llama-3.1-8b, device: l40s, engine: tensorrt-llm, memory_fraction: 20%}
"""
RATIOED = RESERVED.replace("tensorrt-llm, memory_fraction: 20%", "sglang, memory_fraction: 50%")
MEASURED = """
version: 1
service: measured
workload:
  classes: [{name: chat, rate: 1 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}]
pool: {model: llama-3.1-8b, device: h100-sxm}
prices: {provider: aws, region: us-east-1, files: [{path: history.csv}]}
"""
TESTED = MEASURED + "evidence: {load_tests: [bench.json]}\n"
FILED = MEASURED.replace("path: history.csv", "path: machines.csv, dated: 2026-11-01, provider: aws")
PROFILED = """
version: 1
service: profiled
workload: {profile: half.json, classes: [{name: chat, longest_context: 8192, slo: {ttft_p95: 2s}}]}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""
ROUTED = """
version: 1
service: routed
workload:
  classes:
    - {name: chat, rate: 1 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}
    - {name: code, rate: 2 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}
  events: [{name: launch, from: 2026-11-18, to: 2026-11-19, demand: 3}]
pool: {model: llama-3.1-8b, device: h100-sxm}
routing: [{class: chat, shares: [{pool: pool, share: 100%}]}]
"""
TRACED = """
version: 1
service: traced
workload:
  trace: [log.csv]
  events: [{name: launch, from: 2026-11-18, to: 2026-11-19, demand: 3}]
  classes:
    - {name: short, longest_context: 8192, slo: {ttft_p95: 1s}, match: {below_prompt_tokens: 2000}}
    - {name: long, longest_context: 8192, slo: {ttft_p95: 3s}, match: {from_prompt_tokens: 2000}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""
POOLS = """
version: 1
service: pools
workload:
  classes:
    - {name: chat, rate: 3 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}
    - {name: code, rate: 2 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}
    - {name: mail, rate: 1 req/s, longest_context: 4096, slo: {ttft_p95: 9s}, pool: small}
    - {name: news, rate: 1 req/s, longest_context: 4096, slo: {ttft_p95: 9s}, pool: third}
pools:
  - {name: small, model: llama-3.1-8b, device: l40s}
  - {name: large, model: llama-3.1-8b, device: h100-sxm}
  - {name: third, model: llama-3.1-8b, device: l40s}
routing:
  - {class: chat, escalation: [{pool: small, goes_on: 20%, success: 75%}, {pool: large, success: 92%}]}
  - {class: code, shares: [{pool: small, share: 50%, success: 75%}, {pool: large, share: 50%, success: 90%}]}
tools:
  - {name: search, latency: 300ms, concurrency: 8, classes: [chat, code]}
  - {name: fetch, rate_limit: 40 req/s, classes: [chat]}
claims: {replicas: 1, capacity: 5000 req/s}
"""
SITES = """
version: 1
service: sites
workload:
  classes: [{name: chat, rate: 60 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}]
pool: {model: llama-3.1-8b, device: l40s}
sites:
  source: console
  dated: 2026-11-01
  regions:
    - {name: west, quotas: {l40s: 400}, zones: [{name: wa, quotas: {l40s: 200}}, {name: wb}]}
    - {name: east, zones: [{name: ea}, {name: eb}]}
rollout: {strategy: canary}
maintenance: {every: 3d, demand: 100%}
warm: {follows: demand}
"""
OWN = """
version: 1
service: own
dated: 2026-11-10
workload:
  classes: [{name: chat, rate: 4 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}]
pool: {model: llama-3.1-8b, device: l40s}
prices:
  purchase: {1y-partial-upfront: 40%, spot: 30%, owned: 30%}
  spot_lost: 10min
  exchange: {EUR: {rate: 1.1, dated: 2026-11-01}}
  held: [{device: l40s, devices: 2, price: 1 USD/h, until: 2027-06-30}]
  announced: [{on: 2027-02-01, times: 0.9}]
  own:
    items: {tool-call search: 0.01 USD/call}
    devices:
      - {device: l40s, provider: mine, price: 6 EUR/h, devices: 8, purchase: 1y-partial-upfront, upfront: 9000 USD}
      - {device: l40s, provider: mine, price: 2 USD/h, devices: 8, purchase: spot, interruptions_per_hour: 0.05}
    machines:
      - {device: l40s, devices: 8, capex: 90000 USD, power: 4 kW}
    tokens:
      - {provider: api, model: big, input: 1 USD/Mtok, output: 5 USD/Mtok, cached_read: 0.1 USD/Mtok,
         cache_write: 1.5 USD/Mtok}
cost:
  bought:
    - {name: api, provider: api, model: big, rate: 1 req/s, prompt_tokens: 1000, output_tokens: 200, cached: 50%,
       cache_written: 20%, success: 90%}
    - {name: spare, provider: api, model: big, rate: 1 req/s, prompt_tokens: 1000, output_tokens: 200}
  tasks:
    - {name: answer, requests: {chat: 3, api: 1}, tools: {search: 1}, escalated: 10%, escalated_requests: {api: 2},
       success: 80%}
  against:
    - {provider: api, model: big, classes: [chat], success: 90%, own_success: 95%, request_fee: 0.01 USD,
       request_limit: 500 req/min, token_limit: 2 Mtokens/min}
  tool_calls: {search: 1}
  evaluation: {share: 1%, provider: api, model: big, prompt_tokens: 1000, output_tokens: 100, suites_per_month: 2,
               items_per_suite: 100}
"""
SELLERS = """
version: 1
service: sellers
workload: {classes: [{name: chat, rate: 1 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}]}
pool: {model: llama-3.1-8b, device: l40s}
prices:
  provider: mine
  region: here
  own:
    devices:
      - {device: l40s, provider: other, region: here, price: 1 USD/h, instance: small}
      - {device: l40s, provider: mine, region: here, price: 8 USD/h, instance: large}
      - {device: l40s, provider: mine, region: there, price: 2 USD/h, instance: medium}
"""
HOUSED = """
version: 1
service: housed
workload: {classes: [{name: chat, rate: 1 req/s, longest_context: 4096, slo: {ttft_p95: 2s}}]}
pool: {model: llama-3.1-8b, device: l40s}
prices:
  region: here
  purchase: owned
  own: {machines: [{device: l40s, devices: 8, capex: 90000 USD, power: 4 kW, site: here}]}
"""
COUNTED = """
version: 1
service: counted
workload:
  trace: [rates.csv]
  classes: [{name: chat, longest_context: 8192, slo: {ttft_p95: 1s}}]
pool: {model: llama-3.1-8b, device: h100-sxm}
"""
ENDED = """
version: 1
service: ended
workload:
  classes:
    - {name: chat, rate: 4 req/s, longest_context: 4096, slo: {ttft_p95: 2s}, outcomes: {cancelled: 30%}}
pool: {model: llama-3.1-8b, device: l40s}
"""
SEATED = """
version: 1
service: seated
workload:
  classes:
    - {name: chat, users: {concurrent: 200, think_time: 30s}, longest_context: 4096, slo: {ttft_p95: 2s}}
pool: {model: llama-3.1-8b, device: l40s}
"""
DRAFTED = ONE.replace(
    "engine_version: 0.32.0}",
    "engine_version: 0.32.0,\n"
    "       speculation: {method: draft, tokens: 2, accepted_per_step: 1.8, draft: llama-3.2-1b}}",
)
HEADED = ONE.replace(
    "{model: llama-3.1-8b, device: l40s, engine_version: 0.32.0}",
    "{model: mimo-7b, device: l40s, speculation: {method: mtp, tokens: 2}}",
)
ADAPTED = ONE.replace(
    "engine_version: 0.32.0}",
    "engine_version: 0.32.0,\n       adapters: {slots: 8, rank: 16}}",
)
APART = ONE.replace(
    "engine_version: 0.32.0}",
    "engine_version: 0.32.0,\n       disaggregated: {transfer: 10GB/s}}",
)
TIERED = ONE.replace(
    "engine_version: 0.32.0}",
    "engine_version: 0.32.0,\n       host_cache: {bytes: 20GB, bandwidth: 25GB/s}}",
)
EMITTED = (
    ONE
    + """
emit:
  namespace: llm
  workloads: {pool: {name: chat}}
"""
)
BASES = {
    "emitted": EMITTED,
    "drafted": DRAFTED,
    "apart": APART,
    # More than one replica, so that a router has a choice.
    "turned": APART.replace("rate: 4 req/s", "rate: 20 req/s"),
    "adapted": ADAPTED,
    "tiered": TIERED,
    "headed": HEADED,
    "looked": HEADED.replace("method: mtp, tokens: 2", "method: ngram, tokens: 2, accepted_per_step: 1.5"),
    "counted": COUNTED,
    "ended": ENDED,
    "seated": SEATED,
    "seats": SEATED.replace("concurrent: 200", "seats: 2000"),
    "tokened": SEATED.replace("users: {concurrent: 200, think_time: 30s}", "tokens: 50 Mtokens/day"),
    "sellers": SELLERS,
    "housed": HOUSED,
    "strained": ONE.replace("admission: {", "admission: {recovery: 60s, "),
    "one": ONE,
    # Few sequences to a replica and one replica to a machine: a fleet that scales, by cold starts.
    "scaled": ONE.replace("device: l40s,", "device: l40s, instance: g6e.xlarge, max_sequences: 3,")
    + "scaling: {refused: 60%}\n",
    "asleep": ONE.replace("device: l40s,", "device: l40s, instance: g6e.xlarge, max_sequences: 3,")
    + "scaling: {sleepers: 2}\n",
    "committed": ONE.replace("aws}", "aws, purchase: 1y-no-upfront}"),
    "experts": MOE,
    "reserved": RESERVED,
    "ratioed": RATIOED,
    "measured": MEASURED,
    "tested": TESTED,
    "old": TESTED.replace("evidence: {", "evidence: {dated: 2026-11-01, "),
    "filed": FILED,
    "profiled": PROFILED,
    "routed": ROUTED,
    "traced": TRACED,
    "pools": POOLS,
    "sites": SITES,
    "parted": SITES.replace("60 req/s", "300 req/s") + "failover: {share: 30%}\n",
    "own": OWN,
}


def write_files(folder: Path) -> None:
    """What the plans point to."""
    start = datetime.datetime(2026, 10, 19)  # noqa: DTZ001  the zone is what a key says
    with (folder / "log.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(
            ["arrival_time", "prompt_tokens", "output_tokens", "answer_tokens", "model", "tenant", "path", "product"]
        )
        for minute in range(0, 15 * 24 * 60, 20):
            when = start + datetime.timedelta(minutes=minute)
            for each in range(3 if 8 <= when.hour < 20 else 1):
                prompt = 4000 if minute % 100 == 0 else 300 + minute % 50
                who = "acme" if (minute + each) % 3 else "other"
                path = "/v1/chat" if minute % 40 else "/v1/batch"
                rows.writerow(
                    [when.isoformat(), prompt, 20 + minute % 90, 5, f"llama-{each}", who, path, f"app-{each}"]
                )
    hours = [start + datetime.timedelta(hours=hour) for hour in range(14 * 24)]
    counted = [f"{when.isoformat()}Z,{3600 + 60 * when.hour}" for when in hours]
    (folder / "rates.csv").write_text("\n".join(["timestamp,requests", *counted, ""]))
    with (folder / "log.csv").open() as log:
        (folder / "half.csv").write_text("".join(list(log)[::2]))
    (folder / "engine.log").write_text(ENGINE_LOG)
    (folder / "bench.json").write_bytes(to_json(vllm_run(1.0)))
    (folder / "steps.csv").write_text(STEPS)
    (folder / "calibration.json").write_text(json.dumps(CALIBRATION))
    (folder / "validated.json").write_text(json.dumps(VALIDATION))
    (folder / "synthetic.json").write_text(
        json.dumps({"schema": "ullage.synthetic/1", "model": encoded(builtin())}).replace("0.", "0.9")
    )
    for name in ("half", "log"):
        save_profile(profile([folder / f"{name}.csv"], as_of=AS_OF), folder / f"{name}.json")
    for name, usd in (("history.csv", 4), ("other.csv", 6)):
        (folder / name).write_text(HISTORY.replace("PRICE", str(usd)))
    (folder / "machines.csv").write_text(MACHINES)
    (folder / "facts" / "devices").mkdir(parents=True)
    (folder / "facts" / "devices" / "h100-sxm.toml").write_text(FACT)


VALIDATION: dict[str, Any] = {
    "schema": "ullage.validate/2",
    "as_of": "2026-11-10",
    "tested_on": None,
    "verdict": "validated",
    "points": [],
    "configuration": {"model": "llama-3.1-8b"},
}
ENGINE_LOG = """\
(APIServer pid=1) INFO 06-05 06:00:00 [api_server.py:1] vLLM API server version 0.22.0
(EngineCore pid=2) INFO 06-05 06:00:30 [runner.py:2] Model loading took 15.0 GiB memory and 20.0 seconds
(EngineCore pid=2) INFO 06-05 06:00:40 [gpu_worker.py:460] Available KV cache memory: 23.20 GiB
(EngineCore pid=2) INFO 06-05 06:00:41 [kv_cache_utils.py:1733] GPU KV cache size: 190,048 tokens
(EngineCore pid=2) INFO 06-05 06:00:50 [core.py:3] init engine (profile, warmup) took 20.0 s
(APIServer pid=1) INFO 06-05 06:01:00 [api_server.py:4] Starting vLLM server on http://0.0.0.0:8000
"""
STEPS = """\
kind,sequences,kv_tokens,tokens,duration_s
decode,1,1000,0,0.02
decode,64,64000,0,0.04
prefill,0,0,100,0.03
prefill,0,0,1000,0.09
"""
CALIBRATION = calibration_document()
HISTORY = """\
date,provider,instance,region,gpu,gpu_count,on_demand_usd_h,spot_min_az,spot_max_az,n_az
2026-08-01,aws,p5.48xlarge,us-east-1,H100,8.0,9,1,1,1
2026-11-01,aws,p5.48xlarge,us-east-1,H100,8.0,PRICE,1,1,1
"""
MACHINES = """\
InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice
p5.48xlarge,192.0,2048.0,H100,8.0,,us-east-1,use1-az1,2.0,1.0
"""
FACT = """\
source = "us"
[sources.us]
what = "our own rack"
where = "inventory"
date = 2026-11-01
evidence = "measured"
[values]
memory = "70 GiB"
"""


def with_value(document: Document, key: str, text: str) -> Document:
    """The document as `--set key=text` leaves it."""
    content = copy.deepcopy(document.content)
    path = put_value(content, key, read_scalar(text, field=f"--set {key}"))
    return replace(document, content=content, options={**document.options, path: f"--set {key}"})


def spec_of(document: Document, folder: Path) -> PlanSpec:
    file = folder / "plan.yaml"
    file.write_text(json.dumps(document.content))
    return load_plan(file, as_of=AS_OF)


class Probe:
    """One plan, kept; other specifications are planned again from the stage on that a figure comes from."""

    def __init__(self, spec: PlanSpec) -> None:
        self.spec = spec
        self._was: dict[Stage, Values] = {}

    @cached_property
    def kept(self) -> Plan:
        found = pipeline.plan(self.spec, as_of=AS_OF, seed=0)
        assert isinstance(found, Plan)
        return found

    @cached_property
    def steady(self) -> SteadyFleet:
        """The fleet of the first pool that was kept; nothing else is planned for it."""
        found = steady_of(self.spec)
        assert isinstance(found, SteadyFleet)
        return found

    def moved(self, spec: PlanSpec, pattern: str) -> bool:
        """Whether a figure of this pattern differs from that of the plan that was kept."""
        prefix, _, rest = pattern.partition(".")
        again = CHECK_STAGES[rest] if prefix == "check" else STAGES[prefix]
        # What the cheap stage takes as given may be what the key works through; then the whole plan is asked.
        return any(self._differ(spec, pattern, each) for each in dict.fromkeys((again, whole_plan)))

    def _differ(self, spec: PlanSpec, pattern: str, again: Stage) -> bool:
        if again not in self._was:
            self._was[again] = again(self.spec, self)
        was, now = (
            {name: value for name, value in each.items() if _is_meant(name, pattern)}
            for each in (self._was[again], again(spec, self))
        )
        return was != now


Stage = Callable[[PlanSpec, Probe], Values]


def _is_meant(name: str, pattern: str) -> bool:
    return fnmatch(name, pattern) or fnmatch(name, f"*.{pattern}")


def _values(figures: Mapping[str, Figure], pool: str = "") -> Values:
    return {f"{pool}.{name}" if pool else name: each.value for name, each in figures.items()}


def _refusal(found: Rejection) -> Values:
    return {found.figure.name: found.figure.value, "refused": found.reason}


def demand_of(spec: PlanSpec) -> Demand:
    return planned_for(spec)[1]


def _asked(spec: PlanSpec, pool: PoolSpec) -> Demand:
    return pool_asked(spec, pool, demand_of(spec))


def _memory_of(pool: PoolSpec) -> MemoryBudget:
    found = memory_budget(
        pool.model, pool.device, pool.settings, approved=pool.approved, reported=pool.reported, engines=pool.engines
    )
    assert isinstance(found, MemoryBudget)
    return found


def demand(spec: PlanSpec, _: Probe) -> Values:
    return _values(demand_of(spec).figures)


def routing(spec: PlanSpec, _: Probe) -> Values:
    return _values(routed(spec.routing, demand_of(spec)).figures)


def memory(spec: PlanSpec, _: Probe) -> Values:
    return _values(_memory_of(spec.pool).figures)


def step(spec: PlanSpec, _: Probe) -> Values:
    return _values(pool_step(_memory_of(spec.pool), spec.pool.tested).figures)


def _ready_of(pool: PoolSpec) -> TimeToReady:
    return time_to_ready(_memory_of(pool), pool.start, rng=np.random.default_rng(0))


def ready(spec: PlanSpec, _: Probe) -> Values:
    return _values(_ready_of(spec.pool).figures)


def tools(spec: PlanSpec, _: Probe) -> Values:
    return _values(tool_loads(spec.tools, _asked(spec, spec.pool), service=demand_of(spec)).figures)


def reserves(spec: PlanSpec, probe: Probe) -> Values:
    pool = spec.pool
    sharding, sites = _memory_of(pool).runtime.sharding, spec.sites.get(pool.device.name)
    found = on_machines(
        pool, spec, sharding, probe.steady, _ready_of(pool), _asked(spec, pool), sites=sites, seed=0
    )  # fmt: skip
    if isinstance(found, Rejection):
        return _refusal(found)
    return _values(found[0].figures) | _values(found[1].figures)


def bill(spec: PlanSpec, probe: Probe) -> Values:
    """The bill of the fleets that were kept."""
    pools = [
        replace(old, spec=pool, demand=_asked(spec, pool))
        for pool, old in zip(spec.pools, probe.kept.pools, strict=True)
    ]
    replicas = {each.spec.name: each.steady_fleet.figures["fleet.replicas"] for each in pools}
    found = service_bill(spec, demand_of(spec), pools, replicas, seed=0)
    assert not isinstance(found, NotGiven)
    return _values(found.figures)


def limits(spec: PlanSpec, probe: Probe) -> Values:
    old = probe.kept.pools[0]
    found = admission_limits(
        old.service_curve,
        old.time_to_ready,
        _asked(spec, spec.pool),
        spec.classes,
        replicas=old.steady_fleet.replicas,
        capacity_rps=old.headroom.capacity_rps,
        memory=old.memory,
        policy=spec.admission,
    )
    return _refusal(found) if isinstance(found, Rejection) else _values(found.figures)


def apart(spec: PlanSpec, _: Probe) -> Values:
    """The prefill side's part of every limit."""
    return _values(limit_figures(spec, spec.pool, demand_of(spec)))


def scaling(spec: PlanSpec, probe: Probe) -> Values:
    """The rule of the fleet that was kept, under other settings."""
    old = probe.kept.pools[0]
    found = scaling_stage(
        old.demand, old.steady_fleet, old.reserves, old.time_to_ready, engine=old.memory.runtime.engine,
        settings=spec.scaling, seed=0,
    )  # fmt: skip
    return _values(found.figures)


def checks(name: str, spec: PlanSpec, probe: Probe) -> Values:
    found = check_plan(replace(probe.kept, spec=spec), [name])
    return {f"check.{name}": [(each.pool, each.compared, each.anomalies) for each in found.results]}


CHECK_STAGES: Mapping[str, Stage] = {name: partial(checks, name) for name in CHECKS}


def _sent_s(side: PoolSpec) -> float:
    assert side.phase is not None
    return float(side.phase.transfer.seconds(np.array([1000], np.int32))[0])


def options(spec: PlanSpec, _: Probe) -> Values:
    found = candidates_of(spec.pool, spec.options, book=spec.prices, buying=spec.buying)
    asked = OptionRequest(
        demand=_asked(spec, spec.pool),
        classes=spec.classes,
        slo_limits=spec.slo_limits,
        spec=spec,
        point=planned_for(spec)[0],
        seed=0,
    )
    fit = fit_of(found[0], asked)
    assert isinstance(fit, Fit)
    return {
        "options.candidates": [each.name for each in found],
        "options.slices": slices_of(fit, spec.pool.name, spec.options.split),
        "options.transfer_s": _sent_s(apart_sides(spec.pool, spec.options.transfer)[0]),
    }


def orders(spec: PlanSpec, _: Probe) -> Values:
    found = order_dates(
        demand_of(spec),
        lambda rate_rps: OrderNeed(replicas=1, devices=math.ceil(rate_rps)),
        spec.options.lead,
        purchases=tuple(spec.buying.mix.shares),
        as_of=AS_OF,
        inputs=(),
    )
    return _values(found.figures)


def _served(spec: PlanSpec) -> tuple[StepModel, Bases, Demand, tuple[Figure | Assumption, ...]]:
    """One replica of the first pool under its busy hour, as the stages that simulate take it."""
    pool, demand = spec.pool, _asked(spec, spec.pool)
    served = spec.served_by(pool.name)
    classes = tuple(each.request_class for each in served)
    memory = _memory_of(pool)
    step = pool_steps(pool, memory)
    bases = pool_bases(
        step, memory, demand, classes, seed=0, deadlines_s=spec.admission.deadlines_s(classes),
        band=planned_for(spec)[0].of_pool(band_of(step), demand).band,
    )  # fmt: skip
    return step, bases, demand, rests_on(step, memory, demand, [one for each in served for one in each.slo_limits])


def curve(spec: PlanSpec, _: Probe) -> Values:
    _step, bases, _demand, inputs = _served(spec)
    return _values(pool_curve(bases, seed=0, basis=CONSERVATIVE, inputs=inputs).figures)


def point(spec: PlanSpec, _: Probe) -> Values:
    step, bases, _demand, inputs = _served(spec)
    made = pool_curve(bases, seed=0, basis=CONSERVATIVE, inputs=inputs)
    found = pool_point(made, step, policy=spec.policy.margin)
    return _refusal(found) if isinstance(found, Rejection) else _values(found.figures)


def steady_of(spec: PlanSpec) -> SteadyFleet | Rejection:
    step, bases, demand, inputs = _served(spec)
    need = planned_for(spec)[0].of_pool(band_of(step), demand).need
    kept = KeptFree(policy=spec.policy.margin, least=spec.pool.least, need=need)
    return steady_fleet(bases, planning_rps=demand.planning_rps, seed=0, inputs=inputs, kept=kept)


def fleet(spec: PlanSpec, _: Probe) -> Values:
    found = steady_of(spec)
    return _refusal(found) if isinstance(found, Rejection) else _values(found.figures)


def whole_plan(spec: PlanSpec, probe: Probe) -> Values:
    found = probe.kept if spec is probe.spec else pipeline.plan(spec, as_of=AS_OF, seed=0)
    if isinstance(found, Rejection):
        return _refusal(found)
    return {name: each.value for stage in found.stages for name, each in stage.figures.items()}


def risk(spec: PlanSpec, probe: Probe) -> Values:
    return _values(study(replace(probe.kept, spec=spec)).figures)


STAGES: Mapping[str, Stage] = {
    "demand": demand,
    "routing": routing,
    **dict.fromkeys(("memory", "host"), memory),
    "step": step,
    "ready": ready,
    "tools": tools,
    **dict.fromkeys(("reserve", "placement", "packing"), reserves),
    **dict.fromkeys(("limit", "retry", "burst"), limits),
    "scaling": scaling,
    "disaggregated": apart,
    **dict.fromkeys(("bill", "power"), bill),
    "risk": risk,
    "curve": curve,
    "point": point,
    "fleet": fleet,
    "margin": whole_plan,
    "options": options,
    **dict.fromkeys(("lead", "order"), orders),
}
