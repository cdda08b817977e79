"""Caches and routers of a pool as options: what finds more of the prompts that begin like earlier ones.

Stated hits cost nothing to find, wherever a request goes; compared with them, nothing that helps to find hits could
ever pay off. So these are not candidates of the ranking: both sides of the comparison have caches that are simulated
block by block, and their needs are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.errors import Rejection
from ullage.memory.settings import OFF, SIMULATED, HostCache, RuntimeSettings
from ullage.planning.options.candidates import Candidate
from ullage.planning.options.ranking import Ranked
from ullage.planning.options.screen import OptionRequest, fit_of
from ullage.planning.options.settings import HOST_CACHE_BYTES, HOST_LINK_BYTES_PER_S
from ullage.planning.options.trial import CandidateResult, CandidateTrial
from ullage.planning.spec import PoolSpec
from ullage.service.trial.decide import Effort

BESIDE = "the pool as it is, with simulated caches"
PREFIX_AWARE = "prefix-aware routing"
HOST_CACHE = f"host cache of {HOST_CACHE_BYTES / 1e9:.0f} GB per replica"
_ROUTER_FIRST = (
    "Measure first: the share of prompt tokens that your engines find cached behind the router you have (vLLM: "
    "prefix_cache_hits / prefix_cache_queries), and replay a trace with block hashes (ullage simulate --routing "
    "prefix_aware)."
)
_HOST_FIRST = (
    f"Blocks are loaded at {HOST_LINK_BYTES_PER_S / 1e9:.0f} GB/s per device (assumed), in the step that admits "
    "their request. The host memory itself is not on the bill: check that machines have it free. Measure first: the "
    "share of prompt tokens found with it, and how long a load takes (ullage simulate --host-cache)."
)


@dataclass(frozen=True, kw_only=True)
class CacheOption:
    """One change beside the pool as it is, both with simulated caches; `stated_replicas` is the plan's own number.

    `measure_first` is what it rests on and what would settle it, in words.
    """

    name: str
    measure_first: str
    beside: CandidateResult
    run: CandidateResult
    stated_replicas: int | None

    @property
    def change_fraction(self) -> float:
        return self.run.score.value / self.beside.score.value - 1.0

    @property
    def pays(self) -> bool:
        """Whether it is cheaper whatever the undecided numbers of replicas turn out to be.

        A score that is better by less than a replica is a rounding of what is paid for.
        """
        return self.run.score.high < self.beside.score.low and self.run.replicas < self.beside.replicas

    @property
    def note(self) -> str:
        """The row as a sentence: what it saves, what it rests on and what to measure first."""
        verdict = "pays off" if self.pays else "may not pay off"
        stated = "" if self.stated_replicas is None else f" With hits as stated it would be {self.stated_replicas}."
        was = f"{self.beside.replicas} replicas, {self.beside.paid_devices} devices"
        becomes = f"{self.run.replicas} replicas, {self.run.paid_devices} devices, {self.change_fraction:+.0%}"
        return (
            f"{self.name}: {was} -> {becomes} ({self.run.evidence}); it {verdict} at this load.{stated} Which prompts "
            f"share prefixes is assumed from sessions, reuse distances and classes. {self.measure_first}"
        )


def cache_options(
    pool: PoolSpec,
    asked: OptionRequest,
    places: Sequence[Ranked],
    *,
    effort: Effort,
    map: Any = map,  # noqa: A002
) -> tuple[CacheOption | Rejection, ...]:
    """Every change to caches and routers that applies to this pool, each beside it; a refusal says why not."""
    own = next((each.measured for each in places if each.measured.fit.candidate.is_own), None)
    changes = cache_changes(pool.settings)
    if not changes or not any(max(each.reuse.later_turn_fractions) > 0.0 for each in asked.demand.busy_model.classes):
        return ()
    start = None if own is None else own.steady_replicas
    beside = _measured(BESIDE, replace(pool.settings, prefix_cache=SIMULATED), pool, asked, effort, start, map)
    if isinstance(beside, Rejection):
        return (beside,)
    found: list[CacheOption | Rejection] = []
    for name, (settings, first) in changes.items():
        run = _measured(name, settings, pool, asked, effort, beside.steady_replicas, map)
        is_stated = own is not None and pool.settings.prefix_cache != SIMULATED
        found.append(
            run
            if isinstance(run, Rejection)
            else CacheOption(
                name=name,
                measure_first=first,
                beside=beside,
                run=run,
                stated_replicas=own.replicas if own and is_stated else None,
            )
        )
    return tuple(found)


def cache_changes(given: RuntimeSettings) -> dict[str, tuple[RuntimeSettings, str]]:
    """By name, the settings with one thing changed, and what to measure first; what was measured of steps holds."""
    if given.prefix_cache == OFF:
        return {}
    simulated = replace(given, prefix_cache=SIMULATED)
    found = {}
    if given.router != "prefix_aware":
        found[PREFIX_AWARE] = replace(simulated, router="prefix_aware"), _ROUTER_FIRST
    if given.host_cache is None:
        bandwidth = HOST_LINK_BYTES_PER_S * given.sharding.devices
        tier = HostCache(size_bytes=HOST_CACHE_BYTES, bandwidth_bytes_per_s=bandwidth)
        found[HOST_CACHE] = replace(simulated, host_cache=tier), _HOST_FIRST
    return found


def _measured(
    name: str,
    settings: RuntimeSettings,
    pool: PoolSpec,
    asked: OptionRequest,
    effort: Effort,
    start: int | None,
    map: Any,  # noqa: A002
) -> CandidateResult | Rejection:
    fit = fit_of(Candidate(name=name, pool=replace(pool, settings=settings), is_own=True), asked)
    if isinstance(fit, Rejection):
        return _named(fit, name)
    trial = CandidateTrial(fit, start=start, map=map)
    found = trial.idle_refusal() or trial.measured(effort)
    return _named(found, name) if isinstance(found, Rejection) else found


def _named(why: Rejection, name: str) -> Rejection:
    return replace(why, reason=f"{name}: {why.reason}")
