"""How ranks and files become one report: laws that hold for any engine."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Evidence, Source, walk
from ullage.memory.engine_report import (
    QUANTITIES,
    EngineMemory,
    OomEvent,
    OomKind,
    Rank,
    Reading,
    engine_memory,
    merge,
    reading,
)

GIB = 2**30


def source(where: str = "a.log:1") -> Source:
    return Source(what="a log", where=where, date=datetime.date(2026, 11, 15))


def said(quantity: str, value: float, rank: str = "", dp: str = "", where: str = "a.log:1") -> Reading:
    return reading(quantity, value, Rank(dp=dp, within=rank), source(where))


def reported(*readings: Reading, engine: str = "vllm", version: str = "0.32.0") -> EngineMemory:
    return engine_memory(engine=engine, version=version, readings=readings)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=8), st.integers(1, 8))
def test_tokens_are_summed_over_data_parallel_ranks_and_counted_once_over_tensor_parallel_ones(
    caches: list[int], tp: int
) -> None:
    readings = [said("kv_tokens", tokens, f"TP{n}", str(dp)) for dp, tokens in enumerate(caches) for n in range(tp)]
    memory = reported(*readings)
    assert memory.number("kv_tokens") == sum(caches)
    assert memory.kv_caches == len(caches)


@given(st.lists(st.floats(0.1, 300), min_size=2, max_size=8), st.sampled_from(sorted(QUANTITIES)))
def test_a_combined_number_lies_within_what_the_ranks_report(values: list[float], quantity: str) -> None:
    if QUANTITIES[quantity].unit != "bytes":
        return
    readings = [said(quantity, value * GIB, f"TP{n}") for n, value in enumerate(values)]
    figure = reported(*readings).figures[quantity]
    stated = [each.figure.value for each in readings]
    assert figure.value in stated
    assert figure.evidence is Evidence.MEASURED
    assert sum(isinstance(each, Source) for _, each in walk(figure)) == len(values), "no rank is lost"


def test_what_is_used_counts_at_its_fullest_and_what_is_left_at_its_scarcest() -> None:
    memory = reported(
        said("weights", 10, "TP0"), said("weights", 12, "TP1"), said("kv_cache", 30, "TP0"), said("kv_cache", 28, "TP1")
    )
    assert (memory.number("weights"), memory.number("kv_cache")) == (12, 28)


def test_ranks_that_must_agree_and_do_not_are_refused() -> None:
    with pytest.raises(InputError, match="the ranks disagree"):
        reported(said("memory_fraction", 0.9, "TP0"), said("memory_fraction", 0.92, "TP1"))


def test_merging_is_the_same_in_any_order_and_once_or_twice() -> None:
    log = reported(said("kv_tokens", 1000), said("weights", 10 * GIB), said("kv_usage", 0.2))
    page = reported(said("kv_tokens", 1000, where="m.txt:3"), said("kv_usage", 0.7, where="m.txt:4"), version="")
    one, other = merge([log, page]), merge([page, log])
    assert {key: figure.value for key, figure in one.figures.items()} == {
        "kv_tokens": 1000,
        "weights": 10 * GIB,
        "kv_usage": 0.7,
    }
    for key in one.figures:
        assert one.figures[key].value == other.figures[key].value
    assert merge([log]).figures == log.figures == merge([log, log]).figures
    assert one.version == other.version == "0.32.0"


@pytest.mark.parametrize(
    ("quantity", "left", "right", "agree"),
    [
        ("kv_cache", 88.77 * GIB, 88.7654 * GIB, True),  # a log prints two digits
        ("kv_cache", 88.77 * GIB, 80 * GIB, False),
        ("kv_tokens", 524_288, 524_272, True),  # one block less
        ("kv_tokens", 524_288, 500_000, False),
        ("block_size", 16, 32, False),
        ("memory_fraction", 0.9, 0.92, False),
    ],
)
def test_two_files_agree_within_rounding_or_are_refused_by_name(
    quantity: str, left: float, right: float, agree: bool
) -> None:
    reports = [reported(said(quantity, left, where="one.log:7")), reported(said(quantity, right, where="two.log:9"))]
    if agree:
        assert merge(reports).number(quantity) in (round(left), round(right), left, right)
        return
    with pytest.raises(InputError, match=rf"{quantity} = .*one\.log:7.*two\.log:9.*disagree"):
        merge(reports)


def test_of_two_that_agree_the_first_files_is_kept() -> None:
    printed, exact = 88.77 * GIB, 95_316_881_408
    for values in ([printed, exact], [exact, printed]):
        assert merge([reported(said("kv_cache", value)) for value in values]).number("kv_cache") == round(values[0])


@pytest.mark.parametrize(
    ("one", "other", "field"),
    [
        ({"engine": "vllm"}, {"engine": "sglang"}, "engine"),
        ({"version": "0.32.0"}, {"version": "0.31.0"}, "version"),
    ],
)
def test_files_of_two_engines_or_versions_are_refused(one: dict[str, str], other: dict[str, str], field: str) -> None:
    with pytest.raises(InputError, match=f"{field} = .*files are of two"):
        merge([reported(said("weights", GIB), **one), reported(said("weights", GIB), **other)])


def test_a_device_monitor_goes_with_any_engine_and_events_are_kept() -> None:
    event = OomEvent(kind=OomKind.DEVICE, while_serving=True, source=source("a.log:99"), shortfall_bytes=GIB)
    log = engine_memory(engine="vllm", version="0.32.0", readings=[said("weights", GIB)], oom_events=[event])
    monitor = reported(said("resident_peak", 70 * GIB), engine="", version="")
    merged = merge([log, monitor])
    assert (merged.engine, merged.oom_events) == ("vllm", (event,))
    assert merged.number("resident_peak") == 70 * GIB


def test_nothing_to_merge_is_refused() -> None:
    with pytest.raises(InputError, match="name no file"):
        merge([])


def test_bytes_per_token_need_both_and_count_every_cache() -> None:
    assert reported(said("kv_tokens", 10)).kv_bytes_per_token is None
    assert reported(said("kv_cache", 10)).kv_bytes_per_token is None
    two = reported(said("kv_cache", 100, "TP0"), said("kv_tokens", 10, dp="0"), said("kv_tokens", 10, dp="1"))
    assert two.kv_bytes_per_token == 10


def test_a_monitors_total_includes_what_the_driver_keeps() -> None:
    """vLLM sees 79.19 GiB of an H100 on which nvidia-smi counts 81,559 MiB: one device, and a process gets the less."""
    log, monitor = reported(said("device_memory", 79.19 * GIB)), reported(said("device_memory", 81_559 * 2**20))
    assert (
        merge([log, monitor]).number("device_memory")
        == merge([monitor, log]).number("device_memory")
        == round(79.19 * GIB)
    )
    with pytest.raises(InputError, match="disagree"):
        merge([log, reported(said("device_memory", 139.8 * GIB))])


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(1.0, 1000.0))
def test_the_tokens_of_a_log_are_never_fewer_than_its_concurrency_says(stated: int, context: int, fits: float) -> None:
    concurrency = round(fits, 2)
    memory = reported(said("kv_tokens", stated), said("context_tokens", context), said("max_concurrency", concurrency))
    tokens = memory.number("kv_tokens")
    assert tokens in (stated, round(concurrency * context))
    assert tokens >= min(stated, round(concurrency * context))
    # Where every layer is alike the two are one number, printed to two digits, and the exact one is kept.
    alike = reported(
        said("kv_tokens", round(concurrency * context)), said("context_tokens", context), said("max_concurrency", fits)
    )
    assert alike.number("kv_tokens") == round(concurrency * context)


def test_a_page_of_blocks_and_a_log_that_counts_every_kind_of_layer_go_together() -> None:
    log = reported(said("kv_tokens", 850_000))
    page = reported(said("kv_blocks", 900), said("block_size", 1000))
    assert page.number("kv_tokens") == 900_000
    for reports in ([log, page], [page, log]):
        assert merge(reports).number("kv_tokens") == 850_000
    fewer = reported(said("kv_blocks", 700, where="page.txt:1"), said("block_size", 1000))
    with pytest.raises(InputError, match=r"kv_tokens = .*disagree"):
        merge([log, fewer])
