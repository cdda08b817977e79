"""What every run must obey; a run that does not is a bug here and raises InternalError."""

from __future__ import annotations

from typing import Any

import numpy as np

from ullage.errors import InternalError
from ullage.simulate.outcome import OUTCOMES
from ullage.simulate.problem import EngineField, RouterArrays
from ullage.simulate.world import KernelRun


def check_laws(run: KernelRun) -> None:
    """Little's law, and the conservation of outcomes and tokens, to the last unit."""
    _equal(
        "Little's law: time integral of outstanding requests = time that attempts spent in the system",
        run.area_ps,
        run.sojourn_ps,
    )
    counters, clock = run.counters.ravel(), run.world.plain_clock
    names = counters.dtype.names or ()
    # Every counter is a word of its own, so one sum serves them all: most runs are short.
    sums = counters.view(np.int64).reshape(counters.size, -1).sum(axis=0)
    total = dict(zip(names, sums.tolist()[: len(names)], strict=True))
    ended = sum(total[name] for name in OUTCOMES)
    _equal("every request issued comes to one end", int(clock["issued"] + clock["followed"]), ended)
    _equal("every attempt ends its request or is repeated", int(clock["attempts"]), ended + total["retried"])
    replicas = run.world.given("replicas")
    # The last token of an output is never fed back, so a completed request computed one token less than it has.
    completed = total["success"] + total["late"]
    retired = total["prompt_tokens"] + total["output_tokens"] - total["cached_done_tokens"] - completed
    retired += total["wasted_computed_tokens"] + total["recomputed_tokens"]
    _equal(
        "tokens computed by the engines = tokens computed for requests",
        int(replicas["prefill_tokens"].sum() + replicas["decode_tokens"].sum()),
        retired,
    )
    _equal(
        "tokens that came out of the engines = tokens that requests received",
        int((replicas["decode_tokens"] - replicas["cut_tokens"] + replicas["first_tokens"]).sum()),
        total["output_tokens"] + total["wasted_output_tokens"],
    )
    left = replicas["outstanding"] + replicas["kv_tokens"] + replicas["prefill_kv_tokens"] + replicas["queue_tokens"]
    _equal("nothing is left on a replica", 0, int(left.sum()))
    if run.problem.prefixes.is_used:
        _check_caches(run, replicas)


def _check_caches(run: KernelRun, replicas: np.ndarray[tuple[int, ...], np.dtype[np.void]]) -> None:
    """Blocks are counted once: cached blocks are those without a reference, and all fit the memory."""
    cached = run.world.given("cached")
    _equal("no run of blocks is held when all requests have ended", 0, int(cached["pins"].sum()))
    _equal("no block is shared when nobody holds any", 0, int(np.abs(replicas["shared_blocks"]).sum()))
    _equal("blocks in caches = blocks that are kept", int(cached["blocks"].sum()), int(replicas["kept_blocks"].sum()))
    _equal("no block belongs to a decode when none is left", 0, int(np.abs(replicas["decode_blocks"]).sum()))
    if run.problem.routing == RouterArrays.PREFIX_AWARE:
        holders = int(run.world.given("nodes")["holders"].sum())
        _equal("holders of runs of blocks", int(np.count_nonzero(cached["blocks"])), holders)
    blocks = run.problem.engines[run.problem.replica_type, EngineField.BLOCKS]
    over = np.maximum(replicas["peak_blocks"], replicas["kept_blocks"]) > blocks
    _equal("replicas that held more blocks than they have", 0, int(over.sum()))
    hosted = run.world.given("hosted")
    if hosted.size:
        _check_hosts(run, replicas, hosted, cached["blocks"])


def _check_hosts(run: KernelRun, replicas: Any, hosted: Any, on_device: Any) -> None:
    """A block is on the device or in host memory, once; all that went there was loaded or dropped, or is there."""
    _equal("blocks in host memory", int(hosted["blocks"].sum()), int(replicas["host_blocks"].sum()))
    whole = np.tile(run.problem.prefixes.size, run.problem.replicas)
    _equal("runs with more blocks than they have", 0, int((hosted["blocks"] + on_device > whole).sum()))
    room = run.problem.engines[run.problem.replica_type, EngineField.HOST_ROOM]
    _equal("hosts with more blocks than they have room for", 0, int((replicas["host_blocks"] > room).sum()))
    gone = replicas["loaded_blocks"] + replicas["dropped_blocks"] + replicas["host_blocks"]
    _equal("blocks that came to host memory", int(replicas["hosted_blocks"].sum()), int(gone.sum()))


def _equal(law: str, left: int, right: int) -> None:
    if left != right:
        raise InternalError(law=law, left=left, right=right)
