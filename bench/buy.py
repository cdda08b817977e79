"""Whether the purchase mix is as cheap as stated and loses no more than stated, over drawn services and worlds.

    python -m bench.buy [--cases 60]

Each case is a service with its own size, daily variation, growth, uncertainty, share that may be lost, prices of terms
and existing commitments. The mix is chosen on drawn futures and evaluated on fresh ones; so are all on demand, all
committed and 70 % of the peak, each by its cheapest term. Then worlds are drawn from the range that the regret is
stated for (demand up to 30 % lower or higher, list prices fallen by up to the largest fall on record), and the loss
compared with a buyer who knew is compared with the stated regret.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from support.purchases import drawn_needs, instrument, market, stated
from ullage.cost.purchase.instrument import Held
from ullage.cost.purchase.mix import TermMix
from ullage.cost.purchase.purchase import PurchasePlan, purchase_plan
from ullage.cost.purchase.regret import fallen, future_regret_usd
from ullage.prices.purchase import Purchase

FALL = 0.44
_FUTURES, _FRESH, _WORLDS = 128, 256, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60)
    cases = parser.parse_args().cases
    started = time.process_time()
    dearer, cheaper, above, worlds = [], [], 0, 0
    for seed in range(cases):
        rng = np.random.default_rng((2026, seed))
        varies = bool(seed % 4)
        found, draw = _case(rng, varies=varies)
        best = found.best_rule.usd
        dearer.append(found.chosen.usd / best - 1.0)
        if varies:
            cheaper.append(1.0 - found.chosen.usd / best)
        mix = TermMix(name="chosen", orders=found.chosen.orders)
        for _ in range(_WORLDS):
            world = drawn_needs(rng, futures=1, months=found.months, **draw).times(float(rng.uniform(0.7, 1.3)))
            sold = fallen(found.market, float(rng.uniform(0.0, FALL)))
            above += future_regret_usd(mix, world, sold) > found.regret_usd
            worlds += 1
    gains = np.array(cheaper)
    print(f"{cases} cases, {time.process_time() - started:.0f} s of CPU")
    print(f"dearer than the best fixed rule by at most {100 * max(dearer):+.2f} % (target: 1 %)")
    print(
        f"where demand varies ({gains.size} cases): cheaper by {100 * np.median(gains):.1f} % in the median, "
        f"{100 * gains.mean():.1f} % on average, 5 % or more in {100 * (gains >= 0.05).mean():.0f} % of cases, "
        f"{100 * gains.min():.1f} % at the least"
    )
    print(f"worlds that lost more than was stated: {above} of {worlds}")


def _case(rng: np.random.Generator, *, varies: bool) -> tuple[PurchasePlan, dict[str, float]]:
    draw = {
        "base": float(rng.uniform(3.0, 60.0)),
        "swing": float(rng.uniform(0.4, 0.8)) if varies else 0.0,
        "deviation": float(rng.uniform(0.1, 0.3)) if varies else 0.02,
        "drift": float(rng.uniform(0.03, 0.08)) if varies else 0.0,
        "growth": float(rng.uniform(-0.01, 0.03)) if varies else 0.0,
        "losable": float(rng.choice([0.0, 0.0, 0.3])),
    }
    year = float(rng.uniform(6.0, 8.0))
    terms = [instrument(Purchase.ONE_YEAR, year)]
    months = 12
    if rng.random() < 0.5:
        terms.append(instrument(Purchase.THREE_YEARS, year * float(rng.uniform(0.65, 0.9))))
        months = 36
    spot = instrument(
        Purchase.SPOT, float(rng.uniform(3.0, 6.0)), interruptions=0.0003, refill_s=900.0, warning_s=120.0
    )
    held = (Held(name="held", nodes=int(draw["base"] / 4), months=int(rng.integers(1, 12)), usd_per_hour=6.0),)
    sold = market(*terms, months=months, spot=spot, held=held if rng.random() < 0.3 else ())
    drawn, fresh = (drawn_needs(rng, futures=each, months=months, **draw) for each in (_FUTURES, _FRESH))
    found = purchase_plan(
        "main", drawn, fresh, sold, fall=stated("fall", FALL), most_regret=None, inputs=(), rng=rng
    )  # fmt: skip
    assert isinstance(found, PurchasePlan)
    return found, draw


if __name__ == "__main__":
    main()
