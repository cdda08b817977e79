"""One side of a pool whose prefill and decode run on replicas of their own.

    prefill   every prompt, and answers of one token; of a limit on TTFT what the KV's way and the decode side leave
    decode    every prompt's KV is there already; of a limit on TTFT the stated share, and TPOT and ITL as they are

Of a limit on the end alone the prefill side has the small share, since most of an answer's time is decode.

With its own traffic and its own limits a side is a pool like any other: sized, placed, reserved for and billed by the
same stages. Whether both together meet the limits of the whole is simulated afterwards (both_sides.py); dividing a
limit only says which number of replicas to try.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.service.disaggregated import HANDOVER_S, KvTransfer
from ullage.workload.classes import Metric, RequestClass, Slo
from ullage.workload.definitions import TpotCount
from ullage.workload.demand.demand import ClassTraffic, Demand
from ullage.workload.demand.routing import seen_by
from ullage.workload.synthetic.model import ReuseModel

_KEPT = "an answer waits for a step or two of a decode replica that is not full, tens of milliseconds of a second"


def _default(name: str, value: float, unit: str, reason: str, low: float, high: float, *, decision: bool) -> Assumption:
    return Assumption(
        name=name,
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=Source(
            what=f"default of Ullage: {reason}",
            where="docs/howto/split-prefill-and-decode.md",
            date=datetime.date(2026, 11, 16),
        ),
        low=low,
        high=high,
        decision=decision,
    )


OVERLAP = _default(
    "pool.disaggregated.overlap", 0.0, "fraction", "KV is sent when the whole prompt is computed", 0.0, 0.99,
    decision=False,
)  # fmt: skip
DECODE_SHARE = _default("pool.disaggregated.decode_share", 0.2, "fraction", _KEPT, 0.01, 0.9, decision=True)
TRANSFER = _default(
    "options.transfer", 25e9, "bytes/s", "half of what a NIC of 400 Gbit/s can send", 5e9, 400e9, decision=False
)

SentAt = Callable[[float], float]
"""How long the KV of a prompt at this percentile of a class's lengths is on its way."""


class Side(enum.Enum):
    """Which part of a request its replicas compute."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, kw_only=True)
class PoolSide:
    """One side of the pool that the plan file calls `pool`, and what lies between it and the other side.

    `decode_share` is the part of every limit on TTFT that is kept for waiting at the decode side; `handover_s` is what
    a request spends between two engines whatever its length.
    """

    side: Side
    pool: str
    bytes_per_token: float
    bandwidth: Assumption
    overlap: Assumption
    decode_share: Assumption
    handover_s: float = HANDOVER_S

    @property
    def transfer(self) -> KvTransfer:
        return KvTransfer(
            bytes_per_token=self.bytes_per_token,
            bandwidth_bytes_per_s=number(self.bandwidth),
            overlapped_fraction=number(self.overlap),
            handover_s=self.handover_s,
        )

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (self.bandwidth, self.overlap, self.decode_share)

    def sent_at(self, traffic: ClassTraffic) -> SentAt:
        prompts, _ = traffic.model.lengths.pairs()
        sent_s = self.transfer.seconds(prompts)
        return lambda fraction: float(np.quantile(sent_s, fraction))


def side_name(pool: str, side: Side) -> str:
    """What a side is called among the pools of a plan."""
    return f"{pool}-{side.value}"


def side_demand(whole: Demand, phase: PoolSide) -> Demand:
    """The load of the side: every request of the pool, as far as it computes it."""
    name = side_name(phase.pool, phase.side)
    classes = tuple(_side_traffic(each, phase, name) for each in whole.classes)
    tokens = Figure(
        name=f"{name}.demand.token_rate",
        value=sum(float(each.figures[f"demand.{each.name}.token_rate"].value) for each in classes),
        unit="tokens/s",
        formula=f"sum of the classes' prompt and output tokens in their busiest hours, on the {phase.side.value} side",
        inputs=tuple(each.figures[f"demand.{each.name}.token_rate"] for each in classes),
    )
    return replace(
        whole,
        classes=classes,
        figures={
            **whole.figures,
            "demand.token_rate": tokens,
            **{key: figure for each in classes for key, figure in each.figures.items()},
        },
    )


def _side_traffic(traffic: ClassTraffic, phase: PoolSide, name: str) -> ClassTraffic:
    model = traffic.model
    if phase.side is Side.PREFILL:
        model = replace(model, lengths=replace(model.lengths, output_tokens=(1.0,) * len(model.lengths.output_tokens)))
        formula = "a prompt ends with its first token on the prefill side"
    else:
        # All of a prompt comes with its KV. What is not a whole block of it is fed in, a few tokens where an engine has
        # the first token of the answer alone.
        model = replace(model, reuse=ReuseModel(first_turn_fractions=(1.0, 1.0), later_turn_fractions=(1.0, 1.0)))
        formula = "prompts come computed to the decode side"
    return seen_by(traffic, model, name, formula=formula, inputs=phase.inputs)


def side_class(whole: RequestClass, phase: PoolSide, sent_at: SentAt) -> RequestClass:
    """The class with the limits of this side; limits that cannot be divided are refused by name."""
    _require_divisible(whole)
    is_prefill = phase.side is Side.PREFILL
    return replace(whole, slos=_prefill_limits(whole, phase, sent_at) if is_prefill else _decode_limits(whole, phase))


def _prefill_limits(whole: RequestClass, phase: PoolSide, sent_at: SentAt) -> tuple[Slo, ...]:
    """Of a limit on TTFT all but the decode side's share, of an end without one that share; less the KV's way."""
    share, has_first = number(phase.decode_share), _limits_first(whole)
    parts = {Metric.TTFT: 1.0 - share, **({} if has_first else {Metric.E2E: share})}
    taken = "the KV transfer and the decode side"
    return tuple(
        replace(
            slo,
            limit_s=_positive(whole, slo, parts[slo.metric] * slo.limit_s - sent_at(slo.percentile_fraction), taken),
        )
        for slo in whole.slos
        if slo.metric in parts
    )


def _decode_limits(whole: RequestClass, phase: PoolSide) -> tuple[Slo, ...]:
    """The rest: what comes before this side has its part of every limit already."""
    share = number(phase.decode_share)
    first_s = max(((1.0 - share) * each.limit_s for each in whole.slos if each.metric is Metric.TTFT), default=None)
    found = []
    for slo in whole.slos:
        left_s = slo.limit_s
        if slo.metric is Metric.TTFT:
            left_s = share * slo.limit_s
        elif slo.metric is Metric.E2E:
            left_s = (1.0 - share) * slo.limit_s if first_s is None else slo.limit_s - first_s
        found.append(replace(slo, limit_s=_positive(whole, slo, left_s, "prefill and the KV transfer")))
    return tuple(found)


def _limits_first(whole: RequestClass) -> bool:
    return any(slo.metric is Metric.TTFT for slo in whole.slos)


def _positive(whole: RequestClass, slo: Slo, left_s: float, taken_by: str) -> float:
    if left_s > 0.0:
        return left_s
    raise InputError(
        field=f"workload.classes.{whole.name}.slo.{slo.name}",
        value=f"{slo.limit_s:.6g}s",
        problem=f"is used up by {taken_by} where prefill and decode are disaggregated",
        fix="Raise the limit or pool.disaggregated.transfer, or leave pool.disaggregated out.",
    )


def _require_divisible(whole: RequestClass) -> None:
    if any(slo.metric is Metric.TPOT for slo in whole.slos) and whole.definitions.tpot is TpotCount.WITH_FIRST:
        raise InputError(
            field=f"workload.classes.{whole.name}.definitions",
            value="tpot: with_first_token",
            problem="has the first token in it, which another replica computes where prefill and decode are "
            "disaggregated",
            fix="Limit the time per later token, or leave pool.disaggregated out.",
        )
