"""The hours of KEDA's cron triggers, worked by hand from its documentation's examples."""

from __future__ import annotations

import pytest

from ullage.errors import InputError
from ullage.readers.kubernetes.cron import cron_hours, highest_hours


def hours(start: str, end: str, zone: str = "Etc/UTC") -> list[int]:
    """Hours of the week, from Monday 0 h on, in which the trigger is within its hours."""
    given = {"start": start, "end": end, "timezone": zone, "desiredReplicas": "10"}
    found = cron_hours(given, "trigger")
    assert found is not None
    assert set(found) <= {1, 10}
    return [hour for hour, replicas in enumerate(found) if replicas == 10]


@pytest.mark.parametrize(
    ("start", "end", "zone", "expected"),
    [
        # 6:00 to 20:00 of every day, as KEDA documents its trigger.
        ("0 6 * * *", "0 20 * * *", "Etc/UTC", [24 * day + hour for day in range(7) for hour in range(6, 20)]),
        # The same in Kolkata begins at 0:30 UTC: an hour counts by its middle, so that 0 h is within.
        ("0 6 * * *", "0 20 * * *", "Asia/Kolkata", [24 * day + hour for day in range(7) for hour in range(14)]),
        ("0 8 * * 1-5", "0 18 * * 1-5", "Etc/UTC", [24 * day + hour for day in range(5) for hour in range(8, 18)]),
        ("0 8 * * MON-FRI", "0 18 * * mon-fri", "UTC", [24 * day + hour for day in range(5) for hour in range(8, 18)]),
        # From Friday evening until Monday morning, over the end of the week; Sunday is 0 and 7.
        ("0 20 * * 5", "0 6 * * 1", "Etc/UTC", [*range(6), *range(4 * 24 + 20, 168)]),
        ("0 12 * * 7", "0 14 * * 0", "Etc/UTC", [6 * 24 + 12, 6 * 24 + 13]),
        # Minutes 45 to 60 of an hour are not its middle; 15 to 45 are.
        ("45 * * * *", "0 * * * *", "Etc/UTC", []),
        ("15 */6 * * 1", "45 */6 * * 1", "Etc/UTC", [0, 6, 12, 18]),
    ],
)
def test_hours_of_the_week(start: str, end: str, zone: str, expected: list[int]) -> None:
    assert hours(start, end, zone) == expected


def test_what_no_week_shows_is_left_unread() -> None:
    for start in ("0 8 1 * *", "0 8 * 12 *"):
        assert cron_hours({"start": start, "end": "0 9 * * *", "desiredReplicas": 2}, "trigger") is None


def test_of_several_clocks_the_highest_counts() -> None:
    assert highest_hours([(1, 3, 1), (2, 2, 1)]) == (2, 3, 1)
    assert highest_hours([]) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [("start", "0 8 * *"), ("start", "0 24 * * *"), ("end", "0 8 * * 5-1"), ("end", "*/0 8 * * *"),
     ("timezone", "Mars/Olympus"), ("timezone", "../etc"), ("desiredReplicas", "many"), ("start", "0 eight * * *")],
)  # fmt: skip
def test_a_clock_that_keda_refuses_is_refused_by_its_key(key: str, value: str) -> None:
    given = {"start": "0 8 * * *", "end": "0 9 * * *", "timezone": "Etc/UTC", "desiredReplicas": "2", key: value}
    with pytest.raises(InputError, match=rf"trigger\.{key}"):
        cron_hours(given, "trigger")
