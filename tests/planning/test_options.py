"""Options of a small service: refused early with reasons, ranked on common seeds, mixed only where it holds."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable

import numpy as np
import pytest

from ullage.evidence import Assumption, Source, each_once
from ullage.execute.pool import thread_map
from ullage.fleet.sites import UNLIMITED
from ullage.load.plan import load_plan
from ullage.planning.options.candidates import candidates_of
from ullage.planning.options.mix import SlicedLoad, VerifiedMix, quota_devices, slices_of
from ullage.planning.options.options import Options, options
from ullage.planning.options.screen import bound_refusal
from ullage.planning.options.trial import DEVICES, USD, least_score
from ullage.planning.spec import PlanSpec
from ullage.report.decisions.options_page import options_page
from ullage.report.encode import document, to_json, to_text
from ullage.service.trial.bases import bases_of
from ullage.service.trial.decide import Effort, decide
from ullage.service.trial.trial import Trial

AS_OF = datetime.date(2026, 11, 15)
FEW = Effort(most_windows=8, first_fraction=0.4)
QUICK = (FEW, Effort(most_windows=16, first_fraction=0.4))

SMALL = """
version: 1
service: small
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 6 req/s, longest_context: 8192, slo: {ttft_p95: 800ms, tpot_p95: 50ms}}
pool: {model: llama-3.1-8b, device: l40s}
prices: {provider: aws, region: us-east-1, purchase: on-demand}
options:
  devices: [l40s, h100-sxm, l4, a10g]
  tensor_parallel: [1, 2]
  lead_times: {months: 1}
"""

QUOTED = """
version: 1
service: quoted
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 60 req/s, longest_context: 8192, slo: {ttft_p95: 2s, tpot_p95: 80ms}}
pool: {model: llama-3.1-8b, device: l40s}
prices: {provider: aws, region: us-east-1, purchase: on-demand}
sites:
  regions:
    - {name: us, quotas: {l40s: 20, h100-sxm: 5}, zones: [{name: us-a}]}
options:
  devices: [l40s, h100-sxm]
  tensor_parallel: [1]
  lead_times: {months: 1}
"""

Load = Callable[[str], PlanSpec]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    def read(text: str) -> PlanSpec:
        file = tmp_path_factory.mktemp("options") / "plan.yaml"
        file.write_text(text)
        return load_plan(file, as_of=AS_OF)

    return read


@pytest.fixture(scope="module")
def small(load: Load) -> Options:
    return options(load(SMALL), as_of=AS_OF, seed=0, rounds=QUICK)


@pytest.fixture(scope="module")
def quoted(load: Load) -> Options:
    return options(load(QUOTED), as_of=AS_OF, seed=0, rounds=QUICK)


def test_every_candidate_is_ranked_or_refused_once(small: Options, load: Load) -> None:
    (pool,) = small.pools
    spec = load(SMALL)
    tried = candidates_of(spec.pool, spec.options, book=spec.prices, buying=spec.buying)
    names = [each.name for each in tried]
    found = [each.measured.name for each in pool.ranking] + [each.name for each in pool.refused]
    assert sorted(found) == sorted(names)
    assert len(set(names)) == len(names)
    assert names[0] == "l40s tp1"


def test_refusals_say_stage_reason_figure_and_remedy(small: Options) -> None:
    (pool,) = small.pools
    assert pool.refused
    for each in pool.refused:
        why = each.rejection
        assert why.stage in (
            "memory",
            "sharding",
            "step model",
            "roofline",
            "bound",
            "simulation",
            "sites",
            "rollout",
            "replicas",
        )
        assert why.reason
        assert why.remedies
        assert any(isinstance(one, Source) for one in each_once([why.figure]))


def test_the_ranking_is_by_cost_and_the_best_is_not_dominated(small: Options) -> None:
    (pool,) = small.pools
    last = [each for each in pool.ranking if each.rounds == pool.ranking[0].rounds]
    scores = [each.measured.score.value for each in last]
    assert scores == sorted(scores)
    assert {each.measured.unit for each in pool.ranking} == {USD}
    assert pool.ranking[0].is_efficient
    for each in pool.ranking:
        one = each.measured
        assert one.score.low <= one.score.value <= one.score.high
        assert 0.9 < one.success_fraction <= 1.0
        assert one.paid_devices >= one.replicas * one.fit.devices


def test_bounds_lie_below_what_was_simulated(small: Options) -> None:
    """A candidate that a bound refuses could never have been the best."""
    for each in small.pools[0].ranking:
        assert least_score(each.measured.fit) <= each.measured.score.value
        assert each.measured.fit.fewest_replicas <= each.measured.steady_replicas


def test_a_refusal_by_bound_names_both_sides(small: Options) -> None:
    fit = small.pools[0].ranking[0].measured.fit
    why = bound_refusal(fit, 2.0, 1.0, "h100-sxm tp1", USD)
    assert (why.stage, why.figure.value) == ("bound", 2.0)
    assert "at least 2" in why.reason
    assert "h100-sxm tp1 needs 1" in why.reason
    assert "50%" in why.remedies[0].change


def test_more_traffic_never_needs_fewer_devices_and_all_is_bytes_for_bytes_the_same(load: Load) -> None:
    spec = load(SMALL)
    few = dataclasses.replace(
        spec, options=dataclasses.replace(spec.options, devices=("l40s",), tensor_parallel=(1,))
    )  # fmt: skip
    with thread_map(workers=2) as spread:
        one, two = options(few, as_of=AS_OF, seed=1, rounds=(FEW,)), options(
            few, as_of=AS_OF, seed=1, rounds=(FEW,), map=spread
        )  # fmt: skip
    assert to_text(document("options", one)) == to_text(document("options", two))
    orders = one.pools[0].orders
    assert orders is not None
    devices = [each.devices for each in orders.rows]
    assert devices == sorted(devices)


def test_without_prices_devices_are_counted_and_a_note_says_so(load: Load) -> None:
    spec = load(SMALL)
    bare = dataclasses.replace(
        spec, prices=None, options=dataclasses.replace(spec.options, devices=("l40s", "h100-sxm"), tensor_parallel=(1,))
    )
    found = options(bare, as_of=AS_OF, seed=0, rounds=(FEW,))
    (pool,) = found.pools
    assert {each.measured.unit for each in pool.ranking} == {DEVICES}
    scores = [each.measured.score.value for each in pool.ranking]
    assert scores == sorted(scores)
    assert any("Not priced" in note for note in pool.notes)
    assert "not priced" in "".join(str(each) for each in to_json(found)["pools"][0]["notes"])


def test_a_mix_meets_every_slo_on_the_requests_it_is_given(quoted: Options) -> None:
    """Simulated again here, from the mix alone: every pool of it, and all requests of the class together."""
    mix = quoted.mix
    assert isinstance(mix, VerifiedMix)
    assert mix.is_mixed
    for each in mix.pools:
        assert each.broken == ()
    used = {each.fit.candidate.pool.device.name: each.devices for each in mix.pools}
    assert used["l40s"] <= 20
    assert used["h100-sxm"] <= 5
    fit = mix.pools[0].fit
    rules = {rule.name: rule for rule in slices_of(fit, "pool", ())}
    starts = dict.fromkeys(rules, 0.0)
    whole = fit.mix(rate_rps=fit.asked.rate_rps, span_s=100.0, seed=7)
    covered = np.zeros(whole.requests.count, int)
    for each in mix.pools:
        shares = tuple((rules[name], starts[name], starts[name] + share) for name, share in each.shares.items())
        starts.update({name: starts[name] + share for name, share in each.shares.items()})
        part = each.rate_rps / fit.asked.rate_rps
        load = SlicedLoad(mix=each.fit.mix, shares=shares, part_fraction=part)
        covered += load.kept(whole, 7)
        trial = Trial(replica=each.fit.replica, load_at=load, classes=each.fit.asked.classes, replicas=each.replicas)
        bases = bases_of(trial, each.fit.band, seed=0)
        pool = dataclasses.replace(bases.conservative, replicas=each.replicas)
        assert decide(pool, each.rate_rps, bases.conservative_probe, seed=0).violated == ()
    # Every request goes to one pool, and only to one.
    assert covered.tolist() == [1] * whole.requests.count


def test_a_whole_pool_that_no_quota_holds_is_refused_by_name(quoted: Options) -> None:
    assert {each.rejection.stage for each in quoted.pools[0].refused} <= {"sites", "rollout", "bound"}
    assert quoted.holds


def test_quotas_of_regions_and_zones_add_up(load: Load) -> None:
    spec = load(QUOTED)
    assert quota_devices(spec.options.sites["l40s"]) == 20
    assert quota_devices(spec.options.sites["b200-sxm"]) == UNLIMITED
    assert quota_devices(None) == UNLIMITED


def test_the_page_names_ranking_refusals_mix_and_dates(small: Options, quoted: Options) -> None:
    from rich.console import Console

    console = Console(width=120, record=True)
    for found in (small, quoted):
        for part in options_page(found):
            console.print(part)
    text = console.export_text()
    for words in ("is best of", "Ranking", "no other candidate", "Refused", "Order by", "Mix of devices"):
        assert words in text


def test_every_figure_ends_in_sources(small: Options) -> None:
    for each in small.pools:
        for figure in each.figures.values():
            assert any(isinstance(one, Source) for one in each_once([figure]))
            assert any(isinstance(one, Assumption) for one in each_once([figure]))
