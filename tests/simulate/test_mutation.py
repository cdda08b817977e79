"""Planted bugs: each changes one line of the kernel, and the comparison with the reference must catch it.

The mutants run uncompiled on tiny problems. `ULLAGE_MUTANTS=compiled` (`make mutants`) compiles each of them too.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.equality import differences, kernel_callback, reference_callback
from support.examples import problem as worked_problem
from support.plain import on_plain_state
from support.reference import Reference
from support.scenarios import covering_rows, host_row, policy_row, prefix_row, scenario, turn_row
from ullage.simulate import kernel, world
from ullage.simulate.kernel import codes
from ullage.simulate.problem import EventKind, Problem, RouterArrays

COMPILED = os.environ.get("ULLAGE_MUTANTS") == "compiled"
MOST_PROBLEMS, MOST_HITS = 1_600, 1_200
LONGEST_HANG_S = 4

# name: (line, planted line). Every line must occur in one file of the kernel; the first occurrence is changed.
MUTANTS = {
    "an arrival does not cut the plan": (
        "replica.blocked = 1 if replica.waiting > 0 else 0",
        "replica.blocked = 1",
    ),
    "the tie goes to the higher replica": ("takes = theirs < best + (p & 1)", "takes = theirs < best + 1 - (p & 1)"),
    "a preemption does not hold back admission": (
        "if replica.waiting > 0 and not preempted and",
        "if replica.waiting > 0 and",
    ),
    "a step after a preemption is planned too far": (
        "    if preempted:\n        steps = 1",
        "    if False:\n        steps = 1",
    ),
    "a plan runs past its table segment": (
        "(((g + 1) << engine.kv_shift) - kv_tokens + n - 1) // n)",
        "(((g + 1) << engine.kv_shift) - kv_tokens + n) // n + 1)",
    ),
    "a plan runs one step into a full cache": ("fit = 1 + (rounds << shift)", "fit = 2 + (rounds << shift)"),
    "blocks are not rounded up": (
        "total += w.phases[replica.phases_at + p] * (-(step + more + p) & mask)",
        "total += 0",
    ),
    "the phase of a sequence is off by one": (
        "((target - position(w, replica, replica.step)) & mask)] += 1",
        "((target + 1 - position(w, replica, replica.step)) & mask)] += 1",
    ),
    "a decode does not use the budget": (
        "budget = engine.token_budget - decodes * engine.width",
        "budget = engine.token_budget",
    ),
    "a prefix hit is forgotten": ("done = cached_of(w, i)", "done = 0"),
    "one sequence too many": (
        "while budget > 0 and sequences < engine.max_sequences:",
        "while budget > 0 and sequences <= engine.max_sequences:",
    ),
    "the queue holds one more": (
        "elif replica.waiting >= engine.queue_bound:",
        "elif replica.waiting > engine.queue_bound:",
    ),
    "a request one token too large is let in": (
        "w.output_tokens[i] - 2 + engine.width > engine.blocks",
        "w.output_tokens[i] - 3 + engine.width > engine.blocks",
    ),
    "the first-token deadline also ends what has its first token": (
        "w.first_ps[i] == 0 and now_ps >= begun_ps + limits.ttft_timeout_ps",
        "now_ps >= begun_ps + limits.ttft_timeout_ps",
    ),
    "a deadline is seen one boundary late": (
        "            mark_request(w, i, now_ps)\n            when_ps = NEVER",
        "            mark_request(w, i, now_ps + 10**9 + 3)\n            when_ps = NEVER",
    ),
    "a retry has no deadlines": (
        "        if limit_ps < NEVER:\n            push_timer(",
        "        if False:\n            push_timer(",
    ),
    "the retry budget is not drawn on": ("clock.bucket_milli -= 1000", "clock.bucket_milli -= 0"),
    "the back-off does not grow": ("wait = wait * w.growth_milli // 1000", "wait = wait"),
    "a preempted request goes to the tail of the queue": (
        "    before = -1\n    after = queue.head",
        "    after = -1\n    before = queue.tail",
    ),
    "the victim is the most urgent": (
        "if is_before(w, w.slots[worst].request, w.slots[s].request):",
        "if is_before(w, w.slots[s].request, w.slots[worst].request):",
    ),
    "a starved decode ends on time": (
        "put_on_wheel(w, replica, s, replica.step + steps)\n        replica.step -= 1",
        "put_on_wheel(w, replica, s, replica.step + steps - 1)\n        replica.step -= 1",
    ),
    "a failure spares the step under way": (
        "whole = steps_until(w, replica, now_ps) - 1",
        "whole = steps_until(w, replica, now_ps)",
    ),
    "a replica is up after the first of two repairs": (
        "if replica.down_causes == 0:",
        "if replica.down_causes >= 0:",
    ),
    "queued tokens are not counted": (
        "load = kv_now(w, replica, now_ps) + replica.queue_tokens",
        "load = kv_now(w, replica, now_ps)",
    ),
    "the router sees the present in spite of its refresh": (
        "        if w.refresh_period_ps > 0:\n            load = replica.seen_load",
        "        if False:\n            load = replica.seen_load",
    ),
    "round robin takes the same replica twice": (
        "if w.ready[middle] > w.clock.last_replica:",
        "if w.ready[middle] >= w.clock.last_replica:",
    ),
    "scale-down forgets its window": (
        "for back in range(1, min(w.window_ticks, clock.controls + 1)):",
        "for back in range(1, min(1, clock.controls + 1)):",
    ),
    "think time is skipped": ("now_ps + w.think_ps[i], RANK_CLIENT", "now_ps, RANK_CLIENT"),
    "a first token leaves at once": ("first_ps - sent_ps > slo.ttft_slo_ps", "first_ps - arrival_ps > slo.ttft_slo_ps"),
    "a crowd beside a first token costs nothing": ("terms.crowd_ps * replica.step_decodes", "0"),
    "the decode's time share is given to no one": (
        "add_to_sums(w, replica, span_ps, float(span_ps) / n)",
        "add_to_sums(w, replica, span_ps, 0.0)",
    ),
    "what is left of a token is dropped": (
        "return (((replica.step * rate) & 1023) + steps * rate) >> 10",
        "return (steps * rate) >> 10",
    ),
    "the last step of a speculating request comes late": (
        "return ((tokens << 10) - ((replica.step * rate) & 1023) + rate - 1) // rate",
        "return ((tokens << 10) + rate - 1) // rate",
    ),
    "drafted positions take no budget": ("        new = engine.width\n", "        new = 1\n"),
    "drafted positions are not read": (
        "kv_tokens = replica.kv_tokens + decodes * engine.width\n        budget",
        "kv_tokens = replica.kv_tokens + decodes\n        budget",
    ),
    "drafted positions take no blocks": (
        "return blocks_with(w, replica, shift, width_of(w, replica))",
        "return blocks_with(w, replica, shift, 1)",
    ),
    "a wide plan runs one step into a full cache": (
        "gained(w, replica, middle - 1) + engine.width) <= blocks",
        "gained(w, replica, middle - 2) + engine.width) <= blocks",
    ),
    "tokens beyond the output are counted": (
        "replica.decode_tokens -= slot.length",
        "replica.decode_tokens -= 0 * slot.length",
    ),
    "wide steps do not grow with what was gained": ("return floor_sum(steps,", "return 0 * floor_sum(steps,"),
    "the sum over wide steps forgets where it began": (
        "floor_sum(steps, rate, (replica.step * rate) & 1023)",
        "floor_sum(steps, rate, 0)",
    ),
    "a wide plan is cut a step too early": (
        "while steps < replica.planned and plan_end(w, replica, steps) < when_ps:",
        "while steps + 1 < replica.planned and plan_end(w, replica, steps + 1) < when_ps:",
    ),
    "a decode leaves the last of the budget": (
        "if slot.last_step >= 0 and budget < new:",
        "if slot.last_step >= 0 and budget <= new:",
    ),
    "a wide decode has one token's part of a mixed step": (
        "add_to_sums(w, replica, span_ps, part_ps * width)",
        "add_to_sums(w, replica, span_ps, part_ps)",
    ),
    "a failure counts one token of the step under way": (
        "interrupt_step(w, replica, now_ps) * gained(w, replica, 1)",
        "interrupt_step(w, replica, now_ps)",
    ),
    "drafted positions are no part of a long step": (
        "else tokens + decodes * engine.width",
        "else tokens + decodes",
    ),
}
# Bugs of the prefix cache and of routers that go by it, on problems in which there are prefixes to find.
PREFIX_MUTANTS = {
    "the last token of a prompt is taken from the cache": (
        "return min(matched_blocks(w, replica, i), (target - 1) >> shift) << shift",
        "return min(matched_blocks(w, replica, i), target >> shift) << shift",
    ),
    "blocks that others hold take memory again": (
        "refused = used + grown > blocks + held",
        "refused = used + grown > blocks",
    ),
    "blocks that are let go of are lost": ("replica.shared_blocks += row.blocks", "replica.shared_blocks += 0"),
    "what was used last goes first": ("n = replica.oldest\n        row", "n = replica.newest\n        row"),
    "answers are not kept": ("                keep_answer(w, replica, i)\n", ""),
    "an engine that fails keeps its cache": (
        "        empty_cache(w, replica)\n    replica.planned = 0",
        "        pass\n    replica.planned = 0",
    ),
    "a stale router sees the caches of now": (
        "found = seen_blocks(w, replica, i)",
        "found = matched_blocks(w, replica, i)",
    ),
    "a router never learns of what is gone": (
        "        note_change(w, replica, n)\n        if row.blocks == 0:",
        "        if row.blocks == 0:",
    ),
    "the guard lets one request more wait": ("- least > w.guard_requests", "- least > w.guard_requests + 1"),
    "the guard looks at numbers alone": ("and w.load[r] * 1000 > w.guard_milli * least", ""),
    "any match is good enough": ("found * 1000 < w.match_milli * (leaf.begin + leaf.blocks)", "False"),
    "an equal match goes to the busier replica": (
        "(0 < blocks == most and w.load[r] < w.load[chosen])",
        "(0 < blocks == most and w.load[r] > w.load[chosen])",
    ),
    "sessions have no home": ("w.home[i], HOME_STREAM", "i, HOME_STREAM"),
    "a plan pushes nothing out": (
        "            make_room_for_plan(w, replica, replica.planned)\n",
        "            pass\n",
    ),
    "a plan of many steps takes the blocks of its last round": (
        "taken = (steps >> shift) * replica.decodes",
        "taken = 0",
    ),
    "a request that ends leaves its last block counted": (
        "replica.decode_blocks -= (held + mask) >>",
        "replica.decode_blocks -= held >>",
    ),
    "a block is cached when it is begun": ("held = min(computed >> w", "held = min(computed + 1 >> w"),
    "a plan does not count shared blocks": (
        "    blocks = room_of(w, replica, engine)\n    steps = steps_to_next_finish(w, replica)",
        "    blocks = engine.blocks\n    steps = steps_to_next_finish(w, replica)",
    ),
    "a preemption does not see that shared blocks go": (
        "while used > room_of(w, replica, engine):",
        "while used > engine.blocks:",
    ),
    "a prompt lets go of its beginning first": (
        "    row.pins -= 1\n        if row.pins == 0",
        "    row.pins -= 1\n        if row.pins == 0 and n != w.prompt_node[i]",
    ),
}
# Bugs of the tier in host memory.
HOST_MUTANTS = {
    "loading takes no time": (" + loaded * engine.host_block_ps", ""),
    "what the device lets go of is lost": ("            offload(w, replica, n, gone)\n", "            pass\n"),
    "host memory never fills up": ("while over > 0:\n        oldest", "while False:\n        oldest"),
    "the latest in host memory goes first": ("oldest = replica.host_oldest", "oldest = replica.host_newest"),
    "what is loaded stays in host memory too": (
        "found = take_from_host(w, replica, n)\n",
        "found = hosted_at(w, replica, n).blocks\n",
    ),
    "the block of the last token is loaded": (
        "loaded = max(0, min(found, whole - w.nodes[n].begin - row.blocks))",
        "loaded = found",
    ),
    "an answer is in both tiers": (
        "replica.dropped_blocks += take_from_host(w, replica, n)\n        if row.pins",
        "replica.dropped_blocks += 0\n        if row.pins",
    ),
    "a stale router does not see host memory": (
        "sighting.blocks = blocks_at(w, replica, n)",
        "sighting.blocks = cached_at(w, replica, n).blocks",
    ),
    "an engine that stops keeps its host memory": ("while replica.host_oldest >= 0:", "while False:"),
    "a router never learns of what the host let go of": (
        "replica.host_blocks -= blocks\n        note_change(w, replica, n)",
        "replica.host_blocks -= blocks\n        pass",
    ),
}
# Bugs of sessions and of what they keep between their turns.
TURN_MUTANTS = {
    "a turn does not wait for its think time": ("now_ps + w.think_ps[i], RANK_TURN", "now_ps + 1, RANK_TURN"),
    "what a session keeps is never let go of": ("        unpark(w, replica, i)\n", "        pass\n"),
    "a queue does not see that a session lets go": (
        "unpark(w, replica, i)\n        cut_plan(w, replica, now_ps)",
        "unpark(w, replica, i)",
    ),
    "what a session keeps takes no memory": (
        "            replica.shared_blocks -= row.blocks\n        row.pins += 1",
        "            pass\n        row.pins += 1",
    ),
    "no session lets go where nothing runs": (
        "found = w.between == KEPT and replica.waiting > 0 and replica.parked_oldest >= 0",
        "found = False",
    ),
    "the session that has waited least lets go first": (
        "unpark(w, replica, replica.parked_oldest)\n    return found",
        "unpark(w, replica, replica.parked_newest)\n    return found",
    ),
    "dropped blocks go to host memory": ("w.between == OFFLOADED and w.has_host == 1", "w.has_host == 1"),
    "a session keeps its prompts alone": ("leaf if leaf >= 0 else w.prompt_node[i]", "w.prompt_node[i]"),
}
# Bugs of the policies for letting in, on problems in which answers fill the cache.
POLICY_MUTANTS = {
    "a longest answer is not longer than the one that comes": (
        "return max(terms_of(w, i).limit_tokens, w.output_tokens[i])",
        "return w.output_tokens[i]",
    ),
    "what is reserved is never released": (
        "count_longest(w, replica, slot.request, -1)",
        "count_longest(w, replica, slot.request, 0)",
    ),
    "a reservation is a block too small": (
        "return (w.prompt_tokens[i] + limit_of(w, i) - 2 + engine.width + mask)",
        "return (w.prompt_tokens[i] + limit_of(w, i) - 2 + engine.width)",
    ),
    "a prompt has only the blocks it has computed": (
        "return tokens if w.has_policy == 0 or engine.policy < NO_EVICT else target",
        "return tokens",
    ),
    "the ratio does not fall during a plan": (
        "decay_ratio(w, replica, replica.planned - 1)",
        "pass",
    ),
    "the ratio falls below its least": (
        "replica.ratio = max(engine.ratio_least, replica.ratio - steps * engine.ratio_decay)",
        "replica.ratio -= steps * engine.ratio_decay",
    ),
    "the ratio falls in steps with prefill too": (
        "elif tokens == 0 and not preempted:",
        "elif not preempted:",
    ),
    "a retraction leaves the ratio as it was": ("replica.ratio = estimated_ratio(w, replica)", "pass"),
    "the ratio after a retraction forgets the steps ahead": (
        "done += emitted_in(w, replica, slot) + RETRACT_STEPS",
        "done += emitted_in(w, replica, slot)",
    ),
    "an idle engine keeps its ratio": (
        "    if decodes + tokens == 0:\n        replica.ratio =",
        "    if decodes + tokens == 0:\n        _ =",
    ),
    "the last admitted is retracted": (
        "worst = s if engine.width > 1 else fewest_tokens(w, replica)",
        "worst = s",
    ),
    "of equals the shortest prompt is retracted": (
        "if emitted < least or (emitted == least and longer):",
        "if emitted < least or (emitted == least and not longer):",
    ),
    "a retracted request goes to the head of the queue": (
        "        before = queue.tail\n        after = -1\n",
        "        pass\n",
    ),
    "after a refusal the queue is looked at again": (
        "policy != NEW_TOKEN_RATIO or replica.refused_at != replica.decodes",
        "policy != NEW_TOKEN_RATIO or True",
    ),
    "what may still come is not clipped": (
        "spare += (most_still(w, replica) - clipped_sum(w, replica)) * replica.ratio",
        "spare += 0",
    ),
    "a prefill that ends now is counted at the ratio": (
        "            total += new_tokens(w, replica, i) << RATIO_SHIFT",
        "            total += new_tokens(w, replica, i) * replica.ratio",
    ),
    "a request that was just let in is not counted": (
        "reserved += new_tokens(w, replica, i) << RATIO_SHIFT",
        "reserved += 0",
    ),
    "room that is just enough is enough": (
        "return spare > 0",
        "return spare >= 0",
    ),
    "an engine that failed keeps its ratio": (
        "    replica.ratio = w.engines[replica.engine].ratio_first\n    if w.has_prefix",
        "    if w.has_prefix",
    ),
}
KERNEL = Path(kernel.__file__).parent
# Uncompiled, the same source is plain Python.
PLAIN = "VERSION = 'plain'\ninline = shared = once = compiled = entry = lambda function: function\n"


@functools.cache
def expected(number: int) -> tuple[Problem, Reference]:
    """A problem and the reference's answer, shared by all mutants; the event budget bounds a mutant that loops."""
    rows = covering_rows()
    problem = scenario(dict(rows[number % len(rows)]), 5000 + number, most_requests=16)
    if number == 0:
        # Two tokens a decode: beside a chunk of four of a budget of five there is no room for one.
        problem = worked_problem([0, 0, 58], [8, 1, 1], [5, 7, 6], budget=5, long_prefill=4, sequences=2, width=2)
    elif number == 1:
        # The one with less KV has more waiting.
        problem = worked_problem(
            [0, 1, 2, 3], [20, 30, 40, 5], [50] * 4, sequences=1, replicas=2, routing=RouterArrays.LEAST_KV
        )
    return replace(problem, most_events=20_000), Reference(problem, reference_callback).run()


@functools.cache
def expected_hits(number: int) -> tuple[Problem, Reference]:
    problem = scenario(prefix_row(number), 9000 + number, most_requests=24)
    return replace(problem, most_events=20_000), Reference(problem, reference_callback).run()


@functools.cache
def expected_loads(number: int) -> tuple[Problem, Reference]:
    problem = scenario(host_row(number), 9500 + number, most_requests=40)
    return replace(problem, most_events=20_000), Reference(problem, reference_callback).run()


@functools.cache
def expected_turns(number: int) -> tuple[Problem, Reference]:
    problem = scenario(turn_row(number), 9700 + number)
    return replace(problem, most_events=20_000), Reference(problem, reference_callback).run()


def one_after_another(number: int) -> Problem:
    """A request beside one whose answer may become long, after the engine was idle, or failed and was repaired."""
    begins = [(0, 100, 105), (0, 1_000, 1_005)][number]
    events = [[(60, 0, EventKind.FAIL), (70, 0, EventKind.REPAIR)], []][number]
    return worked_problem(
        list(begins), [5, 5, 5], [30, 30, 30], blocks=60, policy=codes.NEW_TOKEN_RATIO,
        ratio=(1 << 20, 0, 1 << 20), events=events,
    )  # fmt: skip


@functools.cache
def expected_policies(number: int) -> tuple[Problem, Reference]:
    problem = scenario(policy_row(number), 13_000 + number, most_requests=24)
    if number < 2:
        problem = one_after_another(number)
    elif number == 2:
        # Beside one that may still come to 7 tokens, of which 5 count, and one that ends with its next.
        problem = worked_problem(
            [0, 0, 57], [5, 5, 5], [12, 6, 3], blocks=36, policy=codes.NEW_TOKEN_RATIO,
            ratio=(1 << 20, 1 << 20, 0), clip=5,
        )  # fmt: skip
    return replace(problem, most_events=20_000), Reference(problem, reference_callback).run()


def make_simulator(folder: Path, *changes: tuple[str, str]) -> Any:
    """The driver on top of a changed kernel, in a package of its own."""
    package = folder / f"mutant_{folder.name}"
    package.mkdir()
    sources = {path.name: path.read_text() for path in (*KERNEL.glob("*.py"), Path(world.__file__))}
    for before, after in changes:
        (name,) = [name for name, source in sources.items() if before in source]
        sources[name] = sources[name].replace(before, after, 1)
    if not COMPILED:
        sources["compiling.py"] = PLAIN
        # numba's registries are for all: what mutants do not need anew, they share.
        del sources["records.py"]
    for name, source in sources.items():
        ours = re.sub(r"ullage\.simulate\.kernel\b(?!\.records)", package.name, source)
        if COMPILED:
            ours = source.replace("ullage.simulate.kernel", package.name)
        (package / name).write_text(ours)
    sys.path.insert(0, str(folder))
    try:
        driver: Any = importlib.import_module(f"{package.name}.world")
    finally:
        sys.path.remove(str(folder))
    if not COMPILED:
        for entry in ("advance", "intervene", "close"):
            setattr(driver, entry, on_plain_state(getattr(driver, entry)))
    return driver


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    # Again every second: one that is raised inside a destructor or a callback of a library is lost there.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def is_caught(simulator: Any, known: Callable[[int], tuple[Problem, Reference]], most: int) -> bool:
    for number in range(most):
        problem, reference = known(number)
        try:
            with alarm(LONGEST_HANG_S * (10 if COMPILED else 1)):
                found = differences(problem, reference, simulator.KernelRun(problem).finish(kernel_callback))
        except Exception:  # noqa: BLE001 - a mutant may break in any way; breaking is being caught
            return True
        if found:
            return True
    return False


@pytest.mark.slow
def test_the_kernel_itself_passes_uncompiled(tmp_path: Path) -> None:
    simulator = make_simulator(tmp_path)
    for number in range(64):
        problem, reference = expected(number)
        assert not differences(problem, reference, simulator.KernelRun(problem).finish(kernel_callback))


@pytest.mark.slow
def test_growing_logs_and_settling_often_change_nothing(tmp_path: Path) -> None:
    """Paths that tiny problems do not reach by themselves: full logs and timers, settled accounts, carried sums."""
    simulator = make_simulator(
        tmp_path, ("SETTLE_STEPS = 1 << 16", "SETTLE_STEPS = 3"), ("CARRY = 1 << 62", "CARRY = 1 << 10")
    )
    simulator._LOG_ROWS = 1
    simulator._TIMERS = 9
    for number in range(96):
        problem, reference = expected(number)
        assert not differences(problem, reference, simulator.KernelRun(problem).finish(kernel_callback))


# An alarm that rings inside a library's callback is reported as one that nobody could raise.
RINGS = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@RINGS
@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name: str, tmp_path: Path) -> None:
    assert is_caught(make_simulator(tmp_path, MUTANTS[name]), expected, MOST_PROBLEMS), f"{name}: not caught"


@RINGS
@pytest.mark.slow
@pytest.mark.parametrize("name", PREFIX_MUTANTS)
def test_a_planted_bug_of_the_prefix_cache_is_caught(name: str, tmp_path: Path) -> None:
    simulator = make_simulator(tmp_path, PREFIX_MUTANTS[name])
    assert is_caught(simulator, expected_hits, MOST_HITS), f"{name}: not caught"


@RINGS
@pytest.mark.slow
@pytest.mark.parametrize("name", HOST_MUTANTS)
def test_a_planted_bug_of_host_memory_is_caught(name: str, tmp_path: Path) -> None:
    simulator = make_simulator(tmp_path, HOST_MUTANTS[name])
    assert is_caught(simulator, expected_loads, MOST_HITS), f"{name}: not caught"


@RINGS
@pytest.mark.slow
@pytest.mark.parametrize("name", TURN_MUTANTS)
def test_a_planted_bug_of_sessions_is_caught(name: str, tmp_path: Path) -> None:
    simulator = make_simulator(tmp_path, TURN_MUTANTS[name])
    assert is_caught(simulator, expected_turns, MOST_HITS), f"{name}: not caught"


@RINGS
@pytest.mark.slow
@pytest.mark.parametrize("name", POLICY_MUTANTS)
def test_a_planted_bug_of_a_capacity_policy_is_caught(name: str, tmp_path: Path) -> None:
    simulator = make_simulator(tmp_path, POLICY_MUTANTS[name])
    assert is_caught(simulator, expected_policies, MOST_HITS), f"{name}: not caught"
