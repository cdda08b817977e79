"""Drifts planted in a simulated production, of drawn size and seed: is the error charged to its cause?

    python -m bench.reconcile [--draws 5] [--weeks 6] [--quiet-weeks 120] [--prometheus]

Production is our simulator at four loads, and every hour what lies between them, with the noise of its requests
(tests/support/production.py). Eight drifts alone and all pairs of them, sizes and seeds drawn; then weeks in which
nothing was planted. With --prometheus each drift is also back-filled into a real server and read from it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.random import Generator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.kept_case import KeptCase, kept_case
from support.production import Planted, open_metrics
from support.prometheus import prometheus
from ullage.readers.prometheus.observe import client_of, observe_server
from ullage.readers.prometheus.settings import HttpSettings, MetricNames
from ullage.reconcile.evaluate import Needed
from ullage.reconcile.inputs import DriftCause, DriftInputs, InputVerdict
from ullage.reconcile.observation import Observation
from ullage.reconcile.reconcile import Reconciliation, reconcile

LEAST_SHARE = 0.8


def _with(planted: Planted, **changes: object) -> Planted:
    return replace(planted, inputs=replace(planted.inputs, **changes))  # type: ignore[arg-type]


DRIFTS: dict[DriftCause, Callable[[Planted, Generator], Planted]] = {
    DriftCause.TRAFFIC: lambda each, rng: _with(each, traffic_ratio=rng.uniform(1.15, 1.6)),
    DriftCause.LENGTHS: lambda each, rng: _with(each, output_ratio=rng.uniform(1.2, 1.8)),
    DriftCause.CACHE: lambda each, rng: _with(each, cached_ratio=rng.uniform(0.3, 0.8)),
    DriftCause.MIX: lambda each, rng: _with(each, class_ratios=_mixed(rng.uniform(1.5, 3.0))),
    DriftCause.STEPS: lambda each, rng: replace(each, slow_zone_ratio=rng.uniform(1.3, 1.8)),
    DriftCause.READY: lambda each, rng: _with(each, ready_ratio=rng.uniform(1.8, 2.5)),
    DriftCause.PRICES: lambda each, rng: _with(each, price_ratio=rng.uniform(1.1, 1.5)),
    DriftCause.FAILURES: lambda each, rng: replace(
        each, restarts_per_week=rng.uniform(6.0, 20.0), failed_fraction=rng.uniform(0.03, 0.1)
    ),
}


def _mixed(ratio: float) -> dict[str, float]:
    """Coding so many times as large a share of a seventh, chat what is left of the whole."""
    return {"coding": ratio, "chat": (7.0 - ratio) / 6.0}


def error(needed: Needed) -> float:
    """A month's bill, and that of a success scaled to a month of ten million: failures move the second alone."""
    return abs(needed.usd_per_month or 0.0) + 1e7 * abs(needed.usd_per_success or 0.0)


def share_of(found: Reconciliation, causes: Sequence[DriftCause]) -> float:
    assert found.causes is not None
    charged = {each.cause: error(each.shapley) for each in found.causes.shares}
    return sum(charged.get(each, 0.0) for each in causes) / max(sum(charged.values()), 1e-12)


def held(case: KeptCase, seen: Observation) -> Reconciliation:
    return reconcile(case.expected, seen, case.evaluation, plan=case.digest, seed=0)


def planted_row(case: KeptCase, causes: Sequence[DriftCause], draws: int, weeks: float) -> tuple[float, int, int]:
    """The least share over the draws, how many reach the wanted one, and how many draws there were."""
    shares = []
    for draw in range(draws):
        rng = np.random.default_rng((draw, *(list(DriftCause).index(each) for each in causes)))
        planted = Planted()
        for each in causes:
            planted = DRIFTS[each](planted, rng)
        seen = case.production.observation(planted, start_s=case.start_s, weeks=weeks, seed=int(rng.integers(2**31)))
        shares.append(share_of(held(case, seen), causes))
    return min(shares), sum(each >= LEAST_SHARE for each in shares), len(shares)


def false_alarms(case: KeptCase, weeks: int) -> int:
    """Weeks without a drift in which an assumption was said to have drifted."""
    alarms = 0
    for seed in range(weeks):
        seen = case.production.observation(Planted(), start_s=case.start_s, weeks=1.0, seed=10_000 + seed)
        alarms += any(each.verdict is InputVerdict.DRIFTED for each in held(case, seen).inputs)
    return alarms


def through_prometheus(case: KeptCase, weeks: float) -> None:
    print("\n| planted, read from a real Prometheus | share charged to it |\n|---|---|")
    names = MetricNames(label="product")
    for each, plant in DRIFTS.items():
        planted = plant(Planted(inputs=DriftInputs()), np.random.default_rng(3))
        seen = case.production.observation(planted, start_s=case.start_s, weeks=weeks, seed=3)
        with tempfile.TemporaryDirectory() as folder:
            lines = open_metrics(seen, scrape_s=300.0, replicas=case.production.replicas)
            with prometheus(Path(folder), lines) as address, client_of(address, HttpSettings()) as client:
                read = observe_server(client, names, start_s=seen.start_s, end_s=seen.end_s)
        print(f"| {each} | {share_of(held(case, read), [each]):.0%} |", flush=True)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--draws", type=int, default=5)
    asked.add_argument("--weeks", type=float, default=6.0)
    asked.add_argument("--quiet-weeks", type=int, default=120)
    asked.add_argument("--prometheus", action="store_true")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        case = kept_case(Path(folder))
        print(f"| planted | least share charged to it | at {LEAST_SHARE:.0%} or more |\n|---|---|---|")
        for each in DRIFTS:
            least, enough, draws = planted_row(case, [each], given.draws, given.weeks)
            print(f"| {each} | {least:.0%} | {enough} of {draws} |", flush=True)
        rows = [planted_row(case, pair, 1, given.weeks) for pair in combinations(DRIFTS, 2)]
        print(
            f"| pairs | {min(row[0] for row in rows):.0%} | {sum(row[1] for row in rows)} of {len(rows)} |", flush=True
        )
        alarms = false_alarms(case, given.quiet_weeks)
        print(f"\nNothing planted: an alarm in {alarms} of {given.quiet_weeks} weeks.")
        if given.prometheus:
            through_prometheus(case, given.weeks)


if __name__ == "__main__":
    main()
