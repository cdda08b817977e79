"""Damage done to files, by structure where they have one and by bytes where not; the same seed does the same damage."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import yaml

# What stands where something else should: of another type, out of range, foreign, or too much.
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        "",
        "x",
        "-",
        "nan",
        "inf",
        "-1",
        "0",
        "1e308",
        "1e-320",
        "2026-13-45",
        "99999999999999999999",
    ),
    # Times at the ends of what a calendar, a clock or a database can hold.
    *("1969-12-31T23:59:59Z", "2001-09-09T01:46:40Z", "0001-01-01", "9999-12-31 23:59:59.999999", "infinity", "24:00"),
    *("2026-11-01T10:00:00+99:00", "29/02/2026 1:05 PM", "294247-01-10 04:00:54", 946_684_800, 4_102_444_800_000),
    *(0, 1, -1, 0.5, 3, 7, 2**31, 10**18, 10**25, 10**400, 1e308, -1e308, 1e-320, float("inf"), float("nan")),
    *(
        [],
        {},
        [1],
        ["x"],
        [None],
        [[]],
        {"a": 1},
        {"": {}},
        "x" * 300,
        "\x1b[31m[/bold]",
        "=cmd|' /C calc'!A0",
        "é\u202e",
    ),
)
ODD_TEXTS = tuple(str(each) for each in ODD if not isinstance(each, list | dict))
MOST_BYTES = 200_000
# A value that is wrong in one record is dropped or mended; what is wrong in all of them is what a reader works with.
_EVERYWHERE_FRACTION = 0.15


@dataclass(frozen=True, kw_only=True)
class Stock:
    """What damage is made from: other files of the family, and the words that its readers look for."""

    files: Sequence[bytes]
    words: Sequence[str]


def mutated(data: bytes, others: Stock, chance: Random) -> bytes:
    """One file from another: a few changes of its structure, now and then of its bytes."""
    found = data
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        change = chance.choice(_BYTES) if chance.random() < 0.15 else _structured(found)
        found = change(found, others, chance)[:MOST_BYTES]
    return found


Change = Callable[[bytes, Stock, Random], bytes]


def _structured(data: bytes) -> Change:
    """The change that fits the format, which the first byte tells."""
    start = data.lstrip()[:1]
    if start in (b"{", b"["):
        return _changed_json
    if start.isalpha() and b": " in data[:200] and b"," not in data.partition(b"\n")[0]:
        return _changed_yaml
    return _changed_rows


# ---- values in a structure --------------------------------------------------------------------------------------


def _changed_json(data: bytes, others: Stock, chance: Random) -> bytes:
    try:
        text = data.decode()
        lines = (
            [json.loads(each) for each in text.splitlines() if each.strip()] if "\n{" in text else [json.loads(text)]
        )
    except (ValueError, RecursionError):
        return _changed_rows(data, others, chance)
    if chance.random() < _EVERYWHERE_FRACTION:
        lines = _damaged_everywhere(lines, others.words, chance)
    else:
        index = chance.randrange(len(lines))
        lines[index] = _with_damage(lines[index], others.words, chance)
    return "\n".join(json.dumps(each) for each in lines).encode("utf-8", "replace")


def _damaged_everywhere(lines: list[Any], words: Sequence[str], chance: Random) -> list[Any]:
    """The same damage to every record: to each line, or to each entry of one of the lists of a document."""
    seed = chance.getrandbits(64)
    if len(lines) > 1:
        return [_with_damage(each, words, Random(seed)) for each in lines]
    found = copy.deepcopy(lines)
    lists = [
        holder[key] for holder, key in placed_values(found) if isinstance(holder[key], list) and len(holder[key]) > 1
    ]
    if lists:
        records = chance.choice(lists)
        records[:] = [_with_damage(each, words, Random(seed)) for each in records]
    return found


def _changed_yaml(data: bytes, others: Stock, chance: Random) -> bytes:
    try:
        documents = list(yaml.safe_load_all(data.decode()))
        index = chance.randrange(len(documents))
        documents[index] = _with_damage(documents[index], others.words, chance)
        return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True).encode()
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, IndexError):
        return _changed_rows(data, others, chance)


def _with_damage(value: Any, words: Sequence[str], chance: Random) -> Any:
    """The value with one place in it replaced, removed, repeated, renamed or buried."""
    found = copy.deepcopy(value)
    places = list(placed_values(found))
    if not places:
        return chance.choice(ODD)
    holder, key = chance.choice(places)
    kind = chance.randrange(11)
    if kind == 0:
        del holder[key]
    elif kind in (8, 9) and isinstance(holder, dict):
        # A key that some reader looks for, with a value of a kind that it may have.
        like = chance.choice((*places, *places, None))
        holder[chance.choice(words)] = chance.choice(ODD) if like is None else copy.deepcopy(like[0][like[1]])
    elif kind == 10:
        holder[key] = chance.choice(words)
    elif kind == 1 and isinstance(holder, list):
        holder.extend(copy.deepcopy(holder[: chance.choice((1, 2, 50))]))
    elif kind == 1:
        holder[f"{key}{chance.choice(('', 's', '_', ' '))}x"] = holder.pop(key)
    elif kind == 2:
        other_holder, other_key = chance.choice(places)
        holder[key] = copy.deepcopy(other_holder[other_key])
    elif kind == 3 and isinstance(holder[key], float) and not isinstance(holder[key], bool):
        holder[key] = holder[key] * chance.choice((-1, 0.001, 1000, 1e9, 1e300)) + chance.choice((0, 1))
    elif kind == 3 and isinstance(holder[key], int):
        holder[key] = holder[key] * chance.choice((-1, 1000, 10**9)) + chance.choice((0, 1))
    elif kind == 4:
        for _ in range(chance.choice((3, 80, 2000))):
            holder[key] = [holder[key]] if chance.random() < 0.5 else {"a": holder[key]}
            if chance.random() < 0.02:
                break
    else:
        holder[key] = copy.deepcopy(chance.choice(ODD))
    return found


def placed_values(value: Any) -> Any:
    """Every place of nested data as what holds it and where; of a long list a few are enough."""
    pending = [value]
    while pending:
        each = pending.pop()
        keys = list(each) if isinstance(each, dict) else range(min(len(each), 12)) if isinstance(each, list) else ()
        for key in keys:
            yield each, key
            pending.append(each[key])


# ---- rows and cells ---------------------------------------------------------------------------------------------


def _changed_rows(data: bytes, others: Stock, chance: Random) -> bytes:
    rows = data.split(b"\n")
    at = chance.randrange(len(rows))
    kind = chance.randrange(8)
    if chance.random() < _EVERYWHERE_FRACTION:
        # The same cell of every row below the first: a whole column.
        seed = chance.getrandbits(64)
        rows[1:] = [_cells(each, others.words, Random(seed)) if each else each for each in rows[1:]]
    elif kind == 0:
        del rows[at]
    elif kind == 1:
        rows[at:at] = [rows[at]] * chance.choice((1, 2, 100))
    elif kind == 2:
        rows[at], rows[0] = rows[0], rows[at]
    elif kind == 3:
        rows.insert(at, chance.choice(chance.choice(others.files).split(b"\n")))
    else:
        rows[at] = _cells(rows[at], others.words, chance)
    return b"\n".join(rows)


def _cells(row: bytes, words: Sequence[str], chance: Random) -> bytes:
    """A row with one of its cells, words or numbers changed."""
    mark = chance.choice((b",", b" ", b":", b"=", b'"', b"\t"))
    cells = row.split(mark)
    at = chance.randrange(len(cells))
    said = chance.choice(ODD_TEXTS if chance.random() < 0.6 else words)
    cells[at] = b"" if chance.random() < 0.2 else said.encode("utf-8", "replace")
    return mark.join(cells)


# ---- bytes ------------------------------------------------------------------------------------------------------


def _flipped(data: bytes, others: Stock, chance: Random) -> bytes:
    found = bytearray(data or b"\x00")
    for _ in range(chance.choice((1, 1, 8))):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def _cut(data: bytes, others: Stock, chance: Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _spliced(data: bytes, others: Stock, chance: Random) -> bytes:
    other = chance.choice(others.files)
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def _inserted(data: bytes, others: Stock, chance: Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    what = chance.choice((b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\x1b[31m", b'"', b"[" * 3000, b"9" * 500))
    return data[:at] + what + data[at:]


def _packed(data: bytes, others: Stock, chance: Random) -> bytes:
    packed = gzip.compress(data, mtime=0)
    return packed if chance.random() < 0.3 else _flipped(packed, others, chance)


_BYTES: tuple[Change, ...] = (_flipped, _cut, _spliced, _inserted, _packed)
