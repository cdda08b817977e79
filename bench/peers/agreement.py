"""How far AISimulate, AIConfigurator and Ullage are from the same published rows (`python -m bench.peers --agreement`).

A seeded sample, so many rows of each family, device and engine, is asked of everybody as it was run: the same lengths,
clients, parallelism, cache precision and scheduler limits. Ullage estimates each row by coefficients that were fitted
without its family. The peers take the version of their kernel tables that they take by default.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
from bench.peers.answers import AICONFIGURATOR, AISIMULATE, ASKED
from bench.peers.environments import FOLDER, Environment, PeerUnavailableError
from bench.published.cases import Case, serving_cases
from bench.published.fit import USUAL_VENDOR, Floats, Simulated, linearise, simulate_case, solve
from bench.published.score import score, table

import ullage
from ullage.readers.profiles.kernel_tables import BACKENDS, SYSTEMS

# The fit weighs a group of rows as four, so that a fifth of them gives nearly the coefficients of all.
FITTED_EVERY = 5
# A sample that takes longer is answered as far as this goes; its order is random.
PATIENCE_S = 900
OURS = "Ullage"
PEERS = {"AISimulate": AISIMULATE, "AIConfigurator": AICONFIGURATOR}
# The peers know these checkpoints under another name, or by the precision of their products.
NAMES = {
    "nvidia/DeepSeek-R1-NVFP4": ("nvidia/DeepSeek-V3.1-NVFP4", None),
    "nvidia/Llama-3.1-70B-Instruct-FP4": ("nvidia/Llama-3.1-70B-Instruct-FP8", "nvfp4"),
}
FEWEST_ROWS = 6
"""Of fewer rows nobody is said to be ahead."""
Answer = dict[str, Any]
Rows = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """How many rows of every family, device and engine are drawn, and by which seed."""

    rows: int = 3
    seed: int = 29


@dataclass(frozen=True, kw_only=True, eq=False)
class Agreement:
    """Log errors (TTFT, TPOT) of every tool for every row of the sample, NaN where it gave no answer."""

    date: str
    sample: Sample
    cases: Sequence[Case]
    errors: Mapping[str, Floats]
    refused: Mapping[str, Counter[str]]

    @property
    def answered(self) -> Rows:
        """Rows that everybody answered, which are those that are scored."""
        every: Rows = np.all([np.isfinite(errors).all(1) for errors in self.errors.values()], axis=0)
        return every


def agreement(sample: Sample) -> Agreement:
    cases = [case for case in serving_cases() if isinstance(case, Case) and not case.apart]
    chosen = sampled(cases, sample)
    measured = np.log([(case.ttft_s, case.tpot_s) for case in chosen])
    errors, refused = {}, {}
    for tool, environment in PEERS.items():
        answers = answers_of(environment, [peer_row(case) for case in chosen])
        found = [latencies(answer, case) for answer, case in zip(answers, chosen, strict=True)]
        errors[tool] = np.log(found) - measured
        refused[tool] = Counter(short(answer["reason"]) for answer in answers if "reason" in answer)
    return Agreement(
        date=datetime.now(UTC).date().isoformat(),
        sample=sample,
        cases=chosen,
        errors={OURS: estimated(cases, chosen) - measured, **errors},
        refused=refused,
    )


def sampled(cases: Sequence[Case], sample: Sample) -> list[Case]:
    """So many rows of every family, device and engine of the vendor that the peers know, in random order."""
    strata: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for case in cases:
        if case.vendor == USUAL_VENDOR:
            strata[case.family, case.device, case.engine].append(case)
    rng = np.random.default_rng(sample.seed)
    chosen = [
        rows[place]
        for _, rows in sorted(strata.items())
        for place in rng.choice(len(rows), min(sample.rows, len(rows)), replace=False)
    ]
    return [chosen[place] for place in rng.permutation(len(chosen))]


def peer_row(case: Case) -> dict[str, Any]:
    """The row as asked/serving_rows.py takes it. `interval_steps` is SGLang's, the only one that a peer knows."""
    name = str(case.replica.model)
    model, gemm = NAMES.get(name, (name, None))
    limits = case.trial.limits
    return {
        "model": model,
        "system": SYSTEMS[case.device],
        "backend": BACKENDS[case.engine],
        "tp": case.replica.tp,
        "ep": case.replica.ep,
        "kvcache": "fp8" if case.replica.kv_dtype == "fp8" else None,
        "gemm": gemm,
        "clients": case.concurrency,
        "prompt_tokens": case.trial.prompt_tokens.tolist(),
        "output_tokens": case.trial.output_tokens.tolist(),
        "budget_tokens": limits.budget_tokens,
        "max_sequences": limits.max_sequences,
        "interval_steps": limits.poll_steps if case.engine == "sglang" and limits.poll_steps > 1 else 0,
    }


def answers_of(environment: Environment, rows: Sequence[dict[str, Any]]) -> list[Answer]:
    """What a peer answers, or its reason. Answers are kept, so that a run that was stopped goes on where it was."""
    environment.make()
    kept = FOLDER / "agreement" / f"{environment.name}-{environment.version}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    known = dict(json.loads(line) for line in kept.read_text().splitlines()) if kept.exists() else {}
    lines = {key_of(row): json.dumps(row) for row in rows}
    with kept.open("a") as file:
        for key, answer in asked(environment, {key: line for key, line in lines.items() if key not in known}):
            known[key] = answer
            file.write(json.dumps([key, answer]) + "\n")
            file.flush()
    return in_order(rows, known)


def in_order(rows: Sequence[dict[str, Any]], known: Mapping[str, Answer]) -> list[Answer]:
    """One answer a row; rows that repeat a measurement are asked once and share it."""
    late = {"reason": f"was not reached within {PATIENCE_S} s"}
    return [known.get(key_of(row), late) for row in rows]


def key_of(row: dict[str, Any]) -> str:
    """Of the row and of the script that asks it."""
    script = (ASKED / "serving_rows.py").read_text()
    return sha256((script + json.dumps(row)).encode()).hexdigest()


def asked(environment: Environment, lines: Mapping[str, str]) -> Iterator[tuple[str, Answer]]:
    command = [environment.program("python"), str(ASKED / "serving_rows.py"), environment.name]
    started = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for key, line in lines.items():
            if time.monotonic() - started > PATIENCE_S:
                break
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise PeerUnavailableError(f"{environment.name} ended without an answer")
            yield key, json.loads(answer)


def short(reason: str) -> str:
    """The sentence of the innermost error, without the table's key and the folder.

    >>> short("RuntimeError: worker 0: PerfDataNotAvailableError: MoE data missing { topk: 4 } at /home/me/trtllm/1.3")
    'MoE data missing'
    >>> short("ValueError: Invalid configuration: 1536 % 128 != 0. Try another backend.")
    'Invalid configuration: 1536 % 128 != 0'
    """
    innermost = re.sub(r" \{.*?\}| (at|in) /\S+", "", reason.rpartition("Error: ")[2])
    return innermost.partition(". ")[0][:240].replace("|", "/")


def latencies(answer: Answer, case: Case) -> tuple[float, float]:
    """TTFT and TPOT in the statistic that the row names; NaN where there is no answer."""
    name = case.statistic
    return float(answer.get(f"ttft_{name}_s", np.nan)), float(answer.get(f"tpot_{name}_s", np.nan))


def estimated(cases: Sequence[Case], chosen: Sequence[Case]) -> Floats:
    """Log latencies as Ullage estimates them by what was measured of other families."""
    fitted = cases[::FITTED_EVERY]
    linear = linearise(Simulated(fitted))
    families = np.array([case.family for case in fitted])
    solutions = {family: solve(linear, families != family) for family in sorted(set(families))}
    found: Floats = np.log([simulate_case(case, solutions[case.family].efficiencies(case)) for case in chosen])
    return found


def agreement_markdown(found: Agreement) -> str:
    answered = found.answered
    asked_count, count = len(found.cases), int(answered.sum())
    versions = ", ".join(f"{tool} {each.version}" for tool, each in PEERS.items())
    intro = (
        f"Asked on {found.date}: {asked_count} rows of InferenceX, {found.sample.rows} of each family, device and "
        f"engine, drawn with seed {found.sample.seed}. {OURS} {ullage.__version__}, {versions}. Scored are the {count} "
        "rows that all of them answered: MAPE / median (bias) of the error in %."
    )
    blocks = [
        intro,
        "\n".join(table(header(found), score_rows(found))),
        ahead(found),
    ]
    reasons = [
        (tool, rows, reason)
        for tool, each in found.refused.items()
        for reason, rows in sorted(each.items(), key=lambda item: (-item[1], item[0]))
    ]
    if reasons:
        blocks.append("\n".join(table(("no answer of", "rows", "reason"), reasons)))
    return "\n\n".join(each for each in blocks if each) + "\n"


def header(found: Agreement) -> tuple[str, ...]:
    return ("rows", "n", *(f"{latency} {tool}" for latency in ("TPOT", "TTFT") for tool in found.errors))


def score_rows(found: Agreement) -> list[tuple[object, ...]]:
    return [(name, int(own.sum()), *cells(found, own)) for name, own in groups(found)]


def groups(found: Agreement) -> list[tuple[str, Rows]]:
    """All rows that were answered, then those of each family, device and engine."""
    answered = found.answered
    named = [("**all**", answered)]
    for attribute in ("family", "device", "engine"):
        members = np.array([getattr(case, attribute) for case in found.cases])
        named += [(f"- {each}", answered & (members == each)) for each in sorted(set(members[answered]))]
    return named


def cells(found: Agreement, own: Rows) -> list[str]:
    return [str(score(errors[own, latency])) for latency in (1, 0) for errors in found.errors.values()]


def ahead(found: Agreement) -> str:
    """Where a peer's median error is smaller than ours, and in how many rows it is the nearer one."""
    said = []
    for tool in PEERS:
        better = [
            f"{latency} of {name.strip('-* ')} ({100 * theirs:.1f} against {100 * ours:.1f} %)"
            for latency, column in (("TPOT", 1), ("TTFT", 0))
            for name, own in groups(found)
            if own.sum() >= FEWEST_ROWS
            and (theirs := score(found.errors[tool][own, column]).median)
            < (ours := score(found.errors[OURS][own, column]).median)
        ]
        answered = found.answered
        nearer = np.abs(found.errors[tool][answered]) < np.abs(found.errors[OURS][answered])
        said.append(
            f"{tool} is nearer than {OURS} in {int(nearer[:, 1].sum())} of {int(answered.sum())} rows by TPOT and in "
            f"{int(nearer[:, 0].sum())} by TTFT. Its median error is smaller in: {', '.join(better) or 'none'}."
        )
    return "\n\n".join(said)
