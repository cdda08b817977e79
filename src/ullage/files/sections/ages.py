"""Sections `ages` and `owners` of a plan file: how long what is known may be relied on, and whose it is."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Annotated

from ullage.errors import InputError, check_name, unknown_name
from ullage.files.sections.quantities import DAY_S, YEAR_S, Duration, Range
from ullage.files.sections.section import Key, Section, ours
from ullage.units import DURATION

_Age = Annotated[Duration, Range(least=DAY_S, most=20 * YEAR_S, dimension=DURATION)]

TRACE_AGE = ours(
    "ages.trace", 30 * DAY_S, "s", "a trace shows the level of its weeks, and a plan is for the next month"
)
RATE_AGE = ours(
    "ages.rates",
    90 * DAY_S,
    "s",
    "a stated rate may be off by a fifth anyway; in a quarter its level wanders by half of it",
)
LENGTH_AGE = ours("ages.lengths", 90 * DAY_S, "s", "prompts change with models and products, a few times a year")
TEST_AGE = ours(
    "ages.load_tests", 90 * DAY_S, "s", "engines drift by a fifth a year: in a quarter by half of a calibration's band"
)
STATEMENT_AGE = ours("ages.statements", YEAR_S, "s", "values not checked for a year are unreliable")

_LISTED = "It weakens the evidence of what is older, and every list of assumptions says so; no figure moves."


class AgesSection(Section):
    """Maximum ages. What is older counts as less well known, and its band is wider."""

    trace: Annotated[
        _Age | None,
        Key(means="Of a request log, from its last request on.", default=TRACE_AGE, moves="demand.*.planning_rate"),
    ] = None
    rates: Annotated[
        _Age | None,
        Key(means="Of stated rates, their growth and busiest hour.", default=RATE_AGE, moves="demand.*.planning_rate"),
    ] = None
    lengths: Annotated[
        _Age | None,
        Key(
            means="Of lengths and cached shares, stated or in a log.", default=LENGTH_AGE, moves="margin.evidence_ratio"
        ),
    ] = None
    load_tests: Annotated[
        _Age | None,
        Key(means="Of load tests, calibrations and step profiles.", default=TEST_AGE, moves="margin.evidence_ratio"),
    ] = None
    statements: Annotated[
        _Age | None,
        Key(means="Of everything else that the file states.", default=STATEMENT_AGE, still=_LISTED),
    ] = None

    def age(self, kind: str) -> datetime.timedelta:
        """The maximum age of a kind."""
        return datetime.timedelta(seconds=self.value(kind))

    def age_of(self, name: str) -> datetime.timedelta:
        """The maximum age of a stated input, by its name."""
        last = name.rpartition(".")[2]
        if last in ("mean_rate", "weekly_growth", "peak_hour_ratio"):
            return self.age("rates")
        is_length = last.startswith(("prompt", "output")) or last == "cached_fraction"
        return self.age("lengths" if is_length else "statements")


def check_owners(owners: Mapping[str, str], sections: Collection[str], entries: Mapping[str, Collection[str]]) -> None:
    """Owners stand for sections or keys that there are; `entries` are names of classes and pools by their section."""
    for key, owner in owners.items():
        first = key.partition(".")[0]
        if first not in sections:
            raise unknown_name(field="owners", name=key, known=sections)
        for section, names in entries.items():
            if key.startswith(f"{section}."):
                name = key.removeprefix(f"{section}.").partition(".")[0]
                check_name(name, names, field=f"owners.{key}")
        if not owner.strip():
            raise InputError(field=f"owners.{key}", value=owner, problem="is empty", fix="Name a person or a team.")
