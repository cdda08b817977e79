"""What focus-validator of PyPI says of our FOCUS files: every rule of version 1.0 has to pass.

    python -m bench.focus --validator VENV/bin/focus-validator

The validator lives in an environment of its own (it needs multimethod below 1.12). It knows versions 0.5 and 1.0; our
files are of 1.2, which has every column of 1.0. Five of its rules of 1.0 look for a column by another name than version
1.0 gives it. Those columns are added under that name too, so that what the rule asks of the values is asked of ours.
It reads its list of currencies from where it runs, so it runs where it is installed.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
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

ASKED_AS = {
    "ChargeCategory": "ChargeType",
    "InvoiceIssuerName": "InvoiceIssuer",
    "ProviderName": "Provider",
    "PublisherName": "Publisher",
    "ResourceId": "ResourceID",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--validator", default=shutil.which("focus-validator"))
    program = parser.parse_args().validator
    if program is None:
        sys.exit("focus-validator is not installed; give --validator")
    installed = next(Path(program).absolute().parent.parent.glob("lib/python3*/site-packages"))
    broken: set[str] = set()
    for name, text in _files().items():
        for named, given in (("names of 1.0", text), ("the validator's names beside them", _with_its_names(text))):
            found = _broken_rules(program, installed, given)
            print(f"{name}, {named}: {', '.join(sorted(found)) or 'every rule of 1.0 passes'}")
        broken |= found
    sys.exit(1 if broken else 0)


def _broken_rules(program: str, installed: Path, text: str) -> set[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "focus.csv"
        file.write_text(text)
        asked = [str(Path(program).absolute()), "--data-file", str(file), "--validate-version", "1.0"]
        said = subprocess.run(asked, cwd=installed, capture_output=True, text=True, check=False).stdout
    if "Validation" not in said:
        sys.exit(f"the validator did not run: {said[-300:]}")
    return set(re.findall(r"^(\w+) failed:$", said, flags=re.MULTILINE))


def _with_its_names(text: str) -> str:
    rows = [
        {**row, **{asked: row[column] for column, asked in ASKED_AS.items()}}
        for row in csv.DictReader(io.StringIO(text))
    ]
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


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
