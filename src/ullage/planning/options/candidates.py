"""Candidates: every combination of device, parallelism, model variant and engine settings for a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from ullage.cost.quotes import PriceChoice
from ullage.errors import InputError, check_name
from ullage.facts.device import Device
from ullage.facts.engine import POLICIES_OF
from ullage.facts.model import Model
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding
from ullage.memory.speculation import Speculation, speculation
from ullage.planning.options.settings import (
    DRAFTED_TOKENS,
    MOST_CANDIDATES,
    TENSOR_PARALLEL,
    USUAL_DEVICES,
    USUAL_VENDORS,
    OptionSettings,
)
from ullage.planning.spec import PoolSpec
from ullage.prices.book import PriceBook
from ullage.service.calibration.pool_step import NO_EVIDENCE

# What SGLang's guide to tuning names for requests that queue though there is room.
BOLD = 0.3


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to make a pool. `is_own` marks the one that the plan has now; its measurements hold for it alone."""

    name: str
    pool: PoolSpec
    is_own: bool


def candidates_of(
    pool: PoolSpec, settings: OptionSettings, *, book: PriceBook | None, buying: PriceChoice
) -> tuple[Candidate, ...]:
    """The pool as it is, then every other combination, each once, in the order of the axes."""
    own = pool.settings.sharding
    devices = _devices(pool, settings, book, buying)
    axes = (
        (pool.model, *settings.models.get(pool.model.name, ())),
        devices,
        settings.tensor_parallel or tuple(sorted({own.tp, *TENSOR_PARALLEL})),
        settings.pipeline_parallel or (own.pp,),
        settings.expert_parallel or (None,),
        settings.kv_dtypes or (pool.settings.kv_dtype,),
        settings.token_budgets or (pool.settings.step_tokens,),
        settings.max_sequences or (pool.settings.max_sequences,),
    )
    found = [Candidate(name=_name(pool, pool), pool=pool, is_own=True)]
    seen = {_key(pool)}
    for model, device, tp, pp, ep, kv, budget, sequences in product(*axes):
        # Expert parallelism that follows the pool is as wide as the pool's, or as wide as there are devices.
        sharding = _sharding(tp, pp, own.ep if ep is None else ep, own.dp_attention, follows=ep is None)
        if sharding is None:
            continue
        run = replace(pool.settings, sharding=sharding, kv_dtype=kv, step_tokens=budget, max_sequences=sequences)
        made = _other(pool, model=model, device=device, settings=run)
        if _key(made) not in seen:
            seen.add(_key(made))
            found.append(Candidate(name=_name(made, pool), pool=made, is_own=False))
    others = [*_speculating(pool), *_letting_in(pool)]
    found += [Candidate(name=_name(each, pool), pool=each, is_own=False) for each in others]
    if len(found) > MOST_CANDIDATES:
        raise InputError(
            field="options",
            value=len(found),
            problem=f"is more than {MOST_CANDIDATES} candidates for {pool.name}",
            fix="Name fewer devices, degrees of parallelism or settings.",
        )
    return tuple(found)


def _speculating(pool: PoolSpec) -> list[PoolSpec]:
    """The pool with the speculation that its model's own heads allow, or without the one it has."""
    given = pool.settings.speculation
    others: tuple[Speculation | None, ...] = ()
    if given is not None:
        others = (None,)
    elif pool.model.mtp is not None:
        source = pool.model.sources[0]
        others = tuple(speculation("mtp", tokens, source=source, field="options") for tokens in DRAFTED_TOKENS)
    return [
        _other(pool, model=pool.model, device=pool.device, settings=replace(pool.settings, speculation=each))
        for each in others
    ]


def _letting_in(pool: PoolSpec) -> list[PoolSpec]:
    """The pool with an engine that admits requests earlier; its steps are the same."""
    given = pool.settings
    if given.engine == "tensorrt-llm":
        known = POLICIES_OF[given.engine]
        own = given.capacity_policy or known[0]
        return [replace(pool, settings=replace(given, capacity_policy=each)) for each in known if each != own]
    if given.engine == "sglang" and (given.conservativeness is None or given.conservativeness > BOLD):
        return [replace(pool, settings=replace(given, conservativeness=BOLD))]
    return []


def _devices(
    pool: PoolSpec, settings: OptionSettings, book: PriceBook | None, buying: PriceChoice
) -> tuple[Device, ...]:
    """The devices that are named; else those that can be bought as the plan buys, or the usual ones without prices."""
    known = {each.name: each for each in (pool.device, *pool.alternatives)}
    for name in settings.devices:
        check_name(name, known, field="options.devices")
    if settings.devices:
        return tuple(known[name] for name in settings.devices)
    if book is None:
        return tuple(known[name] for name in dict.fromkeys((pool.device.name, *USUAL_DEVICES)) if name in known)
    sold = {
        name
        for name, prices in book.devices.items()
        for each in prices
        if (not buying.providers or each.provider in buying.providers)
        and (not buying.regions or each.region in buying.regions)
        and each.purchase in buying.mix.shares
    } | {each.device for each in book.owned}
    return tuple(
        each
        for name, each in known.items()
        if name == pool.device.name or (name in sold and each.vendor in USUAL_VENDORS)
    )


def _sharding(tp: int, pp: int, ep: int, groups: int, *, follows: bool) -> Sharding | None:
    """The parallelism, or None where these numbers do not divide."""
    if follows:
        ep, groups = (tp if ep > 1 else 1), min(groups, tp)
    if tp % ep or tp % groups:
        return None
    return Sharding(tp=tp, pp=pp, ep=ep, dp_attention=groups)


def _other(pool: PoolSpec, *, model: Model, device: Device, settings: RuntimeSettings) -> PoolSpec:
    """The pool of another configuration: measurements of the old one do not apply."""
    return replace(
        pool,
        model=model,
        device=device,
        settings=replace(settings, logged={}),
        reported=None,
        # A calibration names its configuration, so those of other candidates may be among them.
        tested=replace(pool.tested, load_tests=()) if pool.tested.calibrations else NO_EVIDENCE,
        start=replace(pool.start, measured=()),
        instance=pool.instance if device.name == pool.device.name else None,
    )


def _key(pool: PoolSpec) -> tuple[object, ...]:
    """What tells two candidates of one pool apart."""
    run = pool.settings
    drafted = None if run.speculation is None else (run.speculation.method, run.speculation.draft_tokens)
    return (pool.model.name, pool.device.name, run.sharding, run.kv_dtype, run.step_tokens, run.max_sequences, drafted)


def _drafting(pool: PoolSpec) -> str:
    given = pool.settings.speculation
    return "no speculation" if given is None else f"{given.method} {given.draft_tokens}"


def _name(made: PoolSpec, own: PoolSpec) -> str:
    """Device and parallelism, and beyond them what differs from the pool: `h200-sxm tp2, kv fp8`."""
    cut = made.settings.sharding
    parts = [f"tp{cut.tp}"]
    parts += [f"pp{cut.pp}"] if cut.pp > 1 else []
    parts += [f"ep{cut.ep}"] if cut.ep > 1 else []
    extra: Sequence[tuple[str, object, object]] = (
        ("", made.model.name, own.model.name),
        ("kv ", made.settings.kv_dtype, own.settings.kv_dtype),
        ("budget ", made.settings.step_tokens, own.settings.step_tokens),
        ("sequences ", made.settings.max_sequences, own.settings.max_sequences),
        ("", _drafting(made), _drafting(own)),
        ("", made.settings.capacity_policy, own.settings.capacity_policy),
        ("conservativeness ", made.settings.conservativeness, own.settings.conservativeness),
    )
    more = "".join(f", {reported}{value}" for reported, value, usual in extra if value != usual)
    return f"{made.device.name} {' '.join(parts)}{more}"
