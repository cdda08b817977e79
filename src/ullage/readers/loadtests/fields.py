"""Typed access to what a tool wrote: a wrong value is an error that names file and field, a missing one is None."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ullage.errors import InputError
from ullage.service.loadtests.loadtest import Definition, Flag, LatencySummary, LengthSummary, PointAnomaly, SeenBy
from ullage.workload.anomalies import Severity

MS = 0.001
NS = 1e-9
# Nanoseconds since 1970 are the largest numbers that a result file holds, about 2e18.
LARGEST = 1e21
AS_WRITTEN = "Give the file as the tool wrote it."

_PERCENTILE = re.compile(r"^p(\d{1,2}(?:[.p]\d+)?|100)$")


class Fields:
    """One object of a file, with where in the file it stands."""

    def __init__(self, data: Mapping[str, Any], file: str, path: str = "") -> None:
        self._data = data
        self._file = file
        self._path = path

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def raw(self, name: str) -> Any:
        return self._data.get(name)

    def number(self, name: str) -> float | None:
        """A finite number, or None where it is absent, null or not a number (NaN)."""
        value = self.number_or_inf(name)
        if value is not None and math.isinf(value):
            raise self.wrong(name, "must be finite")
        return value

    def number_or_inf(self, name: str) -> float | None:
        """As `number`, for a field in which a tool writes infinity and means it."""
        value = self._data.get(name)
        return None if value is None else self._checked(name, value)

    def _checked(self, name: str, value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, "is not a number")
        if not (value != value or abs(value) <= LARGEST or value in (math.inf, -math.inf)):
            raise self.wrong(name, "is too large to have been measured")
        return None if math.isnan(value) else float(value)

    def need(self, name: str) -> float:
        """A number without which there is no point."""
        value = self.number(name)
        if value is None:
            raise self.wrong(name, "is missing, and a point cannot be read without it", "Is the file whole?")
        return value

    def amount(self, name: str) -> float | None:
        """A number that cannot be negative."""
        value = self.number(name)
        if value is not None and value < 0.0:
            raise self.wrong(name, "must be 0 or more")
        return value

    def whole(self, name: str) -> int | None:
        """A count."""
        value = self.amount(name)
        if value is not None and value != int(value):
            raise self.wrong(name, "is not a whole number")
        return None if value is None else int(value)

    def need_whole(self, name: str) -> int:
        self.need(name)
        value = self.whole(name)
        assert value is not None
        return value

    def value_of(self, name: str) -> float | None:
        """The number under `value` of the object of this name, as AIPerf writes each metric of a request."""
        return self.child(name).amount("value")

    def text(self, name: str) -> str | None:
        value = self._data.get(name)
        return None if value is None or value == "" else str(value)

    def child(self, *names: str) -> Fields:
        """The object under these names, or an empty one where a name on the way is absent."""
        data: Any = self._data
        for name in names:
            data = data.get(name) if isinstance(data, dict) else None
        return Fields(data if isinstance(data, dict) else {}, self._file, self._at(".".join(names)))

    def children(self, name: str) -> list[Fields]:
        """The objects of a list; an empty list where there is none."""
        values = self._data.get(name)
        if values is None:
            return []
        if not isinstance(values, list):
            raise self.wrong(name, "is not a list")
        return [
            Fields(value, self._file, self._at(f"{name}[{index}]"))
            for index, value in enumerate(values)
            if isinstance(value, dict)
        ]

    def numbers(self, name: str) -> list[float] | None:
        """A list of numbers; None where it is absent."""
        values = self._data.get(name)
        if values is None:
            return None
        if not isinstance(values, list):
            raise self.wrong(name, "is not a list of numbers")
        found = [self._checked(name, each) for each in values]
        if any(each is None or math.isinf(each) for each in found):
            raise self.wrong(name, "holds a value that is not a finite number")
        return [each for each in found if each is not None]

    def ending_in(self, suffix: str) -> Fields:
        """The fields whose names end so, without the ending: mean_ttft_ms under `_ttft_ms` is mean."""
        inside = {name.removesuffix(suffix): value for name, value in self._data.items() if name.endswith(suffix)}
        return Fields(inside, self._file, self._at(f"*{suffix}"))

    def with_data(self, data: Mapping[str, Any], name: str) -> Fields:
        """Other data under a name inside this object, for what had to be laid out anew."""
        return Fields(data, self._file, self._at(name))

    def wrong(self, name: str, problem: str, fix: str = AS_WRITTEN) -> InputError:
        return InputError(field=f"{self._file}: {self._at(name)}", value=self._data.get(name), problem=problem, fix=fix)

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def percentiles(fields: Fields, scale: float, *, median: str = "median") -> tuple[tuple[float, float], ...]:
    """Keys such as p99, p99.9 or p99p9, and the median, as pairs (fraction, value) in rising order."""
    found: dict[float, float] = {}
    for key in fields:
        match = _PERCENTILE.match(key)
        percent = 50.0 if key == median else float(match.group(1).replace("p", ".")) if match else None
        value = None if percent is None else fields.number(key)
        if percent is not None and value is not None:
            found[round(percent / 100.0, 9)] = value * scale
    return tuple(sorted(found.items()))


def fraction_of(percent: str) -> float | None:
    """A percentile as a share: `99.90` is 0.999; None for what is no percentile."""
    try:
        share = float(percent) / 100.0
    except ValueError:
        return None
    return round(share, 9) if 0.0 <= share <= 1.0 else None


def latency(
    fields: Fields,
    definition: Definition,
    *,
    scale: float,
    mean: str = "mean",
    std: str = "std",
    count: str = "count",
    pairs: tuple[tuple[float, float], ...] | None = None,
    seen_by: SeenBy = SeenBy.CLIENT,
) -> LatencySummary | None:
    """A latency from an object with a mean, a spread and percentiles; None where it holds none of them.

    `scale` takes the file's unit to seconds. A latency below zero is refused, but for the client's own delay, which is
    negative where the tool was a little early.
    """
    values = {name: fields.number(name) for name in (mean, std, "min", "max")}
    if definition is not Definition.CLIENT_DELAY:
        for name, value in values.items():
            if value is not None and value < 0.0:
                raise fields.wrong(name, "a latency is not negative")
    found = LatencySummary(
        definition=definition,
        mean_s=_scaled(values[mean], scale),
        std_s=_scaled(values[std], scale),
        min_s=_scaled(values["min"], scale),
        max_s=_scaled(values["max"], scale),
        percentiles=percentiles(fields, scale) if pairs is None else pairs,
        sample_count=fields.whole(count),
        seen_by=seen_by,
    )
    return None if found.is_empty else found


def lengths(
    fields: Fields,
    *,
    mean: str = "mean",
    std: str = "std",
    pairs: tuple[tuple[float, float], ...] | None = None,
) -> LengthSummary | None:
    """Lengths in tokens from an object of the same kind."""
    found = LengthSummary(
        mean_tokens=fields.amount(mean),
        std_tokens=fields.amount(std),
        min_tokens=fields.amount("min"),
        max_tokens=fields.amount("max"),
        percentiles=percentiles(fields, 1.0) if pairs is None else pairs,
    )
    return None if found.mean_tokens is None and not found.percentiles else found


def present(*latencies: LatencySummary | None) -> tuple[LatencySummary, ...]:
    """Those that the file has."""
    return tuple(each for each in latencies if each is not None)


def rate(count: float | None, duration_s: float | None) -> float | None:
    """Events a second; None where either is not known, or nothing lasted."""
    return count / duration_s if count is not None and duration_s else None


def anomaly(flag: Flag, sentence: str, weight: Severity = Severity.NOTE) -> PointAnomaly:
    """Something that the reader of one tool alone can see."""
    return PointAnomaly(flag=flag, weight=weight, sentence=sentence)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale
