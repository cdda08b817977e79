"""What a cluster runs, read from `kubectl get -o yaml` files: deployments, their autoscalers, and nodes.

documents.py    YAML files into objects, whichever way kubectl listed them
charts.py       values of the usual Helm charts into the objects that they make
engine_args.py  the command line of vLLM, SGLang and TensorRT-LLM into our names
workloads.py    Deployments, StatefulSets, LeaderWorkerSets, services of KServe and Knative into pools
rule_values.py  quantities, durations and bounds of a rule, and the line that a refusal names
scaling_rules.py  the rules among the objects, made into ones that run
autoscaler_rules.py  what HPA and KEDA say of a rule
serving_rules.py  what Knative and KServe say of a rule
planner_rules.py  what llm-d's variant autoscaler and Dynamo's planner are configured with
cron.py         hours of the week in which KEDA's cron trigger asks for replicas
adapter_rules.py  what prometheus-adapter serves under the names that a HorizontalPodAutoscaler asks for
autoscalers.py  HorizontalPodAutoscalers and KEDA's ScaledObjects, laid over the pools they scale
nodes.py        Nodes with their devices, zones and instance types
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ullage.bounded import bounded_text
from ullage.errors import InputError
from ullage.planning.brownfield.running import Running
from ullage.readers.kubernetes.adapter_rules import adapter_queries
from ullage.readers.kubernetes.autoscaler_rules import ReadRule
from ullage.readers.kubernetes.autoscalers import scaled
from ullage.readers.kubernetes.documents import Object, objects_among, read_documents, read_objects
from ullage.readers.kubernetes.nodes import node_of
from ullage.readers.kubernetes.rule_values import at_line
from ullage.readers.kubernetes.scaling_rules import scaling_rules
from ullage.readers.kubernetes.workloads import is_workload, pool_of

_AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


def read_running(files: Sequence[Path]) -> Running:
    """What these files describe; a file without any pool or node that is known is an InputError."""
    objects = [each for file in files for each in read_objects(_text(file, field="running"), file=str(file))]
    found = [(each, pool_of(each)) for each in objects if is_workload(each)]
    nodes = [node for each in objects if each.kind == "Node" and (node := node_of(each)) is not None]
    pools = [(each, pool) for each, pool in found if pool is not None]
    if not pools and not nodes:
        kinds = ", ".join(sorted({each.kind for each in objects})) or "nothing"
        raise InputError(
            field="running",
            value=", ".join(str(each) for each in files),
            problem=f"holds no pool with devices and no node with devices, only {kinds}",
            fix="Give what kubectl get deployments,statefulsets,hpa,nodes -o yaml prints.",
        )
    autoscalers = [each for each in objects if each.kind in _AUTOSCALERS]
    return Running(pools=scaled(pools, autoscalers), nodes=tuple(nodes), unread=_unread(objects, found))


def read_rules(files: Sequence[Path]) -> tuple[ReadRule, ...]:
    """The scaling rules of these files; files without any are an InputError.

    Rules of prometheus-adapter among them say what the metrics of a HorizontalPodAutoscaler mean.
    """
    objects: list[Object] = []
    queries: dict[str, str] = {}
    texts = {str(file): _text(file, field="rules") for file in files}
    for file, text in texts.items():
        documents = read_documents(text, file=file)
        objects += objects_among(documents, file=file)
        queries |= adapter_queries(documents, file=file)
    try:
        found = scaling_rules(objects, queries)
    except InputError as error:
        raise at_line(error, texts) from None
    if not found:
        raise InputError(
            field="rules",
            value=", ".join(str(each) for each in files),
            problem="holds no HorizontalPodAutoscaler, ScaledObject, Knative Service, InferenceService, "
            "VariantAutoscaling or planner of Dynamo",
            fix="Give what kubectl get hpa,scaledobject -o yaml prints.",
        )
    return found


def _unread(objects: Sequence[Object], found: Sequence[tuple[Object, object]]) -> tuple[str, ...]:
    known = {*_AUTOSCALERS, "Node"}
    other = [
        f"{each.kind} {each.name}: not of a kind that is read here"
        for each in objects
        if each.kind not in known and not is_workload(each)
    ]
    idle = [f"{each.kind} {each.name}: requests no device" for each, pool in found if pool is None]
    return (*other, *idle)


def _text(file: Path, *, field: str) -> str:
    fix = "Give what kubectl get -o yaml printed."
    try:
        return bounded_text(file, field=field, fix=fix)
    except (OSError, UnicodeDecodeError) as error:
        problem = (getattr(error, "strerror", None) or "is not text").lower()
        raise InputError(field=field, value=str(file), problem=problem, fix=fix) from None
