"""What is read whole has a size: a device that never ends is refused where a file is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.bounded import bounded_bytes, bounded_text, first_bytes
from ullage.errors import InputError


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bill.csv"
    file.write_bytes(b"x" * 1024)
    assert bounded_bytes(file, fix="", most_bytes=1024) == b"x" * 1024
    with pytest.raises(InputError, match=r"--paid = '.*bill.csv'.*: is longer than 0 MiB. Cut it."):
        bounded_bytes(file, field="--paid", fix="Cut it.", most_bytes=1023)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no such device")
def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(InputError, match="'/dev/zero': is longer than 1 MiB"):
        bounded_bytes(Path("/dev/zero"), fix="", most_bytes=1 << 20)
    assert first_bytes(Path("/dev/zero"), 3) == b"\0\0\0"


def test_text_is_read_as_python_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffé\r\nb\rc\n".encode())
    for encoding in ("utf-8", "utf-8-sig"):
        assert bounded_text(file, fix="", encoding=encoding) == file.read_text(encoding=encoding)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnicodeDecodeError):
        bounded_text(file, fix="")
