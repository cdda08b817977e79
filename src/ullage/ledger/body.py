"""What an entry says, as canonical JSON: its digest is its name, so that the same thing is kept once.

The bytes are keys in order, no blanks, UTF-8; the digest is SHA-256 over them. They are compressed with zlib on disk,
which changes no digest.
"""

from __future__ import annotations

import enum
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ullage.errors import InputError

_FIX = "Give a file that ullage ledger export wrote."


class EntryKind(enum.StrEnum):
    """What can be kept."""

    PLAN = "plan"
    FORECAST_SCORES = "forecast scores"
    OBSERVATION = "observation"
    BILL = "bill"
    RECONCILIATION = "reconciliation"


@dataclass(frozen=True, kw_only=True)
class EntryBody:
    """One thing that is kept. `summary` is what a list prints of it; `about` are digests of entries that it is of."""

    kind: EntryKind
    service: str
    as_of: str
    summary: str
    content: Mapping[str, Any]
    about: tuple[str, ...] = ()

    @property
    def canonical(self) -> bytes:
        value = {
            "kind": self.kind.value,
            "service": self.service,
            "as_of": self.as_of,
            "summary": self.summary,
            "about": sorted(self.about),
            "content": self.content,
        }
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        # File names of other encodings arrive as lone surrogates, which UTF-8 does not have.
        return text.encode("utf-8", errors="backslashreplace")

    @property
    def digest(self) -> str:
        return digest_of(self.canonical)

    @property
    def packed(self) -> bytes:
        return zlib.compress(self.canonical, 6)


def digest_of(canonical: bytes) -> str:
    return hashlib.sha256(canonical).hexdigest()


def unpacked(packed: bytes) -> bytes:
    """The canonical bytes of a body; a ValueError where they cannot be unpacked."""
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise ValueError(str(error)) from None


def parse_body(canonical: bytes, *, where: str) -> EntryBody:
    """The entry that these bytes say, or an InputError where they say none."""
    try:
        value = json.loads(canonical)
        return EntryBody(
            kind=EntryKind(value["kind"]),
            service=str(value["service"]),
            as_of=str(value["as_of"]),
            summary=str(value["summary"]),
            about=tuple(str(each) for each in value["about"]),
            content=dict(value["content"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"is not a ledger entry ({error})"
        raise InputError(field=where, value=canonical[:40], problem=problem, fix=_FIX) from None
