"""Knative's KPA: a stable and a panic window over concurrency or requests a second, and scale to zero.

    pods = ceil(mean of the window / target), target = stated target x target utilisation

at most `most_up_ratio` times and at least 1 / `most_down_ratio` of the ready pods in one step. Panic begins where the
short window asks for `panic_ratio` times the ready pods or more, never scales down, and ends one stable window after it
was asked for last. The last pod goes one grace period after nothing was asked of it; the activator then holds requests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ullage.scaling.hpa import ScaleEvent

TICK_S = 2.0


@dataclass(frozen=True, kw_only=True)
class KnativeSpec:
    """Annotations of a revision, with Knative's defaults. `signal` is `concurrency` or `rps`."""

    target_value: float = 100.0
    utilisation_fraction: float = 0.7
    signal: str = "concurrency"
    least_replicas: int = 0
    most_replicas: int = 0
    initial_replicas: int = 1
    activation_replicas: int = 1
    stable_s: float = 60.0
    panic_fraction: float = 0.1
    panic_ratio: float = 2.0
    down_delay_s: float = 0.0
    most_up_ratio: float = 1000.0
    most_down_ratio: float = 2.0
    grace_s: float = 30.0
    retention_s: float = 0.0

    @property
    def panic_s(self) -> float:
        return self.stable_s * self.panic_fraction

    @property
    def each_value(self) -> float:
        """What one pod is to have of the signal; never less than a hundredth."""
        return max(0.01, self.target_value * self.utilisation_fraction)


@dataclass(frozen=True, kw_only=True)
class KnativeState:
    """`panic_s` is when panic was last called for, `idle_s` since when nothing is asked for."""

    panic_s: float | None = None
    panic_replicas: int = 0
    delayed: tuple[ScaleEvent, ...] = ()
    idle_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class KnativeDecision:
    replicas: int
    asked_replicas: int
    is_panicking: bool
    state: KnativeState


def knative_step(
    spec: KnativeSpec, state: KnativeState, *, stable: float | None, panic: float | None, now_s: float, ready: int
) -> KnativeDecision | None:
    """One tick from the means of both windows over the whole revision; None where there is no data."""
    if stable is None or panic is None:
        return None
    pods = max(1.0, float(ready))
    up, down = math.ceil(spec.most_up_ratio * pods), math.floor(pods / spec.most_down_ratio)
    stable_asked, panic_asked = (math.ceil(each / spec.each_value) for each in (stable, panic))
    wanted, in_panic = (int(min(max(each, down), up)) for each in (stable_asked, panic_asked))
    if spec.activation_replicas > 1:
        wanted = max(wanted, spec.activation_replicas) if stable_asked > 0 else wanted
        in_panic = max(in_panic, spec.activation_replicas) if panic_asked > 0 else in_panic
    began_s, most = _panic(spec, state, panic_asked / pods >= spec.panic_ratio, now_s)
    if began_s is not None:
        most = max(most, wanted, in_panic)
        wanted = most
    delayed = tuple(each for each in state.delayed if each.at_s > now_s - spec.down_delay_s)
    if spec.down_delay_s > 0.0:
        delayed = (*delayed, ScaleEvent(at_s=now_s, replicas=wanted))
        wanted = max(each.replicas for each in delayed)
    asked = wanted
    wanted, idle_s = _from_or_to_zero(spec, state, wanted, now_s, ready)
    return KnativeDecision(
        replicas=_bounded(spec, wanted),
        asked_replicas=asked,
        is_panicking=began_s is not None,
        state=KnativeState(panic_s=began_s, panic_replicas=most, delayed=delayed, idle_s=idle_s),
    )


def _panic(spec: KnativeSpec, state: KnativeState, is_over: bool, now_s: float) -> tuple[float | None, int]:
    if is_over:
        return now_s, state.panic_replicas
    if state.panic_s is not None and state.panic_s + spec.stable_s < now_s:
        return None, 0
    return state.panic_s, state.panic_replicas


def _from_or_to_zero(
    spec: KnativeSpec, state: KnativeState, wanted: int, now_s: float, ready: int
) -> tuple[int, float | None]:
    """The last pod stays for the grace period, or as long as pods are to be retained, after nothing was asked for."""
    if wanted > 0 or spec.least_replicas > 0:
        return wanted, None
    idle_s = now_s if state.idle_s is None else state.idle_s
    is_over = now_s - idle_s >= max(spec.grace_s, spec.retention_s)
    return (0 if is_over or ready == 0 else 1), idle_s


def _bounded(spec: KnativeSpec, replicas: int) -> int:
    return max(replicas if spec.most_replicas == 0 else min(replicas, spec.most_replicas), spec.least_replicas)
