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
        self._under_way: dict[str, asyncio.Task[Ending]] = {}
        self._kept: OrderedDict[str, Ending] = OrderedDict()
        self._kept_bytes = 0
        # By id alone: a job that the board forgets must not live on here with its answer.
        self._moves: OrderedDict[tuple[str, str], str] = OrderedDict()

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
            if len(self._under_way) >= self._limits.waiting_evaluations:
                detail = f"{len(self._under_way)} evaluations are waiting or under way. Ask again shortly."
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
            before = self._board.known(self._moves.pop((owner, session), ""))
            self._moves[(owner, session)] = job.id
            if before is not None and before is not job and not before.has_ended:
                self._board.let_go(before, owner, session=session)
            while len(self._moves) > _KEPT:
                self._moves.popitem(last=False)
        return job

    async def _look(self, key: str, work: ServedWork) -> Ending:
        async with self._seats:
            found = await self._runner.run(work, seconds=self._limits.evaluation_s)
        if found.kind != PROBLEM or found.status == 409:
            self._keep(key, found)
        return found

    def _keep(self, key: str, found: Ending) -> None:
        """The latest answers, as long as they are neither too many nor too large."""
        self._kept[key] = found
        self._kept_bytes += len(found.body)
        while len(self._kept) > _KEPT or self._kept_bytes > self._limits.results_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest.body)
