"""The production mix at any load: what turns a rate and a seed into requests for the simulator.

A curve needs the same traffic at many rates. The same seed gives the same bursts, lengths and sessions at every
rate (common random numbers), so that two loads differ by their load and not by chance.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError, check_name
from ullage.simulate.engine import Engine
from ullage.simulate.load import GOES_ON_FRACTION, PS_PER_S, LoadClass, OpenLoop, Prefixes, Requests, Turns
from ullage.workload.classes import Metric, RequestClass
from ullage.workload.definitions import TpotCount
from ullage.workload.synthetic.model import CELL_S, HOURS_PER_WEEK, SyntheticModel, cells_in, recipe
from ullage.workload.synthetic.modulation import Modulation, drawn_levels
from ullage.workload.synthetic.prefixes import prefix_chains
from ullage.workload.synthetic.stream import NO_SESSION, Recipe, Stream, generate

Floats = NDArray[np.float64]


class LoadAt(Protocol):
    """Traffic of one shape at a total offered rate, for `span_s` seconds."""

    def __call__(self, *, rate_rps: float, span_s: float, seed: int) -> OpenLoop: ...


@dataclass(frozen=True, kw_only=True)
class SessionTurns:
    """Sessions whose turns wait for their answers, and what becomes of their KV in between.

    `prompt_token_s` and `output_token_s` are what an idle replica takes for a token, `first_s` what it takes besides.
    """

    between: str
    first_s: float
    prompt_token_s: float
    output_token_s: float

    @staticmethod
    def on(engine: Engine, between: str) -> SessionTurns:
        """Where nothing else runs a prompt takes its part of a full step, and each token of the answer a step."""
        table = engine.step
        place = min(engine.budget_tokens // table.token_segment_tokens, table.token_base_ps.size - 1)
        past = engine.budget_tokens - place * table.token_segment_tokens
        whole_ps = float(table.token_base_ps[place] + table.token_slope_ps[place] * past)
        return SessionTurns(
            between=between,
            first_s=engine.request_overhead_s + float(table.decode_base_ps[0, 0]) / PS_PER_S,
            prompt_token_s=whole_ps / engine.budget_tokens / PS_PER_S,
            output_token_s=float(table.decode_base_ps[1, 0]) / PS_PER_S / engine.tokens_per_step,
        )

    def of(self, stream: Stream) -> Turns | None:
        """Each turn as long after the answer before it as it was drawn to come after that one's turn, less what an idle
        replica takes to answer: on one the turns come when the stream says. None where no session has two turns.
        """
        follows = turns_before(stream)
        turn = np.flatnonzero(follows >= 0)
        if turn.size == 0:
            return None
        before = follows[turn]
        answer_s = self.first_s + (
            stream.prompt_tokens[before] * self.prompt_token_s + stream.output_tokens[before] * self.output_token_s
        )
        think_s = np.zeros(stream.requests)
        apart_s = (stream.arrival_ps[turn] - stream.arrival_ps[before]) / PS_PER_S
        think_s[turn] = np.maximum(0.0, apart_s - answer_s)
        return Turns(follows=follows, think_s=think_s, between=self.between)


@dataclass(frozen=True, kw_only=True)
class MixLoad:
    """A synthetic model's classes, always in its own proportions, without season and growth.

    A prompt's cached part is taken as cached where a cache of `cache_blocks` still holds it; with `chains` every
    replica has a prefix cache that is simulated, and prompts begin like others (workload/synthetic/prefixes.py). With
    `turns` a session's next turn comes after the answer to the one before.
    Without `bursts`
    arrivals are Poisson, everything else the same. Of a mix that is part of another, `whole` are the bursts of all
    classes of that one and `places` where its own stand among them: a part meets the bursts that the whole meets.
    """

    model: SyntheticModel
    classes: tuple[RequestClass, ...]
    cache_blocks: float = 0.0
    chains: bool = False
    turns: SessionTurns | None = None
    bursts: bool = True
    whole: tuple[Modulation, ...] = ()
    places: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        names = [each.name for each in self.model.classes]
        for each in self.classes:
            check_name(each.name, names, field="class")
        if len(self.classes) != len(names):
            raise InputError(
                field="classes",
                value=[each.name for each in self.classes],
                problem=f"does not state the SLOs of each of {names}",
                fix="Give one request class for each class of the mix; a class may have no SLOs.",
            )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Found once: a mix of fifty classes has twenty thousand values."""
        drawn = (self.cache_blocks, self.chains, self.turns, self.bursts, self.whole, self.places)
        return hash((self.model, self.classes, drawn))

    def part(self, names: Container[str]) -> MixLoad:
        """Some of the classes, at the rates and with the bursts that they have among the others."""
        if all(name in names for name in self.names):
            return self
        own = [(place, each) for place, each in enumerate(self.model.classes) if each.name in names]
        return replace(
            self,
            model=SyntheticModel(classes=tuple(each for _, each in own)),
            classes=tuple(each for each in self.classes if each.name in names),
            whole=self._modulations,
            places=tuple(self._places[place] for place, _ in own),
        )

    @property
    def smooth(self) -> MixLoad:
        """The same mix, arriving as a Poisson process."""
        return replace(self, bursts=False)

    @property
    def has_bursts(self) -> bool:
        return self.bursts and any(any(each.bursts.variances) for each in self.model.classes)

    def work(self, work_s: Mapping[str, float]) -> BurstyWork:
        """What makes a window heavy: the bursts of each class, and its share of the work; `work_s` is a request's."""
        each_s = np.zeros(len(self._modulations))
        each_s[list(self._places)] = [work_s.get(each.name, 1.0) * each.mean_rate_rps for each in self.model.classes]
        return BurstyWork(
            bursts=self._modulations,
            # Digits beyond the tenth are rounding: mixes that differ by them have the same heavy windows.
            shares=tuple(np.round(each_s / each_s.sum(), 10).tolist()),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.model.classes)

    @cached_property
    def nameless(self) -> MixLoad:
        """The same mix with its classes called by their places, and a rate of one: equal for mixes that draw alike.

        Season, growth and launches are no part of it, because no window has any of them.
        """
        places = {name: str(place) for place, name in enumerate(self.names)}
        model = SyntheticModel(
            classes=tuple(
                replace(
                    each,
                    name=places[each.name],
                    mean_rate_rps=share,
                    season=(1.0,) * HOURS_PER_WEEK,
                    bursts=_rounded(each.bursts),
                    weekly_growth_fraction=0.0,
                    launches=(),
                )
                for each, share in zip(self.model.classes, self._shares.tolist(), strict=True)
            )
        )
        classes = tuple(called(each, places[each.name]) for each in self.classes)
        return replace(self, model=model, classes=classes, whole=tuple(_rounded(each) for each in self.whole))

    @cached_property
    def _tables(self) -> Recipe:
        """Found once for every mix: a model of many classes takes long to hash."""
        return _tables(self.model)

    @cached_property
    def _seen_rps(self) -> float:
        """The traffic of the model, in all."""
        return sum(each.mean_rate_rps for each in self.model.classes)

    @cached_property
    def _shares(self) -> Floats:
        """Of all requests by class. Digits beyond the twelfth are rounding, and twice the traffic has the same mix."""
        rates_rps = np.array([each.mean_rate_rps for each in self.model.classes])
        shares: Floats = np.round(rates_rps / rates_rps.sum(), 12)
        return shares

    @cached_property
    def _modulations(self) -> tuple[Modulation, ...]:
        """Of all classes whose bursts are drawn together."""
        drawn = self.whole or tuple(each.bursts for each in self.model.classes)
        return tuple(_rounded(each) for each in drawn) if self.bursts else (Modulation(),) * len(drawn)

    @cached_property
    def _places(self) -> tuple[int, ...]:
        return self.places if self.whole else tuple(range(len(self.model.classes)))

    @cached_property
    def _load_classes(self) -> tuple[LoadClass, ...]:
        """In the order of the model's classes, which is a stream's."""
        slo_class = {each.name: each for each in self.classes}
        return tuple(simulated_class(slo_class[each.name]) for each in self.model.classes)

    def _recipe(self, span_s: float, seed: int) -> Recipe:
        """Rates by cell and class of one seed's window, for one request a second, without season and growth.

        Bursts move the rate inside the window; its mean is held at the model's, class by class. A load is then what it
        says, and how wrong the mean may be stays where it belongs: in the forecast's percentile, not in the trial.
        """
        levels = _known_levels(self._modulations, span_s, seed)
        rates_rps = (levels[:, list(self._places)] if self.whole else levels) * self._shares
        return replace(self._tables, span_s=span_s, rates_rps=rates_rps)

    def __call__(self, *, rate_rps: float, span_s: float, seed: int) -> OpenLoop:
        """Draw a window; pools of several sizes and on both step bases are tried at one rate, on the same windows."""
        # How far apart uses of a prefix are goes by the traffic that they were seen in.
        key = (self.nameless, rate_rps, span_s, seed, self._seen_rps if self.chains else None)
        found = _DRAWN.get(key)
        if found is None:
            found = _DRAWN[key] = self._draw(rate_rps, span_s, seed)
            if len(_DRAWN) % _LOOKED_AFTER == 0:
                _forget_oldest()
        return found if found.requests.classes == self._load_classes else found.with_classes(self._load_classes)

    def _draw(self, rate_rps: float, span_s: float, seed: int) -> OpenLoop:
        base = self._recipe(span_s, seed)
        drawn = generate(replace(base, rates_rps=base.rates_rps * rate_rps), np.random.default_rng((seed, 1)))
        while drawn.arrival_ps.size == 0:
            # A span too short for one request of a trickle is given some: from none nothing can be learnt.
            rate_rps = 2.0 * rate_rps or 1.0 / span_s
            drawn = generate(replace(base, rates_rps=base.rates_rps * rate_rps), np.random.default_rng((seed, 1)))
        stream = drawn.served_by_cache(self.cache_blocks)
        if self.chains:
            # A prefix is used again after as much time, at whatever rate: a part of the traffic meets a part of it.
            blocks = np.rint(drawn.reuse_blocks * (rate_rps / self._seen_rps))
            # Of a trickle that was given a request, so far off that no cache holds it: as far as is counted.
            distance = np.minimum(blocks, np.iinfo(np.int32).max).astype(np.int32)
            stream = replace(drawn, reuse_blocks=np.where(drawn.reuse_blocks > 0, np.maximum(1, distance), 0))
        return OpenLoop(
            requests=Requests(
                prompt_tokens=stream.prompt_tokens,
                output_tokens=stream.output_tokens,
                cached_tokens=None if self.chains else np.minimum(stream.cached_tokens, stream.prompt_tokens - 1),
                prefixes=simulated_prefixes(stream) if self.chains else None,
                session_of=known_sessions(stream) if self.chains else None,
                turns=None if self.turns is None else self.turns.of(stream),
                classes=self._load_classes,
                class_of=stream.class_index,
            ),
            arrival_ps=stream.arrival_ps,
        )


# What was drawn last. A request is 21 bytes, so these are 80 MB at most.
_DRAWN: dict[tuple[object, ...], OpenLoop] = {}
_MOST_DRAWN, _MOST_DRAWN_REQUESTS = 256, 4_000_000
# The size of the cache is checked once for so many new entries.
_LOOKED_AFTER = 8


def _forget_oldest() -> None:
    """Several threads draw at once: each list is made in one piece, an iterator would see the others' changes."""
    kept = 0
    for place, (key, load) in enumerate(reversed(list(_DRAWN.items()))):
        kept += load.requests.count
        if kept > _MOST_DRAWN_REQUESTS or place >= _MOST_DRAWN:
            _DRAWN.pop(key, None)


def _rounded(bursts: Modulation) -> Modulation:
    """Bursts to twelve digits: those of two rates of one class differ beyond that, by rounding alone."""
    return replace(bursts, variances=tuple(float(f"{each:.12g}") for each in bursts.variances))


def simulated_prefixes(stream: Stream) -> Prefixes:
    """Which prompt of a stream begins like which, for caches that are simulated and keep answers with prompts."""
    chains = prefix_chains(stream)
    return Prefixes(parent=chains.parent, shared_tokens=chains.shared_tokens, history_tokens=chains.history_tokens)


def turns_before(stream: Stream) -> NDArray[np.int64]:
    """The turn before each request, or -1: by sessions, or else by which prompt goes on where another left off."""
    follows = np.full(stream.requests, -1)
    order = np.argsort(stream.session, kind="stable")
    own = stream.session[order]
    later = np.flatnonzero((own[1:] == own[:-1]) & (own[1:] != NO_SESSION)) + 1
    follows[order[later]] = order[later - 1]
    if later.size == 0 and stream.parent is not None and stream.shared_tokens is not None:
        goes_on = stream.shared_tokens >= GOES_ON_FRACTION * stream.prompt_tokens[stream.parent]
        found = np.where((stream.parent >= 0) & goes_on, stream.parent, -1)
        # Of several that go on from one, the first is its next turn; the others begin sessions of their own.
        _, first = np.unique(found, return_index=True)
        follows[first] = found[first]
    return follows


def known_sessions(stream: Stream) -> NDArray[np.int32] | None:
    """The session of each request, one of its own where it has none; None where no request has one."""
    if bool((stream.session == NO_SESSION).all()):
        return None
    alone = int(stream.session.max()) + 1 + np.arange(stream.requests)
    return np.where(stream.session == NO_SESSION, alone, stream.session).astype(np.int32)


def called(request_class: RequestClass, name: str) -> RequestClass:
    """The class under another name; a drawn load has no rule for requests of a trace."""
    return replace(request_class, name=name, rule=None)


def simulated_class(slo_class: RequestClass) -> LoadClass:
    """What makes a single request of this class good.

    A request is held to the limit of the class's highest percentile of each metric: a limit on the median is exceeded
    by half of all good requests.
    """
    limits = {metric: _request_limit(slo_class, metric) for metric in Metric}
    return LoadClass(
        name=slo_class.name,
        priority=slo_class.priority,
        ttft_slo_s=limits[Metric.TTFT],
        # The kernel knows TPOT without the first token; another one is counted after the run (defined.py).
        tpot_slo_s=limits[Metric.TPOT] if slo_class.definitions.tpot is TpotCount.WITHOUT_FIRST else None,
        e2e_slo_s=limits[Metric.E2E],
    )


def _request_limit(slo_class: RequestClass, metric: Metric) -> float | None:
    own = [slo for slo in slo_class.slos if slo.metric is metric]
    return max(own, key=lambda slo: slo.percentile_fraction).limit_s if own else None


_HEAVY_S = 120.0
# Chosen on the built-in example at 300 req/s, where it explains TPOT (R2 0.92 of its logarithm).
_LATELY_S, _SURGE_STEEPNESSES = 16.0, (5.0,)
# Where a steady rate misses some per cent, thirty times as much is all there is to miss: one window in thousands, whose
# rate is many times the mean, would otherwise outweigh all the others.
_MOST_SURGE = 30.0


@dataclass(frozen=True, kw_only=True)
class BurstyWork:
    """Classes as far as they decide which windows are heavy. Longer prompts for all of them change nothing here."""

    bursts: tuple[Modulation, ...]
    shares: tuple[float, ...]

    def heaviness(self, *, span_s: float, seeds: Sequence[int]) -> Floats:
        """Of each seed's window, the work that comes in its heaviest two minutes.

        Rates alone are drawn here, no requests, so that a thousand windows can be weighed for the price of a few.
        """
        shares = np.array(self.shares)
        return np.array([_heaviest(each @ shares) for each in _candidates(self.bursts, span_s, tuple(seeds))])

    def surges(self, *, span_s: float, from_s: float, seeds: Sequence[int]) -> Floats:
        """Of each seed's window, how much more than a steady rate would hurt: a row for every steepness.

        What is missed grows by a power of the load, so a window is hurt by the mean over its work of
        exp(steepness * (load of the last seconds / mean load - 1)), from where it is counted on, up to a limit.
        """
        shares, first = np.array(self.shares), round(from_s / CELL_S)
        found = np.empty((len(_SURGE_STEEPNESSES), len(seeds)))
        for place, each in enumerate(_candidates(self.bursts, span_s, tuple(seeds))):
            found[:, place] = _surges(each @ shares, first)
        return found

    def mean_surges(self, *, span_s: float, from_s: float, seeds: Sequence[int]) -> Floats:
        """The mean surge over windows that are drawn for it, one after the other, and not kept."""
        shares, first = np.array(self.shares), round(from_s / CELL_S)
        found = [_surges(_levels(self.bursts, span_s, each) @ shares, first) for each in seeds]
        mean: Floats = np.mean(found, axis=0)
        return mean


def _surges(rates: Floats, first: int) -> list[float]:
    lately = _lately(rates)[first:] - 1.0
    work = rates[first:] / rates[first:].sum()
    return [float(work @ np.minimum(np.exp(each * lately), _MOST_SURGE)) for each in _SURGE_STEEPNESSES]


def _lately(rates: Floats) -> Floats:
    """The mean rate over as long as a request is about in the engine, up to each cell."""
    wide = min(rates.size, round(_LATELY_S / CELL_S))
    sums = np.cumsum(np.concatenate([np.full(wide, rates[0]), rates]))
    found: Floats = (sums[wide:] - sums[:-wide]) / wide
    return found


def _heaviest(rates: Floats) -> float:
    """The largest sum over two minutes of a rate by cells; of all of it where it is shorter."""
    wide = min(rates.size, round(_HEAVY_S / CELL_S))
    sums = np.cumsum(np.concatenate([[0.0], rates]))
    return float((sums[wide:] - sums[:-wide]).max())


def _levels(bursts: Sequence[Modulation], span_s: float, seed: int) -> Floats:
    """By cell and class, how far the rate is above its mean in one seed's window."""
    rng, cells = np.random.default_rng((seed, 0)), cells_in(span_s)
    drawn = [drawn_levels(each, cells, CELL_S, rng) for each in bursts]
    # A sum by its own name: the method's detours take as long as the sum.
    return np.stack([each / (np.add.reduce(each) / cells) for each in drawn], axis=1)


@functools.lru_cache(maxsize=2)
def _candidates(bursts: tuple[Modulation, ...], span_s: float, seeds: tuple[int, ...]) -> NDArray[np.float32]:
    """The levels of many windows. Parts of a mix are weighed by the same ones: drawing them is most of the price."""
    found = np.empty((len(seeds), cells_in(span_s), len(bursts)), np.float32)
    for place, seed in enumerate(seeds):
        found[place] = _levels(bursts, span_s, seed)
    found.setflags(write=False)
    return found


@functools.lru_cache(maxsize=128)
def _known_levels(bursts: tuple[Modulation, ...], span_s: float, seed: int) -> Floats:
    """A window is used at many rates, and its bursts are those of its seed at each of them."""
    found = _levels(bursts, span_s, seed)
    found.setflags(write=False)
    return found


@functools.lru_cache(maxsize=64)
def _tables(model: SyntheticModel) -> Recipe:
    """Lengths, reuse and tenants of a model: the same for every seed and span."""
    return recipe(model, span_s=CELL_S, rng=np.random.default_rng(0))
