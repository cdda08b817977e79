"""Work that is submitted, watched, shared and cancelled.

Equal requests are one job, whoever asks: it goes by a digest of its verb, its request and the content of its uploads.
Everybody who asked for a job owns it; it is cancelled when its last owner lets it go. A page's newer move lets its
older one go. Answers are kept by that digest, the latest ones, within a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import hashlib
import json
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ullage.serve.problems import ProblemError, ServedProblem
from ullage.serve.runner import Ending, Runner, ServedWork
from ullage.serve.settings import ServeLimits
from ullage.serve.tasks import PROBLEM

_BEAT_S = 10.0


class JobState(enum.StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


_ENDED = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class Job:
    """One piece of work; `owners` are principals, or a principal's page."""

    def __init__(self, key: str, work: ServedWork, *, is_live: bool) -> None:
        self.id = secrets.token_hex(16)
        self.key, self.work, self.is_live = key, work, is_live
        self.owners: set[str] = set()
        self.state = JobState.QUEUED
        self.fraction, self.stage = 0.0, ""
        self.submitted_s = time.time()
        self.ended_s: float | None = None
        self.ending: Ending | None = None
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED

    def is_of(self, name: str) -> bool:
        return any(each == name or each.startswith(f"{name}\n") for each in self.owners)

    def document(self) -> dict[str, Any]:
        """What a client is told of it."""
        return {
            "id": self.id,
            "verb": self.work.verb,
            "state": str(self.state),
            "stage": self.stage,
            "fraction": round(self.fraction, 4),
            "submitted": _moment(self.submitted_s),
            "ended": None if self.ended_s is None else _moment(self.ended_s),
            "status": None if self.ending is None else self.ending.status,
            "result": f"/v1/jobs/{self.id}/result",
            "events": f"/v1/jobs/{self.id}/events",
        }

    def say(self, fraction: float, stage: str) -> None:
        """How far it is; whoever watches is told."""
        self.fraction, self.stage = fraction, stage or self.stage
        self._tell()

    def end(self, state: JobState, ending: Ending | None) -> None:
        self.state, self.ending, self.ended_s = state, ending, time.time()
        # What was asked may be as large as a body; only the answer is kept.
        self.work = ServedWork(verb=self.work.verb, request={})
        if state is JobState.DONE:
            self.fraction = 1.0
        self._tell()

    def begin(self) -> None:
        self.state = JobState.RUNNING
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Until it has ended, or so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.has_ended:
                    await self._changed.wait()

    async def watch(self, seconds: float) -> AsyncIterator[dict[str, Any] | None]:
        """Its document at every change, None where nothing changed for a while, until it has ended."""
        until_s = time.monotonic() + seconds
        while True:
            changed = self._changed
            yield self.document()
            if self.has_ended:
                return
            while not changed.is_set():
                if time.monotonic() > until_s:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_BEAT_S):
                        await changed.wait()
                        continue
                yield None


class JobBoard:
    """All jobs of a service: those that wait, those that run on `workers` processes, and the latest that ended.

    What takes no time has a process of its own, so that nobody waits behind a plan to look a device up.
    """

    def __init__(self, runner: Runner, limits: ServeLimits, *, workers: int) -> None:
        self._runner, self._limits = runner, limits
        self._waiting: deque[Job] = deque()
        self._waiting_live: deque[Job] = deque()
        self._waiting_quick: deque[Job] = deque()
        self._wake, self._wake_quick = asyncio.Semaphore(0), asyncio.Semaphore(0)
        self._by_id: OrderedDict[str, Job] = OrderedDict()
        self._by_key: dict[str, Job] = {}
        self._held: Counter[str] = Counter()
        long = (self._waiting, self._waiting_live)
        self._workers = [
            asyncio.create_task(self._work((self._waiting_quick,), self._wake_quick)),
            *(asyncio.create_task(self._work(long, self._wake)) for _ in range(workers)),
        ]

    async def wait(self, job: Job, name: str, seconds: float) -> None:
        """Until the job has ended, or so long. Each principal holds so many connections open and no more."""
        if job.has_ended or not seconds:
            return
        if self._held[name] >= self._limits.waits:
            detail = f"{self._held[name]} of your requests wait for jobs. Ask with wait=0, or watch a job's events."
            raise ProblemError("too-many", detail, retry_after_s=5)
        self._held[name] += 1
        try:
            await job.wait(seconds)
        finally:
            self._held -= Counter([name])

    async def stop(self) -> None:
        for each in (*self._workers, *(job.task for job in self._by_id.values() if job.task is not None)):
            each.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    # ---- asked by routes ----------------------------------------------------------------------------------------

    def submit(self, work: ServedWork, owner: str, *, is_live: bool = False) -> tuple[Job, bool]:
        """The job of this work, and whether somebody had asked for it already."""
        key = work_key(work)
        known = self._by_key.get(key)
        if known is not None and known.state is not JobState.CANCELLED:
            known.owners.add(owner)
            self._by_id.move_to_end(known.id)
            if known.is_live and not is_live and known.state is JobState.QUEUED:
                self._hurry(known)
            return known, True
        name = owner.partition("\n")[0]
        waiting = (*self._waiting, *self._waiting_live, *self._waiting_quick)
        own = sum(1 for each in waiting if each.is_of(name) and not each.has_ended)
        if own >= (self._limits.waiting_live_jobs if is_live else self._limits.waiting_jobs):
            raise ProblemError("too-many", f"{own} of your jobs are waiting. Let some end, or cancel them.",
                               retry_after_s=10)  # fmt: skip
        job = Job(key, work, is_live=is_live)
        job.owners.add(owner)
        self._by_id[job.id] = self._by_key[key] = job
        if work.is_urgent:
            self._waiting_quick.append(job)
            self._wake_quick.release()
        else:
            (self._waiting_live if is_live else self._waiting).append(job)
            self._wake.release()
        self._forget()
        return job, False

    def find(self, job_id: str, name: str) -> Job:
        """A job of this principal; another's is as unknown as none."""
        job = self._by_id.get(job_id)
        if job is None or not job.is_of(name):
            raise ProblemError("not-found", "There is no such job of yours.")
        return job

    def known(self, job_id: str) -> Job | None:
        """The job of this id, whoever asks, as long as it is kept."""
        return self._by_id.get(job_id)

    def jobs_of(self, name: str) -> list[Job]:
        """The newest first."""
        return [each for each in reversed(self._by_id.values()) if each.is_of(name)]

    def let_go(self, job: Job, name: str, *, session: str | None = None) -> None:
        """One owner, or all of a principal's pages, want it no longer; without owners it is cancelled."""
        if session is None:
            job.owners = {each for each in job.owners if each != name and not each.startswith(f"{name}\n")}
        else:
            job.owners.discard(f"{name}\n{session}")
        if job.has_ended or job.owners:
            return
        job.owners.add(name)
        self._cancel(job)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        found = {str(each): 0 for each in JobState}
        for job in self._by_id.values():
            found[str(job.state)] += 1
        return found

    @property
    def result_bytes(self) -> int:
        return sum(len(each.ending.body) for each in self._by_id.values() if each.ending is not None)

    # ---- the work -----------------------------------------------------------------------------------------------

    def _hurry(self, job: Job) -> None:
        """Somebody asks for it by itself: it no longer waits behind those who do."""
        with contextlib.suppress(ValueError):
            self._waiting_live.remove(job)
            job.is_live = False
            self._waiting.append(job)

    def _cancel(self, job: Job) -> None:
        self._by_key.pop(job.key, None)
        if job.task is not None:
            job.task.cancel()
        job.end(JobState.CANCELLED, _problem_ending("gone", "The job was cancelled."))

    async def _work(self, queues: Sequence[deque[Job]], wake: asyncio.Semaphore) -> None:
        while True:
            await wake.acquire()
            job = next((each.popleft() for each in queues if each), None)
            if job is None or job.has_ended:
                continue
            job.task = asyncio.create_task(self._run(job))
            await asyncio.wait([job.task])

    async def _run(self, job: Job) -> None:
        job.begin()
        try:
            ending = await self._runner.run(job.work, seconds=self._limits.job_s, heard=job.say)
        except asyncio.CancelledError:
            if not job.has_ended:
                job.end(JobState.CANCELLED, _problem_ending("gone", "The service was stopped."))
            raise
        except OSError:
            ending = _problem_ending("not-ready", "The process for it could not be started.")
        if ending.status >= 500 or ending.status == 422:
            # A fault, or a limit that another time may not be reached: nobody else is given it from memory.
            self._by_key.pop(job.key, None)
        job.end(JobState.FAILED if ending.kind == PROBLEM else JobState.DONE, ending)
        self._forget()

    def _forget(self) -> None:
        """The oldest that ended go first, when there are too many or their answers too large."""
        total = self.result_bytes
        for job in list(self._by_id.values()):
            if len(self._by_id) <= self._limits.kept_jobs and total <= self._limits.results_bytes:
                return
            if job.has_ended:
                total -= 0 if job.ending is None else len(job.ending.body)
                del self._by_id[job.id]
                if self._by_key.get(job.key) is job:
                    del self._by_key[job.key]


def work_key(work: ServedWork) -> str:
    """Equal for work that ends alike: uploads are named by their content, and the day is settled."""
    text = json.dumps({"verb": work.verb, "request": work.request}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _problem_ending(name: str, detail: str) -> Ending:
    return Ending(kind=PROBLEM, body=ServedProblem(name=name, detail=detail).body())


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
