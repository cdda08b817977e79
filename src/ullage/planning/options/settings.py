"""What a plan may choose from: devices, parallelism, model variants, engine settings; and how long orders take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.evidence import Assumption
from ullage.facts.model import Model
from ullage.fleet.sites import Sites
from ullage.planning.options.lead_times import LeadTimes
from ullage.service.phase import TRANSFER

# Degrees that divide the heads of nearly every model, up to a machine of eight.
TENSOR_PARALLEL = (1, 2, 4, 8)
# What most providers rent by the machine; taken where neither the plan nor a price list names devices.
USUAL_DEVICES = ("h100-sxm", "h200-sxm", "b200-sxm")
# The vendors whose devices the packaged efficiencies were fitted on; others are tried where the plan names them.
USUAL_VENDORS = ("NVIDIA", "AMD")
DRAFTED_TOKENS = (1, 3)
"""Drafted tokens that are tried where a model has prediction layers: what engines are usually told, few and many."""
HOST_CACHE_BYTES = 200_000_000_000
"""Of a replica's host memory, where keeping prefixes there is tried: machines of eight devices have one to two TB."""
HOST_LINK_BYTES_PER_S = 25e9
"""What a device loads from there: half of a PCIe 5.0 x16 link's 63 GB/s, less what small copies lose."""
MOST_CANDIDATES = 256
"""A longer list is unreadable; the axes are better narrowed by name."""


@dataclass(frozen=True, kw_only=True)
class OptionSettings:
    """The axes along which candidates differ; an empty one is left as each pool has it.

    `models` are variants that may stand in for a pool's model, by the pool's model: that they answer as well is
    stated by the user. `split` are prompt lengths at which a mix of devices may divide the traffic, in tokens. `sites`
    are those of every device, by name. `transfer` is what one replica sends another, where prefill and decode are
    tried apart. `stated` are the axes that were named, as inputs of the result.
    """

    devices: tuple[str, ...] = ()
    tensor_parallel: tuple[int, ...] = ()
    pipeline_parallel: tuple[int, ...] = ()
    expert_parallel: tuple[int, ...] = ()
    models: Mapping[str, tuple[Model, ...]] = field(default_factory=dict)
    kv_dtypes: tuple[str, ...] = ()
    token_budgets: tuple[int, ...] = ()
    max_sequences: tuple[int, ...] = ()
    split: tuple[int, ...] = ()
    sites: Mapping[str, Sites] = field(default_factory=dict)
    transfer: Assumption = TRANSFER
    lead: LeadTimes = field(default_factory=LeadTimes)
    stated: tuple[Assumption, ...] = ()

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (*self.stated, *self.lead.inputs)
