"""A plan that was saved with `ullage plan --json`, read back for comparison."""

from __future__ import annotations

from typing import Any

from ullage.documents import json_value
from ullage.errors import InputError
from ullage.planning.differences.record import DEVICE_LINES, Entry, PlanRecord, RecordedPool, RecordedStep

_SCHEMA = "ullage.plan/2"
_FIX = "Give a file that ullage plan --json wrote, or a plan file."


def read_plan_record(text: str, *, file: str) -> PlanRecord:
    """The record, or an InputError that says what is wrong with the file."""
    found = json_value(text, file=file, fix=_FIX)
    if not isinstance(found, dict) or found.get("schema") != _SCHEMA:
        said = found.get("schema") if isinstance(found, dict) else type(found).__name__
        raise InputError(field=f"{file}: schema", value=said, problem=f"is not {_SCHEMA}", fix=_FIX)
    if "refused" in found:
        raise InputError(field=f"{file}: refused", value=True, problem="is a refusal, which has no plan", fix=_FIX)
    try:
        return PlanRecord(
            service=str(found["service"]),
            as_of=str(found["as_of"]),
            seed=int(found["seed"]),
            verdict=str(found["summary"]["verdict"]),
            figures={name: _figure(name, each) for name, each in found["figures"].items()},
            inputs={name: _input(name, each) for name, each in found["assumptions"].items()},
            pools=tuple(_pool(each) for each in found["summary"]["pools"]),
            lines={
                str(each["name"]): str(each["usd"]["name"])
                for each in found["summary"]["money"]
                if each["name"] not in DEVICE_LINES
            },
            is_of_devices=found["summary"]["total_usd"] is not None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = f"lacks or garbles {error.args[0] if error.args else error}"
        raise InputError(field=file, value=str(error), problem=problem, fix=_FIX) from None


def _pool(each: dict[str, Any]) -> RecordedPool:
    return RecordedPool(
        name=str(each["name"]),
        load=str(each["load"]["name"]),
        steps=tuple(
            RecordedStep(
                name=str(one["name"]),
                amount=str(one["amount"]["name"]),
                usd="" if one["usd"] is None else str(one["usd"]["name"]),
            )
            for one in (*each["replicas"], each["rounding"])
        ),
    )


def _figure(name: str, each: dict[str, Any]) -> Entry:
    return Entry(
        name=name,
        value=_value(each["value"]),
        unit=str(each["unit"]),
        evidence=str(each["evidence"]),
        formula=str(each.get("formula", "")),
        rests_on=tuple(str(one) for one in each.get("inputs", ())),
        source=_source(each),
    )


def _input(name: str, each: dict[str, Any]) -> Entry:
    return Entry(
        name=name,
        value=_value(each["value"]),
        unit=str(each["unit"]),
        evidence=str(each["evidence"]),
        source=_source(each),
    )


def _source(each: dict[str, Any]) -> str:
    return ", ".join(str(one["what"]) for one in each.get("sources", ()))


def _value(value: Any) -> int | float | str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError("value")
    return value
