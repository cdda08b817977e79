"""A profile that is saved reads back as it was, and figures of it rest on the trace."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

from support.traces import make_trace
from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.report.encode import document, to_text
from ullage.workload.profile.figures import profile_figures
from ullage.workload.profile.profile import Profile, profile
from ullage.workload.profile.saved import SCHEMA, from_plain
from ullage.workload.trace import Clock

AS_OF = datetime.date(2026, 11, 15)


@pytest.fixture(scope="module")
def whole() -> Profile:
    rng = np.random.default_rng(21)
    rows = 2000
    trace = make_trace(
        clock=Clock.UTC,
        start_epoch_s=1_760_000_000.0,
        zone="UTC",
        arrival_s=np.sort(rng.uniform(0, 9000, rows)).tolist(),
        prompt_tokens=rng.integers(1, 4000, rows).tolist(),
        output_tokens=rng.integers(1, 400, rows).tolist(),
        duration_s=rng.exponential(3, rows).tolist(),
        status=rng.choice(["ok", "failed"], rows).tolist(),
        tenant=rng.choice(["acme", "globex"], rows).tolist(),
        session=[f"s{number}" for number in rng.integers(0, 300, rows)],
        block_hashes=[[int(block) for block in rng.integers(0, 500, 3)] for _ in range(rows)],
    )
    return profile(trace, as_of=AS_OF)


def test_what_is_saved_is_read_back(whole: Profile) -> None:
    plain = document("profile", whole, as_of=AS_OF)
    again = from_plain(json.loads(to_text(plain)))
    assert plain["schema"] == SCHEMA
    assert document("profile", again, as_of=AS_OF) == plain
    assert again.of("tenant") != ()
    assert again.whole.sessions is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "ullage.profile/9"}, f"writes {SCHEMA}"),
        ({"format": 7}, "profile.format = 7"),
        ({"surprise": 1}, "is not part of a profile"),
        ({"coverage": {"clock": "utc"}}, "is missing"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], said: str, whole: Profile) -> None:
    with pytest.raises(InputError, match=said):
        from_plain({**document("profile", whole, as_of=AS_OF), **change})


def test_figures_are_measured_and_dated_by_the_trace(whole: Profile) -> None:
    figures = {figure.name: figure for figure in profile_figures(whole, as_of=AS_OF)}
    rate = figures["workload.mean_arrival_rate"]
    assert whole.whole.arrivals is not None
    assert rate.value == whole.whole.arrivals.mean_rps
    assert rate.evidence is Evidence.MEASURED
    assert rate.sources[0].date == datetime.date(2025, 10, 9)
    assert "workload.prompt_length_p99" in figures
    assert "workload.dispersion_in_windows_of_60_s" in figures
    assert "workload.active_tokens_p99" in figures
    assert len(figures) == len(profile_figures(whole, as_of=AS_OF))
