"""Keys of a plan file by their dotted names: `pool.tensor_parallel`, `workload.classes.chat.rate`.

The sections are the table: a field of a section is a key, and everything here walks them. Entries of a list are named
by what tells them apart (`workload.classes.chat`) or by their number (`routing.0`); below a mapping of the user's own
names, such as `slo`, the rest of the dotted name is one of these.
"""

from __future__ import annotations

import datetime
import difflib
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import WithJsonSchema

from ullage.errors import InputError, unknown_name
from ullage.evidence import Assumption
from ullage.files.sections.quantities import Range
from ullage.files.sections.section import Key, Section, key_of, written

KeyPath = tuple[str | int, ...]
"""Where a key stands in a document: keys, numbers of entries, names of the user's."""
LIST, MAPPING = "[]", "{}"
# What tells the entries of a list apart, in this order of preference.
_NAMED_BY = ("name", "class", "pool")


def put_key(root: type[Section], content: dict[str, Any], key: str, value: Any) -> KeyPath:
    """Change one value of a document in place, unchecked, and say where it stands; None leaves the key out."""
    path = find_path(root, content, key)
    place: Any = content
    for part in path[:-1]:
        # A section that the file leaves out, or leaves empty, begins here.
        if isinstance(place, dict) and not isinstance(place.get(part), dict | list):
            place[part] = {}
        place = place[part]
    if value is None and isinstance(place, dict):
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value
    return path


def find_path(root: type[Section], content: dict[str, Any], key: str) -> KeyPath:
    """Where a dotted key stands, or would stand, in a document; the nearest known one is named where there is none."""
    path: KeyPath = ()
    place: Any = content
    parts, kind, inner = _of_pools(content, key), "", root
    while parts:
        if kind == LIST:
            index = _entry(inner, place, parts.pop(0), key)
            path, place, kind = (*path, index), place[index], ""
            continue
        part = parts.pop(0)
        if kind == MAPPING:
            kind = ""
        elif part not in known_keys(inner):
            raise _unknown(root, inner, path, part, key)
        else:
            section, kind = held(known_keys(inner)[part])
            if section is None:
                return _plain_path((*path, part), kind, parts, key)
            inner = section
        path, place = (*path, part), place.get(part) if isinstance(place, dict) else None
    return path


def _of_pools(content: dict[str, Any], key: str) -> list[str]:
    """The parts of a key; `pool.` where the file lists its pools is of the only one, or a question of which."""
    first, *rest = key.split(".")
    pools = content.get("pools")
    if first != "pool" or "pool" in content or not isinstance(pools, list):
        return [first, *rest]
    if len(pools) == 1:
        return ["pools", "0", *rest]
    names = [str(each.get("name")) for each in pools if isinstance(each, dict)]
    raise _wrong(key, "could belong to any of several pools", f"Write pools.{names[0]}.{'.'.join(rest)}.")


def known_keys(section: type[Section]) -> dict[str, Any]:
    """Key -> its type, as a plan file spells it."""
    return {field.alias or name: field.annotation for name, field in section.model_fields.items()}


def section_at(root: type[Section], path: KeyPath) -> type[Section]:
    """The section that stands at a path of a document, which may hold numbers of entries and names of the user's."""
    kind, inner = "", root
    for part in path:
        if kind:
            kind = ""
            continue
        section, kind = held(known_keys(inner)[str(part)])
        assert section is not None
        inner = section
    return inner


def range_at(root: type[Section], path: KeyPath) -> Range | None:
    """The range of the number that stands at a path: that of its key, or else that of its type."""
    kind, inner = "", root
    for part in path:
        if kind:
            kind = ""
            continue
        name = next(each for each, field in inner.model_fields.items() if (field.alias or each) == part)
        field = inner.model_fields[name]
        section, kind = held(field.annotation)
        if section is None:
            return _narrowest(field.annotation, field.metadata)
        inner = section
    return None


def _narrowest(annotation: Any, metadata: Sequence[Any]) -> Range | None:
    """The last range of the outermost type that has one."""
    own = next((each for each in reversed(metadata) if isinstance(each, Range)), None)
    if own is not None:
        return own
    args = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _narrowest(args[0], args[1:])
    inside = [found for each in args if (found := _narrowest(each, ())) is not None]
    return inside[0] if inside else None


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint for a name that is not known: the nearest, or all of them."""
    found = difflib.get_close_matches(name, known, n=2)
    return f"Did you mean {' or '.join(found)}?" if found else f"Known here: {', '.join(known)}."


def held(annotation: Any) -> tuple[type[Section] | None, str]:
    """The section that a field holds, if any, and how: alone, in a list, or by names of the user's."""
    core = core_type(annotation)
    kind = {tuple: LIST, dict: MAPPING}.get(get_origin(core) or core, "")
    inner = core_type(get_args(core)[1 if kind == MAPPING else 0]) if kind else core
    is_section = isinstance(inner, type) and issubclass(inner, Section)
    return (inner if is_section else None), kind


def core_type(annotation: Any) -> Any:
    """A type without what is annotated to it, and without None; of several the first."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return core_type(args[0])
    if origin in (Union, types.UnionType):
        return core_type(next(each for each in args if each is not type(None)))
    return annotation


@dataclass(frozen=True, kw_only=True)
class KeyRow:
    """A key as a line of the reference: `[]` in its path stands for each entry of a list, `{}` for a user's name.

    `default` is what a file would state, or words where `is_worded`; `source` says where a default comes from. A row
    without a key holds a section.
    """

    path: str
    section: type[Section]
    key: Key | None
    is_needed: bool
    kind: str
    meaning: str
    default: str
    is_worded: bool
    source: str


def rows_of(section: type[Section], prefix: str = "") -> Iterator[KeyRow]:
    """Every key below a section, depth first."""
    for name, field in section.model_fields.items():
        inner, kind = held(field.annotation)
        path, key = f"{prefix}{field.alias or name}", key_of(section, name)
        assumed = None if key is None else key.assumed
        own = field.default if not field.is_required() and field.default not in (None, "", ()) else None
        worded = key is not None and isinstance(key.default, str) and bool(key.default)
        yield KeyRow(
            path=path,
            section=section,
            key=None if inner is not None else key,
            is_needed=field.is_required(),
            kind=_SECTIONS[kind] if inner is not None else kind_of(field.annotation, field.metadata),
            meaning=key.means if key is not None else _first_line(inner),
            default=_default(key, assumed, None if inner is not None else own),
            is_worded=worded,
            source="" if assumed is None else assumed.source.what,
        )
        if inner is not None:
            yield from rows_of(inner, f"{path}{kind}.")


def row_at(root: type[Section], path: KeyPath) -> KeyRow:
    """The row of the key that stands, or should, at a path of a document."""
    return next(row for row in rows_of(section_at(root, path[:-1])) if row.path == path[-1])


def _default(key: Key | None, assumed: Assumption | None, own: Any) -> str:
    if assumed is not None:
        return written(assumed)
    if key is not None and isinstance(key.default, str) and key.default:
        return key.default
    return "" if own is None else f"{own:g}" if isinstance(own, float) else str(own)


def _first_line(section: type[Section] | None) -> str:
    return ((section and section.__doc__) or "").strip().partition("\n")[0]


_SECTIONS = {"": "section", LIST: "list of sections", MAPPING: "sections by name"}
_PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false", datetime.date: "date"}


def kind_of(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """What may be written for a key, in words: `duration, such as 500ms`, `one of rolling, canary`."""
    choices = next((each.choices for each in metadata if isinstance(each, Key) and each.choices), ())
    if choices:
        return f"one of {', '.join(choices)}"
    shown = next((each.json_schema for each in metadata if isinstance(each, WithJsonSchema)), None)
    if shown:
        own = next((each for each in reversed(metadata) if isinstance(each, Range)), None)
        bounds = "" if own is None else f", {own}"
        return f"{shown['description']}, such as {shown['examples'][0]}{bounds}"
    narrower = next((each for each in reversed(metadata) if isinstance(each, Range)), None)
    if narrower is not None:
        return f"{kind_of(annotation).partition(', from ')[0]}, {narrower}"
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(args[0], args[1:])
    if origin in (Union, types.UnionType):
        return " or ".join(kind_of(each) for each in args if each is not type(None))
    if origin is Literal:
        return f"one of {', '.join(args)}" if len(args) > 1 else args[0]
    if origin is tuple:
        return f"list: {kind_of(args[0])}"
    return f"by name: {kind_of(args[1])}" if origin is dict else _PLAIN[annotation]


def _entry(section: type[Section], entries: Any, part: str, key: str) -> int:
    """The number of the entry that a part of a key names."""
    found = entries if isinstance(entries, list) else []
    by = next((each for each in _NAMED_BY if each in known_keys(section)), "")
    names = [str(each.get(by, "")) if isinstance(each, dict) else "" for each in found]
    if part in names:
        return names.index(part)
    if part.isdecimal() and int(part) < len(found):
        return int(part)
    raise unknown_name(field=f"--set {key}", name=part, known=[each for each in names if each])


def _plain_path(path: KeyPath, kind: str, parts: list[str], key: str) -> KeyPath:
    """The path of a key that holds no section: itself, or a name of the user's in its mapping."""
    if parts and kind != MAPPING:
        raise _wrong(key, f"{path[-1]} has no keys of its own", f"Write {'.'.join(map(str, path))}.")
    return (*path, ".".join(parts)) if parts else path


def _unknown(root: type[Section], section: type[Section], path: KeyPath, part: str, key: str) -> InputError:
    """Near in its own section, or else the same key in another one."""
    known, last = list(known_keys(section)), key.rsplit(".", 1)[-1]
    elsewhere = [each.path for each in rows_of(root) if each.path.rsplit(".", 1)[-1] == last]
    is_near = bool(difflib.get_close_matches(part, known))
    hint = nearest(key, elsewhere) if elsewhere and not is_near else nearest(part, known)
    return _wrong(".".join(map(str, (*path, part))), "is not a known key", hint)


def _wrong(key: str, problem: str, fix: str) -> InputError:
    return InputError(field="--set", value=key, problem=problem, fix=fix)
