"""What people type on a command line or hand over as text: rates, shares, columns, classes, events, SLOs.

Each is read here once, for every verb; quantities of the plan file are read by the same `units.parse`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ullage.errors import InputError, check_name, unknown_name
from ullage.units import BANDWIDTH, BYTES, DURATION, FRACTION, REQUEST_RATE, TOKENS, Dimension, parse, parse_whole

if TYPE_CHECKING:
    from ullage.facts.model import Model
    from ullage.memory.adapters import Adapters
    from ullage.memory.settings import HostCache
    from ullage.memory.speculation import Speculation
    from ullage.service.calibration.repeats import LaunchFlags
    from ullage.service.loadtests.loadtest import GoodputLimits
    from ullage.workload.classes import RequestClass, Slo
    from ullage.workload.forecast.demand_series import DemandEvent


# ---- quantities ----------------------------------------------------------------------------------------


def parse_rate(text: str | None, field: str = "--rate") -> float | None:
    """A rate as typed, such as 5 req/s; a bare number is requests a second."""
    if text is None:
        return None
    is_bare = text.replace(".", "", 1).strip().isdigit()
    return parse(f"{text} req/s" if is_bare else text, REQUEST_RATE, field=field)


def parse_duration(text: str | None, field: str) -> float | None:
    """A time as typed, such as 10min."""
    return None if text is None else parse(text, DURATION, field=field)


def parse_share(text: str | None, field: str) -> float | None:
    """A share as typed, such as 0.9 or 90%."""
    return None if text is None else parse(text, FRACTION, field=field)


def parse_tokens(text: str | None, field: str) -> int | None:
    """Tokens as typed, such as 32768 or 32Ki."""
    return _whole(text, TOKENS, field)


def parse_bytes(text: str | None, field: str) -> int | None:
    """Bytes as typed, such as 80GiB."""
    return _whole(text, BYTES, field)


def _whole(text: str | None, dimension: Dimension, field: str) -> int | None:
    return None if text is None else parse_whole(text, dimension, field=field)


def parse_traffic(text: str, *, field: str = "--traffic") -> float:
    """How many times the traffic: `+30%`, `-20%` or `x2`.

    >>> parse_traffic("+30%"), parse_traffic("-20%"), parse_traffic("x2")
    (1.3, 0.8, 2.0)
    """
    found = re.fullmatch(r"([+-])(\d+(?:\.\d+)?)\s*%|x\s*(\d+(?:\.\d+)?)", text.strip())
    if found is None:
        raise InputError(
            field=field, value=text, problem="is not a change of traffic", fix="Write for example +30%, -20% or x2."
        )
    sign, percent, times = found.groups()
    ratio = float(times) if times is not None else (100.0 + float(f"{sign}{percent}")) / 100.0
    if not ratio > 0.0:
        raise InputError(field=field, value=text, problem="leaves no traffic", fix="Write for example -20% or x0.5.")
    return ratio


# ---- pairs ---------------------------------------------------------------------------------------------


def parse_pairs(texts: Sequence[str], field: str, *, like: str) -> dict[str, str]:
    """`["arrival_s=ts"]` as a mapping; `like` is an example for whoever gets it wrong."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (separator and name.strip() and value.strip()):
            fix = f"Write for example {like}."
            raise InputError(field=field, value=text, problem="is not NAME=VALUE", fix=fix)
        found[name.strip()] = value.strip()
    return found


def parse_columns(texts: Sequence[str]) -> dict[str, str]:
    """Columns of a trace by our names."""
    return parse_pairs(texts, "--column", like="arrival_s=ts: our column, then the file's")


def parse_shares(texts: Sequence[str], field: str) -> dict[str, float]:
    """Shares by name, such as acme=40%."""
    pairs = parse_pairs(texts, field, like="acme=40%")
    return {name: parse(share, FRACTION, field=f"{field} {name}") for name, share in pairs.items()}


def parse_launch(text: str) -> LaunchFlags:
    """The flags of tests of so many clients or more, such as 16:poll-steps=30,token-budget=32Ki."""
    from ullage.service.calibration.repeats import LaunchFlags

    like = "16:poll-steps=30,token-budget=32Ki"
    clients, _, flags = text.partition(":")
    if not flags.strip():
        raise InputError(field="--launch", value=text, problem="is not CLIENTS:FLAG=VALUE,...", fix=f"Write {like}.")
    values = {"least_clients": _count(clients, "--launch")}
    names = {"token-budget": "budget_tokens", "poll-steps": "poll_steps", "batch-wait-steps": "batch_wait_steps"}
    for name, value in parse_pairs(flags.split(","), "--launch", like=like).items():
        check_name(name, names, field="--launch")
        field = f"--launch {name}"
        values[names[name]] = parse_whole(value, TOKENS, field=field) if "token" in name else _count(value, field)
    return LaunchFlags(**values)


def _count(text: str, field: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise InputError(field=field, value=text, problem="is not a whole number of 1 or more", fix="Write 16.")
    return int(text)


# ---- traffic -------------------------------------------------------------------------------------------


def parse_class(text: str) -> RequestClass:
    """A class from text such as `chat:model=llama*,below_prompt_tokens=4000`."""
    from ullage.workload.classes import ClassRule, RequestClass

    known = ClassRule.__dataclass_fields__
    # Names of models and tenants have colons and commas of their own: what counts is the one before KEY=.
    name, conditions = [*re.split(r":(?=\s*\w+\s*=)", text, maxsplit=1), ""][:2]
    pairs = [each.partition("=") for each in re.split(r",(?=\s*\w+\s*=)", conditions) if each]
    given = {key.strip(): value.strip() for key, _, value in pairs}
    if not name.strip() or not all(given.values()) or (":" in name and not given):
        fix = "Write for example chat:model=llama*,below_prompt_tokens=4000, or a name alone for every request."
        raise InputError(field="--class", value=text, problem="is not NAME:KEY=VALUE,...", fix=fix)
    for key in given:
        check_name(key, known, field=f"--class {name}")
    values: dict[str, str | int] = {}
    for key, value in given.items():
        if not key.endswith("_tokens"):
            values[key] = value
        elif value.isdigit():
            values[key] = int(value)
        else:
            raise InputError(
                field=f"--class {name}.{key}",
                value=value,
                problem="is not a number of tokens",
                fix="Give for example 4000.",
            )
    return RequestClass(name=name, slos=(), rule=ClassRule(**values))  # type: ignore[arg-type]


def parse_event(text: str, *, calendar: bool) -> DemandEvent:
    """An event from text such as `launch:2026-12-01:2026-12-03:2`: name, first day, the day after the last, ratio."""
    name, *rest = text.split(":")
    try:
        if not name or len(rest) not in (2, 3):
            raise ValueError
        first, until = (datetime.date.fromisoformat(each) for each in rest[:2])
        ratio = float(rest[2]) if len(rest) == 3 else None
    except ValueError:
        raise InputError(
            field="--event",
            value=text,
            problem="is not NAME:FROM:TO[:RATIO]",
            fix="Give for example launch:2026-12-01:2026-12-03:2, or leave the ratio of a known holiday out.",
        ) from None
    return dated_event(name, first, until, ratio, calendar=calendar)


def dated_event(
    name: str, first: datetime.date, until: datetime.date, ratio: float | None, *, calendar: bool
) -> DemandEvent:
    """An event between two days, which a trace without a calendar has no place for."""
    from ullage.workload.forecast.demand_series import DemandEvent

    if not calendar:
        raise InputError(
            field="--event",
            value=name,
            problem="has dates, but the trace has no calendar",
            fix="Give a trace whose times are dates.",
        )
    start_s, end_s = (
        datetime.datetime.combine(day, datetime.time(), tzinfo=datetime.UTC).timestamp() for day in (first, until)
    )
    return DemandEvent(name=name, start_s=start_s, end_s=end_s, demand_ratio=ratio)


# ---- service objectives --------------------------------------------------------------------------------


def with_slos(classes: Sequence[RequestClass], texts: Sequence[str]) -> tuple[RequestClass, ...]:
    """The classes with SLOs replaced or added: `chat:ttft_p95=500ms`, or `ttft_p95=500ms` for every class."""
    found = {each.name: each for each in classes}
    for text in texts:
        name, slo = _slo(text)
        if name is not None and name not in found:
            raise unknown_name(field="--slo", name=name, known=found)
        for each in found.values() if name is None else (found[name],):
            kept = tuple(one for one in each.slos if one.name != slo.name)
            found[each.name] = replace(each, slos=(*kept, slo))
    return tuple(found.values())


def _slo(text: str) -> tuple[str | None, Slo]:
    """The class (None: every class) and the SLO in `chat:ttft_p95=500ms`."""
    from ullage.workload.classes import Metric, Slo

    found = re.fullmatch(r"(?:([a-z][a-z0-9-]*):)?(ttft|tpot|itl|e2e)_p(\d+(?:\.\d+)?)=(.+)", text.strip())
    if found is None:
        raise InputError(
            field="--slo",
            value=text,
            problem="is not CLASS:METRIC_pNN=DURATION",
            fix="Write for example chat:ttft_p95=500ms, or ttft_p95=500ms for every class.",
        )
    name, metric, percentile, limit = found.groups()
    limit_s = parse(limit, DURATION, field="--slo")
    return name, Slo(metric=Metric(metric), percentile_fraction=float(percentile) / 100, limit_s=limit_s)


def with_definitions(classes: Sequence[RequestClass], text: str | None) -> tuple[RequestClass, ...]:
    """The classes with their latencies counted as a tool does, or as `tpot=with_first_token,itl=per_request` says."""
    from ullage.workload.definitions import definitions_of

    if text is None:
        return tuple(classes)
    given: str | dict[str, str] = text.strip()
    if "=" in text:
        given = parse_pairs(text.split(","), "--definitions", like="tpot=with_first_token, or a tool such as guidellm")
    found = definitions_of(given, field="--definitions")
    return tuple(replace(each, definitions=found) for each in classes)


def parse_limits(text: str) -> GoodputLimits:
    """Limits as people type them: `ttft:500ms tpot:50ms`, with spaces or commas between."""
    from ullage.service.loadtests.loadtest import GoodputLimits

    found: dict[str, float] = {}
    for part in re.split(r"[\s,]+", text.strip()):
        match = re.match(r"^(ttft|tpot|itl|ntpot|e2e)[:=](.+)$", part)
        if match is None:
            raise InputError(
                field="--goodput",
                value=part,
                problem="is not a limit",
                fix="Give pairs such as ttft:500ms tpot:50ms; known are ttft, tpot, itl, ntpot and e2e.",
            )
        name, limit = match.groups()
        found[name] = parse(limit, DURATION, field=f"--goodput {name}")
    return GoodputLimits(**{f"{name}_s": limit_s for name, limit_s in found.items()})


# ---- a replica -----------------------------------------------------------------------------------------


def parse_host_cache(text: str | None, field: str = "--host-cache") -> HostCache | None:
    """A tier in host memory as typed: its size and what a replica loads from it, such as 200GB:25GB/s."""
    from ullage.memory.settings import HostCache

    if text is None:
        return None
    size, has_link, link = text.partition(":")
    if not has_link:
        raise InputError(
            field=field,
            value=text,
            problem="has no bandwidth, which decides what a hit costs",
            fix="Give BYTES:BANDWIDTH, for example 200GB:25GB/s.",
        )
    size_bytes = parse_bytes(size, field)
    assert size_bytes is not None
    return HostCache(size_bytes=size_bytes, bandwidth_bytes_per_s=parse(link, BANDWIDTH, field=field))


def parse_speculation(text: str | None, load: Callable[[str], Model], *, as_of: datetime.date) -> Speculation | None:
    """How an engine speculates as typed: method, drafted tokens, tokens a step where known, and the model that drafts
    where one does, such as mtp:3:2.4 or draft:4:2.1@llama-3.2-1b."""
    from ullage.evidence import Source
    from ullage.memory.speculation import speculation

    if text is None:
        return None
    way, has_draft, draft = text.partition("@")
    method, _, rest = way.partition(":")
    tokens, has_rate, rate = rest.partition(":")
    try:
        rate_tokens = float(rate) if has_rate else None
        drafted = int(tokens)
    except ValueError:
        fix = "Give METHOD:TOKENS[:PER_STEP][@DRAFT], for example mtp:3:2.4 or draft:4:2.1@llama-3.2-1b."
        raise InputError(field="--speculation", value=text, problem="is not a way to speculate", fix=fix) from None
    return speculation(
        method,
        drafted,
        tokens_per_step=rate_tokens,
        draft=load(draft) if has_draft else None,
        source=Source(what="stated by the user", where="--speculation", date=as_of),
        field="--speculation",
    )


def parse_adapters(text: str | None) -> Adapters | None:
    """Slots and rank of adapters as typed, such as 8:16."""
    from ullage.memory.adapters import Adapters

    if text is None:
        return None
    slots, colon, rank = text.partition(":")
    if not (colon and slots.isdecimal() and rank.isdecimal()):
        fix = "Give the number of slots and the largest rank, for example 8:16."
        raise InputError(field="--adapters", value=text, problem="is not SLOTS:RANK", fix=fix)
    return Adapters(slots=int(slots), rank_channels=int(rank))
