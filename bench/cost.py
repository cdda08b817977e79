"""How long a bill takes once the simulation is done, in simulations of one level of its month.

    python bench/cost.py
    python bench/cost.py --measured

One bill is every line, its sums, its unit costs and their figures; asked for is less than a millisecond, so that a
study can make thousands. Attribution divides it over classes by one rule, and over a log of 100,000 requests of 200
tenants by all of them. With --measured it prints, from the published requests beside the repository, what the quarter
with the longest answers would pay by each rule.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from ullage import verbs
from ullage.cost.attribution.attribution import (
    ATTRIBUTION_RULES,
    AttributionChoice,
    attribute,
    rule_spread,
    rule_weights,
)
from ullage.cost.attribution.usage import Labels, UsageLog, grouped
from ullage.cost.bill import monthly_bill
from ullage.cost.change import explain_change
from ullage.cost.pool_run import level_runs
from ullage.cost.quotes import quotes_of
from ullage.errors import Rejection
from ullage.load.plan import load_plan
from ullage.verbs.cost import bill_of

AS_OF = datetime.date(2026, 11, 15)
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "measured" / "llmd_requests.csv.gz"
REPEATS = 200
LEAST_S = 0.001


def best_s(work: Callable[[], object], *, repeats: int = REPEATS) -> float:
    """The shortest of many runs: what it takes when nothing else is going on."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def log_of(requests: int, tenants: int) -> UsageLog:
    rng = np.random.default_rng(1)
    start = np.cumsum(rng.exponential(0.05, requests))
    return UsageLog(
        labels={
            "tenant": Labels(
                names=tuple(f"t{each:03}" for each in range(tenants)), places=rng.zipf(1.3, requests) % tenants
            )
        },
        prompt_tokens=rng.lognormal(6.5, 1.0, requests),
        output_tokens=rng.lognormal(5.0, 1.0, requests),
        cached_tokens=np.zeros(requests),
        successes=rng.random(requests) < 0.99,
        start_s=start,
        end_s=start + rng.lognormal(1.5, 0.7, requests),
    )


def measured() -> None:
    """The published runs under sustained load: the share of the quarter with the longest answers, by rule."""
    connection = duckdb.connect()
    chats = "workload = 'sharegpt' AND generation_tokens > 0"
    connection.execute(f"CREATE TABLE requests AS SELECT * FROM read_csv('{DATA}') WHERE {chats}")
    found: dict[str, list[float]] = {}
    runs = connection.execute("SELECT DISTINCT experiment, offered_qps FROM requests ORDER BY ALL").fetchall()
    for run in runs:
        columns = connection.execute(
            "SELECT * FROM requests WHERE experiment = ? AND offered_qps = ?", list(run)
        ).fetchnumpy()
        output = columns["generation_tokens"].astype(np.float64)
        longest = np.zeros(output.size, np.int64)
        longest[np.argsort(-output, kind="stable")[: output.size // 4]] = 1
        start, end = columns["launch_time"], columns["finish_time"]
        # Shorter runs are over before the load they name has come about.
        if float(end.max() - start.min()) < 6.0 * float((end - start).mean()):
            continue
        groups = grouped(
            UsageLog(
                labels={"class": Labels(names=("others", "longest"), places=longest)},
                prompt_tokens=columns["prompt_tokens"].astype(np.float64),
                output_tokens=output,
                cached_tokens=np.zeros(output.size),
                successes=np.ones(output.size, bool),
                start_s=start,
                first_token_s=start + columns["ttft_s"],
                end_s=end,
            ),
            "class",
            rng=np.random.default_rng(1),
        )
        for rule in ATTRIBUTION_RULES:
            own, others = rule_weights(rule, groups)
            found.setdefault(rule, []).append(own / (own + others))
    print("| rule | lowest | middle | highest |\n|---|---|---|---|")
    for rule, shares in sorted(found.items(), key=lambda each: float(np.median(each[1]))):
        print(f"| {rule} | {100 * min(shares):.0f} % | {100 * np.median(shares):.0f} % | {100 * max(shares):.0f} % |")
    print(f"\n{len(found['requests'])} runs of {len(runs)}.")


def main(file: Path | None = None) -> None:
    found = verbs.plan(file, as_of=AS_OF)
    assert not isinstance(found, Rejection), found
    bill, spec, pool = bill_of(found), load_plan(file, as_of=AS_OF), found.pools[0]
    book = spec.prices
    assert book is not None

    def simulate() -> object:
        return level_runs(pool.demand, pool.steady_fleet.trial, seed=1)

    use, quotes, policy = bill.use, bill.quotes, bill.policy
    groups = use.groups["class"]
    log = log_of(100_000, 200)
    tenants = {"": grouped(log, "tenant", rng=np.random.default_rng(1))}
    choice = AttributionChoice(by="tenant")
    level_s = best_s(simulate, repeats=5) / 4
    rows = {
        "one level of the month, simulated": level_s,
        "prices looked up in the packaged book": best_s(lambda: quotes_of(book, use, policy, spec.buying), repeats=20),
        "one bill": best_s(lambda: monthly_bill(use, quotes, policy)),
        "divided over classes by one rule": best_s(
            lambda: attribute(bill.lines, groups, AttributionChoice(by="class"))
        ),
        "two bills explained by cause": best_s(lambda: explain_change(bill, bill)),
        "100,000 requests summed by 200 tenants": best_s(lambda: grouped(log, "tenant"), repeats=5),
        "divided over 200 tenants by seven rules": best_s(lambda: rule_spread(bill.lines, tenants, choice), repeats=5),
    }
    print("| what | time | in levels simulated |\n|---|---|---|")
    for name, took in rows.items():
        print(f"| {name} | {1000 * took:.3f} ms | {took / level_s:.3f} |")
    verdict = "holds" if rows["one bill"] < LEAST_S else "does not hold"
    print(f"\nOne bill under {1000 * LEAST_S:g} ms: {verdict}.")


if __name__ == "__main__":
    measured() if "--measured" in sys.argv else main()
