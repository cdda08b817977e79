"""One module of the package read from another file: the mutant named in ULLAGE_MUTANT, "module=file".

It stands on PYTHONPATH, so that the processes which tests start import the same mutant as the tests themselves.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType


class _Mutant(SourceFileLoader):
    """The module as it stands, with the code of the mutant."""

    source: str

    def get_code(self, fullname: str) -> CodeType:
        with open(self.source, encoding="utf-8") as file:
            return compile(file.read(), self.path, "exec", dont_inherit=True)


class _Finder(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None) -> ModuleSpec | None:  # type: ignore[no-untyped-def]
        name, _, file = os.environ.get("ULLAGE_MUTANT", "").partition("=")
        if fullname != name:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is None or found.origin is None:
            return None
        found.loader = loader = _Mutant(fullname, found.origin)
        loader.source = file
        return found


sys.meta_path.insert(0, _Finder)
