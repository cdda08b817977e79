"""Step times with speculation: a wide verification step, and what drafting costs beside it.

    decode(n, kv) = plain(n, kv) x wide(n, kv) / narrow(n, kv) + draft(n, kv)

    narrow   the roofline's step of n sequences at one position each
    wide     the same at k + 1 positions: all matrices and messages see n (k + 1) tokens, and more experts are touched;
             keys and values are read once, and compared with k + 1 queries each
    draft    k passes of the draft at one position each; nothing for n-gram look-up

The ratio is the roofline's, and the plain step may be measured, so that a calibration without speculation still
counts. Prompts pass the draft too, so that its own cache is filled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ullage.evidence import Evidence
from ullage.facts.device import Device
from ullage.facts.model import Model
from ullage.memory.settings import Runtime
from ullage.memory.speculation import Speculation
from ullage.service.steps.roofline import Roofline
from ullage.service.steps.step_model import StepModel, roofline_model
from ullage.service.steps.tables import StepTimes
from ullage.service.steps.work import Floats


def speculating(step: StepModel, model: Model, device: Device, runtime: Runtime) -> StepModel:
    """The step model of an engine that speculates as its settings say; the same model where it does not."""
    given = runtime.settings.speculation
    if given is None:
        return step
    sharding, engine = runtime.sharding, runtime.engine
    own = roofline_model(model, device, sharding=sharding, engine=engine, cache=runtime.cache).times
    assert isinstance(own, Roofline)
    times = SpeculativeStep(
        times=step,
        roofline=own,
        draft_tokens=given.draft_tokens,
        draft=_draft_steps(given, model, own, device, runtime),
    )
    return replace(
        step,
        kind=f"{step.kind} with speculation",
        times=times,
        evidence=max(step.evidence, Evidence.ESTIMATED, key=lambda each: each.rank),
        facts=(*step.facts, given.tokens_per_step),
        notes=(*step.notes, *_notes(given)),
    )


@dataclass(frozen=True, kw_only=True)
class SpeculativeStep:
    """Steps that verify every decoding sequence at `draft_tokens` + 1 positions. `draft` is None for n-gram."""

    times: StepTimes
    roofline: Roofline
    draft_tokens: int
    draft: StepTimes | None

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        plain = self.times.decode_s(sequences, kv_tokens)
        narrow = self.roofline.decode_s(sequences, kv_tokens)
        wide = self.roofline.wide_s(sequences, kv_tokens, positions=self.draft_tokens + 1)
        verified: Floats = plain * wide / narrow
        if self.draft is None:
            return verified
        return verified + self.draft_tokens * self.draft.decode_s(sequences, kv_tokens)

    def prefill_s(self, tokens: Floats) -> Floats:
        own = self.times.prefill_s(tokens)
        return own if self.draft is None else own + self.draft.prefill_s(tokens)

    @property
    def pair_s(self) -> float:
        return self.times.pair_s + (0.0 if self.draft is None else self.draft.pair_s)

    @property
    def request_overhead_s(self) -> float:
        found: float = getattr(self.times, "request_overhead_s", 0.0)
        return found


@dataclass(frozen=True, kw_only=True)
class PredictionLayers:
    """One pass of a model's multi-token prediction layers: so many of its layers, and its head."""

    roofline: Roofline
    layers_fraction: float

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return self.roofline.draft_s(sequences, kv_tokens, layers_fraction=self.layers_fraction)

    def prefill_s(self, tokens: Floats) -> Floats:
        return self.layers_fraction * self.roofline.prefill_s(tokens)

    @property
    def pair_s(self) -> float:
        return self.layers_fraction * self.roofline.pair_s


def _draft_steps(given: Speculation, model: Model, own: Roofline, device: Device, runtime: Runtime) -> StepTimes | None:
    if given.method == "ngram":
        return None
    if given.draft is None:
        assert model.mtp is not None, "checked where the settings are resolved"
        # Engines run the first of several prediction layers again for each further token, or the next one: one a pass.
        each = model.mtp.layers / max(model.mtp.projections, 1)
        return PredictionLayers(roofline=own, layers_fraction=each / model.layer_count)
    sharding = replace(runtime.sharding, pp=1, ep=1)
    step = roofline_model(given.draft, device, sharding=sharding, engine=runtime.engine, cache=runtime.cache)
    assert isinstance(step.times, Roofline)
    # The draft runs inside the engine's own step, whose overhead is counted once.
    return replace(
        step.times, efficiencies=replace(step.times.efficiencies, step_overhead_s=0.0, sequence_overhead_s=0.0)
    )


def _notes(given: Speculation) -> tuple[str, ...]:
    said = (
        f"Speculation ({given.method}, {given.draft_tokens} drafted) brings {given.rate_tokens:.2f} tokens a step in "
        "expectation: chance by request is not simulated, so latency tails are a little too short."
    )
    if given.is_stated:
        return (said,)
    return (said, "Acceptance is what was published for heads on code: measure your own before you rely on it.")
