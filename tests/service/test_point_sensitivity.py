"""What moves the highest load, and in which direction it can only move it."""

from __future__ import annotations

import pytest

from support.served_replicas import QUICK, batching_replica, class_with_slos, poisson_trial, short_bases
from ullage.service.curve.curve import ServiceCurve
from ullage.service.curve.sensitivity import SETTING, TRAFFIC, Tried, try_changes
from ullage.service.trial.bases import Bases
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.trial import NOMINAL
from ullage.workload.synthetic.builtin import builtin


def _unswept(bases: Bases) -> ServiceCurve:
    """What a change is tried on; its points do not enter."""
    return ServiceCurve(bases=bases, basis=NOMINAL, effort=QUICK, seed=1, points=())


@pytest.fixture(scope="module")
def tried() -> dict[str, Tried]:
    classes = (class_with_slos("chat", ttft_p95=2.0), class_with_slos("coding", ttft_p95=6.0))
    mix = MixLoad(model=builtin(), classes=classes, cache_blocks=2e4)
    trial = poisson_trial(*classes, replica=batching_replica(kv_blocks=6_000), load_at=mix, span_s=120.0)
    return {each.change: each for each in try_changes(_unswept(short_bases(trial)), effort=QUICK)}


@pytest.mark.slow
def test_longer_outputs_and_fewer_prefix_hits_never_help(tried: dict[str, Tried]) -> None:
    for each in tried.values():
        if each.kind == TRAFFIC:
            assert each.highest_rps <= each.base_rps + 1.5 * each.step_rps, each.change
    assert tried["outputs 1.25 times as long"].is_difference


@pytest.mark.slow
def test_more_memory_never_hurts_and_far_fewer_sequences_do(tried: dict[str, Tried]) -> None:
    memory = next(each for name, each in tried.items() if "KV blocks" in name)
    assert memory.highest_rps >= memory.base_rps - 1.5 * memory.step_rps
    assert tried["max sequences 1"].highest_rps < tried["max sequences 1"].base_rps
    assert tried["max sequences 1"].change_fraction < 0


@pytest.mark.slow
def test_every_setting_is_tried_once_and_a_load_without_a_model_has_no_traffic_to_change() -> None:
    found = try_changes(_unswept(short_bases(poisson_trial(class_with_slos(ttft_p95=0.3)))), effort=QUICK)
    assert {each.kind for each in found} == {SETTING}
    assert len({each.change for each in found}) == len(found)
    assert len({each.base_rps for each in found}) == 1
