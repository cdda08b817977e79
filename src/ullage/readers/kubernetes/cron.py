"""Hours of KEDA's cron trigger: replicas by hour of the week, where its two expressions repeat by the week."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from ullage.errors import InputError
from ullage.readers.kubernetes.rule_values import target

WEEK_HOURS = 168
_WEEK_MINUTES = 60 * WEEK_HOURS
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# A day of winter: an hour of the week is one hour of UTC, and summer time is not followed.
_WINTER = datetime.datetime(2026, 1, 15, tzinfo=datetime.UTC)


def cron_hours(metadata: Mapping[str, Any], field: str) -> tuple[int, ...] | None:
    """Replicas that the trigger asks for, from Monday 0 h UTC on, an hour counting by its middle; 1 outside its hours.

    None where it depends on the day of a month or on the month, which no week shows.
    """
    replicas = max(1, round(target(metadata.get("desiredReplicas", 1), f"{field}.desiredReplicas")))
    begins, ends = (_minutes(str(metadata.get(key, "")), f"{field}.{key}") for key in ("start", "end"))
    if begins is None or ends is None:
        return None
    ahead = _offset_minutes(str(metadata.get("timezone", "Etc/UTC")), f"{field}.timezone")
    middles = [(60 * hour + 30 + ahead) % _WEEK_MINUTES for hour in range(WEEK_HOURS)]
    # As KEDA asks: within its hours where the next end comes no later than the next start.
    return tuple(replicas if _next(ends, each) <= _next(begins, each) else 1 for each in middles)


def highest_hours(several: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """What several clocks ask for together."""
    return tuple(max(hours) for hours in zip(*several, strict=True))


def _next(minutes: Sequence[int], after: int) -> int:
    """Minutes until the next of them."""
    place = bisect_right(minutes, after)
    return (minutes[place] if place < len(minutes) else minutes[0] + _WEEK_MINUTES) - after


def _minutes(text: str, field: str) -> list[int] | None:
    """The minutes of a week that begins on Monday at which an expression of five fields comes due."""
    parts = text.lower().split()
    if len(parts) != 5:
        raise InputError(
            field=field,
            value=text,
            problem="is not a cron expression of five fields",
            fix="Give for example 0 8 * * 1-5.",
        )
    minutes, hours = _values(parts[0], 0, 59, field, text), _values(parts[1], 0, 23, field, text)
    for place, name in enumerate(_DAYS):
        parts[4] = parts[4].replace(name, str(place))
    days = {(each - 1) % 7 for each in _values(parts[4], 0, 7, field, text)}
    if parts[2] not in ("*", "?") or parts[3] != "*":
        return None
    return sorted(1440 * day + 60 * hour + minute for day in days for hour in hours for minute in minutes)


def _values(part: str, low: int, high: int, field: str, text: str) -> list[int]:
    """`*`, `8`, `1-5`, `0,30`, `*/15` and lists of them."""
    found: set[int] = set()
    for each in part.replace("?", "*").split(","):
        span, _, step = each.partition("/")
        first, _, last = span.partition("-")
        try:
            begin = low if span == "*" else int(first)
            end = high if span == "*" or (step and not last) else int(last or first)
            stride = int(step or 1)
        except ValueError:
            begin, end, stride = high + 1, high, 1
        if not low <= begin <= end <= high or stride < 1:
            raise InputError(
                field=field, value=text, problem=f"has {each!r}, which is not read", fix="Give for example 0 8 * * 1-5."
            )
        found |= set(range(begin, end + 1, stride))
    return sorted(found)


def _offset_minutes(name: str, field: str) -> int:
    try:
        offset = _WINTER.astimezone(ZoneInfo(name)).utcoffset()
    except (KeyError, OSError, ValueError):
        raise InputError(
            field=field, value=name, problem="is not a time zone", fix="Give for example Europe/Berlin."
        ) from None
    return 0 if offset is None else round(offset.total_seconds() / 60.0)
