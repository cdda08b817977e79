"""The failure reserve: the fewest replicas beyond the steady ones with which enough are up, often enough.

All rules apply, and the largest answer counts:

- *at the chosen risk*: fewer are up than the busiest hour needs with no more than the chosen chance, over all that it
  may need and all that may have failed (risk/need.py, availability.py);
- *whatever the odds*: the loss of the largest domain that the plan is to survive leaves the steady number up;
- *often enough*, where an availability is stated: the share of time in which the steady number is up reaches it. It
  takes every hour for the busiest, so it errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError, Rejection, Remedy, check_name
from ullage.evidence import Assumption, Figure, number
from ullage.facts.catalogue import Catalogue
from ullage.facts.operations import operation_facts
from ullage.fleet.availability import Availability, Breakage, Domains, availability, up_chances
from ullage.fleet.choices import choice
from ullage.fleet.lines import ReserveLine
from ullage.fleet.packing import ASSUMED_NODE, even_nodes
from ullage.fleet.risk.need import PlannedNeed
from ullage.fleet.sites import Placement, Sites, place

_YEAR_S = 365.25 * 86_400.0

SURVIVED = ("nothing", "replica", "node", "zone")
"""What a plan may be told to survive whatever the odds, each including those before it."""

SURVIVES = choice("reliability.survives", "node", "", "nodes fail every year; surviving a zone loss is a paid choice")


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How often things fail, how long repairs take, and how available the service is to be.

    `crews` is how many devices, and how many nodes, are repaired at a time; None repairs all at once, as a provider
    does that swaps them.
    """

    device_failures: Assumption
    device_repair: Assumption
    node_failures: Assumption
    node_repair: Assumption
    zone_failures: Assumption
    zone_repair: Assumption
    availability: Assumption | None = None
    survives: Assumption = SURVIVES
    devices_per_node: Assumption = ASSUMED_NODE
    crews: Assumption | None = None

    def __post_init__(self) -> None:
        check_name(str(self.survives.value), SURVIVED, field=self.survives.name)
        if self.availability is not None and not 0.0 < number(self.availability) < 1.0:
            raise InputError(
                field=self.availability.name,
                value=self.availability.value,
                problem="must lie strictly between 0 and 1",
                fix="Give for example 99.9%.",
            )

    @property
    def rates(self) -> tuple[Assumption, ...]:
        return (
            self.device_failures,
            self.device_repair,
            self.node_failures,
            self.node_repair,
            self.zone_failures,
            self.zone_repair,
        )

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        stated = tuple(each for each in (self.availability, self.crews) if each is not None)
        return (*self.rates, self.devices_per_node, self.survives, *stated)

    @property
    def target_fraction(self) -> float:
        """The availability that is stated, 0 where none is."""
        return 0.0 if self.availability is None else number(self.availability)

    def replicas_per_node(self, devices: int) -> int:
        """Whole replicas on a node; one that spans several nodes has them to itself."""
        return max(1, int(number(self.devices_per_node)) // devices)

    def placed_together(self, devices: int) -> int:
        """Replicas that are placed node by node. Where the loss of a zone is survived, even zones need the fewest."""
        return 1 if self.survives.value == "zone" else self.replicas_per_node(devices)


def reliability(catalogue: Catalogue | None = None) -> Reliability:
    """What is published, as the start of a user's own."""
    return Reliability(**{name: _named(fact) for name, fact in operation_facts(catalogue).items()})


def _named(fact: Assumption) -> Assumption:
    suffix = "_per_year" if fact.unit == "1/year" else ""
    return replace(fact, name=f"reliability.{fact.name}{suffix}")


def domains_of(placement: Placement, given: Reliability) -> Domains:
    """What fails together in a placement: the replicas of a zone stand evenly on its nodes (see `even_nodes`)."""
    devices = placement.devices_per_replica
    each = given.replicas_per_node(devices)
    spanned = max(1.0, devices / number(given.devices_per_node))
    return Domains(
        zones=tuple(even_nodes(row.replicas, each, row.spread_nodes) for row in placement.rows),
        replica=_breakage(given.device_failures, given.device_repair, devices),
        node=_breakage(given.node_failures, given.node_repair, spanned),
        zone=_breakage(given.zone_failures, given.zone_repair, 1),
    )


def _breakage(failures: Assumption, repair: Assumption, parts: float) -> Breakage:
    return Breakage(failures_per_s=parts * number(failures) / _YEAR_S, repair_s=number(repair))


@dataclass(frozen=True, kw_only=True)
class FailureReserve:
    """The line, and how available the steady number of replicas is with it and without."""

    line: ReserveLine
    availability: Availability
    without: Availability
    figures: Mapping[str, Figure]


def failure_reserve(
    steady: Figure,
    sites: Sites,
    given: Reliability,
    *,
    devices: int,
    need: PlannedNeed | None = None,
    seed: int,
    taken: Mapping[str, int] | None = None,
    spread_nodes: int = 0,
) -> FailureReserve | Rejection:
    """The fewest replicas on top of `steady` that keep all rules, or why no number does.

    `need` is what the busiest hour may need beside the steady number, `spread_nodes` what fleets are spread over.

    Fleets are tried in growing size, and whether one is large enough does not depend on how long others were tried:
    one more nine of availability cannot ask for fewer.
    """
    needed = int(steady.value)
    refused = _hopeless(steady, sites, given)
    if refused is not None:
        return refused
    crews = None if given.crews is None else int(number(given.crews))
    alone: Availability | None = None
    for total in range(needed, MOST_TIMES * needed + MOST_MORE):
        placed = place(
            total,
            sites,
            devices=devices,
            node_replicas=given.placed_together(devices),
            spread_nodes=spread_nodes,
            taken=taken,
            inputs=(steady,),
        )
        if isinstance(placed, Rejection):
            return placed
        domains = domains_of(placed, given)
        if alone is not None and not _may_do(needed, placed, domains, given):
            continue
        found = availability(needed, domains, crews=crews, rng=np.random.default_rng(seed))
        alone = alone or found
        is_rare = need is None or _is_rare(need, needed, domains)
        if is_rare and _may_do(needed, placed, domains, given) and found.low_fraction >= given.target_fraction:
            return _reserve(steady, total - needed, devices, given, found, alone, need)
    return _out_of_reach(steady, given)


# A fleet that must survive the larger of two zones is twice the steady one; beyond four times nothing is gained.
MOST_TIMES, MOST_MORE = 4, 64


def _is_rare(need: PlannedNeed, needed: int, domains: Domains) -> bool:
    """Whether fewer are up than are needed no more often than was chosen."""
    return need.shortfall_fraction(needed, up_chances(domains).tolist()) <= number(need.shortfall)


def _may_do(needed: int, placed: Placement, domains: Domains, given: Reliability) -> bool:
    """Whether a fleet survives what it must, and zones without which it is too small are up often enough by themselves.

    Both are quick to see, and spare the count of everything else for fleets that are far too small.
    """
    total = placed.replicas
    critical = sum(total - row.replicas < needed for row in placed.rows)
    is_up_fraction = (1.0 - domains.zone.down_fraction) ** critical
    left = total - _largest_loss(placed, domains, str(given.survives.value))
    return left >= needed and is_up_fraction >= given.target_fraction


def _largest_loss(placed: Placement, domains: Domains, survives: str) -> int:
    losses = {
        "nothing": 0,
        "replica": 1,
        "node": max(domains.nodes, default=0),
        "zone": placed.largest_zone_replicas,
    }
    return losses[survives]


def _reserve(
    steady: Figure,
    extra: int,
    devices: int,
    given: Reliability,
    found: Availability,
    alone: Availability,
    need: PlannedNeed | None,
) -> FailureReserve:
    rests: tuple[Figure | Assumption, ...] = (steady, *given.inputs, *(() if need is None else need.rests))
    rule = _rule(given, need)
    figure = Figure(
        name="reserve.failure_replicas",
        value=extra,
        unit="replicas",
        formula=f"fewest with which {rule}",
        inputs=rests,
    )
    shown = {
        "reserve.availability_fraction": (found, "share of time with the steady number of replicas up"),
        "reserve.availability_without_fraction": (alone, "the same without the reserve"),
    }
    figures = {figure.name: figure}
    for name, (each, formula) in shown.items():
        figures[name] = Figure(name=name, value=each.fraction, unit="fraction", formula=formula, inputs=rests)
    line = ReserveLine(
        name="failure",
        replicas=extra,
        devices=extra * devices,
        serving_replicas=extra,
        rule=rule,
        protects="the SLO while devices, nodes and zones are down",
        figure=figure,
    )
    return FailureReserve(line=line, availability=found, without=alone, figures=figures)


def _rule(given: Reliability, need: PlannedNeed | None) -> str:
    survived = str(given.survives.value)
    rules = [] if survived == "nothing" else [f"the steady number is up after the loss of {_article(survived)}"]
    if need is not None:
        rules.append(f"the busiest hour falls short with {100.0 * number(need.shortfall):.3g} % at most")
    if given.availability is not None:
        rules.append(f"the steady number is up {100.0 * number(given.availability):g} % of the time")
    return ", and ".join(rules) or "the steady number is up"


def _article(survived: str) -> str:
    return survived if survived == "nothing" else f"a {survived}"


def _hopeless(steady: Figure, sites: Sites, given: Reliability) -> Rejection | None:
    """A target beyond what zones allow: no number of replicas in them helps."""
    zones = len(sites.zones)
    zone = _breakage(given.zone_failures, given.zone_repair, 1)
    ceiling = 1.0 - zone.down_fraction**zones
    figure = Figure(
        name="reserve.availability_ceiling_fraction",
        value=ceiling,
        unit="fraction",
        formula=f"share of time with one of {zones} zones up",
        inputs=(given.zone_failures, given.zone_repair, steady),
    )
    if given.survives.value == "zone" and zones < 2:
        reason = "with one zone, losing it leaves nothing"
    elif ceiling < given.target_fraction:
        reason = f"{zones} zone{'s are' if zones > 1 else ' is'} not up for {given.target_fraction} of the time"
    else:
        return None
    return Rejection(
        stage="reserves",
        reason=reason,
        figure=figure,
        remedies=(
            Remedy(change="one more zone", effect="the loss of a zone leaves the others"),
            Remedy(
                change="a lower reliability.availability, or reliability.survives: node",
                effect="a target that these zones can meet",
            ),
        ),
    )


def _out_of_reach(steady: Figure, given: Reliability) -> Rejection:
    most = MOST_TIMES * int(steady.value) + MOST_MORE
    return Rejection(
        stage="reserves",
        reason=f"not even {most} replicas are enough: the fleet fails too often for the chosen risk"
        if given.availability is None
        else f"not even {most} replicas are enough for {given.availability.value} of the time",
        figure=Figure(
            name="reserve.most_replicas",
            value=most,
            unit="replicas",
            formula="largest fleet tried",
            inputs=(steady, *given.inputs),
        ),
        remedies=(
            Remedy(change="shorter repairs or more repair crews", effect="fewer replicas are down at a time"),
            Remedy(change="a lower reliability.availability", effect="fewer replicas are needed"),
        ),
    )
