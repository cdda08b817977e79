"""One mix that hides two shapes: found by what best explains the lengths, and suggested as classes.

Two kinds of split are tried. By name: do the models or tenants differ so much that their names explain a good
part of the variance of the (logarithms of) lengths? By length: does the histogram of prompt lengths have two
humps with a valley between them (Otsu's threshold)?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.workload.classes import ClassRule
from ullage.workload.profile.series import ValueCounts
from ullage.workload.profile.summary import Part

# A name explains a shape from a quarter of the variance on, if the groups are also visibly apart.
NAME_EXPLAINS_FRACTION = 0.25
MEDIANS_APART_RATIO = 4.0
LEAST_SHARE_FRACTION = 0.05
# One normal hump gives Otsu's threshold 2/pi = 0.64, a flat one 0.75; two humps apart give more.
LENGTH_EXPLAINS_FRACTION = 0.8
VALLEY_RATIO = 0.5
_BINS_PER_OCTAVE = 4


@dataclass(frozen=True, kw_only=True)
class SuggestedClass:
    """A class that the trace suggests: a name and the rule that finds its requests."""

    name: str
    rule: ClassRule
    share_fraction: float
    median_prompt_tokens: float


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A split of the traffic into classes, with the share of the variance of lengths that it explains."""

    by: str
    column: str
    explained_fraction: float
    classes: tuple[SuggestedClass, ...]


def suggestion_of(whole: Part, groups: Mapping[str, Mapping[str, Part]]) -> Suggestion | None:
    """A split by name where names explain enough, else one by length; none where classes are named already.

    A name is preferred: it is known before the request is served, and says whose traffic it is.
    """
    if len(groups.get("class", {})) > 1 or "prompt_tokens" not in whole.lengths:
        return None
    named = [
        _by_name(dimension, groups[dimension]) for dimension in ("model", "product", "tenant") if dimension in groups
    ]
    enough = [suggestion for suggestion in named if suggestion is not None]
    if enough:
        return max(enough, key=lambda suggestion: suggestion.explained_fraction)
    return _by_length(whole.lengths["prompt_tokens"])


def _by_name(dimension: str, parts: Mapping[str, Part]) -> Suggestion | None:
    named = {name: part for name, part in parts.items() if not name.startswith("(")}
    total = sum(part.requests for part in parts.values())
    large = {name: part for name, part in named.items() if part.requests >= LEAST_SHARE_FRACTION * total}
    for column in ("prompt_tokens", "output_tokens"):
        counts = {name: part.lengths[column] for name, part in large.items() if column in part.lengths}
        counts = {name: each for name, each in counts.items() if each.total}
        if len(counts) < 2:
            continue
        explained = _explained(list(counts.values()))
        middles = [_median(each) for each in counts.values()]
        if explained < NAME_EXPLAINS_FRACTION or max(middles) < MEDIANS_APART_RATIO * max(min(middles), 1.0):
            continue
        classes = tuple(
            SuggestedClass(
                name=name,
                rule=_rule_by(dimension, name),
                share_fraction=part.requests / total,
                median_prompt_tokens=_median(part.lengths["prompt_tokens"]),
            )
            for name, part in large.items()
            # Failed calls often log no lengths: a tenant of none but those has no shape, which is not a shape of 0.
            if "prompt_tokens" in part.lengths and part.lengths["prompt_tokens"].total
        )
        return Suggestion(by=dimension, column=column, explained_fraction=explained, classes=classes)
    return None


def _rule_by(dimension: str, name: str) -> ClassRule:
    if dimension == "model":
        return ClassRule(model=name)
    return ClassRule(product=name) if dimension == "product" else ClassRule(tenant=name)


def _explained(groups: list[ValueCounts]) -> float:
    """The share of the variance of log lengths that lies between the groups."""
    weights = np.array([each.total for each in groups], dtype=np.float64)
    moments = [_log_moments(each) for each in groups]
    means = np.array([mean for mean, _ in moments])
    inside = float(np.average([variance for _, variance in moments], weights=weights))
    between = float(np.average((means - np.average(means, weights=weights)) ** 2, weights=weights))
    return between / (between + inside) if between + inside > 0 else 0.0


def _log_moments(counts: ValueCounts) -> tuple[float, float]:
    logs = np.log2(np.maximum(counts.values, 1))
    mean = float(np.average(logs, weights=counts.counts))
    return mean, float(np.average((logs - mean) ** 2, weights=counts.counts))


def _median(counts: ValueCounts) -> float:
    found = counts.distribution("tokens")
    return found.at(0.5) if found else 0.0


def _by_length(counts: ValueCounts) -> Suggestion | None:
    if counts.total < 100:
        return None
    bins = np.floor(np.log2(np.maximum(counts.values, 1)) * _BINS_PER_OCTAVE).astype(np.int64)
    histogram = np.bincount(bins, weights=counts.counts).astype(np.float64)
    threshold, explained = _otsu(histogram)
    low, high = histogram[:threshold], histogram[threshold:]
    shares = (low.sum() / histogram.sum(), high.sum() / histogram.sum())
    if explained < LENGTH_EXPLAINS_FRACTION or min(shares) < LEAST_SHARE_FRACTION:
        return None
    valley = histogram[int(low.argmax()) : threshold + int(high.argmax()) + 1].min()
    if valley > VALLEY_RATIO * min(low.max(), high.max()):
        return None
    border = round(2.0 ** (threshold / _BINS_PER_OCTAVE))
    below = counts.values < border
    sides = [
        ("short-prompt", ClassRule(below_prompt_tokens=border), below),
        ("long-prompt", ClassRule(from_prompt_tokens=border), ~below),
    ]
    classes = tuple(
        SuggestedClass(
            name=name,
            rule=rule,
            share_fraction=float(counts.counts[side].sum()) / counts.total,
            median_prompt_tokens=_median(ValueCounts(values=counts.values[side], counts=counts.counts[side])),
        )
        for name, rule, side in sides
    )
    return Suggestion(by="length", column="prompt_tokens", explained_fraction=explained, classes=classes)


def _otsu(histogram: NDArray[np.float64]) -> tuple[int, float]:
    """The bin from which on the upper part starts, such that the two parts explain most of the variance."""
    places = np.arange(len(histogram), dtype=np.float64)
    share = np.cumsum(histogram) / histogram.sum()
    moment = np.cumsum(histogram * places) / histogram.sum()
    variance = float((histogram * places**2).sum() / histogram.sum() - moment[-1] ** 2)
    if variance <= 0:
        return 1, 0.0
    inside = (share > 0) & (share < 1)
    between = np.zeros(len(histogram))
    between[inside] = (moment[-1] * share[inside] - moment[inside]) ** 2 / (share[inside] * (1 - share[inside]))
    best = int(between.argmax())
    return best + 1, float(between[best]) / variance
