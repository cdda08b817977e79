"""What a plan from an estimate would decide, against what published sweeps measured (`make bench-decisions`).

A sweep is one configuration at several numbers of clients. A limit of TTFT and one of TPOT are drawn between its best
and its worst load; the load that holds is the most clients at which both were kept. Planned is the most clients at
which the estimate, made without the model's family, keeps both with a margin. The margin is one for the decision, as a
plan's is: both latencies are taken slower in proportion to their errors one time in ten, by as much as leaves the
chosen chance that the sweeps of other families would have been planned too full. A load that was tested is known,
and gets none. Too much is a plan that breaks its
promise; the shortfall is what a plan leaves unused, all of it where no load keeps its limits.

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
LATENCIES = {"TTFT": 0, "TPOT": 1}
CHANCE = 0.05
"""Of planning too much: what a plan takes where nobody states `policy.shortfall`."""
SHOWN_CHANCES = (0.15, 0.25, 0.35)
MOST_MARGIN = 4.0
HALVINGS = 12


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
    print("\n".join(report(limit_pairs(client_sweeps(cases, linear.measured, estimates)))))


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


@dataclass(frozen=True, kw_only=True, eq=False)
class LimitPair:
    """Limits of TTFT and TPOT drawn for a sweep, as logarithms, and the clients at which both were measured to hold."""

    sweep: ClientSweep
    limits: Floats
    held_clients: float

    def planned(self, kind: str, latencies: Floats, margin: Floats) -> float:
        """The most clients that keep both limits with this margin, less of it near loads that were tested."""
        slower = latencies + far_fraction(kind, self.sweep.clients)[:, None] * margin
        return highest(self.sweep.clients, slower, self.limits)


def limit_pairs(sweeps: Sequence[ClientSweep]) -> list[LimitPair]:
    """Limits drawn for every sweep; those that no load or every load keeps decide nothing."""
    rng = np.random.default_rng(SEED)
    found = []
    for sweep in sweeps:
        low, high = sweep.measured.min(axis=0), sweep.measured.max(axis=0)
        for _ in range(LIMITS_PER_SWEEP):
            limits = low + rng.uniform(size=2) * (high - low)
            held = highest(sweep.clients, sweep.measured, limits)
            if sweep.clients[0] < held < sweep.clients[-1]:
                found.append(LimitPair(sweep=sweep, limits=limits, held_clients=held))
    return found


def decisions(pairs: Sequence[LimitPair], kind: str, *, chance: float, known: str = "") -> list[Decision]:
    """What is planned for each pair, the margin from pairs of other families. `known` is measured, not estimated."""
    families = sorted({each.sweep.family for each in pairs})
    margins = {
        family: joint_margin(kind, [each for each in pairs if each.sweep.family != family], chance, known)
        for family in families
    }
    return [
        Decision(
            kind=kind,
            held_clients=each.held_clients,
            planned_clients=each.planned(kind, corrected(kind, each.sweep, known), margins[each.sweep.family]),
        )
        for each in pairs
    ]


def joint_margin(kind: str, pairs: Sequence[LimitPair], chance: float, known: str) -> Floats:
    """The least margin along the errors one time in ten that leaves this chance of planning too much, by bisection."""
    each_sweep = list({id(each.sweep): each.sweep for each in pairs}.values())
    along = _slow(kind, each_sweep, known)
    curves = {id(sweep): corrected(kind, sweep, known) for sweep in each_sweep}
    low, high = 0.0, MOST_MARGIN
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        over = np.mean(
            [
                each.planned(kind, curves[id(each.sweep)], middle * along) > each.held_clients * (1 + 1e-9)
                for each in pairs
            ]
        )
        low, high = (middle, high) if over > chance else (low, middle)
    return high * along


def corrected(kind: str, sweep: ClientSweep, known: str = "") -> Floats:
    """The estimate, moved to what was measured at the points that are known."""
    latencies = _moved(kind, sweep)
    column = LATENCIES.get(known)
    if column is not None:
        latencies = latencies.copy()
        latencies[:, column] = sweep.measured[:, column]
    return latencies


def far_fraction(kind: str, clients: Floats) -> Floats:
    """Which share of the margin each load gets: none where it was tested itself, and all of it elsewhere.

    Between two tested loads the way to the nearer one counts; beside a single one errors are as large near as far.
    """
    place = np.log(clients / clients[0]) / np.log(clients[-1] / clients[0])
    if kind == "two points":
        away: Floats = np.minimum(place, 1.0 - place)
        return away / max(float(away.max()), 1e-9)
    found: Floats = np.ones_like(place)
    if kind == "one point":
        found[len(place) // 2] = 0.0
    return found


def _moved(kind: str, sweep: ClientSweep) -> Floats:
    errors = sweep.measured - sweep.estimated
    place = np.log(sweep.clients / sweep.clients[0]) / np.log(sweep.clients[-1] / sweep.clients[0])
    moved: dict[str, Floats] = {
        "estimated": np.zeros_like(errors),
        "one point": np.tile(errors[len(errors) // 2], (len(errors), 1)),
        "two points": errors[0] + place[:, None] * (errors[-1] - errors[0]),
    }
    return np.add(sweep.estimated, moved[kind])


def _slow(kind: str, sweeps: Sequence[ClientSweep], known: str = "") -> Floats:
    """How much slower than this one time in ten, by sweeps of other families and the loads that were not used."""
    left = {"estimated": slice(None), "one point": slice(None), "two points": slice(1, -1)}[kind]
    errors = np.concatenate([(each.measured - corrected(kind, each, known))[left] for each in sweeps])
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


def report(pairs: Sequence[LimitPair]) -> Iterator[str]:
    yield from table(COLUMNS, [_row(kind, decisions(pairs, kind, chance=CHANCE)) for kind in KINDS])
    yield ""
    yield "The same with one of the latencies measured, and at other chances of planning too much:"
    yield ""
    rows = [
        _row(f"{kind}, {known} measured", decisions(pairs, kind, chance=CHANCE, known=known))
        for kind in KINDS
        for known in LATENCIES
    ]
    rows += [
        _row(f"{kind}, chance {100 * chance:.0f} %", decisions(pairs, kind, chance=chance))
        for kind in KINDS
        for chance in SHOWN_CHANCES
    ]
    yield from table(COLUMNS, rows)
    yield ""
    ranges = np.array([np.ptp(each.sweep.measured, axis=0) for each in pairs])
    ttft, tpot = (np.exp(np.percentile(ranges[:, column], [25, 50, 75])) for column in range(2))
    yield (
        f"Worst over best load, quartiles over pairs: TTFT {ttft[0]:.2f}, {ttft[1]:.2f}, {ttft[2]:.2f}; "
        f"TPOT {tpot[0]:.2f}, {tpot[1]:.2f}, {tpot[2]:.2f}."
    )


COLUMNS = ("known", "pairs", "planned above what held", "median shortfall", "mean shortfall", "nothing planned")


def _row(name: str, found: Sequence[Decision]) -> tuple[object, ...]:
    short = np.array([each.shortfall_fraction for each in found])
    return (
        name,
        len(found),
        f"{100 * np.mean([each.is_too_much for each in found]):.1f} %",
        f"{100 * np.median(short):.0f} %",
        f"{100 * short.mean():.0f} %",
        f"{100 * np.mean(short >= 1.0):.0f} %",
    )


if __name__ == "__main__":
    main()
