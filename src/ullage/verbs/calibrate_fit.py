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
    from ullage.memory.settings import Runtime, RuntimeSettings
    from ullage.service.calibration.agreement import Agreement
    from ullage.service.calibration.calibration import Calibration
    from ullage.service.calibration.document import CalibrationProvenance, SplitUnderTest, StatedEngine
    from ullage.service.calibration.fitted import FittedTests
    from ullage.service.calibration.next_test import NextTest
    from ullage.service.calibration.repeats import LaunchFlags, NotRepeatable, RepeatTerms
    from ullage.service.calibration.replay import ApartTest, EngineLimits
    from ullage.service.calibration.whose import ReplicaUnderTest
    from ullage.service.loadtests.loadtest import LoadTest
    from ullage.service.steps.coefficients import StepErrorBand
    from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
    from ullage.service.steps.physics import Breach
    from ullage.service.steps.step_model import MeasuredRange, StepModel

# Which command line the next test is written for, by the reader that understood the user's file.
_TOOL_OF_READER = {"vllm": "vllm", "sglang": "sglang", "guidellm": "guidellm", "aiperf": "aiperf"}


@dataclass(frozen=True, kw_only=True)
class StatedTest:
    """What the user states of the tests, over what their files say.

    `cached_fraction` is the share of prompt tokens that were prefix hits, `replicas` those that shared the load behind
    one address, `timeout_s` when clients gave up, `accepted` the anomalies that are known and accepted by name.
    `launches` are flags of the engine that higher loads were tested with.
    """

    cached_fraction: float | None = None
    replicas: int | None = None
    timeout_s: float | None = None
    accepted: tuple[str, ...] = ()
    launches: tuple[LaunchFlags, ...] = ()


def stated_test(
    cached_share: str | None,
    replicas: int | None,
    timeout: str | None,
    accept: Sequence[str] | None,
    launches: Sequence[str] | None = None,
) -> StatedTest:
    """What is typed of a load test, over what its file says."""
    from ullage.load.typed import parse_duration, parse_launch, parse_share

    return StatedTest(
        cached_fraction=parse_share(cached_share, "--cached-share"),
        replicas=replicas,
        timeout_s=parse_duration(timeout, "--timeout"),
        accepted=tuple(accept or ()),
        launches=tuple(parse_launch(each) for each in launches or ()),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class Fitted(VerbAnswer):
    """A calibration with its provenance, the points that could not be used, and what is wrong with the evidence.

    `agreement` is what each test says alone, and how much it counted; `tested` is the range that they covered, and
    `band` holds the step times of loads within what the replica may run, and `stated_engine` is what was stated of the
    engine, for whoever uses the calibration. `split` are the two pools of tests whose prefill and decode were apart.
    """

    calibration: Calibration
    provenance: CalibrationProvenance
    next_test: NextTest
    left_out: tuple[NotRepeatable, ...]
    breaches: tuple[tuple[str, Breach], ...]
    anomalies: tuple[EvidenceAnomaly, ...]
    agreement: Agreement
    tested: MeasuredRange
    band: StepErrorBand
    stated_engine: StatedEngine
    split: SplitUnderTest | None = None

    def headlines(self) -> tuple[Headline, ...]:
        said = self.provenance
        found = (
            Headline(name="replica", value=f"{said.model} on {said.tp * said.pp} x {said.device}"),
            Headline(name="points", value=said.points),
            Headline(name="left out", value=len(self.left_out)),
        )
        if not self.anomalies:
            return found
        return (
            *found,
            Headline(name="anomalies", value=", ".join(dict.fromkeys(each.name for each in self.anomalies))),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.service.calibration_page import calibration_page

        return calibration_page(
            self.calibration,
            self.provenance,
            self.next_test,
            band=self.band,
            left_out=[(each.point, each.reason) for each in self.left_out],
            anomalies=self.anomalies,
            agreement=self.agreement,
            split=self.split,
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
    engine_version: str | None = None,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp_attention: int = 1,
    kv_tokens: int | None = None,
    max_sequences: int | None = None,
    budget_tokens: int | None = None,
    kv_dtype: str | None = None,
    poll_steps: int | None = None,
    batch_wait_steps: int | None = None,
    capacity_policy: str | None = None,
    output_limit_tokens: int | None = None,
    prefill: str | None = None,
    transfer: str | None = None,
    stated: StatedTest = StatedTest(),  # noqa: B008 - frozen
    as_of: datetime.date | None = None,
) -> Fitted:
    """Simulate each point as it was run and fit five factors to what was measured.

    `kv_tokens` is the capacity that the engine reports; without it, what the memory budget leaves. Other limits that
    are not stated are the engine's defaults. `poll_steps` is how many steps the scheduler takes between two looks for
    new requests, where it was told to look seldom (SGLang's --scheduler-recv-interval), `batch_wait_steps` how many a
    request waits for others to be admitted with (TensorRT-LLM's batch_wait_timeout_iters). `capacity_policy` and
    `output_limit_tokens` are as in `simulate`. `prefill`, such as `2:tp=8`,
    and `transfer` are as in `simulate`: the tests ran with so many prefill replicas before the replicas that decode,
    which are the ones that are fitted. `stated` is what the user knows of the tests and their files do not say.
    """
    from ullage.evidence import Source
    from ullage.facts.device import find_device
    from ullage.load.names import load_model
    from ullage.load.pool import parse_policy
    from ullage.memory.case import Case
    from ullage.memory.settings import RuntimeSettings
    from ullage.memory.sharding import Sharding
    from ullage.service.calibration.evidence import engine_limits
    from ullage.service.calibration.repeats import RepeatTerms
    from ullage.verbs.answers.split_answer import apart_test, parse_prefill, split_under_test

    day = today(as_of)
    settings = RuntimeSettings(
        source=Source(what="stated by the user", where="ullage calibrate", date=day),
        engine=engine,
        version=engine_version,
        sharding=Sharding(tp=tp, pp=pp, ep=ep, dp_attention=dp_attention),
        max_sequences=max_sequences,
        step_tokens=budget_tokens,
        poll_steps=poll_steps,
        batch_wait_steps=batch_wait_steps,
        **parse_policy(capacity_policy),
        output_limit_tokens=output_limit_tokens,
        kv_dtype=kv_dtype,
    )
    case = Case(model=load_model(model), device=find_device(device), settings=settings)
    outcome = case.outcome()
    chosen = parse_prefill(prefill, transfer)
    terms = RepeatTerms(
        limits=engine_limits(outcome.runtime, kv_tokens or outcome.kv_tokens),
        replicas=stated.replicas,
        cached_fraction=stated.cached_fraction,
        timeout_s=stated.timeout_s,
        launches=stated.launches,
        are_limits_stated=max_sequences is not None or budget_tokens is not None,
        apart=None if chosen is None else apart_test(case.model, case.device, outcome.runtime, chosen, stated.replicas),
    )
    read = [Path(each) for each in files]
    found = _fitted(read, case, outcome.runtime, terms, stated.accepted, day)
    split = None if chosen is None else split_under_test(chosen, case.device, outcome.runtime.sharding, stated.replicas)
    return replace(found, stated_engine=_stated_engine(settings, kv_tokens), split=split)


def _stated_engine(settings: RuntimeSettings, kv_tokens: int | None) -> StatedEngine:
    """What was stated of the engine that was tested, as whoever uses the calibration would state it."""
    from ullage.service.calibration.document import StatedEngine

    policy, ratio = settings.capacity_policy, settings.conservativeness
    return StatedEngine(
        engine_version=settings.version,
        kv_tokens=kv_tokens,
        max_sequences=settings.max_sequences,
        budget_tokens=settings.step_tokens,
        poll_steps=settings.poll_steps,
        batch_wait_steps=settings.batch_wait_steps,
        capacity_policy=policy if ratio is None else f"{policy}:{ratio:g}",
        output_limit_tokens=settings.output_limit_tokens,
    )


def _fitted(
    files: Sequence[Path], case: Case, runtime: Runtime, terms: RepeatTerms, accepted: Sequence[str], day: datetime.date
) -> Fitted:
    from ullage.evidence import Source
    from ullage.load.evidence import load_tests, test_names
    from ullage.service.calibration.fitted import fit_tests
    from ullage.service.calibration.whose import ReplicaUnderTest, differences, refuse
    from ullage.service.steps.step_model import replica_step

    read = load_tests(files)
    names = [Path(test.file).name for test in read]
    cuts = runtime.sharding
    replica = ReplicaUnderTest(model=case.model, device=case.device.name, engine=runtime.engine, sharding=cuts)
    others = [each for test in read for each in differences(test, replica)]
    refuse(others, accepted, field="FILE")
    step = replica_step(case.model, case.device, runtime)
    found = fit_tests(
        step,
        list(zip(test_names(read), read, strict=True)),
        terms,
        source=Source(what="load tests", where=", ".join(names), date=day),
        accepted=accepted,
        field="FILE",
    )
    return fitted_answer(
        found,
        step=step,
        cache=runtime.cache.name,
        replica=replica,
        read=read,
        files=names,
        limits=terms.limits,
        anomalies=(*others, *found.anomalies),
        day=day,
        apart=terms.apart,
    )


def fitted_answer(
    found: FittedTests,
    *,
    step: StepModel,
    cache: str,
    replica: ReplicaUnderTest,
    read: Sequence[LoadTest],
    files: Sequence[str],
    limits: EngineLimits,
    anomalies: tuple[EvidenceAnomaly, ...],
    day: datetime.date,
    apart: ApartTest | None = None,
) -> Fitted:
    """A fit with its provenance: what a calibration.json holds."""
    from importlib.metadata import version

    from ullage.service.calibration.document import NOTHING_STATED, CalibrationProvenance
    from ullage.service.calibration.next_test import next_test

    cuts, tool = replica.sharding, _TOOL_OF_READER.get(read[0].reader if read else "", "vllm")
    return Fitted(
        calibration=found.calibration,
        provenance=CalibrationProvenance(
            model=replica.model.name,
            device=replica.device,
            engine=replica.engine,
            tp=cuts.tp,
            pp=cuts.pp,
            ep=cuts.ep,
            dp_attention=cuts.dp_attention,
            kv_dtype=cache,
            files=tuple(files),
            points=len(found.used),
            ullage_version=version("ullage"),
            date=day.isoformat(),
        ),
        next_test=next_test(
            step, step.floor, found.calibration, limits, model=replica.model.name, tool=tool, apart=apart
        ),
        left_out=found.left_out,
        breaches=found.breaches,
        anomalies=anomalies,
        agreement=found.agreement,
        tested=found.tested,
        band=found.step.band,
        stated_engine=NOTHING_STATED,
    )
