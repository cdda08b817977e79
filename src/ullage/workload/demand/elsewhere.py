"""Lengths of a class whose own trace has none: from another log, or from the built-in profile at the mean that is "
"known."""

from __future__ import annotations

import datetime
from dataclasses import replace

from ullage.evidence import Evidence
from ullage.workload.demand.stand_in import built_in_like
from ullage.workload.demand.stated import BorrowedLengths
from ullage.workload.profile.figures import profile_source
from ullage.workload.profile.profile import PartProfile, Profile
from ullage.workload.profile.series import Distribution
from ullage.workload.synthetic.builtin import SOURCE
from ullage.workload.synthetic.fit import fitted


def lengths_of_log(log: Profile, name: str, *, as_of: datetime.date) -> BorrowedLengths:
    """The lengths of this class in the log, or those of all its requests where it does not tell classes apart."""
    models = {each.name: each for each in fitted(log).classes}
    model = models.get(name) or next(iter(models.values()))
    return BorrowedLengths(model=model.lengths, source=profile_source(log, as_of=as_of), evidence=Evidence.MEASURED)


def lengths_of_means(profile: Profile, name: str, longest_tokens: int) -> BorrowedLengths:
    """The built-in class that is most alike, each side stretched to the mean that the profile knows, if any."""
    like = built_in_like(name, longest_tokens)
    known = _part(profile, name).lengths
    lengths = like.lengths
    prompts, outputs = lengths.pairs()
    borrowed = replace(
        lengths,
        prompt_tokens=_stretched(lengths.prompt_tokens, float(prompts.mean()), known.prompt_tokens),
        output_tokens=_stretched(lengths.output_tokens, float(outputs.mean()), known.output_tokens),
    )
    what = f"{SOURCE.what}: class {like.name}"
    if known.prompt_tokens is not None or known.output_tokens is not None:
        what = f"mean of {profile.sources[0]}, spread of the {what}"
    return BorrowedLengths(model=borrowed, source=replace(SOURCE, what=what), evidence=Evidence.ASSUMED)


def _part(profile: Profile, name: str) -> PartProfile:
    return next((group.profile for group in profile.of("class") if group.name == name), profile.whole)


def _stretched(quantiles: tuple[float, ...], mean: float, known: Distribution | None) -> tuple[float, ...]:
    if known is None:
        return quantiles
    return tuple(max(1.0, round(each * known.mean_value / mean)) for each in quantiles)
