"""What every run must obey; a run that does not is a bug here and raises InternalError."""

from __future__ import annotations

from ullage.errors import InternalError
from ullage.simulate import kernel as k
from ullage.simulate.world import KernelRun


def check_laws(run: KernelRun) -> None:
    """Little's law, and the conservation of outcomes and tokens, to the last unit."""
    _equal(
        "Little's law: time integral of outstanding requests = time that attempts spent in the system",
        run.area_ps,
        run.sojourn_ps,
    )
    counters = run.counters.sum(axis=(0, 1))
    ended = int(counters[: k.UNFINISHED - k.SUCCESS + 1].sum())
    _equal("every request issued comes to one end", run.clock(k.G_ISSUED), ended)
    _equal("every attempt ends its request or is repeated", run.clock(k.G_ATTEMPTS), ended + int(counters[k.C_RETRIED]))
    rows = run.rows.sum(axis=0)
    completed = int(counters[k.SUCCESS - k.SUCCESS] + counters[k.LATE - k.SUCCESS])
    # The last token of an output is never fed back, so a completed request computed one token less than it has.
    retired = int(counters[k.C_PROMPT] + counters[k.C_OUTPUT] - counters[k.C_CACHED_DONE]) - completed
    retired += int(counters[k.C_WASTED_COMPUTED] + counters[k.C_RECOMPUTED])
    _equal(
        "tokens computed by the engines = tokens computed for requests",
        int(rows[k.N_PREFILL] + rows[k.N_DECODE]),
        retired,
    )
    _equal(
        "tokens that came out of the engines = tokens that requests received",
        int(rows[k.N_DECODE] - rows[k.N_CUT] + rows[k.N_FIRST]),
        int(counters[k.C_OUTPUT] + counters[k.C_WASTED_OUTPUT]),
    )
    _equal(
        "nothing is left on a replica", 0, int(rows[k.OUTSTANDING] + rows[k.KV] + rows[k.PREFILL_KV] + rows[k.Q_TOKENS])
    )


def _equal(law: str, left: int, right: int) -> None:
    if left != right:
        raise InternalError(law=law, left=left, right=right)
