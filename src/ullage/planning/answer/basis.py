"""What moves the plan, and how well it is maintained: by influence, with evidence, age, maximum age and owner."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ullage.cost.bill import Bill
from ullage.evidence import Assumption, Evidence, Figure, Source, assumptions_of, each_once, number, weakest
from ullage.fleet.risk.load_draws import DEMAND
from ullage.fleet.risk.surface import CACHED, OUTPUTS, PROMPTS, STEPS
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.prices.age import price_drift
from ullage.prices.packaged import list_fall
from ullage.service.stage import band_of
from ullage.workload.demand.outcomes import lengths_evidence

PRICE = "price"
LEAST_INFLUENCE = 0.05
"""Of the spread: what explains less may go without an owner."""
_DAY = datetime.timedelta(days=1)
_LENGTHS = {PROMPTS: ("prompt_p95", "prompt"), OUTPUTS: ("output_p95", "output"), CACHED: ("cached_fraction",) * 2}


@dataclass(frozen=True, kw_only=True)
class InputBasis:
    """One input that the risk hangs on. `influence` is the part of the spread that it explains, where it was studied.

    `age_days` is that of the oldest it rests on. `drift` is what was added to its band since it is past its age;
    `owners` are those of its keys, `unowned` the keys that have none.
    """

    name: str
    influence: Figure | None
    evidence: Evidence
    age_days: int
    max_age_days: int | None
    is_past: bool
    drift: Assumption | None
    owners: tuple[str, ...]
    unowned: tuple[str, ...]


def input_bases(plan: Plan, bill: Bill | None) -> tuple[InputBasis, ...]:
    """Every input that draws are made of, what explains most first."""
    found = [_demand(plan), *_shapes(plan), *(_steps(plan, each) for each in plan.pools), *_prices(plan, bill)]
    return tuple(sorted(found, key=lambda each: -1.0 if each.influence is None else -number(each.influence)))


def unowned_drivers(bases: Iterable[InputBasis]) -> tuple[InputBasis, ...]:
    """Inputs without an owner that explain a relevant part of the spread."""
    return tuple(
        each for each in bases if each.unowned and each.influence is not None
        and number(each.influence) >= LEAST_INFLUENCE
    )  # fmt: skip


def _influence(plan: Plan, name: str, pool: str = "") -> Figure | None:
    """The largest part that it explains, of one pool or of any."""
    found = [
        each
        for key, each in plan.figures_of("uncertainty").items()
        if key.endswith(f"driver.{name}_fraction") and (not pool or len(plan.pools) == 1 or key.startswith(f"{pool}."))
    ]
    return max(found, key=number, default=None)


def _basis(
    plan: Plan,
    name: str,
    known: Iterable[Figure | Assumption],
    keys: Iterable[str],
    *,
    influence: Figure | None,
    drift: Assumption | None = None,
    is_past: bool = False,
    evidence: Evidence | None = None,
) -> InputBasis:
    rests = tuple(known)
    dates = [each.date for each in each_once(rests) if isinstance(each, Source)]
    behind = assumptions_of(rests)
    limits = [each.max_age for each in behind if each.max_age is not None]
    stale = any(each.is_stale(plan.as_of) for each in behind)
    owners = {key: plan.spec.owners.of_key(key) for key in keys}
    return InputBasis(
        name=name,
        influence=influence,
        evidence=evidence or weakest(each.evidence for each in rests),
        age_days=(plan.as_of - min(dates)) // _DAY,
        max_age_days=min(limits) // _DAY if limits else None,
        is_past=is_past or stale or drift is not None,
        drift=drift,
        owners=tuple(dict.fromkeys(each for each in owners.values() if each is not None)),
        unowned=tuple(key for key, each in owners.items() if each is None) if plan.spec.owners.are_given else (),
    )


def _demand(plan: Plan) -> InputBasis:
    names = [each.request_class.name for each in plan.spec.demands]
    drifts = [each.shape.drift for each in plan.spec.demands if each.shape is not None and each.shape.drift is not None]
    return _basis(
        plan,
        DEMAND,
        [each.mean_rate for each in plan.spec.demands],
        [f"workload.classes.{name}.rate" for name in names],
        influence=_influence(plan, DEMAND),
        drift=max(drifts, key=number, default=None),
    )


def _shapes(plan: Plan) -> Iterator[InputBasis]:
    figures = plan.figures_of("demand")
    names = [each.request_class.name for each in plan.spec.demands]
    old = any(each.shape is not None and each.shape.has_old_lengths for each in plan.spec.demands)
    for what, (figure, key) in _LENGTHS.items():
        own = [figures[f"demand.{name}.{figure}"] for name in names]
        stated = [each for one in own for each in one.inputs if isinstance(each, Assumption)]
        yield _basis(
            plan,
            what,
            stated if len(stated) >= len(own) else own,
            [f"workload.classes.{name}.{key}" for name in names],
            influence=_influence(plan, what),
            is_past=old,
            evidence=weakest(lengths_evidence(each) for each in own),
        )


def _steps(plan: Plan, pool: PoolPlan) -> InputBasis:
    """By the band, whose evidence is that of the step model."""
    several = len(plan.pools) > 1
    name = pool.spec.name
    band = band_of(pool.step_model)
    key = f"pools.{name}.evidence" if several else "evidence"
    owned = key if plan.spec.owners.of_key(key) is not None or several else "pool"
    return _basis(
        plan,
        f"{STEPS} of {name}" if several else STEPS,
        pool.step_model.facts or (band.assumption,),
        [owned],
        influence=_influence(plan, STEPS, name),
        drift=pool.step_model.drift,
        evidence=band.evidence,
    )


def _prices(plan: Plan, bill: Bill | None) -> Iterator[InputBasis]:
    quotes = [] if bill is None else [each for each in bill.quotes.devices.values() if isinstance(each, tuple)]
    hours = [one.hour for each in quotes for one in each]
    if hours:
        device = plan.spec.pool.device.name
        yield _basis(
            plan,
            PRICE,
            hours,
            ["prices"],
            influence=_influence(plan, PRICE),
            drift=price_drift(hours, plan.as_of, list_fall(device)),
        )
