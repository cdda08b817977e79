"""The cheapest mix of replicas for slices of traffic under quotas, as an integer program.

    minimise    sum over kinds of  replicas[kind] x USD per hour
    such that   every slice is dealt out whole:       sum over kinds of parts[kind, slice] = PARTS
                no kind gets more than it carries:    sum over slices of parts / PARTS x rate / carries <= replicas
                no device is used beyond its quota, by all pools together

A slice is traffic of one pool that can be told apart when it arrives (a class, or prompts of some lengths); a kind is
one candidate of one pool. Solved by HiGHS, which comes with scipy; what it finds is a proposal until it is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ullage.errors import InputError, InternalError

PARTS = 10
"""A router can send a tenth of a slice elsewhere; finer shares than that are noise beside the traffic's own."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Traffic that can be sent to any kind of its pool."""

    name: str
    pool: str
    rate_rps: float


@dataclass(frozen=True, kw_only=True)
class MixKind:
    """One way to make a replica of a pool. Devices and cost of a replica have its part of the reserves in them."""

    name: str
    pool: str
    device: str
    devices: float
    usd_per_hour: float


@dataclass(frozen=True, kw_only=True)
class MixProblem:
    """`carries` is the rate of a slice at which one replica of a kind meets its SLOs, by kind and slice; a pair
    that is missing cannot serve. `quotas` are devices by name; one without a quota is not limited."""

    slices: tuple[Slice, ...]
    kinds: tuple[MixKind, ...]
    carries: Mapping[tuple[str, str], float]
    quotas: Mapping[str, int]
    parts: int = PARTS

    def can_serve(self, kind: MixKind, part: Slice) -> bool:
        return kind.pool == part.pool and self.carries.get((kind.name, part.name), 0.0) > 0.0

    def work(self, kind: MixKind, part: Slice) -> float:
        """Replicas of this kind that one part of the slice keeps busy."""
        return part.rate_rps / self.parts / self.carries[kind.name, part.name]


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Replicas by kind, and how many parts of each slice go to each kind; what is 0 is left out."""

    replicas: Mapping[str, int]
    parts: Mapping[tuple[str, str], int]
    usd_per_hour: float


def best_mix(problem: MixProblem) -> Mix | None:
    """The mix that costs least, or None where no mix serves every slice within the quotas."""
    # scipy takes a while to import, and only this needs it.
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError:
        raise InputError(
            field="scipy", value=None, problem="is not installed", fix="Install ullage[options] for mixes."
        ) from None

    pairs = [(k, s) for k in problem.kinds for s in problem.slices if problem.can_serve(k, s)]
    if any(all(part is not one for _, one in pairs) for part in problem.slices):
        return None
    kinds = list(problem.kinds)
    count = len(pairs) + len(kinds)
    rows: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    low: list[float] = []
    high: list[float] = []

    def add(coefficients: dict[int, float], least: float, most: float) -> None:
        row = np.zeros(count)
        for place, value in coefficients.items():
            row[place] = value
        rows.append(row)
        low.append(least)
        high.append(most)

    for part in problem.slices:
        whole = {place: 1.0 for place, (_, one) in enumerate(pairs) if one is part}
        add(whole, problem.parts, problem.parts)
    for number, kind in enumerate(kinds):
        load = {place: problem.work(kind, part) for place, (one, part) in enumerate(pairs) if one is kind}
        add({**load, len(pairs) + number: -1.0}, -np.inf, 0.0)
    for device, quota in problem.quotas.items():
        used = {len(pairs) + i: kind.devices for i, kind in enumerate(kinds) if kind.device == device}
        add(used, 0.0, float(quota))
    cost = np.array([0.0] * len(pairs) + [kind.usd_per_hour for kind in kinds])
    found = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), np.array(low), np.array(high)),
        integrality=np.ones(count),
        bounds=Bounds(0.0, np.inf),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    values = np.rint(found.x).astype(int).tolist()
    return _checked(
        problem,
        replicas={kind.name: values[len(pairs) + i] for i, kind in enumerate(kinds) if values[len(pairs) + i]},
        parts={(kind.name, part.name): values[i] for i, (kind, part) in enumerate(pairs) if values[i]},
    )


def _checked(problem: MixProblem, *, replicas: dict[str, int], parts: dict[tuple[str, str], int]) -> Mix:
    """The mix, with the program's constraints checked again in whole numbers."""
    for part in problem.slices:
        dealt = sum(count for (_, name), count in parts.items() if name == part.name)
        if dealt != problem.parts:
            raise InternalError(law=f"slice {part.name} is fully assigned", left=dealt, right=problem.parts)
    for kind in problem.kinds:
        busy = sum(
            parts.get((kind.name, part.name), 0) * problem.work(kind, part)
            for part in problem.slices
            if problem.can_serve(kind, part)
        )
        # The solver's own tolerance is a millionth.
        if busy > replicas.get(kind.name, 0) + 1e-5:
            raise InternalError(
                law=f"{kind.name} is not given more than it carries", left=busy, right=replicas.get(kind.name, 0)
            )
    usd = sum(kind.usd_per_hour * replicas.get(kind.name, 0) for kind in problem.kinds)
    return Mix(replicas=replicas, parts=parts, usd_per_hour=usd)
