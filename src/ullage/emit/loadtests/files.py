"""Target `loadtest`: requests, commands of five load tools, and what is to come out, for one replica of each pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from ullage.emit.loadtests.design import check_classes, device_hour_usd, rate_tests, requests_of, settles
from ullage.emit.loadtests.tools import (
    REPLAY_TOOLS,
    RESULTS,
    SentTest,
    inference_perf,
    script,
    sglang_trace_name,
    trace_name,
)
from ullage.emit.loadtests.traces import BLOCK_TOKENS, SGLANG_BLOCK_TOKENS, mooncake_jsonl, shapes_csv
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text


def loadtest_files(plan: EmitPlan) -> list[EmittedFile]:
    return [file for pool in plan.pools for file in _files(plan, pool)]


def _files(plan: EmitPlan, pool: EmitPool) -> list[EmittedFile]:
    # Names first: a refusal for one of them should not wait for requests to be drawn.
    for key in ("name", "model"):
        pool.need(key)
    check_classes(pool)
    sent = [SentTest(test=each, load=requests_of(pool, each)) for each in rate_tests(pool)]
    found = [_criteria(plan, pool, sent), inference_perf(plan, pool, sent)]
    found += [script(plan, pool, tool, sent) for tool in REPLAY_TOOLS]
    for each in sent:
        rounded = mooncake_jsonl(each.load, block_tokens=SGLANG_BLOCK_TOKENS, whole_blocks=True)
        found += [
            EmittedFile(name=_shapes_name(pool, each), text=shapes_csv(each.load)),
            EmittedFile(name=trace_name(pool, each.test), text=mooncake_jsonl(each.load, block_tokens=BLOCK_TOKENS)),
            EmittedFile(name=sglang_trace_name(pool, each.test), text=rounded),
        ]
    return found


def _shapes_name(pool: EmitPool, sent: SentTest) -> str:
    return f"{pool.name}.loadtest.{sent.test.name}.csv"


def _criteria(plan: EmitPlan, pool: EmitPool, sent: list[SentTest]) -> EmittedFile:
    """The tests, when each passes, what it costs, and what all of them would settle."""
    head = plan.head(
        "Tests of one replica, with its prefix cache on and empty at the start of each. Run the scripts of one tool in "
        "this folder, low load first; then compare their results with the plan: ullage validate "
        f"{RESULTS}/* --plan PLAN.",
        "Each request's class is in the .csv next to its trace, row by row; load tools report all classes together.",
        "Each class has one chain of shared prefixes, so running requests share KV that production's sessions would "
        "not: "
        "hits are the plan's, KV use is lower.",
    )
    tree: dict[str, Any] = {
        "pool": pool.pool,
        "devices": pool.devices,
        "settles": settles(pool),
        "tests": [_test(pool, each) for each in sent],
    }
    return EmittedFile(name=f"{pool.name}.loadtest.yaml", text=yaml_text(head, tree))


def _test(pool: EmitPool, sent: SentTest) -> dict[str, Any]:
    test, drawn = sent.test, sent.load.requests
    minutes, price = test.span_s / 60.0, device_hour_usd(pool)
    cached = 0.0 if drawn.cached_tokens is None else float(np.sum(drawn.cached_tokens))
    limits = [
        f"{each.name} {name} at most {limit_s:g} s" for each in pool.classes for name, limit_s in each.slos.items()
    ]
    passes, else_ = (
        (
            "every SLO is met",
            "step times are longer than planned: calibrate on the result, and plan again",
        )
        if test.is_met
        else (
            "an SLO is violated, as predicted",
            "the replica does more than planned: calibrate on the result, and plan again for fewer replicas",
        )
    )
    found: dict[str, Any] = {
        "name": test.name,
        "requests": f"{_shapes_name(pool, sent)}, {trace_name(pool, test)}",
        "rate_rps": Reasoned(value=float(f"{test.rate_rps:.6g}"), why=test.why),
        "span_s": round(test.span_s),
        "request_count": sent.requests,
        "classes": _classes(sent),
        "mean_prompt_tokens": round(float(np.mean(drawn.prompt_tokens)), 1),
        "mean_output_tokens": round(float(np.mean(drawn.output_tokens)), 1),
        "cached_fraction": round(cached / float(np.sum(drawn.prompt_tokens)), 4),
        "slos": limits,
        "passes_when": passes,
        "otherwise": else_,
        "device_minutes": round(pool.devices * minutes, 1),
    }
    if price is not None:
        found["usd"] = Reasoned(
            value=round(pool.devices * minutes / 60.0 * price, 2),
            why=f"{pool.devices * minutes / 60.0:.3g} device-hours x {price:g} USD",
        )
    return found


def _classes(sent: SentTest) -> dict[str, int]:
    drawn = sent.load.requests
    if drawn.class_of is None:
        return {drawn.classes[0].name: sent.requests}
    counts = np.bincount(np.asarray(drawn.class_of, np.int64), minlength=len(drawn.classes))
    return {each.name: int(count) for each, count in zip(drawn.classes, counts, strict=True)}
