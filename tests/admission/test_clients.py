"""The overload experiment: who gives up when, what a guard does, and a stream taken up after its beginning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.admission_pools import policy, served, stated
from ullage.admission.clients import Clients, arrivals_at, clients_of, quantile, window_latencies
from ullage.admission.policy import ClassPolicy, Success
from ullage.service.trial.trial import Guard, requests_of
from ullage.workload.classes import Metric


def clients(replicas: int = 2) -> Clients:
    return clients_of(served(), policy(), replicas=replicas)


def test_a_stream_is_taken_up_after_its_lead() -> None:
    whole = replace(clients(), lead_s=0.0).steady(10.0, span_s=300.0)
    later = replace(clients(), lead_s=100.0).steady(10.0, span_s=200.0)
    assert whole.arrival_s is not None
    assert later.arrival_ps is not None
    kept = whole.arrival_s >= 100.0
    assert np.allclose(np.asarray(later.arrival_ps) / 1e12, whole.arrival_s[kept] - 100.0)
    assert later.requests.class_of is not None
    assert whole.requests.class_of is not None
    assert bool((later.requests.class_of == whole.requests.class_of[kept]).all())


def test_the_patient_wait_and_the_others_give_up_at_their_timeout() -> None:
    pool = clients()
    load = pool.steady(100.0)
    patient = pool.run(load, patient=True).total.counts
    others = pool.run(load, from_s=0.0, keep_requests=True)
    assert patient.timed_out == 0
    assert others.total.counts.timed_out > 0
    times = requests_of(others)
    waited_s = (times.first_token_s - times.arrival_s)[np.isfinite(times.first_token_s)]
    # A step under way is finished before anybody is taken down.
    assert float(waited_s.max()) < 4.0 + 0.1


def test_a_guard_bounds_what_runs_and_what_waits() -> None:
    pool = clients()
    guard = Guard(running_requests=4, waiting_requests=3, first_token_s={"chat": 0.5, "batch": 0.5})
    found = pool.run(pool.steady(60.0), guard=guard, patient=True, from_s=0.0, keep_requests=True)
    times = requests_of(found)
    answered = np.isfinite(times.end_s) & (times.outcome <= 1)
    events = [(at, 1) for at in times.admitted_s[answered]] + [(at, -1) for at in times.end_s[answered]]
    most = running = 0
    for _, change in sorted(events):
        running += change
        most = max(most, running)
    assert most <= 4 * pool.replicas
    assert found.total.counts.shed > 0


@pytest.mark.parametrize("success", [Success.DEADLINE, Success.ANSWER])
def test_a_looser_success_criterion_counts_more(success: Success) -> None:
    pool = clients()
    loose = replace(
        pool,
        policy=replace(
            pool.policy,
            classes={name: ClassPolicy(success=success, deadline=stated("d", 15.0)) for name in ("chat", "batch")},
        ),
    )
    load = pool.steady(30.0)
    by_slo = pool.run(load, patient=True).total.counts.success
    assert loose.run(load, patient=True).total.counts.success > by_slo


def test_latencies_of_a_window_are_of_those_who_came_in_it() -> None:
    pool = clients()
    load = pool.steady(10.0, span_s=60.0)
    outcome = pool.run(load, patient=True, from_s=0.0, keep_requests=True)
    halves = [window_latencies(pool, load, outcome, from_s=a, until_s=b) for a, b in ((0.0, 30.0), (30.0, 60.0))]
    whole = window_latencies(pool, load, outcome, from_s=0.0, until_s=60.0)
    for key, values in whole.items():
        assert values.size == sum(each[key].size for each in halves)
    assert float(whole["chat", Metric.TTFT].min()) > 0.0


def test_what_never_ended_is_longer_than_anything() -> None:
    assert quantile(np.array([3.0, 1.0, 2.0, np.nan]), 0.75) == 3.0
    assert quantile(np.array([3.0, 1.0, 2.0, np.nan]), 0.9) == np.inf


def test_replicas_join_when_they_are_said_to() -> None:
    fleet = arrivals_at(2, 3, at_s=10.0)
    assert fleet.total_replicas == 5
    assert fleet.ready_replicas == 2
    assert fleet.events[0].replicas == (2, 3, 4)
    assert arrivals_at(2, 0, at_s=10.0).events == ()
