"""Rules that can be tried: what each reads, and the controller that turns readings into replicas during a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.scaling.hpa import SYNC_S, HpaMetric, HpaSpec, HpaState, MetricKind, MetricReading, PodReadings, hpa_step
from ullage.scaling.keda import KedaSpec, KedaState, keda_step, polled
from ullage.scaling.knative import TICK_S, KnativeSpec, KnativeState, knative_step
from ullage.scaling.planners.dynamo import DynamoSpec, DynamoState, DynamoTarget, load_target, traffic_target
from ullage.scaling.planners.predictive import PredictiveSpec, PredictiveState, predictive_step
from ullage.scaling.planners.variant import (
    DESIRED,
    SHAPE_S,
    WINDOW_S,
    ReplicaLoad,
    StepLimits,
    VariantSpec,
    VariantState,
    percentage_target,
    token_target,
)
from ullage.scaling.signals import Aggregate, MetricQuery, Signal, SignalReader
from ullage.simulate.fleet import Signals


@dataclass(frozen=True, kw_only=True)
class ScheduleSpec:
    """Replicas by time: the count holds from its time on. A fixed fleet has one entry."""

    times_s: tuple[float, ...]
    replicas: tuple[int, ...]

    def at(self, now_s: float) -> int:
        return self.replicas[max(0, bisect_right(self.times_s, now_s) - 1)]


RuleSpec = HpaSpec | KedaSpec | KnativeSpec | PredictiveSpec | VariantSpec | DynamoSpec | ScheduleSpec


@dataclass(frozen=True, kw_only=True)
class ScalingRule:
    """A rule by name. `queries` say what each of its metrics or triggers reads, under the metric's or trigger's name; a
    trigger without a query follows `schedule`, replicas by hour of the week."""

    name: str
    spec: RuleSpec
    queries: Mapping[str, MetricQuery] = field(default_factory=dict)
    schedule: tuple[int, ...] = ()
    where: str = ""

    @property
    def period_s(self) -> float:
        """How often the rule decides."""
        if isinstance(self.spec, KnativeSpec):
            return TICK_S
        if isinstance(self.spec, KedaSpec):
            return min(SYNC_S, self.spec.polling_s)
        if isinstance(self.spec, DynamoSpec):
            return min(SYNC_S, self.spec.period_s)
        return self.spec.sync_s if isinstance(self.spec, HpaSpec) else SYNC_S

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the most replicas it asks for; 0 for no most."""
        if isinstance(self.spec, ScheduleSpec):
            return min(self.spec.replicas), max(self.spec.replicas)
        return self.spec.least_replicas, self.spec.most_replicas

    @property
    def lag_s(self) -> float:
        """What the rule itself adds between a change and its answer: half of every window it averages over, its period,
        and how long it waits to be sure of going up."""
        window_s = max((each.window_s for each in self.queries.values()), default=0.0)
        spec = self.spec
        if isinstance(spec, KnativeSpec):
            return TICK_S + spec.panic_s / 2.0
        if isinstance(spec, VariantSpec | DynamoSpec):
            return self.period_s + (spec.interval_s if isinstance(spec, VariantSpec) else spec.period_s) / 2.0
        behavior = spec.behavior if isinstance(spec, HpaSpec | KedaSpec) else None
        return self.period_s + window_s / 2.0 + (0.0 if behavior is None else behavior.up.window_s)


class Controller:
    """A rule under way: its state, and the replicas it asks for. `decide` is called at every tick."""

    def __init__(self, rule: ScalingRule, reader: SignalReader, *, replicas: int, week_s: float = 0.0) -> None:
        self.rule, self.reader = rule, reader
        self.replicas, self.week_s = replicas, week_s
        self.hpa, self.keda = HpaState(), KedaState()
        self.knative, self.predictive = KnativeState(), PredictiveState()
        self.variant, self.dynamo = VariantState(), DynamoState()
        self.next_poll_s = self.next_sync_s = 0.0
        self.rates: list[tuple[float, float]] = []

    def decide(self, seen: Signals) -> int:
        spec = self.rule.spec
        if isinstance(spec, ScheduleSpec):
            self.replicas = spec.at(seen.at_s)
        elif not self.reader.has_begun(seen):
            return self.replicas
        elif isinstance(spec, HpaSpec):
            self._hpa(spec, seen)
        elif isinstance(spec, KedaSpec):
            self._keda(spec, seen)
        elif isinstance(spec, KnativeSpec):
            self._knative(spec, seen)
        elif isinstance(spec, VariantSpec):
            self._variant(spec, seen)
        elif isinstance(spec, DynamoSpec):
            self._dynamo(spec, seen)
        else:
            self._predictive(spec, seen)
        return self.replicas

    def _hpa(self, spec: HpaSpec, seen: Signals) -> None:
        readings = [self._reading(each, seen) for each in spec.metrics]
        decision = hpa_step(spec, self.hpa, readings, now_s=seen.at_s, current=self.replicas, ready=seen.ready_replicas)
        self.hpa, self.replicas = decision.state, decision.replicas

    def _reading(self, metric: HpaMetric, seen: Signals) -> MetricReading:
        query = self.rule.queries[metric.signal]
        value = self.reader.value(query, seen)
        if value is None:
            return None
        if metric.kind in (MetricKind.VALUE, MetricKind.AVERAGE):
            return int(1000 * value)
        # Pod by pod: the mean of ready pods; those that still start are unready.
        pods = seen.ready_replicas
        each = value if query.aggregate is not Aggregate.SUM else value / max(1, pods)
        return PodReadings(
            total_milli=int(1000 * each) * pods,
            pods=pods,
            unready_pods=seen.starting_replicas,
            request_milli=1000,
        )

    def _keda(self, spec: KedaSpec, seen: Signals) -> None:
        values = {each.name: self._trigger(each.name, seen) for each in spec.triggers}
        if seen.at_s >= self.next_poll_s - 1e-9:
            self.next_poll_s = seen.at_s + spec.polling_s
            if self.replicas == 0:
                # Requests that found no replica are held by a gateway, and are what its queue shows.
                values = {name: value or float(seen.held_requests) for name, value in values.items()}
            self.keda, self.replicas = polled(spec, self.keda, values, now_s=seen.at_s, current=self.replicas)
        if seen.at_s >= self.next_sync_s - 1e-9:
            self.next_sync_s = seen.at_s + SYNC_S
            self.keda, decision = keda_step(
                spec, self.keda, values, now_s=seen.at_s, current=self.replicas, ready=seen.ready_replicas
            )
            self.replicas = decision.replicas

    def _trigger(self, name: str, seen: Signals) -> float | None:
        if name in self.rule.queries:
            return self.reader.value(self.rule.queries[name], seen)
        hours = self.rule.schedule
        return float(hours[int((self.week_s + seen.at_s) // 3600.0) % len(hours)]) if hours else None

    def _knative(self, spec: KnativeSpec, seen: Signals) -> None:
        signal = Signal.REQUEST_RATE if spec.signal == "rps" else Signal.OUTSTANDING
        stable, panic = (
            self.reader.value(MetricQuery(signals=(signal,), aggregate=Aggregate.SUM, window_s=window_s), seen)
            for window_s in (spec.stable_s, spec.panic_s)
        )
        if signal is Signal.OUTSTANDING and stable is not None and panic is not None:
            # What the activator holds counts as concurrency.
            stable, panic = stable + seen.held_requests, panic + seen.held_requests
        decision = knative_step(
            spec, self.knative, stable=stable, panic=panic, now_s=seen.at_s, ready=seen.ready_replicas
        )
        if decision is not None:
            self.knative, self.replicas = decision.state, decision.replicas

    def _predictive(self, spec: PredictiveSpec, seen: Signals) -> None:
        value = self.reader.value(self.rule.queries["rate"], seen)
        if value is not None:
            self.rates = [each for each in self.rates if each[0] > seen.at_s - spec.trend_s] + [(seen.at_s, value)]
        times = [at for at, _ in self.rates]
        self.predictive, wanted = predictive_step(
            spec, self.predictive, times, [rate for _, rate in self.rates], now_s=seen.at_s, week_s=self.week_s
        )
        self.replicas = self.replicas if wanted is None else wanted

    def _variant(self, spec: VariantSpec, seen: Signals) -> None:
        """What the planner says once an interval, followed by its autoscaler at every sync."""
        if seen.at_s >= self.variant.next_s - 1e-9:
            self.variant = self._said(spec, seen)
        desired, follower = self.variant.desired_replicas, spec.follower
        if isinstance(follower, HpaSpec):
            decision = hpa_step(
                follower, self.hpa, [1000 * desired], now_s=seen.at_s, current=self.replicas, ready=seen.ready_replicas
            )
            self.hpa, self.replicas = decision.state, decision.replicas
            return
        self.keda, decision = keda_step(
            follower, self.keda, {DESIRED: float(desired)}, now_s=seen.at_s, current=self.replicas,
            ready=seen.ready_replicas,
        )  # fmt: skip
        self.replicas = decision.replicas

    def _said(self, spec: VariantSpec, seen: Signals) -> VariantState:
        loads, current = self._loads(seen), seen.ready_replicas + seen.starting_replicas
        next_s, history = seen.at_s + spec.interval_s, self.variant.history
        if spec.by_tokens:
            terms = self.reader.replica
            limits = StepLimits(budget_tokens=terms.budget_tokens, max_sequences=terms.max_sequences)
            target, history = token_target(
                spec, loads, current=current, pending=seen.starting_replicas, history=history, limits=limits
            )
        else:
            # What it said as far as its autoscaler and the platform took it.
            target = percentage_target(
                spec, loads, current=current, desired=self.replicas if self.variant.desired_replicas else 0
            )
        bounded = max(target, 1)
        return VariantState(
            desired_replicas=min(bounded, spec.most_replicas) if spec.most_replicas else bounded,
            history=history,
            next_s=next_s,
        )

    def _loads(self, seen: Signals) -> list[ReplicaLoad]:
        """Replicas one by one. The pool's gauges are sums, so that they are alike, as a router that balances has them,
        and what waits is dealt out evenly."""
        pods = seen.ready_replicas
        kv, waiting = (
            self.reader.highest(each, seen, WINDOW_S) for each in (Signal.ACTIVE_TOKENS, Signal.WAITING)
        )  # fmt: skip
        if kv is None or waiting is None or pods == 0:
            return []
        prompt, output = self.reader.mean_lengths(seen, SHAPE_S)
        capacity, held = self.reader.replica.kv_tokens, kv / pods
        each, over = divmod(int(waiting), pods)
        return [
            ReplicaLoad(
                kv_fraction=held / capacity,
                queue_requests=each + (place < over),
                kv_tokens=capacity,
                held_tokens=int(held),
                prompt_tokens=prompt,
                output_tokens=output,
            )
            for place in range(pods)
        ]

    def _dynamo(self, spec: DynamoSpec, seen: Signals) -> None:
        if seen.at_s < self.dynamo.next_s - 1e-9:
            return
        state = self.dynamo.filter
        next_s = seen.at_s + spec.period_s
        if spec.target is DynamoTarget.SLA:
            rate = self.reader.value(
                MetricQuery(signals=(Signal.REQUEST_RATE,), aggregate=Aggregate.SUM, window_s=spec.traffic_s), seen
            )
            if rate is not None:
                state, self.replicas = traffic_target(spec, state, rate, self.reader.replica.each_rps)
            self.dynamo = DynamoState(filter=state, next_s=next_s)
            return
        pods = seen.ready_replicas
        held = self.reader.value(
            MetricQuery(signals=(Signal.ACTIVE_TOKENS, Signal.TOKEN_BACKLOG), aggregate=Aggregate.SUM), seen
        )
        uses = [] if held is None or pods == 0 else [held / pods / self.reader.replica.kv_tokens] * pods
        workers = pods + seen.starting_replicas
        self.replicas = load_target(spec, uses, workers=workers, expected=self.replicas)
        self.dynamo = DynamoState(filter=state, next_s=next_s)
