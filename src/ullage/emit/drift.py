"""Where files that are there no longer say what the plan says: value by value, not line by line.

An object is found by its kind and name in whichever file holds it, as kubectl, Kustomize or a repository have it. What
stands there beyond the plan's own values (defaults of the server, a status, somebody's annotation) is no drift. A file
without objects, such as values of a chart, is compared with the one of its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ullage.documents import yaml_values
from ullage.emit.tree import EmittedFile

_FIX = "Give the files that ullage emit wrote, or what kubectl get -o yaml prints."
_QUANTITY = re.compile(r"^(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")
_SCALES = {"": Fraction(1), "m": Fraction(1, 1000), "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9),
           "T": Fraction(10**12), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
           "Ti": Fraction(2**40)}  # fmt: skip
_MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class ManifestDrift:
    """One value that is not as planned: in which file and object, where in it, what was planned and what is there."""

    file: str
    object: str
    place: str
    planned: str
    found: str


def drift(planned: Sequence[EmittedFile], there: Mapping[str, str]) -> tuple[ManifestDrift, ...]:
    """Every value of the plan's files that those which are there lack or contradict; `there` is text by file name."""
    known = {name: list(_documents(text, name)) for name, text in there.items() if _is_yaml(name)}
    objects = {_identity(each): each for documents in known.values() for each in documents if _identity(each)}
    found: list[ManifestDrift] = []
    for file in planned:
        if not _is_yaml(file.name):
            if there.get(file.name) != file.text:
                found.append(_whole_file(file.name, file.name in there))
            continue
        for place, document in enumerate(_documents(file.text, file.name)):
            identity = _identity(document)
            others = known.get(file.name, [])
            other = objects.get(identity) if identity else (others[place] if place < len(others) else None)
            said = " ".join(identity) if identity else file.name
            if other is None:
                found.append(
                    ManifestDrift(file=file.name, object=said, place="", planned="the whole of it", found=_MISSING)
                )
                continue
            found += [
                ManifestDrift(file=file.name, object=said, place=path, planned=wanted, found=got)
                for path, wanted, got in _differences(document, other, "", subset=bool(identity))
            ]
    return tuple(found)


def _whole_file(name: str, is_there: bool) -> ManifestDrift:
    return ManifestDrift(
        file=name, object=name, place="", planned="the whole of it", found="another text" if is_there else _MISSING
    )


def _is_yaml(name: str) -> bool:
    return name.endswith((".yaml", ".yml", ".json"))


def _documents(text: str, name: str) -> Iterator[Any]:
    for each in yaml_values(text, file=name, fix=_FIX):
        if (
            isinstance(each, Mapping)
            and str(each.get("kind", "")).endswith("List")
            and isinstance(each.get("items"), list)
        ):
            yield from each["items"]
        elif each is not None:
            yield each


def _identity(document: Any) -> tuple[str, ...]:
    if not isinstance(document, Mapping) or not isinstance(document.get("metadata"), Mapping):
        return ()
    kind, name = document.get("kind"), document["metadata"].get("name")
    # A group's version may move on without the object being another one.
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    return (group, str(kind), str(document["metadata"].get("namespace", "")), str(name)) if kind and name else ()


def _differences(wanted: Any, got: Any, path: str, *, subset: bool) -> Iterator[tuple[str, str, str]]:
    if isinstance(wanted, Mapping) and isinstance(got, Mapping):
        for key, each in wanted.items():
            place = f"{path}.{key}" if path else str(key)
            if key not in got:
                yield place, _shown(each), _MISSING
            else:
                yield from _differences(each, got[key], place, subset=subset)
        if not subset:
            yield from (
                (f"{path}.{key}" if path else str(key), _MISSING, _shown(got[key])) for key in got if key not in wanted
            )
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for index, pair in enumerate(zip(wanted, got, strict=True)):
            yield from _differences(*pair, f"{path}[{index}]", subset=subset)
    elif not _is_same(wanted, got):
        yield path, _shown(wanted), _shown(got)


def _is_same(one: Any, other: Any) -> bool:
    """Equal as they stand, or as quantities: a server writes 2048Mi as 2Gi."""
    if one == other:
        return True
    amounts = [_QUANTITY.match(str(each)) for each in (one, other)]
    if isinstance(one, bool) or isinstance(other, bool) or not all(amounts):
        return False
    values = [Fraction(each[1]) * _SCALES[each[2] or ""] for each in amounts if each is not None]
    return values[0] == values[1]


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
