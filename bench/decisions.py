"""What a plan from an estimate would decide, against what published sweeps measured (`make bench-decisions`).

A sweep is one configuration at several numbers of clients. A limit of TTFT and one of TPOT are drawn between its best
and its worst load; the load that holds is the most clients at which both were met. Planned is the most clients at
which the estimate, made without the model's family, meets both with every step slower by one ratio, as a plan slows
them (`Replica.slowed`). The ratio leaves the chosen chance that sweeps of other families would have been planned too
full; a device of a vendor that the fit does not know gets that of a new vendor. Too much is a plan that violates its
SLO; the shortfall is what a plan leaves unused, all of it where no load meets its limits.

    estimated                     nothing of the sweep is known
    one point, two points         its middle load; its lowest and its highest
    one, two at the load planned  the tested load at or below what the estimate plans at the median; then the same again
                                  with what was found there, or the next load where that is the one just tested

A tested load is known. Between tested loads errors are in proportion, beyond them those of the nearest; the ratio
grows with the square root of the doublings to the nearest tested load.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from bench.published.cases import Case, serving_cases
from bench.published.fit import Floats, Simulated, linearise
from bench.published.left_out import FAMILY, VENDOR_SPREAD, held_out, is_vendor_known
from bench.published.score import table

LEAST_LOADS = 3
LIMITS_PER_SWEEP = 3
SEED = 11
ESTIMATED = "estimated"
KINDS = (ESTIMATED, "one point", "one at the load planned", "two points", "two at the loads planned")
LATENCIES = {"TTFT": 0, "TPOT": 1}
CHANCE = 0.05
"""Of planning too much: what a plan takes where nobody states `policy.shortfall`."""
SHOWN_CHANCES = (0.03, 0.08, 0.15, 0.25, 0.35)
MARGINS = np.linspace(0.0, 1.5, 61)
"""Logarithms of the ratios that are tried."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientSweep:
    """Latencies of one configuration by clients, as logarithms (TTFT, TPOT), measured and estimated."""

    family: str
    clients: Floats
    measured: Floats
    estimated: Floats
    is_vendor_known: bool = True


@dataclass(frozen=True, kw_only=True)
class Decision:
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
    estimates = held_out(simulated, linear, FAMILY)
    print("\n".join(report(limit_pairs(client_sweeps(cases, linear.measured, estimates, FAMILY)))))


def client_sweeps(
    cases: Sequence[Case], measured: Floats, estimated: Floats, left_out: str | None = None
) -> list[ClientSweep]:
    """Sweeps with enough loads; `left_out` is what the estimates were made without."""
    known = is_vendor_known(cases, left_out) if left_out else np.ones(len(cases), bool)
    groups: dict[tuple[object, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, case in enumerate(cases):
        groups[case.configuration][case.concurrency].append(place)
    return [
        ClientSweep(
            family=cases[next(iter(loads.values()))[0]].family,
            clients=np.array(sorted(loads), float),
            measured=np.array([measured[loads[each]].mean(axis=0) for each in sorted(loads)]),
            estimated=np.array([estimated[loads[each]].mean(axis=0) for each in sorted(loads)]),
            is_vendor_known=bool(known[next(iter(loads.values()))[0]]),
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

    @property
    def right_log(self) -> float:
        """By how much every estimated step would have to be slower for the plan to be what held, as a logarithm."""
        clients = np.log(self.sweep.clients)
        rising = np.maximum.accumulate(self.sweep.estimated, axis=0)
        at_held = [np.interp(np.log(self.held_clients), clients, rising[:, column]) for column in range(2)]
        return float(np.min(self.limits - at_held))

    def tested(self, kind: str) -> list[int]:
        """Which loads were tested, as places in the sweep."""
        last = len(self.sweep.clients) - 1
        if kind == "one point":
            return [(last + 1) // 2]
        if kind == "two points":
            return [0, last]
        if kind == ESTIMATED:
            return []
        first = self._at_or_below(highest(self.sweep.clients, self.sweep.estimated, self.limits))
        if kind.startswith("one"):
            return [first]
        then = self._at_or_below(highest(self.sweep.clients, corrected(self.sweep, [first]), self.limits))
        if then == first:
            held = bool((self.sweep.measured[first] <= self.limits).all())
            then = min(first + 1, last) if held else max(first - 1, 0)
        return sorted({first, then})

    def _at_or_below(self, clients: float) -> int:
        return max(0, int(np.searchsorted(self.sweep.clients, clients * (1 + 1e-9), side="right")) - 1)

    def planned(self, kind: str, *, known: str = "") -> Floats:
        """The most clients that keep both limits, by margin. `known` is measured, not estimated."""
        tested = self.tested(kind)
        latencies = corrected(self.sweep, tested)
        if known:
            latencies[:, LATENCIES[known]] = self.sweep.measured[:, LATENCIES[known]]
        far = far_fraction(self.sweep, tested)[:, None]
        return np.array([highest(self.sweep.clients, latencies + each * far, self.limits) for each in MARGINS])


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Planned:
    """What would be planned for every pair, by margin."""

    pairs: Sequence[LimitPair]
    clients: Floats
    is_estimated: bool

    def decisions(self, chance: float) -> list[Decision]:
        """What is planned for each pair, the margin from pairs of other families whose vendor is known."""
        held = np.array([each.held_clients for each in self.pairs])
        is_over = self.clients > held[:, None] * (1 + 1e-9)
        known = np.array([each.sweep.is_vendor_known for each in self.pairs])
        families = np.array([each.sweep.family for each in self.pairs])
        found = []
        for place, each in enumerate(self.pairs):
            others = (families != each.sweep.family) & (known | (not self.is_estimated))
            margin = int(np.argmax(is_over[others].mean(axis=0) <= chance))
            if self.is_estimated and not known[place]:
                margin = min(round(margin * VENDOR_SPREAD[1]), len(MARGINS) - 1)
            found.append(Decision(held_clients=each.held_clients, planned_clients=float(self.clients[place, margin])))
        return found


def planned(pairs: Sequence[LimitPair], kind: str, *, known: str = "") -> Planned:
    clients = np.array([each.planned(kind, known=known) for each in pairs])
    return Planned(pairs=pairs, clients=clients, is_estimated=kind == ESTIMATED)


def corrected(sweep: ClientSweep, tested: Sequence[int]) -> Floats:
    """The estimate, moved to what was measured where it was tested."""
    if not tested:
        return sweep.estimated.copy()
    clients, errors = np.log(sweep.clients), sweep.measured - sweep.estimated
    places = list(tested)
    moved = [np.interp(clients, clients[places], errors[places, column]) for column in range(2)]
    return np.add(sweep.estimated, np.column_stack(moved))


def far_fraction(sweep: ClientSweep, tested: Sequence[int]) -> Floats:
    """How much of the margin each load gets: all of it a doubling away from the nearest tested load, none there."""
    clients = np.log2(sweep.clients)
    if not tested:
        return np.ones_like(clients)
    away: Floats = np.abs(clients[:, None] - clients[list(tested)][None, :]).min(axis=1)
    return np.sqrt(away)


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
    found = {kind: planned(pairs, kind) for kind in KINDS}
    yield from table(COLUMNS, [_row(kind, each.decisions(CHANCE)) for kind, each in found.items()])
    yield ""
    yield "At other chances of planning too much, and with one of the latencies measured:"
    yield ""
    rows = [
        _row(f"{kind}, chance {100 * chance:.0f} %", each.decisions(chance))
        for kind, each in found.items()
        for chance in SHOWN_CHANCES
    ]
    rows += [
        _row(f"{ESTIMATED}, {known} measured", planned(pairs, ESTIMATED, known=known).decisions(CHANCE))
        for known in LATENCIES
    ]
    yield from table(COLUMNS, rows)
    yield ""
    ranges = np.array([np.ptp(each.sweep.measured, axis=0) for each in pairs])
    ttft, tpot = (np.exp(np.percentile(ranges[:, column], [25, 50, 75])) for column in range(2))
    yield (
        f"Worst over best load, quartiles over pairs: TTFT {ttft[0]:.2f}, {ttft[1]:.2f}, {ttft[2]:.2f}; "
        f"TPOT {tpot[0]:.2f}, {tpot[1]:.2f}, {tpot[2]:.2f}."
    )
    known = [each.right_log for each in pairs if each.sweep.is_vendor_known]
    low, high = np.exp(np.percentile(known, [10, 90]))
    yield f"Steps that would have been right, 80 % of a known vendor's pairs: {low:.2f} to {high:.2f} of the estimate."


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
