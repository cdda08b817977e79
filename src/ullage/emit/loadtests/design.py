"""Which tests of one replica verify a plan: their rates, how long each runs, what it costs and what it would settle."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.emit.request import EmitPool
from ullage.errors import InputError, InternalError
from ullage.evidence import Evidence
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.simulate.load import OpenLoop

# Enough requests that twenty lie beyond a 95th percentile.
WANTED_REQUESTS = 400.0
SHORTEST_S, LONGEST_S = 300.0, 1800.0
# A file of more requests than this says no more, and load tools draw every prompt of it before they begin.
MOST_REQUESTS = 4000.0
# Low load shows the time of a step of few sequences, which a busy replica hides.
LOW_FRACTION = 0.1
# Far enough above the limit that a violation is no accident of one run.
ABOVE_RATIO = 1.1


@dataclass(frozen=True, kw_only=True)
class RateTest:
    """One test: a rate of the plan's mix on one replica, for so long."""

    name: str
    rate_rps: float
    span_s: float
    is_met: bool
    why: str


def rate_tests(pool: EmitPool) -> tuple[RateTest, ...]:
    """Low load, the operating point, and just above the highest load that meets every SLO."""
    operating, highest = pool.real("point.operating_rps"), pool.real("point.highest_rps")
    said = pool.number("point.operating_rps").why
    return (
        _test("low", LOW_FRACTION * operating, f"a tenth of the operating point: {said}", is_met=True),
        _test("operating", operating, f"the operating point: {said}", is_met=True),
        _test(
            "above",
            ABOVE_RATIO * highest,
            f"a tenth above the highest load that meets every SLO: {pool.number('point.highest_rps').why}",
            is_met=False,
        ),
    )


def _test(name: str, rate_rps: float, why: str, *, is_met: bool) -> RateTest:
    wanted_s = min(max(WANTED_REQUESTS / rate_rps, SHORTEST_S), LONGEST_S)
    span_s = float(round(min(wanted_s, max(MOST_REQUESTS / rate_rps, 1.0))))
    return RateTest(name=name, rate_rps=rate_rps, span_s=max(span_s, 1.0), is_met=is_met, why=why)


def requests_of(pool: EmitPool, test: RateTest) -> OpenLoop:
    """The mix of the pool at the rate of a test; the plan's seed makes it the same every time."""
    if pool.mix is None:
        raise InternalError(law="a load test is made from the mix of its pool", left=pool.pool, right=None)
    return pool.mix(rate_rps=test.rate_rps, span_s=test.span_s, seed=pool.plan.seed)


def device_hour_usd(pool: EmitPool) -> float | None:
    """What an hour of one device costs, by the plan's own price; None where it has none."""
    device = pool.number("pool.device").value
    found = [
        each.value
        for name, each in sorted(pool.plan.numbers.items())
        if each.unit == "USD/device-hour" and f"price.{device}." in name
    ]
    return next((float(each) for each in found if not isinstance(each, str)), None)


def settles(pool: EmitPool) -> list[str]:
    """What the tests would settle: the band of step times, and the replicas that are there for its sake alone."""
    ratio = pool.find("margin.evidence_ratio")
    if ratio is None or isinstance(ratio.value, str):
        return ["Whether the predicted latencies are right: ullage validate FILE... --plan PLAN."]
    better = DEFAULT_BANDS[Evidence.CALIBRATED].slow_ratio
    now = float(ratio.value)
    if now <= better:
        return [f"Step times are already known within a factor of {now:.3g}: the tests confirm it, or show a change."]
    taken = f"Step times: the plan assumes {now:.3g} times those of the step model ({ratio.evidence})."
    said = [
        f"{taken} Calibrated on the low and the operating rate they are known within a factor of about {better:.3g}."
    ]
    # Between no error and this band's the loss is close to a straight line in the ratio, as the curve has it.
    freed = 1.0 - (better - 1.0) / (now - 1.0)
    replicas, usd = pool.find("fleet.evidence_replicas"), pool.find("answer.evidence_usd")
    if replicas is not None and not isinstance(replicas.value, str) and replicas.value > 0:
        line = f"Replicas: {replicas.value:g} cover that band ({replicas.why}); about {freed * replicas.value:.0f} "
        line += "of them are saved if the nominal step times hold"
        if usd is not None and not isinstance(usd.value, str):
            line += f", about {freed * float(usd.value):,.0f} USD in {pool.real('cost.period'):g} h"
        said.append(f"{line}.")
    return said


def limits_s(pool: EmitPool) -> dict[str, float]:
    """For each metric that every class has a limit on, the loosest: a request beyond it is bad in any class.

    Load tools judge all requests by one set of limits and know nothing of classes.
    """
    found: dict[str, float] = {}
    for metric in ("ttft", "tpot", "e2e"):
        own = [
            max((limit for name, limit in each.slos.items() if name.startswith(f"{metric}_")), default=None)
            for each in pool.classes
        ]
        if own and None not in own:
            found[metric] = max(each for each in own if each is not None)
    return found


REPLICA_ADDRESS = "the address of one replica, such as http://10.0.0.7:8000"
"""A test is never sent to an address that nobody named, and one of all replicas would test none of them."""


def check_classes(pool: EmitPool) -> None:
    if not pool.classes:
        raise InputError(
            field="plan: classes",
            value=None,
            problem=f"no class is routed to pool {pool.pool}, so there is nothing to send",
            fix="Plan again, and store that plan.",
        )
