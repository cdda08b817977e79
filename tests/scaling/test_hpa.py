"""HorizontalPodAutoscaler: cases worked by hand from its documentation, and a literal controller over random series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.literal_scalers import LiteralHpa
from ullage.scaling.hpa import (
    HpaMetric,
    HpaSpec,
    HpaState,
    MetricKind,
    MetricReading,
    PodReadings,
    PolicyKind,
    ScalingBehavior,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    hpa_step,
    is_within,
    largest_proposal,
    proposal,
)

TENTH = (0.1, 0.1)


def pods(target: int) -> HpaMetric:
    return HpaMetric(kind=MetricKind.PODS, target_value=1000 * target)


def cpu(percent: int) -> HpaMetric:
    return HpaMetric(kind=MetricKind.RESOURCE, target_value=percent)


def read(*values: int, unready: int = 0, missing: int = 0, request: int = 0) -> PodReadings:
    return PodReadings(
        total_milli=1000 * sum(values),
        pods=len(values),
        unready_pods=unready,
        missing_pods=missing,
        request_milli=1000 * request,
    )


@pytest.mark.parametrize(
    ("metric", "reading", "current", "asked"),
    [
        # "if the current metric value is 200m, and the desired value is 100m, the number of replicas will be doubled"
        (pods(100), read(200, 200, 200), 3, 6),
        # "if the current value is instead 50m, you will halve the number of replicas"
        (pods(100), read(50, 50, 50, 50), 4, 2),
        # The ratio is 1.1 and 0.9: the edges of the tolerance are inside it.
        (pods(100), read(110, 110), 2, 2),
        (pods(100), read(90, 90), 2, 2),
        # Just outside.
        (pods(1000), read(1101, 1101), 2, 3),
        (pods(1000), read(899, 899, 899, 899, 899, 899, 899, 899, 899, 899), 10, 9),
        # The mean is divided as an integer: 333.333 is 333.333 thousandths exactly, not rounded up.
        (pods(300), read(300, 300, 400), 3, 4),
        # Rounded up, always: 3 x 1.2 = 3.6.
        (pods(100), read(120, 120, 120), 3, 4),
        # One that has no sample counts 0 on the way up: (200 + 200 + 0) / 3 = 133 -> ceil(1.333 x 3) = 4, not 6.
        (pods(100), read(200, 200, missing=1), 3, 4),
        # And as at the target on the way down: (50 + 50 + 100) / 3 = 66.666 -> ceil(0.66666 x 3) = 2.
        (pods(100), read(50, 50, missing=1), 3, 2),
        # With the missing one counted as 0 the ratio would turn: 120 -> 80. Nothing happens.
        (pods(100), read(120, 120, missing=1), 3, 3),
        # Counted anew it is within the tolerance: (160 + 160 + 0) / 3 = 106.7.
        (pods(100), read(160, 160, missing=1), 3, 3),
        # Unready pods count 0 on the way up: (300 + 0) / 2 = 150 -> 3, not 3 x 1 = 3 of the one alone.
        (pods(100), read(300, unready=1), 2, 3),
        # 150 alone asks for 2; with the unready one it is 75, another direction: stay.
        (pods(100), read(150, unready=1), 2, 2),
        # On the way down unready pods do not count at all: one ready pod at half its target asks for 1.
        (pods(100), read(50, unready=3), 4, 1),
        # Two of four have no sample: (150 + 150 + 0 + 0) / 4 = 75 turns the direction. Stay.
        (pods(100), read(150, 150, missing=2), 4, 4),
        # No pod has a sample.
        (pods(100), read(missing=3), 3, None),
        # CPU: 90 % of the request against 50 %: ceil(2 x 1.8) = 4.
        (cpu(50), read(90, 90, request=100), 2, 4),
        # Percent are whole: 54.9 % is 54, and 54 / 50 = 1.08 is within the tolerance.
        (cpu(50), read(54, 55, request=100), 2, 2),
        (cpu(50), read(55, 55, request=100), 2, 2),
        (cpu(50), read(56, 56, request=100), 2, 3),
        # A missing pod on the way down counts as all of its request: (10 + 10 + 100) / 300 = 40 % of 80 % -> 2 of 3.
        (cpu(80), read(10, 10, missing=1, request=100), 3, 2),
        # And as the target where that is above 100 %: (50 + 50 + 150) / 300 = 83 % of 150 % -> ceil(1.66) = 2.
        (cpu(150), read(50, 50, missing=1, request=100), 3, 2),
        # Containers alone: a request of 200 each, 150 used, target 50 %: 75 / 50 = 1.5.
        (
            HpaMetric(kind=MetricKind.RESOURCE, target_value=50, container="engine"),
            read(150, 150, request=200), 2, 3,
        ),
    ],
)  # fmt: skip
def test_pods_and_resources(metric: HpaMetric, reading: PodReadings, current: int, asked: int | None) -> None:
    assert proposal(metric, reading, current=current, ready=reading.pods, tolerances=TENTH) == asked


@pytest.mark.parametrize(
    ("kind", "target", "reading", "current", "ready", "asked"),
    [
        # A total for each replica: 50 queued at 10 each are 5 replicas, however many run.
        (MetricKind.AVERAGE, 10_000, 50_000, 2, 2, 5),
        # The tolerance is taken of what runs: 53 / (10 x 5) = 1.06.
        (MetricKind.AVERAGE, 10_000, 53_000, 5, 5, 5),
        (MetricKind.AVERAGE, 10_000, 55_000, 5, 5, 5),
        (MetricKind.AVERAGE, 10_000, 56_000, 5, 5, 6),
        (MetricKind.AVERAGE, 10_000, 44_000, 5, 5, 5),
        (MetricKind.AVERAGE, 10_000, 0, 5, 5, 0),
        # Replicas that still start count as supply: the scale says 5, one is ready, and 5 are asked for.
        (MetricKind.AVERAGE, 10_000, 50_000, 5, 1, 5),
        # A total against one target multiplies what is ready: 30 / 10 x 2 = 6, and again 3 x as many when they are.
        (MetricKind.VALUE, 10_000, 30_000, 2, 2, 6),
        (MetricKind.VALUE, 10_000, 30_000, 6, 6, 18),
        (MetricKind.VALUE, 10_000, 30_000, 6, 2, 6),
        (MetricKind.VALUE, 10_000, 10_900, 6, 2, 6),
        (MetricKind.VALUE, 10_000, 25_000, 0, 0, 3),
        (MetricKind.AVERAGE, 10_000, 25_000, 0, 0, 3),
        (MetricKind.VALUE, 10_000, 0, 4, 4, 0),
    ],
)
def test_totals(kind: MetricKind, target: int, reading: int, current: int, ready: int, asked: int) -> None:
    metric = HpaMetric(kind=kind, target_value=target)
    assert proposal(metric, reading, current=current, ready=ready, tolerances=TENTH) == asked


@pytest.mark.parametrize(
    ("ratio", "tolerances", "inside"),
    [
        (1.1, TENTH, True), (0.9, TENTH, True), (1.1000001, TENTH, False), (0.8999999, TENTH, False),
        (1.0, (0.0, 0.0), True), (1.04, (0.0, 0.05), True), (0.99, (0.0, 0.05), False),
    ],
)  # fmt: skip
def test_the_edges_of_the_tolerance(ratio: float, tolerances: tuple[float, float], inside: bool) -> None:
    assert is_within(ratio, tolerances) is inside


@pytest.mark.parametrize(
    ("readings", "current", "asked"),
    [
        # "the maximum of these is chosen"
        ([20_000, 60_000], 3, 6),
        # "if any of these metrics cannot be converted ... and a scale down is suggested ..., scaling is skipped"
        ([20_000, None], 3, None),
        # "... still capable of scaling up if one or more metrics give a desiredReplicas greater than the current value"
        ([60_000, None], 3, 6),
        ([30_000, None], 3, 3),
        ([None, None], 3, None),
    ],
)
def test_several_metrics(readings: list[int | None], current: int, asked: int | None) -> None:
    average = HpaMetric(kind=MetricKind.AVERAGE, target_value=10_000)
    spec = HpaSpec(metrics=(average, average), most_replicas=100)
    assert largest_proposal(spec, readings, current=current, ready=current) == asked


AVERAGE = HpaMetric(kind=MetricKind.AVERAGE, target_value=1_000)


def rules(window: float, *policies: tuple[str, int, float], select: str = "Max") -> ScalingRules:
    made = tuple(ScalingPolicy(kind=PolicyKind(kind), value=value, period_s=period) for kind, value, period in policies)
    return ScalingRules(window_s=window, policies=made, select=SelectPolicy(select))


OPEN_UP, OPEN_DOWN = rules(0, ("Percent", 900, 15)), rules(0, ("Percent", 100, 15))


def course(spec: HpaSpec, asked: list[int], *, start: int, every: float = 15.0) -> list[int]:
    """The replicas after each sync, every pod ready at once, where metrics ask for these."""
    state, current, found = HpaState(), start, []
    for place, wanted in enumerate(asked):
        decision = hpa_step(spec, state, [1_000 * wanted], now_s=place * every, current=current, ready=current)
        state, current = decision.state, decision.replicas
        found.append(current)
    return found


def behaving(
    up: ScalingRules = OPEN_UP, down: ScalingRules = OPEN_DOWN, *, most: int = 1000, least: int = 1
) -> HpaSpec:
    return HpaSpec(
        metrics=(AVERAGE,), least_replicas=least, most_replicas=most, behavior=ScalingBehavior(up=up, down=down)
    )


@pytest.mark.parametrize(
    ("spec", "start", "asked", "replicas"),
    [
        # Without behavior: twice the replicas or 4, whichever is more, at each sync.
        (HpaSpec(metrics=(AVERAGE,), most_replicas=100), 1, [50, 50, 50, 50, 50], [4, 8, 16, 32, 50]),
        # And the highest of five minutes on the way down: 300 s after the last 10 it falls, in one step.
        (HpaSpec(metrics=(AVERAGE,), most_replicas=100), 10, [2] * 22, [10] * 21 + [2]),
        # Default behavior doubles or adds 4 in 15 s.
        (
            HpaSpec(metrics=(AVERAGE,), most_replicas=100, behavior=ScalingBehavior()), 1,
            [50] * 5, [5, 10, 20, 40, 50],
        ),
        # With behavior the window's edge is outside: 300 s after the start the first recommendation is gone.
        (HpaSpec(metrics=(AVERAGE,), most_replicas=100, behavior=ScalingBehavior()), 10, [2] * 21, [10] * 20 + [2]),
        # Up is held to the lowest of the window: 60 s of 15 s syncs until the first 1 is gone.
        (behaving(up=rules(60, ("Percent", 900, 15))), 1, [8] * 6, [1, 1, 1, 1, 8, 8]),
        # A dip inside the window down does not shrink, and a lower plateau counts as soon as the peak is out.
        (behaving(down=rules(60, ("Percent", 100, 15))), 6, [6, 2, 6, 3, 3, 3, 3, 3], [6, 6, 6, 6, 6, 6, 3, 3]),
        # 4 pods a minute: the whole of the minute's 4 at once, then none until they are a minute old.
        (behaving(up=rules(0, ("Pods", 4, 60))), 1, [20] * 6, [5, 5, 5, 5, 9, 9]),
        # Down 10 % a minute of 80: "8 the first minute, then 7.2 of 72, rounded down to what stays".
        (behaving(down=rules(0, ("Percent", 10, 60))), 80, [10] * 9, [72, 72, 72, 72, 64, 64, 64, 64, 57]),
        # The documentation's pair, 4 pods or 10 % a minute, Max: percent above 40 replicas, pods below.
        (behaving(down=rules(0, ("Pods", 4, 15), ("Percent", 10, 15))), 80, [1] * 4, [72, 64, 57, 51]),
        (behaving(down=rules(0, ("Pods", 4, 15), ("Percent", 10, 15))), 20, [1] * 3, [16, 12, 8]),
        # Min takes the smaller change.
        (behaving(down=rules(0, ("Pods", 4, 15), ("Percent", 10, 15), select="Min")), 80, [1] * 2, [76, 72]),
        (behaving(up=rules(0, ("Pods", 2, 15), ("Percent", 100, 15), select="Min")), 8, [50] * 2, [10, 12]),
        # Disabled: never down, never up.
        (behaving(down=rules(0, ("Percent", 100, 15), select="Disabled")), 9, [1] * 3, [9, 9, 9]),
        (behaving(up=rules(0, ("Percent", 100, 15), select="Disabled")), 2, [9] * 3, [2, 2, 2]),
        # A percentage that would not move the scale is rounded up: 1 x 1.1 -> 2.
        (behaving(up=rules(0, ("Percent", 10, 15))), 1, [9] * 3, [2, 3, 4]),
        # What was let go in the period may come back beyond it: 10 - 0 + 6 = 16 at its beginning.
        (behaving(up=rules(0, ("Pods", 1, 60))), 16, [10, 17, 18], [10, 17, 17]),
        # Bounds come last, and a scale outside them is brought in before metrics are looked at.
        (behaving(most=6, least=3), 1, [50, 50], [3, 6]),
        (behaving(most=6, least=3), 9, [1, 1], [6, 3]),
        # Zero replicas switch the controller off unless its minimum is zero.
        (behaving(), 0, [9, 9], [0, 0]),
    ],
)  # fmt: skip
def test_windows_policies_and_bounds(spec: HpaSpec, start: int, asked: list[int], replicas: list[int]) -> None:
    assert course(spec, asked, start=start) == replicas


def test_with_a_minimum_of_zero_a_total_brings_it_back() -> None:
    """Scale to zero by the controller itself: from none, a total alone says how many."""
    spec = HpaSpec(metrics=(AVERAGE,), least_replicas=0, most_replicas=9)
    assert course(spec, [3, 3], start=0) == [3, 3]


# ---- the literal controller ----------------------------------------------------------------------------

SERIES = 2000
SYNCS = 12


def _direction(rng: np.random.Generator) -> dict[str, Any]:
    kinds = ["Pods", "Percent"]
    return {
        "window": float(rng.choice([0, 15, 30, 60, 300])),
        "select": str(rng.choice(["Max", "Min", "Disabled"], p=[0.6, 0.3, 0.1])),
        "tolerance": float(rng.choice([0.0, 0.05, 0.1, 0.3])),
        "policies": [
            (str(rng.choice(kinds)), int(rng.integers(1, 120)), float(rng.choice([15, 30, 60, 180])))
            for _ in range(rng.integers(1, 4))
        ],
    }


def _spec(rng: np.random.Generator) -> dict[str, Any]:
    least = int(rng.integers(0, 4))
    return {
        "min": least,
        "max": least + int(rng.integers(1, 24)),
        "behavior": None if rng.random() < 0.3 else {"up": _direction(rng), "down": _direction(rng)},
        "metrics": [
            {"type": str(rng.choice(["pods", "resource", "value", "average"])), "target": int(rng.integers(20, 3000))}
            for _ in range(rng.integers(1, 4))
        ],
    }


def _pods(rng: np.random.Generator, metric: dict[str, Any], replicas: int, level: float) -> dict[str, Any]:
    """Every pod with its value, unready or without a sample."""
    request = int(rng.integers(50, 2000))
    scale = request * metric["target"] / 100 if metric["type"] == "resource" else metric["target"]
    found: dict[str, Any] = {"request": request} if metric["type"] == "resource" else {}
    for number in range(replicas):
        chance = rng.random()
        value: Any = int(level * scale * rng.uniform(0.5, 1.5))
        found[f"pod-{number}"] = "unready" if chance < 0.08 else "missing" if chance < 0.16 else value
    return found


def _ours(reading: Any) -> MetricReading:
    if not isinstance(reading, dict):
        assert reading is None or isinstance(reading, int)
        return reading
    values = [each for name, each in reading.items() if name != "request" and isinstance(each, int)]
    return PodReadings(
        total_milli=sum(values),
        pods=len(values),
        unready_pods=sum(each == "unready" for each in reading.values()),
        missing_pods=sum(each == "missing" for each in reading.values()),
        request_milli=int(reading.get("request", 0)),
    )


def _our_rules(given: dict[str, Any]) -> ScalingRules:
    made = rules(given["window"], *given["policies"], select=given["select"])
    return ScalingRules(
        window_s=made.window_s, policies=made.policies, select=made.select, tolerance_fraction=given["tolerance"]
    )


def our_spec(given: dict[str, Any]) -> HpaSpec:
    kinds = {"pods": MetricKind.PODS, "resource": MetricKind.RESOURCE, "value": MetricKind.VALUE}
    behavior = given["behavior"]
    return HpaSpec(
        metrics=tuple(
            HpaMetric(kind=kinds.get(each["type"], MetricKind.AVERAGE), target_value=each["target"])
            for each in given["metrics"]
        ),
        least_replicas=given["min"],
        most_replicas=given["max"],
        behavior=None
        if behavior is None
        else ScalingBehavior(up=_our_rules(behavior["up"]), down=_our_rules(behavior["down"])),
    )


@pytest.mark.slow
def test_a_literal_controller_agrees_over_random_series() -> None:
    rng = np.random.default_rng(20261116)
    changes = skipped = 0
    for _ in range(SERIES):
        given = _spec(rng)
        literal, spec, state = LiteralHpa(given), our_spec(given), HpaState()
        current = int(rng.integers(0, given["max"] + 3))
        now, level = 0.0, 1.0
        for _ in range(SYNCS):
            level = float(np.clip(level * rng.lognormal(0.0, 0.25), 0.02, 20.0))
            ready = int(rng.integers(0, current + 1)) if rng.random() < 0.3 else current
            readings: list[Any] = []
            for metric in given["metrics"]:
                if rng.random() < 0.05:
                    readings.append(None)
                elif metric["type"] in ("pods", "resource"):
                    readings.append(_pods(rng, metric, current, level))
                else:
                    readings.append(int(level * metric["target"] * max(1, current)))
            wanted = literal.sync(now, current, ready, readings)
            decision = hpa_step(
                spec, state, [_ours(each) for each in readings], now_s=now, current=current, ready=ready
            )
            assert decision.replicas == wanted, (given, now, current, readings)
            changes += wanted != current
            skipped += decision.asked_replicas is None
            state, current, now = decision.state, wanted, now + 15.0
    # The series are worth something: they move, and they meet metrics that cannot be read.
    assert changes > SERIES
    assert skipped > SERIES / 4
