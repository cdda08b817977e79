"""Users instead of requests: a closed loop, in which everybody thinks, asks and waits for the answer.

    requests a second = users at work / (think time + answer time)

This is the response-time law of closed systems, exact for means: it needs no distribution. Users work in some hours of
some days; in those hours the rate is the one above, and between them it is 0. A conversation has so many turns; the
pause between two of them is the think time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Assumption, number
from ullage.workload.synthetic.model import HOURS_PER_WEEK

_DAY_HOURS, _WEEK_DAYS = 24, 7
# Office hours begin at nine of the zone that the week is counted in.
_FIRST_HOUR = 9


@dataclass(frozen=True, kw_only=True)
class StatedUsers:
    """Users who work at once, how long they think and wait, and when they work."""

    working: Assumption
    think: Assumption
    answer: Assumption
    turns: Assumption
    hours_a_day: Assumption
    days_a_week: Assumption

    def __post_init__(self) -> None:
        for given, most in ((self.hours_a_day, _DAY_HOURS), (self.days_a_week, _WEEK_DAYS)):
            if not 0 < number(given) <= most:
                raise InputError(
                    field=given.name,
                    value=given.value,
                    problem=f"must be above 0 and at most {most}",
                    fix="Give for example 8 hours on 5 days.",
                )

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (self.working, self.think, self.answer, self.turns, self.hours_a_day, self.days_a_week)

    @property
    def busy_rps(self) -> float:
        """The rate while they work."""
        return number(self.working) / (number(self.think) + number(self.answer))

    @property
    def season(self) -> tuple[float, ...]:
        """The hours of a week from Monday 00:00: at work or not, an hour that is begun in part."""
        hours, days = number(self.hours_a_day), number(self.days_a_week)
        first = _FIRST_HOUR if _FIRST_HOUR + hours <= _DAY_HOURS else 0
        shape = []
        for hour in range(HOURS_PER_WEEK):
            day, of_day = divmod(hour, _DAY_HOURS)
            at_work = min(1.0, max(0.0, hours - (of_day - first))) if of_day >= first else 0.0
            shape.append(at_work * min(1.0, max(0.0, days - day)))
        return tuple(shape)

    @property
    def mean_rps(self) -> float:
        """The rate over a whole week."""
        return self.busy_rps * sum(self.season) / HOURS_PER_WEEK

    @property
    def peak_ratio(self) -> float:
        """The busiest hour over the mean."""
        return self.busy_rps / self.mean_rps
