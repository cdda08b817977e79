"""What-if changes to a plan: `--set key=value` for any key of the plan file, `--traffic +30%` for all of its demand.

A change is made to the document before it is checked, so that a value is checked like the file's, with the same
messages. Entries of a list go by name: `workload.classes.chat.rate=30 req/s`, `pools.large.tensor_parallel=4`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError

if TYPE_CHECKING:
    from ullage.files.strict_yaml import Document
    from ullage.planning.spec import PlanSpec

OPTION = "--set"
_FIX = "Write for example pool.tensor_parallel=4 or workload.classes.chat.rate=30 req/s."

SetValues = Mapping[str, Any] | Sequence[str]
"""Keys and values as a mapping, or as texts `key=value`."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is different from the file: values by dotted key (None leaves the key out), and times the traffic."""

    values: tuple[tuple[str, Any], ...] = ()
    traffic_ratio: float = 1.0

    def __bool__(self) -> bool:
        return bool(self.values) or self.traffic_ratio != 1.0

    @property
    def texts(self) -> tuple[str, ...]:
        """Each change as one would type it."""
        said = [f"{key}={_shown(value)}" for key, value in self.values]
        return (*said, *([] if self.traffic_ratio == 1.0 else [f"traffic x{self.traffic_ratio:g}"]))


NO_CHANGES = Changes()


def parse_changes(set: SetValues = (), traffic: str | float | None = None) -> Changes:  # noqa: A002
    """Changes as they are typed, or as a program gives them."""
    from ullage.files.strict_yaml import as_texts
    from ullage.load.typed import parse_traffic

    values = tuple(set.items()) if isinstance(set, Mapping) else tuple(_pair(each) for each in set)
    ratio = 1.0 if traffic is None else parse_traffic(traffic if isinstance(traffic, str) else f"x{traffic:g}")
    return Changes(values=tuple((key, as_texts(value)) for key, value in values), traffic_ratio=ratio)


def both(first: Changes, then: Changes) -> Changes:
    """Changes, and others on top of them."""
    return Changes(values=(*first.values, *then.values), traffic_ratio=first.traffic_ratio * then.traffic_ratio)


def changed_document(document: Document, changes: Changes) -> Document:
    """The document with these values in place of its own; where each came from is kept for messages."""
    from ullage.files.plan_file import put_value

    content = copy.deepcopy(document.content)
    options = dict(document.options)
    for key, value in changes.values:
        path = put_value(content, key, value)
        options[path] = f"{OPTION} {key}"
    return replace(document, content=content, options=options)


def with_traffic(spec: PlanSpec, changes: Changes) -> PlanSpec:
    """The specification with every class's demand times so much."""
    from ullage.planning.again import with_demand_times

    return spec if changes.traffic_ratio == 1.0 else with_demand_times(spec, changes.traffic_ratio)


def _pair(text: str) -> tuple[str, Any]:
    from ullage.files.strict_yaml import read_scalar

    key, equals, value = text.partition("=")
    if not (equals and key.strip()):
        raise InputError(field=OPTION, value=text, problem="is not KEY=VALUE", fix=_FIX)
    return key.strip(), read_scalar(value, field=f"{OPTION} {key.strip()}")


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)
