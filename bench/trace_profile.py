"""How long a profile takes, in DuckDB scans of the same file (`make bench-profile`).

Fifty million made requests over a week, with tenants, models and outcomes, are profiled in a process of their own;
four plain DuckDB queries over the same Parquet, each also in a process of its own, are the measure: requests per
minute, exact quantiles of both lengths, a two-dimensional histogram, and times between arrivals by a window.
Then one small trace is profiled from the command line, process start included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = 50_000_000
SMALL_RUNS = 7
SMALL_ROWS = 19_366

REFERENCE = {
    "requests per minute": "SELECT floor(arrival_s / 60) AS m, count(*) FROM trace GROUP BY m",
    "exact quantiles": "SELECT quantile_cont(prompt_tokens, [0.5, 0.9, 0.99]), "
    "quantile_cont(output_tokens, [0.5, 0.9, 0.99]) FROM trace",
    "two-dimensional histogram": "SELECT floor(log2(prompt_tokens)) AS p, floor(log2(output_tokens)) AS o, count(*) "
    "FROM trace GROUP BY p, o",
    "times between arrivals": "SELECT avg(gap), stddev(gap), max(gap) FROM "
    "(SELECT arrival_s - lag(arrival_s) OVER (ORDER BY arrival_s) AS gap FROM trace)",
}

# What each child runs: print its seconds and its peak of memory. The profile's connection is bounded by itself.
SCAN = """
import duckdb, json, resource, sys, time
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
started = time.perf_counter()
connection.execute(sys.argv[2].replace("FROM trace", f"FROM '{sys.argv[1]}'")).fetchall()
took = time.perf_counter() - started
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"s": took, "cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}))
"""
PROFILE = """
import json, resource, sys, time
started = time.perf_counter()
from ullage.report.encode import to_text
from ullage.verbs.profile import profile
found = profile([sys.argv[1]])
text = to_text(found.to_dict())
took = time.perf_counter() - started
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"s": took, "cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024,
                  "kb": len(text) / 1024, "rows": found.own.whole.requests}))
"""


def made(path: Path, rows: int) -> None:
    """A week of requests: log-normal lengths, two hundred tenants of very different size, three models."""
    import duckdb

    step = 604_800 / rows

    def normal(one: int, other: int) -> str:
        uniform = f"((hash(i * {one} + 1) % 1000003) + 1) / 1000004.0"
        return f"sqrt(-2 * ln({uniform})) * cos(2 * pi() * (hash(i * {other} + 3) % 1000003) / 1000003.0)"

    connection = duckdb.connect(config={"memory_limit": "2GB", "temp_directory": str(path.parent / "spill")})
    connection.execute(
        f"""COPY (SELECT i * {step} + (hash(i) % 1000) / 1000.0 * {step} AS arrival_s,
        CAST(exp(6.0 + 1.2 * {normal(7, 11)}) AS INTEGER) + 1 AS prompt_tokens,
        CAST(exp(4.8 + 1.0 * {normal(13, 17)}) AS INTEGER) + 1 AS output_tokens,
        'tenant-' || CAST(power((hash(i * 19) % 1000003) / 1000003.0, 3) * 200 AS INTEGER) AS tenant,
        'model-' || (hash(i * 23) % 3) AS model,
        CASE WHEN hash(i * 29) % 200 = 0 THEN 'failed' ELSE 'ok' END AS status
        FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"""
    )


def child(program: str, *arguments: str) -> dict[str, float]:
    run = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def large(folder: Path, rows: int) -> None:
    path = folder / "made.parquet"
    made(path, rows)
    print(f"{rows:,} requests, {path.stat().st_size / 2**20:,.0f} MB of Parquet\n")
    print("| job | s | CPU s | peak MB |\n|---|---|---|---|")
    scans = {name: child(SCAN, str(path), sql) for name, sql in REFERENCE.items()}
    whole = child(PROFILE, str(path))
    assert whole["rows"] == rows
    for name, took in scans.items():
        print(f"| {name} | {took['s']:.2f} | {took['cpu_s']:.2f} | {took['mb']:,.0f} |")
    sums = {key: sum(took[key] for took in scans.values()) for key in ("s", "cpu_s")}
    print(f"| sum of the four | {sums['s']:.2f} | {sums['cpu_s']:.2f} | |")
    print(f"| profile | {whole['s']:.2f} | {whole['cpu_s']:.2f} | {whole['mb']:,.0f} |")
    print(f"\nprofile over the four scans: {whole['s'] / sums['s']:.2f} (at most 3), in CPU time ", end="")
    print(f"{whole['cpu_s'] / sums['cpu_s']:.2f}; peak {whole['mb']:,.0f} MB (under 2,000); ", end="")
    print(f"saved profile {whole['kb']:,.0f} kB")


def small(folder: Path) -> None:
    """The published Azure file where it lies beside the repository, else as many made rows."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces" / "azure2023_conv.parquet"
    if not path.exists():
        path = folder / "small.parquet"
        made(path, SMALL_ROWS)
    command = [str(Path(sys.executable).parent / "ullage"), "profile", str(path)]
    times_s = []
    for _ in range(SMALL_RUNS):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times_s.append(time.perf_counter() - started)
    middle, least = sorted(times_s)[len(times_s) // 2], min(times_s)
    print(f"\nullage profile {path.name} ({SMALL_ROWS:,} rows), process start included: ", end="")
    print(f"median {middle:.2f} s, least {least:.2f} s of {SMALL_RUNS} (under 1.5)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    with tempfile.TemporaryDirectory() as folder:
        large(Path(folder), parser.parse_args().rows)
        small(Path(folder))


if __name__ == "__main__":
    main()
