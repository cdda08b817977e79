"""Documents held to the schemas of what they are for, with unknown fields refused and CEL rules evaluated.

Kinds of Kubernetes itself come with kubernetes-validate; those of others lie in the published data beside the
repository. What has no schema anywhere is held to one written here from its documentation.
"""

from __future__ import annotations

import functools
import gzip
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import celpy
import jsonschema
import pytest
import yaml
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

from support.shared_data import ABSENT, find_shared_data

CORE_VERSIONS = ("1.34", "1.37")
_CRDS = {
    "LeaderWorkerSet": "lws/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    "ScaledObject": "keda/keda.sh_scaledobjects.yaml",
    "InferenceService": "kserve/serving.kserve.io_inferenceservices.yaml.gz",
    "LLMInferenceService": "kserve/serving.kserve.io_llminferenceservices.yaml.gz",
    "InferencePool": "gaie/inference.networking.k8s.io_inferencepools.yaml",
    "InferenceObjective": "llm-d-router/llm-d.ai_inferenceobjectives.yaml",
    "BackendTrafficPolicy": "envoy-gateway/gateway.envoyproxy.io_backendtrafficpolicies.yaml",
    "AIGatewayRoute": "envoy-ai-gateway/aigateway.envoyproxy.io_aigatewayroutes.yaml",
    "PrometheusRule": "prometheus-operator/monitoring.coreos.com_prometheusrules.yaml",
    "ClusterQueue": "kueue/kueue.x-k8s.io_clusterqueues.yaml",
    "LocalQueue": "kueue/kueue.x-k8s.io_localqueues.yaml",
    "ResourceFlavor": "kueue/kueue.x-k8s.io_resourceflavors.yaml",
    "NodePool": "karpenter/karpenter.sh_nodepools.yaml",
    "CapacityBuffer": "karpenter/autoscaling.x-k8s.io_capacitybuffers.yaml",
    "Service": "knative/service.yaml",
}
CORE = ("Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget", "ResourceQuota")


def problems(document: Mapping[str, Any]) -> list[str]:
    """What the target itself would refuse of an object; a kind that nobody has a schema for is a failure."""
    kind = document.get("kind")
    if str(document.get("apiVersion")).startswith("openslo/"):
        return [*against(OPENSLO, document)]
    if not isinstance(kind, str) or kind not in (*CORE, *_CRDS):
        return [f"kind {kind!r} has no schema here"]
    named = [*against(_METADATA, document.get("metadata"))]
    return [*named, *(_core(document) if kind in CORE else _custom(document))]


def _core(document: Mapping[str, Any]) -> Iterator[str]:
    import kubernetes_validate  # type: ignore[import-untyped]

    for version in CORE_VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{version}: {error}"
        except (kubernetes_validate.SchemaNotFoundError, KeyError, TypeError, AttributeError) as error:
            yield f"{version}: {type(error).__name__}: {error}"


def _custom(document: Mapping[str, Any]) -> Iterator[str]:
    folder = find_shared_data()
    if folder is None:
        pytest.skip(ABSENT)
    definition = _definition(folder / "crds" / _CRDS[str(document["kind"])])
    spec = definition["spec"]
    group, _, version = str(document.get("apiVersion")).partition("/")
    found = [each for each in spec["versions"] if each["name"] == version and each.get("served", True)]
    if group != spec["group"] or not found:
        yield f"{document.get('apiVersion')} is not a served version of {spec['names']['kind']}"
        return
    schema = _strict_schema(_CRDS[str(document["kind"])], version)
    yield from (f"{each.json_path}: {each.message[:200]}" for each in _validator(schema).iter_errors(document))
    yield from _broken_rules(schema, document, "")
    if document["kind"] == "Service":
        # Its own schema leaves parts of the pod open, which Kubernetes does not.
        spec = {
            key: each for key, each in document["spec"]["template"]["spec"].items() if key in ("containers", "volumes")
        }
        yield from _core({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec})


@functools.cache
def _definition(file: Path) -> Any:
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return next(each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each)


@functools.cache
def _strict_schema(crd: str, version: str) -> Any:
    folder = find_shared_data()
    assert folder is not None
    versions = _definition(folder / "crds" / crd)["spec"]["versions"]
    schema = next(each for each in versions if each["name"] == version)["schema"]["openAPIV3Schema"]
    return _strict(schema)


def _validator(schema: Any) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema)


def _strict(schema: Any) -> Any:
    """The schema with unknown fields refused, as a server does with `fieldValidation: Strict`."""
    if not isinstance(schema, dict):
        return schema
    found = {key: each for key, each in schema.items() if key not in ("format", "description", "default")}
    for key in ("properties",):
        if key in found:
            found[key] = {name: _strict(each) for name, each in found[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _strict(found[key])
    for key in ("allOf", "anyOf", "oneOf"):
        found.pop(key, None) if schema.get("x-kubernetes-int-or-string") else None
    if schema.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in schema and not is_open:
        found["additionalProperties"] = False
    # Go's regular expressions allow flags in the middle, which Python's do not.
    if "(?i)" in str(found.get("pattern", "")):
        found.pop("pattern")
    return found


def _broken_rules(schema: Any, value: Any, path: str) -> Iterator[str]:
    """Rules of CEL that a value breaks; those about a change from an older object have nothing to hold to."""
    for each in schema.get("x-kubernetes-validations", ()):
        rule = each["rule"]
        if "oldSelf" in rule or ".find(" in rule:
            continue
        try:
            held = _program(rule).evaluate({"self": json_to_cel(value)})
        except (CELEvalError, KeyError) as error:
            yield f"{path or '.'}: rule {rule!r} cannot be evaluated: {error}"
            continue
        if not held:
            yield f"{path or '.'}: {each.get('message', rule)}"
    if isinstance(value, Mapping):
        for key, inner in value.items():
            known = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if isinstance(known, dict):
                yield from _broken_rules(known, inner, f"{path}.{key}")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for place, inner in enumerate(value):
            yield from _broken_rules(schema["items"], inner, f"{path}[{place}]")


@functools.cache
def _program(rule: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        environment = celpy.Environment()
        return environment.program(environment.compile(rule))


# ---- schemas by hand ---------------------------------------------------------------------------------------


def against(schema: Any, value: Any) -> Iterator[str]:
    yield from (f"{each.json_path}: {each.message[:200]}" for each in _validator(schema).iter_errors(value))


def _object(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 1}
_WHOLE = {"type": "integer", "minimum": 0}
_TRUTH = {"type": "boolean"}
_REAL = {"type": "number", "minimum": 0}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}

_METADATA = _object({"name": _TEXT, "labels": _TEXTS}, namespace=_TEXT, annotations=_TEXTS)

# Keys of vLLM's `--config`, SGLang's and trtllm-serve's, as their documentation of arguments names them.
VLLM = _object(
    {
        "served-model-name": _TEXT,
        "tensor-parallel-size": _COUNT,
        "max-model-len": _COUNT,
        "max-num-seqs": _COUNT,
        "max-num-queued-reqs": _COUNT,
        "max-num-batched-tokens": _COUNT,
        "kv-cache-memory-bytes": _COUNT,
        "kv-cache-dtype": {"enum": ["auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]},
        "enable-prefix-caching": _TRUTH,
    },
    **{
        "pipeline-parallel-size": _COUNT,
        "enable-expert-parallel": _TRUTH,
        "scheduling-policy": {"enum": ["fcfs", "priority"]},
        "enable-lora": _TRUTH,
        "max-loras": _COUNT,
        "max-lora-rank": _COUNT,
    },
)
SGLANG = _object(
    {
        "served-model-name": _TEXT,
        "tp-size": _COUNT,
        "context-length": _COUNT,
        "max-running-requests": _COUNT,
        "max-queued-requests": _COUNT,
        "chunked-prefill-size": _COUNT,
        "max-total-tokens": _COUNT,
        "kv-cache-dtype": {"enum": ["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16"]},
    },
    **{
        "pp-size": _COUNT,
        "ep-size": _COUNT,
        "enable-priority-scheduling": _TRUTH,
        "schedule-low-priority-values-first": _TRUTH,
        "enable-lora": _TRUTH,
        "max-loras-per-batch": _COUNT,
        "max-lora-rank": _COUNT,
    },
)
TENSORRT_LLM = _object(
    {
        "tensor_parallel_size": _COUNT,
        "max_seq_len": _COUNT,
        "max_batch_size": _COUNT,
        "max_num_tokens": _COUNT,
        "kv_cache_config": _object(
            {"max_tokens": _COUNT, "dtype": {"enum": ["auto", "fp8", "nvfp4"]}, "enable_block_reuse": _TRUTH}
        ),
    },
    pipeline_parallel_size=_COUNT,
    moe_expert_parallel_size=_COUNT,
)
LITELLM = _object(
    {
        "model_list": _list(
            _object(
                {
                    "model_name": _TEXT,
                    "litellm_params": _object(
                        {
                            "model": _TEXT,
                            "api_base": _TEXT,
                            "rpm": _COUNT,
                            "tpm": _COUNT,
                            "max_parallel_requests": _COUNT,
                            "timeout": _COUNT,
                        }
                    ),
                }
            )
        ),
        "router_settings": _object(
            {
                "optional_pre_call_checks": _list({"enum": ["enforce_model_rate_limits"]}),
                "num_retries": _WHOLE,
                "retry_after": _WHOLE,
            }
        ),
        "general_settings": _object({"global_max_parallel_requests": _COUNT}),
    }
)
_SIGNAL = _object(
    {
        "seriesQuery": _TEXT,
        "resources": _object({"namespaced": _TRUTH}),
        "name": _object({"as": _TEXT}),
        "metricsQuery": _TEXT,
    }
)
ADAPTER = _object({"rules": _object({"default": _TRUTH, "external": _list(_SIGNAL)})})
_PROBE = _object(
    {"httpGet": _object({"path": _TEXT, "port": _COUNT}), "periodSeconds": _COUNT, "failureThreshold": _COUNT},
    initialDelaySeconds=_WHOLE,
    timeoutSeconds=_COUNT,
)
_INT_OR_TEXT = {"type": ["integer", "string"]}
_KEDA = _object(
    {"enabled": _TRUTH, "minReplicaCount": _WHOLE, "maxReplicaCount": _COUNT, "pollingInterval": _COUNT,
     "fallback": {"type": "object"}, "triggers": _list({"type": "object"}), "advanced": {"type": "object"}}
)  # fmt: skip
# Keys of chart vllm-stack 0.1.12, as its values.yaml and templates read them.
PRODUCTION_STACK = _object(
    {
        "servingEngineSpec": _object(
            {
                "labels": _TEXTS,
                "containerPort": _COUNT,
                "strategy": _object(
                    {
                        "type": {"enum": ["RollingUpdate"]},
                        "rollingUpdate": _object({"maxSurge": _INT_OR_TEXT, "maxUnavailable": _INT_OR_TEXT}),
                    }
                ),
                "startupProbe": _PROBE,
                "readinessProbe": _PROBE,
                "livenessProbe": _PROBE,
                "modelSpec": _list(
                    _object(
                        {
                            "name": _TEXT,
                            "repository": _TEXT,
                            "tag": _TEXT,
                            "modelURL": _TEXT,
                            "podLabels": _TEXTS,
                            "replicaCount": _COUNT,
                            "resources": _object({"requests": _TEXTS, "limits": _TEXTS}),
                            "shmSize": _TEXT,
                            "vllmConfig": _object(
                                {
                                    "tensorParallelSize": _COUNT,
                                    "maxModelLen": _COUNT,
                                    "maxNumSeqs": _COUNT,
                                    "enablePrefixCaching": _TRUTH,
                                    "extraArgs": _list(_TEXT),
                                }
                            ),
                            "keda": _KEDA,
                        },
                        priorityClassName=_TEXT,
                        nodeSelectorTerms=_list({"type": "object"}),
                    )
                ),
            }
        )
    }
)
_QUERY = _object({"metricSource": _object({"type": {"enum": ["Prometheus"]}, "spec": _object({"query": _TEXT})})})
_META = _object({"name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}})
OPENSLO = {
    "oneOf": [
        _object(
            {
                "apiVersion": {"const": "openslo/v1"},
                "kind": {"const": "Service"},
                "metadata": _META,
                "spec": _object({"description": _TEXT}),
            }
        ),
        _object(
            {
                "apiVersion": {"const": "openslo/v1"},
                "kind": {"const": "SLO"},
                "metadata": _META,
                "spec": _object(
                    {
                        "description": _TEXT,
                        "service": _TEXT,
                        "indicator": _object(
                            {
                                "metadata": _META,
                                "spec": _object(
                                    {"ratioMetric": _object({"counter": _TRUTH, "good": _QUERY, "total": _QUERY})}
                                ),
                            }
                        ),
                        "timeWindow": _list(
                            _object(
                                {
                                    "duration": {"type": "string", "pattern": "^[1-9][0-9]*[mhdwMQY]$"},
                                    "isRolling": _TRUTH,
                                }
                            )
                        ),
                        "budgetingMethod": {"enum": ["Occurrences", "Timeslices", "RatioTimeslices"]},
                        "objectives": _list(
                            _object(
                                {
                                    "displayName": _TEXT,
                                    "target": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
                                }
                            )
                        ),
                    }
                ),
            }
        ),
    ]
}
_PLACE = _object({"x": _WHOLE, "y": _WHOLE, "w": _COUNT, "h": _COUNT})
_FROM = _object({"type": {"const": "prometheus"}, "uid": _TEXT})
_TARGET = _object({"refId": _TEXT, "datasource": _FROM, "legendFormat": _TEXT, "expr": _TEXT})
GRAFANA = _object(
    {
        "title": _TEXT,
        "description": _TEXT,
        "tags": _list(_TEXT),
        "schemaVersion": _COUNT,
        "editable": _TRUTH,
        "time": _object({"from": _TEXT, "to": _TEXT}),
        "timezone": _TEXT,
        "templating": _object(
            {"list": _list(_object({"name": _TEXT, "label": _TEXT, "type": {"const": "datasource"}, "query": _TEXT}))}
        ),
        "panels": _list(
            {
                "oneOf": [
                    _object(
                        {"id": _COUNT, "type": {"const": "row"}, "title": _TEXT, "collapsed": _TRUTH, "gridPos": _PLACE,
                         "panels": {"type": "array", "maxItems": 0}}
                    ),
                    _object(
                        {
                            "id": _COUNT,
                            "type": {"const": "timeseries"},
                            "title": _TEXT,
                            "description": _TEXT,
                            "datasource": _FROM,
                            "gridPos": _PLACE,
                            "fieldConfig": _object(
                                {"defaults": _object({"unit": _TEXT}), "overrides": {"type": "array", "maxItems": 0}}
                            ),
                            "options": _object({"legend": _object({"displayMode": _TEXT, "placement": _TEXT})}),
                            "targets": _list(_TARGET),
                        }
                    ),
                ]
            }
        ),
    }
)  # fmt: skip
_LENGTHS = _object({"type": {"enum": ["lognormal"]}, "mean": _REAL, "std_dev": _REAL, "min": _WHOLE, "max": _WHOLE})
# inference_perf/config of release 0.7.0, whose models take no key that they do not know.
INFERENCE_PERF = _object(
    {
        "api": _object({"type": {"enum": ["completion", "chat"]}, "streaming": _TRUTH}),
        "server": _object(
            {"type": {"enum": ["vllm", "sglang", "tgi"]}, "model_name": _TEXT, "base_url": _TEXT, "ignore_eos": _TRUTH}
        ),
        "tokenizer": _object({"pretrained_model_name_or_path": _TEXT}),
        "data": _object(
            {
                "type": {"enum": ["shared_prefix"]},
                "shared_prefix": _object(
                    {
                        "num_unique_system_prompts": _COUNT,
                        "num_users_per_system_prompt": _COUNT,
                        "system_prompt_len": _WHOLE,
                        "question_len": _LENGTHS,
                        "output_len": _LENGTHS,
                        "seed": _WHOLE,
                    }
                ),
            }
        ),
        "load": _object(
            {
                "type": {"enum": ["constant", "poisson"]},
                "interval": _COUNT,
                "base_seed": _WHOLE,
                "stages": _list(_object({"rate": _REAL, "duration": _COUNT})),
            }
        ),
        "report": _object(
            {"request_lifecycle": _object({"summary": _TRUTH, "per_stage": _TRUTH, "per_request": _TRUTH})},
            goodput=_object({"constraints": {"type": "object", "additionalProperties": _REAL}}),
        ),
        "storage": _object({"local_storage": _object({"path": _TEXT})}),
    }
)
LOADTEST = _object(
    {
        "pool": _TEXT,
        "devices": _COUNT,
        "settles": _list(_TEXT),
        "tests": _list(
            _object(
                {
                    "name": {"enum": ["low", "operating", "above"]},
                    "requests": _TEXT,
                    "rate_rps": _REAL,
                    "span_s": _COUNT,
                    "request_count": _COUNT,
                    "classes": {"type": "object", "additionalProperties": _WHOLE},
                    "mean_prompt_tokens": _REAL,
                    "mean_output_tokens": _REAL,
                    "cached_fraction": _REAL,
                    "slos": _list(_TEXT),
                    "passes_when": _TEXT,
                    "otherwise": _TEXT,
                    "device_minutes": _REAL,
                },
                usd=_REAL,
            )
        ),
    }
)
BY_HAND = {
    "chat.vllm.yaml": VLLM,
    "chat.sglang.yaml": SGLANG,
    "chat.tensorrt-llm.yaml": TENSORRT_LLM,
    "litellm.config.yaml": LITELLM,
    "prometheus-adapter.values.yaml": ADAPTER,
    "production-stack.values.yaml": PRODUCTION_STACK,
    "ullage.dashboard.json": GRAFANA,
    "chat.loadtest.yaml": LOADTEST,
    "chat.loadtest.inference-perf.yaml": INFERENCE_PERF,
}
"""Files without a kind, by the names that they are emitted under."""
