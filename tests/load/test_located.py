"""A wrong value of one of several pools is told at its own line."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.load.plan import load_plan

FILE = """\
version: 1
service: two
workload:
  classes:
    - {name: chat, pool: small, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}
    - {name: code, pool: large, rate: 1 req/s, longest_context: 8192, slo: {ttft_p95: 5s}}
pools:
  - {name: small, model: llama-3.1-8b, device: h100-sxm, adapters: {slots: 2, rank: 8, targets: [attention]}}
  - name: large
    model: llama-3.1-8b
    device: h100-sxm
    WRONG
"""


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("router: nearest", "plan.yaml:12: pools.large.router = 'nearest': is not known"),
        (
            "adapters: {slots: 2, rank: 8, targets: [attention, heads]}",
            "plan.yaml:12: pools.large.adapters.targets = 'heads': is not known",
        ),
    ],
)
def test_a_value_of_the_second_pool_is_refused_at_its_line(wrong: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(FILE.replace("WRONG", wrong))
    with pytest.raises(InputError) as refused:
        load_plan(file, as_of=datetime.date(2026, 11, 15))
    assert told in str(refused.value)
