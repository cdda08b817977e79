"""The only place that writes files: whole or not at all, into regular files, and over an existing one only if told to.

A reader never meets half of a file and a full disk loses nothing. A symbolic link is followed and stays a link, an
existing file keeps its mode, and a device, a pipe or a folder is refused before anything is done to it.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ullage.errors import InputError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# What a new file is allowed before the user's umask takes its part away.
_NEW_MODE = 0o666


def check_target(file: Path, *, field: str, force: bool = False) -> None:
    """Refuse now what `write_whole` would refuse after the work is done."""
    _target(file, field, force=force)


def make_folder(folder: Path, *, field: str) -> None:
    """A folder for files of ours, and those above it; one that cannot be made is an InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, field, error) from None


def write_whole(file: Path, text: str | Iterable[str], *, field: str, force: bool = False) -> None:
    """Write beside the file and put it in its place in one move; what cannot be written is an InputError."""
    target, mode = _target(file, field, force=force)
    beside = target.with_name(f".ullage-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        _fill(beside, text, mode)
        os.replace(beside, target)
    except OSError as error:
        raise _unwritable(file, field, error) from None
    finally:
        # After the move there is nothing left to remove; after a fault or Ctrl-C nothing half-written stays.
        beside.unlink(missing_ok=True)


def check_folder(folder: Path, *, field: str) -> None:
    """Refuse now a folder that `write_set` could neither use nor make."""
    if folder.exists() and not folder.is_dir():
        fix = "Give the name of a folder."
        raise InputError(field=field, value=str(folder), problem="is not a folder", fix=fix)
    if not folder.exists() and not Path(os.path.realpath(folder)).parent.is_dir():
        fix = f"Make the folder {folder.parent} first, or give another place."
        raise InputError(field=field, value=str(folder), problem="lies in no existing folder", fix=fix)


def write_set(folder: Path, texts: Mapping[str, str], *, field: str, force: bool = False) -> None:
    """Write several files into one folder, all of them or none: what was replaced is put back after a fault.

    The folder is made where its own folder is there.
    """
    check_folder(folder, field=field)
    made = not folder.exists()
    if made:
        try:
            folder.mkdir()
        except OSError as error:
            raise _unwritable(folder, field, error) from None
    was: dict[Path, bytes | None] = {}
    try:
        for name in texts:
            check_target(folder / name, field=field, force=force)
        was |= {folder / name: _content(folder / name) for name in texts}
        for name, text in texts.items():
            write_whole(folder / name, text, field=field, force=force)
    except BaseException:
        for file, content in was.items():
            with suppress(OSError):
                _put_back(file, content)
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _put_back(file: Path, content: bytes | None) -> None:
    """A file as it was: absent, or with what it held."""
    if content is None:
        file.unlink(missing_ok=True)
    elif file.read_bytes() != content:
        file.write_bytes(content)


def _fill(beside: Path, text: str | Iterable[str], mode: int | None) -> None:
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_MODE)
    # File names of other encodings arrive as lone surrogates, and leave as the bytes that they were.
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as out:
        if mode is not None:
            os.fchmod(descriptor, mode)
        out.writelines([text] if isinstance(text, str) else text)
        out.flush()
        os.fsync(descriptor)


def _target(file: Path, field: str, *, force: bool) -> tuple[Path, int | None]:
    """The regular file behind the name, and the mode to keep; None where there is no file yet."""
    try:
        found = os.stat(file)
    except FileNotFoundError:
        folder = Path(os.path.realpath(file)).parent
        if not folder.is_dir():
            fix = f"Make the folder {folder} first, or give another place."
            raise InputError(field=field, value=str(file), problem="lies in no existing folder", fix=fix) from None
        return Path(os.path.realpath(file)), None
    except (OSError, ValueError) as error:
        raise _unwritable(file, field, error) from None
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "not a regular file")
        fix = "Give the name of a regular file."
        raise InputError(field=field, value=str(file), problem=f"is {kind}, which is not replaced", fix=fix)
    if not force:
        fix = "Give another name, or --force to replace it."
        raise InputError(field=field, value=str(file), problem="exists already", fix=fix)
    if not os.access(file, os.W_OK):
        fix = "Give another name, or make it writable."
        raise InputError(field=field, value=str(file), problem="is write-protected", fix=fix)
    return Path(os.path.realpath(file)), stat.S_IMODE(found.st_mode)


def _unwritable(file: Path, field: str, error: OSError | ValueError) -> InputError:
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    fix = "Free some space, or give another place." if "space" in reason else "Give another place."
    return InputError(field=field, value=str(file), problem=f"cannot be written ({reason})", fix=fix)
