"""How the kernel is compiled, and when it must be compiled anew.

numba's cache knows the file of a function, not the files of its callees and constants. Only the entry points are
cached, with all they call linked into them; each takes a World, and the name of World's compiled type holds a
fingerprint of every file of this folder. So an edit anywhere here is a different signature, never stale code.

Left alone, numba links into each function all that it calls, optimises the whole and translates it to machine code: a
function at the bottom twenty times, and all results but those of the entry points are thrown away. Here a function is
kept as it was lowered (PartLibrary), and an entry point links all that it leads to once (EntryLibrary).
"""

# numba's compiler is untyped.
# mypy: disable-error-code="misc, no-untyped-call, no-untyped-def, unused-ignore"

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, cast

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder

from ullage.compile_cache import forgive_cache

F = TypeVar("F", bound=Callable[..., Any])

# Passes for closures, unrolled loops and the like, which the kernel's source does not contain.
_IDLE_PASSES = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteSemanticConstants",
    "DeadBranchPrune",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "InlineOverloads",
    "NopythonRewrites",
    "DumpParforDiagnostics",
}
# What the names of the kernel's functions contain once they are compiled.
_OWN = "ullage8simulate6kernel"


class _NoEnvironment:
    """Stands for the machine where nothing is put on it: no function of the kernel reads Python's globals."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass


class PartLibrary(JITCodeLibrary):
    """The code of one function, without what it calls: material for an entry point, never run by itself."""

    codegen = _NoEnvironment

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


class EntryLibrary(JITCodeLibrary):
    """The code of an entry point and of all that it leads to, optimised as a whole."""

    def finalize(self) -> None:
        found: dict[Any, None] = {}
        self._add(self, found)
        # LLVM leaves out what nothing linked so far calls, so that callers go before what they call.
        self._linking_libraries = [each for each in reversed(found) if each is not self]
        super().finalize()

    def _add(self, library: Any, found: dict[Any, None]) -> None:
        """Adds a library after all that it needs; what numba compiled on its own is linked already."""
        if isinstance(library, (PartLibrary, EntryLibrary)):
            for each in library._linking_libraries:  # noqa: SLF001
                if each not in found:
                    self._add(each, found)
        found[library] = None

    def _verify_declare_only_symbols(self) -> None:
        """A function that is missing here would be called at address 0."""
        super()._verify_declare_only_symbols()
        missing = [each.name for each in self._final_module.functions if each.is_declaration and _OWN in each.name]
        if missing:
            raise RuntimeError(f"{self.name} was compiled without {missing[0]}")


class _KernelCompiler(CompilerBase):
    library_type: type[JITCodeLibrary]

    def define_pipelines(self) -> list[Any]:
        library = self.library_type(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        library.enable_object_caching()
        self.state.library = library
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [each for each in manager.passes if each[0].__name__ not in _IDLE_PASSES]
        manager.finalize()
        return [manager]


class PartCompiler(_KernelCompiler):
    library_type = PartLibrary


class EntryCompiler(_KernelCompiler):
    library_type = EntryLibrary


_njit: Any = numba.njit
# No function here allocates, so reference counting is left out (`_nrt=False`).
_TERMS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_PART_TERMS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler, **_TERMS}


def inline(function: F) -> F:
    """A function that LLVM inlines wherever it is called: a small one, or a large one with one caller."""
    made: F = _njit(forceinline=True, **_PART_TERMS)(function)
    return made


def shared(function: F) -> F:
    """Like `inline`, and Python may call it too."""
    made: F = _njit(forceinline=True, **_TERMS)(function)
    return made


def compiled(function: F) -> F:
    """A function of its own."""
    made: F = _njit(**_PART_TERMS)(function)
    return made


def entry(function: F) -> F:
    """A function that the driver calls, kept on disk with all that it calls."""
    terms = {"nogil": True, "no_cfunc_wrapper": True, "pipeline_class": EntryCompiler, **_TERMS}
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
