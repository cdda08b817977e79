"""What engines report about memory: start-up logs, metrics pages, device monitors.

`ENGINE_READERS` lists every format by hand; the first that recognises a file reads it. A file is one
replica's: several files of it are read together by `read_engine_reports`, and must not disagree.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ullage.documents import reading
from ullage.errors import InputError
from ullage.memory.engine_report import EngineMemory, merge
from ullage.readers import misplaced
from ullage.readers.engines import device_monitor, metrics, sglang, tensorrt_llm, vllm
from ullage.readers.engines.lines import LogFormat, read_log, recognises
from ullage.readers.engines.text import log_text


class _Read(Protocol):
    def __call__(self, text: str, *, file: str, date: datetime.date) -> EngineMemory: ...


@dataclass(frozen=True, kw_only=True)
class EngineReader:
    """One format: how it is told from the others, and how it is read. `engine` is empty for a device monitor."""

    engine: str
    recognises: Callable[[str], bool]
    read: _Read


def _log(log: LogFormat) -> EngineReader:
    def read(text: str, *, file: str, date: datetime.date) -> EngineMemory:
        return read_log(log, text, file=file, date=date)

    return EngineReader(engine=log.engine, recognises=lambda text: recognises(log, text), read=read)


ENGINE_READERS: dict[str, EngineReader] = {
    "nvidia-smi": EngineReader(
        engine="", recognises=device_monitor.recognises_nvidia_smi, read=device_monitor.read_nvidia_smi
    ),
    "dcgm": EngineReader(engine="", recognises=device_monitor.recognises_dcgm, read=device_monitor.read_dcgm),
    "metrics": EngineReader(engine="", recognises=metrics.recognises, read=metrics.read),
    "vllm": _log(vllm.LOG),
    "sglang": _log(sglang.LOG),
    "tensorrt-llm": _log(tensorrt_llm.LOG),
    # The last: a log may begin with this table.
    "nvidia-smi table": EngineReader(
        engine="",
        recognises=device_monitor.recognises_nvidia_smi_table,
        read=device_monitor.read_nvidia_smi_table,
    ),
}


def read_engine_reports(paths: Sequence[Path], *, date: datetime.date, engine: str = "") -> EngineMemory:
    """What several files of one replica say. `date` is the day they are of, since many logs state no year."""
    return merge([read_engine_report(path, date=date, engine=engine) for path in paths])


def read_engine_report(path: Path, *, date: datetime.date, engine: str = "") -> EngineMemory:
    """What one file says; with `engine`, a file of another engine is refused."""
    text = log_text(path)
    name = path.name
    reader = next((reader for reader in ENGINE_READERS.values() if reader.recognises(text)), None)
    if reader is None:
        raise misplaced(path, asked="engine log") or InputError(
            field=name,
            value=text[:60],
            problem="is not a log, a metrics page or a monitor's file that we know",
            fix=f"Known: {', '.join(ENGINE_READERS)}. See docs/howto/read-engine-logs.md.",
        )
    with reading(name, fix="Give the file as the engine or the monitor wrote it."):
        reported = reader.read(text, file=name, date=date)
    if engine and reported.engine and reported.engine != engine:
        raise InputError(
            field=name,
            value=reported.engine,
            problem=f"is of {reported.engine}, not of {engine}",
            fix=f"Give {engine}'s log.",
        )
    return reported
