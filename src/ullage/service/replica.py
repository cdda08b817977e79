"""One replica as the service curve sees it: an engine, the devices it runs on, and what lies outside its steps."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from ullage.errors import InputError
from ullage.memory.settings import Runtime, share
from ullage.simulate.engine import CapacityPolicy, Engine, PolicyName, StepTable


def capacity_of(runtime: Runtime) -> CapacityPolicy:
    """What must fit before the engine lets a request in."""
    limit = runtime.settings.output_limit_tokens
    given = runtime.conservativeness
    return CapacityPolicy(
        name=cast("PolicyName", runtime.capacity_policy.value),
        conservativeness=1.0 if given is None else share(given),
        output_limit_tokens=limit,
    )


@dataclass(frozen=True, kw_only=True)
class Replica:
    engine: Engine
    devices: int = 1

    def __post_init__(self) -> None:
        if self.devices < 1:
            raise InputError(
                field="replica.devices",
                value=self.devices,
                problem="a replica has at least one device",
                fix="Give the devices of one engine, tp x pp.",
            )

    @property
    def request_overhead_s(self) -> float:
        """What a request alone spends outside the engine's steps before its first token; simulated latencies have it
        in them, and a deadline counted at the engine is earlier by it."""
        return self.engine.request_overhead_s

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for replicas whose engines do the same. Trials of one replica share it: its tables are long."""
        digest = hashlib.blake2b(digest_size=16)
        for name, value in sorted(vars(self.engine.step).items()):
            digest.update(name.encode())
            digest.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
        rest = tuple(repr(value) for name, value in sorted(vars(self.engine).items()) if name != "step")
        return digest.digest(), rest

    def slowed(self, ratio: float) -> Replica:
        """The same replica with every step `ratio` times as long: what an error of the step model would do."""
        if ratio == 1.0:
            return self
        engine = self.engine
        slow = replace(
            engine,
            step=slowed_table(engine.step, ratio),
            request_overhead_s=engine.request_overhead_s * ratio,
            crowd_overhead_s=engine.crowd_overhead_s * ratio,
        )
        return replace(self, engine=slow)


def slowed_table(table: StepTable, ratio: float) -> StepTable:
    """Every time in the table times `ratio`, rounded to whole picoseconds and never below one."""
    if not ratio > 0.0:
        raise InputError(field="ratio", value=ratio, problem="must be greater than 0", fix="Give 1 for no change.")
    return replace(
        table,
        decode_base_ps=np.maximum(1, np.rint(table.decode_base_ps * ratio)).astype(np.int64),
        decode_slope_ps=np.rint(table.decode_slope_ps * ratio).astype(np.int64),
        token_base_ps=np.rint(table.token_base_ps * ratio).astype(np.int64),
        token_slope_ps=np.rint(table.token_slope_ps * ratio).astype(np.int64),
        pair_ps=table.pair_ps * ratio,
    )
