"""What the metrics of a HorizontalPodAutoscaler mean: rules of prometheus-adapter, by the names that they serve.

They are read from the chart's values (`rules.external`, `rules.custom`) or from the ConfigMap that the chart makes of
them (`externalRules`, `rules`). A rule whose name or series is a pattern that cannot be told from the file is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ullage.documents import yaml_values
from ullage.readers.kubernetes.documents import listed, walked

_SERIES = re.compile(r"\s*([A-Za-z_:][\w:]*)")
_GROUP = re.compile(r"\$\{?(\d+)\}?")
_FIX = "Give the config.yaml that prometheus-adapter runs with."


def adapter_queries(documents: Sequence[Any], *, file: str) -> dict[str, str]:
    """PromQL by the metric's name, as far as these documents have rules of the adapter."""
    found = [each for document in documents for each in _rules(document, file)]
    return {name: query for each in found for name, query in _served(each)}


def _rules(document: Any, file: str) -> Iterator[Any]:
    if walked(document, "kind") == "ConfigMap":
        text = walked(document, "data", "config.yaml")
        if isinstance(text, str):
            for each in yaml_values(text, file=f"{file}: config.yaml", fix=_FIX):
                yield from (*listed(walked(each, "externalRules")), *listed(walked(each, "rules")))
    for name in ("external", "custom"):
        yield from listed(walked(document, "rules", name))


def _served(rule: Any) -> Iterator[tuple[str, str]]:
    """The name that a rule serves its query under; its series is what the query's template stands for."""
    series = _SERIES.match(str(walked(rule, "seriesQuery") or ""))
    query = walked(rule, "metricsQuery")
    if series is None or not isinstance(query, str):
        return
    name = _renamed(series.group(1), walked(rule, "name", "matches"), walked(rule, "name", "as"))
    if name:
        yield name, query.replace("<<.Series>>", series.group(1))


def _renamed(series: str, matches: Any, named: Any) -> str:
    """As the adapter names it: the series itself, `as`, or `as` with what `matches` caught of the series."""
    if not isinstance(named, str) or not named:
        return series
    if "$" not in named:
        return named
    try:
        return re.sub(str(matches or ".*"), _GROUP.sub(r"\\g<\1>", named), series, count=1)
    except (re.error, IndexError):
        return ""
