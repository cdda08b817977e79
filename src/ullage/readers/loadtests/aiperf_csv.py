"""AIPerf's aggregate as CSV or as it is printed: the JSON's numbers, rounded to two decimals, without configuration.

Two tables follow each other: metrics with their statistics, then single values. Both are laid out as the JSON has them
and read by its reader. What AIPerf saw of the devices comes last and is not read. The load is not in the file: clients
are as many as were under way.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ullage.errors import InputError
from ullage.readers.loadtests import aiperf
from ullage.readers.loadtests.content import Content, FileShape
from ullage.readers.loadtests.fields import anomaly
from ullage.readers.loadtests.general.clients import clients_by_little
from ullage.service.loadtests.loadtest import Definition, Flag, LoadTest

_LABEL = re.compile(r"^(?P<name>.*?)(?: \((?P<unit>[^()]*)\))?$")
# Where the CSV's label is not the JSON's key in other letters.
_KEYS = {
    "total_input_sequence_length": "total_isl",
    "total_output_sequence_length": "total_osl",
    "completed_requests": "completed_request_count",
}


# A third table follows where AIPerf watched the devices, and its header where there was nothing to see.
_TELEMETRY = ("Endpoint", "GPU_Index")


def recognise(content: Content) -> bool:
    if content.shape is FileShape.TEXT:
        return "NVIDIA AIPerf | LLM Metrics" in content.text and _printed_rows(content.text) != ()
    return content.shape is FileShape.CSV and tuple(content.rows[0][:2]) == ("Metric", "avg")


def read(content: Content) -> LoadTest:
    if content.shape is FileShape.TEXT:
        content = replace(content, rows=_printed_rows(content.text))
    metrics = _metrics(content)
    if "request_latency" not in metrics:
        raise _wrong(content, content.rows[0][0], "has no row Request Latency")
    (point,) = aiperf.read(replace(content, documents=({**metrics, "aiperf_version": None},))).points
    e2e = point.latency(Definition.E2E)
    load, said = clients_by_little(point.achieved_rps, None if e2e is None else e2e.mean_s)
    rounded = anomaly(
        Flag.STATED_BY_TOOL,
        "AIPerf rounds what it prints to two decimals; profile_export_aiperf.json of the run does not.",
    )
    return LoadTest(
        file=content.file,
        reader="aiperf_csv",
        tool="aiperf",
        format_version="as printed" if content.shape is FileShape.TEXT else "CSV",
        points=(replace(point, load=load, anomalies=(*point.anomalies, *said, rounded)),),
    )


def _printed_rows(text: str) -> tuple[tuple[str, ...], ...]:
    """The tables that AIPerf prints as rows of its CSV; a long label goes on in the next row, beside empty cells."""
    rows: list[tuple[str, ...]] = []
    for line in text.splitlines():
        if not line.startswith(("\u2503", "\u2502")) or len(line) < 2:
            continue
        label, *cells = (each.strip().replace("N/A", "") for each in re.split("[\u2503\u2502]", line.strip())[1:-1])
        if rows and cells and not any(cells) and rows[-1][0] != "Metric":
            rows[-1] = (f"{rows[-1][0]} {label}", *rows[-1][1:])
        elif cells:
            rows.append((label, *cells))
    return tuple(rows)


def _metrics(content: Content) -> dict[str, Any]:
    """Both tables by the keys of the JSON; a cell that is empty is not there."""
    found: dict[str, Any] = {}
    names: tuple[str, ...] = ()
    for index, row in enumerate(content.rows):
        if row[:2] == _TELEMETRY:
            break
        if row[0] == "Metric":
            names = ("avg",) if row[1:] == ("Value",) else row[1:]
            continue
        if len(row) != len(names) + 1:
            raise _wrong(content, f"row {index + 1}", "has another number of cells than the header")
        match = _LABEL.match(row[0])
        assert match is not None
        key = re.sub(r"[^a-z0-9]+", "_", match["name"].lower()).strip("_")
        unit = match["unit"] or ""
        values = {name: _number(content, index, cell) for name, cell in zip(names, row[1:], strict=True) if cell}
        found[_KEYS.get(key, key)] = {"unit": unit, **values}
    return found


def _number(content: Content, index: int, cell: str) -> float:
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        raise _wrong(content, f"row {index + 1}: {cell}", "is not a number") from None


def _wrong(content: Content, value: object, problem: str) -> InputError:
    return InputError(field=content.file, value=value, problem=problem, fix="Give the file as AIPerf wrote it.")
