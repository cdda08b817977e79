"""Fits the shared coefficients and the factors of engines and generations, by Gauss-Newton on log errors.

Simulating every trial for every trial step of an optimiser would take hours, so the derivative of each trial's TTFT and
TPOT by each coefficient is simulated once, at the priors. Between there and the optimum each latency is the sum of
parts, one for each coefficient, and a part scales with its coefficient: T(c) = T(c0) (1 - sum s + sum s c / c0) with
shares s. What is reported is never this surrogate but the simulation at the fitted coefficients.
"""

from __future__ import annotations

import math
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from itertools import compress

import numpy as np
from bench.published.cases import Case
from numpy.typing import NDArray

from ullage.facts.efficiency import COEFFICIENTS
from ullage.service.calibration.replay import replay
from ullage.service.steps.coefficients import FACTOR_OF, MOST_FRACTION
from ullage.service.steps.roofline import Efficiencies, Roofline

Floats = NDArray[np.float64]
NAMES = tuple(COEFFICIENTS)
FIELDS = tuple(field.name for field in fields(Efficiencies))

# Value and spread of the logarithm. Shares lie at or below those of kernels timed alone (bench/device_steps.py);
# engines reach less in narrow formats and in experts, whose matrices are small.
PRIORS: dict[str, tuple[float, float]] = {
    "bandwidth": (0.82, 0.04),
    "expert_bandwidth": (0.76, 0.06),
    "kv_bandwidth": (0.80, 0.08),
    "compute": (0.70, 0.08),
    "narrow_compute": (0.62, 0.08),
    "fp4_compute": (0.45, 0.10),
    "block_compute": (0.75, 0.2),
    "expert_compute": (0.60, 0.25),
    "attention_compute": (0.55, 0.12),
    "link": (0.55, 0.20),
    "collective_latency": (9e-6, 0.15),
    "step_overhead": (0.7e-3, 0.2),
    "kernel_overhead": (2.8e-6, 0.15),
    "sequence_overhead": (6e-6, 0.25),
    "prefill_kernel_overhead": (15e-6, 0.2),
    "request_overhead": (15e-3, 0.2),
}
USUAL_VENDOR = "NVIDIA"
DRIFT = "drift"
"""The group of all rows, whose factors grow with a row's age: what a year of an engine's releases takes off."""
# Which groups get a factor of their own, and how far it may go.
FACTOR_SPREADS: dict[tuple[str, str], float] = {
    ("engine", "host_factor"): 0.15,
    ("engine", "prefill_factor"): 0.4,
    ("engine", "request_factor"): 0.4,
    ("generation", "memory_factor"): 0.08,
    ("generation", "compute_factor"): 0.2,
    ("generation", "host_factor"): 0.5,
    ("generation", "prefill_factor"): 0.3,
    ("vendor", "host_factor"): 0.5,
    ("vendor", "compute_factor"): 0.2,
    (DRIFT, "host_factor"): 0.5,
    (DRIFT, "prefill_factor"): 0.5,
}
# Log errors that count as one: TTFT is noisier, and its repeats differ more.
ERROR_SCALE = np.array([0.35, 0.12])
# Rows of one family, device, engine and precision are not independent: together they count as so many.
ROWS_PER_GROUP = 4.0
STEP = 0.05


@dataclass(frozen=True, kw_only=True)
class Factor:
    group: str
    member: str
    name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Log coefficients, and log factors by group member."""

    coefficients: Floats
    factors: dict[Factor, float]

    def logs(self, case: Case) -> Floats:
        logs = self.coefficients.copy()
        for factor, value in self.factors.items():
            logs[_moved_by(factor.name)] += value * _applies(case, factor)
        capped: Floats = np.minimum(logs, _CEILING)
        return capped

    def efficiencies(self, case: Case) -> Efficiencies:
        return efficiencies_of(self.logs(case))


_CEILING = np.array([math.log(MOST_FRACTION) if COEFFICIENTS[name].unit == "fraction" else 99.0 for name in NAMES])
_SIGNS = np.array([-1.0 if COEFFICIENTS[name].unit == "fraction" else 1.0 for name in NAMES])


def _applies(case: Case, factor: Factor) -> float:
    """1 where a factor is of the case's engine or generation; a drift counts by the years before the newest rows."""
    if factor.group == DRIFT:
        return case.age_years
    return 1.0 if getattr(case, factor.group) == factor.member else 0.0


def _moved_by(factor: str) -> list[int]:
    return [place for place, name in enumerate(NAMES) if FACTOR_OF.get(name) == factor]


def efficiencies_of(logs: Floats) -> Efficiencies:
    values = dict(zip(NAMES, np.exp(logs).tolist(), strict=True))
    return Efficiencies(**{name: values[name.removesuffix("_fraction").removesuffix("_s")] for name in FIELDS})


def prior() -> Solution:
    return Solution(coefficients=np.array([math.log(PRIORS[name][0]) for name in NAMES]), factors={})


def simulate_case(case: Case, efficiencies: Efficiencies) -> tuple[float, float]:
    """TTFT and TPOT in the statistic the row names."""
    found = replay(Timed(case, efficiencies), case.trial)
    return found.statistic("ttft", case.statistic), found.statistic("tpot", case.statistic)


class Timed:
    """The roofline of a case, with its request overhead."""

    def __init__(self, case: Case, efficiencies: Efficiencies) -> None:
        roofline = Roofline(work=case.work, rates=case.rates, efficiencies=efficiencies)
        self.decode_s, self.prefill_s, self.pair_s = roofline.decode_s, roofline.prefill_s, roofline.pair_s
        self.request_overhead_s = roofline.efficiencies.request_overhead_s


class Simulated:
    """Log latencies of many cases under many coefficients; rows of one key are simulated once."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = tuple(cases)
        self.first: dict[tuple[object, ...], int] = {}
        for place, case in enumerate(self.cases):
            self.first.setdefault(case.run_key, place)
        # Workers are forked with the simulator loaded; each would compile or load it for itself.
        simulate_case(self.cases[0], efficiencies_of(prior().coefficients))

    def logs(self, coefficients: Sequence[Floats], places: Sequence[int] | None = None) -> Floats:
        """One row (log TTFT, log TPOT) for each case of `places` (all when None), under the case's coefficients."""
        chosen = range(len(self.cases)) if places is None else places
        wanted: dict[tuple[object, ...], int] = {}
        for place in chosen:
            wanted.setdefault((self.cases[place].run_key, tuple(coefficients[place])), place)
        jobs = [(place, coefficients[place]) for place in wanted.values()]
        # Workers are forked here, so they see these cases without copying them.
        _CASES[:] = self.cases
        with ProcessPoolExecutor(2, mp_context=_FORK) as pool:
            values = dict(zip(wanted, pool.map(_job, jobs, chunksize=16), strict=True))
        found = np.array([values[self.cases[place].run_key, tuple(coefficients[place])] for place in chosen])
        logs: Floats = np.log(found)
        return logs


_FORK = multiprocessing.get_context("fork")
_CASES: list[Case] = []


def _job(job: tuple[int, Floats]) -> tuple[float, float]:
    place, logs = job
    return simulate_case(_CASES[place], efficiencies_of(logs))


@dataclass(frozen=True, kw_only=True, eq=False)
class Linearised:
    """Log latencies at the prior and their derivatives: arrays [case, latency] and [case, latency, coefficient]."""

    cases: tuple[Case, ...]
    base: Floats
    derivative: Floats

    @property
    def measured(self) -> Floats:
        measured: Floats = np.log(np.array([(case.ttft_s, case.tpot_s) for case in self.cases]))
        return measured

    def at(self, logs: Floats) -> tuple[Floats, Floats]:
        """The surrogate and its derivative at log coefficients [case, coefficient]."""
        shares = np.maximum(self.derivative * _SIGNS, 0.0)
        total = shares.sum(2, keepdims=True)
        shares = np.where(total > 1, shares / np.maximum(total, 1e-9), shares)
        moved = np.exp((logs - prior().coefficients) * _SIGNS)[:, None, :]
        ratio = 1 - shares.sum(2) + (shares * moved).sum(2)
        return self.base + np.log(ratio), shares * moved * _SIGNS / ratio[:, :, None]


def linearise(simulated: Simulated) -> Linearised:
    at = [prior().coefficients] * len(simulated.cases)
    base = simulated.logs(at)
    derivative = np.zeros((*base.shape, len(NAMES)))
    for place in range(len(NAMES)):
        moved = at[0].copy()
        moved[place] += STEP * _SIGNS[place]
        derivative[:, :, place] = (simulated.logs([moved] * len(at)) - base) / (STEP * _SIGNS[place])
    return Linearised(cases=simulated.cases, base=base, derivative=derivative)


def solve(linearised: Linearised, kept: NDArray[np.bool_], *, rounds: int = 12) -> Solution:
    """The coefficients that fit the kept cases, pulled towards the priors."""
    cases = linearised.cases
    factors = _factors(cases, kept)
    member = np.array([[_applies(case, each) for each in factors] for case in cases])
    spread = np.array([PRIORS[name][1] for name in NAMES] + [FACTOR_SPREADS[each.group, each.name] for each in factors])
    start = np.concatenate([prior().coefficients, np.zeros(len(factors))])
    weight = _weights(cases) * kept
    # The mean TTFT of a run whose median is published too has a cold start in it that nothing here simulates.
    trusted = np.array([(0.0 if case.has_median else 1.0, 1.0) for case in cases])
    found = start.copy()
    for _ in range(rounds):
        logs = _logs(found, factors, member)
        values, slopes = linearised.at(logs)
        columns = [slopes] + [
            (slopes[:, :, _moved_by(each.name)].sum(2) * member[:, place][:, None])[:, :, None]
            for place, each in enumerate(factors)
        ]
        design = np.concatenate(columns, 2) / ERROR_SCALE[None, :, None] * trusted[:, :, None]
        errors = (linearised.measured - values) / ERROR_SCALE * trusted
        # Cauchy-like weights: a row that is off by a factor of ten says little about any coefficient.
        root = np.sqrt(weight[:, None] / np.sqrt(1 + (errors / 2) ** 2))
        matrix = (design * root[:, :, None]).reshape(-1, design.shape[2])
        normal = matrix.T @ matrix + np.diag(1 / spread**2)
        gradient = matrix.T @ (errors * root).ravel() - (found - start) / spread**2
        found = found + np.clip(np.linalg.solve(normal, gradient), -0.3, 0.3)
    count = len(NAMES)
    return Solution(coefficients=found[:count], factors=dict(zip(factors, found[count:].tolist(), strict=True)))


def _logs(found: Floats, factors: Sequence[Factor], member: Floats) -> Floats:
    logs = np.tile(found[: len(NAMES)], (len(member), 1))
    for place, each in enumerate(factors):
        for column in _moved_by(each.name):
            logs[:, column] += member[:, place] * found[len(NAMES) + place]
    capped: Floats = np.minimum(logs, _CEILING)
    return capped


def _factors(cases: Sequence[Case], kept: NDArray[np.bool_]) -> list[Factor]:
    return [
        Factor(group=group, member=member, name=name)
        for group, name in FACTOR_SPREADS
        for member in _members(group, compress(cases, kept))
    ]


def _members(group: str, cases: Iterable[Case]) -> list[str]:
    """What has a factor of its own in a group. The vendor of most devices is what others are compared with."""
    if group == DRIFT:
        return [""]
    return sorted({str(getattr(case, group)) for case in cases} - {USUAL_VENDOR})


def _weights(cases: Sequence[Case]) -> Floats:
    groups = [(case.family, case.device, case.engine, case.precision) for case in cases]
    sizes = Counter(groups)
    return np.array([min(1.0, ROWS_PER_GROUP / sizes[group]) for group in groups])
