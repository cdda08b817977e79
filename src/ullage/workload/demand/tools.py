"""Tools that tasks wait for: how many tasks a second they allow, how loaded they are, and what waiting holds.

    capacity     min(concurrency / latency, rate limit) x (1 - errors) / calls of a task      tasks a second
    load         tasks of the planning rate, and the calls they make, failed ones again
    waiting      calls per second x latency sequences wait at any time (Little's law); with their KV kept they hold
                 that many contexts of KV, with it dropped every return computes its context again

A tool whose capacity lies below what the devices can serve is the binding constraint, however many devices there are:
fleet/binding.py compares the two. What waits in front of a tool that is nearly full is not in these numbers.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError, Rejection, Remedy, check_name
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.workload.demand.demand import ClassTraffic, Demand

KEPT, DROPPED = "kept", "dropped"
# A queue in front of a tool is short below this share of its capacity; above it waits grow without a number here.
BUSY_FRACTION = 0.7

_DEFAULTS = Source(
    what="default of a tool in a plan: one call per task, one second long, KV dropped as engines do",
    where="docs/reference/plan-file.md",
    date=datetime.date(2026, 11, 15),
)


def default(tool: str, what: str) -> Assumption:
    """What is assumed of a tool of which this was not stated; each with the reason in its range."""
    value, unit, low, high, decision = _DEFAULT_VALUES[what]
    return Assumption(
        name=f"tools.{tool}.{what}",
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=_DEFAULTS,
        low=low,
        high=high,
        decision=decision,
    )


# One call and one request a task is what a tool costs at least; a second is between a cache look-up and a test run;
# one call in a hundred fails on most public interfaces; an engine frees a sequence that has ended its turn.
_DEFAULT_VALUES: Mapping[str, tuple[int | float | str, str, float | None, float | None, bool]] = {
    "calls_per_task": (1.0, "calls", 0.0, 50.0, False),
    "requests_per_task": (1.0, "requests", 1.0, 50.0, False),
    "latency": (1.0, "s", 0.02, 120.0, False),
    "error_rate": (0.01, "fraction", 0.0, 0.2, False),
    "while_waiting": (DROPPED, "", None, None, True),
}


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool, as `classes` use it. `concurrency` (calls at once) and `rate_limit` (calls/s) are None without limit.

    A task is `requests_per_task` requests and `calls_per_task` calls; a call that fails is made again.
    """

    name: str
    classes: tuple[str, ...]
    calls_per_task: Assumption
    requests_per_task: Assumption
    latency: Assumption
    error_rate: Assumption
    while_waiting: Assumption
    concurrency: Assumption | None = None
    rate_limit: Assumption | None = None

    def __post_init__(self) -> None:
        _check(self.calls_per_task, _number(self.calls_per_task) >= 0.0, "must be 0 or more")
        _check(self.requests_per_task, _number(self.requests_per_task) >= 1.0, "must be 1 or more")
        _check(self.latency, _number(self.latency) > 0.0, "must be greater than 0")
        _check(self.error_rate, 0.0 <= _number(self.error_rate) < 1.0, "must be a share below 1")
        for limit in (self.concurrency, self.rate_limit):
            if limit is not None:
                _check(limit, _number(limit) > 0.0, "must be greater than 0")
        check_name(str(self.while_waiting.value), (KEPT, DROPPED), field=self.while_waiting.name)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return tuple(self._each_input())

    def _each_input(self) -> Iterator[Assumption]:
        yield from (self.calls_per_task, self.requests_per_task, self.latency, self.error_rate, self.while_waiting)
        yield from (each for each in (self.concurrency, self.rate_limit) if each is not None)

    @property
    def capacity_calls_per_s(self) -> float:
        """Good calls a second at most; infinite without a limit."""
        slots = math.inf if self.concurrency is None else _number(self.concurrency) / _number(self.latency)
        rate = math.inf if self.rate_limit is None else _number(self.rate_limit)
        return min(slots, rate) * (1.0 - _number(self.error_rate))

    @property
    def limited_by(self) -> str:
        """Which of its limits is the lower one."""
        if self.concurrency is None and self.rate_limit is None:
            return "no stated limit"
        slots = math.inf if self.concurrency is None else _number(self.concurrency) / _number(self.latency)
        rate = math.inf if self.rate_limit is None else _number(self.rate_limit)
        return "concurrency" if slots < rate else "rate limit"


@dataclass(frozen=True, kw_only=True)
class ToolLoad:
    """One tool under the planning rate. Capacities are infinite for a tool without a limit.

    Load and capacity are the service's; `tried_calls_per_s` has the failed calls in it. `waiting_requests` are the
    pool's, `held_tokens` is the KV that they keep at any time, in all replicas; `recomputed_tokens_per_s` is the prompt
    that comes again because it was dropped.
    """

    name: str
    tasks_per_s: float
    tried_calls_per_s: float
    capacity_tasks_per_s: float
    limited_by: str
    waiting_requests: float
    held_tokens: float
    recomputed_tokens_per_s: float

    @property
    def use_fraction(self) -> float:
        return self.tasks_per_s / self.capacity_tasks_per_s if self.capacity_tasks_per_s > 0.0 else math.inf

    @property
    def growth_fraction(self) -> float:
        """How much more traffic the tool takes; negative where it does not take the planned one."""
        return self.capacity_tasks_per_s / self.tasks_per_s - 1.0 if self.tasks_per_s > 0.0 else math.inf


@dataclass(frozen=True, kw_only=True)
class ToolLoads:
    """All tools of a pool, in the order in which they are listed."""

    lines: tuple[ToolLoad, ...]
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    @property
    def tightest(self) -> ToolLoad | None:
        """The tool that allows the least growth, if one has a limit."""
        limited = [each for each in self.lines if math.isfinite(each.growth_fraction)]
        return min(limited, key=lambda each: each.growth_fraction, default=None)

    @property
    def held_tokens(self) -> float:
        return sum(each.held_tokens for each in self.lines)


def tool_loads(tools: Sequence[Tool], demand: Demand, *, service: Demand | None = None) -> ToolLoads:
    """Every tool that classes of this demand use, at the planning rate; a class that the demand lacks is not asked.

    Several pools share a tool: its load is that of the whole `service`, what waits and is computed again is the pool's.
    """
    lines: list[ToolLoad] = []
    figures: dict[str, Figure] = {}
    for tool in tools:
        users = [each for each in demand.classes if each.name in tool.classes]
        everyone = [each for each in (service or demand).classes if each.name in tool.classes]
        if users:
            line = _load(tool, users, everyone)
            lines.append(line)
            figures |= _figures(tool, line, users, everyone)
    return ToolLoads(lines=tuple(lines), figures=figures, notes=tuple(_notes(lines)))


def saturated_tool(tools: Sequence[Tool], demand: Demand) -> Rejection | None:
    """The refusal of a service whose tool takes fewer tasks than are planned for: no fleet would serve them.

    It is asked before any replica is planned. Of several such tools the one is named that takes the smallest part.
    """
    loads = tool_loads(tools, demand)
    full = [each for each in loads.lines if each.use_fraction > 1.0]
    if not full:
        return None
    worst = max(full, key=lambda each: each.use_fraction)
    tool = next(each for each in tools if each.name == worst.name)
    others = [each.name for each in full if each is not worst]
    also = f"; {', '.join(others)} too" if others else ""
    return Rejection(
        stage="tools",
        reason=f"tool {worst.name} takes at most {worst.capacity_tasks_per_s:.3g} tasks/s of the "
        f"{worst.tasks_per_s:.3g} planned, limited by its {worst.limited_by}: more devices do not help{also}",
        figure=loads.figures[f"tools.{worst.name}.use_fraction"],
        remedies=tuple(_remedies(tool, worst)),
    )


def _remedies(tool: Tool, load: ToolLoad) -> Iterator[Remedy]:
    """The limit that would do, fewer calls, or less traffic; a limit is raised only where it is the lower one."""
    needed = load.tried_calls_per_s
    if tool.concurrency is not None and _number(tool.concurrency) / _number(tool.latency) < needed:
        slots = math.ceil(needed * _number(tool.latency))
        yield Remedy(change=f"{tool.concurrency.name} of {slots}", effect="the tool handles the planned load")
    if tool.rate_limit is not None and _number(tool.rate_limit) < needed:
        yield Remedy(
            change=f"{tool.rate_limit.name} of {needed:.3g} calls/s", effect="the tool handles the planned load"
        )
    calls = _number(tool.calls_per_task) * load.capacity_tasks_per_s / load.tasks_per_s
    yield Remedy(change=f"{tool.calls_per_task.name} of at most {calls:.3g}", effect="its limits are enough")
    share = 1.0 - load.capacity_tasks_per_s / load.tasks_per_s
    yield Remedy(change=f"--traffic -{100 * share:.3g}%", effect="its limits are enough")


def _load(tool: Tool, users: Sequence[ClassTraffic], everyone: Sequence[ClassTraffic]) -> ToolLoad:
    calls, latency_s = _number(tool.calls_per_task), _number(tool.latency)
    tasks_per_s = sum(each.planning_rps for each in everyone) / _number(tool.requests_per_task)
    tried = tasks_per_s * calls / (1.0 - _number(tool.error_rate))
    own = sum(each.planning_rps for each in users) / sum(each.planning_rps for each in everyone)
    waiting = own * tried * latency_s
    context = sum(each.planning_rps * _context_tokens(each) for each in users) / sum(
        each.planning_rps for each in users
    )
    kept = tool.while_waiting.value == KEPT
    return ToolLoad(
        name=tool.name,
        tasks_per_s=tasks_per_s,
        tried_calls_per_s=tried,
        capacity_tasks_per_s=tool.capacity_calls_per_s / calls if calls > 0.0 else math.inf,
        limited_by=tool.limited_by,
        waiting_requests=waiting,
        held_tokens=waiting * context if kept else 0.0,
        # A task comes back once for every good call, whatever failed in between.
        recomputed_tokens_per_s=0.0 if kept else own * tasks_per_s * calls * context,
    )


def _context_tokens(traffic: ClassTraffic) -> float:
    """Mean tokens of a sequence when it ends its turn: its prompt and its answer."""
    prompts, outputs = traffic.model.lengths.pairs()
    return float(prompts.mean() + outputs.mean())


def _figures(
    tool: Tool, line: ToolLoad, users: Sequence[ClassTraffic], everyone: Sequence[ClassTraffic]
) -> dict[str, Figure]:
    rates = tuple(each.figures[f"demand.{each.name}.planning_rate"] for each in everyone)
    own = tuple(each.figures[f"demand.{each.name}.planning_rate"] for each in users)
    lengths = tuple(each.figures[f"demand.{each.name}.request_tokens"] for each in users)
    load = Figure(
        name=f"tools.{tool.name}.load_tasks_per_s",
        value=line.tasks_per_s,
        unit="tasks/s",
        formula="planning rate of the classes that use it / requests of a task",
        inputs=(*rates, tool.requests_per_task),
    )
    made = [load]
    if math.isfinite(line.capacity_tasks_per_s):
        capacity = Figure(
            name=f"tools.{tool.name}.capacity_tasks_per_s",
            value=line.capacity_tasks_per_s,
            unit="tasks/s",
            formula=f"min(concurrency / latency, rate limit) x (1 - errors) / calls; its {line.limited_by} limits it",
            inputs=tool.inputs,
        )
        use = Figure(
            name=f"tools.{tool.name}.use_fraction",
            value=line.use_fraction,
            unit="fraction",
            formula="load / capacity",
            inputs=(load, capacity),
        )
        made += [capacity, use]
    waiting = {
        "held_tokens": (line.held_tokens, "tokens", "calls per second x latency x mean context, with KV kept"),
        "recomputed_tokens_per_s": (
            line.recomputed_tokens_per_s,
            "tokens/s",
            "successful calls per second x mean context, with KV dropped",
        ),
    }
    what = "held_tokens" if tool.while_waiting.value == KEPT else "recomputed_tokens_per_s"
    value, unit, formula = waiting[what]
    made.append(
        Figure(
            name=f"tools.{tool.name}.{what}",
            value=value,
            unit=unit,
            formula=formula,
            inputs=(load, *own, tool.calls_per_task, tool.latency, tool.error_rate, tool.while_waiting, *lengths),
        )
    )
    return {each.name: each for each in made}


def _notes(lines: Sequence[ToolLoad]) -> Iterator[str]:
    for each in lines:
        if each.use_fraction > BUSY_FRACTION:
            yield f"Tool {each.name} is {each.use_fraction:.0%} used: queueing for it is not in this plan."


def _check(given: Assumption, holds: bool, problem: str) -> None:
    if not holds:
        raise InputError(field=given.name, value=given.value, problem=problem, fix="Correct the tool's section.")


def _number(given: Assumption) -> float:
    if isinstance(given.value, str) or not math.isfinite(given.value):
        raise InputError(field=given.name, value=given.value, problem="is not a number", fix="Give a number.")
    return float(given.value)
