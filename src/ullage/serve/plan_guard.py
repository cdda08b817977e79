"""Keys of a plan that name files: over the network they may name uploads, and nothing else.

Everything that a plan file points to is read relative to it (load/plan.py). A request's plan lies in a folder of its
own, beside links to the uploads of whoever asked; a name that is not one of those is refused before anything is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.errors import InputError

UPLOAD = re.compile(r"^u[0-9a-f]{32}(\.[a-z0-9]{1,8}){0,2}$")
"""What an upload is called: by its content, with the endings that readers go by."""

# Keys without the places of list entries. A model may be a name of the catalogue or an upload.
FILE_KEYS = frozenset(
    {
        "workload.trace",
        "workload.lengths",
        "workload.profile",
        "workload.synthetic",
        "prices.files.path",
        *(
            f"{owner}evidence.{each}"
            for owner in ("", "pool.", "pools.")
            for each in ("load_tests", "calibrations", "step_profile", "engine_logs", "startup_logs", "validated")
        ),
    }
)
MODEL_KEYS = frozenset(
    {"pool.model", "pools.model", "pool.speculation.draft", "pools.speculation.draft", "options.models"}
)
FOLDER_KEYS = frozenset({"facts"})
# Words that stand for an installed package and not for a file.
_PACKAGES = {"step_profile": ("aiconfigurator", "aisimulate"), "path": ("litellm",)}
_FIX = "Upload the file first (POST /v1/uploads), and give the name that it answers."


def check_plan(content: Any, uploads: frozenset[str]) -> None:
    """Refuse a plan that names a file which is not one of these uploads."""
    for key, value in _leaves(content, ()):
        check_value(".".join(key), value, uploads)


def check_value(key: str, value: Any, uploads: frozenset[str]) -> None:
    """Refuse what this key must not say; keys that name no file may say anything."""
    if not isinstance(value, str):
        return
    if key in FOLDER_KEYS:
        fix = "Leave it out; whoever runs the service may give it facts."
        raise InputError(field=key, value=value, problem="is a folder, and a request has none", fix=fix)
    if key in FILE_KEYS and value not in _PACKAGES.get(key.rpartition(".")[2], ()):
        check_upload(key, value, uploads)
    # Models to compare stand below the names of their pools.
    if key in MODEL_KEYS or key.startswith("options.models."):
        check_model(key, value, uploads)


def check_model(key: str, value: str, uploads: frozenset[str]) -> None:
    """A model is an upload, or a name that no file system would take for a path out of its folder."""
    if value in uploads:
        return
    parts = re.split(r"[/\\]", value)
    if value.startswith(("/", "~")) or ".." in parts or "." in parts or value.endswith(".json") or "\0" in value:
        raise InputError(field=key, value=value, problem="is a path, and a request has no files", fix=_FIX)


def check_upload(key: str, value: str, uploads: frozenset[str]) -> None:
    """A file is one of these uploads."""
    if value not in uploads:
        problem = "is not an upload of yours" if UPLOAD.match(value) else "is a path, and a request has no files"
        raise InputError(field=key, value=value, problem=problem, fix=_FIX)


def named_uploads(value: Any) -> frozenset[str]:
    """Every text in a request that looks like an upload's name, also inside the text of a plan file."""
    found: set[str] = set()
    for text in _texts(value):
        found.update(each for each in re.findall(r"u[0-9a-f]{32}(?:\.[a-z0-9]{1,8}){0,2}", text))
    return frozenset(found)


def _leaves(value: Any, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Values by the names of the keys above them; the entries of a list stand where the list stands."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, (*key, str(name)))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            yield from _leaves(each, key)
    else:
        yield key, value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)
