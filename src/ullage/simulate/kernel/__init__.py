"""The kernel: an exact simulation of continuous batching that skips what does not change.

It computes what the literal reference (tests/support/reference.py) computes, bit for bit, some ten thousand times
faster. Four ideas carry it:

- A decoding sequence ends at a known *step index*, so each replica keeps its endings in a timing wheel over
  step indices: a bucket per index, a bitmap to find the next one that is not empty. There is no heap of times.
- Between two changes of the batch, step durations are an arithmetic series (the batch is constant and the KV
  cache grows by one token per sequence and step), so any number of steps is one plan. A plan is cut short,
  at the first boundary that is not before the event, when an outside event concerns the replica.
- KV is one sum per replica. Exact block counts come from a histogram of sequence lengths modulo the block
  size, and only when an upper bound says that the cache might be full.
- Replicas do not see each other between outside events; winner trees find the next boundary and the least
  loaded replica.

Steps with several prefills under way, and steps that preempt under priority scheduling, are walked request by
request as the reference does (`scheduling.walk`).

Read state.py first: it names every field. A function takes the `World`, the record it is about, and numbers; `i` is a
request's number, `s` a slot's, `r` a replica's. The files in the order of a run: clock (which event is next) calls
arrivals, boundaries, failures and control; a boundary is completion (what the step did, endings) and scheduling (the
next step, from steps and queues); books writes down; routing, replicas, trees and arithmetic serve them all. records
and compiling are how it is compiled. The whole state is in `World`, so `advance` can stop at any time and go on later.
The source also runs uncompiled (NUMBA_DISABLE_JIT=1): nothing here relies on wrapping or on unsigned words.

With speculation (`World.has_speculation`) a step brings every decoding sequence the same whole number of tokens, and
what is left of a token is carried to the next step: so endings are still step indices, and only sums over steps that
do not gain the same need more than the arithmetic series (`steps.floor_sum`).

With a prefix cache (`World.has_prefix`, prefixes.py) prompts are paths in a tree of runs of blocks, and a request's
hit is found when it is admitted. Every boundary asks for exact blocks then, so that they are counted as they change.
Blocks that several requests hold are taken off the sum of what requests hold, so that plans of many steps are as
before; what they push out of the cache is settled when they end, or when a router looks.
With a tier in host memory (`World.has_host`) it goes there, and is loaded in the step that admits a request.

With turns (`World.has_turns`) a request that follows another is numbered after all that follow none, and its arrival is
a timer that is set where the one before ends (`call_client`). What its session keeps until then is pinned like what a
running request holds, or leaves the device (`prefixes.set_aside`).

Seams for what this kernel does not do yet: other engines' admission rules replace the test before `admit`.
"""

from __future__ import annotations

from ullage.simulate.kernel.arithmetic import bin_of
from ullage.simulate.kernel.clock import advance, close, intervene
from ullage.simulate.kernel.codes import BINS
from ullage.simulate.kernel.state import World

__all__ = ["BINS", "World", "advance", "bin_of", "close", "intervene"]
