"""What a plan file may say. Unknown keys are refused with the nearest known one; nothing has a hidden default.

Every field that is left out is None here; the default that stands in for it is chosen where the specification is
made, and listed in the plan as an assumption.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from ullage.errors import InputError
from ullage.facts.startup import STORAGES
from ullage.files.keys import known_keys, nearest, section_at, with_key
from ullage.files.sections.admission import AdmissionSection
from ullage.files.sections.claims import ClaimsSection
from ullage.files.sections.cost import CostSection
from ullage.files.sections.options import OptionsSection
from ullage.files.sections.prices import PricesSection
from ullage.files.sections.quantities import Bandwidth, Duration, Growth, Ratio, RequestRate, Share, Tokens
from ullage.files.sections.reliability import (
    FailoverSection,
    MaintenanceSection,
    ReliabilitySection,
    ReservesSection,
    RolloutSection,
    WarmSection,
)
from ullage.files.sections.routing import RouteSection
from ullage.files.sections.section import Count, Name, Section
from ullage.files.sections.sites import SitesSection
from ullage.files.sections.tools import ToolSection
from ullage.files.strict_yaml import Document, read_yaml


class MatchSection(Section):
    """All conditions that are given must hold; names may be shell patterns."""

    model: Annotated[str | None, Field(description="A shell pattern for its model, such as llama*.")] = None
    tenant: Annotated[str | None, Field(description="A shell pattern for its tenant.")] = None
    path: Annotated[str | None, Field(description="A shell pattern for its path, such as /v1/chat*.")] = None
    from_prompt_tokens: Annotated[Tokens | None, Field(description="Prompts from so many tokens on.")] = None
    below_prompt_tokens: Annotated[Tokens | None, Field(description="Prompts below so many tokens.")] = None
    from_output_tokens: Annotated[Tokens | None, Field(description="Outputs from so many tokens on.")] = None
    below_output_tokens: Annotated[Tokens | None, Field(description="Outputs below so many tokens.")] = None


class ClassSection(Section):
    """Requests that share SLOs and a shape."""

    name: Name
    rate: Annotated[
        RequestRate | None,
        Field(description="How often requests of this class arrive, on average; left out where a trace says it."),
    ] = None
    longest_context: Annotated[Tokens, Field(description="The most tokens of prompt and answer in one request.")]
    slo: Annotated[
        dict[str, Duration],
        Field(
            min_length=1,
            description="SLOs: metric and percentile, such as ttft_p95, tpot_p95, itl_p99, e2e_p95.",
            json_schema_extra={"propertyNames": {"pattern": r"^(ttft|tpot|itl|e2e)_p[0-9]+(\\.[0-9]+)?$"}},
        ),
    ]
    definitions: Annotated[
        str | dict[str, str] | None,
        Field(
            description="How the promised latencies are counted: a load tool, such as guidellm, or choices such as "
            "{tpot: with_first_token, itl: per_request}."
        ),
    ] = None
    priority: Annotated[int, Field(ge=0, description="0 is served first.")] = 0
    deadline: Annotated[
        Duration | None, Field(description="After so long an answer is of no use, and clients have given up.")
    ] = None
    success: Annotated[
        str | None, Field(description="What counts as a success, in words; the SLOs are part of it in any case.")
    ] = None
    prompt: Annotated[
        dict[str, Tokens] | None,
        Field(
            description="Percentiles of the prompt's length, such as {p50: 1200, p95: 6000}; a trace says it better."
        ),
    ] = None
    output: Annotated[dict[str, Tokens] | None, Field(description="Percentiles of the output's length.")] = None
    weekly_growth: Annotated[Growth | None, Field(description="How much more comes each week, such as 2%.")] = None
    peak_hour: Annotated[Ratio | None, Field(description="The busiest hour of the week over the mean.")] = None
    pool: Annotated[Name | None, Field(description="Which of several pools serves this class.")] = None
    match: Annotated[MatchSection | None, Field(description="Which requests of the trace belong to this class.")] = None


class EventSection(Section):
    """A launch, a sale, a holiday: demand is so many times the usual from one day to another."""

    name: Name
    first: Annotated[datetime.date, Field(alias="from", description="The first day.")]
    until: Annotated[datetime.date, Field(alias="to", description="The day after the last.")]
    demand: Annotated[Ratio, Field(description="Demand over the usual.")]


class WorkloadSection(Section):
    """The traffic to plan for."""

    profile: Annotated[
        str | None, Field(description="What `ullage profile --save` wrote, in place of a trace; relative to this file.")
    ] = None
    synthetic: Annotated[
        str | None,
        Field(description="What `ullage profile --synthesize` printed, edited or not: the shape of each class."),
    ] = None
    events: Annotated[tuple[EventSection, ...], Field(description="What will be unusual, with dates.")] = ()
    trace: Annotated[
        tuple[str, ...],
        Field(description="Request logs of this service, relative to the plan file: files, folders, globs."),
    ] = ()
    columns: Annotated[
        dict[str, str], Field(default_factory=dict, description="Columns of the trace by our names: arrival_s: ts.")
    ]
    zone: Annotated[str, Field(description="The zone of times that carry none, such as Europe/Berlin.")] = ""
    classes: Annotated[tuple[ClassSection, ...], Field(min_length=1)]


class EvidenceSection(Section):
    """What is known by measurement."""

    engine_logs: Annotated[
        tuple[str, ...], Field(description="Start-up logs or /metrics dumps of this pool's engine.")
    ] = ()
    startup_logs: Annotated[
        tuple[str, ...], Field(description="Start-up logs or `vllm bench startup` results: how long a start takes.")
    ] = ()
    load_tests: Annotated[
        tuple[str, ...],
        Field(description="Load tests of this pool's replica, of any tool: its step times are fitted to them."),
    ] = ()
    step_profile: Annotated[
        str | None,
        Field(description="A CSV of measured steps of this pool's replica, or `aiconfigurator` where it is installed."),
    ] = None
    calibrations: Annotated[
        tuple[str, ...],
        Field(description="What `ullage calibrate --out` wrote for this pool's replica, in their place."),
    ] = ()


class PoolSection(Section):
    """The replicas that serve it: model, engine, device and how one is cut over the other."""

    name: Annotated[Name | None, Field(description="What figures of this pool are called by, among several.")] = None
    model: Annotated[str, Field(min_length=1, description="A name in the catalogue, or a config.json or its folder.")]
    device: Annotated[str, Field(min_length=1, description="A name in the catalogue: ullage facts devices.")]
    tensor_parallel: Annotated[Count | None, Field(description="Devices over which each layer is cut; default 1.")] = (
        None
    )
    pipeline_parallel: Annotated[
        Count | None, Field(description="Devices over which the layers are dealt; default 1.")
    ] = None
    expert_parallel: Annotated[Count | None, Field(description="Devices over which experts are dealt; default 1.")] = (
        None
    )
    engine: Annotated[str | None, Field(description="vllm (the default), sglang or tensorrt-llm.")] = None
    engine_version: Annotated[str | None, Field(description="Left out: the newest version that is known.")] = None
    memory_fraction: Annotated[
        Share | None, Field(description="Of device memory, for the engine; default: the engine's own.")
    ] = None
    token_budget: Annotated[
        Tokens | None, Field(description="Tokens that one step may compute; default: the engine's own.")
    ] = None
    max_sequences: Annotated[
        Count | None, Field(description="Sequences that run at once; default: the engine's own.")
    ] = None
    max_context: Annotated[Tokens | None, Field(description="Default: the longest context of any class.")] = None
    kv_dtype: Annotated[str | None, Field(description="Default: as the checkpoint says.")] = None
    approved_concurrency: Annotated[
        Count | None, Field(description="Requests of the longest context that must fit into one replica at once.")
    ] = None
    least_replicas: Annotated[Count | None, Field(description="Replicas that always run, whatever is needed.")] = None
    most_replicas: Annotated[
        Count | None, Field(description="Replicas that may ever run, reserves included; a plan of more is refused.")
    ] = None
    storage: Annotated[
        str | None,
        Field(description="Where a new node reads the weights from.", json_schema_extra={"enum": [*STORAGES, None]}),
    ] = None
    storage_bandwidth: Annotated[
        Bandwidth | None, Field(description="How fast it reads them, in place of what such storage usually gives.")
    ] = None
    instance: Annotated[
        str | None, Field(description="The machine its replicas stand on, by name: ullage facts devices lists them.")
    ] = None
    evidence: Annotated[EvidenceSection | None, Field(description="What is known of this pool by measurement.")] = None


class PolicySection(Section):
    """What is decided, not known."""

    horizon: Annotated[
        Duration | None, Field(description="How far ahead to plan; default 30d: what capacity is ordered for.")
    ] = None
    planning_percentile: Annotated[
        Share | None, Field(description="How sure to be of the busiest hour; default 95%: reserves come on top.")
    ] = None
    margin: Annotated[
        Share | None, Field(description="Of its rate, kept free in every pool; default none: reserves are lines.")
    ] = None
    zones: Annotated[
        Count | None, Field(description="Zones to spread over; default 1: a second zone is a decision with a price.")
    ] = None
    reconcile_every: Annotated[
        Duration | None, Field(description="When to look again; default 7d: every day of the week once.")
    ] = None


class PlanFile(Section):
    """A plan file, version 1."""

    version: Annotated[Literal["1"], Field(description="The version of this layout.")]
    service: Annotated[str, Field(min_length=1, description="What the plan is called.")]
    dated: Annotated[
        datetime.date | None, Field(description="When its statements were made; their age counts from here.")
    ] = None
    facts: Annotated[str | None, Field(description="A folder of your own fact files, laid over ours.")] = None
    workload: WorkloadSection
    pool: Annotated[PoolSection | None, Field(description="The pool, where there is one.")] = None
    pools: Annotated[
        tuple[PoolSection, ...], Field(description="The pools, where there are several, each with a name.")
    ] = ()
    evidence: Annotated[EvidenceSection, Field(description="Of the one pool; several pools have their own.")] = (
        EvidenceSection()
    )
    routing: Annotated[tuple[RouteSection, ...], Field(description="Classes that go to more than one pool.")] = ()
    tools: Annotated[tuple[ToolSection, ...], Field(description="What tasks wait for besides the model.")] = ()
    sites: Annotated[SitesSection | None, Field(description="Regions and zones, with quotas.")] = None
    policy: PolicySection = PolicySection()
    admission: Annotated[AdmissionSection, Field(default_factory=AdmissionSection)]
    reliability: ReliabilitySection = ReliabilitySection()
    rollout: RolloutSection = RolloutSection()
    maintenance: MaintenanceSection = MaintenanceSection()
    warm: WarmSection = WarmSection()
    failover: FailoverSection = FailoverSection()
    reserves: ReservesSection = ReservesSection()
    cost: CostSection = CostSection()
    prices: Annotated[PricesSection, Field(default_factory=PricesSection)]
    options: Annotated[
        OptionsSection, Field(default_factory=OptionsSection, description="What ullage options may choose from.")
    ]
    claims: Annotated[ClaimsSection, Field(description="What is said elsewhere, for `ullage check`.")] = ClaimsSection()

    @property
    def every_pool(self) -> tuple[PoolSection, ...]:
        return (*([] if self.pool is None else [self.pool]), *self.pools)


def read_plan_file(text: str, *, file: str) -> PlanFile:
    """The plan file, or an InputError that names line, field, value, problem and fix of its first fault."""
    return plan_file_of(read_yaml(text, file=file))


def plan_file_of(document: Document) -> PlanFile:
    """A document that may have been changed since it was read; its faults are named as those of a file are."""
    try:
        found = PlanFile.model_validate(document.content)
    except ValidationError as error:
        # A misspelt key is two faults, one unknown and one missing; the unknown one tells the reader more.
        details = sorted(_faults(error), key=lambda each: each["type"] == "missing")
        raise _input_error(document, details[0], more=len(details) - 1) from None
    _check_pools(document, found)
    return found


def with_value(document: Document, key: str, text: str) -> Document:
    """The document of a plan file with another value for one key, named as `workload.classes.chat.rate`."""
    return with_key(PlanFile, document, key, text)


def _check_pools(document: Document, file: PlanFile) -> None:
    """One pool needs no name; several need one each, and every class says which of them serves it."""

    def wrong(path: tuple[str | int, ...], value: object, problem: str, fix: str) -> InputError:
        return InputError(field=document.place(path), value=value, problem=problem, fix=fix)

    _check_traffic(document, file)
    if not file.every_pool:
        raise wrong(("pool",), None, "is missing", "Add pool, or pools for several.")
    if file.pool is not None and file.pools:
        raise wrong(("pools",), len(file.pools), "is given beside pool", "List all of them under pools.")
    names = [each.name for each in file.every_pool]
    if len(names) == 1:
        return
    for index, name in enumerate(names):
        if name is None or names.index(name) != index:
            problem = "is missing" if name is None else "is named twice"
            raise wrong(("pools", index, "name"), name, problem, "Give each pool its own name.")


def _check_traffic(document: Document, file: PlanFile) -> None:
    """Traffic has one source of its shape."""
    given = [each for each in ("trace", "profile", "synthetic") if getattr(file.workload, each)]
    if len(given) > 1:
        raise InputError(
            field=document.place(("workload", given[1])),
            value=getattr(file.workload, given[1]),
            problem=f"is given beside {given[0]}",
            fix="Keep one of them.",
        )


def plan_file_schema() -> dict[str, Any]:
    """The JSON Schema of a plan file, for editors that complete and check it."""
    schema = PlanFile.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    # Versions and counts are written bare in YAML, and read as text by strict_yaml.
    schema["properties"]["version"] = {"enum": [1, "1"], "description": "The version of this layout."}
    return schema


def _faults(error: ValidationError) -> list[ErrorDetails]:
    """The faults, without a list that is only short because what stands in it is faulty."""
    found = error.errors(include_url=False)
    return [
        each
        for each in found
        if each["type"] != "too_short"
        or not any(one is not each and one["loc"][: len(each["loc"])] == each["loc"] for one in found)
    ]


def _input_error(document: Document, detail: ErrorDetails, more: int) -> InputError:
    path = detail["loc"]
    problem, fix = _problem(document, detail)
    also = f" ({more} more {'fault' if more == 1 else 'faults'} after this one.)" if more else ""
    value = None if detail["type"] == "missing" else detail["input"]
    return InputError(field=document.place(path), value=value, problem=problem, fix=fix + also)


def _problem(document: Document, detail: ErrorDetails) -> tuple[str, str]:
    kind, path, context = detail["type"], detail["loc"], detail.get("ctx", {})
    if kind == "quantity":
        return str(context["problem"]), str(context["fix"])
    if kind == "extra_forbidden":
        return "is not a known key", nearest(str(path[-1]), list(known_keys(section_at(PlanFile, path[:-1]))))
    if kind == "missing":
        return "is missing", f"Add {path[-1]}."
    if kind in ("int_parsing", "int_type", "greater_than_equal"):
        least = context.get("ge", 1)
        return "is not a whole number from " + str(least) + " on", "Give for example 2."
    if kind == "string_pattern_mismatch":
        return "is not a short name", "Use lower-case letters, digits and hyphens, starting with a letter."
    if kind.startswith("date_"):
        return "is not a date", "Give year, month and day, for example 2026-11-15."
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return "is not a section", "Indent its keys below it."
    if kind in ("list_type", "tuple_type"):
        return "is not a list", "Write each entry on a line that starts with '- '."
    if kind in ("too_short", "string_too_short"):
        return "is empty", "Give at least one."
    if kind == "string_type":
        return "is not a text", "Give one value, for example a name."
    if kind == "literal_error" and path == ("version",):
        return "is not a version this program reads", "Write version: 1."
    return detail["msg"][0].lower() + detail["msg"][1:], "Correct the value."
