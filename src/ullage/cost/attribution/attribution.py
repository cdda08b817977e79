"""Who caused the bill: every line divided over products, tenants, models or classes, to the cent.

A line is divided by what it grows with: provider tokens by tokens, per-request lines by requests, failed work by who
failed, device time by the rule that is chosen. What nobody used is not hidden in anybody's share: idle time and
reserves are rows of their own, unless it is asked that they be spread, and then by a rule that is named.

    usage basis        a group pays for the device time it used
    allocation basis   a group pays for the part of the fleet it was allotted, used or not
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ullage.cost.attribution.dimensions import UNALLOCATED, dimensions_of, pair_name
from ullage.cost.attribution.usage import GroupUse, merged_groups
from ullage.cost.lines.line import BillLine, Driver
from ullage.cost.money import apportion
from ullage.errors import InputError, InternalError, check_name, unknown_name

IDLE, RESERVE = "idle", "reserve"


@dataclass(frozen=True, kw_only=True)
class TokenWeights:
    """What a token counts in the rule `weighted_tokens`, in prompt tokens.

    Providers sell answer tokens at three to five prompt tokens and cached ones at a tenth; three and a tenth stand in
    where nobody says otherwise.
    """

    output_ratio: float = 3.0
    cached_ratio: float = 0.1


@dataclass(frozen=True, kw_only=True)
class AttributionRule:
    """A way to divide shared device time; `weigh` gives None where the usage does not hold what it needs."""

    name: str
    title: str
    needs: str
    weigh: Callable[[GroupUse, TokenWeights], float | None]


def _tokens(use: GroupUse, _weights: TokenWeights) -> float:
    return use.prompt_tokens + use.output_tokens


def _weighted(use: GroupUse, weights: TokenWeights) -> float:
    cached = min(use.cached_tokens, use.prompt_tokens)
    return (use.prompt_tokens - cached) + cached * weights.cached_ratio + use.output_tokens * weights.output_ratio


_TIMES = "when each request began and ended"

ATTRIBUTION_RULES: dict[str, AttributionRule] = {
    each.name: each
    for each in (
        AttributionRule(
            name="causation",
            title="causation: Shapley over the fleet that each group makes necessary",
            needs="how large the fleet would be without a group; a plan's own classes do",
            weigh=lambda use, _: use.caused_devices,
        ),
        AttributionRule(
            name="gpu_time",
            title="GPU-time share: each moment of a device split over the requests in it",
            needs=_TIMES,
            weigh=lambda use, _: use.gpu_s,
        ),
        AttributionRule(
            name="kv_token_seconds",
            title="KV-token-seconds: memory held, times how long",
            needs=_TIMES,
            weigh=lambda use, _: use.kv_token_s,
        ),
        AttributionRule(name="tokens", title="tokens of prompt and answer", needs="", weigh=_tokens),
        AttributionRule(
            name="weighted_tokens", title="tokens, output weighted more and cached ones less", needs="",
            weigh=_weighted,
        ),
        AttributionRule(name="requests", title="number of requests", needs="", weigh=lambda use, _: use.requests),
        AttributionRule(
            name="shapley",
            title="busy-time Shapley: each moment split over the groups present",
            needs=_TIMES,
            weigh=lambda use, _: use.moment_s,
        ),
        AttributionRule(
            name="peak",
            title="sampled Shapley of the peak: what each group adds to peak KV",
            needs=f"{_TIMES}, and a seed",
            weigh=lambda use, _: use.peak_tokens,
        ),
    )
}  # fmt: skip


class Basis(enum.Enum):
    USAGE = "usage"
    ALLOCATION = "allocation"


class Idle(enum.Enum):
    """What becomes of idle time and reserves: rows of their own, or spread over the groups."""

    APART = "apart"
    SPREAD = "spread"


@dataclass(frozen=True, kw_only=True)
class AttributionChoice:
    """How to divide. `spread_rule` spreads what is idle or reserved (the rule itself where it is empty);
    `allotted_fraction` is each group's part of the fleet, for the allocation basis."""

    by: str
    rule: str = "gpu_time"
    basis: Basis = Basis.USAGE
    idle: Idle = Idle.APART
    spread_rule: str = ""
    allotted_fraction: Mapping[str, float] = field(default_factory=dict)
    token_weights: TokenWeights = TokenWeights()

    def __post_init__(self) -> None:
        for each in (self.rule, self.spread_rule or self.rule):
            check_name(each, ATTRIBUTION_RULES, field="rule")
        total = sum(self.allotted_fraction.values())
        if any(not each >= 0.0 for each in self.allotted_fraction.values()) or total > 1.0 + 1e-9:
            raise InputError(
                field="allotted",
                value=dict(self.allotted_fraction),
                problem=f"shares of a fleet must not be negative and sum to at most 1; these sum to {total:g}",
                fix="Give each group its share, for example acme: 40%.",
            )
        if self.basis is Basis.ALLOCATION and not self.allotted_fraction:
            raise InputError(
                field="basis",
                value="allocation",
                problem="no group has a share",
                fix="State the share of the fleet that each group has contracted, or use the usage basis.",
            )


@dataclass(frozen=True, kw_only=True)
class AttributionRow:
    """What one group pays, line by line in the order of the bill; `is_group` is False for idle and reserve."""

    name: str
    cents: tuple[int, ...]
    is_group: bool = True

    @property
    def total_cents(self) -> int:
        return sum(self.cents)


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """The priced lines of a bill, divided; columns are `lines`, rows sum to them exactly."""

    choice: AttributionChoice
    lines: tuple[BillLine, ...]
    rows: tuple[AttributionRow, ...]

    @property
    def line_labels(self) -> tuple[str, ...]:
        """The columns by name."""
        return tuple(each.label for each in self.lines)

    @property
    def total_cents(self) -> int:
        return sum(each.total_cents for each in self.rows)

    def row(self, name: str) -> AttributionRow:
        for each in self.rows:
            if each.name == name:
                return each
        raise unknown_name(field=self.choice.by, name=name, known=[each.name for each in self.rows])


def attribute(
    lines: Sequence[BillLine], uses: Mapping[str, Sequence[GroupUse]], choice: AttributionChoice
) -> Attribution:
    """Divide every priced line over the groups. `uses` has the groups of each pool by its name.

    A line of a pool is divided over those who used that pool, a line of the whole service, and of a pool that is not
    in `uses`, over all. A line that is one group's alone goes to it whole.
    """
    everybody = merged_groups(uses.values())
    priced = tuple(each for each in lines if each.cents is not None)
    columns = [_divided(each, uses.get(each.pool, everybody) if each.pool else everybody, choice) for each in priced]
    names = [each.name for each in everybody]
    names += sorted({name for column in columns for name in column} - {*names, IDLE, RESERVE, UNALLOCATED})
    names += [
        each for each in (UNALLOCATED, IDLE, RESERVE) if each not in names and any(each in one for one in columns)
    ]
    rows = tuple(
        AttributionRow(
            name=name,
            cents=tuple(column.get(name, 0) for column in columns),
            is_group=name not in (IDLE, RESERVE),
        )
        for name in names
    )
    for place, line in enumerate(priced):
        total = sum(row.cents[place] for row in rows)
        if total != line.cents:
            raise InternalError(law=f"attribution sums to the line {line.label}", left=total, right=line.cents)
    return Attribution(choice=choice, lines=priced, rows=rows)


def _divided(line: BillLine, groups: Sequence[GroupUse], choice: AttributionChoice) -> dict[str, int]:
    """The cents of one line by name."""
    assert line.cents is not None
    owner = _owner(line, choice.by)
    if owner is not None and any(each.name == owner for each in groups):
        return {owner: line.cents}
    names, own = [each.name for each in groups], _own_weights(line, groups, choice)
    apart = RESERVE if line.driver is Driver.RESERVE else IDLE
    used = 0.0 if line.driver is Driver.RESERVE else line.used_fraction if line.driver is Driver.DEVICE_TIME else 1.0
    if choice.basis is Basis.ALLOCATION and line.driver is Driver.DEVICE_TIME:
        names = sorted(choice.allotted_fraction)
        own = [choice.allotted_fraction[name] for name in names]
        used = min(1.0, sum(own))
    if not any(own):
        # Nobody used it: it is idle as a whole, or, where it is no device time, nobody's.
        own, used = [0.0] * len(names), 0.0
        apart = apart if line.driver in (Driver.DEVICE_TIME, Driver.RESERVE) else UNALLOCATED
    total = sum(own)
    weights = {name: used * each / total if total else 0.0 for name, each in zip(names, own, strict=True)}
    rest = max(0.0, 1.0 - used)
    spread = _spread_weights(groups, choice) if choice.idle is Idle.SPREAD and rest else {}
    if not spread and rest:
        spread = {apart: 1.0}
    for name, part in spread.items():
        weights[name] = weights.get(name, 0.0) + rest * part
    return dict(zip(weights, apportion(line.cents, list(weights.values())), strict=True))


def _owner(line: BillLine, by: str) -> str | None:
    """Whose line it is alone; of a pair, where both dimensions say."""
    found = [line.owners.get(each) for each in dimensions_of(by)]
    if None in found:
        return None
    named = [each for each in found if each is not None]
    return named[0] if len(named) == 1 else pair_name(*named)


def _own_weights(line: BillLine, groups: Sequence[GroupUse], choice: AttributionChoice) -> list[float]:
    """What each group did of that which the line grows with."""
    if line.driver is Driver.FAILED:
        failed = [each.failed_gpu_s if each.failed_gpu_s is not None else each.requests - each.successes
                  for each in groups]  # fmt: skip
        return failed if any(failed) else rule_weights(choice.rule, groups, choice.token_weights)
    if line.driver is Driver.TOKENS:
        return [_tokens(each, choice.token_weights) for each in groups]
    if line.driver is Driver.REQUESTS:
        return [each.requests for each in groups]
    return rule_weights(choice.rule, groups, choice.token_weights)


def _spread_weights(groups: Sequence[GroupUse], choice: AttributionChoice) -> dict[str, float]:
    """Parts of one by the spread rule; empty where nobody did anything."""
    found = rule_weights(choice.spread_rule or choice.rule, groups, choice.token_weights)
    total = sum(found)
    return {each.name: one / total for each, one in zip(groups, found, strict=True)} if total else {}


def rule_weights(rule: str, groups: Sequence[GroupUse], weights: TokenWeights = TokenWeights()) -> list[float]:  # noqa: B008
    """What each group weighs by a rule; an error that says what the usage lacks."""
    check_name(rule, ATTRIBUTION_RULES, field="rule")
    known = ATTRIBUTION_RULES[rule]
    found = [known.weigh(each, weights) for each in groups]
    if None in found:
        raise InputError(
            field="rule",
            value=rule,
            problem=f"the usage does not contain {known.needs}",
            fix=f"Give a log that does, or choose one of {', '.join(usable_rules(groups))}.",
        )
    return [each for each in found if each is not None]


def best_rule(groups: Sequence[GroupUse]) -> str:
    """Causation where it is known who makes what necessary, else the time that devices were busy, else tokens."""
    usable = usable_rules(groups)
    return next(each for each in ("causation", "gpu_time", "weighted_tokens") if each in usable)


def usable_rules(groups: Sequence[GroupUse]) -> tuple[str, ...]:
    """The rules for which this usage holds all that they need."""
    plain = TokenWeights()
    return tuple(
        name for name, rule in ATTRIBUTION_RULES.items() if all(rule.weigh(each, plain) is not None for each in groups)
    )


def distances_from_causation(groups: Sequence[GroupUse]) -> dict[str, float]:
    """By rule, the share of the devices that it charges to another group than the one that makes them necessary."""
    usable = usable_rules(groups)
    if "causation" not in usable:
        return {}
    caused = _parts(rule_weights("causation", groups))
    return {
        rule: sum(abs(one - other) for one, other in zip(_parts(rule_weights(rule, groups)), caused, strict=True)) / 2
        for rule in usable
        if rule != "causation"
    }


def _parts(weights: Sequence[float]) -> list[float]:
    total = sum(weights)
    return [each / total if total else 0.0 for each in weights]


@dataclass(frozen=True, kw_only=True)
class RuleSpread:
    """What one group would pay under each rule: how much of its bill is the rule and not the group."""

    name: str
    cents: Mapping[str, int]

    @property
    def least_cents(self) -> int:
        return min(self.cents.values())

    @property
    def most_cents(self) -> int:
        return max(self.cents.values())


def rule_spread(
    lines: Sequence[BillLine], uses: Mapping[str, Sequence[GroupUse]], choice: AttributionChoice
) -> tuple[RuleSpread, ...]:
    """Every group's total under every rule that the usage allows, all else as chosen."""
    rules = usable_rules([each for groups in uses.values() for each in groups])
    found = {rule: attribute(lines, uses, replace(choice, rule=rule)) for rule in rules}
    names = [each.name for each in next(iter(found.values())).rows] if found else []
    return tuple(
        RuleSpread(name=name, cents={rule: each.row(name).total_cents for rule, each in found.items()})
        for name in names
    )
