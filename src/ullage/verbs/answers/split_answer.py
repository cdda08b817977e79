"""What `simulate --prefill` answers: disaggregated prefill and decode, other splits, and colocated replicas."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ullage.errors import InputError, Rejection, check_name
from ullage.evidence import Evidence
from ullage.memory.settings import PREFIX_ROUTERS
from ullage.service.calibration.replay import fitted_factors
from ullage.service.comparison import Arrangement, colocated, split_arrangement
from ullage.service.disaggregated import HANDOVER_S, KvTransfer, SplitPools, SplitTraffic, rank_of, splits
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.simulate.fleet import DEFAULT_ROUTER, ROUTINGS
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.execute.run import RunContext
    from ullage.facts.device import Device
    from ullage.facts.model import Model
    from ullage.load.pool import PoolSides
    from ullage.memory.budget import MemoryBudget
    from ullage.memory.settings import Runtime, RuntimeSettings
    from ullage.memory.sharding import Sharding
    from ullage.service.calibration.document import SplitUnderTest
    from ullage.service.calibration.replay import ApartTest
    from ullage.service.served import ServedPool
    from ullage.service.steps.step_model import StepModel
    from ullage.workload.classes import RequestClass
    from ullage.workload.synthetic.stream import Stream

MOST_SPLITS = 12
"""More ways to divide the devices are a table nobody reads: those nearest to what was asked are tried."""


@dataclass(frozen=True, kw_only=True)
class PrefillChoice:
    """The prefill pool, where it differs from the decode pool, and what lies between the two."""

    replicas: int
    bandwidth_bytes_per_s: float
    device: str | None = None
    tp: int | None = None
    budget_tokens: int | None = None
    max_sequences: int | None = None
    routing: str | None = None
    overlapped_fraction: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class SplitSimulated(VerbAnswer):
    """Prefill and decode apart as asked, every other split of the same devices, and all of them colocated."""

    replica: str
    prefill_replica: str
    step: StepModel
    traffic: str
    devices: int
    transfer_bytes_per_token: float
    transfer_bytes_per_s: float
    asked: Arrangement
    others: tuple[Arrangement, ...]
    together: Arrangement | None
    seed: int
    as_of: datetime.date

    @property
    def best(self) -> Arrangement:
        """The split that serves most requests within the SLOs, then the one with the shortest TPOT."""
        return max((self.asked, *self.others), key=lambda each: (each.good_fraction, -each.tpot_p95_s))

    @property
    def pays(self) -> bool:
        """Whether the best split serves surely more good requests than the same devices colocated."""
        return self.together is not None and self.best.good_fraction > self.together.good_fraction + 0.01

    @property
    def notes(self) -> tuple[str, ...]:
        """What to keep in mind when reading the numbers."""
        found = [*self.step.notes, self._verdict()]
        if self.step.evidence is Evidence.CALIBRATED:
            found.append("Prefill replicas are the estimate scaled by the factors that were fitted to the tests.")
        found.append(
            "Not simulated: failures of either pool, transfers that queue for a link, and prompts recomputed where "
            "a decode replica runs out of cache."
        )
        return tuple(found)

    def _verdict(self) -> str:
        if self.together is None:
            return "No comparison: the devices do not divide into colocated replicas of the decode pool's kind."
        best, other = self.best, self.together
        first, later = best.ttft_p95_s / other.ttft_p95_s - 1.0, best.tpot_p95_s / other.tpot_p95_s - 1.0
        change = f"TTFT p95 {first:+.0%}, TPOT p95 {later:+.0%}"
        if not best.has_limits:
            return f"Against colocated replicas on as many devices, {best.name} has {change}; state SLOs to judge it."
        shares = (
            f"{best.good_fraction:.1%} of requests meet SLOs against {other.good_fraction:.1%} colocated ({change})"
        )
        if self.pays:
            return f"Disaggregation pays off here: with {best.name} {shares}."
        return f"Disaggregation does not pay off here: with {best.name}, the best split, {shares}."

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="decode replica", value=self.replica),
            Headline(name="prefill replica", value=self.prefill_replica),
            Headline(name="best split", value=self.best.name),
            Headline(name="disaggregation pays off", value="yes" if self.pays else "no"),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.service.split_page import split_page

        return split_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("simulate", self, as_of=self.as_of, seed=self.seed)


def serve_apart(
    prefill: PrefillChoice,
    memory: MemoryBudget,
    step: StepModel,
    stream: Stream,
    classes: Sequence[RequestClass],
    *,
    pool: ServedPool,
    names: tuple[str, str],
    as_of: datetime.date,
    seed: int,
) -> SplitSimulated | Rejection:
    """`pool` has the decode replicas of this memory and step model behind the prefill pool; `names`: replica, traffic.

    Without a router of its own the prefill side has the decode side's.
    """
    from ullage.memory.kv import cache_cost
    from ullage.service.stage import replica_of

    found = _prefill_of(prefill, memory.model, memory.device, memory.runtime.settings)
    if isinstance(found, Rejection):
        return found
    factors = fitted_factors(step)
    prefill_memory, prefill_step = found[0], _as_calibrated(found[1], factors)
    ranks = prefill_memory.runtime.sharding.dp_attention
    whole = replica_of(prefill_step, prefill_memory)
    pools = SplitPools(
        prefill=whole if ranks == 1 else rank_of(whole, prefill_step, ranks),
        prefill_replicas=prefill.replicas,
        prefill_ranks=ranks,
        decode=replica_of(step, memory),
        decode_replicas=pool.count,
        prefill_routing=prefill.routing or pool.routing,
        decode_routing=pool.routing,
        transfer=KvTransfer(
            bytes_per_token=cache_cost(memory.model, memory.runtime.cache).bytes_per_token,
            bandwidth_bytes_per_s=prefill.bandwidth_bytes_per_s,
            overlapped_fraction=prefill.overlapped_fraction,
            handover_s=HANDOVER_S,
        ).scaled(1.0 if factors is None else factors.request_ratio),
    )
    traffic = _traffic(stream, pools)
    class_of = stream.class_index
    asked = split_arrangement(pools, traffic, classes, class_of, seed=seed)
    return SplitSimulated(
        replica=names[0],
        prefill_replica=f"{memory.model.name} on {pools.prefill.devices} x {prefill_memory.device.name}",
        step=step,
        traffic=names[1],
        devices=pools.devices,
        transfer_bytes_per_token=pools.transfer.bytes_per_token,
        transfer_bytes_per_s=pools.transfer.bandwidth_bytes_per_s,
        asked=asked,
        others=tuple(split_arrangement(each, traffic, classes, class_of, seed=seed) for each in _others(pools)),
        together=_together(pools, prefill, traffic, classes, class_of, seed),
        seed=seed,
        as_of=as_of,
    )


def _prefill_of(
    prefill: PrefillChoice, model: Model, device: Device, settings: RuntimeSettings
) -> tuple[MemoryBudget, StepModel] | Rejection:
    """The decode pool's replica with what is stated otherwise; a prompt needs no drafts."""
    from ullage.facts.device import find_device
    from ullage.memory.budget import memory_budget
    from ullage.service.calibration.pool_step import pool_step

    run = replace(
        settings,
        sharding=_prefill_sharding(prefill, settings.sharding),
        speculation=None,
        step_tokens=prefill.budget_tokens or settings.step_tokens,
        max_sequences=prefill.max_sequences or settings.max_sequences,
        logged={},
    )
    own = device if prefill.device is None else find_device(prefill.device, field="--prefill")
    found = memory_budget(model, own, run)
    return found if isinstance(found, Rejection) else (found, pool_step(found))


def _prefill_sharding(prefill: PrefillChoice, decode: Sharding) -> Sharding:
    from ullage.planning.sides import resharded

    return decode if prefill.tp is None else resharded(decode, prefill.tp)


def _as_calibrated(prefill: StepModel, factors: Factors | None) -> StepModel:
    """The prefill replica's estimate by the factors that tests found of the decode replica's, where there are any."""
    if factors is None:
        return prefill
    times = ScaledStep(times=prefill, factors=factors)
    return replace(prefill, times=times, request_overhead_s=times.request_overhead_s)


def _traffic(stream: Stream, pools: SplitPools) -> SplitTraffic:
    from ullage.workload.synthetic.stream import BLOCK_TOKENS, PS_PER_S

    served = stream.served_by_cache(pools.prefill.engine.kv_tokens / BLOCK_TOKENS)
    return SplitTraffic(
        arrival_s=served.arrival_ps / PS_PER_S,
        prompt_tokens=served.prompt_tokens,
        output_tokens=served.output_tokens,
        cached_tokens=np.minimum(served.cached_tokens, served.prompt_tokens - 1),
    )


def _others(pools: SplitPools) -> Iterator[SplitPools]:
    """Other numbers of both replicas on the same devices, nearest to the one asked for."""
    ways = splits(pools.devices, prefill_devices=pools.prefill.devices, decode_devices=pools.decode.devices)
    own = pools.prefill_replicas
    chosen = sorted((each for each in ways if each[0] != own), key=lambda each: abs(each[0] - own))[:MOST_SPLITS]
    for prefill, decode in sorted(chosen):
        yield replace(pools, prefill_replicas=prefill, decode_replicas=decode)


def _together(
    pools: SplitPools,
    prefill: PrefillChoice,
    traffic: SplitTraffic,
    classes: Sequence[RequestClass],
    class_of: Any,
    seed: int,
) -> Arrangement | None:
    replicas = pools.devices // pools.decode.devices
    if prefill.device is not None or replicas * pools.decode.devices != pools.devices:
        return None
    return colocated(pools.decode, replicas, traffic, classes, class_of, seed=seed)


def chosen_sides(
    sides: PoolSides | None, prefill: str | None, transfer: str | None, pool: ServedPool, run: RunContext
) -> tuple[PrefillChoice | None, ServedPool] | Rejection:
    """The prefill pool, where there is one, by the plan's own sides or as typed, and the pool behind it."""
    if sides is None:
        return parse_prefill(prefill, transfer), pool
    return _planned_apart(sides, prefill, transfer, pool, run)


def _planned_apart(
    sides: PoolSides, prefill: str | None, transfer: str | None, pool: ServedPool, run: RunContext
) -> tuple[PrefillChoice, ServedPool] | Rejection:
    """The sides of a plan's pool: as many replicas of each as its traffic needs, or as stated."""
    from ullage.evidence import number
    from ullage.service.curve.sizing import size_pool

    own = sides.prefill_pool
    assert own.phase is not None
    planned = f"{number(own.phase.bandwidth):.12g} bytes/s:{number(own.phase.overlap):.12g}"
    if prefill is not None:
        stated = parse_prefill(prefill, transfer or planned)
        assert stated is not None
        return stated, pool
    if transfer is not None:
        raise InputError(
            field="--transfer",
            value=transfer,
            problem="conflicts with pool.disaggregated, which sets it too",
            fix="Give --prefill with it, or --set pool.disaggregated.transfer=VALUE.",
        )
    sized = []
    for side in (sides.prefill, sides.decode):
        found = size_pool(side.bases(run.seed), rate_rps=side.demand.planning_rps, seed=run.seed, map=run.map)
        if isinstance(found, Rejection):
            return found
        sized.append(found.conservative_replicas)
    choice = PrefillChoice(
        replicas=sized[0],
        bandwidth_bytes_per_s=number(own.phase.bandwidth),
        overlapped_fraction=number(own.phase.overlap),
        device=own.device.name if own.device.name != sides.decode.memory.device.name else None,
        tp=own.settings.sharding.tp,
        budget_tokens=own.settings.step_tokens,
        max_sequences=own.settings.max_sequences,
        routing=_known_to_pools(own.settings.router),
    )
    if pool.routing == DEFAULT_ROUTER:
        decode = sides.decode.memory.runtime.settings
        pool = replace(pool, routing=_known_to_pools(decode.router) or DEFAULT_ROUTER)
    return choice, pool if pool.replicas is not None else replace(pool, replicas=sized[1])


def _known_to_pools(router: str | None) -> str | None:
    """A plan's router as far as two pools have one: hits are as stated, and nothing goes by prefixes."""
    return None if router in PREFIX_ROUTERS else router


def apart_test(
    model: Model,
    device: Device,
    decode: Runtime,
    chosen: PrefillChoice,
    replicas: int | None,
    *,
    routing: str = DEFAULT_ROUTER,
) -> ApartTest:
    """The pools of load tests whose prefill was apart: `replicas` of the decode runtime behind the prefill pool."""
    from ullage.memory.kv import cache_cost
    from ullage.service.calibration.evidence import engine_limits
    from ullage.service.calibration.replay import ApartTest

    found = _prefill_of(chosen, model, device, decode.settings)
    if isinstance(found, Rejection):
        raise InputError(
            field="--prefill", value=chosen.replicas, problem=found.reason, fix="Give more devices for a replica."
        )
    memory, step = found
    return ApartTest(
        prefill=step,
        prefill_floor=step.floor,
        prefill_limits=engine_limits(memory.runtime, memory.kv_tokens),
        prefill_ranks=memory.runtime.sharding.dp_attention,
        prefill_replicas=chosen.replicas,
        decode_replicas=replicas or 1,
        prefill_routing=chosen.routing or routing,
        decode_routing=routing,
        transfer=KvTransfer(
            bytes_per_token=cache_cost(model, decode.cache).bytes_per_token,
            bandwidth_bytes_per_s=chosen.bandwidth_bytes_per_s,
            overlapped_fraction=chosen.overlapped_fraction,
            handover_s=HANDOVER_S,
        ),
    )


def split_under_test(chosen: PrefillChoice, device: Device, decode: Sharding, replicas: int | None) -> SplitUnderTest:
    """The same pools as a calibration states them, for whoever uses it."""
    from ullage.facts.device import find_device
    from ullage.service.calibration.document import SplitUnderTest

    cuts = _prefill_sharding(chosen, decode)
    return SplitUnderTest(
        prefill_replicas=chosen.replicas,
        device=device.name if chosen.device is None else find_device(chosen.device, field="--prefill").name,
        tp=cuts.tp,
        pp=cuts.pp,
        ep=cuts.ep,
        dp_attention=cuts.dp_attention,
        decode_replicas=replicas or 1,
        transfer_bytes_per_s=chosen.bandwidth_bytes_per_s,
        overlapped_fraction=chosen.overlapped_fraction,
    )


def check_apart(pool: ServedPool) -> None:
    """Refuse by name what two pools are not simulated with."""
    if pool.routing in PREFIX_ROUTERS:
        raise InputError(
            field="--routing",
            value=pool.routing,
            problem="goes by prefixes, which two pools are not simulated with",
            fix="Give another routing, for example round_robin or least_outstanding.",
        )
    if not replace(pool, routing=DEFAULT_ROUTER).is_plain:
        raise InputError(
            field="--prefill",
            value="--queue-limit, --timeout, --prefix-cache or --between-turns",
            problem="two pools are simulated with unbounded queues, patient clients and stated hits",
            fix="Leave these out.",
        )


_KEYS = ("tp", "device", "budget", "sequences", "routing")
_COUNTS = ("tp", "sequences")


def parse_prefill(text: str | None, transfer: str | None) -> PrefillChoice | None:
    """The prefill pool as typed, such as 2 or 2:tp=4:budget=16k:sequences=16, and what lies between, 50GB/s:30%."""
    from ullage.load.typed import parse_share, parse_tokens
    from ullage.units import BANDWIDTH, parse

    if text is None:
        if transfer is None:
            return None
        fix = "Give --prefill with it."
        raise InputError(
            field="--transfer", value=transfer, problem="sends KV from a pool that does not exist", fix=fix
        )
    if transfer is None:
        raise InputError(
            field="--transfer",
            value="not given",
            problem="the KV transfer rate between replicas decides TTFT and is not guessed",
            fix="Give the bandwidth between two replicas, for example 50GB/s for a NIC of 400 Gbit/s.",
        )
    replicas, *rest = text.split(":")
    stated = dict(each.partition("=")[::2] for each in rest)
    numbers = [replicas, *(stated[key] for key in _COUNTS if key in stated)]
    if set(stated) - set(_KEYS) or not all(each.isdecimal() and int(each) > 0 for each in numbers):
        fix = "Give REPLICAS, or with it tp, device, budget, sequences or routing: 2:tp=4:budget=16k:sequences=16."
        raise InputError(field="--prefill", value=text, problem="is not a prefill pool", fix=fix)
    if "routing" in stated:
        check_name(stated["routing"], [each for each in ROUTINGS if each not in PREFIX_ROUTERS], field="--prefill")
    bandwidth, _, overlap = transfer.partition(":")
    return PrefillChoice(
        replicas=int(replicas),
        device=stated.get("device"),
        tp=int(stated["tp"]) if "tp" in stated else None,
        max_sequences=int(stated["sequences"]) if "sequences" in stated else None,
        routing=stated.get("routing"),
        budget_tokens=parse_tokens(stated.get("budget"), "--prefill"),
        bandwidth_bytes_per_s=parse(bandwidth, BANDWIDTH, field="--transfer"),
        overlapped_fraction=parse_share(overlap or None, "--transfer") or 0.0,
    )
