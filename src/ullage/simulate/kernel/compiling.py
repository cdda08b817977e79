"""How the kernel is compiled, and when it must be compiled anew.

numba's cache knows the file of a function, not the files of its callees and constants. Only the entry points are
cached, with all they call linked into them; each takes a World, and the name of World's compiled type holds a
fingerprint of every file of this folder. So an edit anywhere here is a different signature, never stale code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, cast

import numba

from ullage.compile_cache import forgive_cache

F = TypeVar("F", bound=Callable[..., Any])

_njit: Any = numba.njit
# No function here allocates, so reference counting is left out (`_nrt=False`).
_TERMS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}


def inline(function: F) -> F:
    """A small function that LLVM inlines wherever it is called."""
    made: F = _njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_TERMS)(function)
    return made


def shared(function: F) -> F:
    """Like `inline`, and Python may call it too."""
    made: F = _njit(forceinline=True, **_TERMS)(function)
    return made


def once(function: F) -> F:
    """A large function with one hot caller: numba inlines it, so that it is optimised once."""
    made: F = _njit(inline="always", **_TERMS)(function)
    return made


def compiled(function: F) -> F:
    """A function of its own."""
    made: F = _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_TERMS)(function)
    return made


def entry(function: F) -> F:
    """A function that the driver calls, kept on disk with all that it calls."""
    terms = {"nogil": True, "no_cfunc_wrapper": True, **_TERMS}
    try:
        made: F = _njit(cache=True, **terms)(function)
    except RuntimeError:
        # There is no folder to keep it in: it is compiled for this run alone.
        return cast("F", _njit(**terms)(function))
    forgive_cache(made)
    return made


def fingerprint(folder: Traversable) -> str:
    """What the source in a folder comes to, in sixteen digits."""
    made = hashlib.sha256()
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.name.endswith(".py"):
            made.update(each.name.encode() + b"\0" + each.read_bytes())
    return made.hexdigest()[:16]


VERSION = fingerprint(files(__package__))
