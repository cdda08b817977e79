"""Engine defaults: the row that holds for a version, a device and a replica; never a silent guess."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.facts.engine import COVERS, ENGINES, engine_defaults, engines, in_range, version_key

GIB = 2**30
H100, H200, B200, A100, A10 = int(79.11 * GIB), int(139.8 * GIB), int(178.36 * GIB), int(79.25 * GIB), int(22.18 * GIB)


@pytest.mark.parametrize(
    ("version", "device", "memory_bytes", "fraction", "budget", "sequences"),
    [
        ("0.7.2", "h100-sxm", H100, 0.9, 8192, 256),
        ("0.8.4", "a10", A10, 0.9, 2048, 1024),
        ("0.8.5.post1", "a100-80gb-sxm", A100, 0.9, 8192, 1024),
        ("0.10.0", "a100-80gb-sxm", A100, 0.9, 2048, 256),
        ("0.10.0", "h100-sxm", H100, 0.9, 8192, 1024),
        ("0.19.1", "b200-sxm", B200, 0.9, 8192, 1024),
        ("v0.20.0", "b200-sxm", B200, 0.92, 8192, 1024),
        ("0.32.0", "b200-sxm", B200, 0.92, 16384, 1024),
        ("0.32.0", "h200-sxm", H200, 0.92, 8192, 1024),
        ("0.32.0", "l4", int(22.05 * GIB), 0.92, 2048, 256),
    ],
)
def test_vllm_decides_by_version_and_device(
    version: str, device: str, memory_bytes: int, fraction: float, budget: int, sequences: int
) -> None:
    """The expected numbers are those of vllm/engine/arg_utils.py and vllm/config/cache.py at the version's tag."""
    defaults = engine_defaults("vllm", version, memory_bytes, device_name=device)
    assert defaults.number("memory_fraction") == fraction
    assert defaults.number("token_budget") == budget
    assert defaults.number("max_sequences") == sequences


def test_vllm_counts_graphs_inside_the_fraction_since_0_20() -> None:
    assert engine_defaults("vllm", "0.19.0", H100).number("graphs_in_fraction") == 0
    assert engine_defaults("vllm", "0.20.0", H100).number("graphs_in_fraction") == 1


@pytest.mark.parametrize(
    ("version", "memory_mib", "devices", "fraction"),
    [
        # (memory - reserve) / memory in MiB, as server_args.py computes it at the version's tag
        ("0.4.5", 81559, 1, 0.88),
        ("0.4.5", 81559, 8, 0.81),
        ("0.4.9", 81559, 1, round((81559 - (9.5 + 1 / 2) * 1024) / 81559, 3)),
        ("0.4.9", 143771, 8, round((143771 - (12 + 8 / 2) * 1024) / 143771, 3)),
        ("0.4.9", 183359, 8, round((183359 - 32 * 1024) / 183359, 3)),
        ("0.4.9", 23028, 4, round((23028 - (2.8 + 4 / 10) * 1024) / 23028, 3)),
        ("0.5.9", 81559, 1, round((81559 - (512 + 8192 * 1.5 + 256 * 2 + 128)) / 81559, 3)),
        ("0.5.9", 143771, 8, round((143771 - (512 + 8192 * 1.5 + 512 * 2 + 1024)) / 143771, 3)),
        ("0.5.9", 183359, 8, round((183359 - (512 + 16384 * 1.5 + 512 * 2 + 1024)) / 183359, 3)),
        ("0.5.9", 46068, 1, round((46068 - (512 + 4096 * 1.5 + 32 * 2 + 128)) / 46068, 3)),
        ("0.5.9", 23034, 1, round((23034 - (512 + 2048 * 1.5 + 24 * 2 + 128)) / 23034, 3)),
    ],
)
def test_sglang_reserves_what_its_own_formula_says(
    version: str, memory_mib: int, devices: int, fraction: float
) -> None:
    defaults = engine_defaults("sglang", version, memory_mib * 2**20, devices=devices)
    assert defaults.number("memory_fraction") == fraction
    assert defaults.text("memory_fraction_covers") == "weights-and-kv"


def test_tensorrt_llm_takes_a_share_of_what_is_free() -> None:
    old, new = engine_defaults("trtllm", "0.17.0", H100), engine_defaults("TensorRT-LLM", "1.0.0", H100)
    assert (old.number("block_size"), new.number("block_size")) == (64, 32)
    assert new.text("memory_fraction_covers") == "kv-of-free"


def test_collectives_cost_memory_only_where_there_are_several_devices() -> None:
    assert engine_defaults("vllm", "0.32", H100, devices=1).number("communication_memory") is None
    assert engine_defaults("vllm", "0.32", H100, devices=2).number("communication_memory") == 392_000_000


@pytest.mark.parametrize(("version", "stand_in"), [("0.6.6", "0.7"), ("0.33.0", "0.32"), ("1.0", "0.32")])
def test_a_version_beyond_the_known_range_is_refused_or_stood_in_for_aloud(version: str, stand_in: str) -> None:
    with pytest.raises(InputError, match=rf"version = '{version}'.*from 0\.7 to 0\.32.*{stand_in}"):
        engine_defaults("vllm", version, H100)
    defaults = engine_defaults("vllm", version, H100, nearest=True)
    assert stand_in in defaults.fallback
    assert defaults.values == engine_defaults("vllm", stand_in, H100).values
    assert engine_defaults("vllm", "0.32.0", H100).fallback == ""


def test_without_a_version_the_newest_known_is_taken_and_named() -> None:
    assert engine_defaults("vllm", None, H100).version == "0.32"


@pytest.mark.parametrize("version", ["latest", "", "x0.32"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(InputError, match="is not a version"):
        engine_defaults("vllm", version, H100)


def test_an_unknown_engine_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'vlm'.*vllm"):
        engine_defaults("vlm", "0.32", H100)


def test_a_device_smaller_than_the_reserve_is_refused() -> None:
    with pytest.raises(InputError, match="all of it"):
        engine_defaults("sglang", "0.5.9", 2 * GIB)


KNOWN = [(sheet.name, sheet.texts["versions"]) for sheet in engines()]


@pytest.mark.parametrize("engine", [name for name, _ in KNOWN])
def test_every_row_is_sourced_dated_and_inside_the_known_range(engine: str) -> None:
    sheet = engines().find(engine)
    low, high = sheet.texts["versions"].split(" to ")
    for key, rows in sheet.rows.items():
        assert key in ENGINES.rows
        for row in rows:
            fact = row.values["value"]
            assert fact.evidence is Evidence.ASSUMED, "a default is our assumption about the user's system"
            assert fact.source.date > datetime.date(2025, 1, 1)
            assert fact.is_stale(datetime.date(2030, 1, 1))
            first, last = row.texts["versions"].split(" to ")
            assert version_key(low) <= version_key(first) <= version_key(last) <= version_key(high)


@given(
    st.sampled_from(KNOWN),
    st.integers(0, 30),
    st.integers(0, 20),
    st.integers(16 * GIB, 300 * GIB),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_one_row_decides_each_default_for_every_known_case(
    engine: tuple[str, str], minor: int, patch: int, memory_bytes: int, devices: int
) -> None:
    """Two rows of equal rank would make the answer depend on the order of the file."""
    name, known = engine
    versions = [f"0.{minor}.{patch}", f"1.{minor}"]
    for version in (each for each in versions if in_range(each, known)):
        defaults = engine_defaults(name, version, memory_bytes, devices=devices)
        fraction = defaults.number("memory_fraction")
        assert fraction is not None
        assert 0.5 < fraction < 1
        assert defaults.text("memory_fraction_covers") in COVERS
        for rows in engines().find(name).rows.values():
            ranks = [
                (
                    row.texts.get("not_on", ""),
                    *(
                        row.values[key].value if key in row.values else 0
                        for key in ("device_memory_from", "devices_from")
                    ),
                )
                for row in rows
                if in_range(version, row.texts["versions"])
            ]
            assert len(ranks) == len(set(ranks)), (version, ranks)


def test_more_of_the_devices_never_means_a_larger_sglang_share() -> None:
    for version in ("0.4.5", "0.4.9", "0.5.9"):
        shares = [engine_defaults("sglang", version, H100, devices=n).number("memory_fraction") for n in (1, 2, 4, 8)]
        assert shares == sorted(shares, key=float, reverse=True)  # type: ignore[arg-type]


def test_a_users_row_replaces_ours() -> None:
    mine = """
source = "ours"
sources.ours = { what = "our deployment", where = "values.yaml", date = 2026-11-01, evidence = "stated" }
[[memory_fraction]]
versions = "0.7 to 0.32"
value = 0.85
"""
    overlaid = engines().overlaid({"vllm.toml": mine})
    defaults = engine_defaults("vllm", "0.32", H100, catalogue=overlaid)
    assert defaults.number("memory_fraction") == 0.85
    assert defaults.values["memory_fraction"].evidence is Evidence.STATED
    assert defaults.number("token_budget") == 8192
