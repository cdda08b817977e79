"""A config with keys taken away or corrupted gives a model or a refusal, never a traceback."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.model_configs import EVERY, read
from ullage.errors import InputError
from ullage.facts.model import Model
from ullage.memory.kv import KV_DTYPES, cache_cost
from ullage.memory.parameters import parameter_count, weight_lines

_ODD = [None, -1, 0, 1, 2, 3, 7, 128, 10**30, -0.5, float("nan"), float("inf"), 1e300, "", "x", "auto", True, False]
_ODDER: list[Any] = [[], {}, [1], [None], ["x"], {"a": 1}, [[]], "*", ["full_attention"] * 4, {"0": {"head_dim": 3}}]
_KEYS = sorted({key for config in EVERY.values() for key in config})
_QUANTISED: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
    "ignore": ["lm_head", "re:.*self_attn.*", "model.layers.0*"],
    "kv_cache_scheme": {"num_bits": 8, "type": "float"},
}


def _places(table: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a config that can be changed, as the path to it."""
    entries = table.items() if isinstance(table, dict) else enumerate(table)
    found = []
    for key, value in entries:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += _places(value, (*path, key))
    return found


@given(data=st.data())
def test_corrupted_configs_are_read_or_refused(data: st.DataObject) -> None:
    config = copy.deepcopy(EVERY[data.draw(st.sampled_from(sorted(EVERY)))])
    if data.draw(st.booleans()):
        config["quantization_config"] = copy.deepcopy(_QUANTISED)
    for _ in range(data.draw(st.integers(1, 4))):
        _corrupt(data, config)
    model = _read_or_refuse(config)
    if isinstance(model, InputError):
        assert model.field
        assert model.fix
        return
    assert cache_cost(model, KV_DTYPES["fp8"]).kv_bytes_per_token >= 0
    assert parameter_count(model) > 0
    assert sum(line.stored_bytes for line in weight_lines(model)) > 0


def _read_or_refuse(config: dict[str, Any]) -> Model | InputError:
    try:
        return read(config)
    except InputError as refusal:
        return refusal


def _corrupt(data: st.DataObject, config: dict[str, Any]) -> None:
    places = _places(config)
    if not places:
        return
    *path, last = data.draw(st.sampled_from(places))
    holder: Any = config
    for step in path:
        holder = holder[step]
    action = data.draw(st.sampled_from(("remove", "replace", "add")))
    if action == "remove":
        del holder[last]
    elif action == "replace":
        holder[last] = copy.deepcopy(data.draw(st.sampled_from([*_ODD, *_ODDER])))
    elif isinstance(holder, dict):
        holder[data.draw(st.sampled_from(_KEYS))] = copy.deepcopy(data.draw(st.sampled_from([*_ODD, *_ODDER])))
