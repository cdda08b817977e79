"""How published disaggregated runs were configured: what a row does not state and whoever ran it knew.

A line of disaggregated_settings.csv is one configuration and the loads and days it was run at: devices of a replica on
either side, data-parallel ranks, sequences, tokens a step and KV of one rank, drafted tokens, and frontends. They were
read on 2026-11-19 from the run lists of github.com/SemiAnalysisAI/InferenceX (.github/configs/nvidia-master.yaml, as of
the day of the run) and the recipe that each names; `source_date` is the version read, the last one before the run or
else the first one after it. What an engine is told for all ranks together is divided by them, as SGLang does.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SETTINGS = Path(__file__).with_name("disaggregated_settings.csv")
COLUMNS = (
    "device", "engine", "precision", "prompt_tokens", "output_tokens", "speculation", "prefill_devices",
    "decode_devices",
)  # fmt: skip
Key = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SideSettings:
    """One replica of a side. None is not stated; sequences, tokens and KV are those of a rank."""

    devices: int
    ranks: int
    sequences: int | None
    step_tokens: int | None
    kv_tokens: int | None


@dataclass(frozen=True, kw_only=True)
class SplitSettings:
    prefill: SideSettings
    decode: SideSettings
    draft_tokens: int
    frontends: int


def settings_of(run: Mapping[str, str], *, clients: int, day: str) -> SplitSettings | None:
    """The settings of a run by its columns, clients and day; None where no configuration of it was found."""
    return _by_run().get((*(run[name] for name in COLUMNS), str(clients), day))


@cache
def _by_run() -> dict[Key, SplitSettings]:
    found = {}
    with SETTINGS.open(newline="") as file:
        for line in csv.DictReader(file):
            settings = SplitSettings(
                prefill=_side(line, "prefill"),
                decode=_side(line, "decode"),
                draft_tokens=int(line["draft_tokens"]),
                frontends=int(line["frontends"]),
            )
            key = tuple(line[name] for name in COLUMNS)
            for clients in line["clients"].split():
                for day in line["measured_on"].split() or [""]:
                    found[*key, clients, day] = settings
    return found


def _side(line: Mapping[str, str], side: str) -> SideSettings:
    def number(name: str) -> int | None:
        return int(line[name]) if line.get(name) else None

    return SideSettings(
        devices=int(line[f"devices_per_{side}_replica"]),
        ranks=int(line[f"{side}_ranks"]),
        sequences=number(f"{side}_rank_sequences"),
        step_tokens=number(f"{side}_rank_tokens"),
        kv_tokens=number(f"{side}_rank_kv_tokens"),
    )
