"""A plan of two classes that is kept in a ledger, and a production of it that drifts can be planted in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from support.planned import AS_OF
from support.production import Production
from ullage import verbs
from ullage.errors import Rejection
from ullage.load.changes import NO_CHANGES
from ullage.load.pool import load_pool
from ullage.reconcile.evaluate import Evaluation
from ullage.reconcile.expectation import Expectation, expectation_of
from ullage.verbs.ledger import keep_plan

TWO_CLASSES = """\
version: 1
service: two classes
dated: 2026-11-15
workload:
  classes:
    # People wait for it.
    - {name: chat, rate: 6 req/s, longest_context: 8192, slo: {ttft_p95: 2s, tpot_p95: 80ms}}
    - {name: coding, rate: 1 req/s, longest_context: 16384, slo: {ttft_p95: 5s, tpot_p95: 80ms}}
pool: {model: llama-3.1-8b, device: h100-sxm}
prices: {provider: aws, region: us-east-1, purchase: on-demand}
"""


@dataclass(frozen=True, kw_only=True)
class KeptCase:
    """The plan file, the ledger that it is kept in, its name there, and what it expects."""

    file: Path
    ledger: Path
    digest: str
    expected: Expectation
    evaluation: Evaluation
    production: Production

    @property
    def start_s(self) -> float:
        return self.expected.dated_s + 86_400.0


def kept_case(folder: Path) -> KeptCase:
    """Plan and keep it in this folder."""
    file, ledger = folder / "plan.yaml", folder / "ledger.sqlite"
    file.write_text(TWO_CLASSES)
    plan = verbs.plan(file, as_of=AS_OF, seed=0, quick=True)
    assert not isinstance(plan, Rejection)
    digest, _, is_new = keep_plan(plan, file, NO_CHANGES, ledger=ledger)
    assert is_new
    expected = expectation_of(plan)
    pool = load_pool(file, as_of=AS_OF, seed=0)
    assert not isinstance(pool, Rejection)
    evaluation = Evaluation(expected, expected.pools[0], pool.bases(0), seed=0)
    return KeptCase(
        file=file,
        ledger=ledger,
        digest=digest,
        expected=expected,
        evaluation=evaluation,
        production=Production(expected, evaluation, replicas=expected.pools[0].replicas),
    )
