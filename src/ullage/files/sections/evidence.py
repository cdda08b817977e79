"""`evidence:` of a plan: measurements of the configuration, and calibrations made of them."""

from __future__ import annotations

import datetime
from typing import Annotated

from ullage.files.sections.quantities import (
    Count,
    ShareOrNone,
)
from ullage.files.sections.section import Key, Section


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
            default="step times are estimated",
            moves="step.decode_1_s",
        ),
    ] = ()
    step_profile: Annotated[
        str | None,
        Key(
            means="Measured steps of this pool's replica: a CSV, a sweep of Dynamo, `aiconfigurator` or `aisimulate`.",
            default="step times are estimated",
            moves="step.decode_1_s",
        ),
    ] = None
    calibrations: Annotated[
        tuple[str, ...],
        Key(
            means="What `ullage calibrate --out` wrote for this pool's replica, in their place.",
            default="step times are estimated",
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
