"""What each party makes necessary of a fleet, by Shapley over the replicas that some of them would need together.

A class that is small and strict may make most of a fleet necessary: others would fit into half of it. What devices
were busy with does not show that; how many there would be without the class does. A party's part is what it adds,
averaged over all orders in which the parties could have come, so that the parts sum to the whole fleet. A fleet is
counted in parts of replicas (how far it could be smaller before a limit is violated), so that two parties which one
replica serves with ease are not charged alike for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

# Each set of parties is a fleet to be sized. Beyond four, the smallest ones stand together.
MOST_PARTIES = 4
# In brackets, as no party of a log is likely to be called.
OTHERS = "(others)"
# Parties of at most such a share of all do not stand in each other's way beside all the others: what two of them add is
# what each adds.
LIGHT_FRACTION = 1 / 8
# Two fleets a party are sized for so many of those who stand together, or one that is larger shares by weight.
MOST_TOGETHER = 12

Needed = Callable[[frozenset[str]], float]
"""How many replicas these parties would need together, in parts of one; nobody needs none."""


@dataclass(frozen=True, kw_only=True)
class Causation:
    """The fleet by who makes it necessary: `caused` sums to `replicas`; `alone` is what each would need by itself."""

    replicas: float
    caused: Mapping[str, float]
    alone: Mapping[str, float]
    without: Mapping[str, float]

    @property
    def joint_replicas(self) -> float:
        """What is there for nobody alone: it would remain whoever left, or falls away only as several leave."""
        return self.replicas - sum(self.replicas - each for each in self.without.values())


def causation(weights: Mapping[str, float], needed: Needed, *, are_told_apart: bool = False) -> Causation:
    """The parts of the parties that `weights` names, its values only ordering them and dividing those beyond four.

    What light parties take with them when several leave the others is the sum of what each takes: of very many parties
    half of the large fleets need not be sized. Where those beyond four `are_told_apart`, up to a dozen of them share by
    the mean of what each needs alone and what falls away without it, its first and its last place in an order; more
    share by their weights.

    >>> needs = {"": 0, "a": 3, "b": 4, "ab": 5}
    >>> found = causation({"a": 1.0, "b": 1.0}, lambda some: needs["".join(sorted(some))])
    >>> found.caused, found.without, found.joint_replicas
    ({'a': 2.0, 'b': 3.0}, {'a': 4, 'b': 3}, 2)
    """
    parties = _parties(weights)
    names = list(parties)
    known: dict[frozenset[str], float] = {frozenset(): 0.0}
    are_light = _are_light(weights, parties)

    def replicas(some: Sequence[str]) -> float:
        chosen = frozenset(some)
        gone = [each for each in names if each not in chosen]
        if chosen not in known and are_light and len(gone) > 1 and OTHERS in chosen:
            without = (replicas([other for other in names if other != each]) for each in gone)
            known[chosen] = max(0.0, replicas(names) - sum(replicas(names) - each for each in without))
        elif chosen not in known:
            known[chosen] = needed(frozenset(name for each in some for name in parties[each]))
        return known[chosen]

    orders = list(permutations(names))
    added = dict.fromkeys(names, 0.0)
    for order in orders:
        for place, name in enumerate(order):
            added[name] += (replicas(order[: place + 1]) - replicas(order[:place])) / len(orders)
    caused = dict(added)
    if (together := parties.get(OTHERS)) is not None:
        part = weights
        if are_told_apart and len(together) <= MOST_TOGETHER:
            everybody = frozenset(weights)
            part = {
                each: needed(frozenset([each])) + max(0.0, replicas(names) - needed(everybody - {each}))
                for each in together
            }
        whole = max(sum(part[each] for each in together), 1e-300)
        caused.update({each: added[OTHERS] * part[each] / whole for each in together})
    # Traffic that makes the percentiles of others better takes nothing off the fleet, and any look is a little off.
    caused = {name: max(0.0, caused[name]) for name in weights}
    kept = replicas(names) / max(sum(caused.values()), 1e-300)
    return Causation(
        replicas=replicas(names),
        caused={name: each * kept for name, each in caused.items()},
        alone={name: replicas([name]) for name in names},
        without={name: replicas([each for each in names if each != name]) for name in names},
    )


def _are_light(weights: Mapping[str, float], parties: Mapping[str, Sequence[str]]) -> bool:
    """Whether all who stand by themselves weigh next to nothing beside those who stand together."""
    apart = [weights[each] for each in parties if each != OTHERS]
    return OTHERS in parties and max(apart) <= LIGHT_FRACTION * sum(weights.values())


def _parties(weights: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """Those who are asked for by themselves, and the rest as one."""
    ordered = sorted(weights, key=lambda each: (-weights[each], each))
    if len(ordered) <= MOST_PARTIES:
        return {each: (each,) for each in weights}
    apart = ordered[: MOST_PARTIES - 1]
    return {**{each: (each,) for each in apart}, OTHERS: tuple(each for each in ordered if each not in apart)}
