"""The synthetic model: printed, edited, read back, fitted to a profile, and compared with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ullage.errors import InputError
from ullage.readers.traces.open import open_trace
from ullage.report.encode import to_json
from ullage.workload.profile.profile import Profile, profile
from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.fit import Match, synthesis
from ullage.workload.synthetic.model import LengthModel, from_document
from ullage.workload.trace import Trace


def test_parameters_are_printed_and_read_back() -> None:
    printed = to_json(builtin())
    assert from_document(printed) == builtin()


def test_an_unknown_parameter_is_named_with_its_neighbour() -> None:
    printed = to_json(builtin())
    printed["classes"][0]["lengths"]["promt_tokens"] = printed["classes"][0]["lengths"].pop("prompt_tokens")
    with pytest.raises(InputError, match="prompt_tokens"):
        from_document(printed)


def test_quantiles_that_fall_are_refused() -> None:
    with pytest.raises(InputError, match=r"lengths\.prompt_tokens"):
        LengthModel(prompt_tokens=tuple(range(12, 0, -1)), output_tokens=(1.0,) * 12)


def _profile(shared_data: Path, name: str) -> Profile:
    trace = open_trace([str(shared_data / "traces" / f"{name}.parquet")])
    assert isinstance(trace, Trace)
    return profile(trace)


def _matches(source: Profile) -> dict[str, Match]:
    return {each.name: each for each in synthesis(source, np.random.default_rng(0)).matches}


@pytest.mark.parametrize("name", ["azure2023_conv", "vtc_arena_27clients"])
def test_a_stream_fitted_to_a_chat_trace_is_within_every_tolerance(shared_data: Path, name: str) -> None:
    found = _matches(_profile(shared_data, name))
    assert {"mean rate", "dispersion in windows of 1 s", "prompt length p99", "output length p99"} <= set(found)
    assert [each.sentence for each in found.values() if not each.holds] == []


def test_what_a_fit_does_not_reproduce_is_reported(shared_data: Path) -> None:
    # Two thousand seconds with holes in them have three windows of ten minutes: no law fits those.
    found = _matches(_profile(shared_data, "azure2023_code"))
    broken = [each for each in found.values() if not each.holds]
    assert "dispersion in windows of 600 s" in [each.name for each in broken]
    assert all(each.name.startswith("dispersion") for each in broken)
    assert "tolerance 35%" in broken[0].sentence


@pytest.mark.slow
def test_the_reuse_curve_of_a_fitted_stream_is_the_sources(shared_data: Path) -> None:
    found = _matches(_profile(shared_data, "mooncake_conversation"))
    for blocks in (1_000, 5_000, 10_000, 50_000):
        assert found[f"reuse of {blocks} blocks"].holds
