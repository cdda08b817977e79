"""The profile-grid step model: step times measured on a grid, interpolated in between.

The table is two lists of points, as profilers print them:

    decode    sequences, kv_tokens, seconds       a step of that many sequences holding so many tokens together
    prefill   tokens, seconds                     a step with that many new prompt tokens and nothing else

Interpolation is linear, in KV tokens for a number of sequences and then between numbers of sequences. Outside the
measured range the nearest two points are extended in KV tokens and prompt tokens, and the step model says that it
left the range.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ullage.errors import InputError
from ullage.service.steps.work import Floats


@dataclass(frozen=True, kw_only=True)
class DecodeSample:
    sequences: int
    kv_tokens: int
    duration_s: float


@dataclass(frozen=True, kw_only=True)
class PrefillSample:
    tokens: int
    duration_s: float


@dataclass(frozen=True, kw_only=True)
class GridStep:
    """Measured decode steps by sequences, each a rising list over KV tokens, and measured prefill steps."""

    decode: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]
    prefill: tuple[tuple[int, float], ...]

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        n, kv = np.broadcast_arrays(np.asarray(sequences, np.float64), np.asarray(kv_tokens, np.float64))
        counts = np.array([each for each, _ in self.decode], dtype=np.float64)
        columns = np.stack([_along(points, kv) for _, points in self.decode])
        if len(counts) == 1:
            only: Floats = columns[0]
            return only
        upper = np.clip(np.searchsorted(counts, n), 1, len(counts) - 1)
        share = np.clip((n - counts[upper - 1]) / (counts[upper] - counts[upper - 1]), 0.0, None)
        low = np.take_along_axis(columns, (upper - 1)[None], 0)[0]
        high = np.take_along_axis(columns, upper[None], 0)[0]
        between: Floats = np.maximum(low + share * (high - low), np.minimum(low, high))
        return between

    def prefill_s(self, tokens: Floats) -> Floats:
        """What the tokens add to the step that one sequence would take alone."""
        alone = self.decode_s(np.ones(1), np.ones(1))[0]
        whole = _along(self.prefill, np.asarray(tokens, np.float64))
        added: Floats = np.maximum(whole - alone, 0.0)
        return added

    @property
    def pair_s(self) -> float:
        """Pairs are inside the measured prefill times, which grow with the square of the tokens."""
        return 0.0


def grid_step(decode: Iterable[DecodeSample], prefill: Iterable[PrefillSample]) -> GridStep:
    """Sort and check the samples; repeated points are averaged, times that fall with KV are raised."""
    by_count: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in decode:
        _check("decode", sample.sequences, sample.duration_s)
        by_count[sample.sequences][sample.kv_tokens].append(sample.duration_s)
    by_tokens: dict[int, list[float]] = defaultdict(list)
    for each in prefill:
        _check("prefill", each.tokens, each.duration_s)
        by_tokens[each.tokens].append(each.duration_s)
    if not by_count or not by_tokens:
        missing = "decode" if not by_count else "prefill"
        raise InputError(
            field="profile", value=missing, problem="has no points", fix=f"Give at least one {missing} point."
        )
    return GridStep(
        decode=tuple((count, _rising(points)) for count, points in sorted(by_count.items())),
        prefill=_rising(by_tokens),
    )


def _rising(points: dict[int, list[float]]) -> tuple[tuple[int, float], ...]:
    places = sorted(points)
    times = np.maximum.accumulate([float(np.mean(points[place])) for place in places])
    return tuple(zip(places, (float(time) for time in times), strict=True))


def _along(points: tuple[tuple[int, float], ...], at: Floats) -> Floats:
    """Linear between points; beyond the last, on along the last slope; before the first, its value."""
    places = np.array([place for place, _ in points], dtype=np.float64)
    times = np.array([time for _, time in points])
    inside: Floats = np.asarray(np.interp(at, places, times), np.float64)
    if len(places) < 2:
        return inside
    slope = (times[-1] - times[-2]) / (places[-1] - places[-2])
    beyond: Floats = np.where(at > places[-1], times[-1] + (at - places[-1]) * slope, inside)
    return beyond


def _check(what: str, count: int, duration_s: float) -> None:
    if count < 1 or not duration_s > 0:
        raise InputError(
            field=f"profile.{what}",
            value=(count, duration_s),
            problem="is not a measured step",
            fix="Give a count of at least 1 and a time above 0.",
        )
