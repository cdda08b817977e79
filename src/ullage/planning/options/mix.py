"""A mix of devices for one service: slices of its traffic dealt to candidates, proposed by a program, then simulated.

How much of a slice a replica carries is found by simulating the slice alone; together on one replica slices do better
or worse than the sum, so what a kind carries is scaled to what it needs for all slices together, where it can serve
them. The program then never proposes more than the cheapest single kind. Reserves are counted as each pool of a mix
needs its own; the program knows them as a share of a replica, and is corrected by what they come to.

Every mix is simulated as it would run: the same requests, each sent where the router would send it. Where a pool of the
mix violates an SLO it gets more replicas, what it carries is corrected by what was seen, and the program is asked
again. A mix is handed over only if every pool of it meets every SLO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InternalError, NotGiven, Rejection, Remedy
from ullage.evidence import Figure
from ullage.fleet.sites import UNLIMITED, Sites
from ullage.planning.options.mixes import Mix, MixKind, MixProblem, Slice, best_mix
from ullage.planning.options.screen import Fit
from ullage.planning.options.trial import ROUNDS, CandidateTrial
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import highest_load, least_replicas
from ullage.service.trial.trial import CONSERVATIVE, Trial
from ullage.service.trial.window import probe
from ullage.simulate.load import OpenLoop

# The best candidate of each of so many devices takes part; beyond them the program only grows.
MOST_KINDS = 3
# A slice is tried on a small pool: one replica alone would have to take every burst by itself.
_SLICE_REPLICAS = 4
_MOST_TRIES = 4

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class SliceRule:
    """Which requests of a pool a slice is: one class, and prompts from a length on and below another."""

    name: str
    pool: str
    request_class: str
    from_tokens: int
    below_tokens: int | None

    def holds(self, load: OpenLoop) -> Mask:
        requests = load.requests
        names = [each.name for each in requests.classes]
        if self.request_class not in names:
            return np.zeros(requests.count, bool)
        own = np.ones(requests.count, bool)
        if requests.class_of is not None:
            own = requests.class_of == names.index(self.request_class)
        own = own & (requests.prompt_tokens >= self.from_tokens)
        return own if self.below_tokens is None else own & (requests.prompt_tokens < self.below_tokens)


@dataclass(frozen=True, kw_only=True)
class SlicedLoad:
    """The requests of a mix that go to one kind: of each slice a share, the same requests every time.

    `part_fraction` is what these are of all requests: a rate is that of what is left.
    """

    mix: MixLoad
    shares: tuple[tuple[SliceRule, float, float], ...]  # slice, from, to: of the unit interval of its requests
    part_fraction: float = 1.0

    def __call__(self, *, rate_rps: float, span_s: float, seed: int) -> OpenLoop:
        whole = self.mix(rate_rps=rate_rps / self.part_fraction, span_s=span_s, seed=seed)
        kept = self.kept(whole, seed)
        if not kept.any():
            kept[0] = True
        return _only(whole, kept)

    def kept(self, whole: OpenLoop, seed: int) -> Mask:
        dice = np.random.default_rng((seed, 2)).random(whole.requests.count)
        kept = np.zeros(whole.requests.count, bool)
        for rule, low, high in self.shares:
            kept |= rule.holds(whole) & (dice >= low) & (dice < high)
        return kept


def _only(load: OpenLoop, kept: Mask) -> OpenLoop:
    def part(values: Any) -> Any:
        return None if values is None else values[kept]

    return replace(
        load, requests=load.requests.part(kept), arrival_s=part(load.arrival_s), arrival_ps=part(load.arrival_ps)
    )


@dataclass(frozen=True, kw_only=True)
class MixedPool:
    """One kind of a mix as it was verified: its replicas, the parts of each slice it gets, and what it keeps."""

    fit: Fit
    pool: str
    replicas: int
    reserve_replicas: int
    paid_devices: int
    shares: Mapping[str, float]
    rate_rps: float
    broken: tuple[str, ...]

    @property
    def devices(self) -> int:
        """Of all replicas, reserves among them: what a quota has to allow."""
        return (self.replicas + self.reserve_replicas) * self.fit.devices

    @property
    def usd_per_hour(self) -> float:
        return (self.fit.usd_per_hour or 0.0) * self.paid_devices


@dataclass(frozen=True, kw_only=True)
class VerifiedMix:
    """A mix that meets every SLO in simulation, beside the cheapest way to serve each pool with one kind.

    Both with the reserves of every pool, on whole machines.
    """

    pools: tuple[MixedPool, ...]
    usd_per_hour: float
    single_usd_per_hour: float | None
    tries: int
    figures: Mapping[str, Figure]

    @property
    def is_cheaper(self) -> bool:
        return self.single_usd_per_hour is None or self.usd_per_hour < self.single_usd_per_hour * (1.0 - 1e-9)

    @property
    def is_mixed(self) -> bool:
        """Whether a pool has more than one kind."""
        return len({each.pool for each in self.pools}) < len(self.pools)


NO_MIX = NotGiven(
    stage="mix",
    instead="No mix: there is only one kind of replica for one pool.",
    fix="Name several devices under options.devices, all with prices.",
)


def device_mix(
    ranked: Mapping[str, Sequence[CandidateTrial]],
    *,
    split: Sequence[int],
    sites: Mapping[str, Sites],
    map: Any = map,  # noqa: A002
) -> VerifiedMix | Rejection | NotGiven:
    """The cheapest mix for all pools under shared quotas; `ranked` are their candidates by pool, best first.

    Candidates that were refused for their quota alone may be among them: a part of the traffic may fit.
    """
    best = {pool: _of_each_device(trials) for pool, trials in ranked.items()}
    kinds = {(pool, each.fit.candidate.name): each for pool, found in best.items() for each in found}
    if len(kinds) < 2 or not all(best.values()):
        return NO_MIX
    rules = {rule.name: rule for pool, found in best.items() for rule in slices_of(found[0].fit, pool, split)}
    maker = _MixMaker(kinds, rules, map=map)
    quotas = {each.fit.candidate.pool.device.name: UNLIMITED for each in kinds.values()}
    quotas = {name: quota for name in quotas if (quota := quota_devices(sites.get(name))) < UNLIMITED}
    return maker.mix(quotas)


def _of_each_device(trials: Sequence[CandidateTrial]) -> list[CandidateTrial]:
    """The best priced candidate of each device, in order of rank."""
    found: dict[str, CandidateTrial] = {}
    for each in trials:
        if each.fit.usd_per_hour is not None:
            found.setdefault(each.fit.candidate.pool.device.name, each)
    return list(found.values())[:MOST_KINDS]


def slices_of(fit: Fit, pool: str, split: Sequence[int]) -> tuple[SliceRule, ...]:
    """Every class of the pool, divided at the given prompt lengths; by default, where half of its prompt tokens lie."""
    load = _drawn(fit)
    names = [each.name for each in load.requests.classes]
    found: list[SliceRule] = []
    for each in fit.asked.classes:
        own = load.requests.class_of == names.index(each.name) if load.requests.class_of is not None else slice(None)
        edges = sorted(split) or [_half_of_tokens(load.requests.prompt_tokens[own])]
        for low, high in zip([0, *edges], [*edges, None], strict=True):
            span = f"below {high:,} tokens" if low == 0 and high is not None else f"from {low:,} tokens"
            span = f"{low:,} to {high:,} tokens" if low and high is not None else span
            found.append(
                SliceRule(
                    name=f"{pool} {each.name} {span}" if pool else f"{each.name} {span}",
                    pool=pool,
                    request_class=each.name,
                    from_tokens=low,
                    below_tokens=high,
                )
            )
    shares = [float(rule.holds(load).mean()) for rule in found]
    return tuple(rule for rule, share in zip(found, shares, strict=True) if share > 0.0)


def _half_of_tokens(prompts: NDArray[Any]) -> int:
    ordered = np.sort(prompts)
    tokens = np.cumsum(ordered, dtype=np.float64)
    return max(1, int(ordered[int(np.searchsorted(tokens, tokens[-1] / 2.0))]))


def _drawn(fit: Fit, requests: int = 20_000) -> OpenLoop:
    rate_rps = fit.asked.rate_rps
    return fit.mix(rate_rps=rate_rps, span_s=requests / rate_rps, seed=fit.asked.seed)


def quota_devices(sites: Sites | None) -> int:
    """Devices that the quotas of all regions allow together; UNLIMITED where one of them has none."""
    if sites is None:
        return UNLIMITED
    total = 0
    for region in sites.regions:
        zones = sum(UNLIMITED if zone.quota is None else int(zone.quota.value) for zone in region.zones)
        total += min(zones, UNLIMITED if region.quota is None else int(region.quota.value))
    return min(total, UNLIMITED)


class _MixMaker:
    """Proposes and verifies; what a kind carries of a slice is found once."""

    def __init__(
        self,
        kinds: Mapping[tuple[str, str], CandidateTrial],
        rules: Mapping[str, SliceRule],
        *,
        map: Any,  # noqa: A002
    ) -> None:
        self._kinds, self._rules, self._map = kinds, rules, map
        first = {pool: each.fit for (pool, _), each in reversed(list(kinds.items()))}
        self._parts = {name: float(rule.holds(_drawn(first[rule.pool])).mean()) for name, rule in rules.items()}
        self._slices = tuple(
            Slice(name=name, pool=rule.pool, rate_rps=self._parts[name] * first[rule.pool].asked.rate_rps)
            for name, rule in rules.items()
        )

    def mix(self, quotas: Mapping[str, int]) -> VerifiedMix | Rejection:
        kinds = tuple(_kind(_kind_name(*key), key[0], each.fit) for key, each in self._kinds.items())
        alone = {
            (kind.name, each.name): self._carries(self._trial(kind).fit, each)
            for kind in kinds
            for each in self._slices
            if kind.pool == each.pool
        }
        problem = MixProblem(slices=self._slices, kinds=kinds, carries=alone, quotas=quotas)
        singles = {kind.name: one for kind in kinds if (one := self._single(problem, kind)) is not None}
        problem = _scaled(problem, singles)
        single_usd = _single_usd_per_hour(problem, singles)
        best: VerifiedMix | None = None
        for tries in range(1, _MOST_TRIES + 1):
            proposed = best_mix(problem)
            if proposed is None:
                break
            pools = self._verified(problem, proposed)
            if _within(pools, quotas):
                found = _handed_over(pools, single_usd, tries)
                best = found if best is None or found.usd_per_hour < best.usd_per_hour else best
            corrected = _corrected(problem, proposed, pools)
            if corrected == problem:
                break
            problem = corrected
        return self._refused(quotas) if best is None else best

    def _trial(self, kind: MixKind) -> CandidateTrial:
        return self._kinds[kind.pool, kind.name.removeprefix(f"{kind.pool}: ")]

    def _of(self, fit: Fit) -> CandidateTrial:
        return next(each for each in self._kinds.values() if each.fit is fit)

    def _single(self, problem: MixProblem, kind: MixKind) -> MixedPool | None:
        """All slices of its pool on this kind alone; None where it cannot serve one of them."""
        own = [each for each in problem.slices if each.pool == kind.pool]
        if not all(problem.can_serve(kind, each) for each in own):
            return None
        start = max(1, round(sum(problem.parts * problem.work(kind, each) for each in own)))
        return self._pool(kind, {each.name: (0.0, 1.0) for each in own}, start)

    def _carries(self, fit: Fit, part: Slice) -> float:
        """The rate of a slice alone at which one replica of a small pool meets every SLO, with slow steps."""
        load = SlicedLoad(
            mix=fit.mix, shares=((self._rules[part.name], 0.0, 1.0),), part_fraction=self._parts[part.name]
        )
        seed, base = fit.asked.seed, self._base(fit, load)
        scale = probe(base.replica, load, seed=seed)
        small = replace(base, replicas=_SLICE_REPLICAS, span_s=scale.span_s)
        return highest_load(small, scale, seed=seed, effort=ROUNDS[0], with_interval=False, map=self._map).rps

    def _base(self, fit: Fit, load: SlicedLoad) -> Trial:
        """One replica with conservative step times under a part of the traffic."""
        return Trial(
            replica=fit.replica.slowed(fit.band.slow_ratio),
            load_at=load,
            classes=fit.asked.classes,
            deadlines_s=fit.asked.spec.admission.deadlines_s(fit.asked.classes),
            idle_error_fractions=self._of(fit).bases.conservative.idle_error_fractions,
            basis=CONSERVATIVE,
        )

    def _verified(self, problem: MixProblem, proposed: Mix) -> tuple[MixedPool, ...]:
        """The pools of a proposal with as many replicas as they turn out to need."""
        return tuple(
            self._pool(kind, shares, proposed.replicas.get(kind.name, 1))
            for kind in problem.kinds
            if (shares := _shares(problem, proposed, kind))
        )

    def _pool(self, kind: MixKind, shares: Mapping[str, tuple[float, float]], start: int) -> MixedPool:
        """Least replicas at which this pool's share of the traffic meets every SLO, by all runs."""
        trial = self._trial(kind)
        fit = trial.fit
        part = sum((high - low) * self._parts[name] for name, (low, high) in shares.items())
        load = SlicedLoad(
            mix=fit.mix,
            shares=tuple((self._rules[name], low, high) for name, (low, high) in shares.items()),
            part_fraction=part,
        )
        rate_rps = part * fit.asked.rate_rps
        base = self._base(fit, load)
        scale = probe(base.replica, load, seed=fit.asked.seed)
        found = least_replicas(
            replace(base, span_s=scale.span_s),
            rate_rps,
            scale,
            seed=fit.asked.seed,
            effort=ROUNDS[1],
            start=start,
            map=self._map,
        )
        replicas = found.replicas
        reserve, paid = trial.with_reserves(replicas)
        return MixedPool(
            fit=fit,
            pool=kind.pool,
            replicas=replicas,
            reserve_replicas=reserve,
            paid_devices=paid,
            shares={name: high - low for name, (low, high) in shares.items()},
            rate_rps=rate_rps,
            broken=found.at.violated,
        )

    def _refused(self, quotas: Mapping[str, int]) -> Rejection:
        fit = next(iter(self._kinds.values())).fit
        named = ", ".join(f"{quota} {name}" for name, quota in sorted(quotas.items())) or "none"
        return Rejection(
            stage="mix",
            reason=f"no mix serves all traffic within the quotas: {named}",
            figure=Figure(
                name="mix.quota_devices",
                value=sum(quotas.values()),
                unit="devices",
                formula="devices that the quotas allow",
                inputs=(*fit.asked.spec.inputs, *fit.inputs),
            ),
            remedies=(
                Remedy(change="a larger quota of one of these devices", effect="more replicas fit"),
                Remedy(change="another device under options.devices", effect="its quota is added"),
            ),
        )


def _kind(name: str, pool: str, fit: Fit) -> MixKind:
    """A kind before its reserves are known."""
    return MixKind(
        name=name,
        pool=pool,
        device=fit.candidate.pool.device.name,
        devices=float(fit.devices),
        usd_per_hour=(fit.usd_per_hour or 0.0) * fit.devices,
    )


def _as_found(kind: MixKind, found: MixedPool) -> MixKind:
    """The kind with devices and cost of a replica as this pool of it came to."""
    return replace(
        kind, devices=found.devices / found.replicas, usd_per_hour=found.usd_per_hour / found.replicas
    )  # fmt: skip


def _scaled(problem: MixProblem, singles: Mapping[str, MixedPool]) -> MixProblem:
    """What kinds carry and cost, such that one that can serve its whole pool is exactly full with what it needs."""
    carries = dict(problem.carries)
    for kind in problem.kinds:
        if kind.name in singles:
            own = [each for each in problem.slices if each.pool == kind.pool]
            busy = sum(problem.parts * problem.work(kind, each) for each in own)
            # A hair more than full, so that rounding does not ask for one more.
            ratio = busy / singles[kind.name].replicas * (1.0 + 1e-9)
            for each in own:
                carries[kind.name, each.name] *= ratio
    kinds = tuple(_as_found(kind, singles[kind.name]) if kind.name in singles else kind for kind in problem.kinds)
    return replace(problem, carries=carries, kinds=kinds)


def _corrected(problem: MixProblem, proposed: Mix, pools: Sequence[MixedPool]) -> MixProblem:
    """The problem with what pools of the proposal turned out to need beyond it: more replicas, or dearer ones."""
    carries, kinds = dict(problem.carries), {kind.name: kind for kind in problem.kinds}
    for each in pools:
        name = _name_of(each)
        wanted = proposed.replicas.get(name, 1)
        if each.replicas > wanted:
            for part in each.shares:
                carries[name, part] *= wanted / each.replicas
        seen = _as_found(kinds[name], each)
        if seen.usd_per_hour > kinds[name].usd_per_hour * (1.0 + 1e-9):
            kinds[name] = seen
    return replace(problem, carries=carries, kinds=tuple(kinds.values()))


def _single_usd_per_hour(problem: MixProblem, singles: Mapping[str, MixedPool]) -> float | None:
    """The cheapest single kind for each pool, within the quotas; None where a pool has none."""
    total = 0.0
    used: dict[str, int] = {}
    for pool in dict.fromkeys(kind.pool for kind in problem.kinds):
        fitting = [
            (singles[kind.name].usd_per_hour, kind)
            for kind in problem.kinds
            if kind.pool == pool
            and kind.name in singles
            and used.get(kind.device, 0) + singles[kind.name].devices <= problem.quotas.get(kind.device, UNLIMITED)
        ]
        if not fitting:
            return None
        usd, chosen = min(fitting, key=lambda each: (each[0], each[1].name))
        used[chosen.device] = used.get(chosen.device, 0) + singles[chosen.name].devices
        total += usd
    return total


def _handed_over(pools: tuple[MixedPool, ...], single_usd: float | None, tries: int) -> VerifiedMix:
    if broken_names := [name for each in pools for name in each.broken]:
        raise InternalError(law="a mix that is handed over meets every SLO", left=broken_names, right=())
    usd = sum(each.usd_per_hour for each in pools)
    figure = Figure(
        name="mix.usd_per_hour",
        value=usd,
        unit="USD/h",
        formula="devices of each kind with its reserves, on whole machines, x price; every pool simulated",
        inputs=tuple(one for each in pools for one in each.fit.inputs),
    )
    return VerifiedMix(
        pools=pools, usd_per_hour=usd, single_usd_per_hour=single_usd, tries=tries, figures={figure.name: figure}
    )


def _kind_name(pool: str, candidate: str) -> str:
    return f"{pool}: {candidate}"


def _name_of(pool: MixedPool) -> str:
    return _kind_name(pool.pool, pool.fit.candidate.name)


def _within(pools: Sequence[MixedPool], quotas: Mapping[str, int]) -> bool:
    used: dict[str, int] = {}
    for each in pools:
        device = each.fit.candidate.pool.device.name
        used[device] = used.get(device, 0) + each.devices
    return all(used.get(name, 0) <= quota for name, quota in quotas.items())


def _shares(problem: MixProblem, mix: Mix, kind: MixKind) -> dict[str, tuple[float, float]]:
    """The part of each slice's unit interval that is this kind's: kinds lie side by side in it, in their order."""
    found: dict[str, tuple[float, float]] = {}
    for part in problem.slices:
        start = 0
        for each in problem.kinds:
            count = mix.parts.get((each.name, part.name), 0)
            if each is kind and count:
                found[part.name] = (start / problem.parts, (start + count) / problem.parts)
            start += count
    return found
