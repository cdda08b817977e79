"""Random services and prices, small enough to read, for the laws of the bill."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from ullage.cost.policy import CostPolicy, Judging
from ullage.cost.quotes import DeviceQuote, Quotes
from ullage.cost.service_use import ClassUse, PoolUse, ProviderUse, ServiceUse, TaskUse, ToolUse
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.prices.book import MissingPrice, TokenKind
from ullage.prices.purchase import Purchase

SOURCE = Source(what="made up for a test", where="tests/support/bills.py", date=datetime.date(2026, 11, 1))
ITEMS = (
    "object-storage",
    "block-storage",
    "log-storage",
    "egress",
    "zone-network",
    "span",
    "log-ingest",
    "metric-series",
    "evaluation",
    "engineering",
    "tool-call search",
)


def given(name: str, value: float | str, unit: str = "") -> Assumption:
    return Assumption(name=name, value=value, unit=unit, evidence=Evidence.STATED, source=SOURCE)


def with_devices_at(quotes: Quotes, ratio: float) -> Quotes:
    """The same quotes with every device-hour so many times as dear."""
    return replace(
        quotes,
        devices={
            pool: each
            if isinstance(each, MissingPrice)
            else tuple(replace(one, hour=replace(one.hour, value=one.usd_per_hour * ratio)) for one in each)
            for pool, each in quotes.devices.items()
        },
    )


def without_traffic(use: ServiceUse) -> ServiceUse:
    """The same service when nobody asks: minimum replicas and reserves stand, nothing else moves."""
    return replace(
        use,
        pools=tuple(
            replace(each, steady_replicas=each.minimum_replicas, hourly_replicas=(), hourly_needed=())
            for each in use.pools
        ),
        classes=tuple(
            replace(
                each,
                requests=0.0,
                successes=0.0,
                prompt_tokens=0.0,
                output_tokens=0.0,
                cached_tokens=0.0,
                gpu_s=None if each.gpu_s is None else 0.0,
                failed_gpu_s=None if each.failed_gpu_s is None else 0.0,
            )
            for each in use.classes
        ),
        providers=None if use.providers is None else (),
        tools=None if use.tools is None else tuple(replace(each, calls=0.0) for each in use.tools),
        groups={},
    )


def price(name: str, value: float, unit: str = "USD") -> Figure:
    return Figure(name=name, value=value, unit=unit, formula="as quoted", inputs=(given(f"{name}_list", value, unit),))


BASIS = (given("replicas", 1.0, "replicas"),)


def pool(
    name: str = "main",
    *,
    replicas: float = 10,
    reserves: dict[str, float] | None = None,
    minimum: float = 0,
    stranded: float | None = 0,
    hourly: Sequence[tuple[float, float]] = (),
    capacity: float | None = None,
) -> PoolUse:
    return PoolUse(
        name=name,
        model=f"model-{name}",
        device="h100-sxm",
        replica_devices=2,
        steady_replicas=replicas,
        minimum_replicas=minimum,
        reserves={} if reserves is None else reserves,
        stranded_devices=stranded,
        hourly_replicas=tuple(paid for paid, _ in hourly),
        hourly_needed=tuple(needed for _, needed in hourly),
        capacity_requests=capacity,
        weights_bytes=64e9,
        power=given("h100-sxm.power", 700.0, "W"),
        basis=BASIS,
    )


def traffic(
    name: str = "chat",
    in_pool: str = "main",
    *,
    requests: float = 1e6,
    success: float = 0.98,
    gpu_s: float | None = 2e7,
    tokens: tuple[float, float, float] = (1000.0, 200.0, 300.0),
) -> ClassUse:
    return ClassUse(
        name=name,
        pool=in_pool,
        requests=requests,
        successes=requests * success,
        prompt_tokens=requests * tokens[0],
        output_tokens=requests * tokens[1],
        cached_tokens=requests * tokens[2],
        gpu_s=gpu_s,
        failed_gpu_s=None if gpu_s is None else gpu_s * (1.0 - success),
        basis=(given(f"demand.{name}.mean_rate", 1.0, "req/s"),),
    )


def policy(**changed: object) -> CostPolicy:
    """A policy with every driver given."""
    full = CostPolicy(
        zone_share=given("cost.zone_share", 0.5, "fraction"),
        judging=Judging(
            sampled_share=given("cost.sampled_share", 0.01, "fraction"),
            suites=given("cost.suites", 4.0, "suites/month"),
            suite_items=given("cost.suite_items", 500.0, "items"),
        ),
        on_call=given("cost.on_call", 20.0, "h"),
        changes=given("cost.changes", 30.0, "h"),
    )
    return replace(full, **changed)  # type: ignore[arg-type]


def quotes(
    pools: tuple[str, ...] = ("main",),
    *,
    hour: float = 3.0,
    committed: float = 0.0,
    items: float = 1e-6,
    tokens: float = 1e-6,
) -> Quotes:
    """The same price for everything of a kind; `committed` is the share that is bought for a year."""
    parts = {Purchase.ON_DEMAND: 1.0 - committed, Purchase.ONE_YEAR: committed}
    return Quotes(
        devices={
            name: tuple(
                DeviceQuote(
                    purchase=purchase,
                    share=given(f"share.{purchase}", share, "fraction"),
                    hour=price(f"price.{purchase}", hour * (0.7 if purchase.is_committed else 1.0)),
                )
                for purchase, share in parts.items()
                if share
            )
            for name in pools
        },
        items={name: price(f"price.{name}", items) for name in ITEMS},
        tokens={"acme model-x": {kind: price(f"price.{kind}", tokens) for kind in TokenKind}},
        dates=(datetime.date(2026, 8, 1), datetime.date(2026, 8, 1)),
        regions=("us-east-1",),
    )


MISSING = MissingPrice(what="a device-hour", why="nobody sells it", fix="Give its price.")

_COUNTS = st.integers(0, 40).map(float)
# Nothing, or an amount that can be somebody's: a ten-millionth of a request is no traffic.
_AMOUNTS = st.one_of(st.just(0.0), st.floats(1.0, 1e8))


@st.composite
def services(draw: st.DrawFn) -> ServiceUse:
    """One or two pools with classes, maybe a provider, a tool and a task."""
    names = draw(st.sampled_from([("main",), ("main", "small")]))
    pools = tuple(
        pool(
            name,
            replicas=draw(_COUNTS),
            reserves={"failure": draw(_COUNTS), "warm": draw(_COUNTS)},
            minimum=draw(_COUNTS),
            stranded=draw(st.one_of(st.none(), _COUNTS)),
            hourly=draw(st.lists(st.tuples(st.floats(0.0, 60.0), st.floats(0.0, 60.0)), max_size=4)),
            capacity=draw(st.one_of(st.none(), st.floats(1e3, 1e9))),
        )
        for name in names
    )
    classes = tuple(
        traffic(
            f"{kind}-{name}",
            name,
            requests=draw(_AMOUNTS),
            success=draw(st.integers(0, 1000)) / 1000.0,
            gpu_s=draw(st.one_of(st.none(), _AMOUNTS)),
        )
        for name in names
        for kind in ("chat", "code")
    )
    providers = draw(st.sampled_from([None, (), (bought(draw(_AMOUNTS)),)]))
    return ServiceUse(
        service="test",
        pools=pools,
        classes=classes,
        providers=providers,
        tools=draw(st.sampled_from([None, (), (ToolUse(name="search", calls=1e5, basis=BASIS),)])),
        tasks=(TaskUse(name="answer", requests={"chat-main": 2.0}, success_fraction=0.9, basis=BASIS),),
    )


def bought(requests: float, failed: float = 0.1) -> ProviderUse:
    return ProviderUse(
        provider="acme",
        model="model-x",
        class_name="hard",
        requests=requests,
        prompt_tokens=requests * 1000.0,
        output_tokens=requests * 300.0,
        cached_tokens=requests * 100.0,
        failed_fraction=failed,
        basis=BASIS,
    )


@st.composite
def any_quotes(draw: st.DrawFn) -> Quotes:
    """Prices at random, some of them missing."""
    found = quotes(
        ("main", "small"),
        hour=draw(st.floats(0.01, 100.0)),
        committed=draw(st.sampled_from([0.0, 0.3, 1.0])),
        items=draw(st.floats(0.0, 1e-3)),
        tokens=draw(st.floats(0.0, 1e-4)),
    )
    missing = draw(st.sets(st.sampled_from([*ITEMS, "main"])))
    return replace(
        found,
        items={name: MISSING if name in missing else each for name, each in found.items.items()},
        devices={name: MISSING if name in missing else each for name, each in found.devices.items()},
    )
