"""`profile`: request logs in, the profile of the traffic out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.execute.run import Progress, silent, today
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.workload.classes import RequestClass
    from ullage.workload.profile.profile import Profile, TenantNames
    from ullage.workload.synthetic.fit import Synthesis

# Characters of a hashed name: 48 bits tell millions of tenants apart.
HASH_CHARACTERS = 12


@dataclass(frozen=True, kw_only=True, repr=False)
class Profiled(VerbAnswer):
    """One trace, twice: with tenants under their own names, and with tenants hidden, to be saved and shared."""

    own: Profile
    shared: Profile
    as_of: datetime.date

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="requests", value=self.own.rows.kept_rows),
            Headline(name="span", value=self.own.coverage.span_s, unit="s"),
            Headline(name="anomalies", value=len(self.own.anomalies)),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.workload.profile_page import profile_page

        return profile_page(self.own)

    def to_dict(self) -> dict[str, Any]:
        """What can be shared: tenants' names are hidden."""
        from ullage.report.encode import document

        return document("profile", self.shared, as_of=self.as_of)


def profile(
    traces: str | Path | Sequence[str | Path],
    *,
    columns: Mapping[str, str] | None = None,
    format_name: str | None = None,
    zone: str = "",
    classes: Sequence[RequestClass] = (),
    as_of: datetime.date | None = None,
    max_age_s: float | None = None,
    tenant_key: str | None = None,
    progress: Progress = silent,
) -> Profiled:
    """Profile the requests in these files, folders or globs.

    `columns` gives columns by our names; `zone` is the zone of times that carry none. With `tenant_key` tenants
    are called by a keyed hash in what is shared, the same in every profile made with that key; without it by
    their rank.
    """
    from ullage.load.traffic import profile_traces
    from ullage.workload.profile.profile import ranked_names, with_tenants_called

    day = today(as_of)
    hidden = ranked_names if tenant_key is None else keyed_names(tenant_key)
    own = profile_traces(
        [traces] if isinstance(traces, str | Path) else traces,
        columns=columns,
        format_name=format_name,
        zone=zone,
        classes=classes,
        as_of=day,
        max_age_s=max_age_s,
        progress=progress,
    )
    return Profiled(own=own, shared=with_tenants_called(own, hidden), as_of=day)


def synthesis_of(profiled: Profiled, *, seed: int = 0) -> Synthesis:
    """The synthetic model fitted to a trace, and where its streams are unlike it."""
    import numpy as np

    from ullage.workload.synthetic.fit import synthesis

    return synthesis(profiled.shared, np.random.default_rng(seed))


def keyed_names(key: str) -> TenantNames:
    """Names that only the holder of the key can make from a tenant's own, and nobody can turn back."""
    import hashlib
    import hmac

    from ullage.errors import InputError

    if len(key) < 8:
        raise InputError(
            field="tenant key",
            value="*" * len(key),
            problem="is shorter than 8 characters, so names could be guessed",
            fix="Give a longer secret.",
        )

    def names(name: str, rank: int) -> str:
        digest = hmac.new(key.encode(errors="surrogateescape"), name.encode(), hashlib.sha256).hexdigest()
        return f"tenant-{digest[:HASH_CHARACTERS]}"

    return names


def save_profile(profiled: Profiled, file: Path, *, force: bool = False) -> None:
    """Write the profile that can be shared."""
    from ullage.files.whole import write_whole
    from ullage.report.encode import to_text

    write_whole(file, to_text(profiled.to_dict()), field="--save", force=force)
