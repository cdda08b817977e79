"""The pod of a replica, or of one node's part of it: resources, probes, drain, and where it may stand."""

from __future__ import annotations

import math
from typing import Any

from ullage.emit.engine_flags import EngineCommand, engine_command
from ullage.emit.quantities import mebibytes
from ullage.emit.request import EmitPool, up
from ullage.emit.tree import Reasoned
from ullage.evidence import Assumption
from ullage.planning.manifests import CPUS_PER_PROCESS

_ZONE, _NODE = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
# Storage from which weights are copied to the pod's own disk before they are loaded.
_COPIED = ("object-store", "local-nvme")
_HEALTH = "/health"


def probes(pool: EmitPool) -> dict[str, Any]:
    """Startup, readiness and liveness, from how long starts take and clients wait."""
    period_s = up(2.0 * pool.real("ready.probe_p50_s"))
    path = {"path": _HEALTH, "port": pool.need("port")}
    period = Reasoned(value=period_s, why=f"twice {pool.number('ready.probe_p50_s').why}")
    starts = math.ceil(pool.real("ready.cold_p99_s") / period_s)
    hung = max(1, math.ceil(pool.real("admission.first_token_timeout") / period_s))
    return {
        "startupProbe": {
            "httpGet": path,
            "periodSeconds": period,
            "failureThreshold": pool.noted(
                "ready.cold_p99_s", starts, because=f"x {period_s} s are all of a cold start but one in a hundred"
            ),
        },
        # One silence takes a replica's load to the others: an answer may be as slow as the next look.
        "readinessProbe": {
            "httpGet": path,
            "periodSeconds": period,
            "timeoutSeconds": period_s,
            "failureThreshold": 1,
        },
        "livenessProbe": {
            "httpGet": path,
            "periodSeconds": period,
            "timeoutSeconds": period_s,
            "failureThreshold": pool.noted(
                "admission.first_token_timeout",
                hung,
                because=f"x {period_s} s: an engine silent for longer is of no use",
            ),
        },
    }


def resources(pool: EmitPool, devices: int) -> dict[str, Any]:
    """Requests and limits of a pod with so many of the replica's devices; alike, so that its class is Guaranteed."""
    share = devices / pool.devices
    shared: Assumption = pool.need_workload("shared_memory")
    memory_bytes = pool.host_bytes * share + int(shared.value)
    disk_bytes, disk_why = _disk(pool)
    amounts = {
        "cpu": _cpus(pool, devices, share),
        "memory": Reasoned(
            value=mebibytes(memory_bytes),
            why=f"host memory of {share:.3g} of a replica ({pool.number('host.workers_bytes').why}; offload and "
            "weights "
            f"while loading) and /dev/shm of {mebibytes(int(shared.value))}",
        ),
        "ephemeral-storage": Reasoned(value=mebibytes(disk_bytes), why=disk_why),
        pool.need("device_resource"): Reasoned(value=str(devices), why=f"of {pool.devices} devices a replica"),
    }
    bare = {key: each.value for key, each in amounts.items()}
    why = f"as requested: a Guaranteed pod is evicted last. {_host(pool, devices)}"
    return {"requests": amounts, "limits": Reasoned(value=bare, why=why)}


def _host(pool: EmitPool, devices: int) -> str:
    """What nobody knows here: a machine of one device may have fewer CPUs and less memory than such a pod asks for."""
    node = pool.whole("packing.devices") // max(1, pool.whole("packing.nodes"))
    pods = max(1, node // devices)
    each = f"{pods} such pods" if pods > 1 else "one such pod"
    return (
        f"See that a node of {node} devices has CPUs and memory for {each}, which the catalogue does not know: else "
        "it stays pending (emit.workloads: cpus, shared_memory)"
    )


def _cpus(pool: EmitPool, devices: int, share: float) -> Reasoned:
    whole = pool.cpus
    if pool.may("cpus") is not None:
        return Reasoned(value=str(math.ceil(whole.value * share)), why=whole.why)
    each = int(CPUS_PER_PROCESS.value)
    return Reasoned(value=str(each * (2 + devices)), why=whole.why)


def _disk(pool: EmitPool) -> tuple[int, str]:
    scratch: Assumption = pool.need_workload("scratch")
    storage = str(pool.number("pool.storage").value)
    said = f"{scratch.name} = {mebibytes(int(scratch.value))}, {scratch.evidence}"
    if storage not in _COPIED:
        return int(scratch.value), f"{said}; weights come from {storage} and are not copied"
    weights = pool.number("ready.checkpoint_bytes")
    return int(scratch.value) + pool.whole("ready.checkpoint_bytes"), f"{said}; and {weights.why}"


def container(pool: EmitPool, devices: int, command: EngineCommand) -> dict[str, Any]:
    """The engine's container; its arguments are all of them, the plan's and those of emit.workloads."""
    drain_s = up(pool.real("ready.discovery_p90_s"))
    port = pool.need("port")
    return {
        "name": pool.need("container"),
        "image": pool.need("image"),
        "command": list(command.command),
        "args": command.args(pool),
        "ports": [{"name": "http", "containerPort": port}],
        "resources": resources(pool, devices),
        **probes(pool),
        "lifecycle": {
            "preStop": {
                "sleep": {
                    "seconds": pool.noted("ready.discovery_p90_s", drain_s, because="until routers have taken it out")
                }
            }
        },
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }


def pod_spec(pool: EmitPool, devices: int, *, template_hash: bool) -> dict[str, Any]:
    """The spec of a pod with so many of the replica's devices."""
    shared: Assumption = pool.need_workload("shared_memory")
    grace_s = up(pool.real("rollout.drain")) + up(pool.real("ready.discovery_p90_s"))
    volume = {
        "medium": "Memory",
        "sizeLimit": Reasoned(value=mebibytes(int(shared.value)), why=f"{shared.name}, {shared.evidence}"),
    }
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": pool.noted(
            "rollout.drain", grace_s, because="answers under way end first; the drain and the sleep before it"
        ),
        "containers": [container(pool, devices, engine_command(pool))],
        "volumes": [{"name": "shm", "emptyDir": volume}],
    }
    spread = _spread(pool, template_hash=template_hash)
    extra = {
        "priorityClassName": pool.may("priority_class"),
        "nodeSelector": dict(pool.may("node_selector") or {}),
        "topologySpreadConstraints": spread,
        "affinity": _apart(pool),
    }
    return {**{key: each for key, each in extra.items() if each}, **spec}


def _spread(pool: EmitPool, *, template_hash: bool) -> list[Any]:
    """Zones and nodes as even as the plan has them.

    A rule that must hold would keep replacements of a lost zone or node waiting.
    """
    zones, skews = pool.zones, {}
    if len(zones) > 1:
        by_zone = ", ".join(f"{name} {count}" for name, count in zones.items())
        skews[_ZONE] = Reasoned(
            value=max(1, max(zones.values()) - min(zones.values())), why=f"replicas by zone in the plan: {by_zone}"
        )
    if pool.whole("packing.nodes") > 1 and pool.whole("packing.replicas_per_node") > 1:
        skews[_NODE] = pool.noted("packing.replicas_per_node", 1, because="at most on a node, where they stand evenly")
    rest = {
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(pool.need("selector"))},
        **({"matchLabelKeys": ["pod-template-hash"]} if template_hash else {}),
    }
    return [{"maxSkew": skew, "topologyKey": key, **rest} for key, skew in skews.items()]


def _apart(pool: EmitPool) -> dict[str, Any]:
    """Where a node holds one replica of the plan, no two stand on one: the loss of a node is to take one of them."""
    fits_one = pool.node_devices // max(1, pool.parts[0]) <= 1
    if not fits_one and (pool.whole("packing.replicas_per_node") > 1 or pool.whole("packing.nodes") < 2):
        return {}
    rule = {"topologyKey": _NODE, "labelSelector": {"matchLabels": dict(pool.need("selector"))}}
    why = f"a node of {pool.node_devices} devices holds one replica in the plan; the loss of a node takes one"
    return {"podAntiAffinity": Reasoned(value={"requiredDuringSchedulingIgnoredDuringExecution": [rule]}, why=why)}


def surge(pool: EmitPool, *, scales: bool = False) -> dict[str, Any]:
    """How far a rollout goes beyond and below what runs; `scales` where the file has an autoscaler of its own.

    A plan takes idle replicas out of a fleet that stands; an autoscaler has let those go, down to its minimum, and what
    runs is needed. Their room is free instead.
    """
    more, gone = "reserve.rollout_surge_replicas", "reserve.rollout_unavailable_replicas"
    idle = pool.whole(gone)
    if not idle or not (scales or pool.is_autoscaled):
        return {"maxSurge": pool.noted(more), "maxUnavailable": pool.noted(gone)}
    because = "an autoscaler leaves no replica idle, but room for as many new ones"
    return {
        "maxSurge": pool.noted(gone, pool.whole(more) + idle, because=because),
        "maxUnavailable": 0,
    }


def replicas(pool: EmitPool) -> dict[str, Any]:
    """The number of replicas, left to an autoscaler where one is emitted beside it."""
    return {} if pool.is_autoscaled else {"replicas": pool.noted("reserve.serving_replicas")}
