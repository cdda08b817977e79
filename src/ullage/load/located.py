"""A fault that a stage finds in a plan, told where the user wrote it: file, line, the key as it stands there, value.

Stages know their inputs by the names of assumptions (`chat.mean_rate`, `tp`); the user knows keys of a file. The file
is read again only where there is a fault to place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError

if TYPE_CHECKING:
    from ullage.files.keys import KeyPath
    from ullage.files.strict_yaml import Document

# What a stage calls it -> the key of the file. Keys of a pool are those of the pool at hand.
_OF_POOL = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "ep": "expert_parallel",
    "KV dtype": "kv_dtype",
    "kv dtype": "kv_dtype",
    "max sequences": "max_sequences",
    "token budget": "token_budget",
    "poll steps": "poll_steps",
    "batch wait steps": "batch_wait_steps",
    "capacity policy": "capacity_policy",
    "conservativeness": "conservativeness",
    "max output": "max_output",
    "step tokens": "token_budget",
    "memory fraction": "memory_fraction",
    "context": "max_context",
    "approved context": "max_context",
    "concurrency": "approved_concurrency",
    "version": "engine_version",
    "engine": "engine",
    "device": "device",
    "model": "model",
}
_NAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^demand\.(.+)\.planning_rate$"), r"workload.classes.\1.rate"),
    (re.compile(r"^zone$"), "workload.zone"),
    (re.compile(r"^event\.(.+)\.demand_ratio$"), r"workload.events.\1.demand"),
    (re.compile(r"^event\.(.+)$"), r"workload.events.\1"),
    (re.compile(r"^class\.(.+?)\.slos$"), r"workload.classes.\1.slo"),
    (re.compile(r"^class\.(.+)$"), r"workload.classes.\1"),
    (re.compile(r"^task\.(.+)$"), r"cost.tasks.\1"),
    (re.compile(r"^tenant\.(.+)$"), r"admission.tenants.\1"),
    (re.compile(r"^routing\.(.+?)\..+$"), r"routing.\1"),
    (re.compile(r"^sites\.(.+?)\..+$"), r"sites.regions.\1"),
    (re.compile(r"^admission\.(attempts|backoff|growth|jitter)$"), r"admission.retry.\1"),
    (re.compile(r"^admission\.retry_budget$"), r"admission.retry.budget"),
    (re.compile(r"^prices\.purchase\..+$"), r"prices.purchase"),
    (re.compile(r"^(.+)\.mean_rate$"), r"workload.classes.\1.rate"),
    (re.compile(r"^(.+)\.peak_hour_ratio$"), r"workload.classes.\1.peak_hour"),
    (re.compile(r"^(.+)\.(prompt|output)_p.+$"), r"workload.classes.\1.\2"),
    (re.compile(r"^(.+)\.(weekly_growth|longest_context|deadline)$"), r"workload.classes.\1.\2"),
)

# What is worked out from a key, and is no value of it.
_DERIVED = "demand."


@contextmanager
def located(document: Callable[[], Document], *, pool: str = "") -> Iterator[None]:
    """Whatever input is refused within is told by its place in the document; `pool` is where a pool's keys stand."""
    try:
        yield
    except InputError as error:
        raise placed(error, document(), pool=pool) from None
    except OSError as error:
        problem = (error.strerror or "cannot be read").lower()
        found = InputError(
            field="file", value=str(error.filename), problem=problem, fix="Check the path and its rights."
        )
        raise placed(found, document(), pool=pool) from None


def placed(error: InputError, document: Document, *, pool: str = "") -> InputError:
    """The error at its place; one that has a place already, here or in another file, or is about an option, stays."""
    if error.field.startswith(("--", document.file)) or re.search(r":\d+", error.field):
        return error
    for dotted in _candidates(error.field, pool or _pool_with(document.content, error)):
        path, missing = _path(document.content, dotted, error.value)
        if path:
            found = _at(document.content, path)
            value = found if isinstance(found, str) and not missing else error.value
            problem = error.problem
            if error.field.startswith(_DERIVED):
                problem = f"makes {error.field} {error.value}, which {problem}"
            return _again(error, document.place((*path, *missing)), value, problem)
    # A file that the plan names: its fault is told at the line that names it.
    for text in (error.field, str(error.value)):
        path = _named_at(document.content, text)
        if path:
            place = document.place(path)
            field = place if text == str(error.value) else f"{place}: {text}"
            return _again(error, field, _at(document.content, path) if field == place else error.value, error.problem)
    return _again(error, f"{document.place(())}: {error.field}", error.value, error.problem)


def _pool_with(content: Mapping[str, Any], error: InputError) -> str:
    """Where the pool stands, of several, that gives this key this value; empty where none does."""
    pools = content.get("pools")
    key = error.field.removeprefix("pool.")
    if not isinstance(pools, list) or key == error.field:
        return ""
    for index, each in enumerate(pools):
        path, missing = _path(each, key, error.value)
        given = _at(each, path)
        if not missing and str(error.value) in map(str, given if isinstance(given, list) else [given]):
            return f"pools.{index}"
    return ""


def _again(error: InputError, field: str, value: object, problem: str) -> InputError:
    return InputError(field=field, value=value, problem=problem, fix=error.fix)


def _named_at(content: Any, text: str, path: KeyPath = ()) -> KeyPath:
    """Where the document names this file, or a folder that it lies in; nothing where it does not."""
    if isinstance(content, str):
        # A plan in the working folder names files without a folder; what has no dot or slash is a word, not a file.
        name = text.partition(": ")[0]
        at = f"/{name}/".find(f"/{content}/") if content else -1
        return path if at > 0 or (at == 0 and re.search(r"[./]", name)) else ()
    entries = (
        content.items() if isinstance(content, Mapping) else enumerate(content) if isinstance(content, list) else ()
    )
    return next((found for key, each in entries if (found := _named_at(each, text, (*path, key)))), ())


def _candidates(field: str, pool: str) -> Iterator[str]:
    if field in _OF_POOL and pool:
        yield f"{pool}.{_OF_POOL[field]}"
        yield pool
    if field.startswith("pool.") and pool:
        yield f"{pool}.{field.removeprefix('pool.')}"
    for pattern, key in _NAMES:
        if pattern.match(field):
            yield pattern.sub(key, field)
    # Figures of one of several pools carry its name: `small.pool.storage`.
    several = re.match(r"^([a-z0-9-]+)\.pool\.(.+)$", field)
    if several:
        yield f"pools.{several.group(1)}.{several.group(2)}"
    yield field


def _path(content: Mapping[str, Any], dotted: str, value: object) -> tuple[KeyPath, list[str]]:
    """As much of a dotted key as the document has, and the rest of it.

    Entries of a list go by name or number; an entry that is not named is the one that has this value.
    """
    place: Any = content
    path: KeyPath = ()
    parts = dotted.split(".")
    while parts:
        part = parts[0]
        if isinstance(place, list):
            index = next((at for at, each in enumerate(place) if _is_called(each, part)), None)
            if index is None and part.isdecimal() and int(part) < len(place):
                index = int(part)
            if index is None:
                index = next((at for at, each in enumerate(place) if _has(each, part, value)), None)
                if index is None:
                    break
                path, place = (*path, index), place[index]
                continue
            path, place = (*path, index), place[index]
        elif isinstance(place, Mapping) and part in place:
            path, place = (*path, part), place[part]
        else:
            break
        parts = parts[1:]
    return path, parts


def _is_called(entry: Any, name: str) -> bool:
    return isinstance(entry, Mapping) and name in (entry.get("name"), entry.get("class"), entry.get("device"))


def _has(entry: Any, key: str, value: object) -> bool:
    return isinstance(entry, Mapping) and str(entry.get(key)) == str(value)


def _at(content: Any, path: KeyPath) -> Any:
    for part in path:
        content = content[part]
    return content
