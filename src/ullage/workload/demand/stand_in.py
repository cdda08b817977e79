"""The built-in class that stands in for a class of which only a rate or a log without some columns is known."""

from __future__ import annotations

import math
from dataclasses import replace

from ullage.evidence import Assumption, Evidence
from ullage.workload.synthetic.builtin import SOURCE, builtin
from ullage.workload.synthetic.model import ClassModel, LengthModel


class LentAssumption:
    """An assumption of one class that is taken from the built-in class in its place."""

    def __init__(self, name: str, like: str) -> None:
        self._name = name
        self._source = replace(SOURCE, what=f"{SOURCE.what}: class {like}")

    def __call__(self, what: str, value: float, unit: str, low: float, high: float) -> Assumption:
        return Assumption(
            name=f"{self._name}.{what}",
            value=value,
            unit=unit,
            evidence=Evidence.ASSUMED,
            source=self._source,
            low=min(low, value),
            high=max(high, value),
        )


def built_in_like(name: str, longest_tokens: int) -> ClassModel:
    """The built-in class of this name, or else the one whose longest context is nearest."""
    classes = builtin().classes
    named = [each for each in classes if each.name == name]
    if named:
        return named[0]
    return min(classes, key=lambda each: abs(math.log(_longest(each.lengths) / max(1, longest_tokens))))


def fitting_lengths(lengths: LengthModel, longest_tokens: int) -> LengthModel:
    """The lengths, shortened in proportion where they would not fit the class's longest context."""
    share = min(1.0, longest_tokens / _longest(lengths))
    return replace(
        lengths,
        prompt_tokens=tuple(max(1.0, math.floor(each * share)) for each in lengths.prompt_tokens),
        output_tokens=tuple(max(1.0, math.floor(each * share)) for each in lengths.output_tokens),
    )


def _longest(lengths: LengthModel) -> float:
    return lengths.prompt_tokens[-1] + lengths.output_tokens[-1]
