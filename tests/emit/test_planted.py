"""An error planted at random in an emitted file is noticed: the checks of test_targets are able to fail."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from emit.test_targets import made, refused
from ullage.emit.targets import TARGETS
from ullage.emit.tree import EmittedFile

PLANTS = 4
Path_ = tuple[str | int, ...]


def leaves(tree: Any, path: Path_ = ()) -> Iterator[Path_]:
    if isinstance(tree, dict) and tree:
        for key, each in tree.items():
            yield from leaves(each, (*path, key))
    elif isinstance(tree, list) and tree:
        for place, each in enumerate(tree):
            yield from leaves(each, (*path, place))
    else:
        yield path


def planted(tree: Any, path: Path_, *, misspelt: bool) -> Any:
    """The tree with one value of the wrong type, or with the last named key on the way to it misspelt."""
    found = copy.deepcopy(tree)
    place = found
    if misspelt:
        last = max(index for index, part in enumerate(path) if isinstance(part, str))
        for part in path[:last]:
            place = place[part]
        place[f"{path[last]}x"] = place.pop(path[last])
        return found
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = {"planted": [1]}
    return found


def is_free(path: Path_) -> bool:
    """Whether the last named key is one that the reader leaves to people: labels, resources, arguments by name."""
    free = {
        "labels",
        "matchLabels",
        "annotations",
        "requests",
        "limits",
        "hard",
        "metadata",
        "nodeSelector",
        "podLabels",
        "classes",
        "constraints",
    }
    named = [part for part in path if isinstance(part, str)]
    return (
        len(named) < 2
        or named[-2] in free | {"nodeLabels", "keda", "fallback", "advanced", "triggers"}
        or "keda" in named
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", [each for each in TARGETS if each != "tfvars"])
def test_an_error_in_a_random_field_is_found(target: str, tmp_path: Path) -> None:
    rng = random.Random(f"planted in {target}")
    for file in made(target):
        if not file.name.endswith((".yaml", ".json")):
            # Scripts and traces are read back word by word in test_loadtest.
            continue
        is_json = file.name.endswith(".json")
        trees = [json.loads(file.text)] if is_json else list(yaml.safe_load_all(file.text))
        for _ in range(PLANTS):
            place = rng.randrange(len(trees))
            path = rng.choice(
                [each for each in leaves(trees[place]) if not (target == "production-stack" and "keda" in each)]
            )
            misspelt = rng.random() < 0.5 and not is_free(path)
            changed = [
                planted(each, path, misspelt=misspelt) if index == place else each for index, each in enumerate(trees)
            ]
            text = json.dumps(changed[0]) if is_json else yaml.safe_dump_all(changed)
            found = refused(EmittedFile(name=file.name, text=text), tmp_path)
            assert found, f"{file.name}: {'misspelt' if misspelt else 'a wrong type at'} {path} was not noticed"


def test_an_error_in_node_counts_is_found(tmp_path: Path) -> None:
    (file,) = made("tfvars")
    lines = file.text.splitlines()
    for place in (2, 3, 5, len(lines) - 1):
        broken = [*lines[:place], f"{lines[place].lstrip('# ')} oops", *lines[place + 1 :]]
        assert refused(EmittedFile(name=file.name, text="\n".join(broken) + "\n"), tmp_path), lines[place]
