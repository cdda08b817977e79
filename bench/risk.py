"""Do plans fall short as often as they say? Worlds are drawn from the plan's own laws, and each is simulated.

    python bench/risk.py [--worlds 300]

The built-in example at three tenths of its traffic, one pool. For 20, 10 and 5 % the study names a fleet and says how
often it falls short. Then worlds are drawn with an ordinary generator (demand, step times, lengths, cached share),
parts fail by their own chances, and every fleet is tried in every world: not on the study's surface but in the
simulator, on windows that the study has not seen. The share of worlds in which an SLO is violated is put beside what
was said.
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
from ullage.fleet.risk.shortfall import ShortfallModel
from ullage.fleet.risk.surface import changed_trial
from ullage.service.trial.decide import judge, sampled
from ullage.service.trial.strata import strata_of
from ullage.uncertainty.pool_study import DRAWS, failing_together, planned_work

AS_OF = datetime.date(2026, 11, 16)
TARGETS = (0.2, 0.1, 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=300)
    worlds = parser.parse_args().worlds
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
    fleets = {target: model.least(target) for target in TARGETS}
    # Surface noise is an error of ours, not a fact of the world: worlds are drawn without it.
    real = replace(given, surface_deviation_fraction=0.0)
    rng = np.random.default_rng(2026)
    points = rng.uniform(1e-9, 1.0 - 1e-9, (worlds, len(real.groups)))
    drawn = load_draws(real, surface, points)
    bases = pool.bases
    strata = strata_of(bases.nominal.load_at, span_s=bases.nominal.span_s, seed=77, work_s=bases.nominal_probe.work_s)
    short = dict.fromkeys(TARGETS, 0)
    for world in range(worlds):
        ratios = {name: float(each[world]) for name, each in drawn.ratios.items() if name in surface.axes}
        load_rps = float(drawn.busiest_rps[world])
        trial = changed_trial(bases.nominal, ratios)
        luck = rng.random()
        for target, fleet in fleets.items():
            if fleet is None:
                continue
            up = int(np.searchsorted(np.cumsum(up_chances(domains(fleet))), luck))
            pool_now = replace(trial, replicas=max(1, up))
            sample = sampled(pool_now, load_rps, strata, [1] * len(strata.weights))
            short[target] += up == 0 or judge(pool_now, load_rps, sample).excess > 0.0
    print(f"{worlds} worlds, study {studied_s:.0f} CPU-s, all {time.process_time() - started:.0f} CPU-s")
    for target, fleet in fleets.items():
        if fleet is None:
            print(f"{100 * target:g} %: no fleet")
            continue
        said, came = model.fraction(fleet), short[target] / worlds
        error = math.sqrt(said * (1.0 - said) / worlds)
        print(
            f"{100 * target:g} %: {fleet} replicas, said {100 * said:.1f} %, "
            f"found {100 * came:.1f} % (± {200 * error:.1f})"
        )


if __name__ == "__main__":
    main()
