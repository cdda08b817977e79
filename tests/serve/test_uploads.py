"""Uploads: what is too much is refused while it arrives, and nothing of it stays."""

from __future__ import annotations

import asyncio
import gzip
import io
import zipfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from ullage.serve.plan_guard import UPLOAD
from ullage.serve.problems import ProblemError
from ullage.serve.runner import Runner
from ullage.serve.settings import ServeLimits, ServeSettings
from ullage.serve.uploads import StoredUpload, Uploads

LIMITS = ServeLimits(upload_bytes=1 << 20, unpacked_bytes=8 << 20, rows=1000, uploads=3)
ROWS = b"arrival_s,prompt_tokens,output_tokens\n0.5,100,20\n1.5,120,30\n"


def stored(
    folder: Path,
    parts: Iterable[bytes],
    *,
    title: str = "trace.csv",
    owner: str = "alice",
    limits: ServeLimits = LIMITS,
) -> StoredUpload:
    return asyncio.run(desk(folder, limits).store(arriving(parts), title=title, owner=owner))


def desk(folder: Path, limits: ServeLimits = LIMITS) -> Uploads:
    return Uploads(folder, limits, Runner(ServeSettings(folder=folder)))


async def arriving(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for each in parts:
        yield each


def test_an_upload_is_called_by_its_content(tmp_path: Path) -> None:
    whole = stored(tmp_path, [ROWS])
    in_parts = stored(tmp_path, [ROWS[:7], ROWS[7:]], title="another name.csv", owner="bob")
    assert whole.name == in_parts.name
    assert UPLOAD.match(whole.name)
    assert (tmp_path / whole.name).read_bytes() == ROWS
    assert (whole.rows, whole.size_bytes) == (3, len(ROWS))
    assert stored(tmp_path, [ROWS + b"2,1,1\n"]).name != whole.name


@pytest.mark.parametrize(
    "title",
    ["../../etc/passwd", "/etc/passwd", "a\0b.csv", "..", "<script>alert(1)</script>.csv", "x" * 5000, "a/b\\c.json"],
)
def test_what_a_client_calls_its_file_is_never_a_path(title: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    found = stored(folder, [ROWS], title=title)
    assert UPLOAD.match(found.name)
    assert [each.name for each in folder.iterdir()] == [found.name]
    assert list(tmp_path.iterdir()) == [folder]
    assert "\0" not in found.title
    assert len(found.title) <= 200


def test_a_bomb_is_refused_long_before_it_is_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(b"0" * (64 << 20), 9)
    assert len(packed) < LIMITS.upload_bytes
    with pytest.raises(ProblemError, match="times its size"):
        stored(tmp_path, [packed], title="t.csv.gz", limits=replace(LIMITS, rows=10**9, unpacked_bytes=1 << 30))
    slow = gzip.compress(bytes(range(256)) * (40 << 10), 1)
    with pytest.raises(ProblemError, match="unpacks to more than"):
        stored(tmp_path, [slow], title="t.csv.gz", limits=replace(LIMITS, unpack_ratio=1e9, rows=10**9))
    assert list(tmp_path.iterdir()) == []


def test_bombs_in_the_second_part_of_a_file_are_found_too(tmp_path: Path) -> None:
    packed = gzip.compress(ROWS) + gzip.compress(b"0" * (64 << 20), 9)
    with pytest.raises(ProblemError, match="times its size"):
        stored(tmp_path, [packed], limits=replace(LIMITS, rows=10**9, unpacked_bytes=1 << 30))


def test_too_many_rows_are_refused_plain_and_packed(tmp_path: Path) -> None:
    rows = b"1,2,3\n" * 2000
    for each in (rows, gzip.compress(rows)):
        with pytest.raises(ProblemError, match="more than 1000 rows"):
            stored(tmp_path, [each])
    assert list(tmp_path.iterdir()) == []


def test_a_long_file_is_refused_where_it_becomes_too_long(tmp_path: Path) -> None:
    taken: list[int] = []

    def endless() -> Iterable[bytes]:
        for number in range(10_000):
            taken.append(number)
            yield b"x" * (1 << 16)

    with pytest.raises(ProblemError, match="longer than"):
        stored(tmp_path, endless())
    assert len(taken) == (LIMITS.upload_bytes >> 16) + 1
    assert list(tmp_path.iterdir()) == []


def test_archives_are_not_taken(tmp_path: Path) -> None:
    sheet = io.BytesIO()
    with zipfile.ZipFile(sheet, "w") as archive:
        archive.writestr("../../etc/cron.d/x", "boom")
    zstd = b"\x28\xb5\x2f\xfd" + b"\0" * 40
    for packed in (sheet.getvalue(), b"BZh91AY", b"\xfd7zXZ\x00\x00", zstd):
        with pytest.raises(ProblemError, match="Archives"):
            stored(tmp_path, [packed], title="trace.csv")
    with pytest.raises(ProblemError, match="damaged"):
        stored(tmp_path, [gzip.compress(ROWS)[:-12]])
    with pytest.raises(ProblemError, match="damaged"):
        stored(tmp_path, [gzip.compress(ROWS) + b"junk" * 20])
    with pytest.raises(ProblemError, match="empty"):
        stored(tmp_path, [])


def test_an_upload_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield ROWS
        await asyncio.sleep(60.0)

    uploads = desk(tmp_path, replace(LIMITS, upload_s=0.05))
    with pytest.raises(ProblemError, match="took longer"):
        asyncio.run(uploads.store(slow(), title="t.csv", owner="alice"))
    assert list(tmp_path.iterdir()) == []


def test_knowing_a_name_is_not_owning_it(tmp_path: Path) -> None:
    async def go() -> None:
        uploads = desk(tmp_path)
        first = await uploads.store(arriving([ROWS]), title="t.csv", owner="alice")
        names = frozenset({first.name})
        assert uploads.owned(names, "alice") == names
        assert uploads.owned(names, "bob") == frozenset()
        with pytest.raises(ProblemError):
            uploads.remove(first.name, "bob")
        await uploads.store(arriving([ROWS]), title="t.csv", owner="bob")
        uploads.remove(first.name, "alice")
        assert (tmp_path / first.name).exists()
        uploads.remove(first.name, "bob")
        assert not (tmp_path / first.name).exists()

    asyncio.run(go())


def test_one_principal_has_only_so_much_room(tmp_path: Path) -> None:
    async def go() -> None:
        uploads = desk(tmp_path)
        for number in range(3):
            await uploads.store(arriving([ROWS, b"%d,1,1\n" % number]), title="t.csv", owner="alice")
        with pytest.raises(ProblemError, match="as many uploads"):
            await uploads.store(arriving([ROWS]), title="t.csv", owner="alice")
        await uploads.store(arriving([ROWS]), title="t.csv", owner="bob")

    asyncio.run(go())


def test_uploads_that_arrive_at_once_are_no_way_around_that_room(tmp_path: Path) -> None:
    few = replace(LIMITS, uploads=64, uploads_bytes=3 << 10)

    async def slowly(number: int) -> AsyncIterator[bytes]:
        for _ in range(8):
            await asyncio.sleep(0)
            yield b"%03d," % number * 128

    async def go() -> None:
        uploads = desk(tmp_path, few)
        sent = (uploads.store(slowly(each), title="t.csv", owner="alice") for each in range(16))
        ended = await asyncio.gather(*sent, return_exceptions=True)
        assert all(isinstance(each, StoredUpload | ProblemError) for each in ended)
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= few.uploads_bytes
        # What was refused takes no room.
        await uploads.store(arriving([ROWS]), title="t.csv", owner="bob")
        for each in uploads.of("alice"):
            uploads.remove(each.name, "alice")
        await uploads.store(arriving([b"x" * (3 << 10)]), title="t.csv", owner="alice")

    asyncio.run(go())
