"""How a class's requests end, and users in place of a rate: two sections of a class."""

from __future__ import annotations

from typing import Annotated

from ullage.files.sections.quantities import Duration, Number, Range, Share, ShareOrNone
from ullage.files.sections.section import Key, Section, ours

CANCELLED_AFTER = ours(
    "outcomes.cancelled_after",
    0.5,
    "fraction",
    "clients cancel at any time with equal chance: half of the answer, on average",
)
TURNS = ours("users.turns", 4, "turns", "a conversation of the built-in profile")
HOURS = ours("users.hours", 8, "h", "a working day")
DAYS = ours("users.days", 5, "days", "a working week")
ACTIVE = ours("users.active", 0.1, "fraction", "one seat in ten at work with the service in the busiest hour")

_SUCCESS = "demand.*.success_fraction"
_PER_CLASS = "demand.*.planning_rate"


class OutcomesSection(Section):
    """How requests of the class end; a log says it better."""

    refused: Annotated[
        ShareOrNone | None,
        Key(
            means="The share refused before any work: quotas, wrong keys, filters. It takes no capacity.",
            default="what the log shows, or none",
            moves=_PER_CLASS,
        ),
    ] = None
    failed: Annotated[
        ShareOrNone | None,
        Key(
            means="The share that fails after its work was done.",
            default="what the log shows, or none",
            moves=_SUCCESS,
        ),
    ] = None
    cancelled: Annotated[
        ShareOrNone | None,
        Key(means="The share that clients cancel.", default="what the log shows, or none", moves=_SUCCESS),
    ] = None
    cancelled_after: Annotated[
        Share | None,
        Key(
            means="The share of the answer written when clients cancel.",
            default=CANCELLED_AFTER,
            moves="demand.*.output_p50",
        ),
    ] = None
    aborts: Annotated[
        bool,
        Key(
            means="Whether engine and proxy stop a cancelled request; if not, the rest is written too.",
            moves="demand.*.output_p50",
        ),
    ] = True


class UsersSection(Section):
    """Users in place of a rate: requests a second are users at work over think time and answer time."""

    concurrent: Annotated[
        Number | None,
        Range(least=1e-3, most=1e10),
        Key(means="Concurrent users in the busiest hour.", default="seats x active", moves=_PER_CLASS),
    ] = None
    seats: Annotated[
        Number | None,
        Range(least=1e-3, most=1e10),
        Key(means="People who may use it.", default="none", moves=_PER_CLASS),
    ] = None
    active: Annotated[
        Share | None,
        Key(means="The share of seats active at once, in the busiest hour.", default=ACTIVE, moves=_PER_CLASS),
    ] = None
    think_time: Annotated[
        Duration, Key(means="From an answer to the same user's next request, on average.", moves=_PER_CLASS)
    ]
    answer_time: Annotated[
        Duration | None,
        Key(
            means="From a request to the end of its answer, on average.",
            default="what the class's SLOs allow for a typical answer",
            moves=_PER_CLASS,
        ),
    ] = None
    turns: Annotated[
        Number | None,
        Range(least=1.0, most=1e6),
        Key(
            means="Requests of one conversation.",
            default=TURNS,
            still="It groups requests into sessions, which share prefixes; the rate is that of all of them.",
        ),
    ] = None
    hours: Annotated[
        Number | None,
        Range(least=0.01, most=24.0),
        Key(means="Working hours of a day.", default=HOURS, moves="demand.*.mean_rate"),
    ] = None
    days: Annotated[
        Number | None,
        Range(least=0.01, most=7.0),
        Key(means="Working days of a week.", default=DAYS, moves="demand.*.mean_rate"),
    ] = None
