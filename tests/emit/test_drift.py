"""ManifestDrift is told value by value: comments, order and what a server adds are none, a changed number is."""

from __future__ import annotations

import json
import random
import string
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from emit.test_planted import leaves, planted
from support.emitted import emitted
from ullage.emit.drift import drift
from ullage.emit.tree import EmittedFile, Reasoned, plain, yaml_text

TARGETS = ("deployment", "pdb", "litellm", "prometheus", "tfvars", "grafana")


def test_what_was_written_has_no_drift() -> None:
    files = emitted(*TARGETS)
    assert drift(files, {each.name: each.text for each in files}) == ()


def test_comments_order_defaults_and_units_are_no_drift() -> None:
    files = emitted("deployment", "pdb")
    objects = [each for file in files for each in yaml.safe_load_all(file.text)]
    deployment = next(each for each in objects if each["kind"] == "Deployment")
    deployment["status"] = {"replicas": 41}
    deployment["metadata"]["uid"] = "a-b-c"
    (engine,) = deployment["spec"]["template"]["spec"]["containers"]
    engine["imagePullPolicy"] = "IfNotPresent"
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    volume["emptyDir"]["sizeLimit"] = "20Gi"
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    assert drift(files, {"cluster.yaml": yaml.safe_dump(listed, sort_keys=True)}) == ()


def test_a_missing_object_or_file_is_drift() -> None:
    files = emitted(*TARGETS)
    found = drift(files, {})
    assert {each.file for each in found} == {each.name for each in files}
    assert {each.found for each in found} == {"missing"}


@pytest.mark.parametrize("target", ["deployment", "pdb", "litellm", "prometheus", "grafana"])
def test_any_changed_value_is_drift(target: str) -> None:
    rng = random.Random(target)
    (file, *_) = emitted(target)
    is_json = file.name.endswith(".json")
    tree: Any = json.loads(file.text) if is_json else yaml.safe_load(file.text)
    identity = [("kind",), ("apiVersion",), ("metadata", "name"), ("metadata", "namespace")]
    paths = [each for each in leaves(tree) if each not in identity]
    for path in rng.sample(paths, min(12, len(paths))):
        changed = planted(tree, path, misspelt=False)
        text = json.dumps(changed) if is_json else yaml.safe_dump(changed)
        assert drift([file], {file.name: text}), path


# ---- the text itself ---------------------------------------------------------------------------------------

_TEXTS = st.text(string.printable, max_size=20).filter(lambda text: "\n" not in text and "\r" not in text)
_SCALARS = st.one_of(_TEXTS, st.integers(-(10**12), 10**12), st.booleans(), st.floats(-1e9, 1e9))
_TREES = st.recursive(
    st.one_of(_SCALARS, _SCALARS.map(lambda value: Reasoned(value=value, why="because\nof # this"))),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXTS, inner, max_size=4)),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.dictionaries(_TEXTS, _TREES, min_size=1, max_size=4))
def test_every_tree_reads_back_without_its_reasons(tree: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text(["a head: # with signs"], tree)) == plain(tree)


@given(st.dictionaries(_TEXTS, _TREES, min_size=1, max_size=4))
def test_a_reason_is_never_a_value(tree: dict[str, Any]) -> None:
    texts = [yaml_text([], each) for each in (tree, plain(tree))]
    assert yaml.safe_load(texts[0]) == yaml.safe_load(texts[1])


def test_several_lines_stand_as_a_block() -> None:
    file = EmittedFile(name="x.yaml", text=yaml_text([], {"expr": "a\n  + b", "next": 1}))
    assert yaml.safe_load(file.text) == {"expr": "a\n  + b", "next": 1}


def test_a_key_that_was_added_to_a_file_is_drift() -> None:
    """A server adds keys to an object of its own; nobody adds any to a file of a gateway but a person."""
    (file, *_) = emitted("litellm")
    tree = yaml.safe_load(file.text)
    tree["added"] = 7
    (found,) = drift([file], {file.name: yaml.safe_dump(tree)})
    assert (found.place, found.planned, found.found) == ("added", "missing", "7")
