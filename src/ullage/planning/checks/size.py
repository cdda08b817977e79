"""Mistakes in sizing: average lengths, maximum throughput, forgotten memory, replicas that start at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ullage.cost.pool_run import level_rates_rps
from ullage.errors import Rejection
from ullage.evidence import Assumption, Evidence, number
from ullage.memory.estimate import LineName
from ullage.planning.checks.claims import claimed
from ullage.planning.checks.result import CheckAnomaly, CheckResult, CheckSeverity, CheckSubject
from ullage.service.curve.sizing import size_pool
from ullage.service.trial.decide import BRIEF
from ullage.service.trial.mix import MixLoad
from ullage.workload.demand.demand import ClassTraffic, Demand
from ullage.workload.demand.stated import StatedShape, with_lengths
from ullage.workload.synthetic.model import FRACTIONS, LengthModel

# Percentiles that differ by less than this are one length, written twice.
FLAT_RATIO = 1.1
_P50, _P95 = FRACTIONS.index(0.5), FRACTIONS.index(0.95)


# ---- average length -------------------------------------------------------------------------------------------


def average_length(subject: CheckSubject) -> CheckResult:
    """Replicas by the mean length against replicas by the distribution, both found by simulation."""
    name, pool = "average-length", subject.pool
    by_mean = _sized(subject, _with_lengths(pool.demand, _mean_lengths))
    planned = pool.steady_fleet.replicas
    anomalies = []
    flat = _flat(subject)
    if flat:
        like = subject.spec.policy.horizon
        spread = _sized(subject, _with_lengths(pool.demand, lambda each: _spread_lengths(each, flat, like)))
        weight = CheckSeverity.MISTAKE if spread is None or spread > planned else CheckSeverity.WARNING
        found = "none" if spread is None else str(spread)
        anomalies.append(
            subject.anomaly(
                name,
                weight,
                f"{' and '.join(sorted(flat))} {'has' if len(flat) == 1 else 'have'} requests of a single length: "
                f"{planned} "
                f"replicas are planned for it, {found} meet the SLOs at the same median with the spread of chat",
                "State a tail, such as prompt: {p50: 1200, p95: 6000}, or give a trace.",
            )
        )
    claim = claimed(subject.spec.claims.replicas) if subject.is_claimed else None
    mean = "no number" if by_mean is None else str(by_mean)
    if claim is not None and claim < planned:
        anomalies.append(
            subject.anomaly(
                name,
                CheckSeverity.MISTAKE,
                f"{claim:g} replicas are claimed; the length distribution needs {planned}; with every request of "
                f"the mean length, {mean} would " + ("do" if by_mean is not None and claim >= by_mean else "be needed"),
                f"Buy {planned}, or give evidence that lowers it: a load test, a trace.",
            )
        )
    return CheckResult(
        name=name,
        pool=pool.spec.name,
        compared=f"replicas: {mean} by mean length, {planned} by the distribution, as planned",
        anomalies=tuple(anomalies),
    )


def _sized(subject: CheckSubject, demand: Demand) -> int | None:
    """The planned number of replicas for a demand; None where none meets the SLOs."""
    pool = subject.pool
    bases = pool.bases
    mix = bases.conservative.load_at
    changed = bases if not isinstance(mix, MixLoad) else bases.with_load(replace(mix, model=demand.busy_model))
    size = size_pool(changed, rate_rps=demand.planning_rps, seed=subject.plan.seed, effort=BRIEF)
    return None if isinstance(size, Rejection) else size.conservative_replicas


def _with_lengths(demand: Demand, lengths_of: Callable[[ClassTraffic], LengthModel]) -> Demand:
    classes = [replace(each, model=replace(each.model, lengths=lengths_of(each))) for each in demand.classes]
    return replace(demand, classes=tuple(classes))


def _mean_lengths(each: ClassTraffic) -> LengthModel:
    """Every request as long as the mean one."""
    prompts, outputs = each.model.lengths.pairs()
    return LengthModel(
        prompt_tokens=(float(np.rint(prompts.mean())),) * len(FRACTIONS),
        output_tokens=(float(np.rint(outputs.mean())),) * len(FRACTIONS),
    )


def _flat(subject: CheckSubject) -> set[str]:
    """Classes whose prompts and answers are all about one length."""
    return {
        each.name
        for each in subject.pool.demand.classes
        if all(
            side[_P95] <= FLAT_RATIO * side[_P50]
            for side in (each.model.lengths.prompt_tokens, each.model.lengths.output_tokens)
        )
    }


def _spread_lengths(each: ClassTraffic, flat: set[str], like: Assumption) -> LengthModel:
    """A flat class with the same medians and the spread that one stated percentile gets; `like` lends its source."""
    if each.name not in flat:
        return each.model.lengths
    lengths = each.model.lengths
    prompt, output = (
        {0.5: replace(like, name=f"{each.name}.median", value=side[_P50], unit="tokens", low=None, high=None)}
        for side in (lengths.prompt_tokens, lengths.output_tokens)
    )
    shape = StatedShape(prompt=prompt, output=output)
    return with_lengths(each.model, shape, longest_tokens=each.longest_context_tokens).lengths


# ---- maximum throughput ---------------------------------------------------------------------------------------


def maximum_throughput(subject: CheckSubject) -> CheckResult:
    """The claimed capacity of a replica against the load at which it meets its SLOs."""
    name, pool = "maximum-throughput", subject.pool
    highest, operating = (
        pool.operating_point.highest.rps,
        float(pool.operating_point.figures["point.operating_rps"].value),
    )
    most = max(pool.service_curve.saturation_rps, _last_point_rps(subject))
    # The curve is of the steps that the fleet is sized with, the highest load of nominal ones: it may be the larger.
    basis = pool.service_curve.basis
    claim = claimed(subject.spec.claims.capacity) if subject.is_claimed else None
    anomalies = []
    if claim is not None and claim > operating:
        kept = "it meets its SLOs up to" if claim > highest else "with the margin for its evidence it is"
        anomalies.append(
            subject.anomaly(
                name,
                CheckSeverity.MISTAKE if claim > highest else CheckSeverity.WARNING,
                f"{claim:.3g} req/s are claimed for a replica; {kept} {highest if claim > highest else operating:.3g} "
                f"req/s, and the most it completes, late or not, is {most:.3g} req/s with {basis} step times",
                f"Claim {operating:.3g} req/s, or load-test one replica to narrow the margin.",
            )
        )
    return CheckResult(
        name=name,
        pool=pool.spec.name,
        compared=f"a replica completes at most {most:.3g} req/s with {basis} step times, and meets its SLOs up to "
        f"{highest:.3g} req/s with nominal ones",
        anomalies=tuple(anomalies),
    )


def _last_point_rps(subject: CheckSubject) -> float:
    """The most that any load test of this pool completed; 0 where there is none."""
    tests = [test for test, _ in subject.pool.spec.tested.load_tests]
    return max((point.achieved_rps or 0.0 for test in tests for point in test.points), default=0.0)


# ---- memory ---------------------------------------------------------------------------------------------------

# Less than a hundredth of the device is less than workspaces and fragments of two versions of an engine differ by.
LEAST_MARGIN_FRACTION = 0.01


def forgotten_memory(subject: CheckSubject) -> CheckResult:
    """The claimed or approved concurrency of a replica against what weights, workspace and KV leave room for."""
    name, memory = "forgotten-memory", subject.pool.memory
    context, fits = memory.approved.context_tokens, memory.worst.sequences
    weights = memory.line(LineName.WEIGHTS).line_bytes
    loose = int((memory.device_bytes - weights) / memory.stored_bytes_per_token // context)
    claim = claimed(subject.spec.claims.concurrency) if subject.is_claimed else None
    anomalies = []
    if claim is not None and claim > fits:
        anomalies.append(
            subject.anomaly(
                name,
                CheckSeverity.MISTAKE,
                f"{claim:g} requests of {context:,} tokens are claimed for a replica; {fits} fit beside weights, "
                f"workspace, graphs and margin, {loose} if weights were all that counted",
                f"Claim {fits}, or shorten the context, or add devices: ullage memory.",
            )
        )
    margin = memory.line(LineName.MARGIN).line_bytes
    if margin < LEAST_MARGIN_FRACTION * memory.device_bytes:
        fraction = memory.runtime.memory_fraction.value
        anomalies.append(
            subject.anomaly(
                name,
                CheckSeverity.MISTAKE,
                f"a memory fraction of {fraction} leaves {margin / 2**30:.2g} GiB of {memory.device_bytes / 2**30:.3g} "
                "GiB besides workspace and graphs: the engine runs out of memory",
                "Lower memory_fraction.",
            )
        )
    anomalies += _unapproved(subject, name, context)
    return CheckResult(
        name=name,
        pool=subject.pool.spec.name,
        compared=f"{fits} requests of {context:,} tokens fit into a replica; approved: {memory.approved.sequences}",
        anomalies=tuple(anomalies),
    )


def _unapproved(subject: CheckSubject, name: str, context: int) -> list[CheckAnomaly]:
    given = [each for each in subject.pool.spec.choices if each.name.endswith("approved_concurrency")]
    if not given or not given[0].source.what.startswith("default of Ullage"):
        return []
    active = float(subject.pool.scorecard.figures["score.active_tokens"].value)
    return [
        subject.anomaly(
            name,
            CheckSeverity.WARNING,
            f"no concurrency is approved: {given[0].value} request of {context:,} tokens was checked, and "
            f"{active:,.0f} KV tokens are in use at the planning rate",
            "State pool.approved_concurrency.",
        )
    ]


# ---- autoscaling ----------------------------------------------------------------------------------------------


def instant_scaling(subject: CheckSubject) -> CheckResult:
    """The claimed scale-up time and autoscaler minimum against start times and the rise of demand."""
    name, pool = "instant-scaling", subject.pool
    warm, settings = pool.reserves.warm, pool.reserves.settings.warm
    level = settings.start.value
    p50, p90 = (float(pool.time_to_ready.figures[f"ready.{level}_{each}_s"].value) for each in ("p50", "p90"))
    follows = settings.follows.value == "demand"
    steady = pool.steady_fleet.replicas
    rise_rps = number(pool.reserves.figures["reserve.rise_rps"])
    # Whoever claims a scale-up or an autoscaler's minimum has a fleet that follows demand, whatever is planned.
    rising = max(warm.line.replicas, min(steady - 1, math.ceil(steady * rise_rps / pool.demand.planning_rps - 1e-9)))
    anomalies = []
    claim = claimed(subject.spec.claims.scale_up) if subject.is_claimed else None
    if claim is not None and claim < p50:
        anomalies.append(
            subject.anomaly(
                name,
                CheckSeverity.MISTAKE,
                f"a replica is claimed to be ready after {claim:g} s; a {level} start takes {p50:.0f} s, one in ten "
                f"{p90:.0f} s, and demand rises by {rise_rps:.3g} req/s in it, {rising} of {steady} replicas",
                f"Hold {rising} in reserve for it (warm: {{follows: demand}} plans them), or start hot: warm: "
                "{start: hot}.",
            )
        )
    least = claimed(subject.spec.claims.least_replicas) if subject.is_claimed else None
    calm = _calmest(subject) if least is not None else 0
    if least is not None and least < calm + rising:
        anomalies.append(
            subject.anomaly(
                name,
                CheckSeverity.MISTAKE,
                f"the autoscaler may scale down to {least:g} replicas; the quietest quarter of the week needs "
                f"{calm}, and "
                f"{rising} more while others start",
                f"Set its minimum to {calm + rising}.",
            )
        )
    if follows and pool.time_to_ready.figures[f"ready.{level}_p90_s"].evidence is Evidence.ASSUMED and not anomalies:
        anomalies.append(
            subject.anomaly(
                name,
                CheckSeverity.WARNING,
                f"the fleet follows demand, but no start-up was measured: {p50:.0f} to {p90:.0f} s are assumed",
                "Give evidence.startup_logs.",
            )
        )
    return CheckResult(
        name=name,
        pool=pool.spec.name,
        compared=f"a {level} start takes {p50:.0f} to {p90:.0f} s; demand for {rising} of {steady} replicas arrives "
        f"meanwhile; warm: {warm.line.replicas}",
        anomalies=tuple(anomalies),
    )


def _calmest(subject: CheckSubject) -> int:
    """Replicas that the calmest quarter of the week needs."""
    pool = subject.pool
    size = size_pool(
        pool.bases,
        rate_rps=max(float(level_rates_rps(pool.demand).sum(axis=0)[0]), 1e-6),
        seed=subject.plan.seed,
        effort=BRIEF,
    )
    return pool.steady_fleet.replicas if isinstance(size, Rejection) else size.conservative_replicas
