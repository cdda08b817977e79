"""A metric is known by its name however an exporter spells it."""

from __future__ import annotations

import pytest

from ullage.scaling.signals import NAMES, known_signal


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_known_with_and_without_what_prometheus_adds(name: str) -> None:
    assert known_signal(name) is NAMES[name]
    assert known_signal(f" {name.replace(':', '_').upper()} ") is NAMES[name]
    for suffix in ("_total", "_bucket", "_sum", "_count"):
        assert known_signal(name + suffix) is NAMES[name]


def test_what_only_ends_like_a_metric_is_none() -> None:
    assert known_signal("vllm:num_requests_waiting_seconds") is None
    assert known_signal("_total") is None
