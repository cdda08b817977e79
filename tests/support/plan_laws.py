"""Laws of a whole plan over random specifications: small ones, so that a plan takes a few seconds.

Sizes are simulated, so that a law about them is held beyond the interval that the plan prints (`low` to `high`
replicas); bench/laws.py also counts how often one goes the wrong way inside of it.
"""

from __future__ import annotations

import copy
import datetime
import itertools
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.calibrations import FACTORS, calibration_document, spread
from ullage import verbs
from ullage.cost.bill import Bill
from ullage.errors import Rejection
from ullage.planning.document import Plan
from ullage.report.plan.json_document import plan_json

AS_OF = datetime.date(2026, 11, 15)
Document = dict[str, Any]
_ITEM_PRICES = {
    "object-storage": (0.02, "USD/GB-month"),
    "block-storage": (0.08, "USD/GB-month"),
    "egress": (0.05, "USD/GB"),
    "zone-network": (0.01, "USD/GB"),
    "log-ingest": (0.5, "USD/GB"),
    "log-storage": (0.03, "USD/GB-month"),
    "span": (2.0, "USD/Mspan"),
    "metric-series": (0.05, "USD/series-month"),
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a law found on one service: nothing, a wrong turn inside the interval, or a violation beyond it."""

    is_wrong: bool
    is_beyond: bool
    sentence: str = ""


HOLDS = Finding(is_wrong=False, is_beyond=False)


def broken(sentence: str) -> Finding:
    return Finding(is_wrong=True, is_beyond=True, sentence=sentence)


def random_service(seed: int) -> Document:
    """One to three classes on one pool: rates, lengths, SLOs, zones and prices drawn anew."""
    draw = random.Random(seed)
    classes = []
    for place in range(draw.choice((1, 1, 2, 3))):
        prompt, output = draw.choice((200, 600, 1500)), draw.choice((50, 150, 400))
        classes.append(
            {
                "name": f"class-{place}",
                "rate": f"{draw.choice((0.5, 2.0, 5.0, 9.0)):g} req/s",
                "longest_context": 8192,
                "slo": {
                    "ttft_p95": f"{draw.choice((800, 1500, 3000))}ms",
                    "tpot_p95": f"{draw.choice((40, 60, 100))}ms",
                },
                "prompt": {"p50": prompt, "p95": 3 * prompt},
                "output": {"p50": output, "p95": 3 * output},
            }
        )
    own = [{"device": "h100-sxm", "provider": "me", "price": f"{draw.choice((2.0, 3.5)):g} USD/h"}]
    return {
        "version": 1,
        "service": f"random {seed}",
        "dated": AS_OF.isoformat(),
        "workload": {"classes": classes},
        "pool": {"model": "llama-3.1-8b", "device": "h100-sxm"},
        "policy": {"zones": draw.choice((1, 2, 3))},
        "prices": {
            "provider": "me",
            "own": {"devices": own, "items": {name: f"{usd:g} {per}" for name, (usd, per) in _ITEM_PRICES.items()}},
        },
    }


def planned(service: Document, *, seed: int = 3) -> Plan | Rejection:
    return verbs.plan(copy.deepcopy(service), as_of=AS_OF, seed=seed, quick=True)


# ---- sizes ------------------------------------------------------------------------------------------------------


def sizes(plan: Plan) -> tuple[int, int, int]:
    """Least and most steady replicas that the plan could not tell apart, and those that it takes."""
    size = plan.pools[0].steady_fleet.size
    return size.low_replicas, size.high_replicas, plan.pools[0].steady_fleet.replicas


def never_fewer(plan: Plan, service: Document, change: Callable[[Document], None]) -> Finding:
    """A heavier service needs as many replicas or more, or is refused."""
    heavier = copy.deepcopy(service)
    change(heavier)
    other = planned(heavier)
    if isinstance(other, Rejection):
        return HOLDS
    (low, _, taken), (_, high, others) = sizes(plan), sizes(other)
    return Finding(is_wrong=others < taken, is_beyond=high < low, sentence=f"{taken} ({low}) became {others} ({high})")


def more_traffic(plan: Plan, service: Document) -> Finding:
    def change(heavier: Document) -> None:
        for each in heavier["workload"]["classes"]:
            each["rate"] = f"{1.4 * float(each['rate'].split()[0]):g} req/s"

    return never_fewer(plan, service, change)


def stricter_slo(plan: Plan, service: Document) -> Finding:
    def change(stricter: Document) -> None:
        for each in stricter["workload"]["classes"]:
            each["slo"] = {name: f"{0.75 * float(limit[:-2]):g}ms" for name, limit in each["slo"].items()}

    return never_fewer(plan, service, change)


def slower_device(plan: Plan, service: Document) -> Finding:
    """An A100 has as much memory as an H100 and less of everything else."""

    def change(slower: Document) -> None:
        slower["pool"]["device"] = "a100-80gb-sxm"
        slower["prices"]["own"]["devices"][0]["device"] = "a100-80gb-sxm"

    return never_fewer(plan, service, change)


def halves(plan: Plan, service: Document) -> Finding:
    """A class split in two equal halves is the same load: at most one replica more or fewer."""
    split = copy.deepcopy(service)
    first = split["workload"]["classes"][0]
    first["rate"] = f"{float(first['rate'].split()[0]) / 2:g} req/s"
    split["workload"]["classes"].insert(1, {**copy.deepcopy(first), "name": "other-half"})
    other = planned(split)
    if isinstance(other, Rejection):
        return broken(f"half of a class is refused: {other.reason}")
    (low, high, taken), (other_low, other_high, others) = sizes(plan), sizes(other)
    apart = max(other_low - high, low - other_high)
    sentence = f"{taken} ({low} to {high}) became {others} ({other_low} to {other_high})"
    return Finding(is_wrong=abs(others - taken) > 1, is_beyond=apart > 1, sentence=sentence)


# ---- money ------------------------------------------------------------------------------------------------------


def bill_of(plan: Plan) -> Bill:
    return next(each.answer for each in plan.stages if isinstance(each.answer, Bill))


def lines_sum(plan: Plan, service: Document) -> Finding:
    bill = bill_of(plan)
    cents = sum(each.cents or 0 for each in bill.lines)
    whole = round(100 * float(bill.figures["bill.total_usd"].value))
    return HOLDS if cents == whole == bill.total_cents else broken(f"{cents} cents in lines, {whole} in the total")


def doubled_prices(plan: Plan, service: Document) -> Finding:
    """Every line with a price doubles, to the cent on either side, and the fleet stays."""
    dear = copy.deepcopy(service)
    own = dear["prices"]["own"]
    for each in own["devices"]:
        each["price"] = f"{2 * float(each['price'].split()[0]):g} USD/h"
    own["items"] = {name: f"{2 * usd:g} {per}" for name, (usd, per) in _ITEM_PRICES.items()}
    other = planned(dear)
    if isinstance(other, Rejection):
        return broken("twice the price is refused")
    if sizes(other) != sizes(plan):
        return broken(f"the fleet moved with the price: {sizes(plan)} became {sizes(other)}")
    lines = {each.label: each.cents for each in bill_of(plan).lines if each.is_priced}
    twice = {each.label: each.cents for each in bill_of(other).lines if each.is_priced}
    wrong = {
        name: (cents, twice.get(name))
        for name, cents in lines.items()
        if twice.get(name) is None or abs((twice[name] or 0) - 2 * (cents or 0)) > 1
    }
    return broken(f"lines that did not double: {wrong}") if wrong or set(lines) != set(twice) else HOLDS


# ---- evidence ---------------------------------------------------------------------------------------------------


def better_evidence(plan: Plan, service: Document) -> Finding:
    """Nothing, a calibration known to 6 %, one known to 1 %: the band of step times never widens on the way."""
    bands = [plan.pools[0].steady_fleet.size.band.slow_ratio]
    with tempfile.TemporaryDirectory() as folder:
        for each in (0.06, 0.01):
            file = Path(folder) / f"calibration-{each}.json"
            document = calibration_document({**FACTORS, "fixed_ratio": 1.0})
            document["calibration"]["spread"] = spread(each)
            file.write_text(json.dumps(document))
            known = copy.deepcopy(service)
            known["evidence"] = {"calibrations": [str(file)]}
            other = planned(known)
            if isinstance(other, Rejection):
                return broken(f"evidence leaves no plan: {other.reason}")
            bands.append(other.pools[0].steady_fleet.size.band.slow_ratio)
    is_wider = any(after > before * (1.0 + 1e-9) for before, after in itertools.pairwise(bands))
    return broken(f"the band went {bands}") if is_wider else HOLDS


# ---- what says the same -----------------------------------------------------------------------------------------


def same_words(plan: Plan, service: Document) -> Finding:
    """Another order of keys, and seconds for milliseconds, are the same plan to the last digit."""
    other = copy.deepcopy(service)
    for each in other["workload"]["classes"]:
        each["slo"] = {name: f"{float(limit[:-2]) / 1000:g}s" for name, limit in reversed(each["slo"].items())}
        each["rate"] = f"{60 * float(each['rate'].split()[0]):g} req/min"
    other["workload"]["classes"] = [dict(reversed(each.items())) for each in other["workload"]["classes"]]
    return _same(plan, planned(dict(reversed(other.items()))))


def order_of_classes(plan: Plan, service: Document) -> Finding:
    other = copy.deepcopy(service)
    other["workload"]["classes"].reverse()
    return _same(plan, planned(other))


def _same(plan: Plan, other: Plan | Rejection) -> Finding:
    if isinstance(other, Rejection):
        return broken(f"the same service is refused: {other.reason}")
    before, after = (plan_json(each)["figures"] for each in (plan, other))
    moved = [
        name
        for name in sorted({*before, *after})
        if before.get(name, {}).get("value") != after.get(name, {}).get("value")
    ]
    return broken(f"{len(moved)} figures moved: {', '.join(moved[:5])}") if moved else HOLDS


LAWS: dict[str, Callable[[Plan, Document], Finding]] = {
    "more traffic never needs fewer replicas": more_traffic,
    "a stricter SLO never needs fewer replicas": stricter_slo,
    "a slower device never needs fewer replicas": slower_device,
    "a class in two halves moves the fleet by at most one": halves,
    "lines sum to the bill": lines_sum,
    "prices doubled double the lines": doubled_prices,
    "better evidence never widens the band": better_evidence,
    "units and the order of keys change nothing": same_words,
    "the order of classes changes nothing": order_of_classes,
}
