"""First looks for a live page: as fast as there are cores, shared where equal, and refused where too many wait."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from ullage.serve.jobs import Job, JobBoard, work_key
from ullage.serve.problems import ProblemError
from ullage.serve.runner import Ending, Runner, ServedWork
from ullage.serve.settings import ServeLimits
from ullage.serve.tasks import PROBLEM

_KEPT = 2000


class LiveDesk:
    """Evaluations: `seats` at a time, the latest answers kept, and the decided plan of each page's last move."""

    def __init__(self, runner: Runner, board: JobBoard, limits: ServeLimits, *, seats: int) -> None:
        self._runner, self._board, self._limits = runner, board, limits
        self._seats = asyncio.Semaphore(seats)
        self._waiting = 0
        self._under_way: dict[str, asyncio.Task[Ending]] = {}
        self._kept: OrderedDict[str, Ending] = OrderedDict()
        self._moves: OrderedDict[tuple[str, str], Job] = OrderedDict()

    async def stop(self) -> None:
        for each in self._under_way.values():
            each.cancel()

    async def evaluate(self, work: ServedWork) -> Ending:
        """The ending of a first look; equal ones are looked at once."""
        key = work_key(work)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if key not in self._under_way:
            if self._waiting >= self._limits.waiting_evaluations:
                detail = f"{self._waiting} evaluations are waiting. Ask again shortly."
                raise ProblemError("too-many", detail, retry_after_s=2)
            task = self._under_way[key] = asyncio.create_task(self._look(key, work))
            task.add_done_callback(lambda _done: self._under_way.pop(key, None))
        # Who goes away does not take it from the others.
        return await asyncio.shield(self._under_way[key])

    def decide(self, work: ServedWork, owner: str, session: str | None) -> Job:
        """The decided plan as a job; the one of this page's move before is let go."""
        name = owner if session is None else f"{owner}\n{session}"
        job, _ = self._board.submit(work, name, is_live=True)
        if session is not None:
            before = self._moves.pop((owner, session), None)
            self._moves[(owner, session)] = job
            if before is not None and before is not job and not before.has_ended:
                self._board.let_go(before, owner, session=session)
            while len(self._moves) > _KEPT:
                self._moves.popitem(last=False)
        return job

    async def _look(self, key: str, work: ServedWork) -> Ending:
        self._waiting += 1
        try:
            async with self._seats:
                found = await self._runner.run(work, seconds=self._limits.evaluation_s)
        finally:
            self._waiting -= 1
        if found.kind != PROBLEM or found.status == 409:
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found
