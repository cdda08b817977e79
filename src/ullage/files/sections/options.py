"""`options:` of a plan file: what `ullage options` may choose from, and how long orders take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ullage.evidence import Assumption
from ullage.facts.model import Model
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Duration, Tokens
from ullage.files.sections.section import Count, Section
from ullage.fleet.sites import Sites
from ullage.planning.options.lead_times import LeadTimes
from ullage.planning.options.settings import OptionSettings


class LeadSection(Section):
    """How long a device takes from the day it is asked for."""

    quota_request: Annotated[Duration | None, Field(description="Until a larger quota is granted; default 14d.")] = None
    reservation: Annotated[Duration | None, Field(description="Until reserved machines begin; default 30d.")] = None
    delivery: Annotated[Duration | None, Field(description="Until bought machines run; default 140d.")] = None
    months: Annotated[Count | None, Field(description="Months to look ahead; default 6.")] = None


class OptionsSection(Section):
    """Devices, parallelism and settings that may be chosen; what is left out stays as the pool has it."""

    devices: Annotated[
        tuple[str, ...], Field(description="Devices to compare; default: those sold where the plan buys.")
    ] = ()
    tensor_parallel: Annotated[tuple[Count, ...], Field(description="Default 1, 2, 4, 8 and the pool's own.")] = ()
    pipeline_parallel: Annotated[tuple[Count, ...], Field(description="Default: the pool's own.")] = ()
    expert_parallel: Annotated[tuple[Count, ...], Field(description="Default: as far as the pool's.")] = ()
    models: Annotated[
        dict[str, tuple[str, ...]],
        Field(
            default_factory=dict,
            description="Variants that may stand in for a pool's model, such as {qwen3-32b: [qwen3-32b-fp8]}.",
        ),
    ]
    kv_dtypes: Annotated[tuple[str, ...], Field(description="Precisions of the KV cache, such as [auto, fp8].")] = ()
    token_budgets: Annotated[tuple[Tokens, ...], Field(description="Tokens that one step may compute.")] = ()
    max_sequences: Annotated[tuple[Count, ...], Field(description="Sequences that run at once.")] = ()
    split: Annotated[
        tuple[Tokens, ...],
        Field(
            description="Prompt lengths at which a mix may divide the traffic; default: at half of a class's tokens."
        ),
    ] = ()
    lead_times: LeadSection = LeadSection()


_AXES = (
    "devices",
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "kv_dtypes",
    "token_budgets",
    "max_sequences",
    "split",
)


def options_of(
    section: OptionsSection,
    provenance: Provenance,
    *,
    devices: Sequence[str],
    models: Mapping[str, tuple[Model, ...]],
    sites: Mapping[str, Sites],
) -> OptionSettings:
    """The settings; `devices` and `models` are what the names of the section stand for in the catalogue."""
    named = {name: getattr(section, name) for name in _AXES if getattr(section, name)}
    return OptionSettings(
        devices=tuple(devices),
        tensor_parallel=section.tensor_parallel,
        pipeline_parallel=section.pipeline_parallel,
        expert_parallel=section.expert_parallel,
        models=models,
        kv_dtypes=section.kv_dtypes,
        token_budgets=section.token_budgets,
        max_sequences=section.max_sequences,
        split=section.split,
        sites=sites,
        lead=_lead(section.lead_times, provenance),
        stated=(
            *(_decided(provenance, name, [str(each) for each in values]) for name, values in named.items()),
            *(_decided(provenance, f"models.{name}", variants) for name, variants in section.models.items()),
        ),
    )


def _lead(section: LeadSection, provenance: Provenance) -> LeadTimes:
    ours = LeadTimes()
    return LeadTimes(
        quota=provenance.over(ours.quota, section.quota_request),
        reservation=provenance.over(ours.reservation, section.reservation),
        delivery=provenance.over(ours.delivery, section.delivery),
        months=provenance.over(ours.months, section.months),
    )


def _decided(provenance: Provenance, name: str, values: Sequence[str]) -> Assumption:
    return replace(provenance.says(f"options.{name}", ", ".join(values), "", ""), decision=True)
