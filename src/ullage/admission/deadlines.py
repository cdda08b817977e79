"""Deadlines: how long a class can wait at most, and when there is no point in going on.

A deadline is stated for a class, or is the time after which its clients give up. An SLO of TTFT or E2E is a deadline
too, only softer: a request that misses it is answered, but is no success. The latest useful first token of a class is

    the least of its TTFT limit, its E2E limit, and its deadline less the decode of an idle replica

At every hop the time that is left is compared with what the rest must take at least, on a replica that does nothing
else; a request that cannot end in time is refused there, before it costs anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ullage.admission.policy import AdmissionPolicy
from ullage.errors import Rejection, Remedy
from ullage.evidence import Assumption, Figure, number
from ullage.service.curve.curve import ServiceCurve, StablePoint
from ullage.workload.classes import Metric, RequestClass


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """One class. `prefill_s` and `decode_s` are the floors: the median request on a nearly idle replica."""

    class_name: str
    stated: Assumption
    prefill_s: float
    decode_s: float
    latest_first_token_s: float
    bound_by: str
    bound_by_inputs: tuple[Assumption, ...]

    @property
    def deadline_s(self) -> float:
        return number(self.stated)

    @property
    def floor_s(self) -> float:
        return self.prefill_s + self.decode_s

    @property
    def latest_start_s(self) -> float:
        """The age at which even an idle replica would end too late."""
        return max(0.0, self.deadline_s - self.floor_s)


@dataclass(frozen=True, kw_only=True)
class HopRule:
    """What must be left of a request's time at one hop; with less it is refused there."""

    class_name: str
    hop: str
    least_remaining_s: float
    holds: str


def class_deadlines(
    curve: ServiceCurve, classes: Sequence[RequestClass], policy: AdmissionPolicy
) -> dict[str, Deadline] | Rejection:
    """The deadline of every class; one that not even an idle replica can meet is refused."""
    idle = curve.stable[0]
    found = {}
    for each in classes:
        stated = policy.deadline_of(each.name)
        first_s, whole_s = _idle(idle, each.name, "ttft_p50"), _idle(idle, each.name, "e2e_p50")
        if number(stated) < whole_s:
            return _too_short(curve, idle, each, stated, first_s, whole_s)
        # An SLO is among the inputs of the curve already; a client's patience is not.
        caps: list[tuple[float, str, tuple[Assumption, ...]]] = [
            (slo.limit_s, slo.name, ()) for slo in each.slos if slo.metric in (Metric.TTFT, Metric.E2E)
        ]
        caps.append((number(stated) - max(0.0, whole_s - first_s), "deadline", (stated,)))
        caps.append((number(policy.first_token_timeout), "first_token_timeout", (policy.first_token_timeout,)))
        latest_s, bound_by, rests_on = min(caps, key=lambda cap: cap[0])
        found[each.name] = Deadline(
            class_name=each.name,
            stated=stated,
            prefill_s=first_s,
            decode_s=max(0.0, whole_s - first_s),
            latest_first_token_s=latest_s,
            bound_by=bound_by,
            bound_by_inputs=rests_on,
        )
    return found


def hop_rules(deadline: Deadline, *, wait_s: float, backoff_s: float) -> tuple[HopRule, ...]:
    """The timeouts of a request at each hop; `wait_s` is how long the queue is at the moment, at most its bound."""
    name, floor_s = deadline.class_name, deadline.floor_s
    return (
        HopRule(
            class_name=name,
            hop="gateway, on arrival",
            least_remaining_s=floor_s + wait_s,
            holds="prefill + decode + the expected wait in the queue (0 while it is empty)",
        ),
        HopRule(
            class_name=name,
            hop="engine, when its turn comes",
            least_remaining_s=floor_s,
            holds="prefill + decode",
        ),
        HopRule(
            class_name=name,
            hop="decode worker, after a prefill elsewhere",
            least_remaining_s=deadline.decode_s,
            holds="decode",
        ),
        HopRule(
            class_name=name,
            hop="client or gateway, before a retry",
            least_remaining_s=floor_s + backoff_s,
            holds="back-off + prefill + decode",
        ),
    )


def _idle(point: StablePoint, name: str, what: str) -> float:
    """A percentile on the nearly idle replica; a class without requests there has no floor."""
    found = point.latencies.get(name, {}).get(what)
    return 0.0 if found is None else found.value


def _too_short(
    curve: ServiceCurve,
    idle: StablePoint,
    slo_class: RequestClass,
    stated: Assumption,
    first_s: float,
    whole_s: float,
) -> Rejection:
    prefill_alone = number(stated) < first_s
    what = "prefill" if prefill_alone else "prefill and decode"
    enough_s = max(whole_s, _idle(idle, slo_class.name, "e2e_p95"))
    return Rejection(
        stage="admission limits",
        reason=(
            f"{slo_class.name} has a deadline of {number(stated):.3g} s, but {what} of half of its requests "
            f"{'takes' if prefill_alone else 'take'} longer on a nearly idle replica"
        ),
        figure=Figure(
            name=f"limit.{slo_class.name}.floor_s",
            value=first_s if prefill_alone else whole_s,
            unit="s",
            formula=f"median of {what} on a nearly idle replica, simulated",
            inputs=(*curve.inputs, stated),
        ),
        remedies=(
            Remedy(
                change=f"a deadline of {enough_s:.3g} s for {slo_class.name}",
                effect="a nearly idle replica answers 19 of 20 in time",
            ),
            Remedy(change="a faster device, more devices per replica, or a smaller model", effect="shorter steps"),
        ),
    )
