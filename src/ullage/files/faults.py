"""A document of ours as its sections, and what is wrong with it as a user reads it: line, key, value, problem, fix."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ullage.errors import InputError, InternalError
from ullage.files.keys import KeyPath, known_keys, nearest, range_at, row_at, section_at
from ullage.files.sections.quantities import OUT_OF_RANGE
from ullage.files.sections.section import Section
from ullage.files.strict_yaml import Document

Read = TypeVar("Read", bound=Section)

RETIRED: Mapping[KeyPath, str] = {
    (
        "policy",
        "planning_percentile",
    ): "State instead how often the busiest hour may fall short, as policy.shortfall: 5%: demand, step times and "
    "lengths then share that "
    "risk."
}
"""Keys of earlier versions, and what to write in their place."""

_SLICES = (
    "A part of a device is planned as a device of your own: give its memory, bandwidth and FLOP/s in a fact file "
    "(docs/howto/add-a-device.md). Interference from neighbours on the same device is not modelled."
)
_IMAGES = (
    "Encoder steps are not planned. Count what an image or a sound becomes as prompt tokens in classes[].prompt, and "
    "calibrate on a load test that has them."
)
_BUDGET = "State the resulting answer lengths as percentiles: output: {p50: 400, p95: 2000}."
NOT_PLANNED: Mapping[str, str] = {
    "lora": "Write adapters: {slots: 8, rank: 16}.",
    "loras": "Write adapters: {slots: 8, rank: 16}.",
    **dict.fromkeys(("mig", "mig_profile", "gpu_fraction", "time_slicing", "mps"), _SLICES),
    "sleep_mode": "Several models on one device are not planned: give each a pool.",
    **dict.fromkeys(("images", "image_tokens", "audio", "video", "multimodal"), _IMAGES),
    **dict.fromkeys(("embedding", "embeddings", "rerank"), "Only generative models are planned."),
    **dict.fromkeys(("thinking_budget", "reasoning_effort", "max_tokens"), _BUDGET),
    **dict.fromkeys(
        ("tier", "batch", "offline"),
        "Work that waits for idle replicas is not planned. Leave it out of the traffic, or give it a class with a "
        "priority above 0: it is then served last, and sized for.",
    ),
    **dict.fromkeys(
        ("host_cpu", "tokenizer_workers", "api_server_count"),
        "Time outside the engine's steps is measured and not stated: calibrate on a load test, which has it.",
    ),
}
"""Names that are no keys, with the key to write instead."""


def read_sections(document: Document, kind: type[Read]) -> Read:
    """A document of ours as its sections; its first fault is an InputError with line, field, value, problem and fix."""
    try:
        return kind.model_validate(document.content)
    except ValidationError as error:
        # A misspelt key is two faults, one unknown and one missing; the unknown one tells the reader more.
        details = sorted(_faults(error), key=lambda each: each["type"] == "missing")
        raise _input_error(document, kind, details[0], also=details[1:]) from None


def _faults(error: ValidationError) -> list[ErrorDetails]:
    """The faults, without a list that is only short because what stands in it is faulty."""
    found = error.errors(include_url=False)
    return [
        each
        for each in found
        if each["type"] != "too_short"
        or not any(one is not each and one["loc"][: len(each["loc"])] == each["loc"] for one in found)
    ]


def _input_error(
    document: Document, kind: type[Section], detail: ErrorDetails, also: Sequence[ErrorDetails]
) -> InputError:
    path = _stated_path(document.content, detail)
    problem, fix = _problem(path, detail, kind)
    value = None if detail["type"] == "missing" else detail["input"]
    return InputError(field=document.place(path), value=value, problem=problem, fix=fix + _also(document, kind, also))


_NAMED_FAULTS = 3


def _also(document: Document, kind: type[Section], faults: Sequence[ErrorDetails]) -> str:
    """The other faults by place and problem, so that a file is mended in one go."""
    named = []
    for each in faults[:_NAMED_FAULTS]:
        path = _stated_path(document.content, each)
        place = re.sub(rf"^{re.escape(document.file)}:(?=\d)", "line ", document.place(path))
        named.append(f"{place} {_problem(path, each, kind)[0]}")
    more = len(faults) - len(named)
    return f" Also: {'; '.join(named)}{f'; and {more} more' if more else ''}." if named else ""


def _stated_path(content: dict[str, Any], detail: ErrorDetails) -> KeyPath:
    """The path as the file has it: without the branch of a choice, or the mark of a key, that the schema adds to it."""
    if detail["type"] == "missing":
        return detail["loc"]
    place: Any = content
    path: KeyPath = ()
    for part in detail["loc"]:
        is_there = (isinstance(place, dict) and part in place) or (
            isinstance(place, list) and isinstance(part, int) and part < len(place)
        )
        if not is_there:
            break
        path, place = (*path, part), place[part]
    return path


def _problem(path: KeyPath, detail: ErrorDetails, read: type[Section]) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "quantity":
        return str(context["problem"]), str(context["fix"])
    if kind == OUT_OF_RANGE:
        return detail["msg"], f"Give a value {range_at(read, path) or context['range']}."
    if kind == "extra_forbidden" and path in RETIRED:
        return "is no longer a key", RETIRED[path]
    if kind == "extra_forbidden" and str(path[-1]) in NOT_PLANNED:
        return "is not a key", NOT_PLANNED[str(path[-1])]
    if kind == "extra_forbidden":
        return "is not a known key", nearest(str(path[-1]), list(known_keys(section_at(read, path[:-1]))))
    if kind == "missing":
        row = row_at(read, path)
        return "is missing", f"Add {path[-1]} ({row.kind}): {row.meaning}"
    if kind == "literal_error" and path == ("version",):
        return "is not a version this program reads", "Write version: 1."
    if kind == "literal_error":
        known = [each.strip("' ") for each in re.split(r",| or ", str(context["expected"]))]
        return "is not one of those known", nearest(str(detail["input"]), known)
    if kind == "string_pattern_mismatch" and "%" in str(context["pattern"]):
        return "is neither a number of replicas nor a share", "Give for example 2 or 25%."
    found = next((said for start, said in _PROBLEMS.items() if kind.startswith(start)), None)
    if found is None:
        raise InternalError(law="every fault of a plan file has its words", left=kind, right=detail["msg"])
    return found


# What the schema calls a fault, by the start of its name: problem and fix as a user reads them.
_PROBLEMS = {
    "string_pattern_mismatch": (
        "is not a short name",
        "Use lower-case letters, digits and hyphens, starting with a letter.",
    ),
    "string_too_long": ("is longer than 63 characters", "Give a shorter name."),
    "date_": ("is not a date", "Give year, month and day, for example 2026-11-15."),
    "bool_": ("is neither true nor false", "Write true or false."),
    "model_": ("is not a section", "Indent its keys below it."),
    "dict_type": ("is not a section", "Indent its keys below it."),
    "list_type": ("is not a list", "Write [a, b], or each entry on a line that starts with '- '."),
    "tuple_type": ("is not a list", "Write [a, b], or each entry on a line that starts with '- '."),
    "too_short": ("is empty", "Give at least one."),
    "string_too_short": ("is empty", "Give at least one."),
    "string_unicode": ("holds what is no character", "Write it in UTF-8."),
    "string_type": ("is not a text", "Give one value, for example a name."),
}
