"""Section `policy` of a plan file: what is decided, not known."""

from __future__ import annotations

from typing import Annotated

from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import (
    DAY_S,
    HOUR_S,
    YEAR_S,
    Count,
    Duration,
    Range,
    Share,
    ShareOrNone,
)
from ullage.files.sections.section import Key, Section, ours
from ullage.fleet.utilisation_cap import STATES, UtilisationCaps
from ullage.service.curve.margin import NO_POLICY
from ullage.units import DURATION, FRACTION

HORIZON = ours("policy.horizon", 30 * DAY_S, "s", "a month is what capacity is ordered for", decision=True)
SHORTFALL = ours(
    "policy.shortfall",
    0.05,
    "fraction",
    "one month in twenty has an hour above capacity; a lower risk is worth buying where its price is known",
    decision=True,
)
ZONES = ours("policy.zones", 1, "zones", "a second zone is a decision with a price", decision=True)
RECONCILE_EVERY = ours(
    "policy.reconcile_every", 7 * DAY_S, "s", "a week holds every day of the week once", decision=True
)

_RATE, _MORE = "demand.*.planning_rate", "reserve.utilisation_replicas"
_UNCAPPED = "no cap: the SLOs alone decide"
_Cap = Annotated[Share, Range(least=0.01, most=1.0, dimension=FRACTION)]


class UtilisationSection(Section):
    """Caps on utilisation. A state without one may be as full as the SLOs allow."""

    mean: Annotated[
        _Cap | None,
        Key(means="Averaged over the horizon.", default=_UNCAPPED, moves=_MORE),
    ] = None
    busiest_hour: Annotated[
        _Cap | None,
        Key(means="In the median busiest hour.", default=_UNCAPPED, moves=_MORE),
    ] = None
    planned: Annotated[
        _Cap | None,
        Key(means="In the busiest hour as it is planned for.", default=_UNCAPPED, moves=_MORE),
    ] = None
    machine_lost: Annotated[
        _Cap | None,
        Key(means="The same with one machine lost.", default=_UNCAPPED, moves=_MORE),
    ] = None
    zone_lost: Annotated[
        _Cap | None,
        Key(means="The same with one zone lost.", default=_UNCAPPED, moves=_MORE),
    ] = None


class PolicySection(Section):
    """What is decided, not known."""

    horizon: Annotated[
        Duration | None,
        Range(least=HOUR_S, most=5 * YEAR_S, dimension=DURATION),
        Key(means="How far ahead to plan.", default=HORIZON, moves=_RATE),
    ] = None
    shortfall: Annotated[
        Share | None,
        Range(least=0.001, most=0.5, dimension=FRACTION),
        Key(
            means="The risk accepted that the busiest hour violates an SLO for lack of replicas: the one number that "
            "sizes every "
            "fleet.",
            default=SHORTFALL,
            moves=_RATE,
        ),
    ] = None
    margin: Annotated[
        ShareOrNone | None,
        Key(means="Share of its rate kept free in every pool.", default=NO_POLICY, moves="point.operating_rps"),
    ] = None
    zones: Annotated[
        Count | None,
        Range(least=1, most=100),
        Key(means="Zones to spread over.", default=ZONES, moves="placement.zone-1.replicas"),
    ] = None
    utilisation: Annotated[
        UtilisationSection,
        Key(means="How full the fleet may be, by state, as a share of what it carries within its SLOs."),
    ] = UtilisationSection()
    reconcile_every: Annotated[
        Duration | None,
        Range(least=HOUR_S, most=5 * YEAR_S, dimension=DURATION),
        Key(
            means="When to reconcile.",
            default=RECONCILE_EVERY,
            still="It is printed as the day of the next reconciliation; ullage reconcile compares it with the one it "
            "derives.",
        ),
    ] = None


def utilisation_caps(given: UtilisationSection, provenance: Provenance) -> UtilisationCaps:
    """The caps that the file states."""
    stated = {
        state: provenance.may_say(f"policy.utilisation.{state}", getattr(given, state), "fraction") for state in STATES
    }
    return UtilisationCaps(most={state: each for state, each in stated.items() if each is not None})
