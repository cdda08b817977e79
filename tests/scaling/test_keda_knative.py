"""KEDA and Knative: cases worked by hand from their documentation and source, and literal models over random series."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.literal_scalers import LiteralKeda, LiteralKnative
from ullage.errors import InputError
from ullage.scaling.formula import evaluate
from ullage.scaling.hpa import MetricKind
from ullage.scaling.keda import (
    FallbackBehavior,
    KedaFallback,
    KedaSpec,
    KedaState,
    KedaTrigger,
    ScalingModifiers,
    is_active,
    keda_step,
    polled,
)
from ullage.scaling.knative import KnativeSpec, KnativeState, knative_step
from ullage.scaling.planners.predictive import PredictiveSpec, PredictiveState, predictive_step, rate_ahead

QUEUE = KedaTrigger(name="queue", threshold_value=5.0)
KEDA = KedaSpec(triggers=(QUEUE,), most_replicas=20)


@pytest.mark.parametrize(
    ("value", "activation", "active"),
    # "activation is considered active only when the value is greater than the threshold"
    [(0.0, 0.0, False), (0.1, 0.0, True), (5.0, 5.0, False), (5.01, 5.0, True), (None, 0.0, False)],
)
def test_activation(value: float | None, activation: float, active: bool) -> None:
    spec = replace(KEDA, triggers=(replace(QUEUE, activation_value=activation),))
    assert is_active(spec, {"queue": value}) is active


@pytest.mark.parametrize(
    ("spec", "state", "value", "now_s", "current", "replicas"),
    [
        # From zero to one, or to the minimum.
        (KEDA, KedaState(), 1.0, 100.0, 0, 1),
        (replace(KEDA, least_replicas=3), KedaState(), 1.0, 100.0, 0, 3),
        # To zero once the cooldown has passed since a trigger was active last, and not on its last second.
        (KEDA, KedaState(active_s=100.0), 0.0, 400.0, 2, 2),
        (KEDA, KedaState(active_s=100.0), 0.0, 400.1, 2, 0),
        # Never active: the initial cooldown alone.
        (KEDA, KedaState(), 0.0, 0.1, 2, 0),
        (replace(KEDA, initial_cooldown_s=60.0), KedaState(), 0.0, 30.0, 2, 2),
        # A minimum above zero is left to the HPA; below it the operator raises.
        (replace(KEDA, least_replicas=2), KedaState(active_s=0.0), 0.0, 9999.0, 4, 4),
        (replace(KEDA, least_replicas=2), KedaState(active_s=0.0), 0.0, 9999.0, 1, 2),
        # Idle replicas stand in for zero, and come back to the minimum.
        (replace(KEDA, least_replicas=3, idle_replicas=1), KedaState(active_s=0.0), 0.0, 400.0, 5, 1),
        (replace(KEDA, least_replicas=3, idle_replicas=1), KedaState(), 2.0, 400.0, 1, 3),
        # A dead metric never scales to zero; with a fallback it scales to that.
        (KEDA, KedaState(active_s=0.0), None, 9999.0, 4, 4),
        (replace(KEDA, fallback=KedaFallback(failures=3, replicas=6)), KedaState(), None, 10.0, 4, 6),
    ],
)
def test_polls(
    spec: KedaSpec, state: KedaState, value: float | None, now_s: float, current: int, replicas: int
) -> None:
    assert polled(spec, state, {"queue": value}, now_s=now_s, current=current)[1] == replicas


def synced(spec: KedaSpec, values: list[float | None], *, start: int = 1) -> list[int]:
    state, current, found = KedaState(), start, []
    for place, value in enumerate(values):
        state, decision = keda_step(spec, state, {"queue": value}, now_s=15.0 * place, current=current, ready=current)
        current = decision.replicas
        found.append(current)
    return found


@pytest.mark.parametrize(
    ("spec", "values", "replicas"),
    [
        # The HPA beneath: ceil(23 / 5) = 5, limited to 4 from 1 at first.
        (KEDA, [23.0, 23.0], [4, 5]),
        # It never goes to zero itself.
        (replace(KEDA, most_replicas=3), [99.0, 99.0], [3, 3]),
        # Fallback after more than three failures in a row: the fourth.
        (replace(KEDA, fallback=KedaFallback(failures=3, replicas=4)), [None] * 5, [1, 1, 1, 4, 4]),
        # A reading in between starts the count anew.
        (replace(KEDA, fallback=KedaFallback(failures=1, replicas=4)), [None, 5.0, None, None], [1, 1, 1, 4]),
        # Without a fallback a dead metric holds what there is.
        (KEDA, [20.0, None, None], [4, 4, 4]),
        (
            replace(KEDA, fallback=KedaFallback(failures=0, replicas=2, behavior=FallbackBehavior.CURRENT_IF_HIGHER)),
            [20.0, None, None], [4, 4, 4],
        ),
        (
            replace(KEDA, fallback=KedaFallback(failures=0, replicas=4, behavior=FallbackBehavior.CURRENT_IF_LOWER)),
            [10.0, None, None], [2, 2, 2],
        ),
    ],
)  # fmt: skip
def test_syncs(spec: KedaSpec, values: list[float | None], replicas: list[int]) -> None:
    assert synced(spec, values) == replicas


def test_modifiers_make_one_metric_of_all_triggers() -> None:
    kv = KedaTrigger(name="kv", threshold_value=0.8)
    spec = KedaSpec(
        triggers=(QUEUE, kv),
        most_replicas=50,
        modifiers=ScalingModifiers(formula="max(queue, kv * 50)", target_value=5.0, activation_value=3.0),
    )
    _, decision = keda_step(spec, KedaState(), {"queue": 20.0, "kv": 0.9}, now_s=0.0, current=5, ready=5)
    assert decision.asked_replicas == 9  # 0.9 x 50 = 45, five each
    assert [is_active(spec, {"queue": 3.0, "kv": each}) for each in (0.06, 0.07)] == [False, True]
    # A formula that misses one of its triggers has no value.
    _, decision = keda_step(spec, KedaState(), {"queue": 20.0, "kv": None}, now_s=0.0, current=5, ready=5)
    assert decision.asked_replicas is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a + b * 2", 13.0), ("(a + b) * 2", 16.0), ("max(a, b, 4)", 5.0), ("min([a, b])", 3.0), ("avg(a, b)", 4.0),
        ("sum(a, b) / 2", 4.0), ("a > b ? a : b", 5.0), ("a < b && b == 5 ? 1 : 0", 1.0), ("-a + 10", 7.0),
        ("2 ** 3 ** 1", 8.0), ("b % a", 2.0), ("ceil(a / 2)", 2.0), ("floor(b / 2)", 2.0), ("round(2.5)", 3.0),
        ("!(a > b)", 1.0), ("count([a, b, 1])", 3.0), ("median(1, a, 9)", 3.0), ("a > 9 ? 1 : a > 2 ? 2 : 3", 2.0),
    ],
)  # fmt: skip
def test_formulas(text: str, value: float) -> None:
    assert evaluate(text, {"a": 3.0, "b": 5.0}) == value


@pytest.mark.parametrize("text", ["", "a +", "max(a", "c", "a b", "a ; b", "(" * 200 + "a" + ")" * 200])
def test_a_formula_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"scalingModifiers\.formula"):
        evaluate(text, {"a": 1.0})


# ---- Knative -------------------------------------------------------------------------------------------

TEN = KnativeSpec(target_value=10.0, utilisation_fraction=1.0)


@pytest.mark.parametrize(
    ("spec", "ready", "stable", "panic", "replicas", "panics"),
    [
        (TEN, 3, 30.0, 30.0, 3, False),
        (TEN, 3, 31.0, 31.0, 4, False),
        # 70 % of 100 is the default: 140 in flight are two pods, 141 three.
        (KnativeSpec(), 2, 140.0, 140.0, 2, False),
        (KnativeSpec(), 2, 141.0, 141.0, 3, False),
        # Panic at twice the ready pods, not below.
        (TEN, 3, 30.0, 60.0, 6, True),
        (TEN, 3, 30.0, 50.0, 3, False),
        # In panic the larger of both windows counts.
        (TEN, 1, 90.0, 20.0, 9, True),
        # Down by half at most in one step.
        (TEN, 8, 10.0, 10.0, 4, False),
        # Up by the rate at most; rounded up so that one pod more is always possible.
        (replace(TEN, most_up_ratio=1.1), 2, 30.0, 30.0, 3, False),
        # No ready pod counts as one.
        (TEN, 0, 5.0, 5.0, 1, False),
        (TEN, 0, 45.0, 45.0, 5, True),
        # Bounds.
        (replace(TEN, most_replicas=4), 3, 99.0, 99.0, 4, True),
        (replace(TEN, least_replicas=2), 2, 0.0, 0.0, 2, False),
        # Activation scale applies where anything is asked for.
        (replace(TEN, activation_replicas=4), 0, 5.0, 5.0, 4, False),
        (replace(TEN, activation_replicas=4), 0, 0.0, 0.0, 0, False),
        # The last pod stays for the grace period.
        (TEN, 1, 0.0, 0.0, 1, False),
    ],
)
def test_one_tick(spec: KnativeSpec, ready: int, stable: float, panic: float, replicas: int, panics: bool) -> None:
    found = knative_step(spec, KnativeState(), stable=stable, panic=panic, now_s=0.0, ready=ready)
    assert found is not None
    assert (found.replicas, found.is_panicking) == (replicas, panics)


def ticks(spec: KnativeSpec, loads: list[float], *, ready: int, every: float = 2.0) -> list[int]:
    state, found = KnativeState(), []
    for place, load in enumerate(loads):
        decision = knative_step(spec, state, stable=load, panic=load, now_s=place * every, ready=ready)
        assert decision is not None
        state, ready = decision.state, decision.replicas
        found.append(ready)
    return found


def test_panic_never_scales_down_and_ends_a_stable_window_later() -> None:
    # Panic is called for at 0 s alone; at 60 s it still holds (not before now), at 62 s it is over: half at a time.
    found = ticks(TEN, [60.0] + [10.0] * 33, ready=2)
    assert found[:31] == [6] * 31
    assert found[31:34] == [3, 1, 1]


def test_to_zero_after_the_grace_period_and_back_by_one_request() -> None:
    found = ticks(TEN, [10.0] + [0.0] * 17 + [1.0], ready=1)
    assert found == [1] + [1] * 15 + [0, 0, 1]
    kept = ticks(replace(TEN, retention_s=60.0), [0.0] * 32, ready=1)
    assert kept == [1] * 30 + [0, 0]


def test_a_delay_holds_the_highest_of_its_window() -> None:
    found = ticks(replace(TEN, down_delay_s=10.0), [40.0] + [20.0] * 6, ready=4)
    assert found == [4, 4, 4, 4, 4, 2, 2]


def test_without_data_nothing_is_decided() -> None:
    assert knative_step(TEN, KnativeState(), stable=None, panic=None, now_s=0.0, ready=1) is None


# ---- a plain predictive rule ---------------------------------------------------------------------------


def test_the_rate_ahead_follows_the_trend_or_the_season() -> None:
    spec = PredictiveSpec(each_rps=2.0, lead_s=300.0, most_replicas=99)
    times, rates = [0.0, 60.0, 120.0], [10.0, 11.0, 12.0]
    assert rate_ahead(spec, times, rates, now_s=120.0) == pytest.approx(12.0 + 300.0 / 60.0)
    # A falling trend does not lower what is there now.
    assert rate_ahead(spec, times, rates[::-1], now_s=120.0) == 10.0
    season = replace(spec, season=(1.0, 3.0))
    assert rate_ahead(season, [3500.0], [12.0], now_s=3500.0) == 36.0
    # 17 req/s at 2 each are 9 replicas, and they are held for a while after the rate has gone.
    state, wanted = predictive_step(spec, PredictiveState(), times, rates, now_s=120.0)
    assert wanted == 9
    _, held = predictive_step(spec, state, [180.0], [1.0], now_s=180.0)
    _, gone = predictive_step(spec, state, [180.0], [1.0], now_s=720.0)
    assert (held, gone) == (9, 1)
    assert predictive_step(spec, state, [], [], now_s=0.0)[1] is None


# ---- literal models over random series -----------------------------------------------------------------

SERIES = 1500


@pytest.mark.slow
def test_a_literal_scaled_object_agrees_over_random_series() -> None:
    rng = np.random.default_rng(20261117)
    zeros = changes = 0
    for _ in range(SERIES):
        least = int(rng.choice([0, 0, 1, 3]))
        given: dict[str, Any] = {
            "min": least, "max": least + int(rng.integers(1, 20)), "behavior": None,
            "idle": int(rng.integers(0, least)) if least > 0 and rng.random() < 0.3 else None,
            "cooldown": float(rng.choice([0, 30, 90])), "initial_cooldown": float(rng.choice([0, 60])),
            "fallback": {"failures": int(rng.integers(0, 3)), "replicas": int(rng.integers(0, 6))}
            if rng.random() < 0.5 else None,
            "triggers": [
                {"threshold": float(rng.choice([0.5, 2, 10])), "activation": float(rng.choice([0, 1]))}
                for _ in range(rng.integers(1, 3))
            ],
        }  # fmt: skip
        names = [f"t{place}" for place in range(len(given["triggers"]))]
        fallback = given["fallback"]
        spec = KedaSpec(
            triggers=tuple(
                KedaTrigger(name=name, threshold_value=each["threshold"], activation_value=each["activation"])
                for name, each in zip(names, given["triggers"], strict=True)
            ),
            least_replicas=least, most_replicas=given["max"], idle_replicas=given["idle"],
            cooldown_s=given["cooldown"], initial_cooldown_s=given["initial_cooldown"],
            fallback=None if fallback is None else KedaFallback(**fallback),
        )  # fmt: skip
        literal, state, current = LiteralKeda(given), KedaState(), int(rng.integers(0, 4))
        busy = 1.0
        for tick in range(20):
            now = 15.0 * tick
            busy = float(rng.choice([0.0, busy, rng.uniform(0, 8)]))
            listed: list[float | None] = [
                None if rng.random() < 0.1 else busy * each["threshold"] for each in given["triggers"]
            ]
            values = dict(zip(names, listed, strict=True))
            before = current
            if tick % 2 == 0:
                state, ours = polled(spec, state, values, now_s=now, current=current)
                current = literal.poll(now, current, listed)
                assert ours == current, (given, now, listed)
            wanted = literal.sync(now, current, current, listed)
            state, decision = keda_step(spec, state, values, now_s=now, current=current, ready=current)
            assert decision.replicas == wanted, (given, now, listed)
            current = wanted
            zeros += current == 0
            changes += current != before
    assert min(zeros, changes) > SERIES


@pytest.mark.slow
def test_a_literal_knative_agrees_over_random_series() -> None:
    rng = np.random.default_rng(20261118)
    panics = zeros = 0
    for _ in range(SERIES):
        least = int(rng.choice([0, 0, 2]))
        given = {
            "target": float(rng.choice([1, 10, 64])), "utilisation": float(rng.choice([0.7, 1.0])), "min": least,
            "max": int(rng.choice([0, 6, 30])), "activation": int(rng.choice([1, 3])),
            "stable": float(rng.choice([10, 30])), "panic_threshold": float(rng.choice([1.5, 2.0])),
            "delay": float(rng.choice([0, 8])), "max_up": float(rng.choice([1.5, 1000])),
            "max_down": float(rng.choice([1.3, 2.0])), "grace": float(rng.choice([4, 10])),
            "retention": float(rng.choice([0, 12])),
        }  # fmt: skip
        spec = KnativeSpec(
            target_value=given["target"], utilisation_fraction=given["utilisation"], least_replicas=least,
            most_replicas=int(given["max"]), activation_replicas=int(given["activation"]), stable_s=given["stable"],
            panic_ratio=given["panic_threshold"], down_delay_s=given["delay"], most_up_ratio=given["max_up"],
            most_down_ratio=given["max_down"], grace_s=given["grace"], retention_s=given["retention"],
        )  # fmt: skip
        literal, state, ready, load = LiteralKnative(given), KnativeState(), int(rng.integers(0, 4)), 1.0
        for tick in range(25):
            load = float(rng.choice([0.0, load, load, rng.uniform(0, 12) * given["target"]]))
            panic = load * float(rng.choice([1.0, rng.uniform(0, 3)]))
            wanted = literal.tick(2.0 * tick, ready, load, panic)
            found = knative_step(spec, state, stable=load, panic=panic, now_s=2.0 * tick, ready=ready)
            assert found is not None
            assert found.replicas == wanted, (given, tick, load, panic)
            panics += found.is_panicking
            zeros += wanted == 0
            state, ready = found.state, wanted
    assert panics > SERIES
    assert zeros > SERIES / 5


def test_a_value_trigger_has_no_fallback() -> None:
    """KEDA's fallback makes a total for each replica; a plain total has none."""
    trigger = replace(QUEUE, kind=MetricKind.VALUE)
    spec = replace(KEDA, triggers=(trigger,), fallback=KedaFallback(failures=0, replicas=9))
    assert synced(spec, [None, None], start=2) == [2, 2]
