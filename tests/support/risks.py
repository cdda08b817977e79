"""Made-up pools for tests of risk: a replica that carries one request a second, and what may be off."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

from ullage.evidence import Assumption, Evidence, Source
from ullage.fleet.availability import Breakage, Domains
from ullage.fleet.risk.load_draws import ClassLevel, Uncertain, Uncertainties, drawn_points, load_draws
from ullage.fleet.risk.shortfall import ShortfallModel
from ullage.fleet.risk.spread import lognormal
from ullage.fleet.risk.surface import STEPS, Axis, CapacitySurface

NEVER = Breakage(failures_per_s=0.0, repair_s=1.0)
_ASSUMED = Assumption(
    name="made.up",
    value=1.0,
    unit="ratio",
    evidence=Evidence.ASSUMED,
    source=Source(what="a test", where="tests", date=datetime.date(2026, 11, 15)),
)
_PROPORTIONAL = Axis(ratios=(0.1, 1.0, 10.0), logs=(-2.302585093, 0.0, 2.302585093))


def domains(replicas: int, *, replica: Breakage = NEVER, node: Breakage = NEVER) -> Domains:
    return Domains(zones=((1,) * replicas,), replica=replica, node=node, zone=NEVER)


SURE: Callable[[int], Domains] = domains


def surface(
    *, sizes: int = 512, axes: Mapping[str, Axis] | None = None, work_s: Mapping[str, float] | None = None
) -> CapacitySurface:
    """One request a second of each replica, whatever their number; slower steps are worth their ratio."""
    return CapacitySurface(
        sizes=(1, sizes), each_rps=(1.0, 1.0), axes=axes or {STEPS: _PROPORTIONAL}, work_s=work_s or {}
    )


def uncertainties(
    *,
    demand: float,
    steps: float,
    load: float = 100.0,
    loads: tuple[float, ...] | None = None,
    heights: tuple[float, ...] = (1.0,) * 168,
) -> Uncertainties:
    """Classes a, b, ... with these busiest hours, and a step ratio; deviations are of logarithms."""
    given = loads or (load - 1e-9,)
    return Uncertainties(
        classes=tuple(
            ClassLevel(name=name, middle_rps=each, heights=heights, spread=lognormal(demand), planned_rps=each)
            for name, each in zip("abcdef", given, strict=False)
        ),
        correlations=((1.0,) * len(given),) * len(given),
        inputs=(Uncertain(name=STEPS, spread=lognormal(steps), assumption=_ASSUMED),),
        traffic_lengths=0.0,
        surface_deviation_fraction=0.0,
    )


def risk_model(
    *,
    demand: float = 0.0,
    steps: float = 0.0,
    load: float = 100.0,
    heights: tuple[float, ...] = (1.0,) * 168,
    given: Uncertainties | None = None,
    over: CapacitySurface | None = None,
    domains: Callable[[int], Domains] = SURE,
) -> ShortfallModel:
    known = given or uncertainties(demand=demand, steps=steps, load=load, heights=heights)
    on = over or surface()
    return ShortfallModel(
        draws=load_draws(known, on, drawn_points(known, 4096, seed=0)), surface=on, domains_of=domains
    )  # fmt: skip
