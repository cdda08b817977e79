"""The sample and the control tick: what is read from the fleet, and how many replicas are requested."""

from __future__ import annotations

from ullage.simulate.kernel.books import gained
from ullage.simulate.kernel.codes import CONTROL_RULE, DRAINING, NEVER, OFF, READY, SIGNAL_OUTSTANDING, STARTING
from ullage.simulate.kernel.compiling import compiled
from ullage.simulate.kernel.replicas import drain, switch_off
from ullage.simulate.kernel.state import World
from ullage.simulate.kernel.steps import kv_now, steps_until


@compiled
def take_sample(w: World, now_ps: int) -> None:
    for r in range(w.replica_count):
        replica = w.replicas[r]
        sample = w.samples[w.clock.samples * w.replica_count + r]
        busy_ps = replica.prefill_busy_ps + replica.decode_busy_ps + replica.mixed_busy_ps
        if replica.planned > 0 or replica.mixed == 1:
            busy_ps += now_ps - replica.begin_ps
        sample.running = replica.decodes + replica.prefills
        sample.waiting = replica.waiting
        sample.kv_tokens = kv_now(w, replica, now_ps)
        sample.busy_ps = busy_ps
        sample.state = replica.state
    w.clock.samples += 1


@compiled
def take_gauge(w: World, now_ps: int) -> None:
    """The sums that a monitoring system would see, one row for the whole fleet."""
    gauge = w.gauges[w.clock.gauges]
    gauge.running = 0
    gauge.waiting = 0
    gauge.kv_tokens = 0
    gauge.queue_tokens = 0
    gauge.draining_running = 0
    gauge.draining_waiting = 0
    gauge.draining_kv_tokens = 0
    gauge.fullest_kv_tokens = 0
    gauge.oldest_ps = NEVER
    gauge.ready = 0
    gauge.starting = 0
    gauge.draining = 0
    gauge.prefill_tokens = 0
    gauge.decode_tokens = 0
    gauge.busy_ps = 0
    for r in range(w.replica_count):
        replica = w.replicas[r]
        gauge.prefill_tokens += replica.prefill_tokens
        gauge.decode_tokens += replica.decode_tokens
        gauge.busy_ps += replica.prefill_busy_ps + replica.decode_busy_ps + replica.mixed_busy_ps
        if replica.planned > 0 or replica.mixed == 1:
            gauge.busy_ps += now_ps - replica.begin_ps
        if replica.planned > 0:
            # Steps of a plan are booked when it ends; the one under way counts, as in a step with prefill.
            gauge.decode_tokens += replica.decodes * gained(w, replica, steps_until(w, replica, now_ps))
        gauge.starting += 1 if replica.state == STARTING else 0
        if replica.state in (READY, DRAINING):
            running = replica.decodes + replica.prefills
            kv_tokens = kv_now(w, replica, now_ps)
            gauge.running += running
            gauge.waiting += replica.waiting
            gauge.kv_tokens += kv_tokens
            gauge.queue_tokens += replica.queue_tokens
            gauge.fullest_kv_tokens = max(gauge.fullest_kv_tokens, kv_tokens)
            if replica.state == DRAINING:
                gauge.draining += 1
                gauge.draining_running += running
                gauge.draining_waiting += replica.waiting
                gauge.draining_kv_tokens += kv_tokens
            else:
                gauge.ready += 1
            for level in range(w.levels):
                i = w.queues[replica.queues_at + level].head
                if i >= 0:
                    gauge.oldest_ps = min(gauge.oldest_ps, w.arrival_ps[i])
    gauge.issued = w.clock.issued + w.clock.followed
    w.clock.gauges += 1


@compiled
def read_signals(w: World, now_ps: int) -> None:
    clock = w.clock
    clock.signal_outstanding = 0
    clock.signal_waiting = 0
    clock.signal_tokens = 0
    clock.signal_ready = 0
    clock.signal_starting = 0
    for r in range(w.replica_count):
        replica = w.replicas[r]
        if replica.state in (READY, DRAINING):
            clock.signal_outstanding += replica.outstanding
            clock.signal_waiting += replica.waiting
            clock.signal_tokens += kv_now(w, replica, now_ps) + replica.queue_tokens
        clock.signal_ready += 1 if replica.state == READY else 0
        clock.signal_starting += 1 if replica.state == STARTING else 0


@compiled
def scale(w: World, now_ps: int, want: int, keep: int) -> None:
    """Starts replicas up to `want` and removes those above `keep`, starting ones first."""
    clock = w.clock
    supply = clock.signal_ready + clock.signal_starting
    extra = supply - keep
    for r in range(w.replica_count):
        replica = w.replicas[r]
        if supply < want and replica.state == OFF:
            supply += 1
            replica.state = STARTING
            replica.on_since_ps = now_ps
            delay_ps = w.ready_delay_ps
            if w.start_delay_count > 0:
                delay_ps = w.start_delays[clock.starts % w.start_delay_count]
            clock.starts += 1
            replica.ready_ps = now_ps + delay_ps
            clock.signal_starting += 1
    for r in range(w.replica_count - 1, -1, -1):
        replica = w.replicas[r]
        if extra > 0 and replica.state == STARTING:
            switch_off(w, replica, now_ps)
            clock.signal_starting -= 1
            extra -= 1
    for r in range(w.replica_count - 1, -1, -1):
        replica = w.replicas[r]
        if extra > 0 and clock.signal_ready > min(1, w.least_replicas) and replica.state == READY:
            drain(w, replica, now_ps)
            clock.signal_ready -= 1
            extra -= 1


@compiled
def control(w: World, now_ps: int) -> bool:
    """A control tick; returns False when it needs an answer from the callback first."""
    clock = w.clock
    read_signals(w, now_ps)
    signal = clock.signal_outstanding if w.signal == SIGNAL_OUTSTANDING else clock.signal_tokens
    want = clock.want
    if w.control == CONTROL_RULE:
        want = (signal * 1000 + w.target_milli - 1) // w.target_milli
    elif want < 0:
        return False
    clock.want = -1
    want = min(max(want, w.least_replicas), w.most_replicas)
    tick = w.controls[clock.controls]
    tick.want = want
    keep = want
    for back in range(1, min(w.window_ticks, clock.controls + 1)):
        keep = max(keep, w.controls[clock.controls - back].want)
    scale(w, now_ps, want, keep)
    tick.at_ps = now_ps
    tick.signal = signal
    tick.ready = clock.signal_ready
    tick.starting = clock.signal_starting
    clock.controls += 1
    clock.control_ps += w.control_period_ps
    return True
