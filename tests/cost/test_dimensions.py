"""Dimensions and their pairs: pairs sum to singles, a dimension that nothing has is refused, files carry both."""

from __future__ import annotations

import csv
import datetime
import io
import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from support import bills
from ullage.cost.attribution.attribution import AttributionChoice, attribute
from ullage.cost.attribution.dimensions import DIMENSIONS, UNALLOCATED, dimensions_of, group_tags
from ullage.cost.attribution.usage import GroupUse, Labels, UsageLog, grouped
from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.bill_charges import charge_rows, month_after
from ullage.cost.service_use import ServiceUse
from ullage.emit.chargeback import chargeback_csv
from ullage.emit.focus import focus_csv
from ullage.errors import InputError

PERIOD = month_after(datetime.date(2026, 11, 16))


def _log(products: list[int], classes: list[int]) -> UsageLog:
    count = len(products)
    return UsageLog(
        labels={
            "product": Labels(names=("mail", "search"), places=np.array(products)),
            "class": Labels(names=("batch", "chat", "code"), places=np.array(classes)),
            "tenant": Labels(names=(), places=np.full(count, -1)),
        },
        prompt_tokens=np.arange(1.0, count + 1),
        output_tokens=np.ones(count),
        cached_tokens=np.zeros(count),
        successes=np.ones(count, bool),
    )


_ROWS = st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 2)), min_size=1, max_size=30)


@drawn(_ROWS)
def test_pairs_sum_to_each_of_their_dimensions(rows: list[tuple[int, int]]) -> None:
    products, classes = [one for one, _ in rows], [other for _, other in rows]
    if max(products) < 0 or max(classes) < 0:
        return
    log = _log(products, classes)
    pairs = grouped(log, "product,class")
    for dimension in ("product", "class"):
        single = {each.name: (each.requests, each.prompt_tokens) for each in grouped(log, dimension) if each.requests}
        summed: dict[str, tuple[float, float]] = {}
        for each in pairs:
            name = group_tags("product,class", each.name)[dimension]
            before = summed.get(name, (0.0, 0.0))
            summed[name] = (before[0] + each.requests, before[1] + each.prompt_tokens)
        assert summed == single


def test_half_a_name_is_kept_and_none_at_all_is_unallocated() -> None:
    names = [each.name for each in grouped(_log([0, 1, -1, -1], [1, -1, 2, -1]), "product,class")]
    assert names == ["mail / chat", "search / unallocated", "unallocated / code", UNALLOCATED]


def test_a_dimension_that_no_row_has_is_refused() -> None:
    log = _log([0, 1], [1, 1])
    with pytest.raises(InputError, match="has no tenant of requests") as refused:
        log.check_says("tenant")
    assert "class, product" in refused.value.fix
    with pytest.raises(InputError, match="has no tenant of requests"):
        log.check_says("product,tenant")
    with pytest.raises(InputError, match="has no model of requests"):
        log.labels_of("model")


@pytest.mark.parametrize("by", ["colour", "product,colour", "class,class", "product,class,model", ""])
def test_other_dimensions_are_refused(by: str) -> None:
    with pytest.raises(InputError):
        dimensions_of(by)


def test_every_pair_is_a_dimension() -> None:
    for one in DIMENSIONS:
        for other in DIMENSIONS:
            if one != other:
                assert dimensions_of(f"{one},{other}") == (one, other)


@pytest.fixture(scope="module")
def bill() -> Bill:
    pools = (bills.pool("main", reserves={"failure": 2.0}), bills.pool("side"))
    classes = (
        bills.traffic("chat", "main"),
        bills.traffic("code", "main", requests=2e5),
        bills.traffic("chat", "side"),
    )
    groups = {
        pool: tuple(
            GroupUse(
                name=each.name, requests=each.requests, successes=each.successes, prompt_tokens=each.prompt_tokens,
                output_tokens=each.output_tokens, cached_tokens=each.cached_tokens, gpu_s=each.gpu_s,
                failed_gpu_s=each.failed_gpu_s, caused_devices=float(at + 1),
            )
            for at, each in enumerate(classes)
            if each.pool == pool
        )
        for pool in ("main", "side")
    }  # fmt: skip
    use = ServiceUse(service="two", pools=pools, classes=classes, tools=(), groups={"class": groups})
    return monthly_bill(use, bills.quotes(("main", "side")), bills.policy())


@pytest.mark.parametrize("by", ["model,class", "class,model"])
def test_a_plans_models_and_classes_divide_the_bill_as_its_classes_do(bill: Bill, by: str) -> None:
    pairs, single = bill.use.groups_of(by), bill.use.groups_of("class")
    assert pairs is not None
    assert single is not None
    found = attribute(bill.lines, pairs, AttributionChoice(by=by, rule="causation"))
    alone = attribute(bill.lines, single, AttributionChoice(by="class", rule="causation"))
    assert found.total_cents == alone.total_cents == bill.total_cents
    by_class: dict[str, int] = {}
    for each in found.rows:
        name = group_tags(by, each.name)["class"]
        by_class[name] = by_class.get(name, 0) + each.total_cents
    # Cents are shared out over more rows: each line may round by one for each of them.
    for each in alone.rows:
        assert by_class[each.name] == pytest.approx(each.total_cents, abs=len(bill.lines) * len(found.rows))
    assert {each.name for each in found.rows} >= {
        " / ".join(("model-main", "code") if by == "model,class" else ("code", "model-main"))
    }


def test_focus_and_the_plain_table_carry_both_names_and_sum(bill: Bill) -> None:
    uses = bill.use.groups_of("model,class")
    assert uses is not None
    found = attribute(bill.lines, uses, AttributionChoice(by="model,class"))
    rows = charge_rows(bill, PERIOD, found)
    focus = list(csv.DictReader(io.StringIO(focus_csv(rows, account_id="plan"))))
    tags = [json.loads(each["Tags"]) for each in focus]
    assert {"model", "class"} <= set.intersection(*(set(each) for each in tags))
    assert {(each["model"], each["class"]) for each in tags} >= {("model-main", "code"), ("reserve", "reserve")}
    assert sum(Decimal(each["BilledCost"]) for each in focus) * 100 == bill.total_cents
    table = list(csv.DictReader(io.StringIO(chargeback_csv(found, PERIOD))))
    assert sum(Decimal(each["usd"]) for each in table) * 100 == bill.total_cents
    assert {each["kind"] for each in table} == {"charged", "idle", "reserve"}
    assert {each["model"] for each in table if each["kind"] == "charged"} >= {"model-main", "model-side"}
