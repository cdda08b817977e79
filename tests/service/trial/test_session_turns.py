"""Sessions whose turns wait for their answers, as plans and traces have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.served_replicas import class_with_slos
from ullage.service.replica import slowed_table
from ullage.service.trial.mix import MixLoad, SessionTurns, turns_before
from ullage.service.trial.shared_runs import shared_run
from ullage.service.trial.trial import play
from ullage.simulate import Engine, Fleet, OpenLoop, Prefixes, Requests, StepTable
from ullage.simulate.load import PS_PER_S
from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.stream import NO_SESSION, Stream

STEP = StepTable.affine(step_s=0.008, sequence_s=5e-5, prefill_token_s=3e-5, max_sequences=64)
ENGINE = Engine(step=STEP, kv_blocks=20_000, max_sequences=64, budget_tokens=2048)
CLASSES = (class_with_slos("chat", ttft_p95=1.0), class_with_slos("coding", ttft_p95=3.0))


def lateness_s(engine: Engine, load: OpenLoop) -> float:
    """How much later than it was drawn a later turn came, on average."""
    found = play(engine, Fleet(replicas=8), load, seed=1, keep_requests=True).requests
    assert found is not None
    assert load.requests.turns is not None
    assert load.arrival_ps is not None
    later = load.requests.turns.follows >= 0
    return float((found.arrival_s - load.arrival_ps / PS_PER_S)[later].mean())


@pytest.mark.slow
def test_turns_come_when_they_were_drawn_on_an_idle_pool_and_later_on_a_slow_one() -> None:
    turns = SessionTurns.on(ENGINE, "cached")
    load = MixLoad(model=builtin(), classes=CLASSES, chains=True, turns=turns)(rate_rps=2.0, span_s=300.0, seed=1)
    idle_s = lateness_s(ENGINE, load)
    assert abs(idle_s) < 1.0
    assert lateness_s(replace(ENGINE, step=slowed_table(STEP, 8.0)), load) > abs(idle_s) + 5.0


def test_a_trickle_that_is_given_a_request_repeats_nothing_near() -> None:
    """The request comes at many times the rate that distances were seen at, beyond what a distance can count."""
    model = builtin()
    trickle = replace(model, classes=tuple(replace(each, mean_rate_rps=1e-12) for each in model.classes))
    for seed in range(8):
        load = MixLoad(model=trickle, classes=CLASSES, chains=True)(rate_rps=1e-12, span_s=60.0, seed=seed)
        assert load.requests.prefixes is not None
        assert (load.requests.prefixes.shared_tokens >= 0).all()


def stream(session: list[int], parent: list[int] | None, shared: list[int]) -> Stream:
    count = len(session)
    return Stream(
        arrival_ps=np.arange(count, dtype=np.int64) * PS_PER_S,
        prompt_tokens=np.full(count, 100, np.int32),
        output_tokens=np.ones(count, np.int32),
        cached_tokens=np.zeros(count, np.int32),
        reuse_blocks=np.zeros(count, np.int32),
        class_index=np.zeros(count, np.int16),
        tenant=np.zeros(count, np.int16),
        session=np.array(session, np.int32),
        class_names=("all",),
        deadlines_s=(np.inf,),
        until_ps=count * PS_PER_S,
        parent=None if parent is None else np.array(parent, np.int32),
        shared_tokens=None if parent is None else np.array(shared, np.int32),
    )


def test_the_turn_before_is_that_of_the_session_or_the_prompt_that_is_gone_on_from() -> None:
    assert turns_before(stream([7, 2, 7, NO_SESSION, 2], None, [])).tolist() == [-1, -1, 0, -1, 1]
    none = [NO_SESSION] * 4
    # The second shares instructions alone, the third goes on from the first, and so does the fourth: it came later.
    assert turns_before(stream(none, [-1, 0, 0, 0], [0, 40, 100, 100])).tolist() == [-1, -1, 0, -1]


def test_loads_that_differ_by_their_prefixes_alone_are_not_taken_for_one() -> None:
    def found_tokens(shared: int) -> int:
        given = Prefixes(parent=np.array([-1, 0]), shared_tokens=np.array([0, shared]))
        requests = Requests(prompt_tokens=np.array([64, 96]), output_tokens=np.array([2, 2]), prefixes=given)
        load = OpenLoop(requests=requests, arrival_s=np.array([0.0, 9.0]))
        return shared_run(load, ("prefixes",), lambda: play(ENGINE, Fleet(), load, seed=1)).total.cached_tokens

    assert [found_tokens(each) for each in (64, 32, 0)] == [64, 32, 0]
