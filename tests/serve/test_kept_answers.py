"""What a service keeps in memory: the latest answers within a bound, and nothing of what was forgotten."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ullage.serve.jobs import Job, JobBoard, JobState
from ullage.serve.live import LiveDesk
from ullage.serve.problems import ProblemError
from ullage.serve.runner import Ending, Runner, ServedWork
from ullage.serve.settings import ServeLimits, ServeSettings

ANSWER_BYTES = 100_000
LIMITS = ServeLimits(results_bytes=10 * ANSWER_BYTES, kept_jobs=10, waits=2)


class InstantRunner(Runner):
    """A runner that starts no process: every answer has the same size, unless it is to be waited for."""

    async def run(self, work: ServedWork, *, seconds: float, heard: Callable[[float, str], None] = print) -> Ending:
        if work.request.get("slow"):
            await asyncio.sleep(seconds)
        return Ending(kind="answer", body=b"x" * ANSWER_BYTES)


def work(number: int, **more: Any) -> ServedWork:
    return ServedWork(verb="plan", request={"seed": number, **more})


def with_desk(folder: Path, go: Callable[[LiveDesk, JobBoard], Any]) -> None:
    async def run() -> None:
        runner = InstantRunner(ServeSettings(folder=folder))
        board = JobBoard(runner, LIMITS, workers=1)
        await go(LiveDesk(runner, board, LIMITS, seats=1), board)
        await board.stop()

    asyncio.run(run())


def test_pages_that_went_away_keep_no_answer_alive(tmp_path: Path) -> None:
    async def go(desk: LiveDesk, board: JobBoard) -> None:
        seen: list[weakref.ref[Job]] = []
        for number in range(30):
            job = desk.decide(work(number), "alice", f"page{number}")
            await job.wait(5.0)
            assert job.state is JobState.DONE
            # What was asked may be megabytes, and is not needed again.
            assert not job.work.request
            seen.append(weakref.ref(job))
            del job
        await asyncio.sleep(0)
        gc.collect()
        assert sum(each() is not None for each in seen) <= LIMITS.kept_jobs + 1
        assert board.result_bytes <= LIMITS.results_bytes + ANSWER_BYTES

    with_desk(tmp_path, go)


def test_first_looks_are_kept_by_their_bytes(tmp_path: Path) -> None:
    async def go(desk: LiveDesk, _board: JobBoard) -> None:
        endings = [weakref.ref(await desk.evaluate(work(number))) for number in range(40)]
        gc.collect()
        assert sum(each() is not None for each in endings) <= LIMITS.results_bytes // ANSWER_BYTES + 1
        again = await desk.evaluate(work(39))
        assert again is endings[-1]()

    with_desk(tmp_path, go)


def test_one_principal_does_not_hold_every_connection(tmp_path: Path) -> None:
    async def go(_desk: LiveDesk, board: JobBoard) -> None:
        job, _ = board.submit(work(0, slow=True), "alice")
        held = [asyncio.create_task(board.wait(job, "alice", 60.0)) for _ in range(LIMITS.waits)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="wait=0"):
            await board.wait(job, "alice", 60.0)
        await board.wait(job, "alice", 0.0)
        await board.wait(job, "bob", 0.01)
        board.let_go(job, "alice")
        await asyncio.gather(*held)
        await board.wait(job, "alice", 60.0)

    with_desk(tmp_path, go)
