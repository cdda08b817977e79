"""One replica as the service curve sees it: an engine, the devices it runs on, and what lies outside its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.simulate.engine import Engine, StepTable


@dataclass(frozen=True, kw_only=True)
class Replica:
    """`request_overhead_s` is what a request spends before its first token and outside the engine's steps."""

    engine: Engine
    devices: int = 1
    request_overhead_s: float = 0.0

    def __post_init__(self) -> None:
        if self.devices < 1 or self.request_overhead_s < 0.0:
            raise InputError(
                field="replica.devices",
                value=(self.devices, self.request_overhead_s),
                problem="a replica has at least one device, and its overhead is not negative",
                fix="Give the devices of one engine, tp x pp.",
            )

    def slowed(self, ratio: float) -> Replica:
        """The same replica with every step `ratio` times as long: what an error of the step model would do."""
        if ratio == 1.0:
            return self
        return replace(
            self,
            engine=replace(self.engine, step=slowed_table(self.engine.step, ratio)),
            request_overhead_s=self.request_overhead_s * ratio,
        )


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
