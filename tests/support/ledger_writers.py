"""Processes that keep plans: what they report was kept before they reported it."""

from __future__ import annotations

import datetime
import multiprocessing
from multiprocessing.connection import Connection

from ullage.ledger.body import EntryBody, EntryKind
from ullage.ledger.ledger import opened

# A server that has imported everything once forks the writers, so that eight of them cost little more than one.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def written(address: str, name: str, count: int, reports: Connection) -> None:
    """Keep so many plans, each with one that every writer keeps, and send the digest of each after it was kept."""
    with opened(address, create=True) as ledger:
        for number in range(count):
            own, shared = (
                EntryBody(
                    kind=EntryKind.PLAN,
                    service=service,
                    as_of="2026-11-16",
                    summary=str(number),
                    content={"number": number, "weight": "x" * 20_000},
                )
                for service in (name, "shared")
            )
            ledger.keep_all([own, shared], at=datetime.datetime.now(tz=datetime.UTC))
            reports.send(own.digest)
    reports.close()


def start_writer(address: str, name: str, count: int) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=written, args=(address, name, count, there))
    process.start()
    there.close()
    return process, here


def reported(reports: Connection) -> list[str]:
    """All that a writer still sends before it ends."""
    found = []
    try:
        while True:
            found.append(reports.recv())
    except EOFError:
        return found
