"""Measured step profiles as rows: our own table, and Dynamo's pre-deployment sweep.

Our own table has one row for each measured step. Its columns:

    kind           decode or prefill
    sequences      sequences in a decode step
    kv_tokens      tokens of all their contexts together
    tokens         new prompt tokens in a prefill step
    duration_s     how long the step took, in seconds

and, where they are known:

    prefix_tokens  tokens of the prompt that were there before the prefill step
    timed          steps, of a running engine, or kernels, timed one by one and added up
    model, device, engine, precision, tp, pp, ep
                   the replica that was measured; a profile of another one is refused
    source         what measured it, and its version

Dynamo's sweep has `prefill_isl` and `prefill_ttft` (ms) for one prompt, and for decoding the share of the cache in use,
the context of each sequence and the time between tokens (ms); the first row of it states the cache's size in tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ullage.errors import InputError, unknown_name
from ullage.service.loadtests.loadtest import LoadTestSubject
from ullage.service.steps.grid import DecodeSample, PrefillSample, ProfileGrid, profile_grid
from ullage.service.steps.step_model import MeasuredRange

Row = Mapping[str, str]
Samples = tuple[list[DecodeSample], list[PrefillSample]]
OWN_COLUMNS = ("kind", "sequences", "kv_tokens", "tokens", "duration_s")
STEPS, KERNELS = "steps", "kernels"
TIMED = (STEPS, KERNELS)
_TEXTS = {"model": "model", "device": "hardware", "engine": "engine", "precision": "precision"}
_DEGREES = ("tp", "pp", "ep")
_MS = 1e-3


@dataclass(frozen=True, kw_only=True)
class ProfileTable:
    """A profile: its points, the range they were measured in, of which replica, and what was timed.

    `is_client` says that prompts were timed by a client, whose TTFT has the time outside the engine inside it.
    """

    grid: ProfileGrid
    measured: MeasuredRange
    subject: LoadTestSubject = field(default_factory=LoadTestSubject)
    timed: str = STEPS
    is_client: bool = False
    origin: str | None = None


def read_profile(rows: Iterable[Row]) -> ProfileTable:
    """The profile in these rows; which table it is shows in its columns."""
    given = list(rows)
    columns = set(given[0]) if given else set()
    for known, reader in _TABLES.items():
        if set(known) <= columns:
            decode, prefill = reader(given)
            return ProfileTable(
                grid=profile_grid(decode, prefill),
                measured=_range(decode, prefill),
                subject=_subject(given),
                timed=_timed(given),
                is_client=reader is _dynamo,
                origin=_one(given, "source"),
            )
    raise InputError(
        field="profile",
        value=sorted(columns),
        problem="has not the columns of a known table",
        fix=f"Give the columns {', '.join(OWN_COLUMNS)}, or Dynamo's own file.",
    )


# More than any device holds: beyond, a number is damage.
_MOST_COUNTED = 1e12


def _own(rows: list[Row]) -> Samples:
    decode, prefill = [], []
    for line, row in enumerate(rows, start=2):
        duration = _number(row, "duration_s", line)
        if row["kind"].strip() == "decode":
            sequences, held = _count(row, "sequences", line), _count(row, "kv_tokens", line)
            decode.append(DecodeSample(sequences=sequences, kv_tokens=held, duration_s=duration))
        elif row["kind"].strip() == "prefill":
            tokens = _count(row, "tokens", line)
            prefix = _count(row, "prefix_tokens", line) if row.get("prefix_tokens") else 0
            prefill.append(PrefillSample(tokens=tokens, prefix_tokens=prefix, duration_s=duration))
        else:
            fix = "Write decode or prefill."
            raise InputError(field=f"profile line {line}: kind", value=row["kind"], problem="is not known", fix=fix)
    return decode, prefill


def _dynamo(rows: list[Row]) -> Samples:
    sizes = [_number(row, "max_kv_tokens", line) for line, row in enumerate(rows, start=2) if row["max_kv_tokens"]]
    if not sizes and any(row["z_itl"] for row in rows):
        fix = "Keep the row of Dynamo's decode sweep that states it."
        raise InputError(field="profile: max_kv_tokens", value="", problem="is stated nowhere", fix=fix)
    decode, prefill = [], []
    for line, row in enumerate(rows, start=2):
        if row["prefill_isl"]:
            tokens = _count(row, "prefill_isl", line)
            prefill.append(PrefillSample(tokens=tokens, duration_s=_number(row, "prefill_ttft", line) * _MS))
        if row["z_itl"]:
            held = _number(row, "x_kv_usage", line) * sizes[0]
            context = _number(row, "y_context_length", line)
            if not context > 0:
                fix = "Give the context of each sequence."
                raise InputError(
                    field=f"profile line {line}: y_context_length", value=context, problem="is not above 0", fix=fix
                )
            if not 0 <= held < _MOST_COUNTED:
                fix = "Give the cache's use as a share, and its size in tokens."
                raise InputError(
                    field=f"profile line {line}: x_kv_usage", value=held, problem="counts nothing", fix=fix
                )
            duration = _number(row, "z_itl", line) * _MS
            decode.append(
                DecodeSample(sequences=max(1, round(held / context)), kv_tokens=round(held), duration_s=duration)
            )
    return decode, prefill


_TABLES: dict[tuple[str, ...], Callable[[list[Row]], Samples]] = {
    OWN_COLUMNS: _own,
    ("prefill_isl", "prefill_ttft", "x_kv_usage", "y_context_length", "z_itl", "max_kv_tokens"): _dynamo,
}


def _range(decode: list[DecodeSample], prefill: list[PrefillSample]) -> MeasuredRange:
    return MeasuredRange(
        sequences=max((each.sequences for each in decode), default=0),
        kv_tokens=max((each.kv_tokens for each in decode), default=0),
        prefill_tokens=max((each.tokens for each in prefill), default=0),
    )


def _subject(rows: list[Row]) -> LoadTestSubject:
    texts = {name: _one(rows, column) for column, name in _TEXTS.items()}
    degrees = {name: _whole(rows, name) for name in _DEGREES}
    return LoadTestSubject(
        model=texts["model"],
        hardware=texts["hardware"],
        engine=texts["engine"],
        precision=texts["precision"],
        tp=degrees["tp"],
        pp=degrees["pp"],
        ep=degrees["ep"],
    )


def _timed(rows: list[Row]) -> str:
    said = _one(rows, "timed") or STEPS
    if said not in TIMED:
        raise unknown_name(field="profile: timed", name=said, known=TIMED)
    return said


def _one(rows: list[Row], column: str) -> str | None:
    """What all rows say in a column that is of the whole profile; None where it is left out."""
    said = {text for row in rows if (text := (row.get(column) or "").strip())}
    if len(said) > 1:
        fix = "Give the profile of one replica a file."
        raise InputError(field=f"profile: {column}", value=sorted(said), problem="differs between rows", fix=fix)
    return next(iter(said), None)


def _whole(rows: list[Row], column: str) -> int | None:
    said = _one(rows, column)
    if said is None:
        return None
    if not said.isdecimal() or not 1 <= int(said[:6]) <= 4096:
        fix = "Write a whole number from 1 on."
        raise InputError(field=f"profile: {column}", value=said, problem="is not a degree of parallelism", fix=fix)
    return int(said)


def _count(row: Row, name: str, line: int) -> int:
    found = _number(row, name, line)
    if not 0 <= found < _MOST_COUNTED:
        fix = "Write a whole number from 0 on."
        raise InputError(field=f"profile line {line}: {name}", value=row[name], problem="counts nothing", fix=fix)
    return round(found)


def _number(row: Row, name: str, line: int) -> float:
    try:
        found = float(row[name])
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError(
            field=f"profile line {line}: {name}", value=row[name], problem="is not a number", fix="Write a number."
        )
    return found
