"""Successive halving: every candidate gets a few windows, the better half of them more, until a few have many.

Candidates are compared on the same windows, so that traffic that was unlucky was unlucky for all. One is dropped only
where it is worse than the last one that is kept, with confidence: a close one goes on.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.errors import Rejection
from ullage.planning.options.screen import Fit, bound_refusal
from ullage.planning.options.trial import ROUNDS, CandidateResult, CandidateTrial, least_score
from ullage.service.trial.decide import Effort


class Lead(enum.StrEnum):
    """How far a candidate is ahead of the next."""

    CLEAR = "clear"
    TESTABLE = "a load test could reverse it"
    UNDECIDED = "undecided"
    LAST = ""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A candidate in its place, and how far it leads the next.

    `rounds` it was in: those that left early were simulated less, and were worse with confidence.
    """

    measured: CandidateResult
    trial: CandidateTrial
    rounds: int
    lead: Lead
    is_efficient: bool = False


Refused = tuple[Fit, Rejection]


def ranked(
    trials: Sequence[CandidateTrial], *, rounds: Sequence[Effort] = ROUNDS, jobs: Any = map
) -> tuple[list[Ranked], list[Refused]]:
    """All candidates, best first, and those that bounds or simulation refused.

    Candidates that are priced are compared by cost; the others, by devices, stand after them. In a round every
    candidate is a job.
    """
    places: list[Ranked] = []
    refused: list[Refused] = []
    for is_priced in (True, False):
        alike = [each for each in trials if (each.fit.usd_per_hour is not None) == is_priced]
        found, gone = _halved(alike, rounds, jobs)
        places += found
        refused += gone
    return _with_efficient(places), refused


def _halved(
    trials: Sequence[CandidateTrial], rounds: Sequence[Effort], jobs: Any
) -> tuple[list[Ranked], list[Refused]]:
    alive, refused = _bounded(trials, rounds[0], jobs)
    left: list[tuple[CandidateTrial, CandidateResult, int]] = []
    for number, effort in enumerate(rounds, start=1):
        # Whoever is left over is decided as a plan decides it.
        is_last = number == len(rounds) or len(alive) == 1
        latest, gone = _measured(alive, rounds[-1] if is_last else effort, jobs)
        refused += gone
        order = sorted((each for each in alive if each.fit.candidate.name in latest), key=lambda t: _key(t, latest))
        if is_last or not order:
            left = [(each, latest[each.fit.candidate.name], len(rounds)) for each in order] + left
            break
        kept = math.ceil(len(order) / 2)
        edge = latest[order[kept - 1].fit.candidate.name]
        close = [each for each in order[kept:] if not _surely(edge, latest[each.fit.candidate.name])]
        dropped = [each for each in order[kept:] if each not in close]
        left = [(each, latest[each.fit.candidate.name], number) for each in dropped] + left
        alive = [*order[:kept], *close]
    return [
        Ranked(
            measured=measured,
            trial=trial,
            rounds=number,
            lead=_lead(measured, left[place + 1][1]) if place + 1 < len(left) else Lead.LAST,
        )
        for place, (trial, measured, number) in enumerate(left)
    ], refused


def _bounded(trials: Sequence[CandidateTrial], effort: Effort, jobs: Any) -> tuple[list[CandidateTrial], list[Refused]]:
    """Those whose bound is below what the most promising one needs. It is simulated first, to have that number."""
    waiting = sorted(trials, key=lambda each: (least_score(each.fit), each.fit.candidate.name))
    refused: list[Refused] = []
    while waiting:
        first = waiting[0]
        found = first.idle_refusal() or first.measured(effort)
        if isinstance(found, CandidateResult):
            break
        refused.append((first.fit, found))
        waiting = waiting[1:]
    else:
        return [], refused
    above = [each for each in waiting[1:] if least_score(each.fit) > found.score.high]
    looked = [each for each in waiting[1:] if each not in above]
    idle = list(jobs(lambda at: looked[at].idle_refusal(), range(len(looked))))
    gone = {id(each): why for each, why in zip(looked, idle, strict=True) if why is not None}
    for each in above:
        why = bound_refusal(each.fit, least_score(each.fit), found.score.value, found.name, found.unit)
        gone[id(each)] = why
    refused += [(each.fit, gone[id(each)]) for each in waiting[1:] if id(each) in gone]
    return [first, *(each for each in looked if id(each) not in gone)], refused


def _measured(
    trials: Sequence[CandidateTrial], effort: Effort, jobs: Any
) -> tuple[dict[str, CandidateResult], list[Refused]]:
    found: dict[str, CandidateResult] = {}
    refused: list[Refused] = []
    # By index, so that workers elsewhere share what candidates have in common.
    looks = list(jobs(lambda at: trials[at].looked(effort), range(len(trials))))
    for each, (one, start) in zip(trials, looks, strict=True):
        each.goes_on_from(start)
        if isinstance(one, Rejection):
            refused.append((each.fit, one))
        else:
            found[one.name] = one
    return found, refused


def _key(trial: CandidateTrial, latest: dict[str, CandidateResult]) -> tuple[float, str]:
    name = trial.fit.candidate.name
    return latest[name].score.value, name


def _surely(one: CandidateResult, other: CandidateResult) -> bool:
    """Whether the first is better than the other whatever the undecided numbers of replicas turn out to be."""
    return one.score.high < other.score.low


def _lead(one: CandidateResult, other: CandidateResult) -> Lead:
    """Step times of one device err alike for all its candidates; those of another device err on their own."""
    if not _surely(one, other):
        return Lead.UNDECIDED
    is_same = one.fit.candidate.pool.device.name == other.fit.candidate.pool.device.name
    return Lead.CLEAR if is_same or one.score.high < other.tested_score else Lead.TESTABLE


def _with_efficient(places: Sequence[Ranked]) -> list[Ranked]:
    return [
        replace(each, is_efficient=not any(dominates(other.measured, each.measured) for other in places))
        for each in places
    ]


def dominates(one: CandidateResult, other: CandidateResult) -> bool:
    """Whether one is no worse in cost, devices, latency headroom and evidence, and better in one of them.

    A cost that is not known is neither better nor worse.
    """
    pairs = [
        (one.paid_devices, other.paid_devices),
        (-one.headroom_fraction, -other.headroom_fraction),
        (one.evidence.rank, other.evidence.rank),
    ]
    if one.is_priced and other.is_priced:
        pairs.append((one.score.value, other.score.value))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
