"""How requests end, and what their ends cost: refused before any work, failed after it, cancelled on the way.

    refused    never reach the engine: they take no capacity, and bring no success
    failed     are answered in full, to no use: all of their work is lost
    cancelled  are given up by their clients. An engine that aborts has written a part of the answer by then; one that
               does not, or a proxy that does not pass it on, writes the rest as well

The traffic that a trial draws is that of the requests which reach the engine, with the answers it writes for them; of
those, `success_fraction` can succeed at all. What the trial then finds late comes on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure
from ullage.workload.synthetic.model import FRACTIONS, ClassModel, LengthModel


@dataclass(frozen=True, kw_only=True)
class ClassOutcomes:
    """Shares of all requests of a class. `written_fraction` is the part of a cancelled answer that the engine writes;
    1 where lengths are those of a log, which holds what was written, and where nothing aborts it."""

    refused_fraction: float = 0.0
    failed_fraction: float = 0.0
    cancelled_fraction: float = 0.0
    written_fraction: float = 1.0
    inputs: tuple[Assumption, ...] = ()

    def __post_init__(self) -> None:
        lost = self.refused_fraction + self.failed_fraction + self.cancelled_fraction
        if not lost < 1.0:
            raise InputError(
                field=self.inputs[0].name if self.inputs else "outcomes",
                value=f"{lost:.0%}",
                problem="of the requests are refused, failed or cancelled, so that none can succeed",
                fix="Give shares that add up to less than 100%.",
            )

    @property
    def reached_fraction(self) -> float:
        """The share of requests that reaches an engine."""
        return 1.0 - self.refused_fraction

    @property
    def success_fraction(self) -> float:
        """Of those that reach an engine, the share that can succeed."""
        return 1.0 - (self.failed_fraction + self.cancelled_fraction) / self.reached_fraction

    def applied(self, model: ClassModel) -> ClassModel:
        """What reaches the engine, with the answers that it writes."""
        lengths = model.lengths
        if self.cancelled_fraction > 0.0 and self.written_fraction < 1.0:
            lengths = self._cut(lengths)
        return replace(model, mean_rate_rps=model.mean_rate_rps * self.reached_fraction, lengths=lengths)

    def _cut(self, lengths: LengthModel) -> LengthModel:
        """The mixture of whole answers and of those that were cut: its quantiles, from both weighted."""
        _, outputs = lengths.pairs()
        cut = np.maximum(1.0, np.round(outputs * self.written_fraction))
        share = self.cancelled_fraction / self.reached_fraction
        values = np.concatenate([outputs, cut])
        weights = np.concatenate([np.full(outputs.size, 1.0 - share), np.full(cut.size, share)])
        order = np.argsort(values, kind="stable")
        reached = np.cumsum(weights[order]) / weights.sum()
        quantiles = np.interp(FRACTIONS, reached, values[order])
        return replace(lengths, output_tokens=tuple(float(math.floor(each)) for each in np.maximum(1.0, quantiles)))


def lengths_evidence(lengths: Figure) -> Evidence:
    """How a class's lengths are known. When its clients cancel is assumed of few of them, and makes none a default."""
    own = tuple(each for each in lengths.inputs if ".outcomes." not in each.name)
    if own == lengths.inputs or not (own or lengths.own_evidence):
        return lengths.evidence
    return replace(lengths, inputs=own, formula=lengths.formula if own else "").evidence


ALL_SUCCEED = ClassOutcomes()
