"""Step profiles of AIConfigurator's core package (aiconfigurator-core), where it is installed: an optional extra.

The package holds kernel times measured by NVIDIA on its devices, and puts steps together from them. We ask it for steps
on a grid and keep the answers as a profile; none of its data is in ullage. What it leaves out is the engine's own time
around the kernels, so that its steps are short by a scheduler's millisecond or so. A load test mends that.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import InputError, check_name

NAME = "aiconfigurator"
# Its names of devices and engines, by ours.
SYSTEMS = {
    "a100-80gb-pcie": "a100_pcie",
    "a100-80gb-sxm": "a100_sxm",
    "b200-sxm": "b200_sxm",
    "b300-sxm": "b300_sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "h100-pcie": "h100_pcie",
    "h100-sxm": "h100_sxm",
    "h200-sxm": "h200_sxm",
    "l4": "l4",
    "l40s": "l40s",
}
BACKENDS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
# Twice as many at each step: interpolation between two of them errs by a few percent.
SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS_TOKENS = (128, 512, 2_048, 8_192, 32_768)
PROMPTS_TOKENS = (64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384)
_MS = 1e-3


@dataclass(frozen=True, kw_only=True)
class ProfileQuery:
    """The replica whose steps are wanted; `model_names` are tried in order, as the package knows models by their hub's
    name."""

    model_names: Sequence[str]
    device: str
    engine: str
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1


def installed_version() -> str:
    """The version of the package, or an InputError that says how to get it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("aiconfigurator-core")
    except PackageNotFoundError:
        raise InputError(
            field="step_profile",
            value=NAME,
            problem="the package aiconfigurator-core is not installed",
            fix="Install it beside ullage (pip install aiconfigurator-core), or give a CSV of measured steps.",
        ) from None


def profile_rows(asked: ProfileQuery) -> list[dict[str, str]]:
    """Steps of this replica as rows of our own profile table."""
    engine = _engine(asked)
    rows = []
    for sequences in SEQUENCES:
        for context in CONTEXTS_TOKENS:
            duration_s = float(engine.predict_decode_latency(sequences, context, 2)) * _MS
            rows.append(_row("decode", duration_s, sequences=sequences, kv_tokens=sequences * context))
    prompts = (
        _row("prefill", float(engine.predict_prefill_latency(1, tokens)) * _MS, tokens=tokens)
        for tokens in PROMPTS_TOKENS
    )
    return [*rows, *prompts]


def _row(kind: str, duration_s: float, *, sequences: int = 0, kv_tokens: int = 0, tokens: int = 0) -> dict[str, str]:
    return {
        "kind": kind,
        "sequences": str(sequences),
        "kv_tokens": str(kv_tokens),
        "tokens": str(tokens),
        "duration_s": repr(duration_s),
    }


def _engine(asked: ProfileQuery) -> Any:
    """The package's own engine of the first name it knows."""
    installed_version()
    check_name(asked.device, SYSTEMS, field="step_profile: device")
    check_name(asked.engine, BACKENDS, field="step_profile: engine")
    # It talks at length about tables it loads for other models.
    logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)
    from aiconfigurator_core.sdk.engine import EngineHandle  # type: ignore[import-not-found,unused-ignore]

    reason = ""
    for name in asked.model_names:
        try:
            return EngineHandle.compile(
                name,
                SYSTEMS[asked.device],
                BACKENDS[asked.engine],
                tp_size=asked.tp,
                pp_size=asked.pp,
                attention_dp_size=asked.dp_attention,
                moe_tp_size=asked.tp // asked.ep,
                moe_ep_size=asked.ep,
            )
        except Exception as error:  # noqa: BLE001 - whatever it refuses with, the answer is that it has no profile
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise InputError(
        field="step_profile",
        value=NAME,
        problem=f"has no profile of {' or '.join(asked.model_names) or 'this model'} on {asked.device}: {reason}",
        fix="Leave it out for the estimate, or give a CSV of measured steps.",
    )
