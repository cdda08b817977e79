"""Two replicas of Llama-3.1-8B, calibrated on three low rates and predicted at all others (`make bench-two-replicas`).

llm-d published the requests of a pool of two vLLM replicas, on a device it does not name, under two workloads of forty
rates each: ShareGPT chats and short prompts. The step model is calibrated on the three lowest rates of the chats alone.
Then every run is simulated as it was sent, on two replicas behind a router, and the result is compared with the
measurement. Nothing of a predicted run is used but its requests: when each was sent, how long its prompt and answer
were.

The chats are the same 252 requests at every rate, and parts of their prompts were in the cache. How much of each was
computed is read from its own TTFT at the calibrated rates: the fastest twentieth at the lowest rate computed a block,
and what a request took longer it computed, at the estimate's speed. Predictions take the highest of those rates. One
share for all prompts was tried first; both are printed, because the choice between them saw the predicted rates.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from bench.published.cases import DATA
from bench.published.score import table
from bench.published.sweeps import BLOCK_TOKENS, Sweep, sweeps
from numpy.typing import NDArray

from ullage.service.calibration.calibration import Calibration, calibrate
from ullage.service.calibration.replay import CROWD_FRACTION, EngineLimits
from ullage.service.steps.scaled import ScaledStep
from ullage.service.steps.step_model import StepModel
from ullage.service.steps.tables import step_table
from ullage.simulate import Engine, Fleet, OpenLoop, Requests
from ullage.simulate.simulation import simulate

POOL = "llama8B-all-2replicas"
CALIBRATED_ON, OTHER = "sharegpt", "short_input"
CALIBRATED_RATES = 3
REPLICAS = 2
# Rates that the printed tables show; the summary counts every one.
SHOWN_RPS = (1.0, 2.0, 4.0, 6.0, 8.0, 9.0, 10.0)
STATISTICS = (("TTFT p50", 0, 50), ("TTFT p95", 0, 95), ("TPOT p50", 1, 50), ("TPOT p95", 1, 95))

Floats = NDArray[np.float64]
Tokens = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One rate as it was sent to the whole pool, and the TTFT and TPOT of its requests as they were measured."""

    workload: str
    rate_rps: float
    sent_s: Floats
    prompt_tokens: Tokens
    output_tokens: Tokens
    ttft_s: Floats
    tpot_s: Floats


def main() -> None:
    runs = pool_runs()
    sweep = _sweep(CALIBRATED_ON)
    for rule in (_each_prompt, _one_share):
        hits = rule(runs, sweep)
        low = [
            replace(each.measurement, trial=replace(each.measurement.trial, cached_tokens=own[::REPLICAS]))
            for each, own in zip(sweep.runs, hits.calibrated, strict=False)
        ]
        found = calibrate(sweep.step, sweep.step.floor, low)
        times = ScaledStep(times=sweep.step, factors=found.factors)
        print(f"**Cache hits: {hits.rule}**\n\n{_fitted(found, sweep)}", end="\n\n")
        for workload in (CALIBRATED_ON, OTHER):
            own = [each for each in runs if each.workload == workload]
            unseen = own[CALIBRATED_RATES:] if workload == CALIBRATED_ON else own
            predicted = {each.rate_rps: predict(each, times, low[0].trial.limits, hits.of(each)) for each in unseen}
            with_rates = rule is _each_prompt
            print("\n".join(_report(workload, unseen, predicted, with_rates=with_rates)), end="\n\n")


@dataclass(frozen=True, kw_only=True, eq=False)
class Hits:
    """A rule for what prompts find in the cache: at the calibrated rates, and in a run to be predicted."""

    rule: str
    calibrated: tuple[Tokens, ...]
    of: Callable[[Run], Tokens]


def _each_prompt(runs: Sequence[Run], sweep: Sweep) -> Hits:
    """Each chat's prompt as its own TTFT tells, at the highest calibrated rate; short prompts are computed whole."""
    chats = [each for each in runs if each.workload == CALIBRATED_ON][:CALIBRATED_RATES]
    fastest_s = float(np.percentile(chats[0].ttft_s, 5))
    cached = tuple(cached_tokens(each, sweep.step, fastest_s) for each in chats)
    share = cached[-1].sum() / chats[-1].prompt_tokens.sum()
    return Hits(
        rule=f"each prompt by its own TTFT at the calibrated rates, {share:.0%} of the chats' tokens",
        calibrated=cached,
        of=lambda run: cached[-1] if run.workload == CALIBRATED_ON else np.zeros_like(run.prompt_tokens),
    )


def _one_share(runs: Sequence[Run], sweep: Sweep) -> Hits:
    """One share for all prompts, from how TTFT grows with their length at the lowest rate (see published/sweeps.py)."""
    trial = sweep.runs[0].measurement.trial
    share = 0.0 if trial.cached_tokens is None else float(trial.cached_tokens.sum() / trial.prompt_tokens.sum())

    def of(run: Run) -> Tokens:
        whole = (share * run.prompt_tokens).astype(np.int32) // BLOCK_TOKENS * BLOCK_TOKENS
        return np.minimum(whole, run.prompt_tokens - 1)

    chats = [each for each in runs if each.workload == CALIBRATED_ON][:CALIBRATED_RATES]
    return Hits(rule=f"one share for all prompts, {share:.0%}", calibrated=tuple(of(each) for each in chats), of=of)


def cached_tokens(run: Run, step: StepModel, fastest_s: float) -> Tokens:
    """What each prompt found in the cache: what its TTFT says was not computed, in whole blocks."""
    tokens = np.arange(0.0, float(run.prompt_tokens.max()) + BLOCK_TOKENS, BLOCK_TOKENS)
    took_s = step.prefill_s(np.maximum(tokens, 1.0))
    computed = np.interp(run.ttft_s - fastest_s + took_s[1], took_s, tokens)
    left = run.prompt_tokens - np.clip(computed, BLOCK_TOKENS, run.prompt_tokens)
    whole: Tokens = (left // BLOCK_TOKENS * BLOCK_TOKENS).astype(np.int32)
    return np.minimum(whole, run.prompt_tokens - 1)


def pool_runs() -> list[Run]:
    """Every run of the pool by workload and rising rate."""
    rows: dict[tuple[str, float], list[dict[str, str]]] = defaultdict(list)
    with gzip.open(DATA / "measured" / "llmd_requests.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            # An answer without a token has no TPOT, and nothing to simulate.
            if POOL in row["experiment"] and int(row["generation_tokens"]) > 0:
                rows[row["workload"], float(row["offered_qps"])].append(row)
    return [_run(workload, rate, found) for (workload, rate), found in sorted(rows.items())]


def _run(workload: str, rate_rps: float, rows: Sequence[dict[str, str]]) -> Run:
    ordered = sorted(rows, key=lambda row: float(row["launch_time"]))

    def column(name: str) -> Floats:
        return np.array([float(row[name]) for row in ordered])

    sent, output = column("launch_time"), column("generation_tokens")
    return Run(
        workload=workload,
        rate_rps=rate_rps,
        sent_s=sent - sent[0],
        prompt_tokens=column("prompt_tokens").astype(np.int32),
        output_tokens=output.astype(np.int32),
        ttft_s=column("ttft_s"),
        tpot_s=(column("generation_time_s") / np.maximum(output - 1, 1))[output > 1],
    )


def predict(run: Run, times: ScaledStep, limits: EngineLimits, cached: Tokens) -> tuple[Floats, Floats]:
    """TTFT and TPOT of the run's requests on two replicas, the next request to the one with fewer outstanding."""
    longest = int((run.prompt_tokens + run.output_tokens).max())
    engine = Engine(
        step=step_table(
            times,
            max_sequences=limits.max_sequences,
            budget_tokens=limits.budget_tokens,
            kv_tokens=min(limits.kv_tokens, limits.max_sequences * longest),
        ),
        kv_blocks=limits.kv_tokens // limits.block_tokens,
        block_tokens=limits.block_tokens,
        max_sequences=limits.max_sequences,
        budget_tokens=max(limits.budget_tokens, limits.max_sequences),
        request_overhead_s=times.request_overhead_s,
        crowd_overhead_s=CROWD_FRACTION * times.request_overhead_s,
    )
    load = OpenLoop(
        requests=Requests(prompt_tokens=run.prompt_tokens, output_tokens=run.output_tokens, cached_tokens=cached),
        arrival_s=run.sent_s,
    )
    fleet = Fleet(replicas=REPLICAS, routing="least_outstanding")
    requests = simulate(engine, fleet, load, seed=0, keep_requests=True, attribution=False).requests
    assert requests is not None
    first = requests.first_token_s - requests.arrival_s + requests.outside_s
    tpot = (requests.end_s - requests.first_token_s) / np.maximum(run.output_tokens - 1, 1)
    return first, tpot[run.output_tokens > 1]


def _sweep(workload: str) -> Sweep:
    return next(
        each for each in sweeps() if isinstance(each, Sweep) and POOL in each.name and each.name.endswith(workload)
    )


def _fitted(found: Calibration, sweep: Sweep) -> str:
    rates = ", ".join(f"{each.rate_rps:g}" for each in sweep.runs[:CALIBRATED_RATES])
    factors = ", ".join(f"{each.name} {each.value_ratio:.3f}" for each in found.parameters)
    unknown = ", ".join(found.not_identified) or "none"
    on = f"Calibrated on {CALIBRATED_ON} at {rates} req/s, {REPLICAS} replicas together."
    return f"{on} Factors on the estimate: {factors}. Not told by these rates: {unknown}."


def _report(
    workload: str, runs: Sequence[Run], predicted: dict[float, tuple[Floats, Floats]], *, with_rates: bool
) -> list[str]:
    header = ("req/s", *(f"{name}, predicted / measured ms" for name, _, _ in STATISTICS))
    shown = [
        (f"{run.rate_rps:g}", *(_cell(run, predicted[run.rate_rps], which, at) for _, which, at in STATISTICS))
        for run in runs
        if run.rate_rps in SHOWN_RPS
    ]
    errors = {
        name: np.array([_error(run, predicted[run.rate_rps], which, at) for run in runs])
        for name, which, at in STATISTICS
    }
    said = "; ".join(
        f"{name} median {100 * np.median(np.abs(each)):.1f} %, worst {100 * each[np.argmax(np.abs(each))]:+.0f} %"
        for name, each in errors.items()
    )
    rates = ["", *table(header, shown), ""] if with_rates else []
    return [f"{workload}, {len(runs)} rates that the calibration has not seen: {said}", *rates]


def _of(run: Run, simulated: tuple[Floats, Floats], which: int, at: float) -> tuple[float, float]:
    measured = (run.ttft_s, run.tpot_s)[which]
    return float(np.percentile(simulated[which], at)), float(np.percentile(measured, at))


def _error(run: Run, simulated: tuple[Floats, Floats], which: int, at: float) -> float:
    value, measured = _of(run, simulated, which, at)
    return value / measured - 1.0


def _cell(run: Run, simulated: tuple[Floats, Floats], which: int, at: float) -> str:
    value, measured = _of(run, simulated, which, at)
    return f"{1000 * value:.1f} / {1000 * measured:.1f} ({100 * (value / measured - 1):+.0f} %)"


if __name__ == "__main__":
    main()
