"""Known vulnerabilities of everything that is locked (`make audit`): pip-audit for the locks, npm audit for the page.

pip-audit stands in an environment of its own, .venv-tools/audit. Ends with 1 where an advisory is found, and with 2
where one of the services could not be asked: no answer is not a clean one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.supply.locked import LOCKS, ROOT

PIP_AUDIT = "pip-audit==2.10.1"
TOOLS = ROOT / ".venv-tools" / "audit"


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What one service said of one lock; `unasked` is why it said nothing."""

    lock: str
    packages: int
    advisories: tuple[str, ...]
    unasked: str = ""


def pip_answer(lock: str, stdout: str, stderr: str) -> AuditResult:
    """From what pip-audit printed as JSON; it prints none where the service did not answer."""
    try:
        answer: dict[str, Any] = json.loads(stdout)
    except ValueError:
        return AuditResult(lock=lock, packages=0, advisories=(), unasked=last_line(stderr))
    found = answer["dependencies"]
    skipped = [each for each in found if "skip_reason" in each]
    unasked = f"{len(skipped)} of {len(found)} packages, first {skipped[0]['skip_reason']}" if skipped else ""
    advisories = tuple(
        f"{each['name']} {each['version']}: {vulnerability['id']}, fixed in "
        f"{', '.join(vulnerability['fix_versions']) or 'no version yet'}"
        for each in found
        for vulnerability in each.get("vulns", ())
    )
    return AuditResult(lock=lock, packages=len(found) - len(skipped), advisories=advisories, unasked=unasked)


def npm_answer(lock: str, stdout: str, stderr: str) -> AuditResult:
    """From what npm audit printed as JSON; where the registry has no advisories it prints an error or a message."""
    try:
        answer: dict[str, Any] = json.loads(stdout)
    except ValueError:
        return AuditResult(lock=lock, packages=0, advisories=(), unasked=last_line(stderr))
    if "vulnerabilities" not in answer:
        reason = answer.get("message") or (answer.get("error") or {}).get("summary") or last_line(stderr)
        return AuditResult(lock=lock, packages=0, advisories=(), unasked=last_line(str(reason)))
    advisories = tuple(
        f"{name}: {each['severity']}, versions {each['range']}" for name, each in answer["vulnerabilities"].items()
    )
    return AuditResult(lock=lock, packages=answer["metadata"]["dependencies"]["total"], advisories=advisories)


def last_line(text: str) -> str:
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    return lines[-1][:300] if lines else "no answer and no message"


def asked(
    lock: str, command: Sequence[str | Path], read: Callable[[str, str, str], AuditResult], **where: Any
) -> AuditResult:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **where)
    except (OSError, subprocess.TimeoutExpired) as error:
        return AuditResult(lock=lock, packages=0, advisories=(), unasked=str(error))
    return read(lock, done.stdout, done.stderr)


def audit_python() -> list[AuditResult]:
    program = TOOLS / "bin" / "pip-audit"
    if not program.exists():
        venv.create(TOOLS, with_pip=True)
        install = [str(TOOLS / "bin" / "python"), "-m", "pip", "install", "--quiet", PIP_AUDIT]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = f"{PIP_AUDIT} could not be installed: {last_line(done.stderr)}"
            return [AuditResult(lock="requirements", packages=0, advisories=(), unasked=reason)]
    # The locks name every package and its hashes, so that nothing is resolved or installed.
    options = ["--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "30"]
    return [
        asked(f"requirements/{lock}.txt", [program, *options, "-r", ROOT / f"requirements/{lock}.txt"], pip_answer)
        for lock in LOCKS
    ]


def audit_page(environment: Mapping[str, str] = os.environ) -> AuditResult:
    path = f"{ROOT / '.venv' / 'bin'}:{environment.get('PATH', '')}"
    npm = shutil.which("npm", path=path) or "npm"
    command = [npm, "audit", "--json", "--package-lock-only"]
    return asked("page/package-lock.json", command, npm_answer, cwd=ROOT / "page", env={**environment, "PATH": path})


def exit_status(results: Sequence[AuditResult]) -> int:
    if any(each.advisories for each in results):
        return 1
    return 2 if any(each.unasked for each in results) else 0


def main() -> None:
    results = [*audit_python(), audit_page()]
    for each in results:
        if each.unasked:
            print(f"{each.lock}: NOT AUDITED: {each.unasked}")
        if each.packages:
            print(f"{each.lock}: {each.packages} packages, {len(each.advisories)} advisories")
        for advisory in each.advisories:
            print(f"  {advisory}")
    sys.exit(exit_status(results))


if __name__ == "__main__":
    main()
