"""A fact file is read strictly: every slip is refused by the name of the key it stands at."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.facts.quantity import DIMENSIONS, read_quantity
from ullage.facts.sheet import Field, RowKind, Sheet, SheetKind, read_sheet

KIND = SheetKind(
    noun="boat",
    folder="boats",
    howto="docs/howto/add-a-boat.md",
    texts={"title": True, "builder": False},
    fields={
        "hold": Field(unit="bytes", meaning="what it carries", required=True),
        "speed": Field(unit="bytes/s", meaning="how fast", max_age=datetime.timedelta(days=30)),
        "crew": Field(unit="count", meaning="people"),
        "full": Field(unit="fraction", meaning="how full"),
        "flag": Field(unit="text", meaning="which flag", choices=("red", "blue")),
    },
    rows={"ports": RowKind(texts={"name": True}, fields={"depth": Field(unit="W", meaning="odd", required=True)})},
)

GOOD = """
title = "A boat"
aliases = ["Boat One"]
source = "sheet"

[sources.sheet]
what = "Builder's sheet"
where = "builder.example/boat"
date = 2026-01-31
evidence = "estimated"

[sources.harbour]
what = "Harbour master's log"
where = "harbour.example"
date = 2026-03-01
evidence = "measured"

[values]
hold = { value = "79.5 GiB", low = "79 GiB", high = "80 GiB", source = "harbour", disputed_by = "sheet", note = "less" }
speed = "3.35 TB/s"
crew = 8

[[ports]]
name = "north"
depth = "1 kW"
"""


def read(text: str, *, partial: bool = False) -> Sheet:
    return read_sheet(text, name="boat", kind=KIND, file="boats/boat.toml", partial=partial)


def test_a_value_keeps_its_unit_range_source_and_evidence() -> None:
    sheet = read(GOOD)
    hold, speed = sheet.values["hold"], sheet.values["speed"]
    assert (hold.value, hold.low, hold.high, hold.unit) == (79.5 * 2**30, 79 * 2**30, 80 * 2**30, "bytes")
    assert (hold.evidence, hold.source.what) == (Evidence.MEASURED, "Harbour master's log")
    assert (speed.value, speed.evidence, speed.source.date) == (
        3_350_000_000_000,
        Evidence.ESTIMATED,
        datetime.date(2026, 1, 31),
    )
    assert speed.is_stale(datetime.date(2026, 3, 31))
    assert not hold.is_stale(datetime.date(2030, 1, 1))
    assert sheet.notes == {"hold": "less"}
    assert sheet.rows["ports"][0].values["depth"].value == 1000


PLANTED = {
    "a misspelt key": ("speed =", "sped =", "speed"),
    "a misspelt text": ('title = "A boat"', 'titel = "A boat"', "title"),
    "a misspelt key in a value": ("low =", "lwo =", "low"),
    "no unit": ('"3.35 TB/s"', "3.35", "has no unit"),
    "a unit of something else": ('"3.35 TB/s"', '"3.35 TB"', "'TB' is not a unit of bandwidth"),
    "bits or bytes": ('"3.35 TB/s"', '"3.35 Tb/s"', "bits or bytes"),
    "zero": ('"3.35 TB/s"', '"0 TB/s"', "greater than 0"),
    "a negative": ('"3.35 TB/s"', '"-3 TB/s"', "not negative"),
    "a negative count": ("crew = 8", "crew = -8", "greater than 0"),
    "half a person": ("crew = 8", "crew = 8.5", "not a whole number"),
    "not finite": ("crew = 8", "full = inf", "not a number"),
    "percent as a fraction": ("crew = 8", "full = 90", "above 1"),
    "a yes where a number belongs": ("crew = 8", "crew = true", "not a number"),
    "not one of the choices": ("crew = 8", 'flag = "reed"', "red"),
    "a range on a text": ("crew = 8", 'flag = { value = "red", low = "blue" }', "has a range"),
    "a value outside its range": ('low = "79 GiB"', 'low = "79.8 GiB"', "outside its range"),
    "a value without value": ('hold = { value = "79.5 GiB",', "hold = {", "has no value"),
    "a required value missing": ("hold = {", "hold_ = {", "hold"),
    "no source": ('source = "sheet"\n\n', "\n", "has no source"),
    "a source not described": ('source = "harbour"', 'source = "harbor"', "harbour"),
    "a source without date": ("date = 2026-03-01\n", "", "has no date"),
    "a date in quotes": ("date = 2026-03-01", 'date = "2026-03-01"', "not a date"),
    "a date with a time": ("date = 2026-03-01", "date = 2026-03-01T00:00:00", "not a date"),
    "a source without place": ('where = "harbour.example"\n', "", "has no where"),
    "an empty place": ('where = "harbour.example"', 'where = " "', "not a text"),
    "a class of evidence that is none": ('evidence = "measured"', 'evidence = "mesured"', "measured"),
    "aliases as a text": ('aliases = ["Boat One"]', 'aliases = "Boat One"', "not a list of names"),
    "rows as a table": ("[[ports]]", "[ports]", "not a list of tables"),
    "a row without its value": ('depth = "1 kW"', "", "has no depth"),
    "a row without its name": ('name = "north"', "", "has no name"),
    "not TOML": ("[values]", "[values", "is not TOML"),
}


@pytest.mark.parametrize("slip", PLANTED)
def test_a_planted_slip_is_refused_by_name(slip: str) -> None:
    good, bad, said = PLANTED[slip]
    assert good in GOOD
    text = GOOD.replace(good, bad, 1)
    with pytest.raises(InputError, match=r"boats/boat\.toml") as caught:
        read(text)
    assert said in str(caught.value)


def test_a_source_nobody_uses_is_refused() -> None:
    with pytest.raises(InputError, match=r"harbour.*source of no value"):
        read(GOOD.replace('source = "harbour", disputed_by = "sheet", ', ""))


def test_an_overlay_need_not_be_complete_and_replaces_value_by_value() -> None:
    patch = """
[sources.mine]
what = "Our own scale"
where = "log 7"
date = 2026-11-01
evidence = "measured"
[values]
hold = { value = "78 GiB", source = "mine" }
"""
    base, over = read(GOOD), read(patch, partial=True)
    both = over.over(base)
    assert both.values["hold"].value == 78 * 2**30
    assert both.values["hold"].source.what == "Our own scale"
    assert "hold" not in both.notes, "a note about the value replaced goes with it"
    assert both.values["speed"] == base.values["speed"]
    assert both.texts == base.texts
    with pytest.raises(InputError, match="has no title"):
        read(patch)


@given(st.integers(1, 10**6), st.sampled_from(sorted(DIMENSIONS)), st.data())
def test_a_whole_number_of_any_unit_is_read_exactly(number: int, unit: str, data: st.DataObject) -> None:
    spellings = DIMENSIONS[unit].spellings
    written = data.draw(st.sampled_from(sorted(spellings)))
    value = read_quantity("x", f"{number} {written}", unit)
    assert not isinstance(value, str)
    assert value == float(number * spellings[written])
