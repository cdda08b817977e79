"""LiteLLM's own catalogue, `model_prices_and_context_window.json`: one object a model, in USD per token.

A tier is the end of a key (`_batches`, `_flex`, `_priority`); a price for long prompts has `_above_200k_tokens` in it.
The catalogue says no date. `installed_catalogue` finds the file of an installed LiteLLM without importing it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ullage.errors import InputError
from ullage.prices.book import Tier, TokenKind
from ullage.prices.price_list import Gathering, PriceList
from ullage.readers.prices.price_file import PriceFile
from ullage.readers.prices.token_rows import MODES, TokenRow, add_tokens, bare_model

FORMAT = "LiteLLM's catalogue"
_FILE = "model_prices_and_context_window_backup.json"
_SAMPLE = "sample_spec"
_KINDS = {
    TokenKind.INPUT: "input_cost_per_token",
    TokenKind.OUTPUT: "output_cost_per_token",
    TokenKind.CACHED_READ: "cache_read_input_token_cost",
    TokenKind.CACHE_WRITE: "cache_creation_input_token_cost",
}
_TIERS = {Tier.STANDARD: "", Tier.BATCH: "_batches", Tier.FLEX: "_flex", Tier.PRIORITY: "_priority"}
_LONGER = re.compile(r"_above_(\d+)k_tokens")


def recognise(file: PriceFile) -> bool:
    return isinstance(file.document, dict) and any(
        isinstance(each, dict) and "litellm_provider" in each for each in file.document.values()
    )


def read(file: PriceFile) -> PriceList:
    dated = file.date()
    into = Gathering()
    models = {name: each for name, each in file.document.items() if name != _SAMPLE}
    for name, model in models.items():
        if not isinstance(model, dict) or "litellm_provider" not in model:
            into.drop("no provider")
            continue
        if model.get("mode") not in MODES:
            into.drop(f"mode {model.get('mode') or 'not stated'}")
            continue
        where = str(model.get("source", ""))
        source = file.source(f"{FORMAT}; the provider's list: {where}" if where else FORMAT, dated)
        provider = str(model["litellm_provider"])
        for tier, longer, amounts in _rows(file.file, name, model):
            add_tokens(
                TokenRow(
                    provider=provider,
                    model=bare_model(provider, name),
                    tier=tier,
                    amounts=amounts,
                    source=source,
                    from_prompt_tokens=longer,
                ),
                into,
            )
    return into.finished(file=file.file, format_name=FORMAT, rows=len(models))


def installed_catalogue() -> tuple[Path, str]:
    """The catalogue's file in the installed LiteLLM, and its version; an InputError where there is none."""
    found = importlib.util.find_spec("litellm")
    path = None if found is None or found.origin is None else Path(found.origin).parent / _FILE
    if path is None or not path.is_file():
        raise InputError(
            field="prices.files",
            value="litellm",
            problem="is not installed, or has no catalogue in it",
            fix="Install litellm, or give the path of its model_prices_and_context_window.json.",
        )
    return path, importlib.metadata.version("litellm")


def _rows(file: str, name: str, model: Mapping[str, Any]) -> list[tuple[Tier, int, dict[TokenKind, float | None]]]:
    """Each tier and length of prompt that the model has a price of input or output for."""
    lengths = {0: ""} | {
        int(found.group(1)) * 1000 + 1: found.group(0) for key in model if (found := _LONGER.search(key)) is not None
    }
    rows = []
    for tier, end in _TIERS.items():
        for longer, middle in sorted(lengths.items()):
            amounts = {kind: _amount(file, name, model, f"{key}{middle}{end}") for kind, key in _KINDS.items()}
            stated = any(amounts[kind] is not None for kind in (TokenKind.INPUT, TokenKind.OUTPUT))
            if stated or (tier is Tier.STANDARD and not longer):
                rows.append((tier, longer, amounts))
    return rows


def _amount(file: str, name: str, model: Mapping[str, Any], key: str) -> float | None:
    value = model.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise InputError(field=f"{file}: {name}.{key}", value=value, problem="is not an amount", fix="Fix the file.")
    return float(value)
