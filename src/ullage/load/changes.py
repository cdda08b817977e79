"""What-if changes to a plan: `--set key=value` for any key of the plan file, `--traffic +30%` for all of its demand.

A change is made to the document before it is checked, so that a value is checked like the file's, with the same
messages. Entries of a list go by name: `workload.classes.chat.rate=30 req/s`, `pools.large.tensor_parallel=4`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, unknown_name

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


def changed_document(document: Document, changes: Changes) -> Document:
    """The document with these values in place of its own; where each came from is kept for messages."""
    content = copy.deepcopy(document.content)
    options = dict(document.options)
    for key, value in changes.values:
        path = _put(content, key, value)
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


def _put(content: dict[str, Any], key: str, value: Any) -> tuple[str | int, ...]:
    """Change one value in place; the path at which it now stands."""
    parts = _parts(key)
    if parts[0] == "pool" and "pool" not in content and isinstance(content.get("pools"), list):
        parts = _only_pool(content["pools"], key, parts)
    holder: Any = content
    path: tuple[str | int, ...] = ()
    for part in parts[:-1]:
        step = _step(holder, part, key)
        if isinstance(holder, dict):
            holder.setdefault(step, {})
            if holder[step] is None:
                holder[step] = {}
        holder, path = holder[step], (*path, step)
    last = _step(holder, parts[-1], key)
    if value is None and isinstance(holder, dict):
        holder.pop(last, None)
    else:
        holder[last] = value
    return (*path, last)


def _parts(key: str) -> list[str]:
    """The dotted key in parts. A part that begins with a digit belongs to the one before: ttft_p99.9, llama-3.1-8b."""
    found: list[str] = []
    for part in key.split("."):
        if found and re.match(r"\d+\D|\d+$", part) and re.search(r"\d$", found[-1]):
            found[-1] = f"{found[-1]}.{part}"
        else:
            found.append(part.strip())
    if not all(found):
        raise InputError(field=OPTION, value=key, problem="is not a key of the plan file", fix=_FIX)
    return found


def _only_pool(pools: list[Any], key: str, parts: list[str]) -> list[str]:
    """`pool.` where the file lists its pools: the only one, or a question which."""
    if len(pools) == 1:
        return ["pools", "0", *parts[1:]]
    names = [str(each.get("name")) for each in pools if isinstance(each, dict)]
    fix = f"Write pools.{names[0]}.{'.'.join(parts[1:])}; the pools are {', '.join(names)}."
    raise InputError(field=f"{OPTION} {key}", value=key, problem="could be of any of several pools", fix=fix)


def _step(holder: Any, part: str, key: str) -> str | int:
    """The key or the index by which `part` stands in a mapping or a list."""
    if isinstance(holder, dict):
        return part
    if not isinstance(holder, list):
        problem = f"names {part!r} below a single value"
        raise InputError(field=f"{OPTION} {key}", value=key, problem=problem, fix=_FIX)
    names = [_name(each) for each in holder]
    if part in names:
        return names.index(part)
    if part.isdigit() and int(part) < len(holder):
        return int(part)
    raise unknown_name(field=f"{OPTION} {key}", name=part, known=[each for each in names if each])


def _name(entry: Any) -> str:
    """What an entry of a list goes by: its name, or the class or pool that it is about."""
    keys = ("name", "class", "pool")
    return next((str(entry[each]) for each in keys if each in entry), "") if isinstance(entry, dict) else ""


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)
