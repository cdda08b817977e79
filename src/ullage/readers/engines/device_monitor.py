"""Bytes in use on a device over time: `nvidia-smi --format=csv`, `dcgmi dmon`, a DCGM exporter's page or CSV.

    nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total --format=csv -l 1
    nvidia-smi                           (the table it prints, once or again and again)
    dcgmi dmon -e 250,252 -d 1000        (FB total, FB used, in MiB)
    curl dcgm-exporter:9400/metrics      (one scrape or several, one after the other)

The columns of a CSV may stand in any order, with their unit in the name, in the cell or (`nounits`) nowhere.

A sum over processes is not in these figures: they count all that is on the device, the driver's share too.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.memory.engine_report import EngineMemory, Rank, engine_memory, reading

_MIB = 2**20
# What monitors call the columns, by what they hold; nvidia-smi's own names first.
_USED = ("memory.used [mib]", "memory.used", "mem_used_mib", "memory_used_mib", "fb_used_mib")
_TOTAL = ("memory.total [mib]", "memory.total", "mem_total_mib", "memory_total_mib", "fb_total_mib")
_DEVICE = ("index", "gpu_index", "gpu", "uuid", "gpu_uuid", "pci.bus_id", "name", "gpu_name")
_SMI_HEAD = re.compile(rf"(?im)^[^\n#{{]*(?:{'|'.join(re.escape(each) for each in _USED)})(?:\s*,|\s*$)")
_SMI_TABLE = re.compile(r"NVIDIA-SMI \d[\d.]*[^\n]*Driver Version")
_SMI_DEVICE = re.compile(r"\|\s+(\d+)\s+[^|]+\|\s*[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:")
_SMI_USE = re.compile(r"\|\s*(?:(\d+)MiB\s*/\s*(\d+)MiB|(Not Supported))\s*\|")
_DCGM_PAGE = re.compile(r"(?m)^DCGM_FI_DEV_FB_USED\{")
_DCGM_HEAD = re.compile(
    r"(?m)^#?\s*Entity\b.*\bFBUSD\b|^[^\n]*\bDCGM_FI_DEV_FB_USED\b[^\n]*,|^[^\n]*,[^\n]*\bDCGM_FI_DEV_FB_USED\b"
)


def recognises_nvidia_smi(text: str) -> bool:
    return _SMI_HEAD.search(text[:65536]) is not None


def recognises_nvidia_smi_table(text: str) -> bool:
    return _SMI_TABLE.search(text[:65536]) is not None


def recognises_dcgm(text: str) -> bool:
    return _DCGM_PAGE.search(text) is not None or _DCGM_HEAD.search(text[:65536]) is not None


@dataclass(frozen=True, kw_only=True)
class _MonitorSample:
    where: str
    device: str
    used_bytes: int
    total_bytes: int | None


def read_nvidia_smi(text: str, *, file: str, date: datetime.date) -> EngineMemory:
    """Read the CSV of nvidia-smi; any query that has memory.used in it."""
    head: list[str] | None = None
    samples: list[_MonitorSample] = []
    for where, row in _rows(text, file):
        named = [each.strip().lower() for each in row]
        if any(each in _USED for each in named):
            head = named
        elif head is not None:
            samples.append(_smi_sample(head, row, where))
    return _reported(samples, what="nvidia-smi", file=file, date=date)


def read_nvidia_smi_table(text: str, *, file: str, date: datetime.date) -> EngineMemory:
    """Read what nvidia-smi prints without options; the use of a device stands in the row below its name."""
    samples: list[_MonitorSample] = []
    device = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (named := _SMI_DEVICE.search(line)) is not None:
            device = named[1]
        elif device and (use := _SMI_USE.search(line)) is not None:
            where = f"{file}:{number}"
            if use[3]:
                raise InputError(
                    field=where,
                    value=use[3],
                    problem=f"is all that nvidia-smi says of the memory of device {device}",
                    fix="Give the engine's log: memory that is shared with the host is not counted here.",
                )
            used, total = (int(each) * _MIB for each in use.groups()[:2])
            samples.append(_MonitorSample(where=where, device=device, used_bytes=used, total_bytes=total))
            device = ""
    return _reported(samples, what="nvidia-smi", file=file, date=date)


def _rows(text: str, file: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of a CSV that are not empty, each with its file and line."""
    rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        for row in rows:
            if row:
                yield f"{file}:{rows.line_num}", row
    except csv.Error as error:
        raise InputError(
            field=f"{file}:{rows.line_num}", value=str(error), problem="is not CSV", fix="Write the file again."
        ) from error


def _smi_sample(head: Sequence[str], row: Sequence[str], where: str) -> _MonitorSample:
    if len(row) != len(head):
        raise _cut(where, row)
    cells = dict(zip(head, row, strict=True))
    used, total = (_first(cells, names) for names in (_USED, _TOTAL))
    assert used is not None, head
    return _MonitorSample(
        where=where,
        device=_first(cells, _DEVICE) or "0",
        used_bytes=_mib(used, where),
        total_bytes=None if total is None else _mib(total, where),
    )


def _first(cells: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((cells[each] for each in names if each in cells), None)


def read_dcgm(text: str, *, file: str, date: datetime.date) -> EngineMemory:
    """Read a page of dcgm-exporter, `dcgmi dmon` (columns FBTTL, FBUSD) or a CSV with DCGM_FI_DEV_FB_USED."""
    if _DCGM_PAGE.search(text):
        samples = list(_dcgm_page(text, file))
    else:
        samples = list(_dmon(text, file) if re.search(r"(?m)^#?\s*Entity\b", text) else _dcgm_csv(text, file))
    return _reported(samples, what="DCGM", file=file, date=date)


def _dcgm_page(text: str, file: str) -> Iterator[_MonitorSample]:
    """Samples of the frame buffer, scrape after scrape; a device's total is what is used, free and reserved together.

    A scrape begins where a device's use is stated again.
    """
    from prometheus_client.parser import text_string_to_metric_families

    # The parser wants each family once: several scrapes are read one at a time.
    head = "# HELP DCGM_FI_DEV_FB_USED"
    parts = text.split(head) if text.count(head) > 1 else [text]
    pages = parts if len(parts) == 1 else [f"{head}{part}" for part in parts[1:]]
    for page in pages:
        found: dict[str, dict[str, float]] = {}
        try:
            for family in text_string_to_metric_families(page):
                for sample in family.samples:
                    if sample.name.startswith("DCGM_FI_DEV_FB_"):
                        device = sample.labels.get("gpu") or sample.labels.get("UUID") or "0"
                        found.setdefault(device, {})[sample.name.removeprefix("DCGM_FI_DEV_FB_")] = sample.value
        except (ValueError, IndexError, KeyError) as error:
            raise InputError(
                field=file, value=str(error)[:80], problem="is not a page of metrics", fix="Scrape it again."
            ) from None
        for device, values in sorted(found.items()):
            if "USED" in values:
                yield _page_sample(file, device, values)


def _page_sample(file: str, device: str, values: Mapping[str, float]) -> _MonitorSample:
    amounts = {name: _mib(f"{value:g}" if value < 1e5 else str(round(value)), file) for name, value in values.items()}
    parts = [amounts[name] for name in ("USED", "FREE", "RESERVED") if name in amounts]
    total = amounts.get("TOTAL", sum(parts) if "FREE" in amounts else None)
    return _MonitorSample(where=file, device=device, used_bytes=amounts["USED"], total_bytes=total)


def _dmon(text: str, file: str) -> Iterator[_MonitorSample]:
    head: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if "FBUSD" in words:
            head = [reported for reported in words if reported not in ("#", "#Entity")]
            head = head if head[0] == "Entity" else ["Entity", *head]
        elif words and words[0] in ("GPU", "I-GPU", "CI") and head:
            cells = words[2:]
            if len(cells) != len(head) - 1:
                raise _cut(f"{file}:{number}", words)
            values = dict(zip(head[1:], cells, strict=True))
            yield _MonitorSample(
                where=f"{file}:{number}",
                device=words[1],
                used_bytes=_mib(values["FBUSD"], f"{file}:{number}"),
                total_bytes=_mib(values["FBTTL"], f"{file}:{number}") if "FBTTL" in values else None,
            )


def _dcgm_csv(text: str, file: str) -> Iterator[_MonitorSample]:
    head: list[str] | None = None
    for where, row in _rows(text, file):
        if head is None:
            head = row if "DCGM_FI_DEV_FB_USED" in row else None
            continue
        if len(row) != len(head):
            raise _cut(where, row)
        cells = dict(zip(head, row, strict=True))
        free = cells.get("DCGM_FI_DEV_FB_FREE")
        used = _mib(cells["DCGM_FI_DEV_FB_USED"], where)
        yield _MonitorSample(
            where=where,
            device=cells.get("gpu", cells.get("GPU", cells.get("UUID", "0"))),
            used_bytes=used,
            total_bytes=None if free is None else used + _mib(free, where),
        )


def _reported(samples: Sequence[_MonitorSample], *, what: str, file: str, date: datetime.date) -> EngineMemory:
    if not samples:
        raise InputError(
            field=file, value="0 samples", problem=f"this {what} file holds no sample", fix="Let it run for a while."
        )
    devices: dict[str, list[_MonitorSample]] = {}
    for sample in samples:
        devices.setdefault(sample.device, []).append(sample)
    readings = []
    for device, own in sorted(devices.items()):
        rank = Rank(within=f"device {device}")
        peak = max(own, key=lambda sample: sample.used_bytes)
        totals = [sample for sample in own if sample.total_bytes is not None]
        stated = [("resident_peak", peak, peak.used_bytes), ("resident_last", own[-1], own[-1].used_bytes)]
        stated += [("device_memory", totals[-1], totals[-1].total_bytes or 0)] if totals else []
        for quantity, sample, value in stated:
            place = Source(what=f"{what}, device {device}", where=sample.where, date=date)
            readings.append(reading(quantity, value, rank, place))
    return engine_memory(engine="", version="", readings=readings)


def _mib(text: str, where: str) -> int:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:MiB)?\s*", text)
    if found is None:
        raise InputError(
            field=where, value=text, problem="is not a number of MiB", fix="Write the file again; it seems damaged."
        )
    return round(float(found[1]) * _MIB)


def _cut(where: str, row: Sequence[str]) -> InputError:
    return InputError(
        field=where,
        value=" ".join(row),
        problem="is a line cut short",
        fix="Drop the last line, or write the file again.",
    )
