"""A result file with one value replaced by nonsense ends in an answer that can be printed, or in an input error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.loadtest_samples import SAMPLES, vllm_arrays, vllm_run
from ullage.errors import InputError
from ullage.readers.loadtests import read_bytes
from ullage.report.encode import to_text
from ullage.report.service.loadtest_page import loadtests_page
from ullage.verbs.calibrate import Inspection, Inspections

JSON_NAMES = [name for name in sorted(SAMPLES) if SAMPLES[name].make(1.0).lstrip()[:1] in (b"{", b"[")]
NONSENSE = st.sampled_from(
    [
        None,
        "",
        "text",
        "12",
        True,
        False,
        [],
        {},
        [1],
        ["a"],
        {"a": 1},
        -1,
        0,
        0.5,
        10**400,
        1e308,
        float("inf"),
        float("nan"),
    ]
)


def documents(data: bytes) -> list[Any]:
    decoder, text, found = json.JSONDecoder(), data.decode().strip(), []
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].strip()
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested data; of a long list the first two are enough."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, each in inside:
        yield from places(each, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def check(data: bytes) -> None:
    try:
        found = read_bytes(data, file="damaged")
    except InputError:
        return
    pairs = [(found, tuple(() for _ in found.points))]
    inspected = tuple(Inspection(loadtest=test, goodputs=goodputs) for test, goodputs in pairs)
    assert to_text(Inspections(loadtests=inspected).to_dict())
    assert loadtests_page(pairs)


@pytest.mark.parametrize("name", JSON_NAMES)
@given(choice=st.data())
def test_one_value_replaced(name: str, choice: st.DataObject) -> None:
    found = documents(SAMPLES[name].make(1.0))
    path = choice.draw(st.sampled_from(list(places(found))))
    damaged = replaced(found, path, choice.draw(NONSENSE))
    check(b"\n".join(json.dumps(each).encode() for each in damaged))


@pytest.mark.parametrize("name", sorted(SAMPLES))
@given(choice=st.data())
def test_a_few_characters_replaced(name: str, choice: st.DataObject) -> None:
    data = SAMPLES[name].make(1.0)
    at = choice.draw(st.integers(0, len(data) - 1))
    length = choice.draw(st.integers(0, 12))
    junk = choice.draw(
        st.sampled_from([b"", b"x", b"-1", b"nan", b"inf", b",", b":", b"\n", b'"', b"9" * 400, b"1e999"])
    )
    check(data[:at] + junk + data[at + length :])


@given(choice=st.data())
def test_one_value_of_a_detailed_run_replaced(choice: st.DataObject) -> None:
    found = vllm_run(request_rate=4.0, **vllm_arrays())
    path = choice.draw(st.sampled_from(list(places(found))))
    check(json.dumps(replaced(found, path, choice.draw(NONSENSE))).encode())


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"a: &a [*a]\n", b"key: [unclosed\n"])
def test_files_made_to_break_a_parser(data: bytes) -> None:
    with pytest.raises(InputError):
        read_bytes(data, file="hostile")


def test_a_yaml_whose_keys_are_no_texts_is_refused_like_any_other_foreign_file() -> None:
    # YAML takes a bare `on:` for true and `8:` for a number; a workflow of CI lies in many folders of results.
    with pytest.raises(InputError, match="is not in a known load-test format"):
        read_bytes(b"name: nightly\non:\n  push: {8: eight, null: none}\n", file="nightly.yml")
