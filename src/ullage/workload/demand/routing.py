"""Routing between models: which pools a class's requests go to, and the load of each pool.

    shares        a class is split over pools, by parts that add up to one
    escalation    the first pool answers everything; of each pool's answers a part goes on to the next

Of an escalated class the k-th pool sees the product of the parts that went on before it. Where the first answer goes
along, the next prompt is longer by it. The SLOs of a class hold for every attempt, not for the chain of them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError, check_name
from ullage.evidence import Assumption, Figure
from ullage.workload.demand.demand import ClassTraffic, Demand, together_formula, total_rps
from ullage.workload.forecast.forecast import peak_minute_rps
from ullage.workload.synthetic.model import FRACTIONS, ClassModel, LengthModel

_TOTAL_TOLERANCE = 1e-6


class RouteKind(enum.Enum):
    """How the pools of a route share a class."""

    SHARES = "shares"
    ESCALATION = "escalation"


@dataclass(frozen=True, kw_only=True)
class RouteStep:
    """One pool of a route. `part` is its share of the class, or, in an escalation, the part that goes on from it.

    The last pool of an escalation has none. `success` is how often its model solves a task; None where not stated.
    """

    pool: str
    part: Assumption | None = None
    success: Assumption | None = None


@dataclass(frozen=True, kw_only=True)
class Route:
    """The pools of one class. `carries_answer` is a decision: the next prompt has the answer before it, or not."""

    request_class: str
    kind: RouteKind
    steps: tuple[RouteStep, ...]
    carries_answer: Assumption | None = None

    def __post_init__(self) -> None:
        field = f"routing.{self.request_class}"
        pools = [each.pool for each in self.steps]
        if not pools or len(set(pools)) != len(pools):
            raise InputError(
                field=field, value=pools, problem="must name at least one pool, each once", fix="Name each pool once."
            )
        parts = [each.part for each in self.steps]
        given = parts if self.kind is RouteKind.SHARES else parts[:-1]
        for pool, part in zip(pools, given, strict=False):
            if part is None or not 0.0 <= _number(part) <= 1.0:
                raise InputError(
                    field=f"{field}.{pool}",
                    value=None if part is None else part.value,
                    problem="is not a share from 0 to 1",
                    fix="Give for example 25%.",
                )
        if self.kind is RouteKind.ESCALATION and parts[-1] is not None:
            raise InputError(
                field=f"{field}.{pools[-1]}",
                value=parts[-1].value,
                problem="escalates from the last pool, after which there is none",
                fix="Leave it out, or add a pool.",
            )
        total = sum(_number(part) for part in given if part is not None)
        if self.kind is RouteKind.SHARES and abs(total - 1.0) > _TOTAL_TOLERANCE:
            raise InputError(field=field, value=total, problem="shares do not add up to 1", fix="Correct one of them.")

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        given = [one for each in self.steps for one in (each.part, each.success)]
        return tuple(each for each in (*given, self.carries_answer) if each is not None)

    @property
    def reached_fractions(self) -> tuple[float, ...]:
        """The part of the class's tasks that each pool sees, in order."""
        if self.kind is RouteKind.SHARES:
            return tuple(_number(each.part) for each in self.steps if each.part is not None)
        reached, left = [], 1.0
        for each in self.steps:
            reached.append(left)
            left *= 0.0 if each.part is None else _number(each.part)
        return tuple(reached)

    @property
    def attempts_per_task(self) -> float:
        """Requests that one task of this class makes on average, over all pools."""
        return sum(self.reached_fractions)

    @property
    def success_fractions(self) -> tuple[float, float] | None:
        """How often a task succeeds in the end, or None where a pool's rate is not known.

        The first number is for escalation that is blind to failure: who stops succeeds as often as anybody. The second
        is for one that sends on failures first, so that successes stop wherever they may. For shares they are equal.
        """
        rates = [each.success for each in self.steps]
        if any(each is None for each in rates):
            return None
        blind = best = 0.0
        for reached, step in zip(self.reached_fractions, self.steps, strict=True):
            assert step.success is not None
            rate = _number(step.success)
            onward = _number(step.part) if self.kind is RouteKind.ESCALATION and step.part is not None else 0.0
            blind += reached * (1.0 - onward) * rate
            best += reached * min(1.0 - onward, rate)
        return blind, max(blind, best)


@dataclass(frozen=True, kw_only=True)
class Routing:
    """All routes; a class without one goes to its own pool."""

    routes: tuple[Route, ...] = ()

    def __post_init__(self) -> None:
        names = [each.request_class for each in self.routes]
        for name in names:
            if names.count(name) > 1:
                raise InputError(
                    field="routing", value=name, problem="has two routes", fix="Keep one route for each class."
                )

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return tuple(one for each in self.routes for one in each.inputs)

    def of_class(self, name: str) -> Route | None:
        return next((each for each in self.routes if each.request_class == name), None)

    def serves(self, pool: str, request_class: str, own_pool: str) -> bool:
        """Whether requests of this class come to the pool, by a route or because it is the class's own."""
        route = self.of_class(request_class)
        return own_pool == pool if route is None else any(each.pool == pool for each in route.steps)

    def check(self, classes: Sequence[str], pools: Sequence[str]) -> None:
        """Every name that a route mentions is a class or a pool of the plan."""
        for route in self.routes:
            check_name(route.request_class, classes, field="routing.class")
            for step in route.steps:
                check_name(step.pool, pools, field=f"routing.{route.request_class}")


@dataclass(frozen=True, kw_only=True)
class RoutedClass:
    """One row of the routing table: what a pool sees of a class."""

    request_class: str
    pool: str
    part_fraction: float
    planning_rps: float


@dataclass(frozen=True, kw_only=True)
class Routed:
    """What routing makes of the demand: the pools' parts, the attempts of a task and how often it succeeds."""

    lines: tuple[RoutedClass, ...]
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]


def routed(routing: Routing, demand: Demand) -> Routed:
    """The table, and the figures of every route."""
    lines: list[RoutedClass] = []
    figures: dict[str, Figure] = {}
    for traffic in demand.classes:
        route = routing.of_class(traffic.name)
        if route is None:
            continue
        for step, part in zip(route.steps, route.reached_fractions, strict=True):
            lines.append(
                RoutedClass(
                    request_class=traffic.name,
                    pool=step.pool,
                    part_fraction=part,
                    planning_rps=part * traffic.planning_rps,
                )
            )
            rate = _pool_rate(traffic, route, step.pool, part)
            figures[rate.name] = rate
        figures |= {each.name: each for each in _route_figures(route)}
    return Routed(lines=tuple(lines), figures=figures, notes=tuple(_notes(routing)))


def pool_demand(demand: Demand, routing: Routing, pool: str, own_pools: Mapping[str, str]) -> Demand:
    """The load of one pool: of every class the part that its route brings here, or all of a class of its own.

    `own_pools` maps classes without a route to the pool that serves them.
    """
    classes = tuple(
        found
        for each in demand.classes
        if (found := _pool_class(each, routing.of_class(each.name), pool, own_pools.get(each.name, ""))) is not None
    )
    if not classes:
        raise InputError(
            field="pools",
            value=pool,
            problem="no class is served by it, nor routed to it",
            fix="Name it in a class or a route, or leave it out.",
        )
    if classes == demand.classes:
        return demand
    # Named by the pool from the start: the service's own figures have the plain names.
    total = _total(classes, pool)
    tokens = Figure(
        name=f"{pool}.demand.token_rate",
        value=sum(float(each.figures[f"demand.{each.name}.token_rate"].value) for each in classes),
        unit="tokens/s",
        formula="sum of the classes' prompt and output tokens in their busiest hours, for the share routed to this "
        "pool",
        inputs=tuple(each.figures[f"demand.{each.name}.token_rate"] for each in classes),
    )
    return Demand(
        classes=classes,
        planning_rps=float(total.value),
        horizon_s=demand.horizon_s,
        figures={
            "demand.planning_rate": total,
            "demand.token_rate": tokens,
            **{key: figure for each in classes for key, figure in each.figures.items()},
        },
    )


def _pool_class(traffic: ClassTraffic, route: Route | None, pool: str, own_pool: str) -> ClassTraffic | None:
    if route is None:
        return traffic if own_pool == pool else None
    places = [place for place, step in enumerate(route.steps) if step.pool == pool]
    if not places or route.reached_fractions[places[0]] <= 0.0:
        return None
    part, carries = route.reached_fractions[places[0]], places[0] > 0 and _carries(route)
    if part == 1.0 and not carries:
        return traffic
    model = replace(traffic.model, mean_rate_rps=traffic.model.mean_rate_rps * part)
    if carries:
        model = replace(model, lengths=with_answers(model.lengths, places[0], traffic.longest_context_tokens))
    formula = f"{part:.4g} of the class is routed to this pool"
    return seen_by(traffic, model, pool, part=part, formula=formula, inputs=route.inputs)


def _carries(route: Route) -> bool:
    return (
        route.kind is RouteKind.ESCALATION and route.carries_answer is not None and bool(route.carries_answer.value)
    )  # fmt: skip


def with_answers(lengths: LengthModel, answers: int, longest_tokens: int) -> LengthModel:
    """The lengths of requests whose prompts carry so many earlier answers, within the longest context."""
    prompts, outputs = lengths.pairs()
    room = max(1.0, longest_tokens - lengths.output_tokens[-1])
    carried = np.quantile(prompts + answers * outputs.astype(np.int64), FRACTIONS)
    return replace(lengths, prompt_tokens=tuple(np.minimum(carried, room).tolist()))


def seen_by(
    traffic: ClassTraffic,
    model: ClassModel,
    pool: str,
    *,
    part: float = 1.0,
    formula: str,
    inputs: tuple[Assumption, ...],
) -> ClassTraffic:
    """The class as the pool sees it: rates times the part, lengths the model's; bursts come to all pools alike.

    What that changes of its figures is explained by the formula and rests on the inputs.
    """
    name = traffic.name

    def scaled(what: str, value: float) -> Figure:
        whole = traffic.figures[f"demand.{name}.{what}"]
        if value == whole.value:
            return whole
        return Figure(
            name=f"{pool}.{whole.name}", value=value, unit=whole.unit, formula=formula, inputs=(whole, *inputs)
        )

    planning_rps = traffic.planning_rps * part
    dispersion = model.bursts.dispersion(60.0, model.mean_rate_rps)
    prompts, outputs = model.lengths.pairs()
    request_tokens = float(prompts.mean() + outputs.mean())
    minute_rps = peak_minute_rps(planning_rps, dispersion)
    values = {
        "planning_rate": planning_rps,
        "peak_minute": minute_rps,
        "mean_rate": traffic.mean_rps * part,
        "token_rate": planning_rps * request_tokens,
        "request_tokens": request_tokens,
        "minute_dispersion": dispersion,
    }
    columns = {"prompt": prompts, "output": outputs}
    for key in traffic.figures:
        what = key.removeprefix(f"demand.{name}.")
        side, _, percentile = what.partition("_p")
        if side in columns and percentile:
            values[what] = float(np.quantile(columns[side], float(percentile) / 100.0))
    return replace(
        traffic,
        mean_rps=traffic.mean_rps * part,
        middle_rps=traffic.middle_rps * part,
        planning_rps=planning_rps,
        peak_minute_rps=minute_rps,
        model=model,
        # What a route does not change, such as the cached share, is the class's own.
        figures={**traffic.figures, **{f"demand.{name}.{what}": scaled(what, value) for what, value in values.items()}},
    )


def _total(classes: Sequence[ClassTraffic], pool: str) -> Figure:
    return Figure(
        name=f"{pool}.demand.planning_rate",
        value=total_rps(classes),
        unit="req/s",
        formula=together_formula(classes, "what is routed to this pool"),
        inputs=tuple(each.figures[f"demand.{each.name}.planning_rate"] for each in classes),
    )


def _pool_rate(traffic: ClassTraffic, route: Route, pool: str, part: float) -> Figure:
    return Figure(
        name=f"routing.{traffic.name}.{pool}.planning_rate",
        value=part * traffic.planning_rps,
        unit="req/s",
        formula=f"planning rate x {part:.4g}, the part of the class that reaches the pool",
        inputs=(traffic.figures[f"demand.{traffic.name}.planning_rate"], *route.inputs),
    )


def _route_figures(route: Route) -> Iterator[Figure]:
    yield Figure(
        name=f"routing.{route.request_class}.attempts_per_task",
        value=route.attempts_per_task,
        unit="requests",
        formula="sum over the pools of the part of tasks that reaches them",
        inputs=route.inputs,
    )
    found = route.success_fractions
    if found is not None:
        for name, value, formula in (
            ("success_blind_fraction", found[0], "tasks that succeed if escalation is blind to failure"),
            ("success_best_fraction", found[1], "tasks that succeed if failures are escalated first"),
        ):
            yield Figure(
                name=f"routing.{route.request_class}.{name}",
                value=value,
                unit="fraction",
                formula=formula,
                inputs=route.inputs,
            )


def _notes(routing: Routing) -> Iterator[str]:
    if any(each.kind is RouteKind.ESCALATION for each in routing.routes):
        yield "The SLOs of an escalated class apply to every attempt; an escalated task waits for both."
    silent = [each.request_class for each in routing.routes if each.success_fractions is None]
    if silent:
        yield f"How often the models solve a task of {', '.join(silent)} is not stated: no success rate is given."


def _number(given: Assumption) -> float:
    if isinstance(given.value, str) or not math.isfinite(given.value):
        raise InputError(field=given.name, value=given.value, problem="is not a number", fix="Give a share, as 25%.")
    return float(given.value)
