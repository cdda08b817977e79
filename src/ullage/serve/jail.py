"""A second wall around a request's work: a process that opens no file and reaches no host that it has no business with.

plan_guard.py refuses names before they are used; this refuses what would slip through, by the interpreter's own audit
events. It cannot be taken off again, so only a process that ends with its request wears it. Libraries that open files
by themselves (DuckDB) are not seen by it: they are only ever given names that were checked.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_NEVER = frozenset(
    {
        "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn",
        "os.chmod", "os.chown", "os.symlink", "os.link", "os.setxattr", "os.removexattr",
        "ftplib.connect", "smtplib.connect", "telnetlib.Telnet.open", "webbrowser.open",
    }
)  # fmt: skip
_NETWORK = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind", "socket.sendto"})
# Events with a path, or two of them, that the first or both arguments name.
_PATHS = frozenset(
    {"open", "os.listdir", "os.scandir", "os.remove", "os.mkdir", "os.rmdir", "os.rename", "os.truncate"}
)
# Not all of /proc/self: what a service is told in its environment is nobody's file.
_SYSTEM = ("/proc/self/status", "/proc/self/cgroup", "/proc/self/mountinfo", "/proc/cpuinfo", "/proc/meminfo",
           "/sys", "/dev/null", "/dev/urandom", "/usr/share/zoneinfo",
           "/etc/localtime", "/etc/os-release", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf",
           "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/usr/lib", "/usr/share", "/lib")  # fmt: skip


class JailError(PermissionError):
    """Something that a request has no business with."""


def put_on(folder: Path, *, more: Sequence[str] = (), network: bool = False) -> None:
    """From here on this process opens files under `folder`, the program's own and `more`, and nothing else."""
    program = {
        sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *(each for each in sys.path if each),
        str(Path(__file__).resolve().parents[1]),
    }  # fmt: skip
    open_roots = tuple(sorted({os.path.realpath(each) for each in (*program, *_SYSTEM, *more, str(folder))}))
    # Read now: inside the hook nothing may be looked up that raises an event again.
    real, cwd_of, fspath, unquoted = os.path.realpath, os.getcwd, os.fspath, os.fsdecode

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _PATHS:
            for each in arguments[: 2 if event == "os.rename" else 1]:
                if isinstance(each, str | bytes | os.PathLike):
                    path = real(os.path.join(cwd_of(), unquoted(fspath(each))))
                    if not any(path == root or path.startswith(f"{root}/") for root in open_roots):
                        raise JailError(1, "is not a file of this request", str(each))
        elif event in _NEVER or (not network and event in _NETWORK):
            raise JailError(1, f"{event} is not for requests")

    sys.addaudithook(watch)
