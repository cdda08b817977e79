"""The `scaling` section of a plan file: bounds and rates of a fleet that follows demand, and how it sees demand."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ullage.evidence import Assumption
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import DAY_S, HOUR_S, Count, Duration, Range, Ratio, Share, ShareOrNone, StartTime
from ullage.files.sections.section import Key, Section
from ullage.scaling import settings as defaults
from ullage.scaling.settings import ScalingSettings
from ullage.units import DURATION

_NO_LIMIT = "no limit"


class ScalingSection(Section):
    """What a rule may do, and what it sees."""

    machines: Annotated[
        Literal["held", "released"] | None,
        Key(
            means="Whether machines emptied by the rule are kept and paid for, or released: then the bill follows "
            "the rule.",
            default=defaults.MACHINES,
            moves="bill.compute_usd",
        ),
    ] = None
    least: Annotated[
        Count | None,
        Range(least=1, most=20000),
        Key(
            means="The minimum of a rule.",
            default="what the quietest hour needs, at least two",
            moves="scaling.least_replicas",
        ),
    ] = None
    most: Annotated[
        Count | None,
        Range(least=1, most=20000),
        Key(means="The maximum of a rule.", default="the fixed fleet's", moves="scaling.most_replicas"),
    ] = None
    step: Annotated[
        Count | None,
        Range(least=1, most=20000),
        Key(means="The most replicas added or removed in one change.", default=_NO_LIMIT, moves="scaling.*"),
    ] = None
    cooldown: Annotated[
        StartTime | None,
        Range(least=0.0, most=DAY_S, dimension=DURATION),
        Key(means="The pause after a change.", default=defaults.COOLDOWN, moves="scaling.*"),
    ] = None
    nodes_per_minute: Annotated[
        Ratio | None,
        Range(least=0.001, most=10000.0),
        Key(means="Nodes provisioned per minute.", default=_NO_LIMIT, moves="scaling.ready_s"),
    ] = None
    refused: Annotated[
        ShareOrNone | None,
        Range(least=0.0, most=0.99),
        Key(means="The probability that a node is unavailable.", default=defaults.REFUSED, moves="scaling.ready_s"),
    ] = None
    refused_wait: Annotated[
        Duration | None,
        Range(least=1.0, most=DAY_S, dimension=DURATION),
        Key(
            means="When a refused node is requested again.",
            default=defaults.REFUSED_WAIT,
            moves="scaling.ready_s",
        ),
    ] = None
    node_held: Annotated[
        StartTime | None,
        Range(least=0.0, most=7 * DAY_S, dimension=DURATION),
        Key(means="How long an empty node is held.", default=defaults.NODE_HELD, moves="scaling.ready_s"),
    ] = None
    sleepers: Annotated[
        Count | None,
        Range(least=1, most=20000),
        Key(means="Sleeping engines on held nodes, for hot starts.", default="none", moves="scaling.ready_s"),
    ] = None
    sleeper_cost: Annotated[
        ShareOrNone | None,
        Range(least=0.0, most=1.0),
        Key(
            means="How much of a replica's devices a sleeping engine keeps from others.",
            default=defaults.SLEEPER_COST,
            moves="scaling.warm_hours",
        ),
    ] = None
    threshold: Annotated[
        Ratio | None,
        Range(least=0.001, most=1e6),
        Key(
            means="Requests in flight for each replica, as `ullage scale` found it.",
            default="derived from ramp rate and time to ready",
            moves="scaling.threshold_requests",
        ),
    ] = None
    down_window: Annotated[
        StartTime | None,
        Range(least=0.0, most=HOUR_S, dimension=DURATION),
        Key(
            means="How long load must stay lower before replicas are removed.",
            default="a cold start at p90, five minutes at least",
            moves="scaling.down_window_s",
        ),
    ] = None
    window: Annotated[
        Duration | None,
        Range(least=15.0, most=HOUR_S, dimension=DURATION),
        Key(
            means="How long requests in flight are averaged over.",
            default="30s",
            moves="scaling.window_s",
        ),
    ] = None
    floor: Annotated[
        Share | None,
        Range(least=0.01, most=1.0),
        Key(
            means="The share of an hour's expected need that a schedule by hour of week keeps.",
            default="no schedule",
            moves="scaling.floor_fraction",
        ),
    ] = None
    scrape: Annotated[
        Duration | None,
        Range(least=1.0, most=HOUR_S, dimension=DURATION),
        Key(means="How often metrics are scraped.", default=defaults.SCRAPE, moves="scaling.threshold_requests"),
    ] = None
    delay: Annotated[
        StartTime | None,
        Range(least=0.0, most=HOUR_S, dimension=DURATION),
        Key(
            means="From a scrape to the rule that reads it.",
            default=defaults.DELAY,
            moves="scaling.threshold_requests",
        ),
    ] = None


def scaling_of(section: ScalingSection, provenance: Provenance) -> ScalingSettings:
    """The settings: what the file says, or else the defaults."""

    def decided(name: str, unit: str) -> Assumption | None:
        value = getattr(section, name)
        return None if value is None else provenance.decides(f"scaling.{name}", value, unit)

    optional = {
        name: decided(name, unit)
        for name, unit in (
            ("least", "replicas"),
            ("most", "replicas"),
            ("step", "replicas"),
            ("nodes_per_minute", "nodes/min"),
            ("sleepers", "engines"),
            ("threshold", "requests"),
            ("down_window", "s"),
            ("window", "s"),
            ("floor", "fraction"),
        )
    }
    given: dict[str, Any] = {**provenance.filled(section), **optional}
    return ScalingSettings(**given)
