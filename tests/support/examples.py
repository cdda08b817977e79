"""Small problems for the simulator with round numbers, whose answers are worked out by hand.

A step of n decodes takes 10 + n units and each prefill token adds 1, in picoseconds, unless an example says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from support.reference import Reference
from ullage.simulate.problem import NEVER_PS, ClassField, EngineField, Problem


def problem(
    arrivals: list[int],
    prompts: list[int],
    outputs: list[int],
    *,
    blocks: int = 1000,
    block_shift: int = 0,
    sequences: int = 4,
    budget: int = 100,
    queue: int = 2**40,
    long_prefill: int = 2**40,
    priority: bool = False,
    replicas: int = 1,
    rate_1024: int = 1024,
    width: int = 1,
    host_blocks: int = 0,
    host_block_ps: int = 0,
    policy: int = 0,
    ratio: tuple[int, int, int] = (0, 0, 0),
    clip: int = 4096,
    classes: list[dict[int, int]] | None = None,
    **more: Any,
) -> Problem:
    engine = np.zeros((1, len(EngineField)), np.int64)
    for column, amount in {
        EngineField.MAX_SEQUENCES: sequences, EngineField.TOKEN_BUDGET: budget, EngineField.BLOCKS: blocks,
        EngineField.BLOCK_SHIFT: block_shift, EngineField.QUEUE_BOUND: queue, EngineField.LONG_PREFILL: long_prefill,
        EngineField.PRIORITY: int(priority), EngineField.KV_SHIFT: 40, EngineField.KV_SEGMENTS: 1,
        EngineField.TOKEN_SHIFT: 40, EngineField.TOKEN_SEGMENTS: 1, EngineField.IS_SUM: 1,
        EngineField.RATE_1024: rate_1024, EngineField.WIDTH: width,
        EngineField.HOST_ROOM: host_blocks, EngineField.HOST_BLOCK_PS: host_block_ps,
        EngineField.POLICY: policy, EngineField.RATIO_FIRST: ratio[0], EngineField.RATIO_LEAST: ratio[1],
        EngineField.RATIO_DECAY: ratio[2], EngineField.CLIP_TOKENS: clip,
    }.items():  # fmt: skip
        engine[0, column] = amount
    rows = np.full((len(classes or [{}]), len(ClassField)), NEVER_PS, np.int64)
    rows[:, [ClassField.LEVEL, ClassField.LIMIT_TOKENS]] = 0
    for row, given in zip(rows, classes or [{}], strict=True):
        for field, value in given.items():
            row[field] = value
    given_events = more.pop("events", [])
    return Problem(
        engines=engine,
        decode_base_ps=(10 + np.arange(sequences + 1))[None, :, None],
        decode_slope_ps=np.zeros((1, sequences + 1, 1), np.int64),
        token_base_ps=np.zeros((1, 1), np.int64),
        token_slope_ps=np.ones((1, 1), np.int64),
        replica_type=np.zeros(replicas, np.int16),
        ready_at_start=more.pop("ready", np.ones(replicas, np.int8)),
        event_ps=np.array([each[0] for each in given_events], np.int64),
        event_replica=np.array([each[1] for each in given_events], np.int32),
        event_kind=np.array([each[2] for each in given_events], np.int8),
        classes=rows,
        group_class=np.arange(len(rows), dtype=np.int16),
        arrival_ps=np.array(arrivals, np.int64),
        prompt_tokens=np.array(prompts, np.int32),
        output_tokens=np.array(outputs, np.int32),
        cached_tokens=np.array(more.pop("cached", []), np.int32),
        group=np.array(more.pop("group", []), np.int16),
        cancel_after_ps=np.array(more.pop("cancel", []), np.int64),
        client_start_ps=np.array(more.pop("clients", []), np.int64),
        think_ps=np.array(more.pop("think", []), np.int64),
        **more,
    )


def run(given: Problem) -> Reference:
    return Reference(given).run()


def times(given: Problem) -> list[tuple[int, int]]:
    return [(each.first_ps, each.finish_ps) for each in run(given).requests]
