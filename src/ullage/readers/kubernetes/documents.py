"""Objects of a cluster from YAML: one document, several, the List that kubectl prints for many, or a chart's values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.documents import yaml_values
from ullage.errors import InputError
from ullage.readers.kubernetes.charts import chart_objects

# A configuration of Dynamo's planner is no object of a cluster, and known by its keys.
DYNAMO_PLANNER = "DynamoPlanner"
_PLANNER_KEYS = {"optimization_target", "throughput_adjustment_interval_seconds", "load_adjustment_interval_seconds"}


@dataclass(frozen=True, kw_only=True)
class Object:
    """One object as written; `at` walks into it and comes back with None where a step is missing."""

    kind: str
    name: str
    namespace: str
    body: Mapping[str, Any]
    file: str

    @property
    def where(self) -> str:
        return f"{self.file}: {self.kind} {self.name}"

    @property
    def is_knative_service(self) -> bool:
        """Kubernetes has a kind of this name too, which starts nothing."""
        return self.kind == "Service" and str(self.body.get("apiVersion", "")).startswith("serving.knative.dev")

    def at(self, *path: str | int) -> Any:
        return walked(self.body, *path)


def walked(value: Any, *path: str | int) -> Any:
    """The value at the end of a path of keys and places, or None."""
    for step in path:
        if isinstance(step, str) and isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def whole(value: Any, *, field: str, default: int | None = None) -> int:
    """A count from 0 on; Kubernetes writes devices as text and replicas as numbers."""
    if value is None and default is not None:
        return default
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdigit() or len(text) > 9:
        raise InputError(field=field, value=value, problem="is not a whole number", fix="Give for example 2.")
    return int(text)


def read_documents(text: str, *, file: str) -> list[Any]:
    """Every YAML document of the file, whatever it holds."""
    return list(yaml_values(text, file=file, fix="Give what kubectl get -o yaml printed."))


def objects_among(documents: Sequence[Any], *, file: str) -> list[Object]:
    """The objects of these documents, Lists taken apart."""
    return [each for document in documents for each in _objects(document, file)]


def read_objects(text: str, *, file: str) -> list[Object]:
    """Every object of the file, Lists taken apart."""
    found = objects_among(read_documents(text, file=file), file=file)
    if not found:
        raise InputError(
            field=file, value=text[:40], problem="holds no object", fix="Give what kubectl get -o yaml printed."
        )
    return found


def _objects(document: Any, file: str) -> Iterator[Object]:
    if not isinstance(document, Mapping):
        return
    kind = str(document.get("kind") or "")
    if kind.endswith("List") and isinstance(document.get("items"), list):
        for each in document["items"]:
            yield from _objects(each, file)
    elif not kind and _PLANNER_KEYS & document.keys():
        yield Object(kind=DYNAMO_PLANNER, name="planner", namespace="", body=document, file=file)
    elif not kind:
        for each in chart_objects(document):
            yield from _objects(each, file)
    else:
        name, namespace = (walked(document, "metadata", key) for key in ("name", "namespace"))
        yield Object(kind=kind, name=str(name or ""), namespace=str(namespace or ""), body=document, file=file)
