"""A FOCUS file keeps the rules of FOCUS, sums to its charges, and each rule catches what it is for."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.cost.charges import Allocation, ChargeRow, Commitment, Period
from ullage.emit.focus import focus_csv
from ullage.emit.focus_rules import ALLOCATED, COLUMNS, SUBCATEGORIES, problems
from ullage.errors import InternalError

NOVEMBER = Period(
    start=datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC), end=datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
)
USE = ChargeRow(
    provider="aws",
    service="Self-hosted inference",
    service_category="Compute",
    service_subcategory="Virtual Machines",
    sku="p5.48xlarge",
    description="steady replicas of chat",
    category="Usage",
    pricing="Standard",
    quantity=Decimal("2190"),
    unit="Hours",
    list=Decimal("120537.60"),
    contracted=Decimal("108483.84"),
    billed=Decimal("108483.84"),
    effective=Decimal("108483.84"),
    period=NOVEMBER,
    billing_period=NOVEMBER,
    region="us-east-1",
    resource_id="pool/chat",
    resource_name="chat",
    resource_type="Pool",
    tags={"product": "assistant", "tenant": "north"},
)
COMMITTED = dataclasses.replace(
    USE,
    pricing="Committed",
    billed=Decimal(0),
    commitment=Commitment(
        id="c-1", name="three years", kind="Reserved Instance", quantity=Decimal(2190), unit="Hours", is_used=True
    ),
)
SPLIT = dataclasses.replace(
    USE,
    allocation=Allocation(
        method="gpu-time",
        ratio=Decimal("0.37"),
        details={"Basis": "usage"},
        resource_id="tenant/north",
        resource_name="north",
        tags={"tenant": "north"},
    ),
    own={"x_Evidence": "assumed", "x_Share": Decimal("0.37")},
)
CREDIT = dataclasses.replace(
    USE,
    category="Credit",
    billed=Decimal("-40"),
    effective=Decimal("-40"),
    list=Decimal("-40"),
    contracted=Decimal(-40),
)


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_columns_are_those_of_the_specification(shared_data: Path) -> None:
    with (shared_data / "prices" / "focus_v1.2_columns.csv").open(encoding="utf-8") as file:
        published = {row["column"]: row for row in csv.DictReader(file)}
    ours = {name: column for name, column in COLUMNS.items() if column.level != ALLOCATED}
    assert set(ours) == set(published)
    for name, column in ours.items():
        row = published[name]
        stated = (row["feature_level"], row["allows_nulls"] == "True", row["data_type"])
        assert (column.level, column.nulls, column.type) == stated, name
        assert bool(column.values) == (row["value_format"].lower() == "allowed values"), name


def test_version_1_3_adds_five_columns() -> None:
    added = {name for name, column in COLUMNS.items() if column.level == ALLOCATED}
    resource = {"AllocatedResourceId", "AllocatedResourceName"}
    assert added == {"AllocatedMethodId", "AllocatedMethodDetails", "AllocatedTags", *resource}


@pytest.mark.parametrize("row", [USE, COMMITTED, SPLIT, CREDIT])
def test_each_kind_of_charge_keeps_the_rules(row: ChargeRow) -> None:
    assert problems(focus_csv([row], account_id="svc-1")) == []


def test_a_file_says_what_its_rows_say() -> None:
    use, split = _rows(focus_csv([USE, SPLIT], account_id="svc-1", account_name="Assistant"))
    assert use["BilledCost"] == "108483.84"
    assert use["ListUnitPrice"] == "55.04"
    assert use["BillingAccountName"] == "Assistant"
    assert (use["ChargePeriodStart"], use["ChargePeriodEnd"]) == ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
    assert json.loads(use["Tags"]) == {"product": "assistant", "tenant": "north"}
    assert (use["PricingQuantity"], use["AllocatedMethodId"], use["x_Share"]) == ("2190.0", "", "")
    assert (split["AllocatedMethodId"], split["x_Share"], split["x_Evidence"]) == ("gpu-time", "0.37", "assumed")
    assert json.loads(split["AllocatedMethodDetails"]) == {"Elements": [{"AllocatedRatio": 0.37, "x_Basis": "usage"}]}
    assert (split["ResourceId"], split["AllocatedResourceId"]) == ("pool/chat", "tenant/north")
    assert json.loads(split["AllocatedTags"]) == {"tenant": "north"}


def test_a_commitment_is_paid_before_and_effective_now() -> None:
    unused = dataclasses.replace(COMMITTED, commitment=dataclasses.replace(COMMITTED.commitment, is_used=False))  # type: ignore[type-var]
    used_row, unused_row = _rows(focus_csv([COMMITTED, unused], account_id="svc-1"))
    assert (used_row["BilledCost"], used_row["EffectiveCost"]) == ("0.0", "108483.84")
    assert (used_row["CommitmentDiscountStatus"], used_row["ConsumedQuantity"]) == ("Used", "2190.0")
    assert (unused_row["CommitmentDiscountStatus"], unused_row["ConsumedQuantity"]) == ("Unused", "")


def test_a_charge_that_is_not_by_the_unit_has_no_unit_price() -> None:
    (row,) = _rows(focus_csv([CREDIT], account_id="svc-1"))
    assert row["BilledCost"] == "-40.0"
    assert (row["ListUnitPrice"], row["PricingQuantity"], row["SkuId"]) == ("", "", "")


def test_the_columns_that_tools_look_for_stand_in_every_file() -> None:
    (plain,) = _rows(focus_csv([USE], account_id="svc-1"))
    assert {"CommitmentDiscountId", "SubAccountId", "Tags", "AvailabilityZone", "ConsumedUnit"} <= set(plain)
    assert not {name for name in plain if name.startswith("Allocated")}
    (split,) = _rows(focus_csv([SPLIT], account_id="svc-1"))
    assert {name for name, column in COLUMNS.items() if column.level == ALLOCATED} <= set(split)


_CENTS = st.integers(min_value=0, max_value=10**12).map(lambda cents: Decimal(cents).scaleb(-2))
_QUANTITIES = st.decimals(min_value="0.000001", max_value="1e15", places=6)


@given(st.lists(st.tuples(_CENTS, _QUANTITIES), min_size=1, max_size=8))
def test_rows_sum_to_the_bill_and_products_match_whatever_the_amounts(charges: list[tuple[Decimal, Decimal]]) -> None:
    rows = [
        dataclasses.replace(USE, list=cost, contracted=cost, billed=cost, effective=cost, quantity=quantity)
        for cost, quantity in charges
    ]
    read = _rows(focus_csv(rows, account_id="svc-1"))
    assert sum(Decimal(row["BilledCost"]) for row in read) == sum(cost for cost, _ in charges)
    for row in read:
        assert abs(
            Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"]) - Decimal(row["ListCost"])
        ) < Decimal("0.0001")


@pytest.mark.slow
@given(st.dictionaries(st.text(min_size=1, max_size=12), st.text(max_size=20), max_size=4))
def test_any_tag_survives_the_file(tags: dict[str, str]) -> None:
    (row,) = _rows(focus_csv([dataclasses.replace(USE, tags=tags)], account_id="svc-1"))
    assert (json.loads(row["Tags"]) if row.get("Tags") else {}) == tags


@pytest.mark.parametrize(
    ("column", "value", "anomaly"),
    [
        ("BilledCost", "108483", "row 1: BilledCost: '108483' is not a decimal with its point"),
        ("BilledCost", "", "row 1: BilledCost: must not be null"),
        ("BillingCurrency", "usd", "row 1: BillingCurrency: 'usd' is not a three-letter currency"),
        ("ChargeCategory", "Rent", "row 1: ChargeCategory: 'Rent' is not an allowed value"),
        ("ChargePeriodStart", "2026-11-01 00:00", "row 1: ChargePeriodStart: '2026-11-01 00:00' is not a UTC time"),
        ("ChargePeriodEnd", "2026-10-01T00:00:00Z", "row 1: ChargePeriodEnd: is not after ChargePeriodStart"),
        ("ListCost", "120537.7", "row 1: ListCost: 120537.7 is not ListUnitPrice x PricingQuantity"),
        ("ListUnitPrice", "", "row 1: ListUnitPrice: must not be null for Usage"),
        ("PricingUnit", "", "row 1: PricingUnit: must be null where PricingQuantity is, and not where it is not"),
        ("RegionName", "", "row 1: RegionName: must be null where RegionId is, and not where it is not"),
        ("ServiceSubcategory", "Object Storage", "row 1: ServiceSubcategory: 'Object Storage' is not of the category"),
        ("ChargeCategory", "Purchase", "row 1: ChargeFrequency: a purchase is not Usage-Based"),
        ("ChargeCategory", "Tax", "row 1: SkuId: must be null for a tax"),
        ("Tags", "north", "row 1: Tags: 'north' is not JSON"),
        ("Tags", '{"a": {"b": 1}}', 'row 1: Tags: \'{"a": {"b": 1}}\' is not a flat object of keys and values'),
    ],
)
def test_a_planted_breach_is_named(column: str, value: str, anomaly: str) -> None:
    (row,) = _rows(focus_csv([USE], account_id="svc-1"))
    found = problems(_text([{**row, column: value}]))
    assert any(each.startswith(anomaly) for each in found), found


@pytest.mark.parametrize(
    ("details", "problem"),
    [
        ("{}", "has no Elements"),
        ('{"Elements": []}', "has no Elements"),
        ('{"Elements": [{}]}', "has an element without a ratio from 0 to 1"),
        ('{"Elements": [{"AllocatedRatio": 1.2}]}', "has an element without a ratio from 0 to 1"),
        ('{"Elements": [{"AllocatedRatio": 0.2, "Basis": "a"}]}', "has a key of its own that does not start with x_"),
        ("usage", "is not JSON"),
    ],
)
def test_a_split_says_its_ratio(details: str, problem: str) -> None:
    (row,) = _rows(focus_csv([SPLIT], account_id="svc-1"))
    found = problems(_text([{**row, "AllocatedMethodDetails": details}]))
    assert found == [f"row 1: AllocatedMethodDetails: {details!r} {problem}"]


def test_an_absent_mandatory_column_and_a_foreign_one_are_named() -> None:
    (row,) = _rows(focus_csv([USE], account_id="svc-1"))
    del row["ProviderName"]
    assert problems(_text([{**row, "Team": "north"}])) == [
        "header: ProviderName: is mandatory and absent",
        "header: Team: is not a column of FOCUS; one of your own starts with x_",
    ]


def test_a_cut_file_is_named() -> None:
    text = focus_csv([USE, USE], account_id="svc-1")
    assert problems(text[: len(text) - 200]) == ["row 2: has not as many cells as the header"]


def test_a_file_that_breaks_a_rule_is_never_handed_out() -> None:
    with pytest.raises(InternalError, match="a FOCUS file keeps the rules of FOCUS"):
        focus_csv([dataclasses.replace(USE, service_category="Machines")], account_id="svc-1")


def test_a_period_ends_after_it_starts() -> None:
    with pytest.raises(ValueError, match="starts before it ends"):
        Period(start=NOVEMBER.end, end=NOVEMBER.start)


def test_every_category_has_a_place_for_the_rest() -> None:
    assert all(names[-1] == f"Other ({category})" for category, names in SUBCATEGORIES.items())


def _text(rows: list[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
