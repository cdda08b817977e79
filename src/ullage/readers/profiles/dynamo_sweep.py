"""Dynamo's pre-deployment sweep as rows: the folder that its profiler writes, or one of the files in it.

    selected_prefill_interpolation/raw_data.npz   or prefill_raw_data.json   prompts alone, by length
    selected_decode_interpolation/raw_data.npz    or decode_raw_data.json    decode steps, by cache use and context

Times are in ms in the arrays and in the JSON that is made from them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ullage.bounded import bounded_text
from ullage.documents import json_value
from ullage.errors import InputError

_PLACES = (
    ("selected_prefill_interpolation/raw_data.npz", "prefill_raw_data.json"),
    ("selected_decode_interpolation/raw_data.npz", "decode_raw_data.json"),
)
_PREFILL = ("prefill_isl", "prefill_ttft")
_DECODE = ("x_kv_usage", "y_context_length", "z_itl")
_SIZE = "max_kv_tokens"
_COLUMNS = (*_PREFILL, *_DECODE, _SIZE)
_FIX = "Give the folder that Dynamo's profiler wrote: docs/howto/use-a-step-profile.md."


def is_sweep(path: Path) -> bool:
    return path.is_dir() or path.suffix in (".npz", ".json")


def read_sweep(path: Path, *, field: str) -> list[dict[str, str]]:
    """Rows with the columns of both files, empty where a row is of the other one."""
    files = [path] if not path.is_dir() else [found for names in _PLACES if (found := _present(path, names))]
    if not files:
        problem = f"holds neither {_PLACES[0][0]} nor {_PLACES[1][0]}, nor their JSON"
        raise InputError(field=field, value=str(path), problem=problem, fix=_FIX)
    rows = [row for file in files for row in _rows(_arrays(file, field=field), file, field=field)]
    if not rows:
        raise InputError(field=field, value=str(path), problem="has no points of Dynamo's sweep", fix=_FIX)
    return rows


def _present(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _arrays(file: Path, *, field: str) -> Mapping[str, list[Any]]:
    try:
        if file.suffix == ".json":
            found = json_value(bounded_text(file, field=field, fix=_FIX), file=str(file), fix=_FIX)
            return {} if not isinstance(found, dict) else {name: _listed(each) for name, each in found.items()}
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name].ravel().tolist() for name in arrays.files if name in _COLUMNS}
    except (OSError, UnicodeDecodeError, ValueError, EOFError, KeyError, zipfile.BadZipFile, AttributeError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or type(error).__name__})"
        raise InputError(field=field, value=str(file), problem=problem, fix=_FIX) from None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _rows(arrays: Mapping[str, list[Any]], file: Path, *, field: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for names in (_PREFILL, _DECODE):
        if not set(names) & set(arrays):
            continue
        lengths = {len(arrays.get(name, ())) for name in names}
        if len(lengths) > 1:
            problem = f"has not as many values of each of {', '.join(names)}"
            raise InputError(field=field, value=str(file), problem=problem, fix=_FIX)
        size = arrays.get(_SIZE, [""])[:1] or [""]
        for values in zip(*(arrays[name] for name in names), strict=True):
            row = dict(zip(names, map(str, values), strict=True))
            row[_SIZE] = str(size[0]) if names is _DECODE else ""
            found.append({column: row.get(column, "") for column in _COLUMNS})
    return found
