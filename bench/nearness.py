"""Writes what published configurations measured against their estimates (`python -m bench.nearness`, two minutes).

One entry for each model, precision, device, engine and tensor parallelism: the factors on the estimate that its rows
ask for, found as a calibration finds them, on the surrogate of fit.py: between the estimate and the optimum a latency
is the sum of parts, each of which scales with its factor. Entries go to src/ullage/facts/published/inferencex.toml, and
the errors of leaving one mix of lengths out of each entry, which are the band of an exact neighbour, to the output.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.decisions import client_sweeps, limit_pairs
from bench.published.calibrated import as_test, terms_of
from bench.published.cases import Case, published_model, serving_cases
from bench.published.fit import Floats, Timed
from bench.published.score import score

from ullage.facts.device import find_device
from ullage.service.calibration.calibration import Measurement, prior_covariance, sensitivity
from ullage.service.calibration.repeats import measurement_of
from ullage.service.steps.coefficients import coefficients
from ullage.service.steps.nearness import PULLED_FRACTIONS
from ullage.service.steps.scaled import PARAMETERS

OUT = Path(__file__).resolve().parents[1] / "src" / "ullage" / "facts" / "published" / "inferencex.toml"
# Log errors that count as one, and how many rows of one group count at most: they are not independent.
ERROR_SCALE = np.array([0.15, 0.08])
MOST_ROWS = 12
HEAD = """\
# What published configurations measured, as factors on the estimate of the same configuration.

[source]
what = "1,943 closed-loop measurements of InferenceX, as published until 2026-04, against their estimates"
where = "python -m bench.nearness, on data of github.com/SemiAnalysisAI/InferenceX"
date = 2026-11-16
evidence = "estimated"
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """A measured point with the surrogate of its estimate: log latencies (TTFT, TPOT) and their slopes by factor."""

    case: Case
    base: Floats
    slopes: Floats
    measured: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return self.case.prompt_tokens, self.case.output_tokens

    def at(self, logs: Floats) -> tuple[Floats, Floats]:
        ratio = np.maximum(1.0 + self.slopes @ np.expm1(logs), 1e-3)
        return self.base + np.log(ratio), self.slopes * np.exp(logs) / ratio[:, None]


def main() -> None:
    groups = rows_by_group()
    write(groups)
    print(held_out(groups))
    for kind in ("sibling", "family"):
        print(of_kin(groups, kind))


def rows_by_group() -> dict[tuple[str, str, str, str, int], list[Row]]:
    groups: dict[tuple[str, str, str, str, int], list[Row]] = defaultdict(list)
    known: dict[tuple[object, ...], tuple[Floats, Floats]] = {}
    for case in serving_cases():
        if not isinstance(case, Case) or case.apart:
            continue
        if (case.run_key, case.age_years) not in known:
            device = find_device(case.device)
            found = coefficients(case.engine, device.architecture, vendor=device.vendor, years=case.age_years)
            times = Timed(case, found.values)
            asked = measurement_of(as_test(case).points[0], terms_of(case))
            assert isinstance(asked, Measurement)
            known[case.run_key, case.age_years] = sensitivity(times, case.floor, np.zeros(len(PARAMETERS)), asked)
        base, slopes = known[case.run_key, case.age_years]
        key = (case.family, case.precision, case.device, case.engine, case.work.sharding.tp)
        measured = np.log([case.ttft_s, case.tpot_s])
        groups[key].append(Row(case=case, base=base, slopes=slopes, measured=measured))
    return groups


def fit(rows: Sequence[Row]) -> Floats:
    """Log factors by Gauss-Newton, with the prior of a calibration."""
    prior = np.linalg.inv(prior_covariance())
    weight = min(1.0, MOST_ROWS / len(rows))
    logs = np.zeros(len(PARAMETERS))
    for _ in range(8):
        precision, gradient = prior.copy(), -prior @ logs
        for row in rows:
            values, slopes = row.at(logs)
            error = (row.measured - values) / ERROR_SCALE
            root = np.sqrt(weight) / np.sqrt(np.sqrt(1.0 + (error / 3.0) ** 2))
            design = slopes / ERROR_SCALE[:, None] * root[:, None]
            precision, gradient = precision + design.T @ design, gradient + design.T @ (error * root)
        logs = logs + np.clip(np.linalg.solve(precision, gradient), -0.5, 0.5)
    return logs


def write(groups: dict[tuple[str, str, str, str, int], list[Row]]) -> None:
    OUT.write_text(HEAD + "".join(_entries(groups)))


def _entries(groups: dict[tuple[str, str, str, str, int], list[Row]]) -> Iterator[str]:
    for (family, precision, device, engine, tp), rows in sorted(groups.items()):
        model = published_model(family, precision)
        factors = zip(PARAMETERS, np.exp(fit(rows)).tolist(), strict=True)
        lines = [
            f'family = "{family}"',
            f'architecture = "{model.architecture}"',
            f"layers = {model.layer_count}",
            f"hidden_channels = {model.hidden_channels}",
            f'precision = "{precision}"',
            f'device = "{device}"',
            f'engine = "{engine}"',
            f"tp = {tp}",
            f"points = {len(rows)}",
            *(f"{name}_ratio = {value:.3f}" for name, value in factors),
        ]
        yield "\n[[fits]]\n" + "\n".join(lines) + "\n"


def held_out(groups: dict[tuple[str, str, str, str, int], list[Row]]) -> str:
    """Errors of rows of one mix of lengths, with the factors of the group's other mixes, pulled as an estimate is."""
    pull = np.array([PULLED_FRACTIONS[name] for name in PARAMETERS])
    found: list[tuple[Row, Floats]] = []
    for rows in groups.values():
        for shape in sorted({row.shape for row in rows}):
            others = [row for row in rows if row.shape != shape]
            if others:
                logs = pull * fit(others)
                found += [(row, row.at(logs)[0]) for row in rows if row.shape == shape]
    return f"exact neighbour, one mix of lengths left out: {_described(found)}"


def of_kin(groups: dict[tuple[str, str, str, str, int], list[Row]], kind: str) -> str:
    """Errors of plain estimates of groups that have such a neighbour. The packaged efficiencies saw these rows."""

    def is_kin(one: tuple[str, str, str, str, int], other: tuple[str, str, str, str, int]) -> bool:
        is_here = one[2:4] == other[2:4]
        return one != other and one[0] == other[0] and is_here == (kind == "sibling")

    nothing = np.zeros(len(PARAMETERS))
    found = [
        (row, row.at(nothing)[0])
        for key, rows in groups.items()
        if any(is_kin(key, other) for other in groups)
        for row in rows
    ]
    return f"{kind}, {len(found)} rows, not left out of the efficiencies: {_described(found)}"


def _described(found: Sequence[tuple[Row, Floats]]) -> str:
    """Errors of rows with what was estimated of them, and where 80 % of measured / estimated lie."""
    measured, estimated = np.array([row.measured for row, _ in found]), np.array([logs for _, logs in found])
    return described([row.case for row, _ in found], measured, estimated)


def described(cases: Sequence[Case], measured: Floats, estimated: Floats) -> str:
    """The same of cases with their log latencies."""
    pairs = limit_pairs(client_sweeps(cases, measured, estimated))
    errors = estimated - measured
    bands: dict[str, Floats] = {
        "TPOT": -errors[:, 1],
        "TTFT": -errors[:, 0],
        "steps that decide": np.array([each.right_log for each in pairs]),
    }
    ends = {name: np.exp(np.percentile(logs, (10, 90))) for name, logs in bands.items()}
    return f"TPOT {score(errors[:, 1])}, TTFT {score(errors[:, 0])}; 80 % of measured / estimated: " + ", ".join(
        f"{name} {low:.3f} to {high:.3f}" for name, (low, high) in ends.items()
    )


if __name__ == "__main__":
    main()
