"""What the pictures of lengths and reuse are drawn from, against the model that they show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.demand_laws import hourly, known_law
from ullage.report.plan.series import forecast_fan
from ullage.report.plan.traffic_series import BINS_PER_OCTAVE, cache_curve, length_grid
from ullage.workload.forecast.forecast import forecast
from ullage.workload.synthetic.model import FRACTIONS, ClassModel, LengthModel, ReuseModel


def of(correlation: float = 0.0, reuse: ReuseModel | None = None) -> ClassModel:
    prompts = tuple(float(each) for each in np.geomspace(10, 8000, len(FRACTIONS)))
    outputs = tuple(float(each) for each in np.geomspace(1, 900, len(FRACTIONS)))
    lengths = LengthModel(prompt_tokens=prompts, output_tokens=outputs, rank_correlation_ratio=correlation)
    return ClassModel(name="chat", mean_rate_rps=1.0, lengths=lengths, reuse=reuse or ReuseModel())


def test_the_grid_holds_nearly_all_requests_and_keeps_the_median_in_its_bin() -> None:
    model = of()
    grid = length_grid(model)
    assert 0.95 < sum(share for _, _, share in grid.cells) < 1.001
    prompts, _ = model.lengths.pairs()
    middle = math.floor(BINS_PER_OCTAVE * math.log2(float(np.median(prompts))))
    below = sum(share for prompt, _, share in grid.cells if prompt < middle)
    assert below <= 0.51
    assert below + sum(share for prompt, _, share in grid.cells if prompt == middle) >= 0.46


@pytest.mark.parametrize("correlation", [-0.8, 0.8])
def test_lengths_that_go_together_lie_along_a_diagonal(correlation: float) -> None:
    cells = np.array(length_grid(of(correlation)).cells)
    found = np.cov(cells[:, 0], cells[:, 1], aweights=cells[:, 2])
    assert found[0, 1] * correlation > 0.0


def test_a_larger_cache_never_holds_less_and_an_endless_one_holds_the_cached_share() -> None:
    reuse = ReuseModel(later_turn_fractions=(0.5, 0.5), distance_blocks=(100.0, 1000.0, 9000.0))
    found = cache_curve(of(reuse=reuse), 0.5)
    assert found is not None
    assert list(found.hit_fractions) == sorted(found.hit_fractions)
    assert found.hit_fractions[0] == 0.0
    assert found.hit_fractions[-1] == pytest.approx(0.5)
    # Half of the distances lie below 1,000 blocks, of 16 tokens each.
    at = np.interp(math.log(16_000), np.log(found.cache_tokens), found.hit_fractions)
    assert at == pytest.approx(0.25, abs=0.02)


def test_a_share_that_is_only_stated_has_no_curve() -> None:
    assert cache_curve(of(reuse=ReuseModel(later_turn_fractions=(0.5, 0.5))), 0.5) is None
    assert cache_curve(of(reuse=ReuseModel(distance_blocks=(1.0, 2.0))), 0.0) is None


def test_a_log_and_the_forecast_of_a_stated_rate_are_drawn_at_one_height() -> None:
    seen = forecast(hourly(known_law(0, 4)), horizon_s=7 * 86_400.0, rng=np.random.default_rng(0))
    own, more = forecast_fan("chat", seen), forecast_fan("chat", seen.times(2.0).times(17.5))
    assert (own.scale_ratio, more.scale_ratio) == (1.0, 35.0)
    # The log stays what was seen.
    assert more.logged == own.logged
    drawn = np.nanmean(np.array(more.logged, dtype=float)) * more.scale_ratio
    assert drawn == pytest.approx(np.mean(more.middle), rel=0.3)
