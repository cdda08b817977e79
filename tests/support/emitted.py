"""Plans to emit from, made by hand: the numbers that targets read, without a pipeline behind them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from support.mixes import BURSTS, small_model
from support.planned import AS_OF
from support.served_replicas import class_with_slos
from ullage.emit.numbers import PlanNumber, PlanNumbers, plan_numbers
from ullage.emit.request import EmitPlan, EmitPool, EngineChoice
from ullage.emit.targets import emit_files
from ullage.emit.tree import EmittedFile
from ullage.files.sections.emit import EmitSection, emit_of
from ullage.files.sections.provenance import file_provenance
from ullage.memory.sharding import Sharding
from ullage.planning.manifests import EmitSettings
from ullage.service.trial.mix import MixLoad
from ullage.workload.synthetic.model import SyntheticModel

# Unit, value; a whole number is a count.
FIGURES: dict[str, tuple[str, float | str]] = {
    "memory.kv_cache_bytes": ("bytes", 42_437_967_872),
    "memory.headroom_bytes": ("bytes", 8_076_132_352),
    "memory.kv_tokens": ("tokens", 323_776),
    "host.workers_bytes": ("bytes", 2_378_588_160),
    "host.weights_staging_bytes": ("bytes", 65_524_246_528),
    "limit.context_tokens": ("tokens", 32_768),
    "limit.engine_running_requests": ("requests", 32),
    "limit.replica_queue_requests": ("requests", 5),
    "limit.engine_queue_requests": ("requests", 5),
    "limit.backpressure_requests": ("requests", 2),
    "limit.retry_after_s": ("s", 64),
    "limit.pool_rate_rps": ("req/s", 55.4065984),
    "limit.engine_success_at_3": ("fraction", 0.1),
    "limit.gateway_success_at_3": ("fraction", 0.39),
    "limit.chat.rate_rps": ("req/s", 40.5501756),
    "limit.chat.tokens_per_s": ("tokens/s", 78_249.375),
    "limit.coding.rate_rps": ("req/s", 14.8564228),
    "limit.coding.tokens_per_s": ("tokens/s", 126_228.896),
    "demand.chat.cached_fraction": ("fraction", 0.51875),
    "demand.coding.cached_fraction": ("fraction", 0.773125),
    "demand.planning_rate": ("req/s", 55.4065984),
    "score.service_time_s": ("s", 13.4611642),
    "score.kv_peak_fraction": ("fraction", 0.4),
    "score.cached_fraction": ("fraction", 0.6759),
    "score.queue_requests": ("requests", 0.10692582),
    "fleet.replicas": ("replicas", 35),
    "fleet.total_replicas": ("replicas", 47),
    "fleet.total_devices": ("devices", 94),
    "reserve.serving_replicas": ("replicas", 41),
    "reserve.rollout_surge_replicas": ("replicas", 6),
    "reserve.rollout_unavailable_replicas": ("replicas", 0),
    "reserve.maintenance_replicas": ("replicas", 4),
    "ready.cold_p90_s": ("s", 1374.889),
    "ready.cold_p99_s": ("s", 2710.126),
    "ready.warm_p90_s": ("s", 365.545),
    "ready.hot_p90_s": ("s", 15.518),
    "ready.probe_p50_s": ("s", 5.0),
    "ready.discovery_p90_s": ("s", 4.998),
    "ready.checkpoint_bytes": ("bytes", 65_524_246_528),
    "packing.devices": ("devices", 96),
    "packing.nodes": ("nodes", 12),
    "packing.replicas_per_node": ("replicas", 4),
    "placement.zone-1.replicas": ("replicas", 24),
    "placement.zone-2.replicas": ("replicas", 23),
    "utilisation.mean_fraction": ("fraction", 0.34477416),
    "headroom.cache_fraction": ("fraction", 0.05),
    "burst.queue_120s_ratio": ("ratio", 1.46),
    "bill.per_success_usd": ("USD", 0.00773931011),
    "bill.total_usd": ("USD", 489_095.08),
    "answer.devices_usd": ("USD", 482_150.4),
    "scaling.threshold_requests": ("requests", 20.4),
    "scaling.least_replicas": ("replicas", 12),
    "scaling.most_replicas": ("replicas", 45),
    "scaling.down_window_s": ("s", 1380),
    "scaling.window_s": ("s", 30),
    "scaling.floor_fraction": ("fraction", 0.0),
    "scaling.schedule": ("", ""),
    "scaling.node_held_s": ("s", 600),
    "point.operating_rps": ("req/s", 0.58680252),
    "point.highest_rps": ("req/s", 1.49372546),
    "margin.evidence_ratio": ("ratio", 1.48220937),
    "fleet.evidence_replicas": ("replicas", 12),
    "answer.evidence_usd": ("USD", 120_537.6),
    "price.h100-sxm.aws.us-east-1.p5.48xlarge.on-demand": ("USD/device-hour", 6.88),
}
INPUTS: dict[str, tuple[str, float | str]] = {
    "KV dtype": ("text", "bf16"),
    "vllm token_budget": ("tokens", 8192),
    "sglang token_budget": ("tokens", 8192),
    "tensorrt-llm token_budget": ("tokens", 8192),
    "rollout.drain": ("s", 120),
    "maintenance.every": ("s", 2_592_000),
    "maintenance.drain": ("s", 300),
    "warm.start": ("", "cold"),
    "admission.scale_delay": ("s", 30),
    "admission.first_token_timeout": ("s", 60),
    "admission.retry_budget": ("fraction", 0.1),
    "cost.period": ("h", 730),
    "policy.reconcile_every": ("s", 604_800),
    "pool.storage": ("", "shared-filesystem"),
    "pool.device": ("", "h100-sxm"),
    "chat.deadline": ("s", 60),
    "coding.deadline": ("s", 120),
}
AGES = {"platform node time": 183, "vllm token_budget": 100}

NAMES = """
namespace: llm
labels: {team: search}
prometheus: http://prometheus.monitoring:9090
gateway: inference
tenant_header: x-tenant-id
class_header: x-request-class
workloads:
  pool:
    name: chat
    container: engine
    image: vllm/vllm-openai:v0.32.0
    model: Qwen/Qwen3-32B
    served_model: qwen3-32b
    selector: {app: chat}
    series: {namespace: llm, model_name: qwen3-32b}
    port: 8000
    device_resource: nvidia.com/gpu
    node_selector: {node.kubernetes.io/instance-type: p5.48xlarge}
    priority_class: llm-serving
    node_class: karpenter.k8s.aws/EC2NodeClass/gpu
    route: chat
    endpoint_picker: "chat-epp:9002"
    address: http://chat.llm:8000/v1
    args: [--enable-auto-tool-choice]
"""


def document(figures: Mapping[str, float | str] | None = None) -> dict[str, Any]:
    """What `ullage plan --json` would print, with other values of some figures or inputs; a new name is a figure."""
    given = dict(figures or {})
    rows = {name: (unit, given.pop(name, value)) for name, (unit, value) in (FIGURES | INPUTS).items()}
    rows |= {name: ("", value) for name, value in given.items()}
    source = {"what": "a test", "where": "tests", "date": "2026-09-07", "licence": ""}
    found = {
        name: {"name": name, "value": value, "unit": unit, "evidence": "stated", "sources": [source]}
        | ({"max_age_days": AGES[name]} if name in AGES else {})
        for name, (unit, value) in rows.items()
    }
    return {
        "schema": "ullage.plan/2",
        "service": "made by hand",
        "as_of": AS_OF.isoformat(),
        "seed": 0,
        "summary": {"verdict": "GO", "pools": [{"name": "pool"}]},
        "classes": [
            {"name": "chat", "priority": 0, "slos": [_slo("ttft", 1.0), _slo("tpot", 0.08)]},
            {"name": "coding", "priority": 1, "slos": [_slo("ttft", 3.0), _slo("e2e", 30.0)]},
        ],
        "inputs": list(INPUTS),
        "stages": [{"name": "all", "figures": [name for name in found if name not in INPUTS]}],
        "assumptions": {name: each for name, each in found.items() if name in INPUTS},
        "figures": {name: each | {"formula": "by hand"} for name, each in found.items() if name not in INPUTS},
    }


def _slo(metric: str, limit_s: float) -> dict[str, Any]:
    return {"metric": metric, "percentile_fraction": 0.95, "limit_s": limit_s, "name": f"{metric}_p95"}


@functools.cache
def settings(changes: str = "{}") -> EmitSettings:
    """The names of the cluster; `changes` are keys of the workload, as YAML, null to leave one out."""
    content = yaml.safe_load(NAMES)
    changed = yaml.safe_load(changes)
    shared = {key: changed.pop(key) for key in list(changed) if key in content}
    content |= shared
    content["workloads"]["pool"] |= changed
    content = {key: each for key, each in content.items() if each is not None}
    pool = content["workloads"]["pool"]
    content["workloads"]["pool"] = {key: each for key, each in pool.items() if each is not None}
    said = file_provenance(file="plan.yaml", dated=AS_OF, is_example=False)
    return emit_of(EmitSection.model_validate(content), ("pool",), said)


def numbers(figures: Mapping[str, float | str] | None = None) -> PlanNumbers:
    return plan_numbers(document(figures), file="plan")


def choice(engine: str = "vllm", **sharding: int) -> EngineChoice:
    return EngineChoice(engine=engine, sharding=Sharding(**{"tp": 2} | sharding))


def emitted(
    *targets: str,
    figures: Mapping[str, float | str] | None = None,
    names: str = "{}",
    engine: str = "vllm",
    sharding: Mapping[str, int] | None = None,
) -> tuple[EmittedFile, ...]:
    """The files of these targets from a plan of these figures."""
    chosen = {"pool": choice(engine, **(sharding or {}))}
    return emit_files(numbers(figures), chosen, settings(names), targets, mixes())


@functools.cache
def mixes(*pools: str) -> dict[str, MixLoad]:
    """The traffic of each pool: two classes with bursts, a part of their prompts cached."""
    classes = tuple(class_with_slos(name, ttft_p95=1.0) for name in ("chat", "coding"))
    mix = MixLoad(
        model=SyntheticModel(
            classes=(small_model("chat", 3.0, bursts=BURSTS), small_model("coding", 1.0, bursts=BURSTS))
        ),
        classes=classes,
        cache_blocks=2_000.0,
    )
    return dict.fromkeys(pools or ("pool",), mix)


def documents(files: Sequence[EmittedFile]) -> list[Any]:
    """Every YAML document of these files."""
    return [each for file in files for each in yaml.safe_load_all(file.text)]


def pool(figures: Mapping[str, float | str] | None = None, *, engine: str = "vllm") -> EmitPool:
    return EmitPool(
        pool="pool",
        plan=numbers(figures),
        choice=choice(engine),
        settings=settings(),
        target="test",
        is_autoscaled=False,
    )


def plan(figures: Mapping[str, float | str] | None = None) -> EmitPlan:
    found = pool(figures)
    return EmitPlan(plan=found.plan, settings=found.settings, target="test", pools=(found,))


def without(plan_of: PlanNumbers, *names: str) -> PlanNumbers:
    kept: dict[str, PlanNumber] = {name: each for name, each in plan_of.numbers.items() if name not in names}
    return replace(plan_of, numbers=kept)
