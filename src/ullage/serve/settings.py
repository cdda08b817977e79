"""What a service was started with: where it listens, who may ask, and how much of everything."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

from ullage.errors import InputError
from ullage.serve.tokens import TokenTable, TrustedProxy

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """The most of everything that comes from outside; each is refused before it is stored or worked on.

    Requests are counted by principal in a bucket of `burst_requests` that fills at `requests_per_s`.
    """

    # A plan file of a hundred pools has 200 kB.
    body_bytes: int = 2 * MIB
    upload_bytes: int = 256 * MIB
    uploads_bytes: int = GIB
    uploads: int = 64
    unpacked_bytes: int = 4 * GIB
    # Logs shrink to a tenth, the most even ones to a hundredth.
    unpack_ratio: float = 200.0
    rows: int = 50_000_000
    requests_per_s: float = 20.0
    burst_requests: int = 60
    waiting_jobs: int = 16
    # One for each page that moves: a newer move takes the place of the older one.
    waiting_live_jobs: int = 256
    # Two seats answer ten a second; who would wait a second for a seat is asked to come again.
    waiting_evaluations: int = 8
    streams: int = 16
    # Requests of one principal that wait for a job's end at once; each holds a connection.
    waits: int = 64
    connections: int = 512
    # No header, and no next part of a body, for so long: the client is slow or gone.
    idle_s: float = 10.0
    # Any body, a byte now and then included.
    upload_s: float = 300.0
    job_s: float = 900.0
    evaluation_s: float = 20.0
    # Address space of a job: the planner's own limit on work, and what the libraries reserve beside it.
    job_bytes: int = 24 * GIB
    results_bytes: int = 256 * MIB
    kept_jobs: int = 1000


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """One service. `folder` is its own: uploads and the folders of jobs lie in it."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8000
    tokens: TokenTable = field(default_factory=TokenTable)
    proxy: TrustedProxy | None = None
    # Names by which clients may call the service, beside the address that it listens on.
    hosts: tuple[str, ...] = ()
    ledger: str | None = None
    prometheus: str | None = None
    http_config: Path | None = None
    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    limits: ServeLimits = field(default_factory=ServeLimits)

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not self.tokens and self.proxy is None:
            raise InputError(
                field="--host",
                value=self.host,
                problem="can be reached from other machines, and nothing says who may ask",
                fix="Give --token-file, or --proxy-header with --proxy-network, or listen on 127.0.0.1.",
            )

    @property
    def is_open(self) -> bool:
        """Whether nobody has to say who they are."""
        return not self.tokens and self.proxy is None

    @property
    def known_hosts(self) -> frozenset[str]:
        """What a Host header may say. Another name that leads here is somebody else's page, rebound."""
        own = {"localhost", "127.0.0.1", "[::1]"} if is_loopback(self.host) or not self.hosts else set()
        return frozenset({*own, *(each.lower() for each in self.hosts)})

    @property
    def checks_hosts(self) -> bool:
        """Elsewhere than on loopback a service goes by names that it cannot know, unless it is told them."""
        return is_loopback(self.host) or bool(self.hosts)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> [is_loopback(each) for each in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.3", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
