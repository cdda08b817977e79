"""Lines around the devices: storage, network, provider tokens, tools, observability, evaluation, engineering."""

from __future__ import annotations

from ullage.cost.lines.line import Amount, Behaviour, BillLine, Driver
from ullage.cost.lines.line_making import not_priced, priced_line
from ullage.cost.lines.provider import bought_tokens, provider_usd
from ullage.cost.policy import CostPolicy, Judging
from ullage.cost.quotes import Quotes
from ullage.cost.service_use import Named, ServiceUse
from ullage.evidence import Assumption, number
from ullage.prices.book import MissingPrice, TokenKind
from ullage.prices.items import ITEMS
from ullage.prices.purchase import HOURS_PER_MONTH

_ASKED = (TokenKind.INPUT, TokenKind.OUTPUT, TokenKind.CACHED_READ)


def _line(
    name: str,
    item: str,
    quotes: Quotes,
    price_of: str,
    quantity: float,
    formula: str,
    inputs: tuple[Named, ...],
    *,
    pool: str = "",
    driver: Driver | None = None,
    behaviour: Behaviour | None = None,
) -> BillLine:
    """Quantity times the price of an item, or what is missing."""
    price = quotes.item(price_of)
    if isinstance(price, MissingPrice):
        return not_priced(name, price, item=item, pool=pool)
    return priced_line(
        name,
        quantity * float(price.value),
        amount=Amount(value=quantity, unit=_plural(ITEMS[price_of].per)),
        item=item,
        pool=pool,
        formula=formula,
        inputs=(price, *inputs),
        driver=driver,
        behaviour=behaviour,
    )


def _plural(unit: str) -> str:
    return "hours" if unit == "h" else f"{unit}s"


def _months(policy: CostPolicy) -> float:
    return policy.period_hours / HOURS_PER_MONTH


def storage(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Weights in the store of each region and on the disk of each replica, and logs for as long as they are kept."""
    lines = []
    for pool in use.pools:
        if pool.weights_bytes is None:
            lines.append(not_priced("storage", "The size of the weights is unknown.", item="weights", pool=pool.name))
            continue
        copies = {
            "store": ("object-storage", policy.store_copies, 1, "weights x copies in the region's store"),
            "disks": ("block-storage", policy.disk_copies, pool.replicas, "weights x replicas, reserves included"),
        }
        lines += [
            _line(
                "storage",
                item,
                quotes,
                price_of,
                pool.weights_bytes * number(per) * count * _months(policy),
                formula,
                (per, policy.period, *pool.basis),
                pool=pool.name,
            )
            for item, (price_of, per, count, formula) in copies.items()
        ]
    kept_bytes = use.requests * number(policy.log_bytes) * number(policy.log_retention)
    lines.append(
        _line(
            "storage",
            "logs",
            quotes,
            "log-storage",
            kept_bytes,
            "requests x log bytes x months they are kept",
            (policy.log_bytes, policy.log_retention, *use.basis),
            driver=Driver.REQUESTS,
            behaviour=Behaviour.VARIABLE,
        )
    )
    return tuple(lines)


def network(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Answers that leave for the internet, and what crosses zones on its way."""
    answer_bytes = use.total("output_tokens") * number(policy.answer_bytes)
    prompt_bytes = use.total("prompt_tokens") * number(policy.prompt_bytes)
    lines = [
        _line(
            "network",
            "egress",
            quotes,
            "egress",
            answer_bytes * number(policy.egress_share),
            "output tokens x bytes per token x share that leaves for the internet",
            (policy.answer_bytes, policy.egress_share, *use.basis),
        )
    ]
    if policy.zone_share is None:
        lines.append(
            not_priced("network", "Traffic across zones is unknown. Give cost.zone_share.", item="between zones")
        )
    else:
        lines.append(
            _line(
                "network",
                "between zones",
                quotes,
                "zone-network",
                (answer_bytes + prompt_bytes) * number(policy.zone_share),
                "bytes of prompts and answers x share that crosses zones",
                (policy.answer_bytes, policy.prompt_bytes, policy.zone_share, *use.basis),
            )
        )
    return tuple(lines)


def provider_tokens(use: ServiceUse, quotes: Quotes, _policy: CostPolicy) -> tuple[BillLine, ...]:
    """Tokens bought from providers, by class, and what is written to their caches; failed ones are failed work."""
    if use.providers is None:
        missing = "Whether a provider serves part of it is not stated. Give cost.bought, [] for none."
        return (not_priced("provider_tokens", missing),)
    lines = []
    for each in use.providers:
        parts: dict[str, tuple[tuple[TokenKind, ...], str]] = {
            f"{each.class_name} {each.provider}": (_ASKED, "prompt, cached and output tokens, each x its price")
        }
        if each.written_tokens:
            parts[f"{each.class_name} cache writes {each.provider}"] = (
                (TokenKind.CACHE_WRITE,), "prompt tokens written to the cache x price of a write")  # fmt: skip
        for item, (kinds, formula) in parts.items():
            usd = provider_usd(each, quotes, kinds)
            if isinstance(usd, MissingPrice):
                lines.append(not_priced("provider_tokens", usd, item=item))
                continue
            tokens = sum(bought_tokens(each)[kind] for kind in kinds)
            lines.append(
                priced_line(
                    "provider_tokens",
                    usd[0] * (1.0 - each.failed_fraction),
                    amount=Amount(value=tokens * (1.0 - each.failed_fraction), unit="tokens"),
                    item=item,
                    formula=f"{formula}, less failed work",
                    inputs=(*usd[1], *each.basis),
                    owners={"class": each.class_name, "model": each.model},
                )
            )
    return tuple(lines)


def tool_apis(use: ServiceUse, quotes: Quotes, _policy: CostPolicy) -> tuple[BillLine, ...]:
    """Calls of outside tools, by tool."""
    if use.tools is None:
        return (not_priced("tool_apis", "Which tools are called is not stated. Give cost.tool_calls, {} for none."),)
    lines = []
    for each in use.tools:
        price = quotes.item("tool-call", each.name)
        if isinstance(price, MissingPrice):
            lines.append(not_priced("tool_apis", price, item=each.name))
            continue
        lines.append(
            priced_line(
                "tool_apis",
                each.calls * float(price.value),
                amount=Amount(value=each.calls, unit="calls"),
                item=each.name,
                formula="calls x price of a call",
                inputs=(price, *each.basis),
            )
        )
    return tuple(lines)


def observability(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Spans, logs taken in, and metrics of every replica."""
    replicas = sum(each.replicas for each in use.pools)
    pools = tuple(one for each in use.pools for one in each.basis)
    return (
        _line(
            "observability",
            "spans",
            quotes,
            "span",
            use.requests * number(policy.spans),
            "requests x spans per request",
            (policy.spans, *use.basis),
        ),
        _line(
            "observability",
            "logs",
            quotes,
            "log-ingest",
            use.requests * number(policy.log_bytes),
            "requests x log bytes per request",
            (policy.log_bytes, *use.basis),
        ),
        _line(
            "observability",
            "metrics",
            quotes,
            "metric-series",
            replicas * number(policy.series) * _months(policy),
            "replicas, reserves included, x series per replica",
            (policy.series, policy.period, *pools),
            driver=Driver.FIXED,
            behaviour=Behaviour.FIXED,
        ),
    )


def evaluation(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Answers judged: a share of traffic, and the suites of every release."""
    judging = policy.judging
    if judging is None:
        missing = "Evaluation of answers is not stated. Give cost.evaluation: share, suites, items."
        return (not_priced("evaluation", missing),)
    price = _judgement(quotes, judging)
    if isinstance(price, MissingPrice):
        return (not_priced("evaluation", price),)
    usd, inputs = price
    sampled = use.requests * number(judging.sampled_share)
    suites = number(judging.suites) * number(judging.suite_items) * _months(policy)
    return (
        priced_line(
            "evaluation",
            sampled * usd,
            amount=Amount(value=sampled, unit="judgements"),
            item="sampled",
            formula="requests x share evaluated x price of an evaluation",
            inputs=(judging.sampled_share, *inputs, *use.basis),
        ),
        priced_line(
            "evaluation",
            suites * usd,
            amount=Amount(value=suites, unit="judgements"),
            item="releases",
            formula="suites per month x items x price of an evaluation",
            inputs=(judging.suites, judging.suite_items, policy.period, *inputs),
            driver=Driver.FIXED,
            behaviour=Behaviour.FIXED,
        ),
    )


def _judgement(quotes: Quotes, judging: Judging) -> tuple[float, tuple[Named, ...]] | MissingPrice:
    """What one judgement costs: its tokens where a model judges, else the price of one evaluation."""
    if not judging.model:
        price = quotes.item("evaluation")
        return price if isinstance(price, MissingPrice) else (float(price.value), (price,))
    if judging.prompt is None or judging.output is None:
        return MissingPrice(
            what=f"an evaluation by {judging.model}",
            why="its length is not given",
            fix="Give cost.evaluation.prompt_tokens and output_tokens.",
        )
    usd = 0.0
    inputs: list[Named] = []
    lengths: dict[TokenKind, Assumption] = {TokenKind.INPUT: judging.prompt, TokenKind.OUTPUT: judging.output}
    for kind, tokens in lengths.items():
        price = quotes.token(judging.provider, judging.model, kind)
        if isinstance(price, MissingPrice):
            return price
        usd += number(tokens) * float(price.value)
        inputs += [tokens, price]
    return usd, tuple(inputs)


def engineering(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Hours of engineers for every pool: on call, and for changes."""
    lines = []
    for item, hours, key in (("on call", policy.on_call, "on_call"), ("changes", policy.changes, "changes")):
        if hours is None:
            missing = f"Hours per pool and month are not stated. Give cost.engineering.{key}."
            lines.append(not_priced("engineering", missing, item=item))
            continue
        lines.append(
            _line(
                "engineering",
                item,
                quotes,
                "engineering",
                len(use.pools) * number(hours) * _months(policy),
                "pools x hours per pool and month x price per hour",
                (hours, policy.period),
            )
        )
    return tuple(lines)
