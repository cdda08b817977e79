"""The keys of a plan file as a page of the reference, made from the schema so that none can be forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HEAD = """\
# Keys of a plan file

Every key, in the order of the schema; `[]` stands for each entry of a list. What is not needed has a sourced default, \
which the plan lists as `assumed`. Written by `make docs-record` from the code that reads the file; \
[plan-file](plan-file.md) explains how they work together.

| key | needed | meaning |
|---|---|---|
"""


def page(schema: dict[str, Any]) -> str:
    return HEAD + "".join(f"| `{path}` | {'yes' if needed else ''} | {said} |\n" for path, needed, said in rows(schema))


def rows(schema: dict[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """Path, whether it is needed, and what it means, depth first."""
    yield from _section(schema, schema, "")


def _section(schema: dict[str, Any], section: dict[str, Any], prefix: str) -> Iterator[tuple[str, bool, str]]:
    for key, field in section.get("properties", {}).items():
        path = f"{prefix}{key}"
        inner, is_list = _inner(schema, field)
        yield path, key in section.get("required", ()), _meaning(field, inner)
        # Several pools have the keys of one, and a pool's own evidence those of the only pool's.
        if inner is not None and path not in ("pools", "pool.evidence"):
            yield from _section(schema, inner, f"{path}[]." if is_list else f"{path}.")


def _inner(schema: dict[str, Any], field: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """The section that a field holds, and whether it holds a list of them."""
    for each in (field, *field.get("anyOf", ()), *field.get("allOf", ())):
        if "$ref" in each:
            found = schema["$defs"][each["$ref"].rsplit("/", 1)[-1]]
            return (found, False) if "properties" in found else (None, False)
        if each.get("type") == "array" and "$ref" in each.get("items", {}):
            return schema["$defs"][each["items"]["$ref"].rsplit("/", 1)[-1]], True
    return None, False


def _meaning(field: dict[str, Any], inner: dict[str, Any] | None) -> str:
    said = [field.get("description") or (inner or {}).get("description") or ""]
    for each in (field, *field.get("anyOf", ())):
        said += [one for one in (each.get("description"),) if one and one not in said]
        examples = ", ".join(f"`{one}`" for one in each.get("examples", ()))
        if examples:
            said.append(f"For example {examples}.")
        choices = list(dict.fromkeys(str(one) for one in each.get("enum", ()) if one is not None))
        if choices:
            said.append(f"One of {', '.join(f'`{one}`' for one in choices)}.")
    return " ".join(dict.fromkeys(one.replace("\n", " ").replace("|", "\\|") for one in said if one))
