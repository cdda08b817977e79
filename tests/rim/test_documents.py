"""Documents of any depth, size and kind end in a value or in a refusal with its place, and cost little before that."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.documents import MOST_LEVELS, json_value, yaml_values
from ullage.errors import InputError
from ullage.files.strict_yaml import MOST_CHARACTERS, read_yaml


def bomb(levels: int) -> str:
    """Ten to the power of so many values, in as many lines."""
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, levels)]
    return "\n".join(rows)


@pytest.mark.parametrize("depth", [MOST_LEVELS + 1, 2_000, 100_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_a_deep_document_is_refused_at_its_line(depth: int, brackets: str) -> None:
    text = "version: 1\npool: " + ("[" * depth + "]" * depth if brackets == "[]" else "{a: " * depth + "}" * depth)
    with pytest.raises(InputError, match=r"plan.yaml:2 .* nested deeper than 64 levels"):
        read_yaml(text, file="plan.yaml")
    with pytest.raises(InputError, match=r"cluster.yaml:2 .* nested deeper"):
        yaml_values(text, file="cluster.yaml", fix="Mend it.")


def test_block_style_is_as_deep_as_flow_style() -> None:
    with pytest.raises(InputError, match="nested deeper"):
        read_yaml("\n".join(" " * at + "a:" for at in range(200)), file="plan.yaml")


@pytest.mark.parametrize("levels", [6, 9, 30])
def test_aliases_are_counted_as_if_they_were_written_out(levels: int) -> None:
    with pytest.raises(InputError, match=r"plan.yaml:[56] .* values once its aliases"):
        read_yaml(bomb(levels), file="plan.yaml")


def test_aliases_that_save_writing_are_welcome() -> None:
    assert read_yaml("a: &x {b: 1}\nc: *x", file="plan.yaml").content == {"a": {"b": "1"}, "c": {"b": "1"}}
    assert len(yaml_values(bomb(4), file="x", fix="")[0]["a3"]) == 10


def test_a_trace_in_place_of_a_plan_is_too_long() -> None:
    with pytest.raises(InputError, match="longer than"):
        read_yaml("x" * (MOST_CHARACTERS + 1), file="plan.yaml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        ("9" * 400, "a number of 400 digits"),
        ("9" * 10_000, "a number of 10000 digits"),
        ('{"a": 1,\n "b": tru}', "x.json:2"),
        ("", "is not JSON"),
    ],
)
def test_json_beyond_its_limits_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        json_value(text, file="x.json", fix="Save it again.")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "text", ["a: 2026-13-45", "? {a: 1}\n: b", "? [a]\n: b", "a: 1" + "0" * 5_000, "<<: 1", "!!python/x"]
)
def test_what_yaml_cannot_mean_is_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        yaml_values(text, file="x", fix="Mend it.")
    with contextlib.suppress(InputError):
        read_yaml(text, file="x")


@given(st.text(st.sampled_from("{}[]:&*!|>-#'\"\n \tab01?,%@`~<=\\\x00\ud800"), max_size=40))
def test_any_text_is_a_document_or_refused(text: str) -> None:
    for read in (lambda: read_yaml(text, file="x"), lambda: yaml_values(text, file="x", fix="Mend it.")):
        with contextlib.suppress(InputError):
            read()
    with contextlib.suppress(InputError):
        json_value(text, file="x", fix="Mend it.")
