"""The spread of each phase: the default of a sourced fact, or what was measured, which wins.

phase     median on one device x growth per doubling ^ log2(devices)
weights   checkpoint bytes / rate of the storage, and never faster than the host link fills a device
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ullage.errors import check_name
from ullage.evidence import Assumption, Evidence, Figure
from ullage.facts.startup import PhaseFact, StartupFacts
from ullage.memory.budget import MemoryBudget
from ullage.memory.estimate import LineName
from ullage.memory.parameters import weight_lines
from ullage.memory.settings import whole
from ullage.startup.phases import ENGINE_PHASES, Phase
from ullage.startup.settings import StartSettings, samples
from ullage.startup.spread import Spread, observed

LOCAL_STORAGE = "local-nvme"  # a warm node has read the weights before, and keeps them on its own disk


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How long one phase takes and why. Phases that name the same `moves_with` are slow or fast together.

    `default` is what would have stood here had nothing been measured. No draw is below `floor_s`. `inputs` are
    behind the median; `spread_inputs` are what its percentiles rest on beside them.
    """

    phase: Phase
    spread: Spread
    moves_with: str
    formula: str
    inputs: tuple[Figure | Assumption, ...]
    spread_inputs: tuple[Figure | Assumption, ...] = ()
    floor_s: float = 0.0
    default: Estimate | None = None

    @property
    def is_measured(self) -> bool:
        return bool(self.spread_inputs)


def estimates(memory: MemoryBudget, settings: StartSettings, facts: StartupFacts) -> dict[Phase, Estimate]:
    """Every phase this engine has: defaults first, then what was measured in their place."""
    found = {
        Phase(name): _from_fact(Phase(name), fact, memory)
        for name, fact in facts.phases.items()
        # Graphs that are switched off are neither captured nor waited for.
        if memory.runtime.settings.graphs or name != Phase.GRAPHS.value
    }
    checkpoint = checkpoint_bytes(memory)
    stated = settings.bandwidth or _rate_of(settings.storage, facts)
    found[Phase.WEIGHTS] = _weights(Phase.WEIGHTS, memory, checkpoint, (stated, settings.storage))
    found[Phase.WEIGHTS_LOCAL] = _weights(Phase.WEIGHTS_LOCAL, memory, checkpoint, (facts.bandwidths[LOCAL_STORAGE],))
    return _with_measured(found, settings, facts)


def checkpoint_bytes(memory: MemoryBudget) -> Figure:
    """All that is read to fill one replica: the whole checkpoint, whatever the parallelism."""
    return Figure(
        name="ready.checkpoint_bytes",
        value=sum(line.stored_bytes for line in weight_lines(memory.model)),
        unit="bytes",
        formula="parameters of every class x stored bits / 8, with all that the checkpoint holds",
        inputs=memory.model.assumptions,
        sources=memory.model.sources,
        own_evidence=Evidence.ESTIMATED,
    )


def _from_fact(phase: Phase, fact: PhaseFact, memory: MemoryBudget) -> Estimate:
    devices = memory.runtime.sharding.devices
    base = Spread(low_s=fact.low_s, median_s=fact.value_s, high_s=fact.high_s)
    if fact.growth is None:
        return Estimate(
            phase=phase, spread=base, moves_with=fact.moves_with, formula="as published", inputs=(fact.time,)
        )
    return Estimate(
        phase=phase,
        spread=base.times(fact.growth_at(devices)),
        moves_with=fact.moves_with,
        formula="time on one device x growth ^ log2(devices)",
        inputs=(fact.time, fact.growth, *_cuts(memory)),
    )


def _weights(phase: Phase, memory: MemoryBudget, checkpoint: Figure, given: tuple[Assumption, ...]) -> Estimate:
    rate = given[0]
    middle, low, high = (float(each) for each in _three(rate))
    size = whole(checkpoint)
    link, resident = memory.device.pcie_bandwidth, memory.line(LineName.WEIGHTS).figure
    linked = () if link is None else (link, resident)
    return Estimate(
        phase=phase,
        spread=Spread(low_s=size / high, median_s=size / middle, high_s=size / low),
        moves_with="weights",
        formula="checkpoint / rate of the storage"
        + (", at least a device's weights / its host link" if linked else ""),
        inputs=(checkpoint, *given, *linked),
        floor_s=0.0 if link is None else whole(resident) / float(link.value),
    )


def _rate_of(storage: Assumption, facts: StartupFacts) -> Assumption:
    name = str(storage.value)
    check_name(name, facts.bandwidths, field=storage.name)
    return facts.bandwidths[name]


def _three(rate: Assumption) -> tuple[float, float, float]:
    """Median, p10 and p90 of a rate; one that is stated without a range is taken as it is."""
    value = float(rate.value)
    return value, value if rate.low is None else rate.low, value if rate.high is None else rate.high


def _cuts(memory: MemoryBudget) -> tuple[Assumption, ...]:
    sharding, settings = memory.runtime.sharding, memory.runtime.settings
    degrees = {"tp": sharding.tp, "pp": sharding.pp}
    return tuple(
        settings.stated(name, degree, "devices") for name, degree in degrees.items() if degree > 1 or name == "tp"
    )


def _with_measured(
    defaults: Mapping[Phase, Estimate], settings: StartSettings, facts: StartupFacts
) -> dict[Phase, Estimate]:
    found = dict(defaults)
    for phase, (seconds, source) in samples(settings.measured, engine=facts.engine).items():
        default = defaults.get(phase)
        several = f", median of {len(seconds)} starts" if len(seconds) > 1 else ""
        measured = Figure(
            name=f"ready.measured.{phase}_s",
            value=round(observed(seconds, repeat_ratio=1.0).median_s, 3),
            unit="s",
            sources=(source,),
            own_evidence=Evidence.MEASURED,
        )
        found[phase] = Estimate(
            phase=phase,
            spread=observed(seconds, repeat_ratio=facts.repeat_spread_ratio),
            moves_with=str(phase) if default is None else default.moves_with,
            formula=f"as measured{several}",
            inputs=(measured,),
            spread_inputs=(facts.repeat_spread,),
            default=default,
        )
    return _with_whole_engine(found) if Phase.ENGINE in found else found


def _with_whole_engine(found: Mapping[Phase, Estimate]) -> dict[Phase, Estimate]:
    """An engine that was timed as one: its phases make way, and what they would have taken is its default."""
    parts = [found[phase] for phase in ENGINE_PHASES if phase in found]
    together = Estimate(
        phase=Phase.ENGINE,
        spread=Spread(
            low_s=sum(each.spread.low_s for each in parts),
            median_s=sum(each.spread.median_s for each in parts),
            high_s=sum(each.spread.high_s for each in parts),
        ),
        moves_with="host",
        formula="sum of boot, local weights, graphs and warm-up",
        inputs=tuple(each for part in parts for each in part.inputs),
    )
    kept = {phase: each for phase, each in found.items() if phase not in ENGINE_PHASES or phase is Phase.WEIGHTS_LOCAL}
    return {**kept, Phase.ENGINE: replace(found[Phase.ENGINE], default=together)}
