"""What the plan file should say from now on: a key, the old value, the new one, and what production showed for it.

Only what drifted is changed, only by keys of the plan file, and nothing is changed here: the list becomes a diff that
somebody reads. What drifted and has no key is named, with where it is mended instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ullage.reconcile.expectation import Expectation, ExpectedClass
from ullage.reconcile.inputs import DriftCause, InputVerdict
from ullage.reconcile.observed import ObservedInput
from ullage.reconcile.reconcile import Reconciliation
from ullage.reconcile.refit import StepRefit
from ullage.workload.synthetic.model import WEEK_S

_STEPS = "step times: fit them with ullage calibrate to scrapes of the engines (evidence.load_tests)"
_ELSEWHERE = {
    DriftCause.READY: "time to ready: give logs of recent starts in evidence.startup_logs",
    DriftCause.PRICES: "prices: give the contract or the list that was paid by in prices",
}


@dataclass(frozen=True, kw_only=True)
class PlanUpdate:
    """One change of the plan file. `old` is what the plan worked with, whether its file stated it or not."""

    key: str
    old: str
    new: str
    evidence: str


def plan_updates(
    expected: Expectation, found: Reconciliation, *, weeks: float, calibration: str = "calibration.json"
) -> tuple[tuple[PlanUpdate, ...], tuple[str, ...]]:
    """The changes by key, and what has no key. `weeks` are those from the plan to the end of what was observed.

    `calibration` is the file that step times which were fitted to production are in.
    """
    drifted = [each for each in found.inputs if each.verdict is InputVerdict.DRIFTED]
    changes = [change for each in expected.classes for change in _of_class(each, found, drifted, weeks)]
    stops = [each for each in drifted if each.name == "stops of a replica"]
    elsewhere = [said for cause, said in _ELSEWHERE.items() if any(each.cause is cause for each in drifted)]
    elsewhere += ["stops of a replica: state reliability.device_failures with what was counted"] if stops else []
    due = found.cadence
    if due.is_too_seldom and due.derived_s is not None and changes:
        days = max(1, round(due.derived_s / 86_400.0))
        seen = f"forecast error moves the fleet by one replica within {days} d"
        changes.append(PlanUpdate(key="policy.reconcile_every", old=_days(due.stated_s), new=f"{days}d", evidence=seen))
    if changes:
        day = found.end[:10]
        changes.insert(0, PlanUpdate(key="dated", old=expected.as_of, new=day, evidence="the end of what was observed"))
    if any(each.cause is DriftCause.STEPS for each in drifted):
        changes += [] if found.refit is None else [_steps(found.refit, calibration)]
        elsewhere += [_STEPS] if found.refit is None else []
    return tuple(changes), tuple(elsewhere)


def _steps(refit: StepRefit, calibration: str) -> PlanUpdate:
    loads = ", ".join(f"{each.rate_rps:.3g}" for each in refit.loads)
    seen = (
        f"fitted to {len(refit.loads)} loads of a replica ({loads} req/s): decode steps {refit.decode_ratio:.3g} times "
        f"as long, prefill {refit.prefill_ratio:.3g} times, known within a factor of {refit.slow_ratio:.3g}"
    )
    return PlanUpdate(key="evidence.calibrations", old="what the plan uses", new=f"[{calibration}]", evidence=seen)


def _of_class(
    given: ExpectedClass, found: Reconciliation, drifted: list[ObservedInput], weeks: float
) -> Iterator[PlanUpdate]:
    key = f"workload.classes.{given.name}"
    drift = found.drift
    rate = drift.traffic_ratio * drift.class_ratios.get(given.name, 1.0)
    if rate != 1.0:
        new = given.mean_rps * rate * (1.0 + given.weekly_growth_fraction) ** weeks
        yield PlanUpdate(
            key=f"{key}.rate",
            old=_rate(given.mean_rps),
            new=_rate(new),
            evidence=_shown(drifted, DriftCause.TRAFFIC, DriftCause.MIX),
        )
    for side, ratio in (("prompt", drift.prompt_ratio), ("output", drift.output_ratio)):
        if ratio != 1.0:
            for part in ("p50", "p95"):
                old = getattr(given, f"{side}_{part}_tokens")
                seen = _shown([each for each in drifted if side in each.name], DriftCause.LENGTHS)
                yield PlanUpdate(
                    key=f"{key}.{side}.{part}", old=f"{old:.0f}", new=f"{max(1.0, old * ratio):.0f}", evidence=seen
                )
    if drift.cached_ratio != 1.0:
        new = min(1.0, given.cached_fraction * drift.cached_ratio)
        yield PlanUpdate(
            key=f"{key}.cached_fraction",
            old=f"{given.cached_fraction:.1%}",
            new=f"{new:.1%}",
            evidence=_shown(drifted, DriftCause.CACHE),
        )
    if drift.failed_fraction is not None:
        yield PlanUpdate(
            key=f"{key}.outcomes.failed",
            old=f"{given.failed_fraction:.1%}",
            new=f"{drift.failed_fraction:.1%}",
            evidence=_shown([each for each in drifted if each.name == "failed requests"], DriftCause.FAILURES),
        )


def _shown(drifted: list[ObservedInput], *causes: DriftCause) -> str:
    """What was observed, with its interval."""
    return "; ".join(
        f"{each.name} {each.observed_value:.4g} ({each.low:.4g} to {each.high:.4g}) {each.unit}, "
        f"planned {each.stated_value:.4g}"
        for each in drifted
        if each.cause in causes and each.observed_value is not None and each.low is not None and each.high is not None
    )


def _rate(rate_rps: float) -> str:
    return f"{rate_rps:.4g} req/s"


def _days(duration_s: float) -> str:
    return f"{duration_s / 86_400.0:.4g}d"


def weeks_between(expected: Expectation, end_s: float) -> float:
    return (end_s - expected.dated_s) / WEEK_S
