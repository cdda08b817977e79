"""Files that clients send: written as they arrive, counted as they arrive, and refused as soon as they are too much.

An upload is called by its content, so that equal ones are one file and equal requests one job. Knowing a name is not
enough to use it: only who sent the content owns it. What a client calls its file is shown, and never used as a path.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ullage.foreign import visible
from ullage.serve.disk import arriving, give_name, remove_upload
from ullage.serve.problems import ProblemError
from ullage.serve.runner import Runner, ServedWork
from ullage.serve.settings import ServeLimits
from ullage.serve.tasks import PARQUET, PROBLEM

# Endings that readers go by; any other file is taken without one.
_ENDINGS = re.compile(r"((?:\.(?:csv|tsv|json|jsonl|ndjson|log|txt|yaml|yml|parquet|prom|html|md))?(?:\.gz)?)$")
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
# What no reader takes, or nothing here can measure: zip, xz, bzip2, zstd, 7z, rar, tar comes in those.
_PACKED = (b"PK\x03\x04", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")
_HEAD_BYTES = 8
# Below so much a ratio says nothing: a short header packs well.
_RATIO_FROM_BYTES = 1 << 20
_MOST_NAME = 200


@dataclass(frozen=True, kw_only=True)
class StoredUpload:
    """One file of one principal; `title` is what its sender calls it."""

    name: str
    title: str
    size_bytes: int
    unpacked_bytes: int
    rows: int
    sent_s: float

    def document(self) -> dict[str, Any]:
        return {
            "upload": self.name,
            "title": self.title,
            "bytes": self.size_bytes,
            "unpacked_bytes": self.unpacked_bytes,
            "rows": self.rows,
            "sent": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.sent_s)),
        }


class Measure:
    """What has arrived so far, and what it unpacks to; more than a limit is a problem at once."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self._digest = hashlib.sha256()
        self._head = b""
        self._inflate: Any = None
        self._is_whole = True
        self.size_bytes = self.unpacked_bytes = self.rows = 0

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()[:32]

    @property
    def is_parquet(self) -> bool:
        return self._head.startswith(_PARQUET)

    def take(self, part: bytes) -> None:
        """The next part of the file."""
        if len(self._head) < _HEAD_BYTES:
            self._begin(part)
        self._digest.update(part)
        self.size_bytes += len(part)
        if self.size_bytes > self._limits.upload_bytes:
            raise too_large(self._limits.upload_bytes)
        if self._inflate is None:
            self._count(part)
        else:
            self._unpack(part)

    def _begin(self, part: bytes) -> None:
        is_first = not self._head
        self._head = (self._head + part)[:_HEAD_BYTES]
        if self._head.startswith(_PACKED):
            raise ProblemError("wrong-type", "Archives are not taken. Send the file itself, plain or with gzip.")
        if is_first and self._head.startswith(_GZIP):
            self._inflate = zlib.decompressobj(wbits=31)

    def _unpack(self, part: bytes) -> None:
        rest = part
        while rest:
            try:
                self._count(self._inflate.decompress(rest, 1 << 20))
            except zlib.error:
                raise _damaged() from None
            rest = self._inflate.unconsumed_tail
            self._is_whole = self._inflate.eof
            if self._is_whole:
                # Another member may follow; each is unpacked like the first.
                rest = self._inflate.unused_data
                self._inflate = zlib.decompressobj(wbits=31)

    def finish(self) -> None:
        """No more is to come."""
        if not self.size_bytes:
            raise ProblemError("not-understood", "The upload is empty.")
        if self._inflate is not None and not self._is_whole:
            raise _damaged()

    def _count(self, part: bytes) -> None:
        limits = self._limits
        self.unpacked_bytes += len(part)
        self.rows += part.count(b"\n")
        packed = max(self.size_bytes, 1)
        if self.unpacked_bytes > _RATIO_FROM_BYTES and self.unpacked_bytes > limits.unpack_ratio * packed:
            raise ProblemError("too-large", f"It unpacks to more than {limits.unpack_ratio:g} times its size.")
        if self.unpacked_bytes > limits.unpacked_bytes:
            raise ProblemError("too-large", f"It unpacks to more than {limits.unpacked_bytes} bytes.")
        if self.rows > limits.rows and not self.is_parquet:
            raise ProblemError("too-large", f"It has more than {limits.rows} rows.")


class Uploads:
    """The files of all principals, in one folder of the service's own."""

    def __init__(self, folder: Path, limits: ServeLimits, runner: Runner) -> None:
        self._folder, self._limits, self._runner = folder, limits, runner
        self._owned: dict[str, dict[str, StoredUpload]] = {}
        # What has arrived so far of uploads under way, by principal: many at once are no way around their room.
        self._arriving: dict[str, list[Measure]] = {}

    async def store(self, parts: AsyncIterator[bytes], *, title: str, owner: str) -> StoredUpload:
        """Write a file as it arrives; what is refused leaves nothing behind."""
        self._check_room(owner)
        found = Measure(self._limits)
        self._arriving.setdefault(owner, []).append(found)
        try:
            with arriving(self._folder) as (place, file):
                async with asyncio.timeout(self._limits.upload_s):
                    async for part in parts:
                        await asyncio.to_thread(_take, found, file, part)
                        self._check_bytes(owner)
                found.finish()
                file.flush()
                name = f"u{found.digest}{_ending(title)}"
                give_name(place, self._folder / name)
            if found.is_parquet:
                await self._check_parquet(name)
        except TimeoutError:
            raise ProblemError("too-slow", f"The upload took longer than {self._limits.upload_s:g} s.") from None
        finally:
            self._arriving[owner].remove(found)
            if not self._arriving[owner]:
                del self._arriving[owner]
        upload = StoredUpload(
            name=name,
            title=visible(title)[:_MOST_NAME],
            size_bytes=found.size_bytes,
            unpacked_bytes=found.unpacked_bytes,
            rows=found.rows,
            sent_s=time.time(),
        )
        self._owned.setdefault(owner, {})[name] = upload
        return upload

    def of(self, owner: str) -> list[StoredUpload]:
        """The newest first."""
        return sorted(self._owned.get(owner, {}).values(), key=lambda each: -each.sent_s)

    def owned(self, names: frozenset[str], owner: str) -> frozenset[str]:
        """Of these names, the uploads of this principal."""
        return frozenset(names & self._owned.get(owner, {}).keys())

    def remove(self, name: str, owner: str) -> None:
        """Forget an upload; its file goes with its last owner."""
        if self._owned.get(owner, {}).pop(name, None) is None:
            raise ProblemError("not-found", "There is no such upload of yours.")
        if not any(name in each for each in self._owned.values()):
            remove_upload(self._folder / name)

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for owned in self._owned.values() for each in owned.values())

    async def _check_parquet(self, name: str) -> None:
        """Parquet says how much it unpacks to; one that does not, or that says too much, is not kept."""
        work = ServedWork(verb=PARQUET, request={"file": name}, uploads=frozenset({name}), is_urgent=True)
        ending = await self._runner.run(work, seconds=self._limits.evaluation_s)
        said = json.loads(ending.body)
        if ending.kind == PROBLEM or said["bytes"] > self._limits.unpacked_bytes or said["rows"] > self._limits.rows:
            if not any(name in each for each in self._owned.values()):
                remove_upload(self._folder / name)
            if ending.kind == PROBLEM:
                raise ProblemError("wrong-type", "It begins like Parquet, and cannot be read.")
            detail = f"It holds more than {self._limits.unpacked_bytes} bytes or {self._limits.rows} rows."
            raise ProblemError("too-large", detail)

    def _check_room(self, owner: str) -> None:
        if len(self.of(owner)) + len(self._arriving.get(owner, ())) >= self._limits.uploads:
            raise _no_room()
        self._check_bytes(owner)

    def _check_bytes(self, owner: str) -> None:
        sizes = (each.size_bytes for each in (*self.of(owner), *self._arriving.get(owner, ())))
        if sum(sizes) > self._limits.uploads_bytes:
            raise _no_room()


def _no_room() -> ProblemError:
    return ProblemError("too-many", "You have as many uploads as there is room for. Delete some.", retry_after_s=60)


def too_large(most_bytes: int) -> ProblemError:
    """A body that is longer than it may be."""
    return ProblemError("too-large", f"It is longer than {most_bytes} bytes.")


def _damaged() -> ProblemError:
    return ProblemError("wrong-type", "It begins like gzip, and is damaged or cut short.")


def _take(found: Measure, file: Any, part: bytes) -> None:
    found.take(part)
    file.write(part)


def _ending(title: str) -> str:
    """The ending of a client's name that readers know, in lower case.

    >>> [_ending(each) for each in ("a/Trace.CSV.gz", "../../etc/passwd", "x.exe", "run.json")]
    ['.csv.gz', '', '', '.json']
    """
    found = _ENDINGS.search(title.lower())
    return "" if found is None else found[1]
