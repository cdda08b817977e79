"""Opens a model's config: a file, or a directory with config.json in it, and `hf_quant_config.json` beside it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path

from ullage.bounded import bounded_bytes
from ullage.errors import InputError
from ullage.evidence import Source

CONFIG = "config.json"
BESIDE = "hf_quant_config.json"
_MOST_BYTES = 32 * 2**20


def config_path(path: Path) -> Path:
    """The config file that a user's path means."""
    found = path / CONFIG if path.is_dir() else path
    if not found.is_file():
        fix = "Give a config.json, or a directory that has one."
        problem = "has no config.json" if path.is_dir() else "does not exist"
        raise InputError(field="model", value=str(path), problem=problem, fix=fix)
    return found


def beside_path(path: Path) -> Path | None:
    """The quantisation file that belongs to a config: same name with `hf_quant_config.json` for `config.json`."""
    if not path.name.endswith(CONFIG) or path.name.endswith(BESIDE):
        return None
    found = path.with_name(path.name.removesuffix(CONFIG) + BESIDE)
    return found if found.is_file() else None


def read_object(path: Path) -> Mapping[str, object]:
    """A JSON object, in which Infinity and NaN may stand as Python writes them."""
    try:
        raw = bounded_bytes(path, fix="Give config.json, not a weights file.", most_bytes=_MOST_BYTES)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(
            field="model", value=str(path), problem=problem, fix="Check the path and its rights."
        ) from error
    try:
        found = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        fix = "Give config.json, not a weights file."
        raise InputError(field=path.name, value=raw[:16], problem="is not text", fix=fix) from error
    except RecursionError as error:
        raise InputError(
            field=path.name, value=raw[:16], problem="is nested too deep", fix="Give config.json."
        ) from error
    except ValueError as error:
        fix = "The file may be cut; download it again."
        raise InputError(field=path.name, value=str(error), problem="is not JSON", fix=fix) from error
    if not isinstance(found, dict):
        raise InputError(field=path.name, value=found, problem="is not a JSON object", fix="Give config.json.")
    return found


def source_of(path: Path) -> Source:
    """The file as a source, dated by its last change."""
    changed = datetime.datetime.fromtimestamp(path.stat().st_mtime, tz=datetime.UTC)
    return Source(what="model config", where=str(path), date=changed.date())
