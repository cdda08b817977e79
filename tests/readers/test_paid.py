"""What was paid: FOCUS and OpenCost, summed over the charges that begin in the stretch, and nothing guessed."""

from __future__ import annotations

import csv
import datetime
import json
from decimal import Decimal
from pathlib import Path

import pytest

from support.shared_data import ABSENT, find_shared_data
from ullage.errors import InputError
from ullage.readers.paid import read_paid

START_S = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC).timestamp()
END_S = START_S + 7 * 86_400.0
FOCUS = """\
ChargePeriodStart,EffectiveCost,BillingCurrency
2026-10-31T23:00:00Z,99.5,USD
2026-11-01T00:00:00Z,10.25,USD
2026-11-07T23:00:00+00:00,20,USD
2026-11-08T00:00:00Z,77,USD
"""


def test_focus_charges_count_where_their_period_begins(tmp_path: Path) -> None:
    file = tmp_path / "focus.csv"
    file.write_text(FOCUS)
    found = read_paid(file, start_s=START_S, end_s=END_S)
    assert (found.usd, found.charges, found.outside_charges) == (30.25, 2, 2)


@pytest.mark.parametrize(
    "columns",
    [
        "line_item_usage_start_date,line_item_unblended_cost,line_item_currency_code",
        "lineItem/UsageStartDate,lineItem/UnblendedCost,lineItem/CurrencyCode",
    ],
)
def test_a_cost_and_usage_report_counts_as_invoiced(columns: str, tmp_path: Path) -> None:
    file = tmp_path / "cur.csv"
    file.write_text(FOCUS.replace(FOCUS.partition("\n")[0], columns))
    found = read_paid(file, start_s=START_S, end_s=END_S)
    assert (found.usd, found.charges, found.outside_charges) == (30.25, 2, 2)


REPORT, SAMPLE = "aws_cur.log", "focus_sample.csv"


@pytest.mark.skipif(find_shared_data() is None, reason=ABSENT)
@pytest.mark.parametrize(
    ("name", "column"), [(REPORT, "line_item_unblended_cost"), (SAMPLE, "EffectiveCost")], ids=[REPORT, SAMPLE]
)
def test_a_real_export_comes_to_its_own_total(name: str, column: str) -> None:
    shared = find_shared_data()
    assert shared is not None
    file = shared / "found" / name
    with file.open(encoding="utf-8-sig") as text:
        own = [Decimal(row[column]) for row in csv.DictReader(text)]
    found = read_paid(file, start_s=0.0, end_s=END_S)
    assert found.charges == len(own)
    assert found.usd == pytest.approx(float(sum(own)), abs=0.005)


AZURE = {
    "an export": "Date,CostInBillingCurrency,BillingCurrency\n10/31/2026,99.5,USD\n11/01/2026,1010.25,USD\n"
    "11/07/2026,20,USD\n11/08/2026,77,USD\n",
    "pay as you go": "UsageDateTime,MeterId,PreTaxCost,Currency\n2026-10-31,m,99.5,USD\n2026-11-01,m,1010.25,USD\n"
    "2026-11-07,m,20,USD\n2026-11-08,m,77,USD\n",
    "cost analysis": "UsageDate,CostUSD,Cost,Currency\n2026-10-31,99.5,90,EUR\n2026-11-01,1010.25,900,EUR\n"
    "2026-11-07,20,18,EUR\n2026-11-08,77,70,EUR\n",
    "in German": "Datum;Dienst;Kosten;Währung\n31.10.2026;VM;99,5;USD\n1.11.2026;VM;1.010,25;USD\n"
    "7.11.2026;VM;20,00;USD\n08.11.2026;VM;77;USD\n",
    "in German, with dollars": 'Datum,Kosten (USD),Kosten,Währung\n31.10.2026,"99,5","90",EUR\n'
    '1.11.2026,"1010,25","900,1",EUR\n7.11.2026,"20","18,2",EUR\n8.11.2026,"77","70",EUR\n',
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
@pytest.mark.parametrize("kind", AZURE)
def test_azures_cost_files_are_read_in_english_and_german(kind: str, encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    file.write_bytes(AZURE[kind].encode(encoding))
    found = read_paid(file, start_s=START_S, end_s=END_S)
    assert found.usd == pytest.approx(1030.25)
    assert (found.charges, found.outside_charges) == (2, 2)


def test_days_before_months_are_taken_where_a_day_proves_it(tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    file.write_text("Date,CostInUSD\n01/11/2026,5\n07/11/2026,6\n31/10/2026,9\n")
    assert read_paid(file, start_s=START_S, end_s=END_S).usd == 11


def test_allocations_are_summed_over_names_and_windows(tmp_path: Path) -> None:
    def one(day: int, cost: float) -> dict[str, object]:
        return {"window": {"start": f"2026-11-0{day}T00:00:00Z"}, "totalCost": cost}

    file = tmp_path / "allocation.json"
    file.write_text(
        json.dumps({"code": 200, "data": [{"chat": one(1, 5.0), "__idle__": one(1, 2.5)}, {"chat": one(2, 4.0)}]})
    )
    assert read_paid(file, start_s=START_S, end_s=END_S).usd == pytest.approx(11.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "not among its columns"),
        ("Date,CostInBillingCurrency\n1,2\n", "it is an Azure cost export"),
        (FOCUS.replace("USD", "EUR"), "is not USD"),
        ("Datum;Kosten;Währung\n1.11.2026;12,5;EUR\n", "is not USD.*CostUSD"),
        ("Datum;Kosten;Währung\n1.13.2026;12,5;USD\n", "is not a time"),
        ("Datum;Kosten;Währung\n1.11.2026;zwölf;USD\n", "is not an amount"),
        ("Datum;Kosten\n1.11.2026;12,5\n", "it is an Azure cost export"),
        (FOCUS.replace("10.25", "ten"), "is not an amount"),
        (FOCUS.replace("2026-11-01T00:00:00Z", "soon"), "is not a time"),
        (FOCUS.replace("2026-11", "2025-01"), "no charge in this stretch"),
        ("ChargePeriodStart,EffectiveCost,BillingCurrency\n", "has no charges"),
        ('{"data": 5}', "no data of an allocation"),
        ('{"data": [{"a": 5}]}', "is not an allocation"),
        ('{"data": [{"a": {"window": {"start": "2026-11-01"}}}]}', "is not an amount"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_not_nothing(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "paid.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read_paid(file, start_s=START_S, end_s=END_S)
