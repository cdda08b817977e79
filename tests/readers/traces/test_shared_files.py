"""Every published file of these kinds is read; tables that hold no requests are refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.readers.traces.open import open_trace

READ = {
    "traces/azure2023_code.parquet": ("columns", 6_326),
    "traces/azure2023_conv.parquet": ("columns", 19_366),
    "traces/gentd26_diffusion_requests.parquet": ("columns", 10_337),
    "traces/length_datasets.parquet": ("columns", 406_102),
    "traces/measured_requests_aibrix.parquet": ("columns", 14_374),
    "traces/measured_requests_gb300_agentic.parquet": ("columns", 28_823),
    "traces/measured_requests_llmservingsim.parquet": ("columns", 900),
    "traces/mooncake_arxiv_first1000.parquet": ("columns", 1_000),
    "traces/mooncake_conversation.parquet": ("columns", 12_031),
    "traces/servegen_client_rates.parquet": ("servegen", 380_448),
    "traces/vtc_arena_27clients.parquet": ("columns", 1_500),
    "traces/weka_claude_code.parquet": ("agent-sessions", 34_874),
    "access_logs/langfuse/litellm_langfuse_ingestion_completion.json": ("langfuse", 1),
    "access_logs/litellm/spend_logs_payload.json": ("litellm", 1),
    "access_logs/litellm/standard_logging_payload.json": ("litellm", 1),
    "access_logs/otel/inference-perf_simple_chain.json": ("otel", 3),
    "access_logs/traces/inference-perf_trace.csv": ("azure", 20),
    "access_logs/traces/mooncake_conversation_trace_head300.jsonl": ("mooncake", 300),
    "loadtests/aiperf/v0.13.0_rate5_mock/profile_export.jsonl": ("aiperf", 60),
    "loadtests/guidellm/v0.8.1_concurrent_slo.requests_trimmed.json": ("guidellm", 41),
    "loadtests/guidellm/v0.8.1_poisson_slo.requests_trimmed.json": ("guidellm", 32),
}
REFUSED = {
    "traces/azure2024_token_cdf_digitised.parquet": "no known format",
    "traces/azure2024_week_rate_digitised.parquet": "no known format",
    "traces/burstgpt_agg_daily.parquet": "no known format",
    "traces/burstgpt_agg_hourofday.parquet": "not a calendar time",
    "traces/gentd26_ops.parquet": "no known format",
    "traces/ibm_tgis_production_histogram.parquet": "no known format",
    "traces/servegen_client_lengths.parquet": "lengths but no rates",
    "traces/weka_sessions.parquet": "no known format",
    "access_logs/gateway-logs/envoy_ai_gateway_access_log_basic.yaml": "no known format",
    "loadtests/guidellm/llmd_fixture_guidellm_report_v2.json": "holds no requests",
    "loadtests/guidellm/v0.8.1_concurrent_slo.csv": "result of a load test",
    "loadtests/aiperf/v0.13.0_rate5_mock/profile_export_aiperf.json": "result of a load test",
}


@pytest.mark.parametrize("name", READ)
def test_the_file_is_read_whole(name: str, shared_data: Path) -> None:
    trace = open_trace([str(shared_data / name)])
    assert (trace.format, trace.rows.kept_rows) == READ[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_no_requests_is_refused(name: str, shared_data: Path) -> None:
    with pytest.raises(InputError, match=REFUSED[name]):
        open_trace([str(shared_data / name)])


def test_no_trace_or_access_log_is_left_out(shared_data: Path) -> None:
    found = {
        str(path.relative_to(shared_data))
        for folder in ("traces", "access_logs")
        for path in (shared_data / folder).rglob("*")
        if path.is_file()
    }
    assert found <= set(READ) | set(REFUSED)
