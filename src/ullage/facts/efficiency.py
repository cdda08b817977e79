"""Efficiencies: which share of a device's peak engines reach, what no peak explains, and how far an estimate errs.

    shared.toml              the coefficients every replica has in common
    engine-<name>.toml       factors on groups of them for one engine
    architecture-<name>.toml factors for one device generation
    vendor-<name>.toml       factors for all generations of a vendor, on top of theirs
    band-<what is new>.toml  quantiles of measured / estimated over tests that the fit had not seen: of a new model, a
                             new generation of a known vendor, a vendor of whom nothing was measured

All are fitted by one command (`python -m bench.fit_efficiencies`) on published measurements, with the ranges it found.
An engine or a generation without a sheet gets no factor, and the band of what the fit has not seen.
"""

from __future__ import annotations

import datetime
import functools

from ullage.facts.catalogue import Catalogue, packaged
from ullage.facts.sheet import Field, RowKind, SheetKind

# Kernels get faster within a generation: a year later the shares have moved by about their spread.
_MAX_AGE = datetime.timedelta(days=365)


def _share(meaning: str) -> Field:
    return Field(unit="fraction", meaning=meaning, max_age=_MAX_AGE)


def _time(meaning: str) -> Field:
    return Field(unit="s", meaning=meaning, max_age=_MAX_AGE)


def _ratio(meaning: str) -> Field:
    return Field(unit="ratio", meaning=meaning, max_age=_MAX_AGE)


COEFFICIENTS = {
    "bandwidth": _share("share of peak memory bandwidth when weights are read"),
    "expert_bandwidth": _share("the same for weights of routed experts"),
    "kv_bandwidth": _share("share of peak memory bandwidth when the KV cache is read"),
    "compute": _share("share of the peak 16-bit matrix rate"),
    "narrow_compute": _share("share of the peak fp8 or int8 matrix rate"),
    "fp4_compute": _share("share of the peak fp4 matrix rate"),
    "block_compute": _share("what products with a scale for every small block reach of that share"),
    "expert_compute": _share("what routed experts reach of that share"),
    "attention_compute": _share("share of the peak 16-bit matrix rate in attention"),
    "link": _share("share of the peak link bandwidth in all-reduces"),
    "collective_latency": _time("time of an all-reduce without its bytes"),
    "step_overhead": _time("scheduling and sampling, for each step"),
    "kernel_overhead": _time("start and end of one kernel in a captured graph"),
    "sequence_overhead": _time("host work for each sequence in a step"),
    "prefill_kernel_overhead": _time("start of one kernel outside a graph, in steps with new prompt tokens"),
    "request_overhead": _time("network, tokenizer and first response of one request, outside the engine's steps"),
}
FACTORS = {
    "memory_factor": _ratio("on the bandwidth shares"),
    "compute_factor": _ratio("on the compute shares"),
    "link_factor": _ratio("on the link share"),
    "host_factor": _ratio("on the overheads of step, kernel and sequence"),
    "prefill_factor": _ratio("on the overhead of kernels outside a graph"),
    "request_factor": _ratio("on the overhead of a request"),
}
DRIFTS = {
    "host_drift": _ratio("what the overheads of step, kernel and sequence were a year before the newest tests"),
    "prefill_drift": _ratio("the same of kernels outside a graph"),
}
"""Engines get faster from release to release: older versions carry these factors for the time they lie back."""
BANDS = {
    "tpot_low": _ratio("measured / estimated TPOT, 10th percentile over held-out tests"),
    "tpot_high": _ratio("the same, 90th percentile"),
    "ttft_low": _ratio("measured / estimated TTFT, 10th percentile over held-out tests"),
    "ttft_high": _ratio("the same, 90th percentile"),
    "steps_low": _ratio("ratio on all steps that decides right between limits of TTFT and TPOT, 10th percentile"),
    "steps_high": _ratio("the same, 90th percentile"),
}

EFFICIENCIES = SheetKind(
    noun="efficiency",
    folder="efficiencies",
    howto="docs/explanation/step-models.md",
    texts={"title": True, "vendor": False},
    fields={**COEFFICIENTS, **FACTORS, **DRIFTS, **BANDS},
    rows={
        "ages": RowKind(
            texts={"versions": True},
            fields={"years": _ratio("how long before the newest tests these versions were what was tested")},
        )
    },
    listed={"title": ""},
)


@functools.cache
def efficiencies() -> Catalogue:
    """The efficiencies that come with ullage."""
    return packaged(EFFICIENCIES)
