"""`emit:` of a plan file: names, labels, images and addresses for what `ullage emit` writes; none is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from ullage.errors import InputError
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Bytes, Count, Range
from ullage.files.sections.section import Key, Name, Section
from ullage.planning.manifests import SCRATCH, SHARED_MEMORY, EmitSettings, WorkloadNames
from ullage.units import BYTES

_STILL = "It is written into the files of `ullage emit`; no figure follows it."
_NOT_GIVEN = "not given: targets that need it are refused"
_MOST_BYTES = float(2**50)
# What people leave in a file to fill in later; written into a cluster it is an outage or a leak.
_PLACEHOLDER = re.compile(
    r"^(todo|tbd|fixme|xxx+|changeme|change-me|placeholder|replace[-_ ]?me|your[-_ ].*)$|[<>{}$]", re.I
)
_LABEL_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
_SERIES_KEY = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")
_IMAGE = re.compile(r"^[a-zA-Z0-9][\w.:/-]*(:[\w][\w.-]{0,127}|@sha256:[0-9a-f]{64})$")
_ADDRESS = re.compile(r"^https?://[A-Za-z0-9._\[\]:-]+(/[\w./~-]*)?$")
_PICKER = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?:[1-9][0-9]{0,4}$")
_NODE_CLASS = re.compile(r"^[a-z0-9.-]+/[A-Z][A-Za-z0-9]*/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_HEADER = re.compile(r"^[A-Za-z0-9-]{1,64}$")
_MODEL = re.compile(r"^/?[\w][\w./:@-]*$")
_RESOURCE = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9][-A-Za-z0-9_.]*$")


class EmitWorkloadSection(Section):
    """One pool as the cluster calls it; its key is the pool's name, `pool` where the only one has none."""

    name: Annotated[Name, Key(means="The name of the workload and of the objects around it.", still=_STILL)]
    container: Annotated[
        Name | None, Key(means="The engine's container in its pods.", default=_NOT_GIVEN, still=_STILL)
    ] = None
    image: Annotated[
        str | None, Key(means="The engine's image, with a tag or a digest.", default=_NOT_GIVEN, still=_STILL)
    ] = None
    model: Annotated[
        str | None,
        Key(means="What the engine loads, such as Qwen/Qwen3-32B or a path.", default=_NOT_GIVEN, still=_STILL),
    ] = None
    served_model: Annotated[
        str | None, Key(means="The model's name in requests.", default="what the engine loads", still=_STILL)
    ] = None
    selector: Annotated[
        dict[str, str],
        Field(default_factory=dict),
        Key(means="Labels of its pods, by which they are selected.", default=_NOT_GIVEN, still=_STILL),
    ]
    series: Annotated[
        dict[str, str],
        Field(default_factory=dict),
        Key(
            means="Labels of its engines' series in Prometheus, such as {namespace: llm, model_name: qwen3-32b}.",
            default=_NOT_GIVEN,
            still=_STILL,
        ),
    ]
    args: Annotated[
        tuple[str, ...],
        Key(
            means="Further arguments of the engine; those that the plan sets are refused.", default="none", still=_STILL
        ),
    ] = ()
    port: Annotated[
        Count | None,
        Range(least=1, most=65535),
        Key(means="The port that the engine serves on.", default=_NOT_GIVEN, still=_STILL),
    ] = None
    device_resource: Annotated[
        str | None,
        Key(
            means="What its devices are called as a resource, such as nvidia.com/gpu.", default=_NOT_GIVEN, still=_STILL
        ),
    ] = None
    node_selector: Annotated[
        dict[str, str],
        Field(default_factory=dict),
        Key(means="Labels of the nodes that it runs on.", default="any node with free devices", still=_STILL),
    ]
    node_class: Annotated[
        str | None,
        Key(means="Karpenter's class of its nodes: group, kind and name.", default=_NOT_GIVEN, still=_STILL),
    ] = None
    priority_class: Annotated[
        Name | None, Key(means="The PriorityClass of its pods.", default="the cluster's default", still=_STILL)
    ] = None
    route: Annotated[
        Name | None, Key(means="The HTTPRoute or AIGatewayRoute in front of it.", default=_NOT_GIVEN, still=_STILL)
    ] = None
    endpoint_picker: Annotated[
        str | None,
        Key(
            means="The Service of its endpoint picker and its port, such as chat-epp:9002.",
            default=_NOT_GIVEN,
            still=_STILL,
        ),
    ] = None
    address: Annotated[
        str | None,
        Key(means="Where a gateway reaches it, such as http://chat.llm:8000/v1.", default=_NOT_GIVEN, still=_STILL),
    ] = None
    cpus: Annotated[
        Count | None,
        Range(least=1, most=4096),
        Key(
            means="CPUs of a replica.",
            default="2 x (2 + devices): a core of two threads for each process of the engine",
            still=_STILL,
        ),
    ] = None
    shared_memory: Annotated[
        Bytes | None,
        Range(least=2.0**20, most=_MOST_BYTES, dimension=BYTES),
        Key(means="/dev/shm of a pod.", default=SHARED_MEMORY, still=_STILL),
    ] = None
    scratch: Annotated[
        Bytes | None,
        Range(least=2.0**20, most=_MOST_BYTES, dimension=BYTES),
        Key(means="Local disk of a pod beside the weights.", default=SCRATCH, still=_STILL),
    ] = None


class EmitSection(Section):
    """What the cluster calls things."""

    namespace: Annotated[Name | None, Key(means="The namespace of every object.", default=_NOT_GIVEN, still=_STILL)] = (
        None
    )
    labels: Annotated[
        dict[str, str],
        Field(default_factory=dict),
        Key(means="Labels of every object, such as {team: search}.", default="none", still=_STILL),
    ]
    prometheus: Annotated[
        str | None,
        Key(
            means="Prometheus as the cluster reaches it, such as http://prometheus.monitoring:9090.",
            default=_NOT_GIVEN,
            still=_STILL,
        ),
    ] = None
    gateway: Annotated[
        Name | None, Key(means="The Gateway in front of the pools.", default=_NOT_GIVEN, still=_STILL)
    ] = None
    tenant_header: Annotated[
        str | None,
        Key(means="The header that names a request's tenant, such as x-tenant-id.", default=_NOT_GIVEN, still=_STILL),
    ] = None
    class_header: Annotated[
        str | None,
        Key(
            means="The header that names a request's class, such as x-request-class.", default=_NOT_GIVEN, still=_STILL
        ),
    ] = None
    workloads: Annotated[
        dict[str, EmitWorkloadSection], Field(default_factory=dict), Key(means="The pools as the cluster calls them.")
    ]


def emit_of(section: EmitSection, pools: tuple[str, ...], provenance: Provenance) -> EmitSettings:
    """The settings; a placeholder, a label that no cluster takes, or a workload of no pool is an InputError."""
    for path, value in _texts(section.model_dump()):
        if _PLACEHOLDER.search(value):
            raise _wrong(path, value, "is a placeholder, and would be written into the files", "Give the real value.")
    for name in section.workloads:
        if name not in pools:
            raise _wrong("emit.workloads", name, "is not a pool of this plan", f"Pools: {', '.join(pools)}.")
    names = [each.name for each in section.workloads.values()]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise _wrong("emit.workloads", twice, "is the name of two workloads", "Give each pool its own name.")
    _check_labels("emit.labels", section.labels)
    _check(section.prometheus, _ADDRESS, "emit.prometheus", "an address", "http://prometheus.monitoring:9090")
    for key in ("tenant_header", "class_header"):
        _check(getattr(section, key), _HEADER, f"emit.{key}", "a header's name", "x-tenant-id")
    shared = section.model_dump(exclude={"workloads"})
    workloads = {name: _workload(name, each, provenance) for name, each in section.workloads.items()}
    return EmitSettings(**shared, workloads=workloads)


def _workload(pool: str, section: EmitWorkloadSection, provenance: Provenance) -> WorkloadNames:
    place = f"emit.workloads.{pool}"
    for key in ("selector", "node_selector"):
        _check_labels(f"{place}.{key}", getattr(section, key))
    for key in section.series:
        _check(key, _SERIES_KEY, f"{place}.series", "a label of Prometheus", "model_name")
    for key, pattern, what, example in (
        ("image", _IMAGE, "an image with a tag or a digest", "vllm/vllm-openai:v0.32.0"),
        ("model", _MODEL, "a model's name or path", "Qwen/Qwen3-32B"),
        ("served_model", _MODEL, "a model's name", "qwen3-32b"),
        ("endpoint_picker", _PICKER, "a Service and its port", "chat-epp:9002"),
        ("address", _ADDRESS, "an address", "http://chat.llm:8000/v1"),
        ("node_class", _NODE_CLASS, "group, kind and name", "karpenter.k8s.aws/EC2NodeClass/gpu"),
        ("device_resource", _RESOURCE, "an extended resource", "nvidia.com/gpu"),
    ):
        _check(getattr(section, key), pattern, f"{place}.{key}", what, example)
    stated = section.model_dump(exclude={"cpus", "shared_memory", "scratch"})
    return WorkloadNames(
        **stated,
        cpus=provenance.may_say(f"{place}.cpus", section.cpus, "cpus"),
        shared_memory=provenance.over(SHARED_MEMORY, section.shared_memory, name=f"{place}.shared_memory"),
        scratch=provenance.over(SCRATCH, section.scratch, name=f"{place}.scratch"),
    )


def _texts(value: Any, path: str = "emit") -> Iterator[tuple[str, str]]:
    """Every text that a section holds, with its key."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, f"{path}.{key}")
    elif isinstance(value, str):
        yield path, value


def _check_labels(field: str, labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        _check(key, _LABEL_KEY, field, "a label's key", "app.kubernetes.io/name")
        _check(value, _LABEL_VALUE, f"{field}.{key}", "a label's value", "chat")


def _check(value: str | None, pattern: re.Pattern[str], field: str, what: str, example: str) -> None:
    if value is not None and not pattern.fullmatch(value):
        raise _wrong(field, value, f"is not {what}", f"Give for example {example}.")


def _wrong(field: str, value: str, problem: str, fix: str) -> InputError:
    return InputError(field=field, value=value, problem=problem, fix=fix)
