"""How a profile grows with its rows (`make bench-growth`): seconds, CPU seconds and peak memory, from many files.

A day of requests is one Parquet file; a trace of more rows has more days. Every size is profiled in a process of its
own. The law to see: time grows in proportion to rows, memory does not grow. Files are made once, kept while the bench
runs in `--folder` (the temporary folder where none is named), and removed.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

from bench.trace_profile import child, made

MILLIONS = (25.0, 50.0, 100.0)
# Rows of one file: a day of a service of 145 requests a second.
FILE_ROWS = 12_500_000
DAY_S = 86_400.0
FROM_EPOCH_S = 1_793_491_200.0
PROFILE = """
import json, resource, sys, time
started = time.perf_counter()
from ullage.report.encode import to_text
from ullage.verbs.profile import profile
found = profile(sys.argv[1:])
took = time.perf_counter() - started
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"s": took, "cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024,
                  "kb": len(to_text(found.to_dict())) / 1024, "rows": found.own.whole.requests}))
"""


def make_day(folder: Path, day: int) -> Path:
    """One more day: rows as in bench/trace_profile.py, with stamps of that day."""
    import duckdb

    path = folder / f"day-{day:03}.parquet"
    if day == 0:
        week = folder / "week.parquet"
        made(week, FILE_ROWS)
        connection = duckdb.connect()
        connection.execute(
            f"COPY (SELECT {FROM_EPOCH_S} + arrival_s / 7 AS arrival_s, * EXCLUDE (arrival_s) FROM '{week}') "
            f"TO '{path}' (FORMAT parquet)"
        )
        week.unlink()
        return path
    # The lengths of another day are those of the first, dealt in another order: drawing them anew takes longer.
    duckdb.connect(config={"memory_limit": "2GB"}).execute(
        f"COPY (SELECT arrival_s + {day * DAY_S} AS arrival_s, prompt_tokens + ({day} * 7919 + output_tokens) % 13 "
        f"AS prompt_tokens, output_tokens + prompt_tokens % {day + 1} AS output_tokens, tenant, model, status "
        f"FROM '{folder / 'day-000.parquet'}') TO '{path}' (FORMAT parquet)"
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(f"{each:g}" for each in MILLIONS), help="millions of rows")
    parser.add_argument("--folder", default=None)
    asked = parser.parse_args()
    sizes = sorted(float(each) * 1e6 for each in asked.rows.split(","))
    print("| M rows | files | GB | s | CPU s | CPU s per 100 M | peak MB | profile, kB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    found: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        files: list[Path] = []
        for rows in sizes:
            while len(files) * FILE_ROWS < rows:
                files.append(make_day(Path(name), len(files)))
            used = files[: math.ceil(rows / FILE_ROWS)]
            took = child(PROFILE, *(str(each) for each in used))
            size_gb = sum(each.stat().st_size for each in used) / 1e9
            found.append((took["rows"], took["cpu_s"]))
            print(
                f"| {took['rows'] / 1e6:,.1f} | {len(used)} | {size_gb:.2f} | {took['s']:.0f} | {took['cpu_s']:.0f} | "
                f"{took['cpu_s'] / took['rows'] * 1e8:.1f} | {took['mb']:,.0f} | {took['kb']:,.0f} |",
                flush=True,
            )
    if len(found) > 1:
        (few, little), (many, much) = found[0], found[-1]
        power = math.log(much / little) / math.log(many / few)
        print(f"\nCPU time grows with rows to the power of {power:.2f}.")


if __name__ == "__main__":
    main()
