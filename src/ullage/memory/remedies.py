"""What would make a refused case hold, cheapest first; each change is worked out again before it is offered.

settings alone       a larger (after an out-of-memory, smaller) memory fraction, an fp8 cache, smaller steps
less load            fewer sequences, a shorter context
more hardware        more devices in the replica, another device
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ullage.errors import InputError, Remedy
from ullage.facts.device import Device
from ullage.memory.case import Approved, Case, MemoryOutcome
from ullage.memory.estimate import LineName
from ullage.memory.settings import share, whole
from ullage.memory.sharding import Sharding

TP_DEGREES = (1, 2, 4, 8, 16, 32, 64)
"""The degrees that are tried: machines come with powers of two."""

_FRACTIONS = tuple(percent / 100 for percent in range(50, 98))
_LEAST_STEP_TOKENS = 1024
_CONTEXT_UNIT_TOKENS = 256
_FP8_BITS = 8


def remedies(case: Case, devices: Iterable[Device] = ()) -> tuple[Remedy, ...]:
    """The changes that make this case hold."""
    first = case.outcome()
    if first.shortfall is None:
        return ()
    offers = (
        _fraction(case, first),
        _cache_dtype(case, first),
        _smaller_steps(case, first),
        _fewer_sequences(case),
        _shorter_context(case, first),
        _more_devices(case),
        _other_device(case, devices),
    )
    return tuple(offer for offer in offers if offer is not None)


def smallest_tp(case: Case) -> int | None:
    """The least degree of tensor parallelism at which the case holds, everything else equal."""
    for tp, _ in _held_degrees(case, 0):
        return tp
    return None


def longest_context(case: Case, outcome: MemoryOutcome) -> int:
    """The longest context of which the approved sequences (or one) fit; 0 where none does."""
    sequences = 1 if case.approved is None else case.approved.sequences
    return outcome.capacity.longest_context(sequences, case.model.max_context_tokens)


def _held_degrees(case: Case, above: int) -> Iterator[tuple[int, MemoryOutcome]]:
    for tp in TP_DEGREES:
        sharding = _with_tp(case.settings.sharding, tp) if tp > above else None
        if sharding is not None:
            same = sharding == case.settings.sharding
            outcome = _holds(case if same else case.with_settings(replace(case.settings, sharding=sharding)))
            if outcome is not None:
                yield tp, outcome


def _with_tp(old: Sharding, tp: int) -> Sharding | None:
    """Experts and attention groups that span all devices keep doing so; else they keep their number, if it divides."""
    ep = tp if old.ep == old.tp > 1 else old.ep
    groups = tp if old.dp_attention == old.tp > 1 else old.dp_attention
    return Sharding(tp=tp, pp=old.pp, ep=ep, dp_attention=groups) if tp % ep == 0 and tp % groups == 0 else None


def _holds(case: Case) -> MemoryOutcome | None:
    """The outcome of a case that holds; None for one that does not, or that no engine could load."""
    try:
        outcome = case.outcome()
    except InputError:
        return None
    return outcome if outcome.shortfall is None else None


def _fraction(case: Case, first: MemoryOutcome) -> Remedy | None:
    """A larger fraction makes room for the cache, a smaller one for what lies outside it."""
    now = share(first.runtime.memory_fraction)
    assert first.shortfall is not None
    lower = first.shortfall.line is LineName.MARGIN
    fitting = [each for each in _FRACTIONS if (each < now if lower else each > now)]
    for fraction in reversed(fitting) if lower else fitting:
        settings = replace(case.settings, memory_fraction=fraction, kv_pool_bytes=None)
        outcome = _holds(case.with_settings(settings))
        if outcome is not None:
            return Remedy(change=f"memory fraction {fraction:g}", effect=_effect(case, outcome))
    return None


def _cache_dtype(case: Case, first: MemoryOutcome) -> Remedy | None:
    if first.runtime.cache.stored_bits <= _FP8_BITS:
        return None
    outcome = _holds(case.with_settings(replace(case.settings, kv_dtype="fp8")))
    return None if outcome is None else Remedy(change="KV dtype fp8", effect=_effect(case, outcome))


def _smaller_steps(case: Case, first: MemoryOutcome) -> Remedy | None:
    tokens, sequences = whole(first.runtime.step_tokens), whole(first.runtime.max_sequences)
    needed = 1 if case.approved is None else -(-case.approved.sequences // first.capacity.groups)
    while tokens > _LEAST_STEP_TOKENS:
        tokens, sequences = tokens // 2, max(sequences // 2, needed)
        settings = replace(case.settings, step_tokens=tokens, max_sequences=sequences)
        outcome = _holds(case.with_settings(settings))
        if outcome is not None:
            change = f"token budget {tokens} and max sequences {sequences}"
            return Remedy(change=change, effect=_effect(case, outcome))
    return None


def _fewer_sequences(case: Case) -> Remedy | None:
    if case.approved is None:
        return None
    fitting = case.outcome().capacity.sequences(case.approved.context_tokens)
    if fitting < 1:
        return None
    fewer = case.with_approved(replace(case.approved, sequences=fitting))
    outcome = _holds(fewer)
    return None if outcome is None else Remedy(change=f"concurrency {fitting}", effect=_effect(fewer, outcome))


def _shorter_context(case: Case, first: MemoryOutcome) -> Remedy | None:
    longest = longest_context(case, first)
    # A round number is easier to write into a command line, and leaves the last block whole.
    longest = longest // _CONTEXT_UNIT_TOKENS * _CONTEXT_UNIT_TOKENS or longest
    if longest < 1:
        return None
    approved = None if case.approved is None else Approved(context_tokens=longest, sequences=case.approved.sequences)
    shorter = case.with_approved(approved, max_context_tokens=longest)
    outcome = _holds(shorter)
    return None if outcome is None else Remedy(change=f"context {longest}", effect=_effect(shorter, outcome))


def _more_devices(case: Case) -> Remedy | None:
    for tp, outcome in _held_degrees(case, case.settings.sharding.tp):
        devices = outcome.runtime.sharding.devices
        return Remedy(change=f"tp {tp}", effect=f"{devices} devices per replica; {_effect(case, outcome)}")
    return None


def _other_device(case: Case, devices: Iterable[Device]) -> Remedy | None:
    larger = (each for each in devices if each.memory_bytes > case.device.memory_bytes)
    # Another vendor means another build of the engine, so the same vendor's devices come first.
    vendor = case.device.vendor
    for device in sorted(larger, key=lambda each: (each.vendor != vendor, each.memory_bytes, each.name)):
        candidate = replace(case, device=device, device_bytes=None)
        outcome = _holds(candidate.with_settings(candidate.settings))
        if outcome is not None:
            memory = f"{device.memory_bytes / 2**30:.0f} GiB"
            return Remedy(change=f"device {device.name}", effect=f"{memory} per device; {_effect(case, outcome)}")
    return None


def _effect(case: Case, outcome: MemoryOutcome) -> str:
    context = case.approved.context_tokens if case.approved is not None else whole(outcome.runtime.max_context)
    sequences = outcome.capacity.sequences(context)
    plural = "sequence" if sequences == 1 else "sequences"
    return f"{outcome.kv_tokens:,} KV tokens, {sequences:,} {plural} of {context:,} tokens"
