"""Reported values: what a running engine, its metrics or the device's monitor state about memory.

    readers -> Reading(quantity, rank, figure)  one number in one line of one file
            -> engine_memory(...)               ranks put together, by the rule of each quantity
            -> merge(...)                       several files of one deployment, which must not disagree
            -> EngineMemory                     what the budget takes instead of its estimates

Ranks. A tensor-parallel rank prints the same KV tokens as its peers: they are one cache, counted once. A
data-parallel rank has a cache of its own: those are summed. Bytes are per device, so of several ranks the
fullest device counts for what is used, and the scarcest for what is left.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Evidence, Figure, Source


class Combine(enum.Enum):
    """How the readings of several ranks become one number."""

    LARGEST = "largest of the ranks"
    SMALLEST = "smallest of the ranks"
    SUM = "smallest in each data-parallel rank, summed over those"
    SAME = "the same in every rank"


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A quantity that engines report: its unit, how ranks combine, and what it is."""

    unit: str
    combine: Combine
    meaning: str


QUANTITIES: Mapping[str, Quantity] = {
    "device_memory": Quantity(unit="bytes", combine=Combine.SMALLEST, meaning="memory of the device in total"),
    "free_at_start": Quantity(unit="bytes", combine=Combine.SMALLEST, meaning="free before anything was loaded"),
    "requested_memory": Quantity(unit="bytes", combine=Combine.SMALLEST, meaning="what the engine may take in total"),
    "memory_fraction": Quantity(unit="fraction", combine=Combine.SAME, meaning="share of the device it may take"),
    "weights": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="weights on one device"),
    "non_torch": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="taken outside the engine's allocator"),
    "weights_and_non_torch": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="both, where stated as one"),
    "communication": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="context and collectives, at set-up"),
    "activations": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="peak of activations in the profile run"),
    "workspace": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="runtime buffers and decoder state"),
    "graphs": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="captured graphs, measured"),
    "graphs_estimated": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="captured graphs, as foreseen"),
    "state_cache": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="state of linear and state-space layers"),
    "free_for_kv": Quantity(unit="bytes", combine=Combine.SMALLEST, meaning="free before the KV cache is allocated"),
    "kv_cache": Quantity(unit="bytes", combine=Combine.SMALLEST, meaning="KV cache on one device"),
    "free_after_start": Quantity(unit="bytes", combine=Combine.SMALLEST, meaning="free once all is allocated"),
    "kv_tokens": Quantity(unit="tokens", combine=Combine.SUM, meaning="tokens the KV cache holds"),
    "kv_blocks": Quantity(unit="count", combine=Combine.SUM, meaning="blocks of the KV cache"),
    "kv_blocks_unforced": Quantity(
        unit="count", combine=Combine.SUM, meaning="blocks that would fit, had none been set"
    ),
    "block_size": Quantity(unit="tokens", combine=Combine.SAME, meaning="tokens of one block"),
    "context_tokens": Quantity(unit="tokens", combine=Combine.SAME, meaning="longest context of one request"),
    "max_concurrency": Quantity(unit="ratio", combine=Combine.SUM, meaning="requests of that context that fit at once"),
    "token_budget": Quantity(unit="tokens", combine=Combine.SAME, meaning="tokens of one step"),
    "max_sequences": Quantity(unit="count", combine=Combine.SAME, meaning="sequences that run at once"),
    "kv_usage": Quantity(unit="fraction", combine=Combine.LARGEST, meaning="highest use of the KV cache seen"),
    "resident_peak": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="highest use of a device seen over time"),
    "resident_last": Quantity(unit="bytes", combine=Combine.LARGEST, meaning="use of a device at the end"),
}


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Who speaks: the data-parallel rank, and the process within it (`TP1`, `pid 507`)."""

    dp: str = ""
    within: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (f"DP{self.dp}" if self.dp else "", self.within) if part)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One number from one line: a key of QUANTITIES, its rank, and the figure with its file and line."""

    quantity: str
    rank: Rank
    figure: Figure


class OomKind(enum.Enum):
    """Whose memory ran out."""

    DEVICE = "device"
    KV = "no room for the KV cache"
    HOST = "host"


@dataclass(frozen=True, kw_only=True)
class OomEvent:
    """Memory ran out: which, whether after the engine was ready, and by how much where that is stated."""

    kind: OomKind
    while_serving: bool
    source: Source
    shortfall_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class EngineMemory:
    """Values reported for one replica.

    `engine` is empty for a device monitor, which knows no engine. `kv_caches` counts the data-parallel ranks,
    each of which has a cache of its own.
    """

    engine: str
    version: str
    figures: Mapping[str, Figure]
    ranks: tuple[Reading, ...]
    kv_caches: int = 1
    oom_events: tuple[OomEvent, ...] = ()
    restarts: tuple[Source, ...] = ()

    def number(self, quantity: str) -> int | float | None:
        """The value of a quantity, or None where it was not reported."""
        found = self.figures.get(quantity)
        return None if found is None or isinstance(found.value, str) else found.value

    @property
    def kv_bytes_per_token(self) -> float | None:
        """KV bytes of one token on one device, where cache and capacity were both stated."""
        cache, tokens = self.number("kv_cache"), self.number("kv_tokens")
        return None if cache is None or not tokens else cache * self.kv_caches / tokens


def engine_memory(
    *,
    engine: str,
    version: str,
    readings: Sequence[Reading],
    oom_events: Iterable[OomEvent] = (),
    restarts: Iterable[Source] = (),
) -> EngineMemory:
    """Put the readings of all ranks of one replica together."""
    by_quantity: dict[str, list[Reading]] = {}
    for reading in readings:
        by_quantity.setdefault(reading.quantity, []).append(reading)
    return EngineMemory(
        engine=engine,
        version=version,
        figures=_with_tokens(_less_unforced({key: _combined(key, found) for key, found in by_quantity.items()})),
        ranks=tuple(readings),
        kv_caches=len({each.rank.dp for each in readings if each.quantity in ("kv_tokens", "kv_blocks")}) or 1,
        oom_events=tuple(oom_events),
        restarts=tuple(restarts),
    )


def _less_unforced(figures: dict[str, Figure]) -> dict[str, Figure]:
    """The cache that is allocated where the number of blocks was set by hand: the rest is never taken."""
    cache, forced, fitting = (figures.get(key) for key in ("kv_cache", "kv_blocks", "kv_blocks_unforced"))
    if cache is None or forced is None or fitting is None or not _value(fitting):
        return figures
    allocated = Figure(
        name="kv_cache",
        value=round(_value(cache) * _value(forced) / _value(fitting)),
        unit="bytes",
        formula="cache that would fit x blocks set / blocks that would fit",
        inputs=(cache, forced, fitting),
    )
    return {**figures, "kv_cache": allocated}


_FROM_BLOCKS = "kv_blocks x block_size"
_FROM_CONCURRENCY = "max_concurrency x context_tokens"
# The concurrency is printed to two digits: beyond this, and beyond their half, it says more tokens than the log.
_OF_ONE_GROUP_FRACTION = 0.05


def _with_tokens(figures: dict[str, Figure]) -> dict[str, Figure]:
    """KV tokens where only blocks, or only the concurrency at a context length, were stated.

    Until about 0.20 vLLM prints blocks / groups of layers x block size as its tokens. Where layers are of several
    kinds that is a fraction of what requests find; the concurrency that it prints beside them counts every group.
    """
    for left, right in (("kv_blocks", "block_size"), ("max_concurrency", "context_tokens")):
        one, other = figures.get(left), figures.get(right)
        if one is None or other is None:
            continue
        tokens = round(_value(one) * _value(other))
        if "kv_tokens" not in figures or (left == "max_concurrency" and _of_one_group(figures, tokens)):
            stated = (figures["kv_tokens"],) if "kv_tokens" in figures and left == "max_concurrency" else ()
            figure = Figure(
                name="kv_tokens",
                value=tokens,
                unit="tokens",
                formula=(_FROM_BLOCKS if left == "kv_blocks" else _FROM_CONCURRENCY)
                + (", not the tokens of one group of layers" if stated else ""),
                inputs=(one, other, *stated),
            )
            return {**figures, "kv_tokens": figure}
    return figures


def _of_one_group(figures: Mapping[str, Figure], tokens: int) -> bool:
    """Whether the tokens that a log states are those of one group of layers, and its concurrency says so many more."""
    stated, context = _value(figures["kv_tokens"]), _value(figures["context_tokens"])
    return not figures["kv_tokens"].formula and tokens - stated > max(_OF_ONE_GROUP_FRACTION * stated, 0.005 * context)


def merge(reports: Sequence[EngineMemory]) -> EngineMemory:
    """One report from several files about the same deployment: a log, its metrics, a device monitor.

    What several state must agree, within the rounding of a printed figure; the first file's is kept. Files of
    two engines, two versions or two configurations are an InputError that names both.
    """
    if not reports:
        raise InputError(field="logs", value=[], problem="name no file", fix="Give at least one log or metrics file.")
    merged: dict[str, Figure] = {}
    for reported in reports:
        for key, figure in reported.figures.items():
            merged[key] = figure if key not in merged else _agreed(key, merged[key], figure)
    return EngineMemory(
        engine=_one_of("engine", [reported.engine for reported in reports], reports),
        version=_one_of("version", [reported.version for reported in reports], reports),
        figures=merged,
        ranks=tuple(each for reported in reports for each in reported.ranks),
        kv_caches=max(reported.kv_caches for reported in reports),
        oom_events=tuple(each for reported in reports for each in reported.oom_events),
        restarts=tuple(each for reported in reports for each in reported.restarts),
    )


# A log prints GiB to two digits and tokens in full; blocks times block size may differ from tokens by one block.
_AGREE_WITHIN_FRACTION = 0.005
_AGREE_WITHIN_BYTES = 0.011 * 2**30
# A monitor's total includes what the driver keeps for itself, up to 640 MiB where it was seen; a process gets the less.
_DRIVER_KEEPS_BYTES = 2**30
# What a monitor sees over time, and what an engine has used so far, may differ between two files of one run.
_OVER_TIME = ("resident_peak", "resident_last", "kv_usage")


def _agreed(key: str, one: Figure, other: Figure) -> Figure:
    left, right = _value(one), _value(other)
    if key == "kv_tokens" and (fewer := _where_layers_differ(one, other)) is not None:
        return fewer
    if key in _OVER_TIME:
        return one if left >= right else other
    if key == "device_memory" and abs(left - right) <= _DRIVER_KEEPS_BYTES:
        return one if left <= right else other
    slack = _AGREE_WITHIN_FRACTION * max(abs(left), abs(right))
    if QUANTITIES[key].unit == "bytes":
        slack = max(slack, _AGREE_WITHIN_BYTES)
    if abs(left - right) > slack:
        raise InputError(
            field=key,
            value=f"{left:g} in {_places(one)}, {right:g} in {_places(other)}",
            problem=f"the two disagree ({QUANTITIES[key].unit})",
            fix="Give the files of one deployment, or each deployment by itself.",
        )
    return one


def _where_layers_differ(one: Figure, other: Figure) -> Figure | None:
    """The fewer tokens, where the more are blocks x block size, as a metrics page has them, and the fewer are stated.

    Requests take blocks for every kind of layer, which a log counts in and a page of blocks cannot.
    """
    fewer, more = sorted((one, other), key=_value)
    return fewer if more.formula == _FROM_BLOCKS and fewer.formula != _FROM_BLOCKS else None


def _one_of(field: str, stated: Sequence[str], reports: Sequence[EngineMemory]) -> str:
    known = [(text, reported) for text, reported in zip(stated, reports, strict=True) if text]
    for text, reported in known[1:]:
        if text != known[0][0]:
            places = [_places(next(iter(each.figures.values()))) for each in (known[0][1], reported) if each.figures]
            raise InputError(
                field=field,
                value=f"{known[0][0]} and {text}",
                problem=f"the files are of two ({', '.join(places)})",
                fix="Give the files of one deployment, or each deployment by itself.",
            )
    return known[0][0] if known else ""


def _combined(key: str, readings: Sequence[Reading]) -> Figure:
    if len(readings) == 1:
        return readings[0].figure
    how = QUANTITIES[key].combine
    figures = [reading.figure for reading in readings]
    values = [_value(figure) for figure in figures]
    if how is Combine.SAME and min(values) != max(values):
        raise InputError(
            field=key,
            value=sorted(set(values)),
            problem=f"the ranks disagree ({_places(figures[0])} and others)",
            fix="Give the log of one replica.",
        )
    total: int | float
    if how is Combine.SUM:
        ranks = {reading.rank.dp for reading in readings}
        total = sum(min(_value(each.figure) for each in readings if each.rank.dp == dp) for dp in sorted(ranks))
    else:
        total = max(values) if how is Combine.LARGEST else min(values)
    return Figure(name=figures[0].name, value=total, unit=figures[0].unit, formula=how.value, inputs=tuple(figures))


def reading(quantity: str, value: float, rank: Rank, source: Source) -> Reading:
    """A reading of a quantity of QUANTITIES; bytes, tokens and counts become whole, shares keep six digits.

    Engines print shares that went through single precision: 0.8999999761581421 is 0.9.
    """
    kind = QUANTITIES[quantity]
    exact = round(value, 6) if kind.unit in ("fraction", "ratio") else round(value)
    figure = Figure(name=quantity, value=exact, unit=kind.unit, sources=(source,), own_evidence=Evidence.MEASURED)
    return Reading(quantity=quantity, rank=rank, figure=figure)


def _value(figure: Figure) -> int | float:
    assert not isinstance(figure.value, str), figure.name
    return figure.value


def _places(figure: Figure) -> str:
    sources = figure.sources or tuple(source for each in figure.inputs for source in each.sources)
    return sources[0].where if sources else figure.name
