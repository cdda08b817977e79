"""The targets there are, and the files of some of them: the whole set, or the first reason why there is none.

To add one: write a function from EmitPlan to files beside its kind, and list it here and in docs/reference/emit.md.
tests/emit holds every target to the schema of what it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ullage.emit.autoscalers.disruption_budget import disruption_budget_files
from ullage.emit.autoscalers.hpa import hpa_files
from ullage.emit.autoscalers.keda import keda_files
from ullage.emit.cluster.capacity_buffer import capacity_buffer_files
from ullage.emit.cluster.karpenter import karpenter_files
from ullage.emit.cluster.kueue import kueue_files
from ullage.emit.cluster.resource_quota import resource_quota_files
from ullage.emit.cluster.tfvars import tfvars_files
from ullage.emit.gateways.envoy_ai_gateway import envoy_ai_gateway_files
from ullage.emit.gateways.envoy_gateway import envoy_gateway_files
from ullage.emit.gateways.inference_gateway import inference_gateway_files
from ullage.emit.gateways.litellm import litellm_files
from ullage.emit.loadtests.files import loadtest_files
from ullage.emit.missing import make_with_names
from ullage.emit.monitoring.grafana import grafana_files
from ullage.emit.monitoring.openslo import openslo_files
from ullage.emit.monitoring.prometheus import prometheus_files, prometheus_operator_files
from ullage.emit.numbers import PlanNumbers
from ullage.emit.request import EmitPlan, EmitPool, EngineChoice
from ullage.emit.tree import EmittedFile
from ullage.emit.workloads.deployment import deployment_files
from ullage.emit.workloads.engine_files import sglang_files, tensorrt_llm_files, vllm_files
from ullage.emit.workloads.knative import knative_files
from ullage.emit.workloads.kserve import kserve_files
from ullage.emit.workloads.kserve_llm import kserve_llm_files
from ullage.emit.workloads.leaderworkerset import leaderworkerset_files
from ullage.emit.workloads.production_stack import production_stack_files
from ullage.errors import InputError, check_name
from ullage.planning.manifests import EmitSettings
from ullage.service.trial.mix import LoadAt


@dataclass(frozen=True, kw_only=True)
class EmitTarget:
    """One target: what its files are for, and the function that makes them.

    One that `scales` decides the number of replicas, so that a workload beside it leaves it out; one that `sends` is
    made from the requests of each pool's mix as well as from numbers.
    """

    gives: str
    files: Callable[[EmitPlan], list[EmittedFile]]
    scales: bool = False
    sends: bool = False


TARGETS: Mapping[str, EmitTarget] = {
    "deployment": EmitTarget(gives="a Deployment of each pool", files=deployment_files),
    "leaderworkerset": EmitTarget(gives="a LeaderWorkerSet of each pool", files=leaderworkerset_files),
    "production-stack": EmitTarget(gives="values of the vLLM production stack's chart", files=production_stack_files),
    "vllm": EmitTarget(gives="vLLM's settings", files=vllm_files),
    "sglang": EmitTarget(gives="SGLang's settings", files=sglang_files),
    "tensorrt-llm": EmitTarget(gives="TensorRT-LLM's settings", files=tensorrt_llm_files),
    "kserve": EmitTarget(gives="an InferenceService of KServe", files=kserve_files),
    "kserve-llm": EmitTarget(gives="an LLMInferenceService of KServe", files=kserve_llm_files),
    "knative": EmitTarget(gives="a Service of Knative with the plan's annotations", files=knative_files),
    "keda": EmitTarget(gives="a ScaledObject of KEDA", files=keda_files, scales=True),
    "hpa": EmitTarget(gives="a HorizontalPodAutoscaler, and rules of its adapter", files=hpa_files, scales=True),
    "pdb": EmitTarget(gives="a PodDisruptionBudget", files=disruption_budget_files),
    "prometheus": EmitTarget(gives="recording and alerting rules", files=prometheus_files),
    "prometheus-operator": EmitTarget(gives="the same as a PrometheusRule", files=prometheus_operator_files),
    "grafana": EmitTarget(gives="a dashboard, planned and observed", files=grafana_files),
    "openslo": EmitTarget(gives="service levels in OpenSLO", files=openslo_files),
    "envoy-gateway": EmitTarget(gives="rates, queues and timeouts of Envoy Gateway", files=envoy_gateway_files),
    "envoy-ai-gateway": EmitTarget(gives="token limits of Envoy AI Gateway", files=envoy_ai_gateway_files),
    "litellm": EmitTarget(gives="limits of LiteLLM's proxy", files=litellm_files),
    "inference-gateway": EmitTarget(gives="an InferencePool, and priorities by class", files=inference_gateway_files),
    "resource-quota": EmitTarget(gives="a ResourceQuota of the namespace", files=resource_quota_files),
    "kueue": EmitTarget(gives="queues of Kueue with the fleet's quota", files=kueue_files),
    "karpenter": EmitTarget(gives="a NodePool of Karpenter", files=karpenter_files),
    "capacity-buffer": EmitTarget(gives="a CapacityBuffer for a rollout's surge", files=capacity_buffer_files),
    "tfvars": EmitTarget(gives="node counts as variables of Terraform", files=tfvars_files),
    "loadtest": EmitTarget(gives="load tests of one replica that verify the plan", files=loadtest_files, sends=True),
}
NOT_BUILT: Mapping[str, str] = {
    "cronjob": "a CronJob that reconciles",
    "kong": "limits of Kong: its plugins have no schema to check against",
}
"""Targets that people ask for and that this version does not make."""


def emit_files(
    plan: PlanNumbers,
    choices: Mapping[str, EngineChoice],
    settings: EmitSettings,
    names: Sequence[str],
    mixes: Mapping[str, LoadAt] | None = None,
) -> tuple[EmittedFile, ...]:
    """The files of these targets, by name; what cannot be made whole is not made at all.

    `mixes` is the traffic of each pool, for targets that send requests.
    """
    for name in names:
        check_target_name(name)
    scaled = any(TARGETS[name].scales for name in names)
    if sum(TARGETS[name].scales for name in dict.fromkeys(names)) > 1:
        raise InputError(
            field="--target",
            value=", ".join(names),
            problem="has two autoscalers for one workload, which would fight",
            fix="Take keda or hpa.",
        )
    made = partial(_files, plan, choices, names, mixes or {}, scaled)
    return make_with_names(made, settings)


def _files(
    plan: PlanNumbers,
    choices: Mapping[str, EngineChoice],
    names: Sequence[str],
    mixes: Mapping[str, LoadAt],
    scaled: bool,
    settings: EmitSettings,
) -> tuple[EmittedFile, ...]:
    found: dict[str, EmittedFile] = {}
    for name in dict.fromkeys(names):
        request = _request(plan, choices, settings, name, mixes, scaled=scaled)
        for file in TARGETS[name].files(request):
            if file.name in found:
                raise InputError(
                    field="--target", value=name, problem=f"has {file.name}, as another has", fix="Take one."
                )
            found[file.name] = file
    return tuple(found[name] for name in sorted(found))


def sends(names: Sequence[str]) -> bool:
    """Whether one of these targets is made from requests, for which the plan's traffic has to be read."""
    return any(TARGETS[name].sends for name in names)


def check_target_name(name: str) -> None:
    if name in NOT_BUILT:
        raise InputError(
            field="--target",
            value=name,
            problem=f"({NOT_BUILT[name]}) is not made by this version",
            fix=f"Targets: {', '.join(TARGETS)}.",
        )
    check_name(name, TARGETS, field="--target", fix="ullage emit --list lists them.")


def _request(
    plan: PlanNumbers,
    choices: Mapping[str, EngineChoice],
    settings: EmitSettings,
    target: str,
    mixes: Mapping[str, LoadAt],
    *,
    scaled: bool,
) -> EmitPlan:
    pools = tuple(
        EmitPool(
            pool=name,
            plan=plan,
            choice=choices[name],
            settings=settings,
            target=target,
            is_autoscaled=scaled,
            mix=mixes.get(name),
        )
        for name in plan.pools
    )
    return EmitPlan(plan=plan, settings=settings, target=target, pools=pools)
