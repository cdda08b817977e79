"""The kernel's constants: codes of states and outcomes, the order of events, sizes of tables."""

from __future__ import annotations

NEVER = 2**62

# States of a request; from SUCCESS on they are outcomes.
UNSEEN, WAITING, PREEMPTED, RUNNING, BACKOFF = 0, 1, 2, 3, 4
SUCCESS, LATE, SHED, OVERSIZE, TIMED_OUT, CANCELLED, FAILED, UNFINISHED = 5, 6, 7, 8, 9, 10, 11, 12

# States of a replica.
OFF, STARTING, READY, DRAINING, DOWN = 0, 1, 2, 3, 4

EVENT_READY, EVENT_DRAIN, EVENT_FAIL, EVENT_REPAIR = 0, 1, 2, 3

ROUND_ROBIN, RANDOM, POWER_OF_TWO, LEAST_OUTSTANDING, LEAST_TOKENS, LEAST_KV = 0, 1, 2, 3, 4, 5
STICKY, PREFIX_AWARE = 6, 7

# What must fit before a waiting request is admitted (capacity.py).
PRESENT_NEED, NEW_TOKEN_RATIO, NO_EVICT, MAX_UTILIZATION = 0, 1, 2, 3
# Ratios are in 2**-20; a ratio that is estimated anew counts so many steps more of every running request.
RATIO_SHIFT = 20
RETRACT_STEPS = 20
# Whether a request may still come to more than is counted of it.
NEVER_CLIPS, SOMETIMES, ALWAYS = 0, 1, 2

CONTROL_NONE, CONTROL_RULE, CONTROL_CALLBACK = 0, 1, 2
SIGNAL_OUTSTANDING, SIGNAL_TOKENS = 0, 1

# Order of outside events at one time.
RANK_PLATFORM, RANK_READY, RANK_REFRESH, RANK_SAMPLE, RANK_CONTROL = 0, 1, 2, 3, 4
RANK_DEADLINE, RANK_CANCEL, RANK_ARRIVAL, RANK_CLIENT, RANK_TURN = 5, 6, 7, 8, 9

# What becomes of a session's KV between its turns.
CACHED, KEPT, OFFLOADED, DROPPED = 0, 1, 2, 3

# Why `advance` or `intervene` came back.
DONE, AT_UNTIL, AT_INTERVENTION, AT_CONTROL, HEAP_FULL, LOG_FULL, OUT_OF_EVENTS, ARRIVAL_FIRST = range(8)

# Histograms of a group.
TTFT, TPOT, E2E, QUEUE = 0, 1, 2, 3
METRICS = 4
# Log histograms: 128 bins per octave of 2**20 ps (about 1 us), so a bin is at most 0.8 % wide.
BIN_SHIFT = 20
BINS = 128 * 38

# The two deadlines of a class.
TO_FIRST_TOKEN, TO_LAST_TOKEN = 0, 1

# A mark is the next marked request of the replica (-1 at the end of the list) plus 2, or 0 for no mark.
NOT_MARKED = 0
# Step numbers are kept in 31 bits.
STEP_MASK = 0x7FFFFFFF
JITTER_STREAM = 1 << 20
HOME_STREAM = 1 << 21
SETTLE_STEPS = 1 << 16
CARRY = 1 << 62
