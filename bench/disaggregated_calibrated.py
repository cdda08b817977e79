"""How far disaggregated tests are from what a fit to two of their loads predicts.

`python -m bench.disaggregated_calibrated`. The lowest and the highest load of a configuration are given to what
`calibrate --prefill` calls; the loads between are predicted by what `simulate --prefill --load-test --calibration`
calls. A configuration is one model, device, engine, split, mix of lengths, version and day with three loads or more.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from bench.disaggregated import (
    HEADER,
    SplitRow,
    as_test,
    estimate_of,
    log_error,
    predicted,
    shown,
    split_rows,
    terms_of,
)
from bench.published.calibrated import SOURCE
from bench.published.fit import Solution
from bench.published.score import table
from bench.speculation import without_family

from ullage.service.calibration.fitted import fit_tests
from ullage.service.calibration.prediction import PredictedLatency

LEAST_LOADS = 3
Judged = tuple[SplitRow, PredictedLatency, PredictedLatency]


def main() -> None:
    started = time.monotonic()
    solution = without_family()
    found = [judged for points in configurations() for judged in between(points, solution)]
    print("\n".join(scored(found)))
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


def configurations() -> Iterator[list[SplitRow]]:
    """The rows of each configuration that has loads enough, by load."""
    groups: dict[tuple[object, ...], list[SplitRow]] = defaultdict(list)
    for row in split_rows():
        if isinstance(row, SplitRow):
            key = (
                row.family, row.precision, row.device, row.engine, row.prefill, row.prefill_replicas, row.decode,
                row.decode_replicas, row.draft_tokens, row.prompt_tokens, row.output_tokens, row.statistic, row.run,
            )  # fmt: skip
            groups[key].append(row)
    for group in groups.values():
        if len({row.clients for row in group}) >= LEAST_LOADS:
            yield sorted(group, key=lambda row: row.clients)


def between(points: Sequence[SplitRow], solution: Solution) -> Iterator[Judged]:
    """The loads between the lowest and the highest, after a fit to these two."""
    low, high = points[0], points[-1]
    step = fit_tests(
        estimate_of(high, solution), [("sweep", as_test(low, high))], terms_of(high, solution),
        source=SOURCE, accepted=("physics",),
    ).step  # fmt: skip
    for row in points:
        if row.clients not in (low.clients, high.clients):
            yield row, *predicted(step, row, solution)


def scored(found: Sequence[Judged]) -> Iterator[str]:
    errors = np.array([[log_error(each) for each in pair] for _, *pair in found])
    inside = np.array([[bool(each.is_inside) for each in pair] for _, *pair in found])
    chosen = np.array([row.is_chosen_on for row, *_ in found])
    plain = np.array([row.draft_tokens == 0 for row, *_ in found])
    engines = np.array([row.engine for row, *_ in found])
    masks = {
        "**two points (lowest and highest load)**": np.ones(len(found), bool),
        "- the half that choices were made on": chosen,
        "- **the other half**": ~chosen,
        **{f"- {name}": engines == name for name in sorted(set(engines))},
        "- plain": plain,
    }
    yield from table(HEADER, [(name, *shown(errors[own], inside[own])) for name, own in masks.items() if own.any()])


if __name__ == "__main__":
    main()
