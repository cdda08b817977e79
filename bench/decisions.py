"""What a plan from an estimate would decide, against what published sweeps measured (`make bench-decisions`).

A sweep is one configuration at several numbers of clients. A limit of TTFT and one of TPOT are drawn between its best
and its worst load; the load that holds is the most clients at which both were kept. Planned is the most clients at
which the estimate, made without the model's family and taken as slow as one time in ten, keeps them. Too much is a plan
that breaks its promise; the shortfall is what a plan leaves unused.

    estimated    nothing of the sweep is known
    one point    a common factor from its middle load
    two points   factors from its lowest and highest load, in proportion between them
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from bench.fit_efficiencies import held_out
from bench.published.cases import Case, serving_cases
from bench.published.fit import Floats, Simulated, linearise
from bench.published.score import table

LEAST_LOADS = 3
LIMITS_PER_SWEEP = 3
SEED = 11
SLOW_PERCENT = 90
KINDS = ("estimated", "one point", "two points")


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientSweep:
    """Latencies of one configuration by clients, as logarithms (TTFT, TPOT), measured and estimated."""

    family: str
    clients: Floats
    measured: Floats
    estimated: Floats


@dataclass(frozen=True, kw_only=True)
class Decision:
    kind: str
    held_clients: float
    planned_clients: float

    @property
    def is_too_much(self) -> bool:
        return self.planned_clients > self.held_clients * (1 + 1e-9)

    @property
    def shortfall_fraction(self) -> float:
        return max(0.0, 1.0 - self.planned_clients / self.held_clients)


def main() -> None:
    cases = [each for each in serving_cases() if isinstance(each, Case) and not each.apart]
    simulated = Simulated(cases)
    linear = linearise(simulated)
    estimates = held_out(simulated, linear, "family")
    print("\n".join(report(decisions(client_sweeps(cases, linear.measured, estimates)))))


def client_sweeps(cases: Sequence[Case], measured: Floats, estimated: Floats) -> list[ClientSweep]:
    groups: dict[tuple[object, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, case in enumerate(cases):
        groups[case.configuration][case.concurrency].append(place)
    return [
        ClientSweep(
            family=cases[next(iter(loads.values()))[0]].family,
            clients=np.array(sorted(loads), float),
            measured=np.array([measured[loads[each]].mean(axis=0) for each in sorted(loads)]),
            estimated=np.array([estimated[loads[each]].mean(axis=0) for each in sorted(loads)]),
        )
        for loads in groups.values()
        if len(loads) >= LEAST_LOADS
    ]


def decisions(sweeps: Sequence[ClientSweep]) -> list[Decision]:
    """Limits drawn for every sweep; a limit that no load or every load keeps decides nothing and is drawn again."""
    rng = np.random.default_rng(SEED)
    found = []
    for sweep in sweeps:
        others = [each for each in sweeps if each.family != sweep.family]
        slow = {kind: _slow(kind, others) for kind in KINDS}
        low, high = sweep.measured.min(axis=0), sweep.measured.max(axis=0)
        for _ in range(LIMITS_PER_SWEEP):
            limits = low + rng.uniform(size=2) * (high - low)
            held = highest(sweep.clients, sweep.measured, limits)
            if held <= sweep.clients[0] or held >= sweep.clients[-1]:
                continue
            for kind in KINDS:
                planned = highest(sweep.clients, corrected(kind, sweep) + slow[kind], limits)
                found.append(Decision(kind=kind, held_clients=held, planned_clients=planned))
    return found


def corrected(kind: str, sweep: ClientSweep) -> Floats:
    """The estimate, moved to what was measured at the points that are known."""
    errors = sweep.measured - sweep.estimated
    place = np.log(sweep.clients / sweep.clients[0]) / np.log(sweep.clients[-1] / sweep.clients[0])
    known: dict[str, Floats] = {
        "estimated": np.zeros_like(errors),
        "one point": np.tile(errors[len(errors) // 2], (len(errors), 1)),
        "two points": errors[0] + place[:, None] * (errors[-1] - errors[0]),
    }
    return np.add(sweep.estimated, known[kind])


def _slow(kind: str, sweeps: Sequence[ClientSweep]) -> Floats:
    """How much slower than this one time in ten, by sweeps of other families and the loads that were not used."""
    left = {"estimated": slice(None), "one point": slice(None), "two points": slice(1, -1)}[kind]
    errors = np.concatenate([(each.measured - corrected(kind, each))[left] for each in sweeps])
    slow: Floats = np.maximum(0.0, np.percentile(errors, SLOW_PERCENT, axis=0))
    return slow


def highest(clients: Floats, logs: Floats, limits: Floats) -> float:
    """The most clients at which both latencies keep their limits, straight between loads in logarithms; 0 if none."""
    rising = np.maximum.accumulate(logs, axis=0)
    places = []
    for column in range(2):
        values, limit = rising[:, column], limits[column]
        if values[0] > limit:
            return 0.0
        above = np.flatnonzero(values > limit)
        if not above.size:
            places.append(float(clients[-1]))
            continue
        right = int(above[0])
        share = (limit - values[right - 1]) / (values[right] - values[right - 1])
        places.append(float(clients[right - 1] * (clients[right] / clients[right - 1]) ** share))
    return min(places)


def report(found: Sequence[Decision]) -> Iterator[str]:
    rows = []
    for kind in KINDS:
        own = [each for each in found if each.kind == kind]
        too_much = np.mean([each.is_too_much for each in own])
        short = np.median([each.shortfall_fraction for each in own])
        rows.append((kind, len(own), f"{100 * too_much:.1f} %", f"{100 * short:.0f} %"))
    yield from table(("known", "pairs", "planned above what held", "median shortfall"), rows)


if __name__ == "__main__":
    main()
