"""`calibrate` with a model and a device: fit the step model of that replica to the load tests."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.execute.run import today
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.memory.case import Case
    from ullage.memory.settings import Runtime
    from ullage.service.calibration.agreement import Agreement
    from ullage.service.calibration.calibration import Calibration, Measurement
    from ullage.service.calibration.document import CalibrationProvenance
    from ullage.service.calibration.next_test import NextTest
    from ullage.service.calibration.repeats import NotRepeatable
    from ullage.service.calibration.replay import EngineLimits
    from ullage.service.steps.floor import Floor
    from ullage.service.steps.physics import Breach
    from ullage.service.steps.step_model import MeasuredRange

# Which command line the next test is written for, by the reader that understood the user's file.
_TOOL_OF_READER = {"vllm": "vllm", "sglang": "sglang", "guidellm": "guidellm", "aiperf": "aiperf"}


@dataclass(frozen=True, kw_only=True, repr=False)
class Fitted(VerbAnswer):
    """A calibration with its provenance, the points that could not be used, and the ones that break physics.

    `agreement` is what each test says alone, and how much it counted; `tested` is the range that they covered.
    """

    calibration: Calibration
    provenance: CalibrationProvenance
    next_test: NextTest
    left_out: tuple[NotRepeatable, ...]
    breaches: tuple[tuple[str, Breach], ...]
    agreement: Agreement
    tested: MeasuredRange

    def headlines(self) -> tuple[Headline, ...]:
        said = self.provenance
        return (
            Headline(name="replica", value=f"{said.model} on {said.tp * said.pp} x {said.device}"),
            Headline(name="points", value=said.points),
            Headline(name="left out", value=len(self.left_out)),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.service.calibration_page import calibration_page

        return calibration_page(
            self.calibration,
            self.provenance,
            self.next_test,
            left_out=[(each.point, each.reason) for each in self.left_out],
            breaches=[(point, breach.sentence) for point, breach in self.breaches],
            agreement=self.agreement,
        )

    def to_dict(self) -> dict[str, Any]:
        """The contents of calibration.json."""
        from ullage.report.encode import document

        return document("calibrate", self, as_of=datetime.date.fromisoformat(self.provenance.date))


def fit_calibration(
    files: Sequence[str | Path],
    *,
    model: str | Path,
    device: str,
    engine: str | None = None,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp_attention: int = 1,
    kv_tokens: int | None = None,
    max_sequences: int | None = None,
    budget_tokens: int | None = None,
    kv_dtype: str | None = None,
    poll_steps: int = 1,
    as_of: datetime.date | None = None,
) -> Fitted:
    """Simulate each point as it was run and fit four factors to what was measured.

    `kv_tokens` is what the engine said its cache holds; without it, what the memory budget leaves. Other limits that
    are not stated are the engine's defaults. `poll_steps` is how many steps the scheduler takes between two looks for
    new requests, where it was told to look seldom (SGLang's --scheduler-recv-interval).
    """
    from ullage.evidence import Source
    from ullage.facts.device import find_device
    from ullage.load.names import load_model
    from ullage.memory.case import Case
    from ullage.memory.settings import RuntimeSettings
    from ullage.memory.sharding import Sharding
    from ullage.service.calibration.pool_step import engine_limits

    day = today(as_of)
    settings = RuntimeSettings(
        source=Source(what="stated by the user", where="ullage calibrate", date=day),
        engine=engine,
        sharding=Sharding(tp=tp, pp=pp, ep=ep, dp_attention=dp_attention),
        max_sequences=max_sequences,
        step_tokens=budget_tokens,
        kv_dtype=kv_dtype,
    )
    case = Case(model=load_model(model), device=find_device(device), settings=settings)
    outcome = case.outcome()
    limits = replace(engine_limits(outcome.runtime, kv_tokens or outcome.kv_tokens), poll_steps=poll_steps)
    return _fitted([Path(each) for each in files], case, outcome.runtime, limits, day)


def _fitted(files: Sequence[Path], case: Case, runtime: Runtime, limits: EngineLimits, day: datetime.date) -> Fitted:
    from importlib.metadata import version

    from ullage.load.evidence import load_tests
    from ullage.service.calibration.agreement import agreement
    from ullage.service.calibration.calibration import calibrate, scaled
    from ullage.service.calibration.document import CalibrationProvenance
    from ullage.service.calibration.next_test import next_test
    from ullage.service.calibration.pool_step import measurements_of
    from ullage.service.calibration.tested_range import range_tested
    from ullage.service.steps.step_model import replica_step

    read = load_tests(files)
    used, left_out = measurements_of([(path.stem, test) for path, test in zip(files, read, strict=True)], limits)
    tool = _TOOL_OF_READER.get(read[0].reader, "vllm")
    step = replica_step(case.model, case.device, runtime)
    calibration = calibrate(step, step.floor, used)
    cuts = runtime.sharding
    return Fitted(
        calibration=calibration,
        provenance=CalibrationProvenance(
            model=case.model.name,
            device=case.device.name,
            engine=runtime.engine,
            tp=cuts.tp,
            pp=cuts.pp,
            ep=cuts.ep,
            dp_attention=cuts.dp_attention,
            kv_dtype=runtime.cache.name,
            files=tuple(path.name for path in files),
            points=len(used),
            ullage_version=version("ullage"),
            date=day.isoformat(),
        ),
        next_test=next_test(step, step.floor, calibration, limits, model=case.model.name, tool=tool),
        left_out=tuple(left_out),
        breaches=tuple(_breaches(step.floor, used)),
        agreement=agreement(step, read, limits),
        tested=range_tested(scaled(step, step.floor, calibration.factors), used),
    )


def _breaches(floor: Floor, used: Sequence[Measurement]) -> list[tuple[str, Breach]]:
    """Points that no device of this kind can reach: tokens with one sequence at once, the shortest prompt alone."""
    from ullage.service.steps.physics import prefill_breach, tpot_breach

    found = []
    for each in used:
        for target in each.targets:
            breach = None
            if target.latency == "tpot":
                context = float(each.trial.prompt_tokens.mean())
                breach = tpot_breach(floor, tpot_s=target.value, sequences=1.0, context_tokens=context)
            elif target.latency == "ttft":
                shortest = int(each.trial.prompt_tokens.min())
                breach = prefill_breach(floor, prompt_tokens_per_s=shortest / target.value, prompt_tokens=shortest)
            if breach is not None:
                found.append((each.name, breach))
    return found
