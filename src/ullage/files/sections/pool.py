"""`pool:` of a plan: a model on devices and an engine's settings, with adapters, speculation and a host cache."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ullage.facts.engine import CAPACITY_POLICIES
from ullage.facts.startup import STORAGES
from ullage.files.sections.disaggregated import DisaggregatedSection
from ullage.files.sections.evidence import EvidenceSection
from ullage.files.sections.quantities import (
    Bandwidth,
    Bytes,
    Count,
    Duration,
    Number,
    Range,
    Ratio,
    Share,
    ShareOrNone,
    Tokens,
)
from ullage.files.sections.section import Key, Name, Section, ours
from ullage.memory.adapters import MOST_RANK, SLOWDOWN, TARGETS
from ullage.memory.settings import PREFIX_CACHES
from ullage.memory.speculation import METHODS, MOST_DRAFT_TOKENS
from ullage.simulate.fleet import BETWEEN_TURNS, DEFAULT_ROUTER, ROUTINGS
from ullage.units import FRACTION, TOKENS

# Defaults of the file itself. Those that a stage works with stand in that stage, with their sources.
ENGINE = ours("pool.engine", "vllm", "", "the engine most request logs and load tests come from")
TENSOR_PARALLEL = ours("pool.tensor_parallel", 1, "devices", "a replica of one device")
PIPELINE_PARALLEL = ours("pool.pipeline_parallel", 1, "stages", "a replica without stages")
EXPERT_PARALLEL = ours("pool.expert_parallel", 1, "devices", "experts are sharded as the layers are")
APPROVED_CONCURRENCY = ours(
    "pool.approved_concurrency", 1, "requests", "an engine refuses to start unless one request of its context fits"
)
STORAGE = ours("pool.storage", "shared-filesystem", "", "what published clusters read from: a file system of all nodes")
_ENGINES_OWN = "the engine's own: ullage facts engines"
POOL = "pool"
"""What the only pool is called where it has no name."""
_LABEL = "It is a label: figures carry it in their names, and none changes its value."


class AdaptersSection(Section):
    """Slots on the device for adapters of one base model. Each adapter in use is taken to have one."""

    slots: Annotated[
        Count,
        Range(least=1, most=10000),
        Key(
            means="Adapters that are on a device at once (vLLM's --max-loras, SGLang's --max-loras-per-batch). Give as "
            "many as are in use: waiting for a slot is not planned.",
            moves="memory.adapters_bytes",
        ),
    ]
    rank: Annotated[
        Count,
        Range(least=1, most=MOST_RANK),
        Key(means="The largest rank of any of them (--max-lora-rank).", moves="memory.adapters_bytes"),
    ]
    targets: Annotated[
        tuple[str, ...],
        Field(max_length=len(TARGETS)),
        Key(
            means="What they adapt: attention, feed-forward, experts.",
            default="attention and feed-forward",
            moves="memory.adapters_bytes",
        ),
    ] = ()
    slowdown: Annotated[
        ShareOrNone | None,
        Range(least=0.0, most=1.0, dimension=FRACTION),
        Key(
            means="What they add to the time of a step, its KV reads aside; measure it, or give a load test with them.",
            default=SLOWDOWN,
            moves="step.decode_1_s",
        ),
    ] = None


class SpeculationSection(Section):
    """How the engine speculates. A step verifies the drafted tokens and one of the model's own."""

    method: Annotated[str, Key(means="What drafts the tokens.", moves="step.decode_1_s", choices=METHODS)]
    tokens: Annotated[
        Count,
        Range(least=1, most=MOST_DRAFT_TOKENS),
        Key(means="Tokens drafted for each step.", moves="step.decode_1_s"),
    ]
    acceptance: Annotated[
        tuple[ShareOrNone, ...],
        Field(max_length=MOST_DRAFT_TOKENS),
        Key(
            means="The share of steps in which the first, second, ... drafted token is accepted, such as [85%, 70%]: "
            "vLLM logs it by position.",
            default="what was published for such heads on code, with mtp and eagle up to 3 tokens",
            moves="point.highest_rps",
        ),
    ] = ()
    accepted_per_step: Annotated[
        Number | None,
        Range(least=1.0, most=MOST_DRAFT_TOKENS + 1.0),
        Key(
            means="In place of acceptance by position: tokens that a step brings, the model's own counted.",
            default="1 and the sum of acceptance",
            moves="point.highest_rps",
        ),
    ] = None
    draft: Annotated[
        str | None,
        Key(
            means="The model that drafts, for eagle and draft: a name in the catalogue, or a config.json.",
            default="none",
            moves="memory.weights_bytes",
        ),
    ] = None


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
            means="What must fit before a waiting request is admitted: its present need (vLLM), that and a share of "
            "what running answers may still need (SGLang), every longest answer, or all prompts (both TensorRT-LLM's).",
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
            default="the 99th percentile of output lengths in each class",
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
