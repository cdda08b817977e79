"""`options:` of a plan file: what `ullage options` may choose from, and how long orders take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from ullage.evidence import Assumption
from ullage.facts.model import Model
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import YEAR_S, Bandwidth, Count, Range, StartTime, Tokens
from ullage.files.sections.section import Key, Section
from ullage.fleet.sites import Sites
from ullage.planning.options import lead_times
from ullage.planning.options.lead_times import LeadTimes
from ullage.planning.options.settings import TENSOR_PARALLEL, OptionSettings
from ullage.service.phase import TRANSFER
from ullage.units import DURATION

_POOLS_OWN, _CANDIDATES = "the pool's own", "options.candidates"


class LeadSection(Section):
    """How long a device takes from the day it is ordered."""

    quota_request: Annotated[
        StartTime | None,
        Range(least=0.0, most=10 * YEAR_S, dimension=DURATION),
        Key(means="Until a larger quota is granted.", default=lead_times.QUOTA, moves="lead.days"),
    ] = None
    reservation: Annotated[
        StartTime | None,
        Range(least=0.0, most=10 * YEAR_S, dimension=DURATION),
        Key(means="Until reserved machines begin.", default=lead_times.RESERVATION, moves="lead.days"),
    ] = None
    delivery: Annotated[
        StartTime | None,
        Range(least=0.0, most=10 * YEAR_S, dimension=DURATION),
        Key(means="Until bought machines run.", default=lead_times.DELIVERY, moves="lead.days"),
    ] = None
    months: Annotated[
        Count | None,
        Range(least=1, most=120),
        Key(means="Months to look ahead.", default=lead_times.MONTHS, moves="order.*.devices"),
    ] = None


class OptionsSection(Section):
    """Devices, parallelism and settings that may be chosen; what is left out stays as the pool has it."""

    devices: Annotated[
        tuple[str, ...],
        Key(means="Devices to compare.", default="those sold where the plan buys", moves=_CANDIDATES),
    ] = ()
    tensor_parallel: Annotated[
        tuple[Annotated[Count, Range(least=1, most=1024)], ...],
        Key(
            means="Degrees of tensor parallelism.",
            default=f"{', '.join(map(str, TENSOR_PARALLEL))} and the pool's own",
            moves=_CANDIDATES,
        ),
    ] = ()
    pipeline_parallel: Annotated[
        tuple[Annotated[Count, Range(least=1, most=1024)], ...],
        Key(means="Degrees of pipeline parallelism.", default=_POOLS_OWN, moves=_CANDIDATES),
    ] = ()
    expert_parallel: Annotated[
        tuple[Annotated[Count, Range(least=1, most=1024)], ...],
        Key(means="Degrees of expert parallelism.", default="as far as the pool's", moves=_CANDIDATES),
    ] = ()
    models: Annotated[
        dict[str, tuple[str, ...]],
        Field(default_factory=dict),
        Key(
            means="Variants that may stand in for a pool's model, such as {qwen3-32b: [qwen3-32b-fp8]}.",
            default=_POOLS_OWN,
            moves=_CANDIDATES,
        ),
    ]
    kv_dtypes: Annotated[
        tuple[str, ...],
        Key(means="Precisions of the KV cache, such as [auto, fp8].", default=_POOLS_OWN, moves=_CANDIDATES),
    ] = ()
    token_budgets: Annotated[
        tuple[Tokens, ...],
        Key(means="Tokens that one step may compute.", default=_POOLS_OWN, moves=_CANDIDATES),
    ] = ()
    max_sequences: Annotated[
        tuple[Count, ...], Key(means="Sequences that run at once.", default=_POOLS_OWN, moves=_CANDIDATES)
    ] = ()
    split: Annotated[
        tuple[Tokens, ...],
        Key(
            means="Prompt lengths at which a mix may divide the traffic.",
            default="at half of a class's tokens",
            moves="options.slices",
        ),
    ] = ()
    transfer: Annotated[
        Bandwidth | None,
        Key(
            means="KV transfer bandwidth between two replicas, for disaggregated candidates.",
            default=TRANSFER,
            moves="options.transfer_s",
        ),
    ] = None
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
        transfer=provenance.over(TRANSFER, section.transfer),
        lead=_lead(section.lead_times, provenance),
        stated=(
            *(_decided(provenance, name, [str(each) for each in values]) for name, values in named.items()),
            *(_decided(provenance, f"models.{name}", variants) for name, variants in section.models.items()),
        ),
    )


def _lead(section: LeadSection, provenance: Provenance) -> LeadTimes:
    found = provenance.filled(section)
    return LeadTimes(quota=found.pop("quota_request"), **found)


def _decided(provenance: Provenance, name: str, values: Sequence[str]) -> Assumption:
    return provenance.decides(f"options.{name}", ", ".join(values), "")
