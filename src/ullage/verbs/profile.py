"""`profile`: request logs in, the profile of the traffic out."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.workload.classes import RequestClass
    from ullage.workload.profile.profile import Profile, TenantNames
    from ullage.workload.synthetic.fit import Synthesis

# Characters of a hashed name: 48 bits tell millions of tenants apart.
HASH_CHARACTERS = 12


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """One trace, twice: with tenants under their own names, and with tenants hidden, to be saved and shared."""

    own: Profile
    shared: Profile
    as_of: datetime.date

    def text(self) -> str:
        """The profile that can be shared, as JSON to save and to read back."""
        from ullage.report.encode import document, to_text

        return to_text(document("profile", self.shared, as_of=self.as_of))


def profile(
    traces: Sequence[str | Path],
    *,
    mapping: Mapping[str, str] | None = None,
    format_name: str | None = None,
    zone: str = "",
    classes: Sequence[RequestClass] = (),
    as_of: datetime.date | None = None,
    max_age_s: float | None = None,
    tenant_key: str | None = None,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> Profiled:
    """Profile the requests in these files, folders or globs.

    `mapping` gives columns by our names; `zone` is the zone of times that carry none. With `tenant_key` tenants
    are called by a keyed hash in what is shared, the same in every profile made with that key; without it by
    their rank.
    """
    from ullage.readers.traces.open import open_trace
    from ullage.workload.profile.profile import profile_of, ranked_names, with_tenants_called
    from ullage.workload.profile.quality import MAX_AGE_S
    from ullage.workload.profile.summarise import summarise
    from ullage.workload.profile.windows import summarise_windows
    from ullage.workload.trace import RateTable

    progress(0.0)
    trace = open_trace([str(each) for each in traces], mapping=mapping, format_name=format_name, zone=zone)
    progress(0.2)
    summary = summarise_windows(trace) if isinstance(trace, RateTable) else summarise(trace, classes=classes)
    progress(0.9)
    when = as_of or datetime.datetime.now(tz=datetime.UTC).date()
    age_s = MAX_AGE_S if max_age_s is None else max_age_s
    hidden = ranked_names if tenant_key is None else keyed_names(tenant_key)
    own = profile_of(summary, as_of=when, max_age_s=age_s)
    return Profiled(own=own, shared=with_tenants_called(own, hidden), as_of=when)


def synthesis_of(profiled: Profiled, *, seed: int = 0) -> Synthesis:
    """The synthetic model fitted to a trace, and where its streams are unlike it."""
    import numpy as np

    from ullage.workload.synthetic.fit import synthesis

    return synthesis(profiled.shared, np.random.default_rng(seed))


def keyed_names(key: str) -> TenantNames:
    """Names that only the holder of the key can make from a tenant's own, and nobody can turn back."""
    from ullage.errors import InputError

    if len(key) < 8:
        raise InputError(
            field="tenant key",
            value="*" * len(key),
            problem="is shorter than 8 characters, so that names could be guessed",
            fix="Give a longer secret.",
        )

    def names(name: str, rank: int) -> str:
        digest = hmac.new(key.encode(), name.encode(), hashlib.sha256).hexdigest()
        return f"tenant-{digest[:HASH_CHARACTERS]}"

    return names


def save_profile(profiled: Profiled, file: Path) -> None:
    """Write the profile that can be shared."""
    from ullage.files.whole import write_whole

    write_whole(file, profiled.text(), field="--save")


def load_profile(file: Path) -> Profile:
    """Read a profile that was saved."""
    import json

    from ullage.errors import InputError
    from ullage.workload.profile.saved import from_plain

    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            field="profile", value=str(file), problem=f"cannot be read ({error})", fix="Save it again."
        ) from None
    if not isinstance(plain, dict):
        raise InputError(field="profile", value=str(file), problem="is no saved profile", fix="Save it again.")
    return from_plain(plain, where=file.name)


def mapping_of(pairs: Sequence[str]) -> dict[str, str]:
    """`["arrival_s=ts"]` as a mapping from our names to the file's."""
    from ullage.errors import InputError

    found: dict[str, str] = {}
    for pair in pairs:
        ours, separator, theirs = pair.partition("=")
        if not (separator and ours and theirs):
            raise InputError(
                field="--map",
                value=pair,
                problem="is not OURS=THEIRS",
                fix="Name our column, then the file's, for example arrival_s=ts.",
            )
        found[ours.strip()] = theirs.strip()
    return found


def class_of(text: str) -> RequestClass:
    """A class from text such as `chat:model=llama*,below_prompt_tokens=4000`."""
    from ullage.errors import InputError, unknown_name
    from ullage.workload.classes import ClassRule, RequestClass

    name, _, conditions = text.partition(":")
    given = {
        key.strip(): value.strip()
        for key, _, value in (condition.partition("=") for condition in conditions.split(",") if condition)
    }
    known = ClassRule.__dataclass_fields__
    for key in given:
        if key not in known:
            raise unknown_name(field=f"--class {name}", name=key, known=known)
    values: dict[str, str | int] = {}
    for key, value in given.items():
        if not key.endswith("_tokens"):
            values[key] = value
        elif value.isdigit():
            values[key] = int(value)
        else:
            raise InputError(
                field=f"--class {name}.{key}",
                value=value,
                problem="is not a number of tokens",
                fix="Give for example 4000.",
            )
    return RequestClass(name=name, slos=(), rule=ClassRule(**values))  # type: ignore[arg-type]
