"""How cost grows with each size of a problem (`make bench-sizes`): requests, replicas, traffic, pools, classes, draws,
cores and rows of a trace, from one command.

    python -m bench.sizes [--only classes,pools] [--largest 0.1] [--svg FILE] [--rows 1,4,16]

What is printed for each is a table, a bar for each size, and the exponent k of cost = a x size^k through its upper
half: 0 is flat, 1 in proportion. `--largest` leaves out sizes over that share of the largest, `--svg` draws the same as
a picture. CPU seconds are of the process that works; of whole plans those of `ullage --version` are taken off. Cores
are by the clock.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.plan import DEEPSEEK, many_classes, many_pools, plan_file, plan_of, wall_s
from bench.simulate import capacity_rps, cpu_s, full_problem, run_s, stream

BAR = 40


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One way for a problem to grow: its sizes, what one of them costs, and the growth to expect."""

    name: str
    what: str
    unit: str
    sizes: tuple[float, ...]
    cost: Callable[[float], float]
    expected: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    axis: Axis
    costs: tuple[tuple[float, float], ...]

    @property
    def exponent(self) -> float:
        """Slope of the logarithms through the upper half of the sizes, two at least."""
        upper = self.costs[min(len(self.costs) // 2, len(self.costs) - 2) :]
        (small, cheap), (large, dear) = upper[0], upper[-1]
        return math.log(dear / cheap) / math.log(large / small)


def requests_s(count: float) -> float:
    return run_s(full_problem(stream(int(count), 0.6 * capacity_rps()), 1), 2)


def replicas_s(replicas: float) -> float:
    return run_s(full_problem(stream(300_000, 0.6 * capacity_rps() * replicas), int(replicas)), 2)


def plan_s(command: Sequence[str]) -> float:
    """CPU seconds of a whole plan beyond what the start of the program takes."""
    begun = wall_s([command[0], "--version"], runs=3)[1]
    return wall_s(list(command), runs=1)[1] - begun


@functools.cache
def _risk() -> tuple[Any, ...]:
    """What the study of the built-in example knows before it draws: the pool, its uncertainties and its surface."""
    from ullage.errors import Rejection
    from ullage.uncertainty.pool_study import pool_surface
    from ullage.verbs.plan import plan

    answer = plan(None, as_of=datetime.date(2026, 11, 15), quick=True)
    assert not isinstance(answer, Rejection)
    pool = answer.pools[0]
    return pool, *pool_surface(pool, answer.spec, seed=0)


def draws_s(count: float) -> float:
    """The least fleet for a chance of 5 %, over so many joint draws, on a capacity surface that is there."""
    from ullage.fleet.risk.load_draws import drawn_points, load_draws
    from ullage.fleet.risk.shortfall import ShortfallModel
    from ullage.uncertainty.pool_study import failing_together

    pool, given, surface = _risk()

    def study() -> None:
        drawn = load_draws(given, surface, drawn_points(given, int(count), seed=0))
        ShortfallModel(draws=drawn, surface=surface, domains_of=failing_together(pool)).least(0.05)

    return cpu_s(study)


CORES = """
import datetime, sys, time
from ullage.verbs.plan import plan
plan({"version": 1, "service": "warm", "workload": {"classes": [{"name": "a", "rate": "1 req/s",
     "longest_context": 4096, "slo": {"ttft_p95": "1s"}}]}, "pool": {"model": "qwen3-8b", "device": "h100-sxm"}},
     quick=True, as_of=datetime.date(2026, 11, 15), workers=int(sys.argv[1]))
begun = time.perf_counter()
plan(sys.argv[2] or None, quick=True, as_of=datetime.date(2026, 11, 15), workers=int(sys.argv[1]))
print(time.perf_counter() - begun)
"""


def cores_s(file: str) -> Callable[[float], float]:
    def cost(cores: float) -> float:
        command = [sys.executable, "-c", CORES, str(int(cores)), file]
        return min(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(2))

    return cost


def rows_s(folder: Path) -> Callable[[float], float]:
    from bench.trace_growth import FILE_ROWS, PROFILE, make_day
    from bench.trace_profile import child

    files: list[Path] = []

    def cost(rows: float) -> float:
        while len(files) * FILE_ROWS < rows:
            files.append(make_day(folder, len(files)))
        return child(PROFILE, *(str(each) for each in files[: math.ceil(rows / FILE_ROWS)]))["cpu_s"]

    return cost


def axes(folder: Path, rows: Sequence[float]) -> Iterator[Axis]:
    yield Axis(
        name="requests", what="requests on one replica, all features", unit="CPU s",
        sizes=(1e4, 1e5, 1e6, 1e7), cost=requests_s, expected="in proportion",
    )  # fmt: skip
    yield Axis(
        name="replicas", what="replicas behind one router, 300,000 requests", unit="CPU s",
        sizes=(1, 10, 100, 1000), cost=replicas_s,
        expected="slowly: the same requests meet more replicas, whose state leaves the caches",
    )  # fmt: skip
    yield Axis(
        name="traffic", what="req/s of a plan of four classes", unit="CPU s", sizes=(3, 30, 300, 3000),
        cost=lambda rate: plan_s(plan_of(folder, rate)),
        expected="flat from the pool on that is simulated by a part of it",
    )  # fmt: skip
    yield Axis(
        name="pools", what="pools of a plan", unit="CPU s", sizes=(1, 2, 5, 10, 20),
        cost=lambda pools: plan_s(plan_file(folder, "pools", many_pools(int(pools)))),
        expected="below proportion: pools of one kind share their simulations",
    )  # fmt: skip
    yield Axis(
        name="classes", what="classes of one pool, 1 req/s each", unit="CPU s", sizes=(1, 2, 5, 10, 20, 50),
        cost=lambda classes: plan_s(plan_file(folder, "classes", many_classes(int(classes)))),
        expected="below proportion: windows are longer and fewer causes are tried alone",
    )  # fmt: skip
    yield Axis(
        name="draws", what="joint draws of a study of risk", unit="CPU s",
        sizes=(1024, 4096, 16_384, 65_536), cost=draws_s, expected="in proportion",
    )  # fmt: skip
    deepseek = folder / "deepseek.yaml"
    deepseek.write_text(DEEPSEEK)
    cores = os.cpu_count() or 1
    yield Axis(
        name="cores", what="cores for a plan of 2,000 req/s", unit="s by the clock",
        sizes=tuple(float(each) for each in (1, 2, 4, 8, 16) if each <= cores), cost=cores_s(str(deepseek)),
        expected="shorter by what is simulated in parallel; searches wait for each step",
    )  # fmt: skip
    yield Axis(
        name="rows", what="rows of a trace", unit="CPU s", sizes=tuple(each * 1e6 for each in rows),
        cost=rows_s(folder), expected="in proportion",
    )  # fmt: skip


def show(found: Measured) -> None:
    axis, most = found.axis, max(cost for _, cost in found.costs)
    print(f"\n{axis.what}: {axis.unit}, size^{found.exponent:.2f}; expected: {axis.expected}\n")
    print(f"| {axis.name} | {axis.unit} | |\n|---|---|---|")
    for size, cost in found.costs:
        print(f"| {size:,.0f} | {cost:.3g} | {'█' * max(1, round(BAR * cost / most))} |", flush=True)


def svg(found: Sequence[Measured]) -> str:
    """Small multiples, each in logarithms of both, with a line of proportion through its last point."""
    width, height, columns = 260, 190, 4
    rows = math.ceil(len(found) / columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * width} {rows * height}">',
        '<g font-family="sans-serif" font-size="11" role="img" aria-label="Cost by size of the problem">',
    ]
    for at, each in enumerate(found):
        left, top = at % columns * width, at // columns * height
        parts += _panel(each, left + 45, top + 30, width - 65, height - 70)
    return "\n".join([*parts, "</g></svg>\n"])


def _panel(found: Measured, left: float, top: float, width: float, height: float) -> list[str]:
    sizes = [math.log10(size) for size, _ in found.costs]
    costs = [math.log10(cost) for _, cost in found.costs]
    low, high = math.floor(min(costs)), math.ceil(max(costs) + 1e-9)
    reach = (sizes[-1] - sizes[0]) or 1.0

    def place(size: float, cost: float) -> tuple[float, float]:
        return left + width * (size - sizes[0]) / reach, top + height * (1.0 - (cost - low) / (high - low))

    points = [place(size, cost) for size, cost in zip(sizes, costs, strict=True)]
    floor = max(low, costs[-1] - reach)
    ends = [place(sizes[-1] - (costs[-1] - floor), floor), points[-1]]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    return [
        f'<text x="{left}" y="{top - 12}" font-weight="bold">{found.axis.name}: size^{found.exponent:.2f}</text>',
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#bbb"/>',
        f'<polyline points="{dashed}" fill="none" stroke="#bbb" stroke-dasharray="4 3"/>',
        f'<polyline points="{line}" fill="none" stroke="#0b62a4" stroke-width="2"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#0b62a4"/>' for x, y in points),
        f'<text x="{left - 5}" y="{top + 8}" text-anchor="end">{10.0**high:g}</text>',
        f'<text x="{left - 5}" y="{top + height}" text-anchor="end">{10.0**low:g}</text>',
        f'<text x="{left}" y="{top + height + 14}">{found.costs[0][0]:,.0f}</text>',
        f'<text x="{left + width}" y="{top + height + 14}" text-anchor="end">{found.costs[-1][0]:,.0f}</text>',
        f'<text x="{left + width / 2}" y="{top + height + 28}" text-anchor="middle">{found.axis.unit}</text>',
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="axes to measure, such as classes,pools")
    parser.add_argument("--largest", type=float, default=1.0, help="leave out sizes beyond this share of the largest")
    parser.add_argument("--rows", default="12.5,25,50", help="millions of rows of a trace")
    parser.add_argument("--svg", type=Path, default=None)
    asked = parser.parse_args()
    only = set(asked.only.split(",")) if asked.only else None
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for axis in axes(Path(folder), [float(each) for each in asked.rows.split(",")]):
            if only is not None and axis.name not in only:
                continue
            sizes = [each for each in axis.sizes if each <= axis.sizes[-1] * asked.largest] or axis.sizes[:1]
            if len(sizes) < 2:
                print(f"\n{axis.what}: one size only, no growth to show", flush=True)
                continue
            found.append(Measured(axis=axis, costs=tuple((each, axis.cost(each)) for each in sizes)))
            show(found[-1])
    if asked.svg is not None:
        asked.svg.write_text(svg(found))


if __name__ == "__main__":
    main()
