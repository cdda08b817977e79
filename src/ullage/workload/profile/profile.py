"""The profile of a trace: everything a plan carries forward about the traffic, and its anomalies.

    trace -> summarise (summary.py) -> profile_of -> Profile

A profile holds no prompt, no row and no identifier but the names of its groups, and those of tenants pass
through a function that may replace them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.workload.anomalies import Anomaly, in_order
from ullage.workload.classes import ClassRule, RequestClass
from ullage.workload.profile.arrivals import GROUP_BINS, MOST_BINS, Arrivals, arrivals_of
from ullage.workload.profile.bursts import Bursts, bursts_of
from ullage.workload.profile.inflight import MOST_SECONDS, InFlight, inflight_of
from ullage.workload.profile.lengths import LengthProfile, lengths_of
from ullage.workload.profile.quality import MAX_AGE_S, findings_of, holes_of, resolution_s
from ullage.workload.profile.reuse import ReuseProfile
from ullage.workload.profile.seasons import HOUR_S, Growth, Season, growth_of, season_of
from ullage.workload.profile.sessions import SessionProfile
from ullage.workload.profile.shapes import Suggestion, suggestion_of
from ullage.workload.profile.summarise import OTHERS, UNKNOWN, summarise
from ullage.workload.profile.summary import Part, Summary
from ullage.workload.trace import Clock, RowCounts, Trace

# What a tenant is called in a profile, given its name and its rank by requests, from 1.
TenantNames = Callable[[str, int], str]


def ranked_names(_name: str, rank: int) -> str:
    """Tenants by rank: nothing to recognise them by, and nothing to compare two profiles by."""
    return f"tenant-{rank}"


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """When the trace was taken. Times are ISO 8601 in UTC, None without a calendar; `zone` is the source's own.

    `window_s` is how finely arrivals are known: a second where requests are listed, the window where they are counted.
    """

    clock: Clock
    zone: str
    first_time: str | None
    last_time: str | None
    span_s: float
    covered_fraction: float | None
    window_s: float


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """How requests ended, where the source says so; requests without a status are `unknown`.

    `refused_count` are those of the failed for which not one token was written, as far as the source knows outputs.
    """

    ok_count: int
    failed_count: int
    refused_count: int
    cancelled_count: int
    unknown_count: int

    @property
    def failed_fraction(self) -> float:
        return self.failed_count / self.known_count if self.known_count else 0.0

    @property
    def refused_fraction(self) -> float:
        return self.refused_count / self.known_count if self.known_count else 0.0

    @property
    def cancelled_fraction(self) -> float:
        return self.cancelled_count / self.known_count if self.known_count else 0.0

    @property
    def known_count(self) -> int:
        return self.ok_count + self.failed_count + self.cancelled_count


@dataclass(frozen=True, kw_only=True)
class PartProfile:
    """One part of the traffic. None means that this trace cannot say, never that there is none."""

    requests: int
    arrivals: Arrivals | None
    bursts: Bursts | None
    season: Season | None
    growth: Growth | None
    lengths: LengthProfile
    outcomes: Outcomes | None
    inflight: InFlight | None
    sessions: SessionProfile | None


@dataclass(frozen=True, kw_only=True)
class GroupProfile:
    """A class, tenant or model: its name and its share of all requests."""

    dimension: str
    name: str
    share_fraction: float
    profile: PartProfile


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A trace, in a form that is small, can be shared and needs no trace to be used.

    `distinct` says how many names each dimension has, of which the most frequent are groups. `needs` lists what only a
    later stage can say, and why.
    """

    format: str
    sources: tuple[str, ...]
    rows: RowCounts
    coverage: Coverage
    whole: PartProfile
    groups: tuple[GroupProfile, ...]
    distinct: tuple[tuple[str, int | None], ...]
    reuse: ReuseProfile | None
    suggestion: Suggestion | None
    anomalies: tuple[Anomaly, ...]
    needs: tuple[str, ...]

    def of(self, dimension: str) -> tuple[GroupProfile, ...]:
        return tuple(group for group in self.groups if group.dimension == dimension)


def profile(
    trace: Trace,
    *,
    classes: Sequence[RequestClass] = (),
    as_of: datetime.date | None = None,
    max_age_s: float = MAX_AGE_S,
) -> Profile:
    """Profiles a trace in one go."""
    return profile_of(summarise(trace, classes=classes), as_of=as_of, max_age_s=max_age_s)


def profile_of(summary: Summary, *, as_of: datetime.date | None = None, max_age_s: float = MAX_AGE_S) -> Profile:
    """Everything that follows from a summary."""
    suggestion = suggestion_of(summary.whole, summary.groups)
    return Profile(
        format=summary.about.format,
        sources=summary.about.sources,
        rows=summary.about.rows,
        coverage=_coverage(summary),
        whole=_part_profile(summary, summary.whole, summary.sessions),
        groups=_groups(summary),
        distinct=tuple(summary.distinct.items()),
        reuse=summary.reuse,
        suggestion=suggestion,
        anomalies=in_order(findings_of(summary, suggestion=suggestion, as_of=as_of, max_age_s=max_age_s)),
        needs=_needs(summary),
    )


def with_tenants_called(profile: Profile, names: TenantNames) -> Profile:
    """The same profile with every tenant under another name, wherever tenants are named."""
    tenants = [group.name for group in profile.of("tenant") if group.name not in (OTHERS, UNKNOWN)]
    called = {OTHERS: OTHERS, UNKNOWN: UNKNOWN} | {name: names(name, at) for at, name in enumerate(tenants, start=1)}
    groups = tuple(
        replace(group, name=called[group.name]) if group.dimension == "tenant" else group for group in profile.groups
    )
    reuse, suggestion = profile.reuse, profile.suggestion
    if reuse is not None:
        reuse = replace(reuse, by_tenant=tuple((called[name], curve) for name, curve in reuse.by_tenant))
    if suggestion is not None and suggestion.by == "tenant":
        classes = tuple(
            replace(one, name=called[one.name], rule=ClassRule(tenant=called[one.name])) for one in suggestion.classes
        )
        suggestion = replace(suggestion, classes=classes)
    return replace(profile, groups=groups, reuse=reuse, suggestion=suggestion)


def _part_profile(summary: Summary, part: Part, sessions: SessionProfile | None) -> PartProfile:
    first_s, last_s = part.watched or (summary.first_s, summary.last_s)
    has_times = summary.about.clock.orders_requests
    calendar = summary.about.clock is Clock.UTC
    is_whole = part is summary.whole
    grain_s = max(resolution_s(summary), 0.1 * summary.least_width_s if summary.least_width_s > 1 else 0.0)
    arrivals = bursts = season = growth = None
    if has_times:
        arrivals = arrivals_of(
            part.arrivals,
            first_s=first_s,
            last_s=last_s,
            gaps=summary.gaps if is_whole else None,
            resolution_s=grain_s,
            least_width_s=summary.least_width_s,
            most_bins=MOST_BINS if is_whole else GROUP_BINS,
        )
        bursts = bursts_of(part.arrivals, first_s=first_s, last_s=last_s, resolution_s=grain_s)
        if part.evenly_watched and summary.least_width_s <= HOUR_S:
            season = season_of(part.arrivals, first_s=first_s, last_s=last_s, calendar=calendar)
        if part.evenly_watched:
            growth = growth_of(part.arrivals, first_s=first_s, last_s=last_s)
    return PartProfile(
        requests=part.requests,
        arrivals=arrivals,
        bursts=bursts,
        season=season,
        growth=growth,
        lengths=lengths_of(part.lengths, part.joint, are_means=summary.least_width_s > 1),
        outcomes=_outcomes(part.outcomes),
        inflight=inflight_of(
            part.load,
            requests=part.requests,
            first_s=first_s,
            last_s=last_s,
            has_lengths={"prompt_tokens", "output_tokens"} <= part.lengths.keys(),
        ),
        sessions=sessions,
    )


def _groups(summary: Summary) -> tuple[GroupProfile, ...]:
    return tuple(
        GroupProfile(
            dimension=dimension,
            name=name,
            share_fraction=part.requests / summary.whole.requests,
            profile=_part_profile(summary, part, summary.group_sessions.get(dimension, {}).get(name)),
        )
        for dimension, parts in summary.groups.items()
        for name, part in parts.items()
    )


def _coverage(summary: Summary) -> Coverage:
    span_s = summary.last_s - summary.first_s
    silent_s = sum(hole.length_s for hole in holes_of(summary))
    calendar = summary.about.clock is Clock.UTC
    return Coverage(
        clock=summary.about.clock,
        zone=summary.about.zone,
        first_time=_iso(summary.first_s) if calendar else None,
        last_time=_iso(summary.last_s) if calendar else None,
        span_s=span_s,
        covered_fraction=1.0 - silent_s / span_s if span_s > 0 else None,
        window_s=float(summary.least_width_s),
    )


def _iso(epoch_s: float) -> str:
    moment = datetime.datetime.fromtimestamp(epoch_s, tz=datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _outcomes(counts: Mapping[str, int]) -> Outcomes | None:
    if not counts:
        return None
    return Outcomes(
        ok_count=counts.get("ok", 0),
        failed_count=counts.get("failed", 0) + counts.get("refused", 0),
        refused_count=counts.get("refused", 0),
        cancelled_count=counts.get("cancelled", 0),
        unknown_count=counts.get("unknown", 0),
    )


def _needs(summary: Summary) -> tuple[str, ...]:
    needs = []
    if summary.about.clock.orders_requests and summary.whole.load is None:
        absent = _absent(summary, "durations", "duration_ms", "are not logged")
        needs.append(f"requests in flight and active tokens: {absent}, so a service model must supply them")
    elif summary.last_s - summary.first_s > MOST_SECONDS:
        needs.append("requests in flight and active tokens: the trace is too long for them; profile a shorter period")
    if summary.about.clock.orders_requests and not summary.reuse and "cached_tokens" not in summary.about.columns:
        absent = _absent(summary, "cached tokens and block hashes", "cached_tokens", "are not logged")
        needs.append(f"prefix reuse: {absent}, so a hit rate must be stated or measured")
    if not summary.sessions:
        absent = _absent(summary, "sessions", "session", "are not logged")
        needs.append(f"sessions: {absent}, so requests count as independent")
    elif summary.groups and not summary.group_sessions:
        needs.append("sessions by class, tenant or model: the trace is too long for them; profile a shorter period")
    if not summary.whole.outcomes:
        absent = _absent(summary, "outcomes", "status", "are not logged")
        needs.append(f"failed and cancelled requests: {absent}, so none counts as failed")
    return tuple(needs)


def _absent(summary: Summary, what: str, ours: str, missing: str) -> str:
    """That something is not logged can only be said where every column was read."""
    unread = summary.about.unread
    if not unread:
        return f"{what} {missing}"
    shown = ", ".join(unread[:3]) + (", ..." if len(unread) > 3 else "")
    return f"{what} are in none of the columns read (unread: {shown}; --column {ours}=COLUMN)"
