"""A log as text: what is too large, empty or binary is refused before anything looks for lines in it."""

from __future__ import annotations

import zlib
from pathlib import Path

from ullage.bounded import MOST_BYTES, bounded_bytes
from ullage.errors import InputError


def log_text(path: Path) -> str:
    """The text of a log, or an InputError that says why there is none."""
    try:
        raw = bounded_bytes(path, fix="Cut it after the engine is ready: head -n 100000.")
    except OSError as error:
        raise InputError(
            field=str(path), value=error.strerror or "", problem="cannot be read", fix="Check the path."
        ) from error
    raw = _unpacked(raw, path.name)
    if not raw.strip():
        raise InputError(field=path.name, value="", problem="is empty", fix="Give the log of an engine's start.")
    if b"\x00" in raw[:65536]:
        fix = "Give the log as UTF-8 text, plain or packed by gzip."
        raise InputError(field=path.name, value=raw[:8], problem="is binary, not text", fix=fix)
    text = raw.decode("utf-8", errors="replace")
    if text.count("\ufffd") > len(text) // 20:
        raise InputError(
            field=path.name, value=raw[:8], problem="is not text", fix="Give the log as UTF-8 text, unpacked."
        )
    return text


def _unpacked(raw: bytes, name: str) -> bytes:
    """What gzip packed, as rotated logs are, within the size that a log may have; other bytes as they are."""
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = unpack.decompress(raw, MOST_BYTES)
    except zlib.error as error:
        fix = "Copy it again; gzip -t tests it."
        raise InputError(field=name, value=str(error), problem="is damaged gzip", fix=fix) from None
    if not unpack.eof:
        problem = "unpacks to too much for a start-up log" if unpack.unconsumed_tail else "is a gzip that is cut short"
        raise InputError(
            field=name, value=f"{len(raw)} bytes", problem=problem, fix="Give the whole start, and no more."
        )
    return found
