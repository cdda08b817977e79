"""The price book: what things cost, as values. A price is an `Assumption`: amount, unit, source, date, maximum age.

    DevicePrice       an instance with devices in it, by the hour: on demand, committed, spot, or as billed
    OwnedHardware     a machine of one's own: bought once, worn out over its life, fed and housed
    TokenPrice        a provider's tokens: input, output, read from cache, written to it; by tier
    ProvisionedUnit   a provider's reserved throughput, by the hour
    RatePrice         everything else that has a unit: storage, egress, spans, tool calls, an engineer's hour
    Discount          what the user pays less than the list
    ExchangeRate      a dated rate the user gave; nothing is converted without one
    MissingPrice      the answer where the book has no price: a value that says what to give, never 0

The unit of an amount contains its currency: `EUR/h`, `USD/token`. `lookup.py` finds prices, `effective.py` turns them
into USD per device-hour, `age.py` names the old ones.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence
from ullage.prices.items import ITEMS
from ullage.prices.purchase import Purchase

ANYWHERE = ""
"""The region of a price that holds wherever its provider is."""


@dataclass(frozen=True, kw_only=True)
class DevicePrice:
    """An instance by the hour, and how many of which device are in it.

    `hourly` is for the whole instance. `upfront` is paid once for the term of a commitment. `interruptions` are how
    often spot takes a running instance away, per hour. `excludes` names what must be bought beside it: some
    providers price the device alone and the machine around it extra.
    """

    provider: str
    region: str
    device: str
    devices: int
    purchase: Purchase
    hourly: Assumption
    zone: str = ""
    instance: str = ""
    upfront: Assumption | None = None
    interruptions: Assumption | None = None
    excludes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Two prices with one key are about the same thing."""
        return (self.provider, self.region, self.zone, self.instance, self.device, str(self.purchase))

    @property
    def amounts(self) -> tuple[Assumption, ...]:
        return tuple(each for each in (self.hourly, self.upfront, self.interruptions) if each is not None)


@dataclass(frozen=True, kw_only=True)
class OwnedHardware:
    """A machine of one's own. `capex` holds all that was bought with it: host, fabric share, installation.

    `power` is what the machine draws on average while it runs, and `cooling` the facility's power over it (PUE).
    `space` is paid by the kilowatt and month, `staff` by the machine and month; `upkeep` and `capital` are shares of
    what is bound in it, by the year.
    """

    region: str
    device: str
    devices: int
    capex: Assumption
    residual: Assumption
    life: Assumption
    power: Assumption
    cooling: Assumption
    electricity: Assumption
    space: Assumption
    staff: Assumption
    upkeep: Assumption
    capital: Assumption
    provider: str = "own"

    @property
    def key(self) -> tuple[str, ...]:
        return (self.provider, self.region, self.device)

    @property
    def amounts(self) -> tuple[Assumption, ...]:
        costs = (self.capex, self.residual, self.life, self.power, self.cooling, self.electricity)
        return (*costs, self.space, self.staff, self.upkeep, self.capital)


class Tier(enum.StrEnum):
    """How a provider serves a request: now, some time today, or before others."""

    STANDARD = "standard"
    BATCH = "batch"
    FLEX = "flex"
    PRIORITY = "priority"


class TokenKind(enum.StrEnum):
    """What a token is to a provider's bill."""

    INPUT = "input"
    OUTPUT = "output"
    CACHED_READ = "cached read"
    CACHE_WRITE = "cache write"


@dataclass(frozen=True, kw_only=True)
class TokenPrice:
    """A provider's price of a model's tokens in one tier, for prompts of `from_prompt_tokens` or more.

    A kind that is None has no price of its own in this list: that is not free, and the look-up says so.
    """

    provider: str
    model: str
    input: Assumption | None
    output: Assumption | None
    cached_read: Assumption | None = None
    cache_write: Assumption | None = None
    tier: Tier = Tier.STANDARD
    region: str = ANYWHERE
    from_prompt_tokens: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        return (self.provider, self.region, self.model, str(self.tier), str(self.from_prompt_tokens))

    def of(self, kind: TokenKind) -> Assumption | None:
        return {
            TokenKind.INPUT: self.input,
            TokenKind.OUTPUT: self.output,
            TokenKind.CACHED_READ: self.cached_read,
            TokenKind.CACHE_WRITE: self.cache_write,
        }[kind]

    @property
    def amounts(self) -> tuple[Assumption, ...]:
        return tuple(each for each in map(self.of, TokenKind) if each is not None)


@dataclass(frozen=True, kw_only=True)
class ProvisionedUnit:
    """A provider's reserved throughput: what one unit costs per hour and how many tokens per second it carries.

    `least_units` is the smallest order, `step_units` the size of the next.
    """

    provider: str
    model: str
    unit: str
    hourly: Assumption
    input_rate: Assumption | None
    output_rate: Assumption | None
    least_units: int
    step_units: int
    purchase: Purchase = Purchase.ON_DEMAND
    region: str = ANYWHERE

    @property
    def key(self) -> tuple[str, ...]:
        return (self.provider, self.region, self.model, self.unit, str(self.purchase))

    @property
    def amounts(self) -> tuple[Assumption, ...]:
        return tuple(each for each in (self.hourly, self.input_rate, self.output_rate) if each is not None)


@dataclass(frozen=True, kw_only=True)
class RatePrice:
    """One unit of an item of `ITEMS`; `name` tells two of a kind apart (which tool, which storage class)."""

    item: str
    amount: Assumption
    provider: str = ""
    region: str = ANYWHERE
    name: str = ""

    def __post_init__(self) -> None:
        per = per_of(self.amount)
        if self.item not in ITEMS or ITEMS[self.item].per != per:
            raise ValueError(f"{self.item!r} is not an item priced per {per!r}")

    @property
    def key(self) -> tuple[str, ...]:
        return (self.provider, self.region, self.item, self.name)

    @property
    def amounts(self) -> tuple[Assumption, ...]:
        return (self.amount,)


TOKENS = "tokens"
PROVISIONED = "provisioned"
# Providers grant agreed discounts on list prices. Spot is an auction, a bill is already discounted, own is own.
DISCOUNTED = (
    *(str(each) for each in Purchase if each not in (Purchase.SPOT, Purchase.OWNED, Purchase.BILLED)),
    TOKENS,
    PROVISIONED,
    *ITEMS,
)


@dataclass(frozen=True, kw_only=True)
class Discount:
    """The share by which the user pays a provider less than its list, and on what: purchases, tokens, items."""

    provider: str
    share: Assumption
    covers: tuple[str, ...] = DISCOUNTED


@dataclass(frozen=True, kw_only=True)
class ExchangeRate:
    """How many USD one unit of a currency is, on the date of the rate's source. Only the user gives these."""

    currency: str
    rate: Assumption


@dataclass(frozen=True, kw_only=True)
class MissingPrice:
    """The answer where there is no price: of what, why not, and what to give. Printed as `not priced`, never as 0."""

    what: str
    why: str
    fix: str

    def __str__(self) -> str:
        return f"not priced: {self.what}: {self.why}. {self.fix}"


AnyPrice = DevicePrice | OwnedHardware | TokenPrice | ProvisionedUnit | RatePrice


@dataclass(frozen=True, kw_only=True)
class PriceBook:
    """All known prices. Device prices are kept by device and token prices by model, for they are many.

    `notes` are about the files that prices were read from: rows dropped, and anomalies.
    `as_of` is the day on which their ages are counted; without one no age is given.
    """

    devices: Mapping[str, tuple[DevicePrice, ...]] = field(default_factory=dict)
    owned: tuple[OwnedHardware, ...] = ()
    tokens: Mapping[str, tuple[TokenPrice, ...]] = field(default_factory=dict)
    provisioned: tuple[ProvisionedUnit, ...] = ()
    rates: tuple[RatePrice, ...] = ()
    discounts: tuple[Discount, ...] = ()
    exchange: tuple[ExchangeRate, ...] = ()
    notes: tuple[str, ...] = ()
    as_of: datetime.date | None = None

    def __iter__(self) -> Iterator[AnyPrice]:
        for device in self.devices.values():
            yield from device
        yield from self.owned
        for model in self.tokens.values():
            yield from model
        yield from self.provisioned
        yield from self.rates

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def providers(self) -> tuple[str, ...]:
        """Every provider the book has a price of, in order of name."""
        return tuple(self._places)

    def regions(self, provider: str) -> tuple[str, ...]:
        """Every region the book has a price of this provider for, in order of name; one is empty for `anywhere`."""
        return self._places.get(provider, ())

    @functools.cached_property
    def _places(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, set[str]] = {}
        for each in self:
            if each.provider:
                found.setdefault(each.provider, set()).add(each.region)
        return {provider: tuple(sorted(found[provider])) for provider in sorted(found)}

    def over(self, below: PriceBook) -> PriceBook:
        """This book on top of another: a price here replaces the one there about the same thing."""
        prices = {(type(each), each.key): each for book in (below, self) for each in book}
        return dataclasses.replace(
            price_book(prices.values()),
            discounts=(*self.discounts, *(each for each in below.discounts if each not in self.discounts)),
            exchange=tuple({each.currency: each for each in (*below.exchange, *self.exchange)}.values()),
            notes=(*self.notes, *below.notes),
            as_of=self.as_of or below.as_of,
        )


def price_book(
    prices: Iterable[AnyPrice], *, discounts: Iterable[Discount] = (), exchange: Iterable[ExchangeRate] = ()
) -> PriceBook:
    """A book of these prices. Two prices about the same thing are an error: which one holds would be a guess."""
    kept: dict[tuple[type, tuple[str, ...]], AnyPrice] = {}
    for each in prices:
        if (type(each), each.key) in kept:
            raise InputError(
                field="prices",
                value=" ".join(part for part in each.key if part),
                problem="is priced twice",
                fix="Keep one of the two prices.",
            )
        kept[type(each), each.key] = each
    found = list(kept.values())
    devices: dict[str, list[DevicePrice]] = {}
    tokens: dict[str, list[TokenPrice]] = {}
    for each in found:
        if isinstance(each, DevicePrice):
            devices.setdefault(each.device, []).append(each)
        if isinstance(each, TokenPrice):
            tokens.setdefault(each.model, []).append(each)
    return PriceBook(
        devices={name: tuple(each) for name, each in devices.items()},
        owned=tuple(each for each in found if isinstance(each, OwnedHardware)),
        tokens={name: tuple(each) for name, each in tokens.items()},
        provisioned=tuple(each for each in found if isinstance(each, ProvisionedUnit)),
        rates=tuple(each for each in found if isinstance(each, RatePrice)),
        discounts=tuple(discounts),
        exchange=tuple(exchange),
    )


def is_own_price(price: AnyPrice) -> bool:
    """Whether the user stated this price or was billed it; such a price comes before any list."""
    return is_own(price.amounts[0])


def is_own(amount: Assumption) -> bool:
    """Whether an amount is the user's: stated or billed, and so after every discount."""
    return amount.evidence in (Evidence.STATED, Evidence.MEASURED)


def currency_of(amount: Assumption) -> str:
    """The currency of an amount: `EUR` of `EUR/h`."""
    return amount.unit.partition("/")[0]


def per_of(amount: Assumption) -> str:
    """What an amount is per: `h` of `EUR/h`."""
    return amount.unit.partition("/")[2]
