"""The profile-grid step model: steps that were measured, as ratios to the estimate of the same replica.

A profile is two lists of points, as profilers print them:

    decode    sequences, kv_tokens, seconds       a step of that many sequences holding so many tokens together
    prefill   tokens, prefix_tokens, seconds      a step with that many new prompt tokens behind so many, and no other

Between points durations lie on straight lines, by sequences and by tokens a sequence. Beyond the last point a step is
as many times the estimated one as it is there: outside of what was measured steps keep the shape of the estimate and
the level of the measurement. What has no points at all stays as estimated.

Kernels that were timed one by one and added up are not steps. Engines choose the fastest kernel that they have, so a
table that lacks it errs by being too slow, and several times too slow at that. Of a table of kernels half of what it
says is taken, as a ratio, and nothing where it says more than 1.35 times the estimate (`of_kernels`).

Prefill points have the pairs of new tokens with older ones inside them. How dear a pair is shows in what a prefix adds
to a prompt or, where no point has one, in the longest prompt; the rest is of the tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ullage.errors import InputError
from ullage.service.steps.tables import StepTimes
from ullage.service.steps.work import Floats

# With these, published configurations came nearest to what was measured (bench/profiles.py).
KERNEL_FRACTION = 0.5
MOST_KERNEL_RATIO = 1.35


@dataclass(frozen=True, kw_only=True)
class DecodeSample:
    sequences: int
    kv_tokens: int
    duration_s: float


@dataclass(frozen=True, kw_only=True)
class PrefillSample:
    tokens: int
    duration_s: float
    prefix_tokens: int = 0

    @property
    def pairs(self) -> float:
        return self.tokens * (self.prefix_tokens + (self.tokens + 1) / 2)


@dataclass(frozen=True, kw_only=True)
class ProfileGrid:
    """Measured steps, each point once, in order."""

    decode: tuple[DecodeSample, ...]
    prefill: tuple[PrefillSample, ...]


def profile_grid(decode: Iterable[DecodeSample], prefill: Iterable[PrefillSample]) -> ProfileGrid:
    """Sort and check the samples; repeated points are averaged."""
    decodes: dict[tuple[int, int], list[float]] = defaultdict(list)
    for sample in decode:
        _check("decode", sample.sequences, sample.duration_s)
        decodes[sample.sequences, max(sample.kv_tokens, sample.sequences)].append(sample.duration_s)
    prompts: dict[tuple[int, int], list[float]] = defaultdict(list)
    for each in prefill:
        _check("prefill", each.tokens, each.duration_s)
        prompts[each.tokens, each.prefix_tokens].append(each.duration_s)
    if not decodes and not prompts:
        raise InputError(
            field="profile", value="nothing", problem="has no points", fix="Give decode steps, prefill steps or both."
        )
    return ProfileGrid(
        decode=tuple(
            DecodeSample(sequences=count, kv_tokens=held, duration_s=float(np.mean(times)))
            for (count, held), times in sorted(decodes.items())
        ),
        prefill=tuple(
            PrefillSample(tokens=tokens, prefix_tokens=prefix, duration_s=float(np.mean(times)))
            for (tokens, prefix), times in sorted(prompts.items())
        ),
    )


def of_kernels(
    grid: ProfileGrid,
    estimate: StepTimes,
    *,
    fraction: float = KERNEL_FRACTION,
    most_ratio: float = MOST_KERNEL_RATIO,
) -> ProfileGrid:
    """The grid between the estimate and what kernels add up to, without the points at which they are too slow."""
    decode = [(each, each.duration_s / estimated_decode_s(estimate, each)) for each in grid.decode]
    prefill = [(each, each.duration_s / estimated_prefill_s(estimate, each)) for each in grid.prefill]
    return ProfileGrid(
        decode=tuple(
            replace(each, duration_s=_drawn(each.duration_s, ratio, fraction, most_ratio)) for each, ratio in decode
        ),
        prefill=tuple(
            replace(each, duration_s=_drawn(each.duration_s, ratio, fraction, most_ratio)) for each, ratio in prefill
        ),
    )


def _drawn(duration_s: float, ratio: float, fraction: float, most_ratio: float) -> float:
    return duration_s / ratio * (ratio**fraction if ratio <= most_ratio else 1.0)


def estimated_decode_s(estimate: StepTimes, sample: DecodeSample) -> float:
    return _first(estimate.decode_s, sample.sequences, sample.kv_tokens)


def estimated_prefill_s(estimate: StepTimes, sample: PrefillSample) -> float:
    """A step with these new tokens and no other."""
    empty_s = _first(estimate.decode_s, 0.0, 0.0)
    return empty_s + _first(estimate.prefill_s, sample.tokens) + estimate.pair_s * sample.pairs


@dataclass(frozen=True, kw_only=True)
class ProfiledStep:
    """The steps of the grid, and beyond it the estimate at the grid's level."""

    grid: ProfileGrid
    estimate: StepTimes

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        n, kv = np.broadcast_arrays(np.asarray(sequences, np.float64), np.asarray(kv_tokens, np.float64))
        estimated = self.estimate.decode_s(n, kv)
        if not self._decodes:
            return estimated
        # Profilers sweep contexts: the columns of different numbers of sequences line up by tokens a sequence.
        contexts = np.maximum(kv / np.maximum(n, 1.0), 1.0)
        columns = np.stack([self._column_s(count, contexts) for count in self._decodes])
        counts = np.array(list(self._decodes), np.float64)
        near = np.clip(n, counts[0], counts[-1])
        beyond = estimated / self.estimate.decode_s(near, near * contexts)
        found: Floats = _between(near, counts, columns) * np.where(near == n, 1.0, beyond)
        return found

    def _column_s(self, count: int, contexts: Floats) -> Floats:
        """Steps of so many sequences, by the tokens of each."""
        places, durations_s = self._decodes[count]
        near = np.clip(contexts, places[0], places[-1])
        times, alike = self.estimate.decode_s, np.full(contexts.shape, float(count))
        beyond = times(alike, count * contexts) / times(alike, count * near)
        found: Floats = np.interp(near, places, durations_s) * np.where(near == contexts, 1.0, beyond)
        return found

    def prefill_s(self, tokens: Floats) -> Floats:
        """What the tokens add to a step, beside their pairs."""
        estimated = self.estimate.prefill_s(np.asarray(tokens, np.float64))
        if not self._prompts:
            return estimated
        # Of whole steps, not of what the tokens add: a few tokens add next to nothing, and a ratio to that is noise.
        empty_s = _first(self.estimate.decode_s, 0.0, 0.0)
        places, steps_s = self._token_steps
        near = np.clip(tokens, places[0], places[-1])
        beyond = (empty_s + estimated) / (empty_s + self.estimate.prefill_s(near))
        steps = np.interp(near, places, steps_s) * np.where(near == tokens, 1.0, beyond)
        added: Floats = np.maximum(steps - _first(self.decode_s, 0.0, 0.0), 0.0)
        return added

    @cached_property
    def pair_s(self) -> float:
        own = self.estimate.pair_s
        if own <= 0.0 or not self.grid.prefill:
            return own
        alone = {each.tokens: each.duration_s for each in self._prompts}
        behind = [
            (each.duration_s - alone[each.tokens]) / (each.tokens * each.prefix_tokens)
            for each in self.grid.prefill
            if each.prefix_tokens and each.tokens in alone
        ]
        if behind:
            # The last is of the longest prompt, of which the pairs are the largest part.
            return max(behind[-1], 0.0)
        longest = self.grid.prefill[-1]
        return own * longest.duration_s / estimated_prefill_s(self.estimate, longest)

    @cached_property
    def _prompts(self) -> tuple[PrefillSample, ...]:
        """Prompts with nothing before them; of a profile that has none, those with the shortest prefix."""
        least: dict[int, PrefillSample] = {}
        for each in self.grid.prefill:
            least.setdefault(each.tokens, each)
        return tuple(least.values())

    @cached_property
    def _decodes(self) -> Mapping[int, tuple[Floats, Floats]]:
        """By sequences: the tokens of each, and how long a step takes."""
        found: dict[int, tuple[list[float], list[float]]] = {}
        for each in self.grid.decode:
            places, durations_s = found.setdefault(each.sequences, ([], []))
            places.append(each.kv_tokens / each.sequences)
            durations_s.append(each.duration_s)
        return {count: (np.array(places), np.array(durations_s)) for count, (places, durations_s) in found.items()}

    @cached_property
    def _token_steps(self) -> tuple[Floats, Floats]:
        """Prompt tokens, and how long their steps take without their pairs."""
        steps_s = [max(each.duration_s - each.pairs * self.pair_s, 0.0) for each in self._prompts]
        return np.array([float(each.tokens) for each in self._prompts]), np.array(steps_s)


def _between(at: Floats, places: Floats, columns: Floats) -> Floats:
    """Between the columns of the places around it; the nearest column outside of them."""
    if len(places) == 1:
        only: Floats = columns[0]
        return only
    upper = np.clip(np.searchsorted(places, at), 1, len(places) - 1)
    share = np.clip((at - places[upper - 1]) / (places[upper] - places[upper - 1]), 0.0, 1.0)
    low = np.take_along_axis(columns, (upper - 1)[None], 0)[0]
    high = np.take_along_axis(columns, upper[None], 0)[0]
    found: Floats = low + share * (high - low)
    return found


def _first(times: Callable[..., Floats], *at: float) -> float:
    return float(times(*(np.array([float(each)]) for each in at))[0])


def _check(what: str, count: int, duration_s: float) -> None:
    if count < 1 or not 0 < duration_s < float("inf"):
        raise InputError(
            field=f"profile.{what}",
            value=(count, duration_s),
            problem="is not a measured step",
            fix="Give a count of at least 1 and a time above 0.",
        )
