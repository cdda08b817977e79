"""Who asks, and what they may do: bearer tokens from a file, or a name that a trusted proxy vouches for.

A token is compared by its digest with every known one, whichever matches, so that the time taken tells nothing. Only
the name that stands beside a token is ever written down.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import ipaddress
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ullage.errors import InputError
from ullage.foreign import visible

# 128 bits in base64 are 22 characters; a shorter secret can be tried out.
_LEAST_CHARACTERS = 22
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")
_FIX = "Write one token a line: NAME ROLE TOKEN, with the role read or plan; openssl rand -base64 32 makes a token."
_MOST_NAME = 128


class Role(enum.StrEnum):
    """`read` sees what is there; `plan` may also submit work, upload and keep."""

    READ = "read"
    PLAN = "plan"


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who a request comes from, by the name that is written down."""

    name: str
    role: Role

    @property
    def may_plan(self) -> bool:
        return self.role is Role.PLAN


LOCAL = Principal(name="local", role=Role.PLAN)
"""Whoever reaches a service that listens on loopback alone and has no tokens."""


@dataclass(frozen=True, kw_only=True)
class TokenTable:
    """Digests of tokens, and whose they are; the tokens themselves are forgotten once they are read."""

    entries: tuple[tuple[bytes, Principal], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def find(self, authorization: str) -> Principal | None:
        """Whose token an Authorization header carries; every entry is looked at, found or not."""
        scheme, _, given = authorization.partition(" ")
        digest = _digest(given.strip() if scheme.lower() == "bearer" else "")
        found: Principal | None = None
        for known, principal in self.entries:
            if hmac.compare_digest(known, digest):
                found = principal
        return found


@dataclass(frozen=True, kw_only=True)
class TrustedProxy:
    """A proxy that authenticates: its networks, the header with the user's name, and what such users may do."""

    header: str
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    role: Role = Role.PLAN

    def find(self, peer: str, said: str | None) -> Principal | None:
        """The user a proxy names; a header from anywhere else is worth nothing."""
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return None
        if not said or len(said) > _MOST_NAME or not any(address in each for each in self.networks):
            return None
        return Principal(name=f"proxy:{visible(said)}", role=self.role)


def read_tokens(file: Path) -> TokenTable:
    """The tokens of a file that others cannot read; a line that is none is refused with its number, never its text."""
    from ullage.load.texts import read_text

    text = read_text(file, fix="Give the file with the tokens.", field="--token-file")
    if file.stat().st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        problem = "can be read by others, or written by its group"
        raise InputError(field="--token-file", value=str(file), problem=problem, fix=f"chmod 640 {file}.")
    entries: dict[bytes, Principal] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        digest, principal = _entry(line.split(), f"{file}:{number}")
        if digest in entries or principal.name in {each.name for each in entries.values()}:
            raise InputError(field=f"{file}:{number}", value=principal.name, problem="stands there twice", fix=_FIX)
        entries[digest] = principal
    if not entries:
        raise InputError(field="--token-file", value=str(file), problem="holds no token", fix=_FIX)
    return TokenTable(entries=tuple(entries.items()))


def parse_proxy(header: str, networks: list[str], role: str) -> TrustedProxy:
    """The proxy as it is typed: a header's name and networks such as 10.0.0.0/8."""
    if not re.match(r"^[A-Za-z][A-Za-z0-9-]{1,63}$", header):
        raise InputError(field="--proxy-header", value=header, problem="is not a header's name", fix="X-Forwarded-User")
    if not networks:
        fix = "Name the proxy's addresses, such as --proxy-network 10.0.0.0/8."
        raise InputError(field="--proxy-network", value="", problem="is missing: any client could set it", fix=fix)
    found = []
    for each in networks:
        try:
            found.append(ipaddress.ip_network(each))
        except ValueError:
            fix = "Give it as 10.0.0.0/8."
            raise InputError(field="--proxy-network", value=each, problem="is not a network", fix=fix) from None
    return TrustedProxy(header=header.lower(), networks=tuple(found), role=_role(role, "--proxy-role"))


def _entry(words: list[str], where: str) -> tuple[bytes, Principal]:
    if len(words) != 3:
        raise InputError(field=where, value=f"{len(words)} words", problem="is not NAME ROLE TOKEN", fix=_FIX)
    name, role, token = words
    if not _NAME.match(name):
        raise InputError(field=where, value=name[:64], problem="is not a name", fix=_FIX)
    if len(token) < _LEAST_CHARACTERS:
        problem = f"has a token of fewer than {_LEAST_CHARACTERS} characters"
        raise InputError(field=where, value=name, problem=problem, fix=_FIX)
    return _digest(token), Principal(name=name, role=_role(role, where))


def _role(text: str, field: str) -> Role:
    if text not in tuple(Role):
        raise InputError(field=field, value=text, problem="is not a role", fix="Give read or plan.")
    return Role(text)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
