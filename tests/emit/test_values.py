"""Numbers in files are the plan's, unit by unit: bytes, seconds, tokens, thousandths, over plans of random values."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support.emitted import documents, emitted
from ullage.emit.drift import _QUANTITY, _SCALES

MIB = 2**20


@st.composite
def plans(draw: st.DrawFn) -> dict[str, float | str]:
    """Values of every figure that files are made from, each in a range that a plan may have."""
    steady = draw(st.integers(1, 5000))
    warm, failure, surge = (draw(st.integers(low, 50)) for low in (0, 0, 1))
    node, replica = 8, 2
    fleet = steady + warm + failure + surge
    cache = draw(st.integers(2**20, 2**40))
    return {
        "fleet.replicas": steady,
        "fleet.total_replicas": fleet,
        "fleet.total_devices": fleet * replica,
        "reserve.serving_replicas": steady + warm + failure,
        "reserve.rollout_surge_replicas": surge,
        "reserve.rollout_unavailable_replicas": draw(st.integers(0, 50)),
        "reserve.maintenance_replicas": draw(st.integers(0, 40)),
        "packing.nodes": -(-fleet * replica // node),
        "packing.replicas_per_node": min(fleet, node // replica),
        "packing.devices": -(-fleet * replica // node) * node,
        "memory.kv_cache_bytes": cache,
        "memory.headroom_bytes": draw(st.integers(0, cache)),
        "memory.kv_tokens": draw(st.integers(1, 10**8)),
        "host.workers_bytes": draw(st.integers(1, 2**41)),
        "host.weights_staging_bytes": draw(st.integers(0, 2**42)),
        "limit.context_tokens": draw(st.integers(2, 10**7)),
        "limit.engine_running_requests": draw(st.integers(1, 4096)),
        "limit.replica_queue_requests": draw(st.integers(1, 4096)),
        "limit.engine_queue_requests": draw(st.integers(1, 4096)),
        "limit.backpressure_requests": draw(st.integers(1, 4096)),
        "limit.pool_rate_rps": draw(st.floats(1e-3, 1e5)),
        "limit.chat.rate_rps": draw(st.floats(1e-3, 1e5)),
        "limit.chat.tokens_per_s": draw(st.floats(1.0, 1e6)),
        "score.service_time_s": draw(st.floats(0.01, 600.0)),
        "score.queue_requests": draw(st.floats(0.0, 50.0)),
        "ready.cold_p99_s": draw(st.floats(1.0, 1e5)),
        "ready.cold_p90_s": draw(st.floats(1.0, 1e4)),
        "rollout.drain": draw(st.floats(1.0, 7200.0)),
        "admission.scale_delay": draw(st.floats(2.0, 240.0)),
        "burst.queue_120s_ratio": draw(st.floats(1.0, 5.0)),
        "policy.reconcile_every": draw(st.integers(3600, 10**8)),
        "scaling.threshold_requests": draw(st.floats(0.01, 4096.0)),
        "scaling.least_replicas": draw(st.integers(1, steady)),
        "scaling.most_replicas": steady + warm + failure,
        "scaling.down_window_s": draw(st.integers(300, 3600)),
    }


def amount(written: Any) -> Fraction:
    found = _QUANTITY.match(str(written))
    assert found is not None, written
    return Fraction(found[1]) * _SCALES[found[2] or ""]


@pytest.mark.slow
@given(plans())
def test_workloads_say_what_the_plan_says(values: dict[str, Any]) -> None:
    (found,) = documents(emitted("deployment", figures=values))
    spec = found["spec"]["template"]["spec"]
    (engine,) = spec["containers"]
    assert found["spec"]["replicas"] == values["reserve.serving_replicas"]
    assert found["spec"]["strategy"]["rollingUpdate"] == {
        "maxSurge": values["reserve.rollout_surge_replicas"],
        "maxUnavailable": values["reserve.rollout_unavailable_replicas"],
    }
    args = engine["args"]
    flags = {word: args[place + 1] for place, word in enumerate(args[:-1]) if word.startswith("--")}
    assert int(flags["--kv-cache-memory-bytes"]) == values["memory.kv_cache_bytes"]
    assert int(flags["--max-num-seqs"]) == values["limit.engine_running_requests"]
    in_flight = values["limit.engine_running_requests"] + values["limit.engine_queue_requests"]
    assert int(flags["--max-num-queued-reqs"]) == in_flight
    assert int(flags["--max-model-len"]) == values["limit.context_tokens"]
    asked = {key: amount(each) for key, each in engine["resources"]["requests"].items()}
    assert engine["resources"]["requests"] == engine["resources"]["limits"]
    needed = values["host.workers_bytes"] + values["host.weights_staging_bytes"] + 20 * 2**30
    assert needed <= asked["memory"] < needed + MIB
    assert asked["nvidia.com/gpu"] == 2
    probe = engine["startupProbe"]
    window_s = probe["periodSeconds"] * probe["failureThreshold"]
    assert values["ready.cold_p99_s"] <= window_s < values["ready.cold_p99_s"] + probe["periodSeconds"]
    drain_s = spec["terminationGracePeriodSeconds"] - engine["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert values["rollout.drain"] - 1e-6 <= drain_s < values["rollout.drain"] + 1


@pytest.mark.slow
@given(plans())
def test_autoscalers_say_what_the_plan_says(values: dict[str, Any]) -> None:
    (keda,) = documents(emitted("keda", figures=values))
    hpa, _ = documents(emitted("hpa", figures=values))
    bounds = (values["scaling.least_replicas"], values["scaling.most_replicas"])
    assert (keda["spec"]["minReplicaCount"], keda["spec"]["maxReplicaCount"]) == bounds
    assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == bounds
    assert bounds[0] <= keda["spec"]["fallback"]["replicas"] <= bounds[1]
    wanted = values["scaling.threshold_requests"]
    threshold = float(keda["spec"]["triggers"][0]["metadata"]["threshold"])
    assert math.isclose(threshold, wanted, rel_tol=1e-6)
    asked = amount(hpa["spec"]["metrics"][0]["external"]["target"]["averageValue"])
    assert abs(asked - Fraction(wanted)) <= Fraction(1, 1000)
    assert hpa["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == values["scaling.down_window_s"]


@pytest.mark.slow
@given(plans())
def test_gateways_say_what_the_plan_says(values: dict[str, Any]) -> None:
    (policy,) = documents(emitted("envoy-gateway", figures=values))
    rules = policy["spec"]["rateLimit"]["global"]["rules"]
    mine = {each["limit"]["unit"]: each["limit"]["requests"] for each in rules if '"chat"' in json.dumps(each)}
    rate, burst = values["limit.chat.rate_rps"], values["burst.queue_120s_ratio"]
    assert mine["Hour"] in (max(1, math.floor(rate * 3600)), max(1, math.floor(rate * 3600 + 1e-6)))
    assert mine["Minute"] in (max(1, math.floor(rate * 60 * burst)), max(1, math.floor(rate * 60 * burst + 1e-6)))
    each = values["limit.engine_running_requests"] + values["limit.replica_queue_requests"]
    assert policy["spec"]["circuitBreaker"]["maxParallelRequests"] == each * values["reserve.serving_replicas"]
    (lite,) = documents(emitted("litellm", figures=values))
    params = lite["model_list"][0]["litellm_params"]
    assert params["max_parallel_requests"] == each * values["reserve.serving_replicas"]
    assert abs(params["rpm"] - max(1.0, values["limit.pool_rate_rps"] * 60 * burst)) <= 1.0
    (budget,) = documents(emitted("pdb", figures=values))
    assert budget["spec"]["maxUnavailable"] == max(1, values["reserve.maintenance_replicas"])


@pytest.mark.slow
@given(plans())
def test_rules_hold_the_plans_thresholds(values: dict[str, Any]) -> None:
    (rules,) = documents(emitted("prometheus", figures=values))
    exprs = {each.get("alert") or each["record"]: each["expr"] for group in rules["groups"] for each in group["rules"]}

    def last(name: str) -> float:
        return float(exprs[name].rsplit(" ", 1)[1])

    assert math.isclose(last("UllageWarmUpOverrun"), values["ready.cold_p99_s"], rel_tol=1e-8)
    assert last("UllageQueueCollapse") == values["limit.backpressure_requests"]
    assert last("UllageReconcileOverdue") == values["policy.reconcile_every"]
    each = values["limit.pool_rate_rps"] / values["fleet.replicas"]
    assert math.isclose(last("UllageShortfall"), each, rel_tol=1e-8)
    assert exprs["ullage_planned_steady_replicas"] == f"vector({values['fleet.replicas']})"


def test_texts_read_back_as_they_were_written() -> None:
    (file,) = emitted("keda", names="series: {model_name: 'a \"quoted\" \\ name', zone: 'on'}")
    (found,) = yaml.safe_load_all(file.text)
    query = found["spec"]["triggers"][0]["metadata"]["query"]
    labels = '{model_name="a \\"quoted\\" \\\\ name", zone="on"}'
    assert query == (
        f"sum(avg_over_time(vllm:num_requests_running{labels}[30s])) + "
        f"sum(avg_over_time(vllm:num_requests_waiting{labels}[30s]))"
    )
