"""Measured step profiles as rows: our own table, and Dynamo's pre-deployment sweep.

Our own table has one row for each measured step. Its columns:

    kind         decode or prefill
    sequences    sequences in a decode step
    kv_tokens    tokens of all their contexts together
    tokens       new prompt tokens in a prefill step
    duration_s   how long the step took, in seconds

Dynamo's sweep has `prefill_isl` and `prefill_ttft` (ms) for one prompt, and for decoding the share of the cache in use,
the context of each sequence and the time between tokens (ms); the first row of it states the cache's size in tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ullage.errors import InputError
from ullage.service.steps.grid import DecodeSample, GridStep, PrefillSample, grid_step
from ullage.service.steps.step_model import MeasuredRange

Row = Mapping[str, str]
OWN_COLUMNS = ("kind", "sequences", "kv_tokens", "tokens", "duration_s")
_MS = 1e-3


def read_profile(rows: Iterable[Row]) -> tuple[GridStep, MeasuredRange]:
    """The grid of a profile and the range it was measured in; which table it is shows in its columns."""
    given = list(rows)
    columns = set(given[0]) if given else set()
    for known, reader in _TABLES.items():
        if set(known) <= columns:
            decode, prefill = reader(given)
            return grid_step(decode, prefill), _range(decode, prefill)
    raise InputError(
        field="profile",
        value=sorted(columns),
        problem="has not the columns of a known table",
        fix=f"Give the columns {', '.join(OWN_COLUMNS)}, or Dynamo's own file.",
    )


def _own(rows: list[Row]) -> tuple[list[DecodeSample], list[PrefillSample]]:
    decode, prefill = [], []
    for line, row in enumerate(rows, start=2):
        duration = _number(row, "duration_s", line)
        if row["kind"].strip() == "decode":
            sequences, held = round(_number(row, "sequences", line)), round(_number(row, "kv_tokens", line))
            decode.append(DecodeSample(sequences=sequences, kv_tokens=held, duration_s=duration))
        elif row["kind"].strip() == "prefill":
            prefill.append(PrefillSample(tokens=round(_number(row, "tokens", line)), duration_s=duration))
        else:
            fix = "Write decode or prefill."
            raise InputError(field=f"profile line {line}: kind", value=row["kind"], problem="is not known", fix=fix)
    return decode, prefill


def _dynamo(rows: list[Row]) -> tuple[list[DecodeSample], list[PrefillSample]]:
    sizes = [float(row["max_kv_tokens"]) for row in rows if row["max_kv_tokens"]]
    if not sizes:
        fix = "Keep the row of Dynamo's decode sweep that states it."
        raise InputError(field="profile: max_kv_tokens", value="", problem="is stated nowhere", fix=fix)
    decode, prefill = [], []
    for line, row in enumerate(rows, start=2):
        if row["prefill_isl"]:
            tokens = round(_number(row, "prefill_isl", line))
            prefill.append(PrefillSample(tokens=tokens, duration_s=_number(row, "prefill_ttft", line) * _MS))
        if row["z_itl"]:
            held = _number(row, "x_kv_usage", line) * sizes[0]
            sequences = max(1, round(held / _number(row, "y_context_length", line)))
            duration = _number(row, "z_itl", line) * _MS
            decode.append(DecodeSample(sequences=sequences, kv_tokens=round(held), duration_s=duration))
    return decode, prefill


_TABLES: dict[tuple[str, ...], Callable[[list[Row]], tuple[list[DecodeSample], list[PrefillSample]]]] = {
    OWN_COLUMNS: _own,
    ("prefill_isl", "prefill_ttft", "x_kv_usage", "y_context_length", "z_itl", "max_kv_tokens"): _dynamo,
}


def _range(decode: list[DecodeSample], prefill: list[PrefillSample]) -> MeasuredRange:
    return MeasuredRange(
        sequences=max((each.sequences for each in decode), default=0),
        kv_tokens=max((each.kv_tokens for each in decode), default=0),
        prefill_tokens=max((each.tokens for each in prefill), default=0),
    )


def _number(row: Row, name: str, line: int) -> float:
    try:
        return float(row[name])
    except ValueError as error:
        raise InputError(
            field=f"profile line {line}: {name}", value=row[name], problem="is not a number", fix="Write a number."
        ) from error
