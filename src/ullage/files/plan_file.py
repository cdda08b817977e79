"""What a plan file may say. Unknown keys are refused with the nearest known one; nothing has a hidden default.

Every field that is left out is None here; the default that stands in for it is chosen where the specification is
made, and listed in the plan as an assumption.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from ullage.errors import InputError
from ullage.files.faults import read_sections
from ullage.files.keys import KeyPath, KeyRow, put_key, rows_of
from ullage.files.sections.admission import AdmissionSection
from ullage.files.sections.ages import AgesSection
from ullage.files.sections.claims import ClaimsSection
from ullage.files.sections.class_traffic import OutcomesSection, UsersSection
from ullage.files.sections.cost import CostSection
from ullage.files.sections.emit import EmitSection
from ullage.files.sections.evidence import EvidenceSection
from ullage.files.sections.options import OptionsSection
from ullage.files.sections.policy import PolicySection
from ullage.files.sections.pool import PoolSection
from ullage.files.sections.prices import PricesSection
from ullage.files.sections.quantities import (
    DAY_S,
    CountOrNone,
    Duration,
    Growth,
    Range,
    Ratio,
    RequestRate,
    ShareOrNone,
    TokenRate,
    Tokens,
)
from ullage.files.sections.reliability import (
    FailoverSection,
    MaintenanceSection,
    ReliabilitySection,
    ReservesSection,
    RolloutSection,
    WarmSection,
)
from ullage.files.sections.routing import RouteSection
from ullage.files.sections.scaling import ScalingSection
from ullage.files.sections.section import Key, Name, Section
from ullage.files.sections.sites import SitesSection
from ullage.files.sections.tools import ToolSection
from ullage.files.strict_yaml import Document, read_yaml
from ullage.units import DURATION, TOKENS

# Defaults that are worked out and not written down, in the words of the reference.
_ANY, _NONE, _BUILT_IN = "any", "none", "the built-in profile's"
_LABEL = "It is a label: figures carry it in their names, and none changes its value."
_PER_CLASS = "demand.*.planning_rate"


class MatchSection(Section):
    """All conditions that are given must hold; names may be shell patterns."""

    model: Annotated[
        str | None, Key(means="A shell pattern for its model, such as llama*.", default=_ANY, moves=_PER_CLASS)
    ] = None
    tenant: Annotated[str | None, Key(means="A shell pattern for its tenant.", default=_ANY, moves=_PER_CLASS)] = None
    product: Annotated[str | None, Key(means="A shell pattern for its product.", default=_ANY, moves=_PER_CLASS)] = None
    path: Annotated[
        str | None, Key(means="A shell pattern for its path, such as /v1/chat*.", default=_ANY, moves=_PER_CLASS)
    ] = None
    from_prompt_tokens: Annotated[
        Tokens | None, Key(means="Prompts from so many tokens on.", default=_ANY, moves=_PER_CLASS)
    ] = None
    below_prompt_tokens: Annotated[
        Tokens | None, Key(means="Prompts below so many tokens.", default=_ANY, moves=_PER_CLASS)
    ] = None
    from_output_tokens: Annotated[
        Tokens | None, Key(means="Outputs from so many tokens on.", default=_ANY, moves=_PER_CLASS)
    ] = None
    below_output_tokens: Annotated[
        Tokens | None, Key(means="Outputs below so many tokens.", default=_ANY, moves=_PER_CLASS)
    ] = None


class ClassSection(Section):
    """Requests that share SLOs and a shape."""

    name: Annotated[Name, Key(means="The name of this class in figures.", still=_LABEL)]
    rate: Annotated[
        RequestRate | None,
        Key(
            means="Mean arrival rate of this class; with a trace, the rate that the trace is scaled to.",
            default="that of the trace or the synthetic model",
            moves="demand.*.mean_rate",
        ),
    ] = None
    longest_context: Annotated[
        Tokens,
        Range(least=2, most=100000000, dimension=TOKENS),
        Key(means="The most tokens of prompt and answer in one request.", moves="memory.sequences"),
    ]
    slo: Annotated[
        dict[str, Annotated[Duration, Range(least=0.0001, most=30 * DAY_S, dimension=DURATION)]],
        Field(
            min_length=1, json_schema_extra={"propertyNames": {"pattern": r"^(ttft|tpot|itl|e2e)_p[0-9]+(\\.[0-9]+)?$"}}
        ),
        Key(
            means="SLOs: metric and percentile, such as ttft_p95, tpot_p95, itl_p99, e2e_p95.",
            moves="point.highest_rps",
        ),
    ]
    definitions: Annotated[
        str | dict[str, str] | None,
        Key(
            means="How its latencies are counted: a load tool, such as guidellm, or choices such as "
            "{tpot: with_first_token, itl: per_request}.",
            default="as the SLO's users see them: docs/glossary.md",
            moves="point.highest_rps",
        ),
    ] = None
    priority: Annotated[
        CountOrNone, Range(least=0, most=1000), Key(means="0 is served first.", moves="limit.*.queue_age_s")
    ] = 0
    deadline: Annotated[
        Duration | None,
        Range(least=0.001, most=30 * DAY_S, dimension=DURATION),
        Key(
            means="After this time an answer is useless and clients have given up.",
            default="admission.deadline",
            moves="limit.*.latest_start_s",
        ),
    ] = None
    success: Annotated[
        str | None,
        Key(
            means="What counts as a success, in words; the SLOs are part of it in any case.",
            default="an answer in time",
            still="The words are printed beside the cost of a success; nothing is computed from them.",
        ),
    ] = None
    prompt: Annotated[
        dict[str, Tokens] | None,
        Key(
            means="Percentiles of the prompt's length, such as {p50: 1200, p95: 6000}; a trace is better.",
            default=_BUILT_IN,
            moves="demand.*.prompt_p50",
        ),
    ] = None
    output: Annotated[
        dict[str, Tokens] | None,
        Key(means="Percentiles of the output's length.", default=_BUILT_IN, moves="demand.*.output_p50"),
    ] = None
    weekly_growth: Annotated[
        Growth | None,
        Key(
            means="Traffic growth per week, such as 2%; a rate grows by it from the day it is dated on.",
            default=_BUILT_IN,
            moves=_PER_CLASS,
        ),
    ] = None
    peak_hour: Annotated[
        Ratio | None,
        Range(least=1.0, most=168.0),
        Key(means="The busiest hour of the week over the mean.", default=_BUILT_IN, moves=_PER_CLASS),
    ] = None
    cached_fraction: Annotated[
        ShareOrNone | None,
        Key(
            means="The share of prompt tokens that the engine's prefix cache holds, such as 40%; it decides the plan.",
            default="what the log shows, 0 where it shows nothing, or the built-in profile's",
            moves="demand.*.cached_fraction",
        ),
    ] = None
    tokens: Annotated[
        TokenRate | None,
        Key(
            means="Tokens of prompts and answers together over time, such as 50 Mtokens/day, in place of a rate.",
            default="rate",
            moves="demand.*.mean_rate",
        ),
    ] = None
    users: Annotated[UsersSection | None, Key(means="Users in place of a rate.")] = None
    outcomes: Annotated[OutcomesSection | None, Key(means="How requests end.")] = None
    pool: Annotated[
        Name | None,
        Key(
            means="Which of several pools serves this class.",
            default="the only pool, or the first of its route",
            moves="reserve.rise_rps",
        ),
    ] = None
    match: Annotated[MatchSection | None, Key(means="Which requests of the trace belong to this class.")] = None


class EventSection(Section):
    """A launch, a sale, a holiday: demand is so many times the usual from one day to another."""

    name: Annotated[Name, Key(means="The name of the event among the assumptions.", still=_LABEL)]
    first: Annotated[datetime.date, Field(alias="from"), Key(means="The first day.", moves=_PER_CLASS)]
    until: Annotated[datetime.date, Field(alias="to"), Key(means="The day after the last.", moves=_PER_CLASS)]
    demand: Annotated[Ratio, Range(least=0.01, most=1000.0), Key(means="Demand relative to usual.", moves=_PER_CLASS)]


class WorkloadSection(Section):
    """The traffic to plan for."""

    profile: Annotated[
        str | None,
        Key(
            means="What `ullage profile --save` wrote, in place of a trace; relative to this file.",
            default=_NONE,
            moves=_PER_CLASS,
        ),
    ] = None
    synthetic: Annotated[
        str | None,
        Key(
            means="What `ullage profile --synthesize` printed, edited or not: the shape of each class.",
            default=_BUILT_IN,
            moves=_PER_CLASS,
        ),
    ] = None
    events: Annotated[tuple[EventSection, ...], Key(means="Future events, with dates.")] = ()
    trace: Annotated[
        tuple[str, ...],
        Key(
            means="Request logs of this service, relative to the plan file: files, folders, globs.",
            default=_NONE,
            moves="demand.*.mean_rate",
        ),
    ] = ()
    lengths: Annotated[
        tuple[str, ...],
        Key(
            means="Request logs that prompts and outputs are measured in, where the trace has none: a web log, or "
            "rates.",
            default="what the classes state, or the built-in profile's",
            moves="demand.*.request_tokens",
        ),
    ] = ()
    columns: Annotated[
        dict[str, str],
        Field(default_factory=dict),
        Key(
            means="Columns of the trace by our names, such as {arrival_s: ts}.",
            default="columns are found by the names that formats use",
            moves="demand.*.request_tokens",
        ),
    ]
    zone: Annotated[
        str,
        Key(
            means="The zone of times that carry none, such as Europe/Berlin.",
            default="UTC",
            moves=_PER_CLASS,
        ),
    ] = ""
    classes: Annotated[tuple[ClassSection, ...], Field(min_length=1)]


class PlanFile(Section):
    """A plan file, version 1."""

    version: Annotated[Literal["1"], Key(means="The version of this layout.", still="There is one version so far.")]
    service: Annotated[
        str, Field(min_length=1), Key(means="The name of the plan.", still="It is the title of the plan.")
    ]
    dated: Annotated[
        datetime.date | None,
        Key(
            means="When its values were stated; their age counts from here, and rates with a stated growth grow from "
            "here.",
            default="the day of planning",
            moves="demand.*.planning_rate",
        ),
    ] = None
    facts: Annotated[
        str | None,
        Key(means="A folder of your own fact files, which override ours.", default=_NONE, moves="memory.kv_tokens"),
    ] = None
    workload: WorkloadSection
    pool: Annotated[PoolSection | None, Key(means="The pool, where there is one.")] = None
    pools: Annotated[tuple[PoolSection, ...], Key(means="The pools, where there are several, each with a name.")] = ()
    evidence: Annotated[EvidenceSection, Key(means="Of the one pool; several pools have their own.")] = (
        EvidenceSection()
    )
    routing: Annotated[tuple[RouteSection, ...], Key(means="Classes that go to more than one pool.")] = ()
    tools: Annotated[tuple[ToolSection, ...], Key(means="Tools that tasks wait for.")] = ()
    sites: Annotated[SitesSection | None, Key(means="Regions and zones, with quotas.")] = None
    policy: PolicySection = PolicySection()
    ages: Annotated[AgesSection, Key(means="Maximum ages of what is stated and measured.")] = AgesSection()
    owners: Annotated[
        dict[str, str],
        Field(default_factory=dict),
        Key(
            means="Who owns a section or a key, such as {workload: ana, workload.classes.chat.rate: ben}.",
            default=_NONE,
            still="Names are printed beside assumptions; drivers of a plan without an owner are named first.",
        ),
    ]
    admission: Annotated[AdmissionSection, Field(default_factory=AdmissionSection)]
    reliability: ReliabilitySection = ReliabilitySection()
    rollout: RolloutSection = RolloutSection()
    maintenance: MaintenanceSection = MaintenanceSection()
    warm: WarmSection = WarmSection()
    scaling: ScalingSection = ScalingSection()
    failover: FailoverSection = FailoverSection()
    reserves: ReservesSection = ReservesSection()
    cost: CostSection = CostSection()
    prices: Annotated[PricesSection, Field(default_factory=PricesSection)]
    options: Annotated[
        OptionsSection, Field(default_factory=OptionsSection), Key(means="What ullage options may choose from.")
    ]
    emit: Annotated[EmitSection, Field(default_factory=EmitSection), Key(means="Names for what ullage emit writes.")]
    claims: Annotated[ClaimsSection, Key(means="Claims made elsewhere, for `ullage check`.")] = ClaimsSection()

    @property
    def every_pool(self) -> tuple[PoolSection, ...]:
        return (*([] if self.pool is None else [self.pool]), *self.pools)


def read_plan_file(text: str, *, file: str) -> PlanFile:
    """The plan file, or an InputError that names line, field, value, problem and fix of its first fault."""
    return read_plan_document(read_yaml(text, file=file))


def read_plan_document(document: Document) -> PlanFile:
    """As `read_plan_file`, for a document that was read or made before."""
    found = read_sections(document, PlanFile)
    _check_pools(document, found)
    return found


def key_rows() -> list[KeyRow]:
    """The table of keys: every one that a plan file may hold, depth first."""
    # Several pools have the keys of one, and a pool's own evidence those of the only pool's.
    return [each for each in rows_of(PlanFile) if not each.path.startswith(("pools[]", "pool.evidence."))]


def put_value(content: dict[str, Any], key: str, value: Any) -> KeyPath:
    """Change one value of a plan's document in place, by its key (`workload.classes.chat.rate`); None leaves it out."""
    return put_key(PlanFile, content, key, value)


def _check_pools(document: Document, file: PlanFile) -> None:
    """One pool needs no name; several need one each, and every class says which of them serves it."""

    def wrong(path: tuple[str | int, ...], value: object, problem: str, fix: str) -> InputError:
        return InputError(field=document.place(path), value=value, problem=problem, fix=fix)

    _check_traffic(document, file)
    if not file.every_pool:
        raise wrong(("pool",), None, "is missing", "Add pool, or pools for several.")
    if file.pool is not None and file.pools:
        raise wrong(("pools",), len(file.pools), "cannot be combined with pool", "List all of them under pools.")
    names = [each.name for each in file.every_pool]
    if len(names) == 1:
        return
    for index, name in enumerate(names):
        if name is None or names.index(name) != index:
            problem = "is missing" if name is None else "appears twice"
            raise wrong(("pools", index, "name"), name, problem, "Use each name once.")


def _check_traffic(document: Document, file: PlanFile) -> None:
    """Traffic has one source of its shape."""
    given = [each for each in ("trace", "profile", "synthetic") if getattr(file.workload, each)]
    if len(given) > 1:
        raise InputError(
            field=document.place(("workload", given[1])),
            value=getattr(file.workload, given[1]),
            problem=f"cannot be combined with {given[0]}",
            fix="Keep one of them.",
        )


def plan_file_schema() -> dict[str, Any]:
    """The JSON Schema of a plan file, for editors that complete and check it."""
    schema = PlanFile.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    # Versions and counts are written bare in YAML, and read as text by strict_yaml.
    version = schema["properties"]["version"]
    schema["properties"]["version"] = {"enum": [1, "1"], "description": version["description"]}
    return schema
