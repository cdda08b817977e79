"""A log as text: what is too large, empty or binary is refused before anything looks for lines in it."""

from __future__ import annotations

from pathlib import Path

from ullage.errors import InputError

# A start-up takes a few hundred kilobytes; what is larger than this is a day of requests, and should be cut.
MOST_BYTES = 1 << 30


def log_text(path: Path) -> str:
    """The text of a log, or an InputError that says why there is none."""
    try:
        size = path.stat().st_size
        raw = b"" if size > MOST_BYTES else path.read_bytes()
    except OSError as error:
        raise InputError(
            field=str(path), value=error.strerror or "", problem="cannot be read", fix="Check the path."
        ) from error
    if size > MOST_BYTES:
        fix = "Cut it after the engine is ready: head -n 100000."
        raise InputError(field=path.name, value=f"{size} bytes", problem="is too large for a start-up log", fix=fix)
    if not raw.strip():
        raise InputError(field=path.name, value="", problem="is empty", fix="Give the log of an engine's start.")
    if b"\x00" in raw[:65536]:
        fix = "Give the log as text; unpack it first if it is compressed."
        raise InputError(field=path.name, value=raw[:8], problem="is binary, not text", fix=fix)
    text = raw.decode("utf-8", errors="replace")
    if text.count("\ufffd") > len(text) // 20:
        raise InputError(
            field=path.name, value=raw[:8], problem="is not text", fix="Give the log as UTF-8 text, unpacked."
        )
    return text
