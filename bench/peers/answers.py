"""What each planner answers, asked the way that its users ask it."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.environments import ROOT, Environment, PeerUnavailableError, run
from bench.peers.question import Question

import ullage

ASKED = Path(__file__).parent / "asked"
# Pools that are simulated for the least one that meets the SLOs, where a tool is asked pool by pool.
FEWEST_REPLICAS, MOST_REPLICAS = 2, 12


@dataclass(frozen=True, kw_only=True)
class PeerAnswer:
    """`answer` in the planner's own unit; `replicas` is None where it has no notion of one."""

    tool: str
    version: str
    answer: str
    replicas: int | None
    cpu_s: float
    remark: str


@dataclass(frozen=True, kw_only=True)
class PeerSimulation:
    """One pool simulated under the question's load: a job that two tools have in common."""

    tool: str
    version: str
    replicas: int
    requests: int
    cpu_s: float
    ttft_p50_s: float
    ttft_p95_s: float
    tpot_p50_s: float
    tpot_p95_s: float

    def meets(self, question: Question) -> bool:
        return self.ttft_p95_s <= question.ttft_p95_s and self.tpot_p95_s <= question.tpot_p95_s


def least_pool(simulate: Callable[[int], PeerSimulation], question: Question) -> tuple[PeerSimulation, float, int]:
    """The smallest pool that meets the SLOs, CPU seconds of all that were tried, and how many those were."""
    low, high = FEWEST_REPLICAS, MOST_REPLICAS
    tried: dict[int, PeerSimulation] = {}
    while low < high:
        middle = (low + high) // 2
        tried[middle] = simulate(middle)
        low, high = (low, middle) if tried[middle].meets(question) else (middle + 1, high)
    if low not in tried:
        tried[low] = simulate(low)
    if not tried[low].meets(question):
        raise PeerUnavailableError(f"no pool of up to {MOST_REPLICAS} replicas meets the SLOs")
    return tried[low], sum(each.cpu_s for each in tried.values()), len(tried)


def ullage_size(question: Question) -> PeerAnswer:
    """Asked twice, counted once: the first call may compile the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "question.yaml"
        file.write_text(question.plan_file())
        command = [sys.executable, "-m", "ullage", "size", str(file), "--rate", str(question.rate_rps), "--quiet"]
        run(command, cwd=ROOT)
        out = run(command, cwd=ROOT)
    replicas, nominal = sized(out.stdout)
    return PeerAnswer(
        tool="Ullage, `size`",
        version=ullage.__version__,
        answer=f"{replicas} replicas, {replicas * question.devices_per_replica} H100",
        replicas=replicas,
        cpu_s=out.cpu_s,
        remark=f"bursts of the built-in traffic profile, and conservative step times because nothing was measured; "
        f"{nominal} replicas at nominal ones",
    )


def sized(text: str) -> tuple[int, int]:
    """Replicas at conservative and at nominal step times, from what `ullage size` prints.

    >>> sized("15 replicas of qwen3-32b on 2 x h100-sxm ... At\\nnominal step times 8 replicas would do.")
    (15, 8)
    """
    first = re.match(r"(\d+) replicas? of", text)
    nominal = re.search(r"nominal\s+step\s+times\s+(\d+)\s+replicas?", text)
    if first is None:
        raise PeerUnavailableError(f"not understood: {text[:100]}")
    return int(first[1]), int((nominal or first)[1])


def ullage_simulation(question: Question, replicas: int) -> PeerSimulation:
    command = [
        sys.executable, "-m", "ullage", "simulate", "--model", "qwen3-32b", "--device", "h100-sxm",
        "--tp", str(question.devices_per_replica), "--context", "4096", "--rate", str(question.rate_rps),
        "--prompt-tokens", str(question.prompt_tokens), "--output-tokens", str(question.output_tokens),
        "--span", f"{question.span_s}s", "--replicas", str(replicas), "--quiet", "--json",
    ]  # fmt: skip
    out = run(command, cwd=ROOT)
    served = json.loads(out.stdout)["served"]
    latencies = served["classes"][0]["latencies"]
    ttft, tpot = latencies["ttft"]["quantiles_s"], latencies["tpot"]["quantiles_s"]
    return PeerSimulation(
        tool="Ullage, `simulate`",
        version=ullage.__version__,
        replicas=replicas,
        requests=served["requests"],
        cpu_s=out.cpu_s,
        ttft_p50_s=ttft["0.5"],
        ttft_p95_s=ttft["0.95"],
        tpot_p50_s=tpot["0.5"],
        tpot_p95_s=tpot["0.95"],
    )


AISIMULATE = Environment(name="aisimulate", version="0.13.0.dev202610270000000085", pythons=("3.11", "3.12", "3.13"))
AICONFIGURATOR = Environment(name="aiconfigurator", version="0.12.0", pythons=("3.12", "3.11", "3.13"))
VLLM_SR_SIM = Environment(name="vllm-sr-sim", version="0.1.0.dev20260713123629", pythons=("3.11", "3.12", "3.13"))
SERVICE_CAPACITY = Environment(name="service-capacity-modeling", version="0.3.212", pythons=("3.12", "3.11"))
SLOSIZER = Environment(name="slosizer", version="0.3.1", pythons=("3.13",))


def aisimulate_simulation(question: Question, replicas: int) -> PeerSimulation:
    AISIMULATE.make()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prediction.yaml"
        file.write_text(question.aisimulate_file(replicas))
        command = [AISIMULATE.program("aisimulate"), "predict", "--config", str(file), "--format", "json"]
        out = run([*command, "--output-dir", f"{folder}/out"], cwd=Path(folder))
    found: dict[str, Any] = json.loads(next(each for each in out.stdout.splitlines() if each.startswith("{")))
    return PeerSimulation(
        tool="AISimulate, `predict`",
        version=AISIMULATE.version,
        replicas=replicas,
        requests=found["completed_requests"],
        cpu_s=out.cpu_s,
        ttft_p50_s=found["median_ttft_ms"] / 1e3,
        ttft_p95_s=found["p95_ttft_ms"] / 1e3,
        tpot_p50_s=found["median_tpot_ms"] / 1e3,
        tpot_p95_s=found["p95_tpot_ms"] / 1e3,
    )


def least_answer(pool: tuple[PeerSimulation, float, int], question: Question, remark: str) -> PeerAnswer:
    found, cpu_s, tried = pool
    return PeerAnswer(
        tool=found.tool,
        version=found.version,
        answer=f"{found.replicas} replicas, {found.replicas * question.devices_per_replica} H100",
        replicas=found.replicas,
        cpu_s=cpu_s,
        remark=f"{remark}; {tried} pools tried by this bench",
    )


def aiconfigurator(question: Question) -> PeerAnswer:
    AICONFIGURATOR.make()
    command = [
        AICONFIGURATOR.program("aiconfigurator"), "cli", "default", "--model-path", "Qwen/Qwen3-32B",
        "--system", "h100_sxm", "--backend", "vllm", "--target-request-rate", str(question.rate_rps),
        "--isl", str(question.prompt_tokens), "--osl", str(question.output_tokens),
        "--ttft", f"{1e3 * question.ttft_p95_s:g}", "--tpot", f"{1e3 * question.tpot_p95_s:g}", "--no-color",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        out = run(command, cwd=Path(folder))
    replicas = aggregated_replicas(out.stdout, question.devices_per_replica)
    return PeerAnswer(
        tool="AIConfigurator, `cli default`",
        version=AICONFIGURATOR.version,
        answer=f"{replicas} replicas, {replicas * question.devices_per_replica} H100",
        replicas=replicas,
        cpu_s=out.cpu_s,
        remark="means, no arrivals and no queueing, so no percentile and no room above the rate; also searched every "
        "other parallelism and disaggregation",
    )


def aggregated_replicas(text: str, devices: int) -> int:
    """From the table of its aggregated configurations, the row with the question's parallelism.

    >>> row = "|  1   |   vllm  | 1126.36 | 20.76 | 56.60 | 309.26 | 9893.86 | 560 (=112x5) | 10 (10=5x2) | 5 | 2 |"
    >>> aggregated_replicas("agg Top Configurations: (Ranked by)\\n" + row + " 2 (=2x1)  |  tp2pp1  | 112 |", 2)
    5
    """
    # Its other table is headed "disagg Top Configurations", and may stand before or after.
    found = re.search(r"^agg Top Configurations.*\n((?:[|+].*\n?)+)", text, re.MULTILINE)
    lines = found[1].splitlines() if found else []
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if line.startswith("|")]
    for row in rows:
        if f"tp{devices}pp1" in row:
            used = next(found for cell in row if (found := re.fullmatch(r"\d+ \(\d+=(\d+)x\d+\)", cell)))
            return int(used[1])
    raise PeerUnavailableError(f"its best configurations have none of {devices} devices a replica")


def vllm_sr_sim(question: Question) -> PeerAnswer:
    VLLM_SR_SIM.make()
    tokens = question.prompt_tokens + question.output_tokens
    arguments = [question.rate_rps, tokens, question.devices_per_replica, question.ttft_p95_s]
    out = run([VLLM_SR_SIM.program("python"), str(ASKED / "vllm_sr_sim.py"), *map(str, arguments)])
    found = json.loads(out.stdout.splitlines()[-1])
    return PeerAnswer(
        tool="vllm-sr-sim, `FleetOptimizer`",
        version=VLLM_SR_SIM.version,
        answer=f"{found['replicas']} instances, {found['replicas'] * question.devices_per_replica} H100",
        replicas=found["replicas"],
        cpu_s=out.cpu_s,
        remark=f"TTFT p99 alone ({1e3 * found['ttft_p99_s']:.0f} ms predicted), no TPOT; takes 80 % of {tokens:,} "
        "tokens for the prompt",
    )


def slosizer(question: Question) -> PeerAnswer:
    SLOSIZER.make()
    arguments = [
        question.rate_rps, question.requests, question.prompt_tokens, question.output_tokens, question.ttft_p95_s,
    ]  # fmt: skip
    out = run([SLOSIZER.program("python"), str(ASKED / "slosizer.py"), *map(str, arguments)])
    found = json.loads(out.stdout.splitlines()[-1])
    return PeerAnswer(
        tool="slosizer, `plan_capacity`",
        version=SLOSIZER.version,
        answer=f"{found['units']} {found['unit']} of {found['model']}",
        replicas=None,
        cpu_s=out.cpu_s,
        remark="another question: units of a provider's reserved throughput for the same requests, "
        "waiting p95 within 1 s",
    )


def service_capacity_modeling(question: Question) -> PeerAnswer:
    SERVICE_CAPACITY.make()
    script = ASKED / "service_capacity_modeling.py"
    out = run([SERVICE_CAPACITY.program("python"), str(script), str(question.rate_rps)])
    found = json.loads(out.stdout.splitlines()[-1])
    return PeerAnswer(
        tool="service-capacity-modeling, `plan_certain`",
        version=SERVICE_CAPACITY.version,
        answer=f"{found['machines']} {found['machine']}",
        replicas=None,
        cpu_s=out.cpu_s,
        remark="another question: CPU machines of a stateless Java service at the same rate; it has no model of a GPU",
    )
