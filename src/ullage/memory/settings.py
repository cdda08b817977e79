"""What decides a replica's memory beside model and device: the engine's settings, stated or by default.

`RuntimeSettings` is what the user states; `Runtime` is the same with every gap filled from the engine's defaults, each
value an `Assumption` with its source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.facts.catalogue import Catalogue
from ullage.facts.device import Device
from ullage.facts.engine import CAPACITY_POLICIES, POLICIES_OF, EngineDefaults, engine_defaults
from ullage.facts.model import LinearAttention, Model, StateSpace
from ullage.memory.adapters import Adapters
from ullage.memory.assumed import (
    CONSERVATIVENESS,
    EVERY_STEP,
    FRAGMENTATION,
    NO_MEMORY,
    OUTPUT_LIMIT,
    PRESENT_NEED,
    SGLANG_SEQUENCES,
)  # fmt: skip
from ullage.memory.kv import KvDtype, kv_dtype
from ullage.memory.sharding import Sharding, check_sharding
from ullage.memory.speculation import Speculation, check_speculation

USUAL_ENGINE = "vllm"

_MOST_STEP_TOKENS = 1 << 22
_MOST_SEQUENCES = 1 << 20
_MOST_POLL_STEPS = 1 << 16
_MOST_BLOCK_TOKENS = 1 << 14
_MOST_BYTES = 1 << 60
STATED, SIMULATED, OFF = PREFIX_CACHES = ("stated", "simulated", "off")
"""Hits as the traffic states them, from a simulated cache of each replica, or none."""
PREFIX_ROUTERS = ("sticky", "prefix_aware")
"""Routers whose only use is that prompts find their beginnings."""


@dataclass(frozen=True, kw_only=True)
class HostCache:
    """The prefix cache's tier in a replica's host memory: its size, and how fast the replica loads from it."""

    size_bytes: int
    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        _require_count("host cache", self.size_bytes, _MOST_BYTES, "bytes")
        if not 0.0 < self.bandwidth_bytes_per_s < math.inf:
            raise InputError(
                field="host cache",
                value=self.bandwidth_bytes_per_s,
                problem="is not loaded from at a bandwidth above 0",
                fix="Give what a replica loads from host memory, for example 25GB/s.",
            )


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """How an engine is started. None leaves a value to the engine's default for its version and device, and the
    engine itself to its log, or to vLLM.

    `step_tokens` are the tokens one step may compute (vLLM's max_num_batched_tokens, SGLang's
    chunked_prefill_size). `kv_pool_bytes` sizes the cache outright, in place of a fraction. Offloaded bytes are of
    one device. `prefix_cache` says whether hits are as stated, simulated, or none; `router` is what gives requests to
    replicas, with knowledge that is renewed every `router_refresh_s`. `host_cache` is the tier of the prefix cache in
    host memory, where there is one; `between_turns` is what becomes of a session's KV until its next turn, which then
    comes after the answer and not when the traffic says. `poll_steps` are the decode steps between two
    looks for new requests (SGLang's scheduler_recv_interval), `batch_wait_steps` those that a request waits for others
    to be admitted with (TensorRT-LLM's batch_wait_timeout_iters), none by default. `capacity_policy` is what must fit
    before a request is admitted, `conservativeness` SGLang's schedule_conservativeness, and `output_limit_tokens` the
    max_tokens that requests state. `source` is where the stated values
    come from; `logged` names those that an engine's log states.
    """

    source: Source
    evidence: Evidence = Evidence.STATED
    engine: str | None = None
    version: str | None = None
    sharding: Sharding = field(default_factory=Sharding)
    memory_fraction: float | None = None
    step_tokens: int | None = None
    max_sequences: int | None = None
    poll_steps: int | None = None
    batch_wait_steps: int | None = None
    capacity_policy: str | None = None
    conservativeness: float | None = None
    output_limit_tokens: int | None = None
    block_tokens: int | None = None
    kv_dtype: str | None = None
    max_context_tokens: int | None = None
    kv_pool_bytes: int | None = None
    graphs: bool = True
    mtp: bool = False
    vision: bool = True
    adapters: Adapters | None = None
    speculation: Speculation | None = None
    prefix_cache: str | None = None
    router: str | None = None
    router_refresh_s: float = 0.0
    host_cache: HostCache | None = None
    between_turns: str | None = None
    weight_offload_bytes: int = 0
    kv_offload_bytes: int = 0
    logged: Mapping[str, Source] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fraction = self.memory_fraction
        if fraction is not None and not (math.isfinite(fraction) and 0 < fraction <= 1):
            fix = "Give a share above 0 and up to 1, for example 0.9."
            raise InputError(field="memory fraction", value=fraction, problem="is not a share of the memory", fix=fix)
        _require_count("token budget", self.step_tokens, _MOST_STEP_TOKENS, "tokens")
        _require_count("max sequences", self.max_sequences, _MOST_SEQUENCES, "sequences")
        _require_count("poll steps", self.poll_steps, _MOST_POLL_STEPS, "steps")
        _require_count("batch wait steps", self.batch_wait_steps, _MOST_POLL_STEPS, "steps")
        _require_count("max output", self.output_limit_tokens, 1 << 31, "tokens")
        _require_count("block size", self.block_tokens, _MOST_BLOCK_TOKENS, "tokens")
        _require_count("context", self.max_context_tokens, 1 << 31, "tokens")
        _require_count("KV memory", self.kv_pool_bytes, _MOST_BYTES, "bytes")
        for name, offloaded in (("weight offload", self.weight_offload_bytes), ("KV offload", self.kv_offload_bytes)):
            _require_count(name, offloaded or None, _MOST_BYTES, "bytes")

    @property
    def simulates_prefixes(self) -> bool:
        """Whether each replica's prefix cache is simulated: as stated, or because the router depends on its contents,
        because it has a second tier, or because of what becomes of it between turns."""
        follows = self.router in PREFIX_ROUTERS or self.host_cache is not None or self.between_turns is not None
        return self.prefix_cache == SIMULATED or (self.prefix_cache is None and follows)

    @property
    def loads_mtp(self) -> bool:
        """Whether the multi-token prediction layers are loaded: as stated, or for speculation."""
        return self.mtp or (self.speculation is not None and self.speculation.method == "mtp")

    def stated(self, name: str, value: int | float | str, unit: str) -> Assumption:
        if name in self.logged:
            return Assumption(name=name, value=value, unit=unit, evidence=Evidence.MEASURED, source=self.logged[name])
        return Assumption(name=name, value=value, unit=unit, evidence=self.evidence, source=self.source)


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Settings without gaps. `covers` says what the memory fraction is a fraction of; see facts/engine.py."""

    settings: RuntimeSettings
    engine: str
    version: str
    fallback: str
    architecture: str
    covers: str
    cache: KvDtype
    graphs_in_fraction: bool
    memory_fraction: Assumption
    step_tokens: Assumption
    max_sequences: Assumption
    poll_steps: Assumption
    capacity_policy: Assumption
    conservativeness: Assumption | None
    output_limit: Assumption | None
    block_tokens: Assumption
    state_cache_ratio: Assumption | None
    state_slots: Assumption | None
    states_per_sequence: Assumption | None
    kv_dtype: Assumption
    max_context: Assumption
    context_memory: Assumption
    workspace_memory: Assumption
    communication_memory: Assumption
    graph_memory: Assumption
    fragmentation: Assumption

    @property
    def sharding(self) -> Sharding:
        return self.settings.sharding

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Every value the budget rests on, stated or assumed."""
        sharding = self.sharding
        degrees = {"tp": sharding.tp, "pp": sharding.pp, "ep": sharding.ep, "dp_attention": sharding.dp_attention}
        cuts = [self.settings.stated(name, value, "devices") for name, value in degrees.items()]
        values = (getattr(self, name) for name in self.__dataclass_fields__)
        given = self.settings.speculation
        drafted = () if given is None else (given.tokens_per_step,)
        return (*cuts, *(value for value in values if isinstance(value, Assumption)), *drafted)


# Engines that are built on one vendor's libraries.
_NVIDIA_ONLY = ("tensorrt-llm",)


def resolve(
    settings: RuntimeSettings, model: Model, device: Device, engines: Catalogue | None = None, *, nearest: bool = True
) -> Runtime:
    """Fill what is not stated from the engine's defaults; refuse contradictions by InputError."""
    check_sharding(model, settings.sharding)
    check_speculation(model, settings.speculation)
    defaults = engine_defaults(
        settings.engine or USUAL_ENGINE,
        settings.version,
        device.memory_bytes,
        device_name=device.name,
        devices=settings.sharding.devices,
        nearest=nearest,
        catalogue=engines,
    )
    if defaults.engine in _NVIDIA_ONLY and device.vendor.lower() != "nvidia":
        raise InputError(
            field="engine",
            value=defaults.engine,
            problem=f"does not run on {device.name}, a device of {device.vendor}",
            fix="Give vllm or sglang, or a device of NVIDIA.",
        )
    covers = defaults.text("memory_fraction_covers")
    assert covers is not None, f"{defaults.engine}: every engine sheet says what its fraction covers"
    step_tokens = _value(settings, defaults, "token_budget", settings.step_tokens, "tokens")
    policy = _capacity_policy(settings, defaults)
    graphs = settings.graphs and device.vendor.lower() in _GRAPH_VENDORS
    return Runtime(
        settings=settings,
        engine=defaults.engine,
        version=defaults.version,
        fallback=defaults.fallback,
        architecture=device.architecture,
        covers=covers,
        cache=kv_dtype(str(_kv_dtype(settings, model).value), field="KV dtype"),
        graphs_in_fraction=bool(defaults.number("graphs_in_fraction")),
        memory_fraction=_value(settings, defaults, "memory_fraction", settings.memory_fraction, "fraction"),
        step_tokens=step_tokens,
        max_sequences=_max_sequences(settings, defaults),
        poll_steps=_poll_steps(settings, defaults),
        capacity_policy=policy,
        conservativeness=_conservativeness(settings, str(policy.value)),
        output_limit=_output_limit(settings, str(policy.value)),
        block_tokens=_value(settings, defaults, "block_size", settings.block_tokens, "tokens"),
        **_states(settings, model, defaults),
        kv_dtype=_kv_dtype(settings, model),
        max_context=_max_context(settings, model),
        context_memory=defaults.values.get("context_memory", NO_MEMORY),
        workspace_memory=defaults.values.get("non_torch_memory", NO_MEMORY),
        communication_memory=defaults.values.get("communication_memory", NO_MEMORY),
        graph_memory=defaults.values.get("graph_memory", NO_MEMORY) if graphs else replace(NO_MEMORY, name="no graphs"),
        fragmentation=FRAGMENTATION,
    )


_GRAPH_VENDORS = ("nvidia", "amd")
"""Devices on which engines capture graphs of kernels; elsewhere a compiled program has no such cost."""


def whole(value: Assumption | Figure) -> int:
    """The number of a value that is counted."""
    assert not isinstance(value.value, str), value.name
    return int(value.value)


def share(value: Assumption) -> float:
    """The number of an assumption that is a fraction."""
    assert not isinstance(value.value, str), value.name
    return float(value.value)


def _value(
    settings: RuntimeSettings, defaults: EngineDefaults, key: str, stated: int | float | None, unit: str
) -> Assumption:
    if stated is not None:
        return settings.stated(key.replace("_", " "), stated, unit)
    found = defaults.values.get(key)
    if found is None:
        name = key.replace("_", " ")
        raise InputError(
            field=name,
            value=None,
            problem=f"{defaults.engine} {defaults.version} has no known default",
            fix=f"State the {name}.",
        )
    return found


def _max_sequences(settings: RuntimeSettings, defaults: EngineDefaults) -> Assumption:
    if settings.max_sequences is None and "max_sequences" not in defaults.values and defaults.engine == "sglang":
        return SGLANG_SEQUENCES
    return _value(settings, defaults, "max_sequences", settings.max_sequences, "sequences")


def _states(settings: RuntimeSettings, model: Model, defaults: EngineDefaults) -> dict[str, Assumption | None]:
    """How an engine sets memory aside for states, where the model has layers that keep one."""
    keys = ("state_cache_ratio", "state_slots", "states_per_sequence")
    mixers = [mixer for group in model.layers for mixer in group.layer.mixers]
    if not any(isinstance(each, (LinearAttention, StateSpace)) for each in mixers):
        return dict.fromkeys(keys)
    found = {key: defaults.values.get(key) for key in keys}
    each = found["states_per_sequence"]
    if each is not None and settings.prefix_cache == OFF:
        # Without a cache of prefixes nothing but the sequences themselves keeps a state.
        found["states_per_sequence"] = replace(each, value=1, low=None, high=None)
    return found


def _poll_steps(settings: RuntimeSettings, defaults: EngineDefaults) -> Assumption:
    if settings.poll_steps is not None:
        return settings.stated("poll steps", settings.poll_steps, "count")
    return defaults.values.get("poll_steps", EVERY_STEP)


def _capacity_policy(settings: RuntimeSettings, defaults: EngineDefaults) -> Assumption:
    """What must fit before a request is admitted: the engine's own policy, or another that it knows."""
    stated = settings.capacity_policy
    if stated is None:
        return defaults.values.get("capacity_policy", PRESENT_NEED)
    known = POLICIES_OF.get(defaults.engine, CAPACITY_POLICIES)
    if stated not in known:
        raise InputError(
            field="capacity policy",
            value=stated,
            problem=f"is not a policy of {defaults.engine}",
            fix=f"Give one of {', '.join(known)}, or another engine.",
        )
    return settings.stated("capacity policy", stated, "text")


def _conservativeness(settings: RuntimeSettings, policy: str) -> Assumption | None:
    stated = settings.conservativeness
    if policy != "new_token_ratio":
        if stated is None:
            return None
        raise InputError(
            field="conservativeness",
            value=stated,
            problem=f"is SGLang's, and the capacity policy is {policy}",
            fix="Leave it out, or give engine: sglang.",
        )
    if stated is not None and not 0.0 <= stated <= 100.0:
        raise InputError(
            field="conservativeness",
            value=stated,
            problem="is not between 0 and 100",
            fix="SGLang's default is 1; lower admits more requests, higher fewer.",
        )
    return CONSERVATIVENESS if stated is None else settings.stated("conservativeness", stated, "ratio")


def _output_limit(settings: RuntimeSettings, policy: str) -> Assumption | None:
    """The output tokens that requests state as their most, where the policy asks for them."""
    if settings.output_limit_tokens is not None:
        return settings.stated("max output", settings.output_limit_tokens, "tokens")
    return OUTPUT_LIMIT if policy in ("new_token_ratio", "guaranteed_no_evict") else None


def _kv_dtype(settings: RuntimeSettings, model: Model) -> Assumption:
    """Engines keep the cache in the model's own dtype unless the checkpoint or the user says otherwise."""
    if settings.kv_dtype is not None:
        return settings.stated("KV dtype", kv_dtype(settings.kv_dtype, field="KV dtype").name, "text")
    usual = "fp16" if model.base_format.name == "fp16" else "fp32" if model.base_format.name == "fp32" else "bf16"
    found = kv_dtype(model.kv_dtype).name if model.kv_dtype is not None else usual
    return Assumption(name="KV dtype", value=found, unit="text", evidence=Evidence.ASSUMED, source=model.sources[0])


def _max_context(settings: RuntimeSettings, model: Model) -> Assumption:
    asked = settings.max_context_tokens
    if asked is None:
        return Assumption(
            name="context",
            value=model.max_context_tokens,
            unit="tokens",
            evidence=Evidence.ASSUMED,
            source=model.sources[0],
        )
    if asked > model.max_context_tokens:
        if (log := settings.logged.get("context")) is not None:
            raise InputError(
                field=log.where,
                value=f"a context of {asked} tokens",
                problem=f"is more than the {model.max_context_tokens} {model.name} was made for: the log may be of "
                "another model",
                fix=f"State the model that the log is of, or a context of at most {model.max_context_tokens}.",
            )
        raise InputError(
            field="context",
            value=asked,
            problem=f"is more than the {model.max_context_tokens} tokens {model.name} was made for",
            fix=f"Give at most {model.max_context_tokens}.",
        )
    return settings.stated("context", asked, "tokens")


def _require_count(name: str, value: int | None, most: int, noun: str) -> None:
    if value is None:
        return
    if value < 1:
        raise InputError(field=name, value=value, problem=f"is not a number of {noun}", fix="Give 1 or more.")
    if value > most:
        raise InputError(field=name, value=value, problem="is more than any engine takes", fix=f"Give at most {most}.")
