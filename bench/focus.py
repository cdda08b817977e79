"""What focus-validator of PyPI says of our FOCUS files: which rules of version 1.0 they break, and why.

    python -m bench.focus --validator VENV/bin/focus-validator

The validator lives in an environment of its own (it needs multimethod below 2). It knows versions 0.5 and 1.0; our
files are of 1.2, which has every column of 1.0. Its own rules of 1.0 still ask for four columns by their names of 0.5
and for one column that 1.0 does not have, and its package lacks the list of currencies: those are listed, anything
else fails.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.worlds import world_bill
from ullage.cost.attribution.attribution import AttributionChoice, attribute
from ullage.cost.attribution.usage import GroupUse
from ullage.cost.bill_charges import charge_rows, month_after
from ullage.emit.focus import focus_csv

OWN_FAULTS = {
    "BillingCurrency_IsCurrencyCode": "the package lacks its list of currencies",
    "InvoiceIssuer_Required": "InvoiceIssuerName in 1.0",
    "Provider_Required": "ProviderName in 1.0",
    "Publisher_Required": "PublisherName in 1.0",
    "ResourceID_Required": "ResourceId in 1.0",
    "SkuPriceId_Nullable": "looks at ChargeType, which is ChargeCategory in 1.0",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--validator", default=shutil.which("focus-validator"))
    program = parser.parse_args().validator
    if program is None:
        sys.exit("focus-validator is not installed; give --validator")
    broken: set[str] = set()
    for name, text in _files().items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "focus.csv"
            file.write_text(text)
            asked = [program, "--data-file", str(file), "--validate-version", "1.0"]
            said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        found = set(re.findall(r"^(\w+) failed:$", said, flags=re.MULTILINE))
        if "Validation" not in said:
            sys.exit(f"the validator did not run: {said[-300:]}")
        broken |= found
        print(f"{name}: {len(found)} rules of 1.0 broken, {len(found - set(OWN_FAULTS))} of them by us")
    for rule in sorted(broken):
        print(f"  {rule}: {OWN_FAULTS.get(rule, 'OURS')}")
    sys.exit(1 if broken - set(OWN_FAULTS) else 0)


def _files() -> dict[str, str]:
    bill, period = world_bill(), month_after(datetime.date(2026, 11, 16))
    each = bill.use.classes[0]
    use = GroupUse(
        name="search / chat",
        requests=each.requests,
        successes=each.successes,
        prompt_tokens=each.prompt_tokens,
        output_tokens=each.output_tokens,
        cached_tokens=each.cached_tokens,
        gpu_s=each.gpu_s,
        failed_gpu_s=each.failed_gpu_s,
    )
    divided = attribute(bill.lines, {"main": (use,)}, AttributionChoice(by="product,class"))
    return {
        "whole": focus_csv(charge_rows(bill, period), account_id="plan", account_name="plan"),
        "divided": focus_csv(charge_rows(bill, period, divided), account_id="plan", account_name="plan"),
    }


if __name__ == "__main__":
    main()
