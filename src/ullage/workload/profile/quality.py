"""Anomalies of the trace itself: order, clock, batches, holes, copies, age, missing lengths."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Mapping

from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity
from ullage.workload.profile.gaps import LONGEST_KEPT
from ullage.workload.profile.shapes import MEDIANS_APART_RATIO, Suggestion
from ullage.workload.profile.summary import Hole, Part, Summary
from ullage.workload.trace import Clock

DAY_S = 86400.0
# Traffic changes with products and seasons; a month is as long as a trace speaks for today without being asked.
MAX_AGE_S = 30 * DAY_S
# A hole is at least a minute and a hundred times the mean gap: chance does not reach there.
HOLE_S, HOLE_GAPS = 60.0, 100.0
# Stamps at even distances, most of them shared by several requests, are the log's and not the traffic's.
BATCH_S, BATCH_SPREAD_FRACTION, BATCH_SHARED_FRACTION = 0.5, 0.1, 0.5
# More tokens a second than any one service is known to take in: a sign that times are in another unit.
MOST_TOKENS_PER_S = 1e7
# Answers of a session overlap and logs round, but not by this much.
MOST_PACE_RATIO = 100.0
# A mean answer of half an hour is implausible: a sign that durations are in milliseconds.
MOST_MEAN_DURATION_S = 1800.0
# Fewer backward steps than this share is a clock that was set; more is a source that is not sorted.
CLOCK_STEP_FRACTION = 1e-3
# The hour that a clock skips when summer time starts, with the gap that was there anyway.
SKIPPED_HOUR_S = (3540.0, 3900.0)


def resolution_s(summary: Summary) -> float:
    """The distance of batches where the source stamps time in batches, else 0."""
    stamps, gaps = summary.stamps, summary.gaps
    if stamps is None or gaps is None or stamps.typical_gap_s < BATCH_S:
        return 0.0
    shared = gaps.zero_gaps / max(1, gaps.gaps)
    is_even = stamps.spread_fraction <= BATCH_SPREAD_FRACTION
    return stamps.typical_gap_s if is_even and shared >= BATCH_SHARED_FRACTION else 0.0


def holes_of(summary: Summary) -> tuple[Hole, ...]:
    """Stretches without arrivals that chance does not explain, longest first."""
    gaps = summary.gaps
    if gaps is None or gaps.gaps == 0:
        return ()
    least_s = max(HOLE_S, HOLE_GAPS * gaps.sum_s / gaps.gaps)
    return tuple(hole for hole in gaps.longest if hole.length_s >= least_s)


def findings_of(
    summary: Summary, *, suggestion: Suggestion | None, as_of: datetime.date | None, max_age_s: float
) -> list[Anomaly]:
    """Every anomaly that the summary shows, in the order in which a reader would ask."""
    return [
        *summary.about.anomalies,
        *_clock(summary),
        *_order(summary),
        *_copies(summary),
        *_batches(summary),
        *_holes(summary),
        *_lengths(summary),
        *_statuses(summary),
        *_units(summary),
        *_age(summary, as_of, max_age_s),
        *_short(summary),
        *_shapes(suggestion),
        *_named_copies(summary.groups.get("class", {})),
    ]


def _clock(summary: Summary) -> list[Anomaly]:
    clock = summary.about.clock
    if clock.orders_requests:
        return []
    why = {
        Clock.SESSION: "Times restart with each session, so sessions share no clock",
        Clock.NONE: "There are no arrival times",
    }[clock]
    return [
        Anomaly(
            kind=AnomalyKind.NO_COMMON_CLOCK,
            weight=Severity.SERIOUS,
            sentence=f"{why}: rates, bursts, seasons and what is in flight are unknown, as is prefix reuse between "
            "sessions; lengths and sessions are "
            "known.",
            touches=("arrivals", "bursts", "season", "inflight", "reuse"),
        )
    ]


def _order(summary: Summary) -> list[Anomaly]:
    order = summary.order
    if order is None or order.backward_steps == 0:
        return []
    rows = summary.about.rows.kept_rows
    share = order.backward_steps / rows
    # Seconds since the first request know no summer time: there two logs of an hour were put one after the other.
    is_calendar = summary.about.clock is Clock.UTC
    if is_calendar and order.hour_back_steps and not summary.about.zone:
        return [_summer_time(f"goes back by one hour {_times(order.hour_back_steps)} from one row to the next")]
    if order.hour_back_steps and "/" in summary.about.zone:
        sentence = (
            f"The clock goes back by one hour {_times(order.hour_back_steps)}: {summary.about.zone} ends summer time, "
            "and its repeated hour is ambiguous; both were counted as one."
        )
        return [
            Anomaly(kind=AnomalyKind.SUMMER_TIME, weight=Severity.CAUTION, sentence=sentence, touches=("arrivals",))
        ]
    few = order.backward_steps <= max(2, CLOCK_STEP_FRACTION * rows)
    if few and order.largest_back_s >= 1.0:
        sentence = (
            f"The clock goes back {_times(order.backward_steps)}, by up to {_duration(order.largest_back_s)}: the "
            "clock was set, or files were joined out of order; "
            "rows were sorted by time."
        )
        return [
            Anomaly(
                kind=AnomalyKind.CLOCK_STEP,
                weight=Severity.CAUTION,
                sentence=sentence,
                share_fraction=share,
                touches=("arrivals",),
            )
        ]
    return [
        Anomaly(
            kind=AnomalyKind.UNSORTED,
            weight=Severity.NOTE,
            sentence=f"Rows are not in order of arrival ({order.backward_steps:,} steps back, by up to "
            f"{_duration(order.largest_back_s)}); they were sorted.",
            share_fraction=share,
        )
    ]


def _summer_time(what: str) -> Anomaly:
    return Anomaly(
        kind=AnomalyKind.SUMMER_TIME,
        weight=Severity.SERIOUS,
        sentence=f"The clock {what}, and the times carry no zone: this is local time with summer time. "
        "Name the zone with --zone, or an hour is counted twice or missing.",
        touches=("arrivals", "season"),
    )


def _copies(summary: Summary) -> list[Anomaly]:
    anomalies = []
    rows = summary.about.rows.kept_rows
    if summary.duplicate_rows:
        share = summary.duplicate_rows / rows
        anomalies.append(
            Anomaly(
                kind=AnomalyKind.DUPLICATES,
                weight=Severity.SERIOUS if share > 0.01 else Severity.CAUTION,
                sentence=f"{summary.duplicate_rows:,} of {rows:,} rows repeat another row; they were kept, so rates "
                "may be too high by that "
                "much.",
                share_fraction=share,
                touches=("arrivals", "lengths"),
            )
        )
    if summary.sessions is not None and summary.sessions.repeated_sessions:
        repeated, total = summary.sessions.repeated_sessions, summary.sessions.sessions
        anomalies.append(
            Anomaly(
                kind=AnomalyKind.REPEATED_SESSIONS,
                weight=Severity.CAUTION,
                sentence=f"{repeated:,} of {total:,} sessions are exact repeats of another, turn by turn; they were "
                "kept and count "
                "twice.",
                share_fraction=repeated / total,
                touches=("sessions", "lengths"),
            )
        )
    return anomalies


def _batches(summary: Summary) -> list[Anomaly]:
    period_s = resolution_s(summary)
    if period_s == 0.0:
        return []
    assert summary.gaps is not None
    return [
        Anomaly(
            kind=AnomalyKind.TIME_BATCHING,
            weight=Severity.CAUTION,
            sentence=f"Arrivals are stamped in batches of {_duration(period_s)}: what looks like bursts within "
            f"{_duration(10 * period_s)} is an artefact of the log and is marked as one.",
            share_fraction=summary.gaps.zero_gaps / summary.gaps.gaps,
            touches=("arrivals", "bursts"),
        )
    ]


def _holes(summary: Summary) -> list[Anomaly]:
    holes = holes_of(summary)
    if not holes:
        return []
    total_s = sum(hole.length_s for hole in holes)
    share = total_s / (summary.last_s - summary.first_s)
    shortest, longest = holes[-1].length_s, holes[0].length_s
    span = _duration(longest) if len(holes) == 1 else f"{_duration(shortest)} to {_duration(longest)}"
    number = "one hole" if len(holes) == 1 else f"{'at least ' * (len(holes) == LONGEST_KEPT)}{len(holes)} holes"
    anomalies = [
        Anomaly(
            kind=AnomalyKind.HOLES,
            weight=Severity.SERIOUS if share > 0.1 else Severity.CAUTION,
            sentence=f"The trace has {number} of {span} without a request ({share:.1%} of its time): the service was "
            "idle or the log was cut; "
            "mean rates include them.",
            share_fraction=share,
            touches=("arrivals", "bursts", "season"),
        )
    ]
    if any(_is_skipped_hour(summary, hole) for hole in holes):
        anomalies.append(_summer_time("skips one hour on a Sunday night"))
    return anomalies


def _is_skipped_hour(summary: Summary, hole: Hole) -> bool:
    if summary.about.clock is not Clock.UTC or summary.about.zone:
        return False
    start = datetime.datetime.fromtimestamp(hole.start_s, tz=datetime.UTC)
    return SKIPPED_HOUR_S[0] <= hole.length_s <= SKIPPED_HOUR_S[1] and start.weekday() == 6 and start.hour < 4


def _lengths(summary: Summary) -> list[Anomaly]:
    anomalies = []
    rows = summary.whole.requests
    prompts = summary.whole.lengths.get("prompt_tokens")
    without = rows - (prompts.total if prompts else 0)
    if not prompts and "output_tokens" not in summary.about.columns:
        return _no_lengths(summary)
    if without and summary.least_width_s == 1:
        anomalies.append(
            Anomaly(
                kind=AnomalyKind.MISSING_LENGTHS,
                weight=Severity.SERIOUS if without > 0.05 * rows else Severity.CAUTION,
                sentence=f"{without:,} of {rows:,} requests have no prompt length; they count as arrivals only.",
                share_fraction=without / rows,
                touches=("lengths",),
            )
        )
    if summary.missing_outputs:
        share = summary.missing_outputs / rows
        anomalies.append(
            Anomaly(
                kind=AnomalyKind.MISSING_OUTPUTS,
                weight=Severity.SERIOUS if share > 0.05 else Severity.CAUTION,
                sentence=f"{summary.missing_outputs:,} of {rows:,} requests that did not fail have no output length.",
                share_fraction=share,
                touches=("lengths",),
            )
        )
    return anomalies


def _no_lengths(summary: Summary) -> list[Anomaly]:
    """A web log, or rates alone: when and how many, not how long."""
    what = "requests" if summary.least_width_s == 1 else "windows"
    return [
        Anomaly(
            kind=AnomalyKind.MISSING_LENGTHS,
            weight=Severity.SERIOUS,
            sentence=f"The {what} of this {summary.about.format} source carry no token counts: rates, bursts and "
            "seasons come from it, lengths do "
            "not. For a plan, state percentiles (prompt, output) of each class, or name a log "
            "that has them in workload.lengths.",
            share_fraction=1.0,
            touches=("lengths",),
        )
    ]


def _statuses(summary: Summary) -> list[Anomaly]:
    unknown, rows = summary.whole.outcomes.get("unknown", 0), summary.whole.requests
    if not unknown:
        return []
    return [
        Anomaly(
            kind=AnomalyKind.UNKNOWN_STATUS,
            weight=Severity.CAUTION,
            sentence=f"{unknown:,} of {rows:,} requests have no status, or one that is not known; the shares of failed "
            "and cancelled requests are of the others.",
            share_fraction=unknown / rows,
            touches=("outcomes",),
        )
    ]


def _units(summary: Summary) -> list[Anomaly]:
    pace = None if summary.sessions is None else summary.sessions.pace_ratio
    if pace is not None and not 1 / MOST_PACE_RATIO < pace < MOST_PACE_RATIO:
        return [
            _unit_uncertain(
                f"Between the arrivals of a session there is {pace:,.3g} times the time that its answers and "
                "pauses take: one of the two is in another unit than the format says."
            )
        ]
    load = summary.whole.load
    if load is not None and load.busy_s > MOST_MEAN_DURATION_S * load.timed_requests:
        mean = _duration(load.busy_s / load.timed_requests)
        return [
            _unit_uncertain(f"The mean request takes {mean}: durations may be in another unit than the format says.")
        ]
    span_s = summary.last_s - summary.first_s
    prompts = summary.whole.lengths.get("prompt_tokens")
    if span_s <= 0 or prompts is None or summary.whole.requests < 2:
        return []
    tokens_per_s = float((prompts.values * prompts.counts).sum()) / span_s
    if tokens_per_s <= MOST_TOKENS_PER_S:
        return []
    return [
        _unit_uncertain(
            f"{tokens_per_s:,.0f} prompt tokens a second is more than any single service receives: the times may be in "
            "another unit than the format says."
        )
    ]


def _unit_uncertain(sentence: str) -> Anomaly:
    return Anomaly(
        kind=AnomalyKind.UNIT_UNCERTAIN,
        weight=Severity.SERIOUS,
        sentence=sentence,
        touches=("arrivals", "bursts", "season", "sessions"),
    )


def _age(summary: Summary, as_of: datetime.date | None, max_age_s: float) -> list[Anomaly]:
    if as_of is None or summary.about.clock is not Clock.UTC:
        return []
    last = datetime.datetime.fromtimestamp(summary.last_s, tz=datetime.UTC).date()
    days = (as_of - last).days
    if days * DAY_S <= max_age_s:
        return []
    return [
        Anomaly(
            kind=AnomalyKind.STALE,
            weight=Severity.CAUTION,
            sentence=f"The trace ends on {last.isoformat()}, {days:,} days before {as_of.isoformat()}; its maximum age "
            f"is {max_age_s / DAY_S:g} days.",
            touches=("arrivals", "lengths", "season"),
        )
    ]


def _short(summary: Summary) -> list[Anomaly]:
    span_s = summary.last_s - summary.first_s
    # Two weeks of requests end a moment before the two weeks do.
    if not summary.about.clock.orders_requests or span_s >= 13.9 * DAY_S:
        return []
    if span_s < DAY_S:
        unseen = "daily and weekly seasons and growth cannot be measured"
    elif span_s < 7 * DAY_S:
        unseen = "the weekly season and growth cannot be measured"
    else:
        unseen = "the weekly season was observed once, and growth barely"
    return [
        Anomaly(
            kind=AnomalyKind.SHORT,
            weight=Severity.NOTE,
            sentence=f"The trace covers {_duration(span_s)}: {unseen}.",
            touches=("season", "growth"),
        )
    ]


def _shapes(suggestion: Suggestion | None) -> list[Anomaly]:
    if suggestion is None:
        return []
    medians = [each.median_prompt_tokens for each in suggestion.classes]
    noun = {"length": "prompt length"}.get(suggestion.by, suggestion.by)
    sentence = (
        f"One mix hides several shapes: {noun} explains {suggestion.explained_fraction:.0%} of the variance of "
        f"{suggestion.column.replace('_', ' ')} (median prompts from {min(medians):,.0f} to {max(medians):,.0f} "
        "tokens). Plan them as classes."
    )
    return [Anomaly(kind=AnomalyKind.TWO_SHAPES, weight=Severity.CAUTION, sentence=sentence, touches=("lengths",))]


def _named_copies(classes: Mapping[str, Part]) -> list[Anomaly]:
    """Classes that share the first word of their names are taken for copies of one thing; do they agree?"""
    medians = {}
    for name, part in classes.items():
        found = part.lengths["prompt_tokens"].distribution("tokens") if "prompt_tokens" in part.lengths else None
        if found is not None:
            medians[name] = max(1.0, found.at(0.5))
    anomalies = []
    for stem, names in itertools.groupby(sorted(medians), key=lambda name: re.split(r"[_\-./ ]", name)[0]):
        alike = sorted(names, key=lambda name: medians[name])
        ratio = medians[alike[-1]] / medians[alike[0]]
        if len(alike) > 1 and ratio >= MEDIANS_APART_RATIO:
            anomalies.append(
                Anomaly(
                    kind=AnomalyKind.COPIES_DIFFER,
                    weight=Severity.CAUTION,
                    sentence=f"Classes named {stem} differ {ratio:.0f}-fold in their median prompt ({alike[0]} "
                    f"{medians[alike[0]]:,.0f}, {alike[-1]} {medians[alike[-1]]:,.0f} tokens): they are not the same "
                    "traffic.",
                    touches=("lengths",),
                )
            )
    return anomalies


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _duration(length_s: float) -> str:
    for unit, seconds in (("days", DAY_S), ("h", 3600.0), ("min", 60.0)):
        if length_s >= 2 * seconds:
            return f"{length_s / seconds:.3g} {unit}"
    return f"{length_s:.3g} s"
