"""What a plan file may say. Unknown keys are refused with the nearest known one; nothing has a hidden default.

Every field that is left out is None here; the default that stands in for it is chosen where the specification is
made, and listed in the plan as an assumption.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from ullage.errors import InputError
from ullage.facts.engine import CAPACITY_POLICIES
from ullage.facts.startup import STORAGES
from ullage.files.faults import read_sections
from ullage.files.keys import KeyPath, KeyRow, put_key, rows_of
from ullage.files.sections.adapters import AdaptersSection
from ullage.files.sections.admission import AdmissionSection
from ullage.files.sections.ages import AgesSection
from ullage.files.sections.claims import ClaimsSection
from ullage.files.sections.class_traffic import OutcomesSection, UsersSection
from ullage.files.sections.cost import CostSection
from ullage.files.sections.disaggregated import DisaggregatedSection
from ullage.files.sections.emit import EmitSection
from ullage.files.sections.options import OptionsSection
from ullage.files.sections.policy import PolicySection
from ullage.files.sections.prices import PricesSection
from ullage.files.sections.quantities import (
    DAY_S,
    Bandwidth,
    Bytes,
    Count,
    CountOrNone,
    Duration,
    Growth,
    Range,
    Ratio,
    RequestRate,
    Share,
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
from ullage.files.sections.section import Key, Name, Section, ours
from ullage.files.sections.sites import SitesSection
from ullage.files.sections.speculation import SpeculationSection
from ullage.files.sections.tools import ToolSection
from ullage.files.strict_yaml import Document, read_yaml
from ullage.memory.settings import PREFIX_CACHES
from ullage.simulate.fleet import BETWEEN_TURNS, DEFAULT_ROUTER, ROUTINGS
from ullage.units import DURATION, FRACTION, TOKENS

# Defaults of the file itself. Those that a stage works with stand in that stage, with their sources.
ENGINE = ours("pool.engine", "vllm", "", "the engine most request logs and load tests come from")
TENSOR_PARALLEL = ours("pool.tensor_parallel", 1, "devices", "a replica of one device")
PIPELINE_PARALLEL = ours("pool.pipeline_parallel", 1, "stages", "a replica without stages")
EXPERT_PARALLEL = ours("pool.expert_parallel", 1, "devices", "experts are sharded as the layers are")
APPROVED_CONCURRENCY = ours(
    "pool.approved_concurrency", 1, "requests", "an engine refuses to start unless one request of its context fits"
)
STORAGE = ours("pool.storage", "shared-filesystem", "", "what published clusters read from: a file system of all nodes")

# Defaults that are worked out and not written down, in the words of the reference.
_ANY, _NONE, _BUILT_IN, _ESTIMATED = "any", "none", "the built-in profile's", "step times are estimated"
_ENGINES_OWN = "the engine's own: ullage facts engines"
POOL = "pool"
"""What the only pool is called where it has no name."""
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
        Growth | None, Key(means="Traffic growth per week, such as 2%.", default=_BUILT_IN, moves=_PER_CLASS)
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


class EvidenceSection(Section):
    """What is known by measurement."""

    engine_logs: Annotated[
        tuple[str, ...],
        Key(
            means="Start-up logs or /metrics dumps of this pool's engine.",
            default="memory is estimated",
            moves="memory.kv_tokens",
        ),
    ] = ()
    startup_logs: Annotated[
        tuple[str, ...],
        Key(
            means="Start-up logs or `vllm bench startup` results: how long a start takes.",
            default="starts are as published",
            moves="ready.cold_p50_s",
        ),
    ] = ()
    load_tests: Annotated[
        tuple[str, ...],
        Key(
            means="Load tests of this pool's replica, of any tool: its step times are fitted to them.",
            default=_ESTIMATED,
            moves="step.decode_1_s",
        ),
    ] = ()
    step_profile: Annotated[
        str | None,
        Key(
            means="Measured steps of this pool's replica: a CSV, a sweep of Dynamo, `aiconfigurator` or `aisimulate`.",
            default=_ESTIMATED,
            moves="step.decode_1_s",
        ),
    ] = None
    calibrations: Annotated[
        tuple[str, ...],
        Key(
            means="What `ullage calibrate --out` wrote for this pool's replica, in their place.",
            default=_ESTIMATED,
            moves="step.decode_1_s",
        ),
    ] = ()
    cached_share: Annotated[
        ShareOrNone | None,
        Key(
            means="The share of the load tests' prompt tokens that were prefix hits.",
            default="as stated in their files, or none",
            moves="step.prefill_1000_s",
        ),
    ] = None
    tested_replicas: Annotated[
        Count | None,
        Key(
            means="Replicas that shared the load of the load tests.",
            default="as stated in their files, or 1",
            moves="step.decode_64_s",
        ),
    ] = None
    dated: Annotated[
        datetime.date | None,
        Key(
            means="When the load tests and the step profile were made; their age counts from here.",
            default="the day of planning",
            moves="margin.evidence_ratio",
        ),
    ] = None
    tested_device: Annotated[
        str | None,
        Key(
            means="The device that the load tests ran on; on another one they scale an estimate.",
            default="as stated in their files, or the pool's",
            moves="step.decode_1_s",
        ),
    ] = None
    tested_tensor_parallel: Annotated[
        Count | None,
        Key(
            means="The tensor parallelism that the load tests ran with.",
            default="as stated in their files, or the pool's",
            moves="step.decode_1_s",
        ),
    ] = None
    validated: Annotated[
        tuple[str, ...],
        Key(
            means="What `ullage validate --verdict` wrote for this pool's replica.",
            default="the plan says that it is not validated",
            still="The first screen states it; no figure follows it.",
        ),
    ] = ()
    accept: Annotated[
        tuple[str, ...],
        Key(
            means="Anomalies despite which evidence is used: model, device, engine, parallelism, physics ...",
            default="evidence of another configuration is refused",
            still="It admits evidence; the evidence itself moves the figures.",
        ),
    ] = ()


class HostCacheSection(Section):
    """Blocks that the device lets go of stay in host memory, and are loaded when a prompt begins with them."""

    bytes: Annotated[
        Bytes, Key(means="Host memory that one replica keeps them in, such as 200GB.", moves="host.prefix_cache_bytes")
    ]
    bandwidth: Annotated[
        Bandwidth,
        Key(
            means="What one replica loads from there, over all of its devices, such as 25GB/s.",
            still="Latencies at the planned size follow it, and replicas only where those come near their limits.",
        ),
    ]


class PoolSection(Section):
    """The replicas that serve it: model, engine, device, and the parallelism of one replica."""

    name: Annotated[
        Name | None, Key(means="The name of this pool in figures, among several.", default=POOL, still=_LABEL)
    ] = None
    model: Annotated[
        str,
        Field(min_length=1),
        Key(means="A name in the catalogue, or a config.json or its folder.", moves="memory.weights_bytes"),
    ]
    device: Annotated[
        str,
        Field(min_length=1),
        Key(means="A name in the catalogue: ullage facts devices.", moves="step.decode_1_s"),
    ]
    tensor_parallel: Annotated[
        Count | None,
        Range(least=1, most=1024),
        Key(means="Devices over which each layer is sharded.", default=TENSOR_PARALLEL, moves="memory.weights_bytes"),
    ] = None
    pipeline_parallel: Annotated[
        Count | None,
        Range(least=1, most=1024),
        Key(means="Stages into which the layers are divided.", default=PIPELINE_PARALLEL, moves="memory.weights_bytes"),
    ] = None
    expert_parallel: Annotated[
        Count | None,
        Range(least=1, most=1024),
        Key(
            means="Devices over which whole experts are divided.", default=EXPERT_PARALLEL, moves="memory.weights_bytes"
        ),
    ] = None
    engine: Annotated[
        str | None, Key(means="vllm, sglang or tensorrt-llm.", default=ENGINE, moves="memory.kv_tokens")
    ] = None
    engine_version: Annotated[
        str | None,
        Key(means="Its version.", default="the newest version that is known", moves="memory.kv_tokens"),
    ] = None
    memory_fraction: Annotated[
        Share | None,
        Range(least=0.01, most=1.0, dimension=FRACTION),
        Key(means="The share of device memory for the engine.", default=_ENGINES_OWN, moves="memory.kv_tokens"),
    ] = None
    token_budget: Annotated[
        Tokens | None,
        Range(least=1, most=16777216, dimension=TOKENS),
        Key(means="Tokens that one step may compute.", default=_ENGINES_OWN, moves="curve.sustained_rps"),
    ] = None
    max_sequences: Annotated[
        Count | None,
        Key(means="Sequences that run at once.", default=_ENGINES_OWN, moves="memory.activations_bytes"),
    ] = None
    poll_steps: Annotated[
        Count | None,
        Range(least=1, most=65536),
        Key(
            means="Decode steps between two polls for new requests (SGLang's --scheduler-recv-interval).",
            default=_ENGINES_OWN,
            moves="limit.*",
        ),
    ] = None
    batch_wait_steps: Annotated[
        Count | None,
        Range(least=1, most=65536),
        Key(
            means="Steps that a request waits to be batched with others (TensorRT-LLM's batch_wait_timeout_iters).",
            default="none",
            moves="limit.*",
        ),
    ] = None
    capacity_policy: Annotated[
        str | None,
        Key(
            means="What must fit before a waiting request is let in: its present need (vLLM), that and a share of what "
            "running answers may still come to (SGLang), every longest answer, or all prompts (both TensorRT-LLM's).",
            default=_ENGINES_OWN,
            moves="curve.sustained_rps",
            choices=CAPACITY_POLICIES,
        ),
    ] = None
    conservativeness: Annotated[
        Ratio | None,
        Range(least=0.0, most=100.0),
        Key(
            means="SGLang's --schedule-conservativeness: its first new-token ratio is 0.7 times this.",
            default="1",
            still="It decides only where answers fill the KV cache before other limits bind.",
        ),
    ] = None
    max_output: Annotated[
        Tokens | None,
        Range(least=1, most=100000000, dimension=TOKENS),
        Key(
            means="Output tokens that requests allow at most (max_tokens), for engines that reserve room for them.",
            default="the 99th percentile of what comes out in each class",
            moves="curve.sustained_rps",
        ),
    ] = None
    max_context: Annotated[
        Tokens | None,
        Range(least=2, most=100000000, dimension=TOKENS),
        Key(
            means="The longest context that the engine accepts; no class may be allowed a longer one.",
            default="the longest context of any class",
            moves="memory.sequences",
        ),
    ] = None
    kv_dtype: Annotated[
        str | None, Key(means="Of the KV cache.", default="as the checkpoint says", moves="memory.kv_bytes_per_token")
    ] = None
    speculation: Annotated[SpeculationSection | None, Key(means="Tokens drafted ahead, where it speculates.")] = None
    adapters: Annotated[AdaptersSection | None, Key(means="LoRA adapters, where requests have their own.")] = None
    disaggregated: Annotated[
        DisaggregatedSection | None, Key(means="Prefill and decode on separate replicas, if disaggregated.")
    ] = None
    prefix_cache: Annotated[
        str | None,
        Key(
            means="Where prefix hits come from: as the traffic states them where one replica's cache would still hold "
            "them, from the simulated cache of each replica, or none.",
            default="stated; simulated where the router goes by prefixes or sessions",
            moves="curve.sustained_rps",
            choices=PREFIX_CACHES,
        ),
    ] = None
    router: Annotated[
        str | None,
        Key(
            means="How requests are given to replicas: sticky sends a session to one of them, prefix_aware a prompt to "
            "the one that has most of it, both unless that one is much busier than others.",
            default=DEFAULT_ROUTER,
            moves="curve.sustained_rps",
            choices=ROUTINGS,
        ),
    ] = None
    router_refresh: Annotated[
        Duration | None,
        Key(
            means="How often the router's view of loads and caches is updated.",
            default="always current",
            still="Latencies at the planned size follow it, and replicas only where those come near their limits.",
        ),
    ] = None
    host_cache: Annotated[
        HostCacheSection | None, Key(means="The prefix cache's tier in host memory, where there is one.")
    ] = None
    between_turns: Annotated[
        str | None,
        Key(
            means="Sessions whose next turn comes a think time or a tool call after the answer, and what becomes of "
            "their KV until then: cached (it goes when others need the room), kept (it stays held), offloaded (to "
            "host memory) or dropped.",
            default="turns arrive as in the traffic, however long answers take",
            moves="curve.sustained_rps",
            choices=BETWEEN_TURNS,
        ),
    ] = None
    approved_concurrency: Annotated[
        Count | None,
        Key(
            means="Requests of the longest context that must fit in one replica at once.",
            default=APPROVED_CONCURRENCY,
            moves="memory.headroom_bytes",
        ),
    ] = None
    least_replicas: Annotated[
        Count | None,
        Range(least=1, most=20000),
        Key(means="Replicas that always run.", default="as many as needed", moves="fleet.replicas"),
    ] = None
    most_replicas: Annotated[
        Count | None,
        Range(least=1, most=20000),
        Key(
            means="The most replicas that may run, reserves included; a larger plan is refused.",
            default="no limit",
            moves="fleet.needed_replicas",
        ),
    ] = None
    storage: Annotated[
        str | None,
        Key(
            means="Where a new node reads the weights from.",
            default=STORAGE,
            moves="ready.weights_p50_s",
            choices=tuple(STORAGES),
        ),
    ] = None
    storage_bandwidth: Annotated[
        Bandwidth | None,
        Key(
            means="How fast it reads them.",
            default="what such storage usually gives: ullage facts startups",
            moves="ready.weights_p50_s",
        ),
    ] = None
    instance: Annotated[
        str | None,
        Key(
            means="The machine its replicas run on, by name: ullage facts devices lists them.",
            default="the one on which the fleet needs the fewest devices",
            moves="packing.*",
        ),
    ] = None
    evidence: Annotated[EvidenceSection | None, Key(means="Measurements of this pool.")] = None


class PlanFile(Section):
    """A plan file, version 1."""

    version: Annotated[Literal["1"], Key(means="The version of this layout.", still="There is one version so far.")]
    service: Annotated[
        str, Field(min_length=1), Key(means="The name of the plan.", still="It is the title of the plan.")
    ]
    dated: Annotated[
        datetime.date | None,
        Key(
            means="When its values were stated; their age counts from here.",
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
