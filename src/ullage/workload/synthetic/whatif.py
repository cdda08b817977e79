"""What-ifs: a model in, a changed model out. They compose, and none of them draws a random number.

and_then(builtin(), traffic(1.5), outputs(2.0), cache_cold())
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from ullage.errors import InputError, unknown_name
from ullage.workload.synthetic.model import ClassModel, Launch, LengthModel, ReuseModel, SyntheticModel

WhatIf = Callable[[SyntheticModel], SyntheticModel]


def and_then(model: SyntheticModel, *changes: WhatIf) -> SyntheticModel:
    """The model after each change in turn."""
    return reduce(lambda so_far, change: change(so_far), changes, model)


def traffic(factor: float, *, of: str | None = None) -> WhatIf:
    """Requests times `factor`, of one class or of all; more users, so that dispersion stays what it was.

    Rates of independent users add up, and relative variance falls as they do: it is divided by the factor.
    """
    _check_factor("traffic", factor)
    return _for(of, lambda each: _with_more_users(each, factor))


def outputs(factor: float, *, of: str | None = None) -> WhatIf:
    """Answers `factor` times as long, at every quantile."""
    _check_factor("outputs", factor)
    return _for(of, lambda each: replace(each, lengths=_longer(each.lengths, output_factor=factor)))


def prompts(factor: float, *, of: str | None = None) -> WhatIf:
    """Prompts `factor` times as long, at every quantile."""
    _check_factor("prompts", factor)
    return _for(of, lambda each: replace(each, lengths=_longer(each.lengths, prompt_factor=factor)))


def cache_cold(*, of: str | None = None) -> WhatIf:
    """No prompt finds its prefix: after a restart of all replicas, or with the cache switched off."""
    return _for(of, lambda each: replace(each, reuse=ReuseModel()))


def cache_hits(factor: float, *, of: str | None = None) -> WhatIf:
    """Cached shares of prompts `factor` times as large, at every quantile, and never more than all of a prompt."""
    if not (math.isfinite(factor) and factor >= 0.0):
        raise InputError(field="cache_hits", value=factor, problem="must be 0 or more", fix="Give for example 0.5.")

    def times(fractions: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(min(1.0, each * factor) for each in fractions)

    def change(each: ClassModel) -> ClassModel:
        reuse = each.reuse
        return replace(
            each,
            reuse=replace(
                reuse,
                first_turn_fractions=times(reuse.first_turn_fractions),
                later_turn_fractions=times(reuse.later_turn_fractions),
            ),
        )

    return _for(of, change)


def mix_shift(shares: Mapping[str, float]) -> WhatIf:
    """The same number of requests, split between the classes in new shares, which add up to one."""

    def change(model: SyntheticModel) -> SyntheticModel:
        for name in shares:
            model.named(name)
        missing = [each.name for each in model.classes if each.name not in shares]
        if missing or abs(sum(shares.values()) - 1.0) > 1e-9 or min(shares.values()) < 0.0:
            raise InputError(
                field="mix_shift",
                value=dict(shares),
                problem="must give every class a share of 0 or more, adding up to 1",
                fix=f"Name {', '.join(each.name for each in model.classes)}.",
            )
        total_rps = sum(each.mean_rate_rps for each in model.classes)
        return SyntheticModel(
            classes=tuple(
                _with_more_users(each, shares[each.name] * total_rps / each.mean_rate_rps) for each in model.classes
            )
        )

    return change


def launch(event: Launch, *, of: str | None = None) -> WhatIf:
    """A launch at a known time: the rush on top of everything, and what stays of it."""
    return _for(of, lambda each: replace(each, launches=(*each.launches, event)))


def _longer(lengths: LengthModel, *, prompt_factor: float = 1.0, output_factor: float = 1.0) -> LengthModel:
    return replace(
        lengths,
        prompt_tokens=tuple(max(1.0, tokens * prompt_factor) for tokens in lengths.prompt_tokens),
        output_tokens=tuple(max(1.0, tokens * output_factor) for tokens in lengths.output_tokens),
    )


def _with_more_users(each: ClassModel, factor: float) -> ClassModel:
    calmer = tuple(variance / factor if factor > 0.0 else 0.0 for variance in each.bursts.variances)
    return replace(each, mean_rate_rps=each.mean_rate_rps * factor, bursts=replace(each.bursts, variances=calmer))


def _for(name: str | None, change: Callable[[ClassModel], ClassModel]) -> WhatIf:
    def changed(model: SyntheticModel) -> SyntheticModel:
        names = [each.name for each in model.classes]
        if name is not None and name not in names:
            raise unknown_name(field="of", name=name, known=names)
        return SyntheticModel(
            classes=tuple(change(each) if name in (None, each.name) else each for each in model.classes)
        )

    return changed


def _check_factor(name: str, factor: float) -> None:
    if not (math.isfinite(factor) and factor > 0.0):
        raise InputError(field=name, value=factor, problem="must be greater than 0", fix="Give for example 1.5.")
