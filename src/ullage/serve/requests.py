"""What a request may say, verb by verb: the keywords of the verb's function, by the same names and with the same words.

Files are names of uploads. Everything else is checked by the verb itself, so that a message is the same whoever asks.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Upload = Annotated[
    str,
    Field(
        pattern=r"^u[0-9a-f]{32}(\.[a-z0-9]{1,8}){0,2}$",
        description="An upload's name, as POST /v1/uploads answered it.",
        examples=["u5f70bf18a086007016e948b04aed3b82.csv"],
    ),
]
Uploads = Annotated[list[Upload], Field(max_length=64)]
Text = Annotated[str, Field(max_length=2000)]
Texts = Annotated[list[Text], Field(max_length=200)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Columns = Annotated[dict[str, Text], Field(max_length=64, description="Columns of the log by our names.")]
Plan = Annotated[
    str | dict[str, JsonValue] | None,
    Field(
        description="The plan file's text (YAML), the same as an object, or null for the built-in example.",
        examples=[None],
        union_mode="left_to_right",
    ),
]
Changes = Annotated[
    dict[str, JsonValue] | list[Text],
    Field(
        description="What if: keys of the plan file and their values, as --set takes them.",
        examples=[{"workload.classes.chat.rate": "30 req/s"}],
        max_length=200,
    ),
]


class VerbRequest(BaseModel):
    """What every request may say."""

    model_config = ConfigDict(extra="forbid", strict=False, ser_json_inf_nan="null", allow_inf_nan=False)

    as_of: Annotated[
        datetime.date | None, Field(description="The day on which ages are counted. Default: today (UTC).")
    ] = None


class PlanRequest(VerbRequest):
    """A plan, and what if."""

    plan: Plan = None
    set: Changes = Field(default_factory=dict)
    traffic: Annotated[
        str | float | None, Field(description="What if: all traffic, such as +30% or x2.", examples=["+30%"])
    ] = None
    seed: Annotated[int, Field(ge=0, le=2**31, description="The seed of everything random.")] = 0
    limit: Annotated[
        Text | None, Field(description="Refuse work estimated above it, such as cpu=10min,memory=8GiB.")
    ] = None
    what_if: Annotated[
        bool, Field(description="Ask twice, with the changes and without, as the command line does.")
    ] = False


class WholePlanRequest(PlanRequest):
    """`plan`."""

    quick: Annotated[bool, Field(description="Leave out the study of the plan's risk.")] = False
    keep: Annotated[bool, Field(description="Keep the plan in the service's ledger.")] = False


class EvaluateRequest(PlanRequest):
    """A first look at a plan, and the decided plan as a job."""

    quick: Annotated[bool, Field(description="The decided plan leaves out the study of its risk.")] = True
    session: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9_-]{1,64}$",
            description="A page's own name: a newer request of one session cancels the older one's job.",
        ),
    ] = None
    decide: Annotated[bool, Field(description="Submit the decided plan as well.")] = True


class NamedRequest(PlanRequest):
    """`drill`."""

    names: Texts = []


class CheckRequest(NamedRequest):
    """`check`."""

    rules: Uploads = []


class RiskRequest(PlanRequest):
    """`risk`."""

    bad_hour: Annotated[str | float | None, Field(description="What an hour of violated SLOs costs.")] = None


class ScenariosRequest(PlanRequest):
    """`scenarios`."""

    own: Texts = []


class ScaleRequest(PlanRequest):
    """`scale`."""

    rules: Uploads = []
    days: Annotated[int, Field(ge=1, le=7)] = 1
    weeks: Annotated[int, Field(ge=1, le=8)] = 2


class ShadowRequest(PlanRequest):
    """`shadow`: rules on production's traffic. Only the service's own Prometheus is ever asked."""

    rules: Uploads = []
    files: Uploads = []
    from_prometheus: Annotated[bool, Field(description="Ask the Prometheus that the service was started with.")] = False
    since: Text | None = None
    until: Text | None = None
    names: Upload | None = None


class PoolRequest(PlanRequest):
    """What `curve` and `size` have in common."""

    slos: Texts = []
    definitions: Text | None = None
    calibration: Upload | None = None
    beside: Text | None = None


class CurveRequest(PoolRequest):
    """`curve`."""

    margin: Text | None = None
    sensitivity: bool = False
    measured: Uploads = []


class SizeRequest(PoolRequest):
    """`size`."""

    rate: Annotated[Text | None, Field(examples=["50 req/s"])] = None


class CostRequest(PlanRequest):
    """`cost`."""

    by: Text | None = None
    rule: Text = ""
    basis: Text = "usage"
    idle: Text = "apart"
    spread_rule: Text = ""
    allotted: dict[str, float] | None = None
    known: Texts | None = None
    usage: Uploads = []
    columns: Columns | None = None
    against: Text | None = None
    marginal: bool = False
    commit: Text | None = None
    before: Plan = None
    months: Annotated[int | None, Field(ge=1, le=120, description="A budget of so many months.")] = None
    fleet: Text = "fixed"


class BuyRequest(PlanRequest):
    """`buy`."""

    fleet: Text = "following"
    months: Annotated[int | None, Field(ge=1, le=120)] = None
    regret: Annotated[str | float | None, Field(description="What any world may cost above its best mix.")] = None


class CompareRequest(VerbRequest):
    """`compare`: two plans, each a plan file's text, an object, or an upload of what `plan` answered."""

    old: Plan = None
    new: Plan = None
    old_saved: Upload | None = None
    new_saved: Upload | None = None
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    limit: Text | None = None


class BrownfieldRequest(PlanRequest):
    """`brownfield`."""

    files: Annotated[list[Upload], Field(min_length=1, max_length=64)]


class EmitRequest(PlanRequest):
    """`emit`."""

    targets: Texts = []
    searched: Annotated[bool, Field(description="Search the scaling rule first, and write that one.")] = False


class ReplicaRequest(VerbRequest):
    """How a replica is divided over devices, and what its engine is told."""

    tp: Count = 1
    pp: Count = 1
    ep: Count = 1
    dp_attention: Count = 1
    engine: Text | None = None
    engine_version: Text | None = None
    max_sequences: Count | None = None
    poll_steps: Count | None = None
    batch_wait_steps: Count | None = None
    capacity_policy: Text | None = None
    max_output: Text | None = None
    token_budget: Text | None = None
    kv_dtype: Text | None = None


class MemoryRequest(ReplicaRequest):
    """`memory`."""

    model: Annotated[Text, Field(min_length=1, examples=["llama-3.1-8b"])]
    device: Annotated[Text, Field(min_length=1, examples=["h100-sxm"])]
    context: Text | None = None
    concurrency: Count | None = None
    memory_fraction: Text | None = None
    engine_logs: Uploads = []


class FactsRequest(VerbRequest):
    """`facts`."""

    kind: Annotated[
        Literal["devices", "models", "engines", "startups", "efficiencies", "operations", "prices"],
        Field(examples=["devices"]),
    ] = "devices"
    name: Text | None = None


class ProfileRequest(VerbRequest):
    """`profile`."""

    traces: Annotated[list[Upload], Field(min_length=1, max_length=64)]
    columns: Columns | None = None
    format_name: Text | None = None
    zone: Text = ""


class ForecastRequest(VerbRequest):
    """`forecast`."""

    source: Upload | None = None
    horizon: Annotated[Text, Field(description="Such as 30d.")] = "30d"
    step: Text | None = None
    percentile: Text = "95%"
    events: Texts = []
    by: Text = "class"
    columns: Columns | None = None
    format_name: Text | None = None
    zone: Text = ""
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class CalibrateRequest(ReplicaRequest):
    """`calibrate`: what load tests hold, or with a model and a device a step model fitted to them."""

    files: Annotated[list[Upload], Field(min_length=1, max_length=64)]
    inspect: bool = False
    goodput: Text | None = None
    goodput_rule: Text | None = None
    model: Text | None = None
    device: Text | None = None
    kv_tokens: Count | None = None
    cached_share: Text | None = None
    replicas: Count | None = None
    prefill: Text | None = None
    transfer: Text | None = None
    timeout: Text | None = None
    accept: Texts = []


class ValidateRequest(PlanRequest):
    """`validate`: load tests against what a plan predicts of them."""

    files: Annotated[list[Upload], Field(min_length=1, max_length=64)]
    calibration: Upload | None = None
    cached_share: Text | None = None
    replicas: Count | None = None
    timeout: Text | None = None
    accept: Texts = []


class GateRequest(PlanRequest):
    """`gate`: what was measured of a plan's replica before and after a change."""

    before: Upload
    after: Upload
    tolerance: Text = "5%"
    no_replicas: Annotated[bool, Field(description="Leave out what it means in replicas and USD.")] = False
    cached_share: Text | None = None
    replicas: Count | None = None
    timeout: Text | None = None
    accept: Texts = []


class InitRequest(VerbRequest):
    """`init`: the text of a first plan file."""

    model: Text | None = None
    device: Text | None = None
    traces: Uploads = []
    profile: Upload | None = None
    load_tests: Uploads = []
    engine_logs: Uploads = []
    service: Text | None = None


class SimulateRequest(PlanRequest, ReplicaRequest):
    """`simulate`."""

    traces: Uploads = []
    load_tests: Uploads = []
    columns: Columns | None = None
    zone: Text = ""
    model: Text | None = None
    device: Text | None = None
    context: Text | None = None
    kv_tokens: Count | None = None
    speculation: Annotated[
        Text | None,
        Field(description="How the engine speculates, such as mtp:3:2.4 or draft:4:2.1@MODEL.", examples=["mtp:1:1.8"]),
    ] = None
    calibration: Upload | None = None
    replicas: Count | None = None
    prefill: Annotated[
        Text | None,
        Field(description="Prompts on replicas of their own, such as 2 or 2:tp=4:budget=16k:sequences=16."),
    ] = None
    transfer: Annotated[
        Text | None,
        Field(description="KV from one replica to another, and the share sent while it is computed: 50GB/s:30%."),
    ] = None
    routing: Text = "least_outstanding"
    router_refresh: Text | None = None
    prefix_cache: Text | None = None
    host_cache: Annotated[
        Text | None, Field(description="Prefix cache in a replica's host memory, such as 200GB:25GB/s.")
    ] = None
    between_turns: Annotated[
        Text | None,
        Field(description="Turns come after answers; KV until then: cached, kept, offloaded or dropped."),
    ] = None
    queue_limit: Annotated[int | None, Field(ge=0, le=10_000_000)] = None
    timeout: Text | None = None
    rate: Text | None = None
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None
    arrivals: Text = "poisson"
    clients: Annotated[int | None, Field(ge=1, le=100_000)] = None
    requests: Count | None = None
    cached_share: Text | None = None
    span: Text | None = None
    slos: Texts = []


class ReconcileRequest(VerbRequest):
    """`reconcile`: a kept plan against production. Only the service's own Prometheus is ever asked."""

    plan: Annotated[str, Field(pattern=r"^(latest|[0-9a-f]{4,64})$", description="An entry of the ledger.")] = "latest"
    files: Uploads = []
    from_prometheus: Annotated[bool, Field(description="Ask the Prometheus that the service was started with.")] = False
    since: Text | None = None
    until: Text | None = None
    names: Upload | None = None
    paid: Upload | None = None
    keep: bool = False
    backtest: bool = False


class LedgerRequest(VerbRequest):
    """`ledger`: what was kept; entries cannot be taken out or put in over the network."""

    action: Literal["list", "show", "diff", "verify"] = "list"
    names: Annotated[list[Annotated[str, Field(pattern=r"^(latest|[0-9a-f]{4,64})$")]], Field(max_length=2)] = []
    kind: Text | None = None
    service: Text | None = None
    most: Annotated[int, Field(ge=1, le=1000)] = 20


REQUESTS: dict[str, type[VerbRequest]] = {
    "plan": WholePlanRequest,
    "init": InitRequest,
    "options": PlanRequest,
    "risk": RiskRequest,
    "scenarios": ScenariosRequest,
    "brownfield": BrownfieldRequest,
    "check": CheckRequest,
    "drill": NamedRequest,
    "emit": EmitRequest,
    "scale": ScaleRequest,
    "shadow": ShadowRequest,
    "compare": CompareRequest,
    "reconcile": ReconcileRequest,
    "ledger": LedgerRequest,
    "facts": FactsRequest,
    "profile": ProfileRequest,
    "forecast": ForecastRequest,
    "validate": ValidateRequest,
    "gate": GateRequest,
    "calibrate": CalibrateRequest,
    "memory": MemoryRequest,
    "curve": CurveRequest,
    "simulate": SimulateRequest,
    "size": SizeRequest,
    "cost": CostRequest,
    "buy": BuyRequest,
}
"""Every verb that is served, in the order of the command line's help."""


QUICK_VERBS = ("facts", "memory", "ledger", "init")
"""Verbs that take no time: they do not wait behind those that do."""

AGENT_VERBS = (
    "plan", "options", "risk", "scenarios", "check", "drill", "emit", "scale", "compare", "facts", "memory", "curve",
    "simulate", "size", "cost", "buy",
)  # fmt: skip
"""Verbs that only look: what they are asked with is in the request, and nothing is kept."""


def request_document(request: VerbRequest) -> dict[str, Any]:
    """A request as it is sent to its process: plain values, the day settled, so that equal requests are equal texts."""
    found = request.model_dump(mode="json")
    if found.get("as_of") is None:
        found["as_of"] = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return found
