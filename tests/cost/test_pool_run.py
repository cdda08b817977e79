"""Usage from a simulation: it conserves the engine's busy time, agrees with the log of the same run, and who alone
sends more never pays less."""

from __future__ import annotations

import numpy as np
import pytest

from support.usage_logs import line
from ullage.cost.attribution.attribution import AttributionChoice, Idle, attribute
from ullage.cost.attribution.usage import GroupUse, grouped, grouped_run, usage_of_run
from ullage.cost.lines.line import Driver
from ullage.errors import InputError
from ullage.simulate.engine import Engine, StepTable
from ullage.simulate.fleet import Fleet
from ullage.simulate.load import LoadClass, OpenLoop, Requests
from ullage.simulate.outcome import Outcome
from ullage.simulate.simulation import simulate

ENGINE = Engine(step=StepTable.affine(step_s=0.008, prefill_token_s=3e-5), kv_blocks=4_000, max_sequences=32)
SPAN_S = 120.0


def _run(rates_rps: dict[str, float], *, seed: int = 1, keep: bool = True) -> tuple[Requests, Outcome]:
    """Tenants by rate; each draws from a stream of its own, so that one's growth leaves the others' requests alone."""
    arrivals, tenants, prompts, outputs = [], [], [], []
    for place, (name, rate) in enumerate(rates_rps.items()):
        rng = np.random.default_rng((seed, sum(map(ord, name))))
        # Thinning one dense stream: more traffic keeps the requests that were there and adds others.
        times = np.cumsum(rng.exponential(1.0 / 64.0, int(64 * SPAN_S)))
        marks = rng.uniform(0.0, 64.0, times.size)
        lengths = rng.integers(50, 800, times.size), rng.integers(5, 200, times.size)
        kept = (marks < rate) & (times < SPAN_S)
        arrivals.append(times[kept])
        tenants.append(np.full(int(kept.sum()), place))
        prompts.append(lengths[0][kept])
        outputs.append(lengths[1][kept])
    order = np.argsort(np.concatenate(arrivals), kind="stable")
    requests = Requests(
        prompt_tokens=np.concatenate(prompts)[order],
        output_tokens=np.concatenate(outputs)[order],
        classes=(LoadClass(ttft_slo_s=0.5),),
        class_of=np.zeros(order.size, np.int16),
        tenants=tuple(rates_rps),
        tenant_of=np.concatenate(tenants)[order].astype(np.int16),
    )
    load = OpenLoop(requests=requests, arrival_s=np.concatenate(arrivals)[order])
    return requests, simulate(ENGINE, Fleet(replicas=2), load, seed=seed, keep_requests=keep)


def _paid(rates_rps: dict[str, float], idle: Idle) -> dict[str, int]:
    """The two replicas for five minutes at a fixed price, by GPU time as the engine booked it."""
    requests, outcome = _run(rates_rps)
    groups = grouped_run(requests, outcome, "tenant")
    used = sum(each.gpu_s or 0.0 for each in groups) / (2 * 300.0)
    lines = [line(1_000_000, Driver.DEVICE_TIME, used_fraction=used)]
    found = attribute(lines, {"": groups}, AttributionChoice(by="tenant", idle=idle))
    return {row.name: row.total_cents for row in found.rows}


def test_groups_share_exactly_the_time_that_replicas_were_busy() -> None:
    requests, outcome = _run({"acme": 6.0, "globex": 3.0})
    groups = grouped_run(requests, outcome, "tenant")
    busy = sum(each.busy_s for each in outcome.replicas)
    assert sum(each.gpu_s or 0.0 for each in groups) == pytest.approx(busy, rel=1e-6)
    assert sum(each.requests for each in groups) == requests.count
    assert sum(each.successes for each in groups) == outcome.total.counts.success
    assert sum(each.output_tokens for each in groups) == outcome.total.output_tokens


def test_the_log_of_a_run_finds_nearly_what_its_engine_booked() -> None:
    """A log divides moments equally, the engine by tokens: close where requests are alike, and never far in KV."""
    requests, outcome = _run({"acme": 8.0, "globex": 4.0})
    booked = grouped_run(requests, outcome, "tenant")
    logged = grouped(usage_of_run(requests, outcome), "tenant")

    def share(groups: tuple[GroupUse, ...], what: str) -> float:
        values = [getattr(each, what) for each in groups]
        return float(values[0] / sum(values))

    assert share(logged, "gpu_s") == pytest.approx(share(booked, "gpu_s"), abs=0.03)
    assert share(logged, "kv_token_s") == pytest.approx(share(booked, "kv_token_s"), abs=0.02)


@pytest.mark.parametrize("idle", Idle)
def test_who_alone_sends_more_never_pays_less(idle: Idle) -> None:
    before = None
    for rate in (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0):
        paid = _paid({"acme": rate, "globex": 4.0}, idle)["acme"]
        assert before is None or paid >= before
        before = paid


def test_products_and_models_are_labels_too() -> None:
    requests, outcome = _run({"acme": 4.0, "globex": 4.0, "initech": 2.0})
    log = usage_of_run(requests, outcome, model="qwen3-32b", products={"acme": "search", "globex": "search"})
    assert [each.name for each in grouped(log, "model")] == ["qwen3-32b"]
    products = grouped(log, "product")
    assert [each.name for each in products] == ["search", "unallocated"]
    assert sum(each.requests for each in products) == requests.count


def test_a_run_that_kept_no_requests_cannot_be_attributed_one_by_one() -> None:
    requests, outcome = _run({"acme": 2.0}, keep=False)
    with pytest.raises(InputError, match="keep_requests=True"):
        usage_of_run(requests, outcome)
