"""Keys by their dotted names: found in a document, changed there, and refused with the nearest where they are none."""

from __future__ import annotations

import datetime

import pytest

from support.key_probes import with_value
from ullage.errors import InputError
from ullage.files.plan_file import read_plan_document, read_plan_file
from ullage.files.strict_yaml import Document, as_texts, read_yaml

TEXT = """\
version: 1
service: chat
workload:
  classes:
    - {name: chat, rate: 8 req/s, longest_context: 8192, slo: {ttft_p95: 1s}}
    - {name: code, rate: 2 req/s, longest_context: 8192, slo: {ttft_p95: 1s}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""
DOCUMENT = read_yaml(TEXT, file="plan.yaml")


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("pool.tensor_parallel", "2", "pool: {model: llama-3.1-8b, device: h100-sxm, tensor_parallel: 2}"),
        ("policy.horizon", "60d", "policy: {horizon: 60d}"),
        ("workload.zone", "Europe/Berlin", "  zone: Europe/Berlin"),
        ("options.devices", "[h100-sxm, b200-sxm]", "options: {devices: [h100-sxm, b200-sxm]}"),
        ("options.models.llama-3.1-8b", "[qwen3-8b]", "options: {models: {llama-3.1-8b: [qwen3-8b]}}"),
        (
            "prices.exchange.EUR",
            "{rate: 1, dated: 2026-11-01}",
            "prices: {exchange: {EUR: {rate: 1, dated: 2026-11-01}}}",
        ),
    ],
)
def test_a_key_that_is_set_is_as_if_it_had_been_written(key: str, value: str, line: str) -> None:
    kept = [each for each in TEXT.splitlines() if each.partition(":")[0] != line.partition(":")[0]]
    at = 3 if line.startswith(" ") else len(kept)
    written = read_plan_file("\n".join([*kept[:at], line, *kept[at:]]), file="plan.yaml")
    assert read_plan_document(with_value(DOCUMENT, key, value)) == written


@pytest.mark.parametrize("entry", ["code", "1"])
def test_an_entry_of_a_list_is_found_by_name_or_number(entry: str) -> None:
    changed = with_value(DOCUMENT, f"workload.classes.{entry}.rate", "5 req/s")
    changed = with_value(changed, f"workload.classes.{entry}.slo.tpot_p99.9", "50ms")
    chat, code = read_plan_document(changed).workload.classes
    assert (chat.rate, code.rate) == (8.0, 5.0)
    assert code.slo == {"ttft_p95": 1.0, "tpot_p99.9": 0.05}
    assert read_plan_document(DOCUMENT).workload.classes[1].rate == 2.0


def test_a_key_below_a_mapping_of_sections_is_found() -> None:
    changed = with_value(DOCUMENT, "prices.exchange.EUR", "{rate: 1.1, dated: 2026-11-01}")
    assert read_plan_document(with_value(changed, "prices.exchange.EUR.rate", "1.2")).prices.exchange["EUR"].rate == 1.2


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("pool.storge", "2", "'pool.storge': is not a known key. Did you mean storage"),
        ("tensor_parallel", "2", "Did you mean pool.tensor_parallel"),
        ("workload.classes.chta.rate", "2", "'chta': is not known. Did you mean chat?"),
        ("pool.model.name", "x", "model has no keys of its own. Write pool.model."),
        ("pool.tensor_parallel", "two", "--set pool.tensor_parallel = 'two': is not a whole number."),
        ("policy.horizon", "30", "--set policy.horizon = '30': has no unit."),
        ("pool", "{device: h100-sxm}", "--set pool: pool.model = None: is missing."),
        ("pool.device", "[", "--set pool.device"),
    ],
)
def test_what_cannot_be_set_is_refused_by_its_key(key: str, value: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_plan_document(with_value(DOCUMENT, key, value))
    assert message in str(caught.value)


def test_one_pool_of_several_is_named() -> None:
    listed = TEXT.replace("pool: {", "pools:\n  - {name: one, ").replace(", slo", ", pool: one, slo")
    document = read_yaml(listed, file="plan.yaml")
    for key in ("pools.one.tensor_parallel", "pool.tensor_parallel"):
        assert read_plan_document(with_value(document, key, "2")).pools[0].tensor_parallel == 2
    document = read_yaml(listed + "  - {name: two, model: llama-3.1-8b, device: l40s}\n", file="plan.yaml")
    with pytest.raises(InputError, match=r"several pools\. Write pools\.one\.tensor_parallel"):
        with_value(document, "pool.tensor_parallel", "2")


def test_a_plan_made_in_python_reads_as_its_file() -> None:
    content = {
        "version": 1,
        "service": "chat",
        "dated": datetime.date(2026, 11, 1),
        "workload": {"classes": [{"name": "chat", "rate": "8 req/s", "longest_context": 8192, "slo": {"e2e_p95": 2}}]},
        "pool": {"model": "llama-3.1-8b", "device": "h100-sxm", "memory_fraction": 0.9},
    }
    with pytest.raises(InputError, match=r"^my plan: workload\.classes\.chat\.slo\.e2e_p95 = '2': has no unit"):
        read_plan_document(Document(file="my plan", content=as_texts(content)))
    content["workload"]["classes"][0]["slo"] = {"e2e_p95": "2s"}  # type: ignore[index]
    found = read_plan_document(Document(file="my plan", content=as_texts(content)))
    assert found.pool is not None
    assert (found.version, found.dated, found.pool.memory_fraction) == ("1", datetime.date(2026, 11, 1), 0.9)
