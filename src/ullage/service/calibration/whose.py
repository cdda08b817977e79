"""Whether evidence fits: the configuration that a load test states, compared with the replica that it is used for.

What a file does not state is taken to be the replica's. What it states otherwise is an anomaly: a test of another
model, engine or precision is refused, and one of another device or of other parallelism scales the estimate of this one
and stays an estimate, unless the user accepts it by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ullage.errors import InputError
from ullage.facts.catalogue import bare_name
from ullage.facts.device import find_device
from ullage.facts.model import Model, MoeFeedForward
from ullage.memory.sharding import Sharding
from ullage.service.loadtests.loadtest import LoadTest, LoadTestSubject
from ullage.service.steps.coefficients import ENGINE_NAMES
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly

# Names under which a model is served that say nothing about it.
_NO_NAMES = ("model", "default", "auto", "llm", "base", "served-model", "test", "gpt-3.5-turbo", "gpt-4")
_SIZE = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)b(?![a-z])")
_NARROW = {"fp8": 8, "int8": 8, "w8a8": 8, "fp4": 4, "nvfp4": 4, "mxfp4": 4, "int4": 4, "awq": 4, "gptq": 4}
_WIDE = {"bf16": 16, "fp16": 16, "bfloat16": 16, "float16": 16, "half": 16}


@dataclass(frozen=True, kw_only=True)
class ReplicaUnderTest:
    """The replica that load tests are to speak for."""

    model: Model
    device: str
    engine: str
    sharding: Sharding


_PROFILE = "step profile"
SCALED = ("device", "parallelism")
"""What a test may differ in and still scale an estimate."""


def differences(test: LoadTest, replica: ReplicaUnderTest) -> tuple[EvidenceAnomaly, ...]:
    """What the file states otherwise than the replica, each once."""
    found = {each.sentence: each for point in test.points for each in _of_subject(test.file, point.subject, replica)}
    return tuple(found.values())


def profile_differences(file: str, subject: LoadTestSubject, replica: ReplicaUnderTest) -> tuple[EvidenceAnomaly, ...]:
    """What a step profile states otherwise than the replica; of load tests ep is stated too seldom to be asked for."""
    found = list(_of_subject(file, subject, replica, what=_PROFILE))
    if subject.ep is not None and subject.ep != replica.sharding.ep:
        own = f"ep = {replica.sharding.ep}"
        found.append(_differs(_PROFILE, "parallelism", file, f"ran with ep = {subject.ep}", own))
    return tuple(found)


def _of_subject(
    file: str, subject: LoadTestSubject, replica: ReplicaUnderTest, *, what: str = "load test"
) -> Iterator[EvidenceAnomaly]:
    sharding, differs = replica.sharding, partial(_differs, what)
    if subject.model is not None and not is_same_model(subject.model, replica.model):
        yield differs("model", file, f"tested the model {subject.model}", replica.model.name)
    tested = known_device(subject.hardware)
    if tested is not None and tested != replica.device:
        yield differs("device", file, f"ran on {tested}", replica.device)
    if subject.engine is not None and (engine := known_engine(subject.engine)) not in (None, replica.engine):
        yield differs("engine", file, f"tested {engine}", replica.engine)
    for name, stated, own in (("tp", subject.tp, sharding.tp), ("pp", subject.pp, sharding.pp)):
        if stated is not None and stated != own:
            yield differs("parallelism", file, f"ran with {name} = {stated}", f"{name} = {own}")
    bits = precision_bits(subject.precision)
    if bits is not None and bits not in weight_bits(replica.model):
        has = " and ".join(f"{each}-bit" for each in sorted(weight_bits(replica.model)))
        yield differs("precision", file, f"tested {subject.precision} weights", f"{has} weights")


def _differs(what: str, name: str, file: str, said: str, own: str) -> EvidenceAnomaly:
    # The file stands last: a path may be longer than the room there is for the sentence.
    sentence = f"A {what} {said}, but the replica is {own}: it is evidence for another configuration ({file})."
    return EvidenceAnomaly(name=name, sentence=sentence, refuses=True)


def refuse(anomalies: Sequence[EvidenceAnomaly], accepted: Sequence[str], *, field: str) -> None:
    """An InputError for the first anomaly that refuses the evidence and that the user has not accepted."""
    for each in anomalies:
        if each.refuses and each.name not in accepted:
            raise InputError(
                field=field,
                value=each.name,
                problem=each.sentence[0].lower() + each.sentence[1:].rstrip("."),
                fix=f"Give the replica that was tested, or accept it by name: --accept {each.name}, or "
                f"evidence.accept: [{each.name}] in a plan file.",
            )


def is_same_model(named: str, model: Model) -> bool:
    """Whether a name in a file may stand for this model.

    Sizes decide where both state one (70b, 8b); otherwise one name must hold the other, or its letters in order, as
    `dsr1` does for DeepSeek-R1. A name that says nothing, or a path that ends in none, is taken to be right.
    """
    text = named.rstrip("/").rsplit("/", 1)[-1].lower()
    if not text or text in _NO_NAMES:
        return True
    own = [each.rsplit("/", 1)[-1].lower() for each in (model.name, *model.aliases)]
    sizes, own_sizes = set(_SIZE.findall(text)), {size for each in own for size in _SIZE.findall(each)}
    if sizes and own_sizes:
        return bool(sizes & own_sizes)
    plain = _letters(text)
    return any(plain in (each := _letters(one)) or each in plain or _is_short_for(plain, each) for one in own)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text)


def _is_short_for(short: str, long: str) -> bool:
    """Whether the letters of the short name come in this order in the long one, from its first on."""
    if len(short) < 3 or not long.startswith(short[0]):
        return False
    rest = iter(long)
    return all(letter in rest for letter in short)


def known_device(hardware: str | None) -> str | None:
    """The device of the catalogue that a file names; None where it names none that is known."""
    if hardware is None:
        return None
    try:
        return find_device(hardware).name
    except InputError:
        return None


def known_engine(engine: str) -> str | None:
    """The engine that a file names; None where the name is a client's, such as openai-chat."""
    text = bare_name(engine)
    for name in ("vllm", "sglang", "tensorrt-llm", *ENGINE_NAMES):
        if name in text:
            return ENGINE_NAMES.get(name, name)
    return None


def precision_bits(precision: str | None) -> int | None:
    text = (precision or "").lower()
    return next((bits for name, bits in {**_NARROW, **_WIDE}.items() if name in text), None)


def weight_bits(model: Model) -> frozenset[int]:
    """The widths in which the large matrices of a model are stored: attention, feed-forward, experts."""
    found: set[int] = set()
    for group in model.layers:
        formats, is_moe = group.layer.formats, isinstance(group.layer.feed_forward, MoeFeedForward)
        found |= {
            round(each.weight_bits) for each in (formats.attention_in, formats.routed if is_moe else formats.dense)
        }
    return frozenset(found)
