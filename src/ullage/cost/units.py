"""What one of anything costs: a request, a token, a success, a task.

Unit costs are fully loaded: idle time, reserves, failed work and every other line are in them, so that unit cost times
units is the bill. A class's part of the bill comes from attribution, by the rule that is named. A *task* is what a user
asked for; it may take several requests, tools, retries, and a second attempt by a better model:

    task    = attempts x (its requests + its tool calls + escalated share x the requests of the second attempt)
    success = task / share of tasks that succeed
"""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.cost.attribution.attribution import AttributionChoice, Idle, TokenWeights, attribute, best_rule
from ullage.cost.attribution.usage import GroupUse, summed_groups
from ullage.cost.lines.line import BillLine
from ullage.cost.quotes import Quotes
from ullage.cost.service_use import ClassUse, Named, ServiceUse, TaskUse
from ullage.errors import check_name
from ullage.evidence import Evidence, Figure, Source
from ullage.prices.book import MissingPrice

MILLION = 1e6
# Where the groups of providers stand beside those of pools; no pool can be called so.
_BOUGHT = " bought"
_WEIGHTS = Source(
    what="answer tokens count as three prompt tokens, cached ones as a tenth",
    where="docs/explanation/cost.md",
    date=datetime.date(2026, 11, 15),
)


@dataclass(frozen=True, kw_only=True)
class UnitCost:
    """One unit's cost, and all without which it says nothing: date and region of prices, model, what a success is."""

    name: str
    per: str
    of: str
    figure: Figure
    model: str
    criterion: str
    region: str
    dates: tuple[datetime.date, ...]

    @property
    def usd(self) -> float:
        return float(self.figure.value)


def class_groups(use: ServiceUse, pool: str | None = None) -> tuple[GroupUse, ...]:
    """Classes as groups that a bill can be attributed to; without a pool, those of providers as well."""
    if pool is not None:
        return tuple(_group(each) for each in use.classes_of(pool))
    return (*(_group(each) for each in use.ending), *_bought(use))


def _bought(use: ServiceUse) -> tuple[GroupUse, ...]:
    """What providers serve, one group for each."""
    return tuple(
        GroupUse(
            name=each.class_name,
            requests=each.requests,
            successes=each.requests * (1.0 - each.failed_fraction),
            prompt_tokens=each.prompt_tokens,
            output_tokens=each.output_tokens,
            cached_tokens=each.cached_tokens,
        )
        for each in use.providers or ()
    )


def _group(each: ClassUse) -> GroupUse:
    return GroupUse(
        name=each.name,
        requests=each.requests,
        successes=each.successes,
        prompt_tokens=each.prompt_tokens,
        output_tokens=each.output_tokens,
        cached_tokens=each.cached_tokens,
        gpu_s=each.gpu_s,
        failed_gpu_s=each.failed_gpu_s,
        caused_devices=each.caused_devices,
    )


def class_cents(use: ServiceUse, lines: Sequence[BillLine]) -> dict[str, int]:
    """Every class's whole part of the bill, idle and reserve spread: by causation, else by GPU time or tokens."""
    uses = {each.name: class_groups(use, each.name) for each in use.pools}
    return _whole_cents(use, lines, {**uses, _BOUGHT: _bought(use)}, by="class")


def model_cents(use: ServiceUse, lines: Sequence[BillLine]) -> dict[str, int]:
    """Every model's whole part of the bill: its pools' own lines, and its part of those of the service."""
    uses = {
        pool.name: (replace(functools.reduce(summed_groups, groups), name=pool.model),)
        for pool in use.pools
        if (groups := class_groups(use, pool.name))
    }
    models = tuple(
        replace(group, name=each.model) for group, each in zip(_bought(use), use.providers or (), strict=True)
    )
    return _whole_cents(use, lines, {**uses, _BOUGHT: models}, by="model")


def _whole_cents(
    use: ServiceUse, lines: Sequence[BillLine], uses: Mapping[str, Sequence[GroupUse]], *, by: str
) -> dict[str, int]:
    """What every group pays with idle and reserve spread; bought tokens have no GPU time to be divided by."""
    is_timed = bool(use.classes) and not use.providers
    rule = best_rule([each for groups in uses.values() for each in groups]) if is_timed else "weighted_tokens"
    choice = AttributionChoice(by=by, rule=rule, idle=Idle.SPREAD)
    return {row.name: row.total_cents for row in attribute(lines, uses, choice).rows}


def unit_costs(
    use: ServiceUse, lines: Sequence[BillLine], quotes: Quotes, total: Figure, *, weights: TokenWeights
) -> tuple[UnitCost, ...]:
    """Per request, success and token, for the service and by class; per task where tasks are described.

    A unit of which there were none has no cost and no row.
    """
    place = _Place(use, quotes)
    found = [place.cost("request", "", total, use.requests), place.cost("success", "", total, use.successes)]
    found += _token_costs(use, total, weights, place)
    if len(use.classes) + len(use.providers or ()) > 1:
        for name, cents in class_cents(use, lines).items():
            found += _class_costs(use, name, cents, total, place)
    models = sorted({each.model for each in use.pools} | {each.model for each in use.providers or ()})
    if len(models) > 1:
        by_model = model_cents(use, lines)
        found += [one for name in models for one in _model_costs(use, name, by_model.get(name, 0), total, place)]
    without_tools = [each for each in lines if each.name != "tool_apis"]
    by_class = class_cents(use, without_tools) if use.tasks else {}
    found += [one for each in use.tasks for one in _task_costs(use, each, by_class, quotes, total, place)]
    return tuple(each for each in found if each is not None)


def _class_costs(use: ServiceUse, name: str, cents: int, total: Figure, place: _Place) -> list[UnitCost | None]:
    members = [each for each in class_groups(use) if each.name == name]
    share = Figure(
        name=f"bill.{name}.total_usd",
        value=cents / 100.0,
        unit="USD",
        formula="the class's part of the bill, idle and reserve spread by its own use",
        inputs=(total, *use.basis),
    )
    return [
        place.cost("request", name, share, sum(each.requests for each in members)),
        place.cost("success", name, share, sum(each.successes for each in members)),
    ]


def _model_costs(use: ServiceUse, model: str, cents: int, total: Figure, place: _Place) -> list[UnitCost | None]:
    pools = {each.name for each in use.pools if each.model == model}
    own = [each for each in use.ending if each.pool in pools]
    bought = [each for each in use.providers or () if each.model == model]
    share = Figure(
        name=f"bill.{model}.total_usd",
        value=cents / 100.0,
        unit="USD",
        formula="the model's part of the bill: lines of its pools, and its part of those of the service",
        inputs=(total, *use.basis),
    )
    requests = sum(each.requests for each in own) + sum(each.requests for each in bought)
    successes = sum(each.successes for each in own)
    successes += sum(each.requests * (1.0 - each.failed_fraction) for each in bought)
    return [
        place.cost("request", model, share, requests, model=model),
        place.cost("success", model, share, successes, model=model),
    ]


def _token_costs(use: ServiceUse, total: Figure, weights: TokenWeights, place: _Place) -> list[UnitCost | None]:
    """The bill over weighted tokens: what a prompt token costs, and the others by their weight."""
    cached = min(use.total("cached_tokens"), use.total("prompt_tokens"))
    counts = {
        "input token": (1.0, use.total("prompt_tokens") - cached),
        "output token": (weights.output_ratio, use.total("output_tokens")),
        "cached token": (weights.cached_ratio, cached),
    }
    weighed = sum(weight * count for weight, count in counts.values())
    return [
        place.cost(per, "", total, weighed / weight / MILLION if weight else 0.0, formula="the bill / weighted tokens")
        for per, (weight, count) in counts.items()
        if count
    ]


def _task_costs(
    use: ServiceUse, task: TaskUse, by_class: Mapping[str, int], quotes: Quotes, total: Figure, place: _Place
) -> list[UnitCost | None]:
    own = _requests_usd(use, task.requests, by_class, task.name)
    again = _requests_usd(use, task.escalated_requests, by_class, task.name)
    prices = {name: quotes.item("tool-call", name) for name in task.calls}
    silent = [name for name, price in prices.items() if isinstance(price, MissingPrice)]
    tools = sum(task.calls[name] * float(each.value) for name, each in prices.items() if isinstance(each, Figure))
    usd = task.attempts_ratio * (own + tools + task.escalated_fraction * again)
    if not math.isfinite(usd):
        return []
    formula = "attempts x (requests + tool calls + escalated share x requests of the second attempt)"
    whole = Figure(
        name=f"bill.task.{task.name}_usd",
        value=usd,
        unit="USD",
        formula=formula + (f", without the calls of {', '.join(silent)}, which are not priced" if silent else ""),
        inputs=(total, *task.basis, *(each for each in prices.values() if isinstance(each, Figure))),
    )
    return [
        place.cost("task", task.name, whole, 1.0),
        place.cost("successful task", task.name, whole, task.success_fraction),
    ]


def _requests_usd(use: ServiceUse, wanted: Mapping[str, float], by_class: Mapping[str, int], task: str) -> float:
    """What these requests cost at their classes' own cost a request."""
    groups = class_groups(use)
    names = {each.name for each in groups}
    usd = 0.0
    for name, count in wanted.items():
        check_name(name, names, field=f"task.{task}.requests")
        requests = sum(each.requests for each in groups if each.name == name)
        usd += count * by_class.get(name, 0) / 100.0 / requests if requests else 0.0
    return usd


def _plural(per: str) -> str:
    return f"{per}es" if per.endswith("s") else f"{per}s"


class _Place:
    """What stands beside every unit cost of one bill."""

    def __init__(self, use: ServiceUse, quotes: Quotes) -> None:
        self._use, self._quotes = use, quotes

    def cost(
        self, per: str, of: str, whole: Figure, count: float, *, formula: str = "", model: str = ""
    ) -> UnitCost | None:
        if not count > 0.0 or not math.isfinite(float(whole.value) / count):
            return None
        is_token = per.endswith("token")
        key = f"per_million_{per.replace(' ', '_')}s_usd" if is_token else f"per_{per.replace(' ', '_')}_usd"
        name = ".".join(each for each in ("bill", of, key) if each)
        classes = [each for each in self._use.classes if of in ("", each.name)] or list(self._use.classes)
        models = {each.name: each.model for each in self._use.pools}
        bought = [each.model for each in self._use.providers or () if of in ("", each.class_name)]
        inputs: tuple[Named, ...] = (whole, *self._use.basis)
        return UnitCost(
            name=name,
            per=f"million {per}s" if is_token else per,
            of=of,
            figure=Figure(
                name=name,
                value=float(whole.value) / count,
                unit="USD",
                formula=formula or f"{'the bill' if not of else 'its part of the bill'} / number of {_plural(per)}",
                inputs=inputs,
                sources=(_WEIGHTS,) if is_token else (),
                own_evidence=Evidence.ASSUMED if is_token else None,
            ),
            model=model
            or ", ".join(sorted({models.get(each.pool, "") for each in classes if each.pool in models} | {*bought})),
            criterion="; ".join(sorted({each.criterion for each in classes})),
            region=", ".join(self._quotes.regions),
            dates=self._quotes.dates,
        )
