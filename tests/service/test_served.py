"""A stream served by a pool: what is counted, its SLOs, and what no run may violate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.served_replicas import batching_replica, class_with_slos
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.service.replica import Replica
from ullage.service.served import Served, ServedPool, serve
from ullage.service.steps.floor import Floor
from ullage.service.steps.step_model import roofline_model
from ullage.simulate.engine import Engine, StepTable
from ullage.workload.synthetic.stream import NO_SESSION, PS_PER_S, Stream


def floor() -> Floor:
    """The floor of a small model on a fast device, far below every replica here."""
    step = roofline_model(
        find_model("llama-3.1-8b"),
        find_device("h100-sxm"),
        sharding=Sharding(),
        engine="vllm",
        cache=kv_dtype("bf16"),
    )
    return step.floor


def stream(arrival_s: np.ndarray, *, prompt: int = 200, output: int = 20, names: tuple[str, ...] = ("chat",)) -> Stream:
    count = arrival_s.size
    return Stream(
        arrival_ps=np.rint(arrival_s * PS_PER_S).astype(np.int64),
        prompt_tokens=np.full(count, prompt, np.int32),
        output_tokens=np.full(count, output, np.int32),
        cached_tokens=np.zeros(count, np.int32),
        reuse_blocks=np.zeros(count, np.int32),
        class_index=(np.arange(count) % len(names)).astype(np.int16),
        tenant=np.zeros(count, np.int32),
        session=np.full(count, NO_SESSION, np.int32),
        class_names=names,
        deadlines_s=(math.inf,) * len(names),
        until_ps=round(float(arrival_s[-1]) * PS_PER_S) + 1,
    )


def poisson(rate_rps: float, span_s: float = 200.0, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(0, span_s, int(rate_rps * span_s)))


def run(arrival_s: np.ndarray, **changes: object) -> Served:
    pool = changes.pop("pool", ServedPool())
    classes = changes.pop("classes", (class_with_slos(ttft_p95=0.5),))
    replica = changes.pop("replica", batching_replica())
    assert isinstance(pool, ServedPool)
    assert isinstance(replica, Replica)
    assert isinstance(classes, tuple)
    return serve(replica, stream(arrival_s), classes, floor=floor(), pool=pool, seed=0)


def test_a_request_alone_takes_its_steps() -> None:
    """One request: a step with its prompt, then one step for each further token, and the overhead before the first."""
    replica = batching_replica(request_overhead_s=0.03)
    found = run(np.array([0.0, 100.0]), replica=replica).classes[0]
    step_s, prefill_s = 0.01 + 2e-4, 200 * 2e-5
    assert found.latencies["ttft"].mean_s == pytest.approx(0.01 + prefill_s + 0.03, rel=0.02)
    assert found.latencies["tpot"].mean_s == pytest.approx(step_s, rel=0.01)
    assert found.latencies["e2e"].mean_s == pytest.approx(0.01 + prefill_s + 0.03 + 19 * step_s, rel=0.01)


def test_every_request_comes_to_one_end() -> None:
    served = run(poisson(30.0), pool=ServedPool(waiting_requests=5, timeout_s=1.0))
    counts = served.classes[0].counts
    assert counts.requests == served.requests
    assert counts.shed > 0
    assert counts.success + counts.late + counts.shed + counts.timed_out == served.requests
    assert served.goodput_rps <= served.offered_rps


def test_more_traffic_is_not_served_faster() -> None:
    means = [run(poisson(rate)).classes[0].latencies["ttft"].mean_s for rate in (2.0, 20.0, 40.0)]
    assert means == sorted(means)


def test_more_replicas_help() -> None:
    one, four = (run(poisson(70.0), pool=ServedPool(replicas=count)) for count in (1, 4))
    assert four.classes[0].latencies["ttft"].quantiles_s[0.95] < one.classes[0].latencies["ttft"].quantiles_s[0.95]
    assert not one.is_keeping_up
    assert four.is_keeping_up
    assert one.broken == ("chat ttft_p95",)
    assert four.broken == ()


def test_a_limit_that_all_keep_makes_every_request_good() -> None:
    assert run(poisson(5.0), classes=(class_with_slos(ttft_p95=60.0),)).classes[0].good_fraction == 1.0
    assert run(poisson(5.0), classes=(class_with_slos(ttft_p95=1e-3),)).classes[0].good_fraction == 0.0


def test_a_class_without_slos_is_served_all_the_same() -> None:
    both = stream(poisson(10.0), names=("chat", "batch"))
    served = serve(batching_replica(), both, (class_with_slos(ttft_p95=0.5),), floor=floor(), seed=0)
    assert [each.name for each in served.classes] == ["chat", "batch"]
    assert served.classes[1].slo_limits == ()
    assert served.classes[1].good_fraction == 1.0


def test_reporting_progress_changes_nothing() -> None:
    told: list[float] = []
    quiet = run(poisson(20.0))
    loud = serve(
        batching_replica(),
        stream(poisson(20.0)),
        (class_with_slos(ttft_p95=0.5),),
        floor=floor(),
        seed=0,
        report=told.append,
    )
    assert loud == quiet
    assert told == sorted(told)
    assert len(told) > 10


def test_steps_that_beat_the_device_are_an_internal_error() -> None:
    from ullage.errors import InternalError

    table = StepTable.affine(step_s=1e-6, max_sequences=16)
    impossible = Replica(engine=Engine(step=table, kv_blocks=2_000, max_sequences=16, budget_tokens=512))
    with pytest.raises(InternalError, match="peak"):
        run(poisson(5.0), replica=impossible)
