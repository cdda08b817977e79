"""How many replicas are up: the steady state of devices, nodes and zones that fail and are repaired.

A replica is up where none of its own devices, its node and its zone is down. A component that fails `failures` times in
a second of being up and takes `repair` seconds on average is down for

    failures x repair / (1 + failures x repair)

of the time, whatever the law of the repair times. Where everything that fails is repaired at once, components are
independent and the number of replicas that are up is a sum of independent nodes inside independent zones: a
convolution, exact at any size. Where only so many repairs run at a time, failed devices and nodes queue for a crew:
their numbers are birth-death chains, every set of the same number is equally likely, and sets are counted where they
are few and drawn where they are many.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.errors import InputError
from ullage.simulate.statistics import t_quantile

Chances = NDArray[np.float64]

# Ways of choosing failed nodes are counted by a table of nodes x nodes x replicas for every set of zones.
MOST_EXACT_STATES = 20_000_000
DRAWS = 4096
CONFIDENCE_FRACTION = 0.95


@dataclass(frozen=True, kw_only=True)
class Breakage:
    """How often one thing fails while it is up, and how long it is down on average."""

    failures_per_s: float
    repair_s: float

    def __post_init__(self) -> None:
        if not (self.failures_per_s >= 0.0 and self.repair_s > 0.0 and math.isfinite(self.failures_per_s)):
            raise InputError(
                field="reliability",
                value=(self.failures_per_s, self.repair_s),
                problem="failures must not be negative, and a repair must take time",
                fix="Give failures a year and a mean time to repair.",
            )

    @property
    def down_fraction(self) -> float:
        """
        >>> round(Breakage(failures_per_s=1 / 9.0, repair_s=1.0).down_fraction, 9)
        0.1
        """
        load = self.failures_per_s * self.repair_s
        return load / (1.0 + load)


@dataclass(frozen=True, kw_only=True)
class Domains:
    """What fails together: `zones` holds, zone by zone, the number of replicas on each of its nodes."""

    zones: tuple[tuple[int, ...], ...]
    replica: Breakage
    node: Breakage
    zone: Breakage

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(each for zone in self.zones for each in zone)

    @property
    def replicas(self) -> int:
        return sum(self.nodes)


@dataclass(frozen=True, kw_only=True)
class Availability:
    """The share of time in which enough replicas are up; exact where `low_fraction` and `high_fraction` are its own."""

    fraction: float
    low_fraction: float
    high_fraction: float

    @property
    def is_exact(self) -> bool:
        return self.low_fraction == self.high_fraction


def availability(
    needed: int, domains: Domains, *, crews: int | None = None, rng: Generator | None = None
) -> Availability:
    """The share of time in which at least `needed` replicas are up.

    `crews` is how many devices, and how many nodes, are repaired at a time; None repairs all at once. Where sets of
    failed nodes are too many to count, `rng` draws them and the answer has an interval.
    """
    if crews is None:
        return _exactly(float(up_chances(domains)[needed:].sum()))
    replica_failures = failed_chances(domains.replicas, domains.replica, crews)
    enough = _enough(needed, domains.replicas, replica_failures)
    node_failures = failed_chances(len(domains.nodes), domains.node, crews)
    sets = 2 ** len(domains.zones)
    if sets * len(domains.nodes) ** 2 * domains.replicas <= MOST_EXACT_STATES:
        return _exactly(
            sum(
                chance * float(_left_chances(domains, up, node_failures) @ enough)
                for up, chance in _zone_states(domains)
            )
        )
    if rng is None:
        raise InputError(
            field="rng", value=None, problem="is missing for a fleet this large", fix="Pass a seeded generator."
        )
    return _sampled(domains, node_failures, enough, rng)


def up_chances(domains: Domains) -> Chances:
    """The chance of every number of replicas being up, from none to all, where nothing waits for a crew.

    >>> one = Breakage(failures_per_s=1.0, repair_s=1.0)
    >>> never = Breakage(failures_per_s=0.0, repair_s=1.0)
    >>> up_chances(Domains(zones=((1,), (1,)), replica=one, node=never, zone=never)).tolist()
    [0.25, 0.5, 0.25]
    """
    total = np.ones(1)
    of_node = {
        size: _with_outage(_binomial(size, 1.0 - domains.replica.down_fraction), domains.node.down_fraction)
        for size in set(domains.nodes)
    }
    for zone in domains.zones:
        inside = np.ones(1)
        for size, nodes in sorted(Counter(zone).items()):
            inside = np.convolve(inside, _power(of_node[size], nodes))
        total = np.convolve(total, _with_outage(inside, domains.zone.down_fraction))
    return total


# Beyond so many numbers a product of two takes longer than three transforms.
_MOST_SQUARED = 2048


def _power(chances: Chances, times: int) -> Chances:
    """The sum of so many alike: by squaring, and of very many by way of frequencies."""
    size = (chances.size - 1) * times + 1
    if size > _MOST_SQUARED:
        length = 1 << (size - 1).bit_length()
        summed = np.maximum(np.fft.irfft(np.fft.rfft(chances, length) ** times, length)[:size], 0.0)
        return np.asarray(summed / summed.sum())
    found, square = np.ones(1), chances
    while times:
        if times & 1:
            found = np.convolve(found, square)
        times >>= 1
        square = np.convolve(square, square) if times else square
    return found


def failed_chances(count: int, breakage: Breakage, crews: int) -> Chances:
    """The chance of every number of failed among `count`, from none to all: a birth-death chain with `crews` repairers.

    State j fails on at rate (count - j) x failures and is repaired at rate min(j, crews) / repair.
    """
    if crews < 1:
        raise InputError(field="reliability.repair_crews", value=crews, problem="must be at least 1", fix="Give 1.")
    weights = np.zeros(count + 1)
    load = breakage.failures_per_s * breakage.repair_s
    for failed in range(1, count + 1):
        step = (count - failed + 1) * load / min(failed, crews)
        weights[failed] = weights[failed - 1] + (math.log(step) if step > 0.0 else -math.inf)
    chances = np.exp(weights - weights.max())
    return np.asarray(chances / chances.sum())


def _binomial(count: int, chance: float) -> Chances:
    return np.array([math.comb(count, k) * chance**k * (1.0 - chance) ** (count - k) for k in range(count + 1)])


def _with_outage(chances: Chances, down_fraction: float) -> Chances:
    """The same number, or none of them while the whole is down."""
    found = chances * (1.0 - down_fraction)
    found[0] += down_fraction
    return found


def _enough(needed: int, replicas: int, failures: Chances) -> Chances:
    """For every number of replicas left standing, the chance that `needed` of them have no device down.

    Failed replicas lie anywhere, so their number among those left is hypergeometric.
    """
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, replicas + 1)))))
    left = np.arange(replicas + 1)
    found = np.zeros(replicas + 1)
    for failed in np.flatnonzero(failures > 1e-18):
        for hit in range(failed + 1):
            can = (left - hit >= needed) & (failed - hit <= replicas - left)
            here, away = left[can], replicas - left[can]
            ways = _log_choose(logs, here, hit) + _log_choose(logs, away, int(failed) - hit)
            found[can] += failures[failed] * np.exp(ways - _log_choose(logs, np.array([replicas]), int(failed)))
    return np.minimum(found, 1.0)


def _log_choose(logs: Chances, of: NDArray[np.int64], chosen: int) -> Chances:
    return np.asarray(logs[of] - logs[chosen] - logs[of - chosen])


def _zone_states(domains: Domains) -> list[tuple[tuple[bool, ...], float]]:
    """Every set of zones that are up, with its chance."""
    down = domains.zone.down_fraction
    states = itertools.product((True, False), repeat=len(domains.zones))
    return [(up, math.prod(1.0 - down if each else down for each in up)) for up in states]


def _left_chances(domains: Domains, up: tuple[bool, ...], node_failures: Chances) -> Chances:
    """The chance of every number of replicas that stand on nodes that are up, in zones that are up."""
    nodes, replicas = len(domains.nodes), domains.replicas
    # ways[f, r]: in how many ways f of the nodes so far have failed and r replicas are left on the others.
    ways = np.zeros((nodes + 1, replicas + 1))
    ways[0, 0] = 1.0
    for zone, is_up in zip(domains.zones, up, strict=True):
        for size in zone:
            failed = np.zeros_like(ways)
            failed[1:] = ways[:-1]
            counted = size if is_up else 0
            kept = np.zeros_like(ways)
            kept[:, counted:] = ways[:, : replicas + 1 - counted]
            ways = failed + kept
    each = np.array([chance / math.comb(nodes, failed) for failed, chance in enumerate(node_failures)])
    return np.asarray(each @ ways)


def _sampled(domains: Domains, node_failures: Chances, enough: Chances, rng: Generator) -> Availability:
    """Sets of failed nodes drawn at random, for every set of zones by itself, so that rare outages are not missed."""
    sizes = np.array(domains.nodes)
    zone_of = np.repeat(np.arange(len(domains.zones)), [len(zone) for zone in domains.zones])
    failed = rng.choice(node_failures.size, size=DRAWS, p=node_failures)
    order = rng.random((DRAWS, sizes.size)).argsort(axis=1).argsort(axis=1)
    standing = order >= failed[:, None]
    value, error = 0.0, 0.0
    for up, chance in _zone_states(domains):
        left = (standing & np.array(up)[zone_of]) @ sizes
        found = enough[left]
        value += chance * float(found.mean())
        # The same draws serve every set of zones, so their errors add up and not only their squares.
        error += chance * float(found.std(ddof=1))
    half = t_quantile(0.5 + CONFIDENCE_FRACTION / 2, DRAWS - 1) * error / math.sqrt(DRAWS)
    return Availability(fraction=value, low_fraction=max(0.0, value - half), high_fraction=min(1.0, value + half))


def _exactly(fraction: float) -> Availability:
    held = min(1.0, fraction)
    return Availability(fraction=held, low_fraction=held, high_fraction=held)
