"""The statistics and the traps of the published traces come out as they are known."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from ullage.readers.traces.open import open_trace
from ullage.workload.anomalies import AnomalyKind
from ullage.workload.profile.profile import Profile, profile, profile_of
from ullage.workload.profile.windows import summarise_windows
from ullage.workload.trace import RateTable, Trace


def profiled(folder: Path, *names: str, mapping: dict[str, str] | None = None) -> Profile:
    trace = open_trace([str(folder / "traces" / f"{name}.parquet") for name in names], mapping=mapping)
    return profile_of(summarise_windows(trace)) if isinstance(trace, RateTable) else profile(trace)


def said(found: Profile, kind: AnomalyKind) -> str:
    return " ".join(anomaly.sentence for anomaly in found.anomalies if anomaly.kind is kind)


# Requests per second and deviation of gaps, prompt and output percentiles, as DATA.md gives them.
KNOWN = {
    "azure2023_conv": (5.5, 1.09, (1020, 2734, 4142), (129, 424, 601)),
    "mooncake_conversation": (3.4, 3.0, (6909, 27367, 85400), (350, 597, 1118)),
    "vtc_arena_27clients": (2.5, 1.1, (40, 432, 902), (211, 513, 785)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_rates_and_lengths_are_the_known_ones(name: str, shared_data: Path) -> None:
    rate_rps, gap_cv, prompts, outputs = KNOWN[name]
    whole = profiled(shared_data, name).whole
    assert whole.arrivals is not None
    assert whole.arrivals.mean_rps == pytest.approx(rate_rps, abs=0.05)
    assert whole.arrivals.gap_cv_ratio == pytest.approx(gap_cv, abs=0.05)
    assert whole.lengths.prompt_tokens is not None
    assert whole.lengths.output_tokens is not None
    for fraction, prompt, output in zip((0.5, 0.9, 0.99), prompts, outputs, strict=True):
        # The known figures interpolate between ranks; ours are lengths that occurred.
        assert whole.lengths.prompt_tokens.at(fraction) == pytest.approx(prompt, rel=2e-3)
        assert whole.lengths.output_tokens.at(fraction) == pytest.approx(output, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["azure2023_conv", "azure2023_code", "mooncake_conversation", "gentd26_diffusion_requests"]
)
def test_windows_are_those_of_a_plain_histogram(name: str, shared_data: Path) -> None:
    path = shared_data / "traces" / f"{name}.parquet"
    times = duckdb.connect().execute(f"SELECT arrival_s FROM '{path}'").fetchnumpy()["arrival_s"]
    arrivals = profiled(shared_data, name).whole.arrivals
    assert arrivals is not None
    for window in arrivals.windows:
        counts = np.bincount((times // window.width_s).astype(int))[: int(times.max() // window.width_s)]
        assert window.dispersion_ratio == pytest.approx(counts.var(ddof=1) / counts.mean(), rel=1e-9)
        assert window.rates.at(1.0) == pytest.approx(counts.max() / window.width_s)
        assert window.rates.at(0.5) == pytest.approx(np.quantile(counts, 0.5, method="inverted_cdf") / window.width_s)


@pytest.mark.slow
def test_mooncake_reuse_is_the_known_one(shared_data: Path) -> None:
    reuse = profiled(shared_data, "mooncake_conversation").reuse
    assert reuse is not None
    assert reuse.block_tokens == 512
    # Published in blocks. In tokens it is a little more: the ends of prompts, which are not full, weigh less.
    assert reuse.any_place_fraction == pytest.approx(0.366, abs=0.002)
    assert reuse.endless_cold_fraction == pytest.approx(0.373, abs=0.002)
    assert reuse.unchained_fraction == 0.0
    for blocks, known in ((1000, 0.045), (5000, 0.110), (10_000, 0.211), (50_000, 0.355)):
        assert reuse.at(blocks).cold_hit_fraction == pytest.approx(known, abs=0.01)


@pytest.mark.slow
def test_servegen_rates_are_the_known_ones(shared_data: Path) -> None:
    found = profiled(shared_data, "servegen_client_rates")
    (large,) = [group.profile for group in found.of("model") if group.name == "m-large"]
    assert large.arrivals is not None
    assert large.arrivals.mean_rps == pytest.approx(196, abs=0.5)
    window = large.arrivals.window(600)
    assert window is not None
    assert window.rates.at(1.0) == pytest.approx(583, abs=0.5)


def test_trap_mooncake_is_stamped_in_batches(shared_data: Path) -> None:
    found = profiled(shared_data, "mooncake_conversation")
    assert "batches of 3 s" in said(found, AnomalyKind.TIME_BATCHING)
    assert found.whole.arrivals is not None
    assert [window.artefact for window in found.whole.arrivals.windows] == [True, True, False, False]


def test_trap_azure_code_has_holes(shared_data: Path) -> None:
    found = profiled(shared_data, "azure2023_code")
    assert "6 holes of 65.5 s to 2.89 min" in said(found, AnomalyKind.HOLES)
    assert not said(profiled(shared_data, "azure2023_conv"), AnomalyKind.HOLES)


@pytest.mark.slow
def test_trap_servegen_has_silence_and_heavy_clients_without_lengths(shared_data: Path) -> None:
    found = profiled(shared_data, "servegen_client_rates", "servegen_client_lengths")
    assert "windows of a client have no traffic (68%)" in said(found, AnomalyKind.SILENT_WINDOWS)
    assert "7 of them heavy" in said(found, AnomalyKind.MISSING_LENGTHS)
    assert "observed for different periods" in said(found, AnomalyKind.UNEVEN_COVERAGE)


def test_trap_copies_of_sharegpt_differ(shared_data: Path) -> None:
    mapping = {"class": "dataset", "prompt_tokens": "prompt_tokens", "output_tokens": "output_tokens"}
    found = profiled(shared_data, "length_datasets", mapping=mapping)
    assert "named sharegpt differ 48-fold" in said(found, AnomalyKind.COPIES_DIFFER)


@pytest.mark.slow
def test_trap_agent_sessions_are_recorded_twice(shared_data: Path) -> None:
    found = profiled(shared_data, "weka_claude_code")
    flagged = duckdb.connect().execute(
        f"SELECT count(*) FROM '{shared_data / 'traces' / 'weka_sessions.parquet'}' WHERE is_duplicate"
    )
    (count,) = flagged.fetchall()[0]
    assert f"{count} of 487 sessions are exact repeats" in said(found, AnomalyKind.REPEATED_SESSIONS)
    assert found.whole.sessions is not None
    assert found.whole.sessions.repeated_blocks_fraction == pytest.approx(0.962, abs=5e-4)


def test_the_csv_and_the_table_of_one_trace_agree(shared_data: Path) -> None:
    csv = open_trace([str(shared_data / "access_logs/traces/inference-perf_trace.csv")])
    table = open_trace([str(shared_data / "traces/azure2023_conv.parquet")])
    assert isinstance(csv, Trace)
    assert isinstance(table, Trace)
    columns = "round(arrival_s, 3), prompt_tokens, output_tokens"
    assert (
        csv.query(f"SELECT {columns} FROM trace").fetchall()
        == table.query(f"SELECT {columns} FROM trace LIMIT 20").fetchall()
    )
