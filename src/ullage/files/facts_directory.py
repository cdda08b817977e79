"""A user's own facts: a directory with folders devices/, models/, engines/, startups/, operations/, prices/ of TOML.

    my-facts/
      devices/h100-sxm.toml      one value of ours replaced
      devices/x9.toml            a device we do not know

What the files say is checked where they are laid over ours; here only the names are.
"""

from __future__ import annotations

from pathlib import Path

from ullage.bounded import bounded_text
from ullage.errors import InputError, check_name

# The largest of ours has 20 KB.
_MOST_BYTES = 16 << 20
FOLDERS = ("devices", "engines", "models", "operations", "prices", "startups")


def read_facts_directory(directory: Path) -> dict[str, dict[str, str]]:
    """Folder -> file name -> text. A stray folder or file is an error, since it would silently not count."""
    if not directory.is_dir():
        raise InputError(
            field="facts", value=str(directory), problem="is not a directory", fix=f"Give one with {_folders()} in it."
        )
    found: dict[str, dict[str, str]] = {}
    for folder in _visible(directory):
        if not folder.is_dir():
            fix = f"Put facts into {_folders()}."
            raise InputError(field="facts", value=folder.name, problem="does not lie in a folder of facts", fix=fix)
        check_name(folder.name, FOLDERS, field=f"facts: folder of {directory.name}")
        found[folder.name] = {file.name: _text(file) for file in _visible(folder)}
    if not any(found.values()):
        raise InputError(
            field="facts", value=str(directory), problem="holds no facts", fix=f"Put TOML files into {_folders()}."
        )
    return found


def _text(file: Path) -> str:
    if file.suffix != ".toml":
        fix = "Facts are TOML files; see docs/howto/add-a-device.md."
        raise InputError(field="facts", value=f"{file.parent.name}/{file.name}", problem="is not a .toml file", fix=fix)
    try:
        return bounded_text(file, field="facts", fix="Fix the file.", most_bytes=_MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            field=f"facts: {file.parent.name}/{file.name}",
            value=str(error),
            problem="cannot be read",
            fix="Fix the file.",
        ) from error


def _visible(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if not path.name.startswith("."))


def _folders() -> str:
    return ", ".join(f"{folder}/" for folder in FOLDERS)
