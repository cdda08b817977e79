"""Fits the efficiencies to published measurements and writes them as facts (`python -m bench.fit_efficiencies`).

Bands are the 10th and 90th percentile of measured / estimated over rows that the fit had not seen: one model family
left out for `band-model`, one device generation left out for `band-generation`. Those of steps are of the ratio on all
steps that would have decided right between published sweeps and limits (bench/decisions.py).
"""

from __future__ import annotations

import datetime
import math
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bench.decisions import client_sweeps, limit_pairs
from bench.published.cases import Case, serving_cases
from bench.published.fit import DRIFT, NAMES, PRIORS, Floats, Linearised, Simulated, Solution, linearise, solve
from bench.published.left_out import FAMILY, VENDOR_SPREAD, band_logs, held_out, is_vendor_known

from ullage.facts.efficiency import COEFFICIENTS

FOLDER = Path(__file__).resolve().parents[1] / "src" / "ullage" / "facts" / "efficiencies"
CACHE = Path(tempfile.gettempdir()) / "ullage-linearised.pickle"
DATE = datetime.date(2026, 11, 16)
LEFT_OUT = {"model": FAMILY, "generation": "generation"}
TITLES = {
    "engine-vllm": "vLLM",
    "engine-sglang": "SGLang",
    "engine-tensorrt-llm": "TensorRT-LLM",
    "architecture-blackwell": "NVIDIA Blackwell and Blackwell Ultra",
    "architecture-hopper": "NVIDIA Hopper",
    "architecture-cdna-3": "AMD CDNA 3",
    "vendor-amd": "AMD",
}
# Versions that were measured, and how long before the newest rows: as the rows state them, and before that their days.
AGES: dict[str, tuple[tuple[str, float], ...]] = {
    "engine-vllm": (("0.7 to 0.14", 0.46), ("0.15 to 0.16", 0.15), ("0.17 to 0.18", 0.09)),
    "engine-sglang": (("0.4 to 0.5.5", 0.44), ("0.5.6 to 0.5.8", 0.31), ("0.5.9 to 0.5.9", 0.10)),
    "engine-tensorrt-llm": (("0.8 to 1.0", 0.47), ("1.1 to 1.1", 0.37), ("1.2 to 1.2", 0.25)),
}


def main() -> None:
    started = time.monotonic()
    cases = [each for each in serving_cases() if isinstance(each, Case) and not each.apart]
    simulated = Simulated(cases)
    linear = linearise(simulated)
    CACHE.write_bytes(pickle.dumps((linear.base, linear.derivative)))
    print(f"{len(cases)} rows, derivatives after {time.monotonic() - started:.0f} s", file=sys.stderr)
    everything = np.ones(len(cases), bool)
    solution = solve(linear, everything)
    spread = _spread(linear)
    _write("shared", "What every replica has in common", {**_shared(solution, spread), **_drifts(solution)})
    for name, title in TITLES.items():
        vendor = "" if name.startswith("engine") else title.split()[0]
        _write(name, title, _factors(name, solution), vendor=vendor)
    for new, values in _bands(simulated, linear):
        _write(f"band-{new}", f"Errors of an estimate for a {new} that the fit had not seen", values)
    print(f"written after {time.monotonic() - started:.0f} s", file=sys.stderr)


def _bands(simulated: Simulated, linear: Linearised) -> Iterator[tuple[str, dict[str, str]]]:
    """The band of each thing that may be new, from rows left out whose vendor the fit knew by others.

    Who asks for an estimate has seldom read the scripts behind a test; the bands are of the scheduler's flags of each
    test and of an engine's own.
    """
    cases = simulated.cases
    both = (simulated, Simulated([case.with_default_flags for case in cases]))
    widest = np.zeros((2, 3))
    for new, attribute in LEFT_OUT.items():
        estimates = [held_out(each, linear, attribute) for each in both]
        known = is_vendor_known(cases, attribute)
        errors = np.concatenate([(linear.measured - each)[known] for each in estimates])
        pairs = [
            pair
            for each in estimates
            for pair in limit_pairs(client_sweeps(cases, linear.measured, each, attribute))
            if pair.sweep.is_vendor_known
        ]
        steps = np.array([pair.right_log for pair in pairs])
        families = len({case.family for case in cases}) if attribute == FAMILY else None
        logs = np.column_stack([band_logs(errors, families=families), band_logs(steps, families=families)])
        # Whoever has a generation that is new may have a model that is.
        widest = _wider(widest, logs)
        yield new, _band(widest)
    # `logs` are now those of generations left out; plans have the spread of tokens.
    yield "vendor", _band(_wider(widest, np.append(VENDOR_SPREAD, VENDOR_SPREAD[1]) * logs))


def _spread(linear: Linearised) -> dict[str, tuple[float, float]]:
    """How far each coefficient moves when one family or one generation is left out of the fit."""
    found = []
    for attribute in LEFT_OUT.values():
        members = np.array([str(getattr(case, attribute)) for case in linear.cases])
        found += [solve(linear, members != member).coefficients for member in sorted(set(members))]
    values = np.exp(np.array(found))
    prior = {name: PRIORS[name] for name in NAMES}
    return {
        name: (
            min(values[:, place].min(), prior[name][0] * math.exp(-prior[name][1])),
            max(values[:, place].max(), prior[name][0] * math.exp(prior[name][1])),
        )
        for place, name in enumerate(NAMES)
    }


def _shared(solution: Solution, spread: dict[str, tuple[float, float]]) -> dict[str, str]:
    lines = {}
    for name, value in zip(NAMES, np.exp(solution.coefficients), strict=True):
        low, high = min(spread[name][0], value), max(spread[name][1], value)
        if COEFFICIENTS[name].unit == "s":
            lines[name] = f'{{ value = "{_us(value)}", low = "{_us(low)}", high = "{_us(high)}" }}'
        else:
            lines[name] = f"{{ value = {value:.4g}, low = {low:.4g}, high = {min(high, 1):.4g} }}"
    return lines


def _drifts(solution: Solution) -> dict[str, str]:
    return {
        f"{each.name.removesuffix('_factor')}_drift": f"{math.exp(value):.4g}"
        for each, value in solution.factors.items()
        if each.group == DRIFT
    }


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.2f}us"


def _factors(sheet: str, solution: Solution) -> dict[str, str]:
    kind, _, member = sheet.partition("-")
    group = "generation" if kind == "architecture" else kind
    return {
        each.name: f"{math.exp(value):.4g}"
        for each, value in solution.factors.items()
        if each.group == group and each.member.lower() == member
    }


def _wider(one: Floats, other: Floats) -> Floats:
    """The band that holds both."""
    return np.array([np.minimum(one, other)[0], np.maximum(one, other)[1]])


def _band(logs: Floats) -> dict[str, str]:
    """The ends of log(measured / estimated) of TTFT and TPOT, and of the ratio on all steps that decides right."""
    low, high = np.exp(logs)
    return {
        "tpot_low": f"{low[1]:.3g}",
        "tpot_high": f"{high[1]:.3g}",
        "ttft_low": f"{low[0]:.3g}",
        "ttft_high": f"{high[0]:.3g}",
        "steps_low": f"{low[2]:.3g}",
        "steps_high": f"{high[2]:.3g}",
    }


def _write(name: str, title: str, values: dict[str, str], *, vendor: str = "") -> None:
    lines = [
        f'title = "{title}"',
        *([f'vendor = "{vendor}"'] if vendor else []),
        'source = "fit"',
        "",
        "[sources.fit]",
        'what = "fit to 1,943 closed-loop measurements of InferenceX, as published until 2026-04"',
        'where = "python -m bench.fit_efficiencies, on data of github.com/SemiAnalysisAI/InferenceX"',
        f"date = {DATE.isoformat()}",
        'evidence = "estimated"',
        "",
        "[values]",
        *(f"{key} = {value}" for key, value in values.items()),
        *(f'\n[[ages]]\nversions = "{versions}"\nyears = {years}' for versions, years in AGES.get(name, ())),
        "",
    ]
    (FOLDER / f"{name}.toml").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
