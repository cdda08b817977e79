"""Every section of a plan file, filled at random over its own schema: an answer or an InputError, never a traceback."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.files.plan_file import plan_file_schema
from ullage.load.plan import load_plan

AS_OF = datetime.date(2026, 11, 15)
SCHEMA = plan_file_schema()
BASE: dict[str, Any] = {
    "version": 1,
    "service": "fuzzed",
    "workload": {
        "classes": [{"name": "chat", "rate": "4 req/s", "longest_context": 8192, "slo": {"ttft_p95": "2s"}}],
    },
    "pool": {"model": "llama-3.1-8b", "device": "h100-sxm"},
}
# What people write, and what they write by mistake; names that exist, so that the fuzz gets past the first check.
WORDS = st.sampled_from(
    "5%|500ms|2|0|-1|1e999|nan|12 req/s|3.29 USD/h|8192|chat|pool|h100-sxm|aws|2026-11-01|2026-13-01|yes||~|[]|{}|"
    "us-east-1|zone|on-demand|kept|1.5|\u221e".split("|")
)


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """The part of the schema that a reference or the first branch of a choice stands for."""
    for _ in range(4):
        if "$ref" in node:
            node = SCHEMA["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        elif "anyOf" in node:
            node = node["anyOf"][0]
    return node


def values(node: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Something for this place of the schema: mostly of its shape, now and then not."""
    found = resolved(node)
    kind = found.get("type")
    if depth > 5:
        return WORDS
    if "properties" in found:
        needed = {key: values(each, depth + 1) for key, each in found["properties"].items() if key in _needed(found)}
        others = {key: values(each, depth + 1) for key, each in found["properties"].items() if key not in needed}
        shaped: st.SearchStrategy[Any] = st.fixed_dictionaries(needed, optional=others)
    elif kind == "array":
        shaped = st.lists(values(found.get("items", {}), depth + 1), max_size=2)
    elif kind == "object":
        shaped = st.dictionaries(WORDS, values(found.get("additionalProperties") or {}, depth + 1), max_size=2)
    elif found.get("enum"):
        shaped = st.sampled_from([str(each) for each in found["enum"] if each is not None])
    else:
        shaped = st.one_of(st.sampled_from([str(each) for each in found.get("examples", ["2"])]), WORDS)
    return st.one_of(shaped, shaped, shaped, WORDS)


def _needed(section: dict[str, Any]) -> list[str]:
    return list(section.get("required", ()))


SECTIONS = sorted(SCHEMA["properties"])


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(data=st.data())
def test_no_section_ends_in_a_traceback(data: st.DataObject) -> None:
    section = data.draw(st.sampled_from(SECTIONS))
    document = {**BASE, section: data.draw(values(SCHEMA["properties"][section]))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.yaml"
        file.write_text(yaml.safe_dump(document, allow_unicode=True))
        with contextlib.suppress(InputError):
            load_plan(file, as_of=AS_OF)
