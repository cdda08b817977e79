"""A window is simulated once: the same trial and seed are known, and nothing else is taken for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from support.mixes import small_trial
from support.served_replicas import PoissonLoad, batching_replica, class_with_slos, poisson_trial, short_bases
from ullage.service.trial.decide import SCOUT
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import highest_load
from ullage.service.trial.trial import Guard, Trial
from ullage.service.trial.window import read_window, window
from ullage.simulate.fleet import Fleet
from ullage.simulate.load import OpenLoop
from ullage.simulate.outcome import Outcome
from ullage.workload.synthetic.model import SyntheticModel

GUARD = Guard(running_requests=4, waiting_requests=2, first_token_s={})
CHAT = class_with_slos(ttft_p95=0.3)


@dataclass(frozen=True, kw_only=True)
class CountingLoad:
    """A load that notes when it is drawn; windows are drawn only to be simulated."""

    inner: PoissonLoad
    drawn: list[tuple[float, int]] = field(default_factory=list, compare=False)

    def __call__(self, *, rate_rps: float, span_s: float, seed: int) -> OpenLoop:
        self.drawn.append((rate_rps, seed))
        return self.inner(rate_rps=rate_rps, span_s=span_s, seed=seed)


# Every test draws prompts of its own length, so that none finds what another has simulated.
_LENGTHS = itertools.count(100)


@pytest.fixture
def counted() -> CountingLoad:
    return CountingLoad(inner=PoissonLoad(classes=(CHAT,), prompt_tokens=next(_LENGTHS)))


def trial_of(load_at: CountingLoad) -> Trial:
    return poisson_trial(CHAT, load_at=load_at, span_s=20.0)


def test_the_same_trial_and_seed_is_simulated_once(counted: CountingLoad) -> None:
    first = window(trial_of(counted), 10.0, 1)
    assert window(trial_of(counted), 10.0, 1) is first
    assert window(replace(trial_of(counted), error_fraction=0.2), 10.0, 1) is first
    assert counted.drawn == [(10.0, 1)]


CHANGES: dict[str, Callable[[Trial], Trial]] = {
    "step times": lambda trial: trial.with_steps(1.1),
    "slower table": lambda trial: replace(trial, replica=batching_replica(step_s=0.011)),
    "KV blocks": lambda trial: replace(trial, replica=batching_replica(kv_blocks=1_000)),
    "overhead": lambda trial: replace(trial, replica=batching_replica(request_overhead_s=0.1)),
    "deadline": lambda trial: replace(trial, deadlines_s={"chat": 5.0}),
    "replicas": lambda trial: replace(trial, replicas=2),
    "span": lambda trial: replace(trial, span_s=21.0),
    "SLO": lambda trial: replace(trial, classes=(class_with_slos(ttft_p95=0.2),)),
    "routing": lambda trial: replace(trial, routing="round_robin"),
    "load": lambda trial: replace(
        trial,
        load_at=replace(trial.load_at, inner=PoissonLoad(classes=(CHAT,), output_tokens=21)),  # type: ignore[type-var]
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_pool_is_not_confused_with_it(counted: CountingLoad, change: str) -> None:
    trial = trial_of(counted)
    first = window(trial, 10.0, 1)
    other = CHANGES[change](trial)
    assert window(other, 10.0, 1) is not first
    assert len(counted.drawn) == 2
    assert window(trial, 10.0, 1) is first


def test_another_rate_or_seed_is_another_window(counted: CountingLoad) -> None:
    trial = trial_of(counted)
    found = [window(trial, rate_rps, seed) for rate_rps, seed in ((10.0, 1), (10.0, 2), (10.5, 1))]
    assert len({id(each) for each in found}) == len(counted.drawn) == 3
    assert found[0].mean_e2e_s != found[1].mean_e2e_s


def test_a_pool_that_differs_in_names_alone_is_simulated_once() -> None:
    one, other = (
        small_trial(class_with_slos(first, ttft_p95=0.5), class_with_slos(second, tpot_p95=0.05), span_s=20.0)
        for first, second in (("chat", "batch"), ("search", "chat"))
    )
    first, second = window(one, 10.0, 1), window(other, 10.0, 1)
    fresh = read_window(other, other.load(10.0, 1), 10.0, 1)
    assert (second.tallies, second.error_fractions) == (fresh.tallies, fresh.error_fractions)
    assert list(second.histograms) == list(fresh.histograms) == ["search", "chat"]
    # Not drawn again: the very same counts stand under the other name.
    assert second.histograms["search"] is first.histograms["chat"]
    turned = replace(one, classes=one.classes[::-1])
    assert window(turned, 10.0, 1).histograms["chat"] is not first.histograms["chat"]


def test_the_highest_load_of_a_pool_is_known_under_other_names() -> None:
    one, other = (
        short_bases(small_trial(class_with_slos(name, ttft_p95=0.31), replicas=1, span_s=20.0))
        for name in ("chat", "search")
    )
    first, second = (
        highest_load(each.nominal, each.nominal_probe, seed=1, effort=SCOUT, with_interval=False)
        for each in (one, other)
    )
    assert (first.binding, second.binding) == ("chat ttft_p95", "search ttft_p95")
    assert first.interval is second.interval


def test_twice_the_traffic_of_a_mix_has_the_same_windows() -> None:
    trial = small_trial(class_with_slos("chat", ttft_p95=0.5), class_with_slos("batch", tpot_p95=0.05), span_s=20.0)
    mix = trial.load_at
    assert isinstance(mix, MixLoad)
    times_three = tuple(replace(each, mean_rate_rps=3.0 * each.mean_rate_rps) for each in mix.model.classes)
    more = replace(trial, load_at=replace(mix, model=SyntheticModel(classes=times_three)))
    assert window(more, 10.0, 1) is window(trial, 10.0, 1)
    uneven = (replace(times_three[0], mean_rate_rps=10.0), times_three[1])
    other = replace(trial, load_at=replace(mix, model=SyntheticModel(classes=uneven)))
    assert window(other, 10.0, 1) is not window(trial, 10.0, 1)


def shared_outcomes(*names: str, step_s: float) -> list[Outcome]:
    trials = [
        small_trial(class_with_slos(name, ttft_p95=0.5), replicas=2, span_s=20.0, step_s=step_s) for name in names
    ]
    return [each.play(each.load(10.0, 1), seed=1, keep_requests=True, is_shared=True) for each in trials]


def test_a_shared_run_is_played_once_and_handed_out_under_each_name() -> None:
    first, second = shared_outcomes("chat", "search", step_s=0.0123)
    assert second.requests is first.requests
    assert (first.of_class("chat").counts, list(first.itl)) == (second.of_class("search").counts, ["chat"])
    assert list(second.itl) == ["search"]
    (alone,) = shared_outcomes("chat", step_s=0.0124)
    assert alone.requests is not first.requests


def test_a_shared_run_is_told_from_one_on_other_terms() -> None:
    trial = small_trial(replicas=2, span_s=20.0, step_s=0.0125)
    load = trial.load(10.0, 1)
    hurried = tuple(replace(each, total_timeout_s=0.4) for each in load.requests.classes)
    runs = [
        trial.play(load, seed=1, is_shared=True),
        trial.play(load.with_classes(hurried), seed=1, is_shared=True),
        trial.play(load, seed=1, warmup_s=0.0, is_shared=True),
        trial.play(load, seed=1, fleet=Fleet(replicas=3), is_shared=True),
        trial.play(load, seed=1, guard=GUARD, is_shared=True),
        trial.play(trial.load(10.0, 2), seed=1, is_shared=True),
    ]
    assert len({id(each) for each in runs}) == len(runs)
    assert trial.play(load, seed=1, is_shared=True) is runs[0]
