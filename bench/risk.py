"""Whether plans fall short as often as predicted: worlds are drawn from the plan's own laws, and each is simulated.

    python bench/risk.py [--worlds 300] [--tests 1000] [--only 1] [--each]

The built-in example at three tenths of its traffic, one pool. For 20, 10, 5 and 1 % there are two fleets: the one that
is planned for that chance, and the one that the study names. Then worlds are drawn with an ordinary generator (demand,
step times, lengths, cached share), parts fail by their own chances, and every fleet is tried in every world: not on
the study's surface but in the simulator, on windows that the study has not seen. The share of worlds in which an SLO is
violated is compared with the predicted chance, and with the surface's answer for the same worlds: a difference to the
first is chance or a wrong surface, one to the second the surface alone. Worlds in which not even the largest sensible
fleet meets the SLOs are counted separately: they are no lack of replicas. Last, a number of worlds have a load test:
its result is drawn, the fleet is chosen anew for the same chance, and the mean is compared with what the study
predicted.
"""

from __future__ import annotations

import argparse
import datetime
import math
import sys
import time
from dataclasses import replace

import numpy as np

from ullage import verbs
from ullage.errors import Rejection
from ullage.fleet.availability import up_chances
from ullage.fleet.risk.load_draws import drawn_points, load_draws
from ullage.fleet.risk.quasi_random import normal_fractions, normal_scores
from ullage.fleet.risk.shortfall import ShortfallModel, most_sensible
from ullage.fleet.risk.surface import STEPS, changed_trial
from ullage.service.trial.decide import judge, sampled
from ullage.service.trial.strata import Strata, strata_of
from ullage.service.trial.trial import Trial
from ullage.uncertainty.information import chooser
from ullage.uncertainty.pool_study import DRAWS, PoolStudy, failing_together, planned_work

AS_OF = datetime.date(2026, 11, 16)
TARGETS = (0.2, 0.1, 0.05, 0.01)


def planned(target: float) -> int:
    """The serving replicas of a plan for this chance."""
    found = verbs.plan(traffic="x0.3", set=[f"policy.shortfall={100 * target:g}%"], as_of=AS_OF, quick=True)
    if isinstance(found, Rejection):
        sys.exit(f"refused: {found.reason}")
    (pool,) = found.pools
    return pool.steady_fleet.replicas + pool.reserves.serving_replicas


def tested(study: PoolStudy, model: ShortfallModel, worlds: int) -> None:
    """What a load test changes over worlds whose step times are drawn, beside what was announced of it."""
    announced = next((each for each in study.measurements if each.measurement.name == "load_test"), None)
    if announced is None:
        print("no load test is announced: step times are known as well as a test leaves them")
        return
    given, left = study.uncertainties, announced.measurement.left_fractions[STEPS]
    points, column = drawn_points(given, 1024, seed=1), given.groups.index(STEPS)
    chosen = chooser(given, study.surface, model, 0.05)
    before, fleets = chosen(points), []
    for shown in np.random.default_rng(8).standard_normal(worlds).tolist():
        learnt = points.copy()
        scores = math.sqrt(1.0 - left**2) * shown + left * normal_scores(points[:, column])
        learnt[:, column] = normal_fractions(scores)
        fleets.append(chosen(learnt))
    helped = [each for each in fleets if each is not None and before is not None]
    changes = [each - (before or 0) for each in helped]
    said = announced.expected_replicas - announced.now_replicas
    print(
        f"a load test: said {said:+.2f} replicas, found {np.mean(changes):+.2f} (± "
        f"{2.0 * float(np.std(changes)) / math.sqrt(max(1, len(changes))):.2f}) over {worlds} worlds, "
        f"{worlds - len(helped)} of them without a fleet that keeps it"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=300)
    parser.add_argument("--tests", type=int, default=1000)
    parser.add_argument("--only", type=float, action="append", metavar="PERCENT", help="fleets of these chances alone")
    parser.add_argument("--each", action="store_true", help="print worlds about which fleets or the surface differ")
    asked = parser.parse_args()
    worlds, targets = asked.worlds, [each / 100.0 for each in asked.only] if asked.only else TARGETS
    started = time.process_time()
    found = verbs.risk(traffic="x0.3", as_of=AS_OF)
    if isinstance(found, Rejection):
        sys.exit(f"refused: {found.reason}")
    studied_s = time.process_time() - started
    (study,), (pool,) = found.study.pools, found.plan.pools
    given, surface = study.uncertainties, study.surface
    domains = failing_together(pool)
    model = ShortfallModel(
        draws=load_draws(given, surface, drawn_points(given, DRAWS, seed=0)),
        surface=surface,
        domains_of=domains,
        outages=planned_work(pool, given),
    )
    if asked.tests:
        tested(study, model, asked.tests)
    if not worlds:
        return
    fleets = {("planned", target): planned(target) for target in targets}
    fleets |= {("studied", target): fleet for target in targets if (fleet := model.least(target)) is not None}
    # Surface noise is an error of ours, not a fact of the world: worlds are drawn without it.
    real = replace(given, surface_deviation_fraction=0.0)
    rng = np.random.default_rng(2026)
    drawn = load_draws(real, surface, rng.uniform(1e-9, 1.0 - 1e-9, (worlds, len(real.groups))))
    bases = pool.bases
    strata = strata_of(bases.nominal.load_at, span_s=bases.nominal.span_s, seed=77, work_s=bases.nominal_probe.work_s)
    short, told, hopeless = dict.fromkeys(fleets, 0), dict.fromkeys(fleets, 0), 0
    for world in range(worlds):
        ratios = {name: float(each[world]) for name, each in drawn.ratios.items() if name in surface.axes}
        load_rps = float(drawn.busiest_rps[world])
        trial = changed_trial(bases.nominal, ratios)
        luck = rng.random()

        # Every world has its own windows: five that all of them share would be luck that no number of worlds evens out.
        own = replace(strata, seeds=tuple(part[world % len(part) :] for part in strata.seeds))

        def violates(replicas: int, trial: Trial = trial, load_rps: float = load_rps, own: Strata = own) -> bool:
            fleet = replace(trial, replicas=max(1, replicas))
            sample = sampled(fleet, load_rps, own, [1] * len(own.weights))
            return replicas == 0 or judge(fleet, load_rps, sample).excess > 0.0

        by_up: dict[int, bool] = {}
        fell, needed = {}, int(drawn.needed[world])
        for name, fleet in fleets.items():
            up = int(np.searchsorted(np.cumsum(up_chances(domains(fleet))), luck))
            by_up.setdefault(up, violates(up) if up not in by_up else by_up[up])
            fell[name] = by_up[up]
            told[name] += up < needed <= most_sensible(model.draws.needed)
        if asked.each and len({*fell.values(), *(up < needed for up in by_up)}) > 1:
            print(f"{load_rps:.2f} req/s, {ratios}: needs {needed}; tried {by_up}", flush=True)
        if all(fell.values()) and violates(most_sensible(model.draws.needed)):
            hopeless += 1
            continue
        for name, is_short in fell.items():
            short[name] += is_short
    print(f"{worlds} worlds, study {studied_s:.0f} CPU-s, all {time.process_time() - started:.0f} CPU-s")
    print(f"no fleet helps: said {100 * model.hopeless_fraction:.1f} %, found {100 * hopeless / worlds:.1f} %")
    for (which, target), fleet in fleets.items():
        said = target if which == "planned" else model.fraction(fleet)
        error = math.sqrt(said * (1.0 - said) / worlds)
        print(
            f"{100 * target:g} %, {which}: {fleet} replicas, said {100 * said:.1f} %, "
            f"found {100 * short[which, target] / worlds:.1f} % (± {200 * error:.1f}), "
            f"by the surface in the same worlds {100 * told[which, target] / worlds:.1f} %"
        )


if __name__ == "__main__":
    main()
