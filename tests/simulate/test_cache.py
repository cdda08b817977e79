"""numba's cache sees the file a function stands in; the kernel stands in many. An edit of any must be noticed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import typeof

from support.scenarios import covering_rows, scenario
from ullage.simulate import Engine, Fleet, LoadClass, Outcome, StepTable, kernel, poisson, simulate
from ullage.simulate.kernel import records, state
from ullage.simulate.kernel.compiling import VERSION, fingerprint
from ullage.simulate.world import KernelRun

KERNEL = Path(kernel.__file__).parent
# Closes a small run at once, in a process of its own, and prints what became of its first request.
CLOSE = """
import sys; sys.path[:0] = {path!r}
import numpy as np
from copied import clock, state
from copied.records import fields_of, record_dtype
given = {{}}
for name, hint in fields_of(state.World).items():
    given[name] = 0 if hint is int else np.zeros(64, np.int64)
given["request_count"] = 1
given["clock"] = np.zeros(1, record_dtype(state.ClockRow))
given["clock"]["issued"] = given["clock"]["in_backoff"] = 1
given["requests"] = np.zeros(1, record_dtype(state.RequestRow))
given["requests"]["status"] = 4
given["counters"] = np.zeros(2, record_dtype(state.Counters))
clock.close(state.World(**given), 7)
print(given["counters"]["unfinished"].sum(), len(clock.close.stats.cache_hits))
"""


def test_an_edit_of_any_file_is_another_version(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(KERNEL, tmp_path / "kernel", ignore=shutil.ignore_patterns("__pycache__")))
    assert fingerprint(copied) == VERSION
    for path in sorted(copied.glob("*.py")):
        before = path.read_text()
        path.write_text(before + "# edited\n")
        assert fingerprint(copied) != VERSION, path.name
        path.write_text(before)
    (copied / "added.py").write_text("")
    assert fingerprint(copied) != VERSION


def test_the_version_is_part_of_every_cached_signature() -> None:
    """Only functions whose first argument is a World are cached, and World's compiled type carries the version."""
    run = KernelRun(scenario(dict(covering_rows()[0]), 1))
    assert VERSION in typeof(run.world).name  # type: ignore[no-untyped-call]
    for path in KERNEL.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and "entry" in [ast.unparse(each) for each in node.decorator_list]:
                assert ast.unparse(node.args.args[0].annotation or node) == "World", node.name
            if isinstance(node, ast.keyword) and node.arg == "cache":
                assert path.name == "compiling.py"


def test_the_kernel_takes_nothing_from_outside_its_folder() -> None:
    """But for the forgiving of damaged files, which compiles nothing: its edit changes no machine code."""
    allowed = ("ullage.simulate.kernel", "ullage.compile_cache")
    for path in KERNEL.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            outside = [each for each in modules if each.startswith("ullage") and not each.startswith(allowed)]
            assert not outside, path.name


def test_a_field_of_a_record_can_be_read_uncompiled() -> None:
    """numpy's records have methods of their own; a field of such a name would be the method."""
    for name, each in vars(state).items():
        if isinstance(each, type) and each.__module__ == state.__name__ and name != "World":
            assert not [field for field in records.fields_of(each) if hasattr(np.void, field)], name


def _digest() -> str:
    step = StepTable.affine(step_s=0.008, prefill_token_s=3e-5, kv_token_s=1e-8)
    load = poisson(
        rate_rps=12.0, requests=800, prompt_tokens=600, output_tokens=80, spread=0.5, rng=np.random.default_rng(1),
        classes=(LoadClass(name="chat", ttft_slo_s=0.05), LoadClass(name="batch")),
    )  # fmt: skip
    outcome: Outcome = simulate(Engine(step=step, kv_blocks=4000), Fleet(replicas=3), load, seed=1)
    return repr((outcome.duration_s, outcome.total.counts, outcome.total.ttft.counts.tobytes().hex()[:4000]))


@pytest.mark.slow
def test_a_fresh_cache_gives_what_the_kept_cache_gives(tmp_path: Path) -> None:
    """Were a stale compilation in the cache, a process that compiles anew would disagree with it."""
    source = f"import sys; sys.path[:0] = {sys.path!r}\nimport test_cache\nprint(test_cache._digest())"
    assert _python(source, tmp_path, PYTHONPATH=str(Path(__file__).parent)) == _digest()


@pytest.mark.slow
def test_an_edited_callee_is_compiled_anew(tmp_path: Path) -> None:
    """The edit is in a file that holds neither the cached function nor World."""
    copied = tmp_path / "copied"
    shutil.copytree(KERNEL, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copied.glob("*.py"):
        path.write_text(path.read_text().replace("ullage.simulate.kernel", "copied"))
    source = CLOSE.format(path=[str(tmp_path), *sys.path])
    assert _python(source, tmp_path) == "1 0"
    assert _python(source, tmp_path) == "1 1", "the second process finds the first one's code"
    books = copied / "books.py"
    books.write_text(books.read_text().replace("counters.unfinished += 1", "counters.unfinished += 5"))
    assert _python(source, tmp_path) == "5 0"


def _python(source: str, cache: Path, **environment: str) -> str:
    given = {**os.environ, "NUMBA_CACHE_DIR": str(cache / "cache"), **environment}
    done = subprocess.run([sys.executable, "-c", source], env=given, capture_output=True, text=True, check=True)
    return done.stdout.strip()
