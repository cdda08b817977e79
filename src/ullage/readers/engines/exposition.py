"""One line of a metrics page, read as Prometheus itself reads it: escapes, exemplars, timestamps and all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ExposedSample:
    """A sample: its name, its labels with their escapes undone, and its value, which may be NaN or infinite."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_sample(line: str) -> ExposedSample | None:
    """The sample on this line; None where it is none, as at the end of a page that was cut.

    >>> parse_sample('vllm:x_total{a="b\\\\"c"} 3 1700000000').labels
    {'a': 'b"c'}
    >>> parse_sample('vllm:x_total{a="b') is None
    True
    """
    # Imported late: most of what reads logs never meets a metrics page.
    from prometheus_client.parser import text_string_to_metric_families

    try:
        (family,) = text_string_to_metric_families(line)
        (sample,) = family.samples
    except (ValueError, IndexError, KeyError, TypeError):
        return None
    return ExposedSample(name=sample.name, labels=dict(sample.labels), value=float(sample.value))
