"""Requests made from the service's own description, for longer than the tests take: no 5xx, no answer not described.

python -m bench.described [--seconds 600] [--seed 0]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from support.described import probe
from support.services import running_service, token_file


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=600.0)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp())
    options = ("--token-file", str(token_file(folder)), "--ledger", str(folder / "ledger.sqlite"))
    with running_service(folder, *options, "--requests-per-s", "500") as service, service.client() as client:
        found = probe(client, seconds=given.seconds, each=20, seed=given.seed)
    print(f"{found.requests} requests to {len(found.by_operation)} operations: {dict(sorted(found.by_status.items()))}")


if __name__ == "__main__":
    main()
