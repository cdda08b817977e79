"""A made portfolio of hundreds of pools in one command: how long it takes, and what it turns on.

    python bench/portfolio.py [--pools 200] [--kinds 200] [--decide 2] [--quota 0.95] [--ray 2,4,8]

Services differ in model, device, rate and limits; of `--kinds` different ones the rest are copies under other names.
Two hundred of them ask for about 50 million requests a day and 10,000 replicas. Three regions share a part of the
devices that all would need, so that something is given up, and each region is lost once. Must: ten minutes on two
cores, which is 1200 CPU seconds at most. `--ray` asks the same of Ray with so many workers, its start included; more of
them than the machine has cores show what they cost, not what they gain.
"""

from __future__ import annotations

import argparse
import datetime
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from ullage import verbs
from ullage.verbs.portfolio import PortfolioAnswer

AS_OF = datetime.date(2026, 11, 16)
_MUST_CPU_S = 1200.0
# Model, device, tensor parallelism, mean rate, lengths, limits; most are large and slow, as agents are.
_SLOW = "{ttft_p95: 6s, tpot_p95: 80ms}"
_KINDS = (
    ("qwen2.5-32b", "l40s", 4, 3.3, "{p50: 8000, p95: 20000}", "{p50: 2000, p95: 6000}", _SLOW),
    ("qwen2.5-32b", "l40s", 4, 3.4, "{p50: 7000, p95: 18000}", "{p50: 2100, p95: 6000}", _SLOW),
    ("llama-3.1-8b", "h100-sxm", 1, 3.0, "{p50: 900, p95: 4000}", "{p50: 220, p95: 700}", "{ttft_p95: 1500ms}"),
    ("qwen2.5-32b", "l40s", 4, 3.2, "{p50: 9000, p95: 21000}", "{p50: 1900, p95: 6000}", _SLOW),
)
_REGIONS = (("east", 0.45), ("west", 0.35), ("north", 0.2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=int, default=200)
    parser.add_argument("--kinds", type=int, default=200)
    parser.add_argument("--decide", type=int, default=0)
    parser.add_argument("--quota", type=float, default=0.95)
    parser.add_argument("--ray", default="", help="numbers of Ray workers, such as 2,4,8")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        files = [_service(folder, at, at % asked.kinds) for at in range(asked.pools)]
        # What all need, from the same first looks: the quotas are a part of it.
        started, begun = time.process_time(), time.perf_counter()
        whole = verbs.portfolio(files, as_of=AS_OF, decide=0)
        assert isinstance(whole, PortfolioAnswer)
        _say("without limits", whole, time.process_time() - started, time.perf_counter() - begun)
        quotas = _quotas(folder, whole, asked.quota)
        started, begun = time.process_time(), time.perf_counter()
        found = verbs.portfolio(files, quotas=quotas, as_of=AS_OF, decide=asked.decide)
        assert isinstance(found, PortfolioAnswer)
        cpu_s = time.process_time() - started
        _say(f"{asked.quota:.0%} of the devices", found, cpu_s, time.perf_counter() - begun)
        for workers in (int(each) for each in asked.ray.split(",") if each):
            begun = time.perf_counter()
            same = verbs.portfolio(
                files, quotas=quotas, as_of=AS_OF, decide=asked.decide, run_on="ray", workers=workers
            )
            assert isinstance(same, PortfolioAnswer)
            equal = "the same answer" if same.to_dict() == found.to_dict() else "ANOTHER ANSWER"
            print(f"{workers} Ray workers, {os.cpu_count()} cores: {time.perf_counter() - begun:.0f} s, {equal}")
    verdict = "met" if cpu_s <= _MUST_CPU_S else "missed"
    print(f"target: ten minutes on two cores, {_MUST_CPU_S:.0f} CPU s: {verdict}")


def _service(folder: Path, at: int, kind: int) -> Path:
    model, device, parallel, rate, prompt, output, slo = _KINDS[kind % len(_KINDS)]
    times = float(np.exp(0.2 * np.random.default_rng(kind).standard_normal()))
    file = folder / f"s{at:03}.yaml"
    file.write_text(
        f"version: 1\nservice: s{at:03}\nworkload:\n  classes:\n"
        f"    - {{name: agent, rate: {rate * times:.3f} req/s, longest_context: 32768, prompt: {prompt}, "
        f"output: {output}, slo: {slo}}}\n"
        f"pool: {{model: {model}, device: {device}, tensor_parallel: {parallel}}}\n"
    )
    return file


def _quotas(folder: Path, whole: PortfolioAnswer, share: float) -> Path:
    devices: dict[str, int] = {}
    for each in whole.portfolio.regions:
        devices[each.device] = devices.get(each.device, 0) + each.devices
    regions = [{name: int(share * part * count) for name, count in devices.items()} for _, part in _REGIONS]
    lines = ["version: 1", "portfolio: made", "regions:"]
    for (name, _), quotas in zip(_REGIONS, regions, strict=True):
        said = ", ".join(f"{device}: {count}" for device, count in quotas.items())
        lines.append(f"  - {{name: {name}, quotas: {{{said}}}}}")
    lines.append("services:")
    for at, pool in enumerate(whole.portfolio.pools):
        lines.append(f"  - {{name: {pool.need.service}, shortfall: {0.001 * (1 + at % 7):.3f} USD}}")
    file = folder / "quotas.yaml"
    file.write_text("\n".join(lines) + "\n")
    return file


def _say(what: str, found: PortfolioAnswer, cpu_s: float, wall_s: float) -> None:
    made = found.portfolio
    given_up = sum(each.given_up_replicas for each in made.pools)
    lost = ", ".join(f"{each.region}: {sum(one.replicas for one in each.moves)} move" for each in made.losses)
    print(
        f"{what}: {len(made.pools)} pools, {made.replicas + given_up:,} replicas asked, {given_up:,} given up, "
        f"{made.requests_per_day / 1e6:.1f} M requests a day; {found.evaluated_services} first looks, "
        f"{made.decided_pools} decided, {len(made.undecided)} open; {cpu_s:.0f} CPU s, {wall_s:.0f} s. {lost}",
        flush=True,
    )


if __name__ == "__main__":
    main()
