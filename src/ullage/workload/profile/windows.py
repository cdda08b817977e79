"""Tables of counted windows: the summary that a table of client rates gives, and what it hides.

Arrivals are known by window, so nothing shorter than a window is known. Lengths, where given, are means of a
client in a window: their spread is that between clients, and the tail of single requests is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError
from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity
from ullage.workload.answers import arrays, literal, one_row
from ullage.workload.profile.series import ValueCounts, second_counts, value_counts
from ullage.workload.profile.summarise import MOST_GROUPS, OTHERS, UNKNOWN
from ullage.workload.profile.summary import DIMENSIONS, About, Part, Summary
from ullage.workload.trace import RateTable

# A client that carries more than this share of the requests is heavy: its missing lengths matter.
HEAVY_FRACTION = 0.01
SUMMED = ("prompt_tokens", "output_tokens", "cached_tokens")


def summarise_windows(table: RateTable) -> Summary:
    """A summary of counted windows; what needs single requests is None in it."""
    told = [each for each in DIMENSIONS if one_row(table.rates.aggregate(f'count("{each}")'))[0]]
    groups = {dimension: _parts(table, dimension) for dimension in told}
    whole = _part(table, "true")
    if whole.requests == 0:
        raise InputError(
            field=", ".join(table.sources[:3]),
            value=f"windows of {table.width_s:g} s",
            problem="hold less than half a request each",
            fix="Give rates above 0; where they are low, export wider windows.",
        )
    if "model" in groups:
        is_even = len({part.watched for part in groups["model"].values()}) == 1
        whole = replace(whole, watched=None, evenly_watched=is_even)
    first_s, last_s = one_row(table.rates.aggregate("min(window_s), max(window_s)"))
    known = {*told, *whole.lengths}
    return Summary(
        about=About(
            format=table.format,
            sources=table.sources,
            clock=table.clock,
            zone=table.zone,
            rows=table.rows,
            columns=frozenset(known),
            block_tokens=None,
            anomalies=(
                *table.anomalies,
                *_coverage(groups.get("model", {})),
                *_silence(table),
                *_lengths(table, whole),
            ),
        ),
        first_s=first_s,
        last_s=last_s + table.width_s,
        whole=whole,
        groups=groups,
        distinct={
            dimension: int(one_row(table.rates.aggregate(f'count(DISTINCT "{dimension}")'))[0]) for dimension in groups
        },
        gaps=None,
        stamps=None,
        order=None,
        duplicate_rows=0,
        missing_outputs=0,
        sessions=None,
        group_sessions={},
        reuse=None,
        least_width_s=int(table.width_s),
    )


def _parts(table: RateTable, dimension: str) -> dict[str, Part]:
    rows = table.rates.query(
        "rates",
        f'SELECT "{dimension}", sum(requests) AS n FROM rates GROUP BY ALL HAVING n > 0 ORDER BY n DESC, 1',
    )
    assert rows is not None
    found = [row[0] for row in rows.fetchall()]
    names = [name for name in found if name is not None]
    kept = names[:MOST_GROUPS]
    parts = {name: _part(table, f'"{dimension}" = {literal(name)}') for name in kept}
    if len(names) > len(kept):
        listed = ", ".join(literal(name) for name in kept)
        parts[OTHERS] = _part(table, f'"{dimension}" NOT IN ({listed})')
    if None in found:
        parts[UNKNOWN] = _part(table, f'"{dimension}" IS NULL')
    return parts


def _part(table: RateTable, where: str) -> Part:
    counted = _columns(
        table.rates.query(
            "rates",
            "SELECT CAST(window_s AS BIGINT) AS second, CAST(round(sum(requests)) AS BIGINT) AS n "
            f"FROM rates WHERE {where} GROUP BY ALL ORDER BY second",
        )
    )
    arrivals = second_counts(counted["second"], counted["n"])
    models = table.rates.query("rates", f"SELECT min(window_s), max(window_s) FROM rates WHERE {where} GROUP BY model")
    assert models is not None
    return Part(
        requests=arrivals.total,
        arrivals=arrivals,
        lengths=_client_lengths(table, where) if table.lengths is not None else _summed_lengths(table, where),
        outcomes={},
        watched=(float(counted["second"][0]), float(counted["second"][-1]) + table.width_s),
        evenly_watched=len(set(models.fetchall())) == 1,
    )


def _client_lengths(table: RateTable, where: str) -> dict[str, Any]:
    """Mean lengths of clients, each weighted by the client's requests."""
    assert table.lengths is not None
    means = table.lengths.query("lengths", "SELECT tenant, field, avg(mean_tokens) AS mean FROM lengths GROUP BY ALL")
    weights = table.rates.query("rates", f"SELECT tenant, sum(requests) AS n FROM rates WHERE {where} GROUP BY ALL")
    assert means is not None
    assert weights is not None
    found: dict[str, list[tuple[int, int]]] = {}
    by_tenant = {(tenant, field): mean for tenant, field, mean in means.fetchall()}
    for tenant, count in sorted(weights.fetchall()):
        for field in ("prompt_tokens", "output_tokens"):
            if (tenant, field) in by_tenant and count > 0:
                found.setdefault(field, []).append((round(by_tenant[tenant, field]), round(count)))
    return {field: _weighted(pairs) for field, pairs in found.items()}


def _summed_lengths(table: RateTable, where: str) -> dict[str, Any]:
    """Mean lengths of windows, from sums of tokens, each weighted by the window's requests."""
    found = {}
    for field in SUMMED:
        rows = table.rates.query(
            "rates",
            f"SELECT sum({field}) / sum(requests) AS mean, sum(requests) AS n FROM rates WHERE {where} "
            f"AND {field} IS NOT NULL AND requests > 0 GROUP BY window_s ORDER BY window_s",
        )
        assert rows is not None
        pairs = [(round(mean), max(1, round(count))) for mean, count in rows.fetchall()]
        if pairs:
            found[field] = _weighted(pairs)
    return found


def _weighted(pairs: Sequence[tuple[int, int]]) -> ValueCounts:
    return value_counts(np.array([mean for mean, _ in pairs]), np.array([count for _, count in pairs]))


def _coverage(models: Mapping[str, Part]) -> list[Anomaly]:
    watched = {name: part.watched for name, part in models.items() if part.watched is not None}
    if len(set(watched.values())) < 2:
        return []
    days = {name: (last_s - first_s) / 86400 for name, (first_s, last_s) in watched.items()}
    return [
        Anomaly(
            kind=AnomalyKind.UNEVEN_COVERAGE,
            weight=Severity.SERIOUS,
            sentence="Models were observed for different periods ("
            + ", ".join(f"{name} {length:.3g} days" for name, length in days.items())
            + "): the sum over models changes with the period observed; read each model separately.",
            touches=("arrivals", "bursts", "season", "growth"),
        )
    ]


def _silence(table: RateTable) -> list[Anomaly]:
    if not one_row(table.rates.aggregate("count(tenant)"))[0]:
        return []
    silent, windows = one_row(table.rates.aggregate("count(*) FILTER (WHERE requests = 0), count(*)"))
    if silent == 0:
        return []
    return [
        Anomaly(
            kind=AnomalyKind.SILENT_WINDOWS,
            weight=Severity.CAUTION,
            sentence=f"{silent:,} of {windows:,} windows of a client have no traffic ({silent / windows:.0%}): "
            "clients come and go, and a client's mean rate is far below its rate while "
            "active.",
            share_fraction=silent / windows,
            touches=("arrivals",),
        )
    ]


def _lengths(table: RateTable, whole: Part) -> list[Anomaly]:
    total = float(one_row(table.rates.aggregate("sum(requests)"))[0])
    if table.lengths is None and "prompt_tokens" in whole.lengths:
        return [_only_means("Lengths are means of windows, from sums of tokens")]
    if table.lengths is None:
        # The fix for a trace without any is given where lengths are checked (quality.py).
        return []
    have = {row[0] for row in table.lengths.aggregate("tenant", "tenant").fetchall()}
    weights = table.rates.aggregate("tenant, sum(requests)", "tenant").fetchall()
    without = [count for tenant, count in weights if tenant not in have and count > 0]
    anomalies = [_only_means("Lengths are means by client and window")]
    if without:
        heavy = sum(count > HEAVY_FRACTION * total for count in without)
        share = sum(without) / total
        anomalies.append(
            _missing(
                f"{len(without)} clients with {share:.1%} of the requests have no lengths, {heavy} of them heavy (over "
                f"{HEAVY_FRACTION:.0%} of all requests each); the lengths describe the others.",
                share,
            )
        )
    return anomalies


def _only_means(what: str) -> Anomaly:
    return Anomaly(
        kind=AnomalyKind.MISSING_LENGTHS,
        weight=Severity.CAUTION,
        sentence=f"{what}: quantiles are those between them, and the tail of single requests is not in them. A plan "
        "takes "
        "the mean from here and the spread from elsewhere; state percentiles, or name a log in workload.lengths.",
        touches=("lengths",),
    )


def _missing(sentence: str, share: float) -> Anomaly:
    return Anomaly(
        kind=AnomalyKind.MISSING_LENGTHS,
        weight=Severity.SERIOUS if share > 0.05 else Severity.CAUTION,
        sentence=sentence,
        share_fraction=share,
        touches=("lengths",),
    )


def _columns(relation: Any) -> dict[str, NDArray[Any]]:
    assert relation is not None
    return arrays(relation)
