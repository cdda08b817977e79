"""From efficiency facts to the coefficients of one replica: the shared ones, times what engine and device change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from ullage.evidence import Assumption, number
from ullage.facts.catalogue import Catalogue, bare_name
from ullage.facts.efficiency import COEFFICIENTS, DRIFTS, FACTORS, efficiencies
from ullage.facts.engine import in_range
from ullage.facts.sheet import Sheet
from ullage.service.steps.roofline import Efficiencies

MOST_FRACTION = 0.92
"""No share of a peak goes above this, whatever factors say: the best kernels published stay below it."""

FACTOR_OF: Mapping[str, str] = {
    "bandwidth": "memory_factor",
    "expert_bandwidth": "memory_factor",
    "kv_bandwidth": "memory_factor",
    "compute": "compute_factor",
    "narrow_compute": "compute_factor",
    "fp4_compute": "compute_factor",
    "attention_compute": "compute_factor",
    "link": "link_factor",
    "step_overhead": "host_factor",
    "kernel_overhead": "host_factor",
    "sequence_overhead": "host_factor",
    "prefill_kernel_overhead": "prefill_factor",
    "request_overhead": "request_factor",
}
"""Which factor of an engine or architecture sheet moves which coefficient; the others are the same everywhere."""

DRIFT_OF: Mapping[str, str] = {"host_factor": "host_drift", "prefill_factor": "prefill_drift"}
"""Which drift moves what a factor moves."""

OTHER_LOAD = "load"
"""What is new to a calibrated model: a load of its own configuration that was not tested."""

ENGINE_NAMES = {"trtllm": "tensorrt-llm", "trt-llm": "tensorrt-llm", "tensorrt": "tensorrt-llm"}


@dataclass(frozen=True, kw_only=True)
class StepErrorBand:
    """Where 8 of 10 measurements lie, as multiples of what was predicted, when `new` was not in the fit's data."""

    new: str
    tpot_low_ratio: float
    tpot_high_ratio: float
    ttft_low_ratio: float
    ttft_high_ratio: float


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """The efficiencies of a replica, the facts they come from, and the band of what they estimate."""

    values: Efficiencies
    band: StepErrorBand
    facts: tuple[Assumption, ...]


def coefficients(
    engine: str, architecture: str, catalogue: Catalogue | None = None, *, vendor: str = "", years: float = 0.0
) -> Coefficients:
    """Look up an engine on a device generation; what has no sheet changes nothing and widens the band.

    A new generation of a vendor whose devices were measured is nearer to them than the first device of another one.
    `years` is how long before the newest tests its version was what was tested (`engine_age_years`).
    """
    known = efficiencies() if catalogue is None else catalogue
    shared = known.sheets["shared"]
    own = _engine_sheet(engine, known)
    generation = known.sheets.get(f"architecture-{generation_of(architecture)}")
    maker = known.sheets.get(f"vendor-{bare_name(vendor)}") if vendor else None
    sheets = [each for each in (own, generation, maker) if each is not None]
    values = {key: _value(key, shared, sheets, years) for key in COEFFICIENTS}
    new = "model" if generation is not None else "generation" if _is_known(vendor, known) else "vendor"
    # Two sheets may have a factor of the same name; a name in a plan means one number.
    used = [
        replace(fact, name=f"efficiency.{each.name}.{key}")
        for each in (shared, *sheets)
        for key, fact in each.values.items()
    ]
    return Coefficients(
        values=Efficiencies(**{field.name: values[_key(field.name)] for field in fields(Efficiencies)}),
        band=band(known.sheets[f"band-{new}"], new),
        facts=tuple(used),
    )


def engine_age_years(engine: str, version: str | None, catalogue: Catalogue | None = None) -> float:
    """How long before the newest tests a version was what was tested; 0 for the newest, for those after them, and for
    an engine of unstated version."""
    sheet = _engine_sheet(engine, efficiencies() if catalogue is None else catalogue)
    rows = () if sheet is None or version is None else sheet.rows.get("ages", ())
    return next((number(row.values["years"]) for row in rows if in_range(version or "", row.texts["versions"])), 0.0)


def _engine_sheet(engine: str, known: Catalogue) -> Sheet | None:
    return known.sheets.get(f"engine-{ENGINE_NAMES.get(engine.lower(), bare_name(engine))}")


def generation_of(architecture: str) -> str:
    """The name of a generation: `Blackwell Ultra` and `Blackwell` are one.

    >>> generation_of("Blackwell Ultra"), generation_of("CDNA 3")
    ('blackwell', 'cdna-3')
    """
    return bare_name(architecture).removesuffix("-ultra")


def _is_known(vendor: str, known: Catalogue) -> bool:
    """Whether a device of this vendor was measured; a vendor that is not stated counts as measured."""
    vendors = {sheet.texts["vendor"].lower() for sheet in known if "vendor" in sheet.texts}
    return not vendor or vendor.lower() in vendors


def band(sheet: Sheet, new: str) -> StepErrorBand:
    names = ("tpot_low", "tpot_high", "ttft_low", "ttft_high")
    return StepErrorBand(new=new, **{f"{name}_ratio": number(sheet.values[name]) for name in names})


def _value(key: str, shared: Sheet, sheets: list[Sheet], years: float) -> float:
    value = number(shared.values[key])
    drift = shared.values.get(DRIFT_OF.get(FACTOR_OF.get(key, ""), ""))
    if drift is not None:
        value *= number(drift) ** years
    for sheet in sheets:
        factor = sheet.values.get(FACTOR_OF.get(key, ""))
        if factor is not None:
            value *= number(factor)
    return min(value, MOST_FRACTION) if COEFFICIENTS[key].unit == "fraction" else value


def _key(name: str) -> str:
    return name.removesuffix("_fraction").removesuffix("_s")


assert set(FACTOR_OF) <= set(COEFFICIENTS)
assert set(FACTOR_OF.values()) <= set(FACTORS)
assert set(DRIFT_OF.values()) == set(DRIFTS)
