"""The highest load, and the least number of replicas, that meet every SLO.

Loads are tried on a grid whose scale is the replica's saturation, in which SLOs do not enter, and at every load the
same windows are simulated (common random numbers): two searches that differ only in their SLOs visit comparable
loads. Far from the answer a few windows decide, close to it many (decide.py).

A pool of very many replicas is simulated as a sub-pool of SUB_POOL of them that gets its share of the load, with the
same bursts in proportion. Its search is then over load with the number fixed. A smaller pool evens out less of what
chance brings, so the answer errs to the safe side.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ullage.errors import InputError
from ullage.service.trial.decide import (
    BRIEF,
    FULL,
    MOST_EXCESS,
    SCOUT,
    STEEPNESS,
    Beside,
    Decision,
    Effort,
    criteria_names,
    decide,
    decide_beside,
    judge,
    sampled,
    scout_windows,
    trial_strata,
)
from ullage.service.trial.line import on_line
from ullage.service.trial.strata import MANY_REPLICAS
from ullage.service.trial.trial import Trial
from ullage.service.trial.window import Probe
from ullage.simulate.statistics import Interval

# Steps of the grid in one saturation: the answer is at most one step, 0.8 % of saturation, too low.
STEPS = 128
MOST_DOUBLINGS = 4
# Less than this of an excess is not acted upon.
_LEAST_EXCESS = 0.05
# Scouts are few: an excess below this is as near as they can tell.
_SCOUTED_EXCESS = 0.15
# Most mixes meet their SLOs up to about so much of saturation.
_LIKELY_FRACTION = 0.6
SUB_POOL = MANY_REPLICAS
# Up to half as many again the whole pool is simulated.
MOST_WHOLE = 96
MOST_REPLICAS = 1_000_000
# A very large pool is searched in steps of about this share of it; windows cannot tell finer ones apart.
_GRAINS = 64
# What is shown and not bought needs fewer requests.
_SHOWN_REQUESTS = 1e6
# The next number to try is at most so far from the last, and so many end the search of a pool of many.
_MOST_MOVE_FRACTION, _MOST_TRIED = 0.05, 12
# Further below the answer than this, undecided numbers are not searched.
_MOST_UNDECIDED = 2
# Between two numbers so near, in parts of them, a straight line tells one that is shown.
_LINE_FRACTION = 0.05
# A window needs so many requests to be judged by; rarer traffic is tried at the rate that has them.
RARE_REQUESTS = 200.0
MOST_SPAN_S = 86_400.0


@dataclass(frozen=True, kw_only=True)
class HighestLoad:
    """The highest load of the grid that meets every SLO, per replica.

    `interval` covers what another seed would find. `binding` is what the next load violates. A value of 0 says that no
    load meets the SLOs; `binding` is then why. `windows` is how many were simulated at the answer, and `tried_rps` the
    load that they were of.
    """

    interval: Interval
    binding: str
    windows: int
    step_rps: float
    tried_rps: float = field(default=0.0, compare=False)

    @property
    def rps(self) -> float:
        return self.interval.value


def highest_load(
    trial: Trial,
    probe: Probe,
    *,
    seed: int,
    effort: Effort = FULL,
    with_interval: bool = True,
    near_rps: float | None = None,
    beside: Beside | None = None,
    map: Any = map,  # noqa: A002
) -> HighestLoad:
    """Bisect to the highest load at which every SLO is met; the interval ends where both neighbours are decided.

    `near_rps`, per replica, is where the search starts; it saves time and changes nothing else. `beside` is what was
    decided of a pool of the same classes: few windows tell this one from it. What was found of a pool that differs in
    what its classes are called alone is known.
    """
    by = None if beside is None else (beside.trial.key, beside.found.rate_rps, beside.found.windows)
    terms = (probe.saturation_rps, tuple(probe.work_s.values()), seed, effort, with_interval, near_rps, by)
    allowed = tuple(trial.allowed_error_fraction(each.name) for each in trial.classes)
    key, names = (trial.key, terms, allowed), criteria_names(trial)
    known = _HIGHEST.get(key)
    if known is None:
        known = names, _highest_load(trial, probe, seed, effort, with_interval, near_rps, beside, map)
        while len(_HIGHEST) >= _MOST_HIGHEST:
            _HIGHEST.pop(next(iter(_HIGHEST)), None)
        _HIGHEST[key] = known
    renamed = dict(zip(known[0], names, strict=True)).get(known[1].binding, known[1].binding)
    return replace(known[1], binding=renamed)


_HIGHEST: dict[tuple[object, ...], tuple[tuple[str, ...], HighestLoad]] = {}
_MOST_HIGHEST = 256


def _highest_load(
    trial: Trial,
    probe: Probe,
    seed: int,
    effort: Effort,
    with_interval: bool,
    near_rps: float | None,
    beside: Beside | None,
    map: Any,  # noqa: A002
) -> HighestLoad:
    step_rps = probe.saturation_rps * trial.replicas / STEPS
    known: dict[int, Decision] = {}

    def at(place: int) -> Decision:
        if place not in known:
            load_rps = place * step_rps
            known[place] = (
                decide(trial, load_rps, probe, seed=seed, effort=effort, map=map)
                if beside is None
                else decide_beside(trial, load_rps, probe, beside, seed=seed, effort=effort, map=map)
            )
        return known[place]

    likely = round((near_rps or _LIKELY_FRACTION * probe.saturation_rps) * trial.replicas / step_rps)
    found = last_passing(lambda place: at(place).excess, likely, least=0, most=STEPS * 2**MOST_DOUBLINGS)
    low = high = found
    if with_interval and found > 0:
        low, high = _decided_below(at, found), _decided_above(at, found + 1)
    each_rps = step_rps / trial.replicas
    after = at(found + 1)
    return HighestLoad(
        interval=Interval(
            value=found * each_rps,
            # The grid itself hides up to a step on either side.
            low=max(0, low - 1) * each_rps,
            high=max(high, found + 1) * each_rps,
            confidence_fraction=0.95,
        ),
        binding=after.violated[0] if after.violated else "none",
        windows=at(found).windows if found else after.windows,
        step_rps=each_rps,
        tried_rps=found * step_rps,
    )


def last_passing(
    excess: Callable[[int], float],
    start: int,
    *,
    least: int,
    most: int,
    close_excess: float = 0.0,
    line_fraction: float = 0.0,
    enough_excess: float = 0.0,
) -> int:
    """The last place from `least` to `most` whose excess is not positive, where excess grows with the place.

    Outwards from `start` until both sides are known, then between them where a straight line through the two meets
    zero, or halfway where that was slow. `least` itself is not tried: it is the answer where nothing above it passes.
    A place whose excess is closer to zero than `close_excess` ends the search, and is the answer on either side of it.
    So does one that passes by less than `enough_excess`: the next would not.
    Two places that are nearer than `line_fraction` of where they are end it too: the straight line tells the answer.

    >>> last_passing(lambda place: (place - 70) / 10, 60, least=0, most=2048)
    70
    >>> last_passing(lambda place: 1.0, 60, least=0, most=2048), last_passing(lambda place: -1.0, 60, least=0, most=99)
    (0, 99)
    """
    low, high = (least, -MOST_EXCESS), (most + 1, MOST_EXCESS)
    stride, look, width = 1.0, min(max(start, least + 1), most), 2 * (most - least) + 2
    while high[0] - low[0] > 1:
        found = excess(look)
        if abs(found) < close_excess or -enough_excess < found <= 0.0:
            return look
        low, high = (low, (look, found)) if found > 0.0 else ((look, found), high)
        if high[0] > most or low[0] == least:
            # One side only: as far as the excess says, farther every time.
            move = math.ceil(stride * abs(look) * max(abs(found), _LEAST_EXCESS) / STEEPNESS)
            look, stride = (look - move if found > 0.0 else look + move), 2.0 * stride
        else:
            slow, width = high[0] - low[0] > width / 2, high[0] - low[0]
            part = -low[1] / (high[1] - low[1])
            if width <= line_fraction * abs(low[0]):
                return min(low[0] + int(part * width), high[0] - 1)
            look = low[0] + round((0.5 if slow else part) * width)
        look = min(max(look, low[0] + 1), high[0] - 1)
    return low[0]


def _decided_below(at: Callable[[int], Decision], place: int) -> int:
    step = 1
    while place > 0 and not at(place).holds:
        place, step = max(0, place - step), 2 * step
    return place


def _decided_above(at: Callable[[int], Decision], place: int) -> int:
    step, most = 1, 2 ** (MOST_DOUBLINGS + 8)
    while place < most and not (at(place).violated and at(place).is_decided):
        place, step = place + step, 2 * step
    return place


@dataclass(frozen=True, kw_only=True)
class LeastReplicas:
    """The least replicas that meet every SLO at a rate, and what one fewer does.

    Of very many replicas the least is known to a hundredth part. `low_replicas` is below `replicas` where the numbers
    between them are undecided: the windows cannot tell whether they are enough, so the larger is taken.
    `tested_replicas` are those of the sub-pool that stood for the pool, `tested_rps` the rate it was given, and `below`
    has `step_replicas` fewer.
    """

    replicas: int
    low_replicas: int
    at: Decision = field(compare=False)
    below: Decision | None = field(compare=False)
    tested_replicas: int
    tested_rps: float
    step_replicas: int = 1

    @property
    def is_decided(self) -> bool:
        return self.low_replicas == self.replicas

    @property
    def binding(self) -> str:
        """What one replica fewer violates, or leaves undecided."""
        if self.below is None:
            return "one replica is enough"
        named = self.below.violated or tuple(each.name for each in self.below.judged if not each.is_met)
        first = self.below.first
        return named[0] if named else ("none" if first is None else first.name)

    @property
    def windows(self) -> int:
        return self.at.windows


def tested_pool(trial: Trial, rate_rps: float, replicas: int) -> tuple[Trial, float]:
    """The pool that is simulated for so many replicas: itself, or a sub-pool with its share of the load."""
    tested = replicas if replicas <= MOST_WHOLE else SUB_POOL
    return replace(trial, replicas=tested), rate_rps * tested / replicas


def rare_traffic(trial: Trial, rate_rps: float) -> tuple[Trial, float]:
    """A trickle is tried at a rate at which a window has requests to judge by, which no fewer replicas serve."""
    if rate_rps * trial.span_s >= RARE_REQUESTS:
        return trial, rate_rps
    span_s = min(MOST_SPAN_S, RARE_REQUESTS / rate_rps)
    return replace(trial, span_s=max(span_s, trial.span_s)), max(rate_rps, RARE_REQUESTS / max(span_s, trial.span_s))


def least_replicas(
    trial: Trial,
    rate_rps: float,
    probe: Probe,
    *,
    seed: int,
    effort: Effort = FULL,
    start: int | None = None,
    is_bought: bool = True,
    beside: Beside | None = None,
    map: Any = map,  # noqa: A002
) -> LeastReplicas:
    """The smallest pool that meets every SLO at this rate with confidence; a few windows guide, many decide.

    A number that is shown and not bought is the least that passes, decided or not. `beside` is a pool of the same
    classes that many windows decided, so that few decide this one (decide.py).
    """
    _require_positive(rate_rps)
    if rate_rps * trial.span_s < RARE_REQUESTS:
        alone = _enough_alone(trial, probe, seed=seed, map=map)
        if alone is not None:
            return alone
        trial, rate_rps = rare_traffic(trial, rate_rps)
    likely = likely_replicas(rate_rps, probe.saturation_rps)
    grain = grain_replicas(likely)
    effort = effort if grain == 1 else _coarse(effort, is_bought=is_bought)
    known: dict[int, Decision] = {}

    def scouted(replicas: int) -> Decision:
        # One window of every stratum guides the search; what is bought is decided by many.
        pool, load_rps = tested_pool(trial, rate_rps, replicas)
        strata = trial_strata(pool, probe, seed)
        return judge(pool, load_rps, sampled(pool, load_rps, strata, scout_windows(strata), map=map))

    def decided(replicas: int, *, in_passing: bool) -> Decision:
        pool, load_rps = tested_pool(trial, rate_rps, replicas)
        if beside is not None:
            return decide_beside(pool, load_rps, probe, beside, seed=seed, effort=effort, map=map)
        return decide(pool, load_rps, probe, seed=seed, effort=effort, in_passing=in_passing, map=map)

    def at(replicas: int) -> Decision:
        if replicas not in known:
            known[replicas] = decided(replicas, in_passing=True)
        return known[replicas]

    # What is bought has to suffice with confidence.
    excess = operator.attrgetter("sure_excess" if is_bought else "excess")
    # Fewer replicas mean more excess, so numbers are tried from the far end.
    most = -(-MOST_REPLICAS // grain)
    near = -math.ceil((start or likely) / grain)
    if beside is None:
        near = last_passing(
            lambda at: scouted(-at * grain).excess, near, least=-most - 1, most=-1, close_excess=_SCOUTED_EXCESS
        )

    if is_bought and grain > 1 and beside is None:
        return _least_of_many(
            trial, rate_rps, probe, near=-near * grain, grain=grain, seed=seed, effort=effort, map=map
        )
    ends = {"line_fraction": _LINE_FRACTION} if beside is not None else {}

    def least(look: int) -> int:
        return -grain * last_passing(lambda at_: excess(at(-at_ * grain)), look, least=-most - 1, most=-1, **ends)

    found = least(near)
    while is_bought and found <= MOST_REPLICAS:
        # What is bought is judged by all first windows; where those say otherwise the search goes on.
        known[found] = decided(found, in_passing=False)
        if known[found].holds:
            break
        found = least(-found // grain)
    if found > MOST_REPLICAS:
        raise _too_many(rate_rps)
    low = _least_undecided(at, known, found, grain) if is_bought else found
    enough, fewer = _around(known, found, grain, excess) if ends else (found, found - grain)
    pool, load_rps = tested_pool(trial, rate_rps, found)
    return LeastReplicas(
        replicas=found, low_replicas=low, at=at(enough), below=at(fewer) if fewer > 0 else None,
        tested_replicas=pool.replicas, tested_rps=load_rps, step_replicas=found - fewer if fewer > 0 else grain,
    )  # fmt: skip


def _least_of_many(
    trial: Trial,
    rate_rps: float,
    probe: Probe,
    *,
    near: int,
    grain: int,
    seed: int,
    effort: Effort,
    map: Any,  # noqa: A002
) -> LeastReplicas:
    """The smallest of very many replicas, in steps of `grain`, that meets every SLO with confidence.

    Every number is judged by the line through all that were tried near it (line.py), each on as many windows of its
    own and none ended early: the number is enough, the next lower is not, and both and their neighbours were tried.
    """
    tried: dict[int, Decision] = {}
    found = min(near, MOST_REPLICAS // grain * grain)
    missing = [found]
    while missing:
        pool, load_rps = tested_pool(trial, rate_rps, missing[0])
        turn = missing[0] // grain
        tried[missing[0]] = decide(pool, load_rps, probe, seed=seed, effort=effort, turn=turn, map=map)
        found = _told(tried, found, grain)
        if found > MOST_REPLICAS:
            raise _too_many(rate_rps)
        # Two numbers on either side of where the answer turns.
        around = (found, found - grain, found + grain, found - 2 * grain)
        missing = [each for each in around if each > 0 and each not in tried]
        if len(tried) >= _MOST_TRIED and found in tried and on_line(tried, found).holds:
            break
    known = {each: on_line(tried, each) for each in tried}
    low = _least_undecided(known.__getitem__, known, found, grain)
    pool, load_rps = tested_pool(trial, rate_rps, found)
    return LeastReplicas(
        replicas=found, low_replicas=low, at=known[found],
        below=on_line(tried, found - grain) if found > grain else None,
        tested_replicas=pool.replicas, tested_rps=load_rps, step_replicas=grain,
    )  # fmt: skip


def _told(tried: Mapping[int, Decision], near: int, grain: int) -> int:
    """The least number that holds as far as those that were tried tell, and a line reaches."""
    found, reach = near, max(1, round(_MOST_MOVE_FRACTION * near / grain))
    for _ in range(reach):
        if on_line(tried, found).holds:
            break
        found += grain
    else:
        return found
    for _ in range(reach if found == near else 0):
        if found <= grain or not on_line(tried, found - grain).holds:
            break
        found -= grain
    return found


def _around(known: dict[int, Decision], found: int, grain: int, excess: Callable[[Decision], float]) -> tuple[int, int]:
    """Of a number that was told, not tried, the nearest that were: enough, and too few."""
    fails = [each for each in known if each < found and excess(known[each]) > 0.0]
    return min((each for each in known if each >= found), default=found), max(fails, default=found - grain)


def _require_positive(rate_rps: float) -> None:
    if not (math.isfinite(rate_rps) and rate_rps > 0.0):
        raise InputError(
            field="rate", value=rate_rps, problem="must be greater than 0", fix="Give a rate, for example 50 req/s."
        )


def _too_many(rate_rps: float) -> InputError:
    return InputError(
        field="rate",
        value=rate_rps,
        problem=f"needs more than {MOST_REPLICAS} replicas, or no number of them meets the SLOs",
        fix="Loosen an SLO, or split the service into several pools.",
    )


def _enough_alone(trial: Trial, probe: Probe, *, seed: int, map: Any) -> LeastReplicas | None:  # noqa: A002
    """For a trickle: one replica that carries a brisker rate carries it too; None where it does not."""
    brisk_rps = RARE_REQUESTS / trial.span_s
    one = decide(replace(trial, replicas=1), brisk_rps, probe, seed=seed, effort=BRIEF, map=map)
    if not one.holds:
        return None
    return LeastReplicas(replicas=1, low_replicas=1, at=one, below=None, tested_replicas=1, tested_rps=brisk_rps)


def _coarse(effort: Effort, *, is_bought: bool) -> Effort:
    """The effort that tells steps of very many replicas apart."""
    if is_bought:
        return replace(effort, most_windows=1)
    fewer = min(effort.most_requests, _SHOWN_REQUESTS)
    return replace(effort, most_requests=fewer, first_fraction=SCOUT.first_fraction)


def _least_undecided(at: Callable[[int], Decision], known: dict[int, Decision], found: int, grain: int) -> int:
    """The smallest number that may be enough: down to one that fails with confidence, known already or searched for.

    Of very many replicas none is searched: what was not tried just below the answer may be enough.
    """
    violated = [number for number, each in known.items() if number < found and _surely_violated(each)]
    nearest = max(violated, default=0)
    if found - nearest <= (1 + _MOST_UNDECIDED) * grain:
        return nearest + grain
    low, lowest = found, max(grain, found - _MOST_UNDECIDED * grain)
    if grain > 1:
        return lowest
    while low > lowest and not _surely_violated(at(low - grain)):
        low -= grain
    return low


def _surely_violated(found: Decision) -> bool:
    return bool(found.violated) and found.is_decided


def grain_replicas(likely: int) -> int:
    """The step of the search in replicas: one, and for very many a power of two.

    A power, so that the numbers tried for a larger pool are among those for a smaller one, and more traffic never ends
    with fewer.

    >>> [grain_replicas(each) for each in (1, 96, 500, 1024, 60_000)]
    [1, 1, 4, 16, 512]
    """
    return 2 ** max(0, int(math.log2(max(likely, 1) / _GRAINS))) if likely >= _GRAINS else 1


def likely_replicas(rate_rps: float, saturation_rps: float) -> int:
    """Where the search begins: what saturated replicas would need, and a share beyond that falls with their number.

    >>> likely_replicas(50.0, 2.4), likely_replicas(1.0, 2.4)
    (25, 1)
    """
    fewest = rate_rps / saturation_rps
    return max(1, math.floor(fewest + math.sqrt(fewest)))
