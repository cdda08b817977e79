"""Names that a plan file lacks for its targets: all of them in one refusal, with the section to add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import yaml

from ullage.errors import InputError
from ullage.planning.manifests import EmitSettings, WorkloadNames

Made = TypeVar("Made")

_ONLY_POOL = "pool"  # the key of a plan's only pool, where it has no name


@dataclass(frozen=True, kw_only=True)
class NameKey:
    """What a name is for, and one as people write it."""

    means: str
    such_as: Any

    def __str__(self) -> str:
        shown = self.such_as if isinstance(self.such_as, str | int) else yaml_line(self.such_as)
        return f"{self.means}, such as {shown}"


NAME_KEYS: Mapping[str, NameKey] = {
    "namespace": NameKey(means="the namespace of every object", such_as="llm"),
    "prometheus": NameKey(
        means="Prometheus as the cluster reaches it", such_as="http://prometheus.monitoring.svc:9090"
    ),
    "gateway": NameKey(means="the Gateway in front of the pools", such_as="inference"),
    "tenant_header": NameKey(means="the header that names a request's tenant", such_as="x-tenant-id"),
    "class_header": NameKey(means="the header that names a request's class", such_as="x-request-class"),
    "name": NameKey(means="the name of the workload", such_as="chat"),
    "container": NameKey(means="the engine's container in its pods", such_as="engine"),
    "image": NameKey(means="the engine's image with a tag or a digest", such_as="vllm/vllm-openai:v0.32.0"),
    "model": NameKey(means="what the engine loads", such_as="Qwen/Qwen3-32B"),
    "selector": NameKey(means="labels of its pods", such_as={"app": "chat"}),
    "series": NameKey(
        means="labels of its engines' series in Prometheus", such_as={"namespace": "llm", "model_name": "qwen3-32b"}
    ),
    "port": NameKey(means="the port that the engine serves on", such_as=8000),
    "device_resource": NameKey(means="its devices as a resource", such_as="nvidia.com/gpu"),
    "node_selector": NameKey(means="labels of its nodes", such_as={"node.kubernetes.io/instance-type": "p5.48xlarge"}),
    "node_class": NameKey(means="Karpenter's class of its nodes", such_as="karpenter.k8s.aws/EC2NodeClass/gpu"),
    "route": NameKey(means="the HTTPRoute or AIGatewayRoute in front of it", such_as="chat"),
    "endpoint_picker": NameKey(means="the Service of its endpoint picker and its port", such_as="chat-epp:9002"),
    "address": NameKey(means="where a gateway reaches it", such_as="http://chat.llm:8000/v1"),
}


class MissingNameError(InputError):
    """One name that a target writes and the plan file lacks; `pool` is empty where all pools share it."""

    def __init__(self, *, key: str, pool: str, target: str) -> None:
        self.key, self.pool, self.target = key, pool, target
        super().__init__(
            field=f"emit.workloads.{pool}.{key}" if pool else f"emit.{key}",
            value=None,
            problem=f"is missing, and target {target} writes it",
            fix=f"Add {key} there: {NAME_KEYS[key]}.",
        )

    def __reduce__(self) -> tuple[Callable[[], MissingNameError], tuple[()]]:
        return partial(MissingNameError, key=self.key, pool=self.pool, target=self.target), ()


def make_with_names(make: Callable[[EmitSettings], Made], settings: EmitSettings) -> Made:
    """What `make` makes of the names; where some are missing, a refusal that lists all of them.

    What is missing is found by making the files with an example in its place, which is then thrown away.
    """
    missing: list[MissingNameError] = []
    while True:
        try:
            made = make(settings)
        except MissingNameError as one:
            missing.append(one)
            settings = _with_example(settings, one)
        except InputError:
            # A fault in what examples led to is told once the names are there.
            if missing:
                break
            raise
        else:
            if not missing:
                return made
            break
    if len(missing) == 1:
        raise missing[0]
    raise _listed(missing)


def _with_example(settings: EmitSettings, one: MissingNameError) -> EmitSettings:
    value = _example(one)
    if not one.pool:
        return replace(settings, **{one.key: value})
    known = settings.workloads.get(one.pool, WorkloadNames(name=""))
    return replace(settings, workloads={**settings.workloads, one.pool: replace(known, **{one.key: value})})


def _example(one: MissingNameError) -> Any:
    """Of several pools each has a name of its own."""
    return one.pool if one.key == "name" and one.pool != _ONLY_POOL else NAME_KEYS[one.key].such_as


def _listed(missing: list[MissingNameError]) -> InputError:
    """One refusal for many: each key with its meaning, and all of them as a line of the plan file."""
    section: dict[str, Any] = {}
    for one in missing:
        place = section.setdefault("workloads", {}).setdefault(one.pool, {}) if one.pool else section
        place[one.key] = _example(one)
    targets = ", ".join(dict.fromkeys(one.target for one in missing))
    keys = "; ".join(f"{one.field}: {NAME_KEYS[one.key].means}" for one in missing)
    return InputError(
        field="emit",
        value=None,
        problem=f"lacks {len(missing)} names that a plan cannot know and {targets} need: {keys}",
        fix=f"Add them with the names of your cluster, for example: emit: {yaml_line(section)}",
    )


def yaml_line(value: Any) -> str:
    """A mapping in YAML's flow style, on one line."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**9).strip()
