"""Profiles: our own table and Dynamo's, with the range they were measured in."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from ullage.errors import InputError
from ullage.service.steps.profile_table import OWN_COLUMNS, read_profile


def own(*rows: tuple[str, ...]) -> list[dict[str, str]]:
    return [dict(zip(OWN_COLUMNS, row, strict=True)) for row in rows]


def test_our_own_table() -> None:
    grid, measured = read_profile(
        own(
            ("decode", "1", "1000", "", "0.010"),
            ("decode", "8", "8000", "", "0.012"),
            ("decode", "8", "80000", "", "0.020"),
            ("prefill", "", "", "1024", "0.050"),
        )
    )
    assert (measured.sequences, measured.kv_tokens, measured.prefill_tokens) == (8, 80_000, 1024)
    assert grid.decode_s(np.array([8.0]), np.array([8000.0]))[0] == pytest.approx(0.012)
    assert grid.prefill_s(np.array([1024.0]))[0] == pytest.approx(0.040)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "columns"),
        ([{"batch": "1"}], "columns"),
        (own(("decode", "one", "1", "", "0.1")), "line 2: sequences"),
        (own(("decoding", "1", "1", "", "0.1")), "line 2: kind"),
        (own(("decode", "1", "1", "", "0.1")), "prefill"),
        (own(("decode", "1", "1", "", "0"), ("prefill", "", "", "1", "0.1")), "measured step"),
    ],
)
def test_a_bad_table_is_named(rows: list[dict[str, str]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_profile(rows)


def test_a_sweep_of_dynamo(shared_data: Path) -> None:
    """Its 16 prompt lengths and its decode grid; more context at the same load is never faster."""
    with (shared_data / "measured" / "dynamo_h200_profile.csv").open(newline="") as file:
        grid, measured = read_profile(csv.DictReader(file))
    assert measured.prefill_tokens > 16_000
    assert measured.kv_tokens > 500_000
    assert grid.prefill_s(np.array([16_372.0]))[0] == pytest.approx(0.375, abs=0.01)
    held = np.linspace(1_000, 500_000, 20)
    assert (np.diff(grid.decode_s(np.full(20, 64.0), held)) >= -1e-12).all()
