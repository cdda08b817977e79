"""A profile as a page in the terminal, and as JSON.

The page reads from top to bottom as the questions people ask: what is this, how does it arrive, how long are
the requests, when, who, what is reused, and what should I not trust.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.foreign import shell_word
from ullage.report.quantity import show
from ullage.units import brief_number
from ullage.workload.anomalies import Severity
from ullage.workload.profile.arrivals import Arrivals
from ullage.workload.profile.bursts import Bursts
from ullage.workload.profile.profile import GroupProfile, PartProfile, Profile
from ullage.workload.profile.reuse import ReuseProfile
from ullage.workload.profile.seasons import Growth, Season
from ullage.workload.profile.series import Distribution
from ullage.workload.profile.sessions import SessionProfile
from ullage.workload.profile.shapes import SuggestedClass

SPARKS = "▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
SPARK_WIDTH = 72
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Poisson counts have a dispersion of 1; up to here a few windows stray by chance.
EVEN_DISPERSION_RATIO = 2.0
SHOWN = (0.5, 0.9, 0.95, 0.99, 0.999, 1.0)
_MARK = {Severity.SERIOUS: ("!", "bold red"), Severity.CAUTION: ("*", "yellow"), Severity.NOTE: ("-", "dim")}


def profile_page(profile: Profile) -> list[RenderableType]:
    """The parts of the page, top to bottom."""
    whole = profile.whole
    parts: list[list[RenderableType]] = [
        _headline(profile),
        _arrivals(whole.arrivals, whole.bursts),
        _season(whole.season, whole.growth),
        _lengths(whole),
        _outcomes(whole),
        _inflight(whole),
        _sessions(whole.sessions),
        _reuse(profile.reuse),
        *(_groups(profile, dimension) for dimension in ("class", "model", "product", "tenant")),
        _anomalies(profile),
    ]
    page: list[RenderableType] = []
    for part in parts:
        if part:
            page += [*([""] if page else []), *part]
    return page


def _headline(profile: Profile) -> list[RenderableType]:
    names = profile.sources[0] if len(profile.sources) == 1 else f"{len(profile.sources)} files"
    text = Text(f"Profile of {names}", style="bold")
    number = profile.whole.requests
    text.append(f": {number:,} request{'' if number == 1 else 's'}", style="not bold")
    coverage = profile.coverage
    if coverage.span_s:
        text.append(f" in {show(coverage.span_s, 's')}", style="not bold")
    parts = []
    if coverage.first_time and coverage.last_time:
        parts.append(f"{coverage.first_time} to {coverage.last_time}")
        parts.append(f"written in {coverage.zone}" if coverage.zone else "no zone in the source")
    else:
        parts.append(
            {"relative": "no calendar: times count from the first request"}.get(coverage.clock.value, "no clock")
        )
    if coverage.covered_fraction is not None and coverage.covered_fraction < 1:
        parts.append(f"{coverage.covered_fraction:.1%} of the time covered")
    return [text, Text(f"format {profile.format}; {'; '.join(parts)}", style="dim")]


# ---- how it arrives ----------------------------------------------------------------------------------


def _arrivals(arrivals: Arrivals | None, bursts: Bursts | None) -> list[RenderableType]:
    if arrivals is None:
        return []
    table = _table("Arrivals, req/s", "window", "mean", "p50", "p90", "p99", "max", "dispersion")
    for window in arrivals.windows:
        row = [show(window.width_s, "s"), brief_number(window.rates.mean_value)]
        row += [brief_number(window.rates.at(fraction)) for fraction in (0.5, 0.9, 0.99, 1.0)]
        row.append(
            f"{brief_number(window.dispersion_ratio)}{' (artefact of the time stamps)' if window.artefact else ''}"
        )
        table.add_row(*row)
    series = arrivals.series
    line = Text(f"{spark(series.counts)}  requests per {show(series.width_s * _step(series.counts), 's')}")
    parts: list[RenderableType] = [table, line]
    if arrivals.gap_cv_ratio is not None:
        parts.append(
            Text(f"Gaps between requests deviate by {arrivals.gap_cv_ratio:.3g} times their mean (Poisson: 1).")
        )
    if bursts is not None:
        parts.append(Text(_bursts(bursts, arrivals)))
    return parts


def _no_bursts(bursts: Bursts, arrivals: Arrivals) -> str:
    """That nothing stands out of its hour is not that traffic is even: the level itself may move."""
    width = show(bursts.width_s, "s")
    honest = [window for window in arrivals.windows if not window.artefact]
    uneven = max(honest, key=lambda window: window.dispersion_ratio, default=None)
    if uneven is None or uneven.dispersion_ratio <= EVEN_DISPERSION_RATIO:
        return f"No bursts in windows of {width}."
    return (
        f"No window of {width} stands out from the hour around it, but traffic is uneven: counts per "
        f"{show(uneven.width_s, 's')} vary {brief_number(uneven.dispersion_ratio)} times as much as Poisson "
        "arrivals, because the level itself rises and falls."
    )


def _bursts(bursts: Bursts, arrivals: Arrivals) -> str:
    if bursts.episodes == 0 or bursts.length_s is None or bursts.ramp_rps_per_s is None:
        return _no_bursts(bursts, arrivals)
    highest = bursts.highest[0]
    if bursts.height_ratio is None:
        return (
            f"{bursts.episodes} burst{'s' if bursts.episodes > 1 else ''} from idle in windows of "
            f"{show(bursts.width_s, 's')}, the highest {brief_number(highest.peak_rps)} req/s for "
            f"{show(highest.length_s, 's')}."
        )
    return (
        f"{bursts.episodes} burst{'s' if bursts.episodes > 1 else ''} in windows of {show(bursts.width_s, 's')}, "
        f"{bursts.time_fraction:.1%} of the time: median {bursts.height_ratio.at(0.5):.2g} times their level for "
        f"{show(bursts.length_s.at(0.5), 's')}; the highest {brief_number(highest.peak_rps)} req/s over "
        f"{brief_number(highest.level_rps)}, in {show(highest.rise_s, 's')} from start to peak."
    )


def spark(counts: Sequence[float], width: int = SPARK_WIDTH, *, highest: bool = False) -> str:
    """A line of bars, at most so wide: neighbouring windows are added up, or the highest of them is taken.

    >>> spark([0, 1, 2, 4])
    '▁▂▄█'
    """
    step = _step(counts, width)
    join = max if highest else sum
    sums = [join(counts[at : at + step]) for at in range(0, len(counts), step)]
    # A last bar made of fewer windows would look like a fall in traffic.
    if len(counts) % step and len(sums) > 1 and not highest:
        sums.pop()
    top = max(sums, default=0) or 1
    return "".join(SPARKS[min(len(SPARKS) - 1, int(each / top * (len(SPARKS) - 0.001)))] for each in sums)


def _step(counts: Sequence[float], width: int = SPARK_WIDTH) -> int:
    return max(1, math.ceil(len(counts) / width))


def _season(season: Season | None, growth: Growth | None) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if season is not None:
        period = "hour of the week" if season.period_hours > 24 else "hour of the day"
        zone = "UTC" if season.calendar else "from the first request"
        parts.append(Text(f"Season by {period} ({zone}), darkest {season.peak_ratio:.2g} times the mean", style="bold"))
        days = DAYS if season.calendar else tuple(f"+{day}d" for day in range(7))
        for start in range(0, season.period_hours, 24):
            label = days[start // 24] if season.period_hours > 24 else "day"
            parts.append(Text(f"{label:>4} {_shades(season.shape[start : start + 24], season.peak_ratio)}"))
        parts.append(Text("     " + "".join(f"{hour:<6}" for hour in range(0, 24, 3)), style="dim"))
        if season.strength_fraction is None:
            parts.append(Text(f"Only {season.periods:.2g} periods observed: too few to measure its strength."))
        else:
            parts.append(Text(f"It explains {season.strength_fraction:.0%} of the variance from hour to hour."))
    if growth is not None:
        low, high = growth.low_per_week_fraction, growth.high_per_week_fraction
        parts.append(
            Text(
                f"Growth {growth.per_week_fraction:+.1%} a week over {growth.days} days "
                f"(middle half {low:+.1%} to {high:+.1%})."
            )
        )
    return parts


def _shades(shape: Sequence[float | None], top: float) -> str:
    cells = []
    for each in shape:
        if each is None:
            cells.append("··")
        else:
            cells.append(2 * SHADES[min(len(SHADES) - 1, int(each / top * (len(SHADES) - 0.001)))])
    return "".join(cells)


# ---- how long, how it ends ---------------------------------------------------------------------------


def _lengths(whole: PartProfile) -> list[RenderableType]:
    lengths = whole.lengths
    rows = [
        ("prompt", lengths.prompt_tokens, lengths.prompt_longest_fraction),
        ("output", lengths.output_tokens, lengths.output_longest_fraction),
        ("cached", lengths.cached_tokens, None),
        ("reasoning", lengths.reasoning_tokens, None),
    ]
    if all(found is None for _, found, _ in rows):
        return []
    heads = [_percent(fraction) for fraction in SHOWN]
    table = _table("Lengths, tokens", "", "mean", *heads, "in the longest 1 %")
    for name, found, longest in rows:
        if found is not None:
            share = "" if longest is None else f"{longest:.1%} of tokens"
            table.add_row(name, f"{found.mean_value:,.0f}", *[f"{found.at(each):,.0f}" for each in SHOWN], share)
    parts: list[RenderableType] = [table]
    if lengths.cached_prompt_fraction is not None:
        parts.append(Text(f"{lengths.cached_prompt_fraction:.1%} of prompt tokens were cached."))
    if lengths.correlation_ratio is not None:
        parts.append(
            Text(
                f"Prompt and output are correlated by {lengths.correlation_ratio:+.2f} (of their logarithms); "
                "sample them as pairs."
            )
        )
    return parts


def _percent(fraction: float) -> str:
    return "max" if fraction == 1.0 else f"p{fraction * 100:g}"


def _outcomes(whole: PartProfile) -> list[RenderableType]:
    outcomes = whole.outcomes
    if outcomes is None:
        return []
    unknown = f", {outcomes.unknown_count:,} without a status" if outcomes.unknown_count else ""
    refused = f" ({outcomes.refused_fraction:.2%} before any output)" if outcomes.refused_count else ""
    return [
        Text(
            f"Outcomes: {outcomes.failed_fraction:.2%} failed{refused}, {outcomes.cancelled_fraction:.2%} cancelled, "
            f"of {outcomes.known_count:,}{unknown}."
        )
    ]


def _inflight(whole: PartProfile) -> list[RenderableType]:
    inflight = whole.inflight
    if inflight is None:
        return []
    table = _table("In flight, at each second", "", "mean", *[_percent(each) for each in SHOWN])
    for name, found in (("requests", inflight.requests), ("active tokens", inflight.active_tokens)):
        if found is not None:
            table.add_row(name, brief_number(found.mean_value), *[f"{found.at(each):,.0f}" for each in SHOWN])
    series = inflight.active_tokens_series
    if series is None or len(series.counts) <= 1:
        return [table]
    return [table, Text(f"{spark(series.counts, highest=True)}  highest active tokens over time")]


def _sessions(sessions: SessionProfile | None) -> list[RenderableType]:
    if sessions is None:
        return []
    table = _table(f"Sessions: {sessions.sessions:,}", "", "mean", *[_percent(each) for each in SHOWN])
    gap = "think time" if sessions.waits_measured else "pause, answer included"
    rows: list[tuple[str, Distribution | None]] = [
        ("turns", sessions.turns),
        ("length", sessions.length_s),
        (gap, sessions.think_s),
        ("tool time", sessions.tool_s),
        ("tool calls per task", sessions.tool_calls_per_task),
    ]
    for name, found in rows:
        if found is not None:
            unit = "s" if found.unit == "s" else ""
            table.add_row(name, show(found.mean_value, unit), *[show(found.at(each), unit) for each in SHOWN])
    parts: list[RenderableType] = [table]
    if sessions.overlapping_requests:
        parts.append(
            Text(f"{sessions.overlapping_requests:,} requests were sent before the session's previous answer ended.")
        )
    if sessions.repeated_blocks_fraction is not None:
        parts.append(
            Text(f"{sessions.repeated_blocks_fraction:.1%} of prompt blocks repeat the session's previous request.")
        )
    return parts


def _reuse(reuse: ReuseProfile | None) -> list[RenderableType]:
    if reuse is None:
        return []
    size = f" of {reuse.block_tokens} tokens" if reuse.block_tokens else ""
    sampled = "" if reuse.sampled_fraction == 1 else f", from a sample of {reuse.sampled_fraction:.1%} of blocks"
    title = f"Prefix reuse: {reuse.uses:,} uses of {reuse.distinct_blocks:,} blocks{size}{sampled}"
    table = _table("", "cache, blocks", *(["tokens"] if reuse.block_tokens else []), "cold", "warm")
    for point in reuse.points:
        held = [brief_number(point.cache_blocks * reuse.block_tokens)] if reuse.block_tokens else []
        row = [f"{point.cache_blocks:,}", *held, f"{point.cold_hit_fraction:.1%}", f"{point.warm_hit_fraction:.1%}"]
        table.add_row(*row)
    ends = [f"{reuse.endless_cold_fraction:.1%}", f"{reuse.endless_warm_fraction:.1%}"]
    table.add_row("endless", *([""] if reuse.block_tokens else []), *ends)
    of = "prompt tokens" if reuse.block_tokens else "prompt blocks (their size is not known)"
    parts: list[RenderableType] = [Text(title, style="bold"), Text(f"Share of {of} that a prefix cache holds:"), table]
    if reuse.unchained_fraction > 0:
        parts.append(
            Text(
                f"The ids are not chained: {reuse.unchained_fraction:.1%} of them follow different predecessors. They "
                "were chained before counting, because engines reuse a block only after the same prefix."
            )
        )
    parts.append(Text(f"{reuse.any_place_fraction:.1%} of block ids recur somewhere, but engines only reuse prefixes."))
    if reuse.by_tenant:
        alone = ", ".join(f"{name} {curve.endless_warm_fraction:.1%}" for name, curve in reuse.by_tenant)
        parts.append(Text(f"With an unlimited warm cache per tenant: {alone}."))
    return parts


# ---- who, and anomalies ------------------------------------------------------------------------------


def _groups(profile: Profile, dimension: str) -> list[RenderableType]:
    groups = profile.of(dimension)
    if not groups:
        return []
    distinct = dict(profile.distinct)[dimension]
    number = "" if distinct is None else f" ({distinct:,})"
    table = _table(
        f"By {dimension}{number}",
        "",
        "share",
        "mean req/s",
        "p99 per min",
        "prompt p50",
        "p99",
        "output p50",
        "p99",
        "failed",
    )
    for group in groups:
        table.add_row(*_group_row(group))
    return [table]


def _group_row(group: GroupProfile) -> list[str]:
    part = group.profile
    minute = part.arrivals.window(60) if part.arrivals else None
    row = [group.name, f"{group.share_fraction:.1%}"]
    row.append(brief_number(part.arrivals.mean_rps) if part.arrivals else "")
    row.append(brief_number(minute.rates.at(0.99)) if minute else "")
    for found in (part.lengths.prompt_tokens, part.lengths.output_tokens):
        row += [f"{found.at(0.5):,.0f}", f"{found.at(0.99):,.0f}"] if found else ["", ""]
    row.append(f"{part.outcomes.failed_fraction:.2%}" if part.outcomes else "")
    return row


def _anomalies(profile: Profile) -> list[RenderableType]:
    parts: list[RenderableType] = [Text("Anomalies", style="bold")]
    for anomaly in profile.anomalies:
        mark, style = _MARK[anomaly.weight]
        parts.append(_hanging(mark, style, anomaly.sentence))
    if not profile.anomalies:
        parts.append(Text("No anomalies."))
    if profile.suggestion is not None:
        rules = " ".join(f"--class {shell_word(_rule(one))}" for one in profile.suggestion.classes)
        parts.append(_hanging(">", "dim", f"To profile them separately: {rules}"))
    parts += [_hanging("?", "dim", f"Not known from this trace: {need}.") for need in profile.needs]
    return parts


def _rule(one: SuggestedClass) -> str:
    given = {name: getattr(one.rule, name) for name in one.rule.__dataclass_fields__}
    conditions = ",".join(f"{name}={value}" for name, value in given.items() if value is not None)
    return f"{one.name}:{conditions}"


def _hanging(mark: str, style: str, sentence: str) -> RenderableType:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column()
    # A long word runs on in the next line: an ellipsis in a command would be pasted as part of it.
    table.add_column(overflow="fold")
    table.add_row(Text(mark, style=style), sentence)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.padding = (0, 2, 0, 0)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", header_style="dim")
    return table
