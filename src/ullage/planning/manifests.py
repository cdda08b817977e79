"""What manifests need that no plan can know: names, labels, images and addresses of the people who run the cluster.

None of them is guessed. A target that needs a missing one is refused by its key, with what to write there.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.evidence import Assumption, Evidence, Source

_DAY = datetime.date(2026, 11, 16)


def _assumed(name: str, value: int, unit: str, what: str, where: str) -> Assumption:
    return Assumption(
        name=f"emit.{name}",
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=Source(what=what, where=where, date=_DAY),
    )


# Of a replica of N devices: an API server, an engine core and N workers, each a core of two hardware threads.
CPUS_PER_PROCESS = _assumed(
    "cpus_per_process",
    2,
    "cpus",
    "vLLM, CPU resources for GPU deployments: 2 + N processes, 2 x (2 + N) vCPUs with hyper-threading",
    "https://docs.vllm.ai/en/latest/configuration/optimization/",
)
SHARED_MEMORY = _assumed(
    "shared_memory",
    20 * 2**30,
    "bytes",
    "vLLM production stack, shmSize of its chart: what workers of one replica exchange through /dev/shm",
    "https://github.com/vllm-project/production-stack/blob/main/helm/values.yaml",
)
SCRATCH = _assumed(
    "scratch",
    20 * 2**30,
    "bytes",
    "default of Ullage: compiled kernels, logs and temporary files beside the weights",
    "docs/reference/emit.md",
)


@dataclass(frozen=True, kw_only=True)
class WorkloadNames:
    """One pool as the cluster calls it. What is None or empty was not given.

    `selector` are the labels of its pods, `series` those by which Prometheus tells its engines' series from others,
    `model` is what the engine loads and `served_model` the name in clients' requests.
    """

    name: str
    container: str | None = None
    image: str | None = None
    model: str | None = None
    served_model: str | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    series: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    port: int | None = None
    device_resource: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_class: str | None = None
    priority_class: str | None = None
    route: str | None = None
    endpoint_picker: str | None = None
    address: str | None = None
    cpus: Assumption | None = None
    shared_memory: Assumption = SHARED_MEMORY
    scratch: Assumption = SCRATCH


@dataclass(frozen=True, kw_only=True)
class EmitSettings:
    """Whatever the objects of a service share, and the workload of each pool by the pool's name."""

    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    prometheus: str | None = None
    gateway: str | None = None
    tenant_header: str | None = None
    class_header: str | None = None
    workloads: Mapping[str, WorkloadNames] = field(default_factory=dict)
