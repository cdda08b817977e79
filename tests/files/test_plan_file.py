"""Plan files: what is written is read, and every fault is answered with line, field, value, problem and fix."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import plan_keys
from ullage.errors import InputError
from ullage.files.faults import NOT_PLANNED
from ullage.files.plan_file import key_rows, plan_file_schema, read_plan_file

GOOD = """\
version: 1
service: two classes
dated: 2026-11-01
workload:
  classes:
    - name: chat
      rate: 20 req/s
      longest_context: 16Ki
      slo: {ttft_p95: 1s, tpot_p99.9: 50ms}
    - name: batch
      rate: 90 req/min
      longest_context: 8192
      slo:
        e2e_p95: 2h
      priority: 3
pool:
  model: qwen3-32b
  device: h100-sxm
  tensor_parallel: 2
  engine_version: 0.30
  memory_fraction: 90%
policy:
  horizon: 4w
"""


def test_what_is_written_is_read() -> None:
    found = read_plan_file(GOOD, file="plan.yaml")
    chat, batch = found.workload.classes
    assert (chat.rate, chat.longest_context, chat.slo) == (20.0, 16384, {"ttft_p95": 1.0, "tpot_p99.9": 0.05})
    assert (batch.rate, batch.slo, batch.priority) == (1.5, {"e2e_p95": 7200.0}, 3)
    assert found.pool is not None
    assert found.pool.memory_fraction == 0.9
    assert found.policy.horizon == 28 * 86400
    assert found.policy.zones is None


def test_a_version_is_a_text_and_not_a_number() -> None:
    """YAML would read 0.30 as 0.3, another version."""
    pool = read_plan_file(GOOD, file="plan.yaml").pool
    assert pool is not None
    assert pool.engine_version == "0.30"


def test_what_is_refused_by_name_is_no_key_of_pools_and_classes() -> None:
    """Beside a key of that name the message would send people away from it."""
    paths = [each.path for each in key_rows() if each.path.startswith(("pool", "workload"))]
    assert not {each.rpartition(".")[2].strip("[]{}") for each in paths} & set(NOT_PLANNED)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "rate: 20 req/s",
            "rate: 20",
            "plan.yaml:7: workload.classes.chat.rate = '20': has no unit. Give a request rate",
        ),
        (
            "rate: 20 req/s",
            "rat: 20 req/s",
            "plan.yaml:7: workload.classes.chat.rat = '20 req/s': is not a known key. Did you mean rate?",
        ),
        (
            "tensor_parallel: 2",
            "mig: 3g.40gb",
            "plan.yaml:19: pool.mig = '3g.40gb': is not a key. A part of a device is planned as a device of your own",
        ),
        ("tensor_parallel: 2", "lora: 8", "pool.lora = '8': is not a key. Write adapters: {slots: 8, rank: 16}."),
        ("service: two classes\n", "", "service = None: is missing. Add service (text): The name of the plan."),
        (
            "rate: 20 req/s",
            "rate: 20 miles\n      peak_hour: often",
            "for example 12 req/s. Also: line 8: workload.classes.chat.peak_hour is not a ratio.",
        ),
        (
            "version: 1",
            "version: 9",
            "plan.yaml:1: version = '9': is not a version this program reads. Write version: 1.",
        ),
        (
            "ttft_p95: 1s",
            "ttft_p95: 0s",
            "plan.yaml:9: workload.classes.chat.slo.ttft_p95 = '0s': must be greater than 0.",
        ),
        (
            "tensor_parallel: 2",
            "tensor_parallel: 0",
            "plan.yaml:19: pool.tensor_parallel = '0': is less than is plausible here. Give a value from 1 to 1,024.",
        ),
        (
            "tensor_parallel: 2",
            "tensor_parallel: two",
            "plan.yaml:19: pool.tensor_parallel = 'two': is not a whole number.",
        ),
        ("tensor_parallel: 2", "tensor_parallel: -2", "pool.tensor_parallel = '-2': is below 0. Give for example 2."),
        (
            "name: chat",
            "name: Chat Room",
            "plan.yaml:6: workload.classes.Chat Room.name = 'Chat Room': is not a short name.",
        ),
        ("dated: 2026-11-01", "dated: today", "plan.yaml:3: dated = 'today': is not a date."),
        ("memory_fraction: 90%", "memory_fraction: 190%", "pool.memory_fraction = '190%': is more than 100 %."),
        ("  model: qwen3-32b", "  model: a\n  model: b", "plan.yaml:18: pool.model = 'model': is given twice."),
        ("pool:\n", "pool: none\nold:\n", "plan.yaml:16: pool = 'none': is not a section. Indent its keys below it."),
        ("policy:\n", "policy: [\n", "is not YAML."),
    ],
)
def test_a_fault_is_named(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        read_plan_file(GOOD.replace(old, new), file="plan.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "5", "\0\1\2", "a: &x\n  b: *x\n", "version: 1\n" + "a: [" * 200])
def test_what_is_no_plan_file_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"plan\.yaml"):
        read_plan_file(text, file="plan.yaml")


@given(data=st.data())
def test_a_broken_file_is_never_a_traceback(data: st.DataObject) -> None:
    lines = GOOD.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    key = lines[at].split(":")[0]
    written = data.draw(
        st.one_of(st.text(max_size=20), st.sampled_from(["[]", "{}", "null", "~", "-1", "1e999", "[[[", "'"]))
    )
    lines[at] = data.draw(st.sampled_from([f"{key}: {written}", written, f"{lines[at]}{written}", ""]))
    with contextlib.suppress(InputError):
        read_plan_file("\n".join(lines), file="plan.yaml")


def test_the_published_schema_is_the_one_in_the_code() -> None:
    published = Path(__file__).resolve().parents[2] / "docs" / "reference" / "plan.schema.json"
    assert json.loads(published.read_text()) == plan_file_schema(), "run: make docs-record"


def test_every_key_is_explained_and_listed() -> None:
    assert [each.path for each in key_rows() if not each.meaning] == []
    # What is not needed says what stands in for it.
    assert [each.path for each in key_rows() if each.key and not each.is_needed and not each.default] == []
    published = Path(__file__).resolve().parents[2] / "docs" / "reference" / "plan-file-keys.md"
    assert published.read_text() == plan_keys.page(), "run: make docs-record"
