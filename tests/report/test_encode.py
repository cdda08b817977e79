"""The encoder: one shape for a figure, every field once, finite numbers, and the table that leaves things out."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_schemas import classes
from ullage.errors import Rejection, Remedy
from ullage.evidence import Assumption, Evidence, Figure, Source, printed_number
from ullage.report.encode import document, explained_json, refusal_json, to_json, to_text
from ullage.report.shapes import BY_NAME, SHAPES

DAY = datetime.date(2026, 11, 15)
SOURCE = Source(what="a data sheet", where="page 3", date=datetime.date(2026, 1, 1), licence="CC0")
RATE = Assumption(
    name="rate", value=4.0, unit="req/s", evidence=Evidence.STATED, source=SOURCE, low=3.0, high=5.0,
    max_age=datetime.timedelta(days=90),
)  # fmt: skip
DOUBLE = Figure(name="double", value=8.0, unit="req/s", formula="2 x rate", inputs=(RATE,))


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: int


@dataclass(frozen=True, kw_only=True)
class Whole:
    colour: Colour = Colour.RED
    pair: Pair = field(default_factory=lambda: Pair(1, 2))
    day: datetime.date = DAY
    series: Any = field(default_factory=lambda: np.array([[1.0, math.nan], [2.5, 3.0]]))
    shares: Mapping[float, float] = field(default_factory=lambda: {0.5: 0.25})
    by_colour: Mapping[Colour, int] = field(default_factory=lambda: {Colour.RED: 3})
    count: Any = field(default_factory=lambda: np.int64(7))
    nothing: None = None
    _hidden: int = 1

    @property
    def computed(self) -> int:
        return 1


def test_a_value_is_its_fields_in_order_without_what_is_private_or_computed() -> None:
    assert to_json(Whole()) == {
        "colour": "red",
        "pair": {"left": 1, "right": 2},
        "day": "2026-11-15",
        "series": [[1, None], [2.5, 3]],
        "shares": {"0.5": 0.25},
        "by_colour": {"red": 3},
        "count": 7,
        "nothing": None,
    }


def test_a_figure_and_an_assumption_have_one_shape() -> None:
    figure, assumption = to_json(DOUBLE), to_json(RATE, as_of=DAY)
    assert figure == {
        "name": "double",
        "value": 8,
        "unit": "req/s",
        "evidence": "stated",
        "formula": "2 x rate",
        "inputs": ["rate"],
    }
    assert list(figure)[:4] == list(assumption)[:4]
    assert (assumption["low"], assumption["high"], assumption["max_age_days"]) == (3, 5, 90)
    assert assumption["sources"] == [to_json(SOURCE)]
    assert assumption["is_stale"]
    assert not to_json(RATE, as_of=datetime.date(2026, 2, 1))["is_stale"]


def test_a_brief_figure_is_the_first_four_words_of_a_full_one() -> None:
    full, brief = to_json((DOUBLE, RATE)), to_json((DOUBLE, RATE), brief=True)
    assert [set(each) for each in brief] == [{"name", "value", "unit", "evidence"}] * 2
    assert all(short.items() <= long.items() for short, long in zip(brief, full, strict=True))


def test_an_explanation_and_a_refusal_list_everything_behind_their_figure() -> None:
    refused = Rejection(
        stage="memory", reason="too small", figure=DOUBLE, remedies=(Remedy(change="tp 2", effect="it fits"),)
    )
    found = refusal_json(refused)
    assert found["schema"] == "ullage.refusal/2"
    assert found["refused"] == {
        "stage": "memory",
        "reason": "too small",
        "figure": to_json(DOUBLE),
        "remedies": [{"change": "tp 2", "effect": "it fits"}],
    }
    explained = explained_json("plan", DOUBLE)
    assert explained["explained"] == "double"
    for each in (found, explained):
        assert (set(each["figures"]), set(each["assumptions"])) == ({"double"}, {"rate"})


def test_the_head_comes_first_and_stands_once() -> None:
    found = document("drill", {"as_of": "not this", "results": []}, as_of=DAY, seed=3, service="east")
    assert list(found.items()) == [
        ("schema", "ullage.drill/2"),
        ("service", "east"),
        ("as_of", "2026-11-15"),
        ("seed", 3),
        ("results", []),
    ]


def test_what_has_no_json_is_a_fault_of_ours_and_names_the_table() -> None:
    with pytest.raises(TypeError, match=r"function has no JSON.*shapes\.py"):
        to_json({"call": lambda: None})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
)


@pytest.mark.slow
@given(value=st.dictionaries(st.text(), JSON))
def test_text_reads_back_as_the_value(value: dict[str, Any]) -> None:
    assert json.loads(to_text(value)) == value


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_printed_to_nine_digits_or_to_cents(value: float) -> None:
    printed = printed_number(value)
    assert printed is not None
    assert math.isclose(printed, value, rel_tol=1e-8, abs_tol=0.0) or abs(printed - value) <= 0.005
    assert printed_number(float(printed)) == printed


@given(cents=st.integers(min_value=-(10**13), max_value=10**13))
def test_no_cent_is_lost(cents: int) -> None:
    assert round(100 * (printed_number(cents / 100) or 0)) == cents


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_null(value: float) -> None:
    assert printed_number(value) is None


@pytest.mark.parametrize("name", sorted({*SHAPES, *BY_NAME}))
def test_the_table_names_classes_and_attributes_that_there_are(name: str) -> None:
    kind = classes().get(name)
    assert kind is not None, f"report/shapes.py lists {name}, which is no class"
    shape = SHAPES.get(name)
    if shape is None:
        return
    fields = set(getattr(kind, "_fields", ())) or {each.name for each in dataclasses.fields(kind)}
    unknown = {*shape.only, *shape.also, *shape.without} - fields - set(dir(kind))
    assert not unknown, f"{name} has no {', '.join(sorted(unknown))}"
    assert set(shape.without) <= fields
    assert not set(shape.also) & fields
    printed = {*shape.printed(fields)}
    assert printed >= {*shape.named, *shape.unmeasured, *shape.brief}
