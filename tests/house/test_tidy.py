"""The house keeps its own rules, and each rule catches what it is for, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tidy import anomalies


def test_the_source_has_no_anomalies() -> None:
    assert anomalies() == []


@pytest.mark.parametrize(
    ("where", "source", "anomaly"),
    [
        (
            "memory/planted.py",
            "@dataclass(kw_only=True)\nclass Budget:\n    size_bytes: int\n",
            "memory/planted.py:2: dataclass Budget lacks frozen=True",
        ),
        (
            "memory/planted.py",
            "@dataclass(frozen=True)\nclass Budget:\n    size_bytes: int\n",
            "memory/planted.py:2: dataclass Budget lacks kw_only=True",
        ),
        (
            "service/planted.py",
            "@dataclass(frozen=True, kw_only=True)\nclass Curve:\n    latency: float | None = None\n",
            "service/planted.py:3: field Curve.latency does not end in its unit",
        ),
        ("memory/utils.py", "", "memory/utils.py: a module is named by its subject, not 'utils'"),
        ("cost/planted.py", "text = open('prices.csv').read()\n", "cost/planted.py:1: the core calls open()"),
        (
            "plan/planted.py",
            "import datetime\nnow = datetime.date.today()\n",
            "plan/planted.py:2: the core reads the clock by datetime.date.today()",
        ),
        (
            "simulate/planted.py",
            "import numpy as np\nx = np.random.rand(3)\n",
            "simulate/planted.py:2: the core draws from the global generator by np.random.rand()",
        ),
        (
            "fleet/planted.py",
            "from numba import njit\n",
            "fleet/planted.py:1: compiled code stands in simulate/kernel.py and workload/synthetic/stream.py alone",
        ),
        (
            "verbs/planted.py",
            "def long() -> None:\n" + "    pass\n" * 90,
            "verbs/planted.py:1: function long has 91 lines and does not fit a screen",
        ),
    ],
)
def test_a_planted_breach_is_named(where: str, source: str, anomaly: str, tmp_path: Path) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert anomalies(tmp_path) == [anomaly]


@pytest.mark.parametrize(
    "field", ["limit_s: float", "kv_tokens: int", "bytes_per_token: float", "layers: int", "name: str", "seed: int"]
)
def test_a_near_miss_is_not_named(field: str, tmp_path: Path) -> None:
    path = tmp_path / "memory" / "planted.py"
    path.parent.mkdir()
    path.write_text(f"@dataclass(frozen=True, kw_only=True)\nclass Fine:\n    {field}\n")
    assert anomalies(tmp_path) == []
