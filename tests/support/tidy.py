"""The habits of STYLE as checks over source text; each finding names file, line, thing and rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ullage"

# The last word of a numeric field's name is its unit.
UNITS = frozenset(
    "s ps ns bytes tokens rps usd fraction count blocks flops watts bits ratio percentile joules kwh days milli".split()
)
# A rate or a price ends in what it is per: tokens_per_s, usd_per_hour, bytes_per_token.
PER = re.compile(r"_per_[a-z]+$")
# Counts of things are named by the thing, in the plural: layers, replicas. (is, has, plus... are not numbers.)
PLURAL = re.compile(r"(?:^|_)[a-z]{2,}s$")
# Numbers that have no unit, each with the reason.
WITHOUT_UNIT = {
    "value": "its unit stands beside it",
    "low": "its unit stands beside it",
    "high": "its unit stands beside it",
    "seed": "names a random stream",
    "priority": "an order",
    "rank": "an order",
    "index": "a position",
    "line": "a position in a file",
    "row": "a position in a file",
    "stage": "a position in a pipeline",
    "tp": "a degree of parallelism, in its usual name",
    "pp": "a degree of parallelism, in its usual name",
    "ep": "a degree of parallelism, in its usual name",
    "dp_attention": "a degree of parallelism, in its usual name",
    "major": "part of a version",
    "minor": "part of a version",
    "patch": "part of a version",
}
BANNED_NAMES = frozenset({"utils", "util", "common", "helpers", "core", "schemas", "compat", "misc", "v2"})
PURE = frozenset(
    "reconcile uncertainty plan cost scaling fleet admission service simulate memory workload prices".split()
) | {"units.py", "errors.py", "evidence.py"}
BANNED_CALLS = frozenset({"open", "print", "input", "eval", "exec", "breakpoint"})
CLOCK_CALLS = frozenset({"now", "today", "utcnow"})
GLOBAL_CHANCE = frozenset(
    "seed rand randn randint random normal uniform choice shuffle permutation exponential".split()
)
NUMBA_HOMES = frozenset({"simulate/kernel.py", "workload/synthetic/stream.py"})
# The literal simulator is state that changes step by step; that is what makes it readable as a specification.
STATE_MACHINES = frozenset({"simulate/reference.py"})
LONGEST_FUNCTION_LINES = 80


def anomalies(root: Path = SOURCE) -> list[str]:
    """Every breach below this folder, in order of file and line."""
    return [anomaly for path in sorted(root.rglob("*.py")) for anomaly in _file_anomalies(path, path.relative_to(root))]


def _file_anomalies(path: Path, inside: Path) -> Iterator[str]:
    for part in inside.with_suffix("").parts:
        if part in BANNED_NAMES:
            yield f"{inside}: a module is named by its subject, not '{part}'"
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _class_anomalies(node, inside)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function_anomalies(node, inside)
        if inside.parts[0] in PURE:
            yield from _purity_anomalies(node, inside)
        yield from _numba_anomalies(node, inside)


def _class_anomalies(node: ast.ClassDef, inside: Path) -> Iterator[str]:
    decorators = [each for each in node.decorator_list if "dataclass" in ast.unparse(each).split("(")[0]]
    if not decorators or inside.as_posix() in STATE_MACHINES:
        return
    text = ast.unparse(decorators[0])
    for wanted in ("frozen=True", "kw_only=True"):
        if wanted not in text:
            yield f"{inside}:{node.lineno}: dataclass {node.name} lacks {wanted}"
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and _is_number(each.annotation):
            name = each.target.id
            if not has_unit(name):
                yield f"{inside}:{each.lineno}: field {node.name}.{name} does not end in its unit"


def has_unit(name: str) -> bool:
    last = name.rsplit("_", 1)[-1]
    known = last in UNITS or last in WITHOUT_UNIT or name in WITHOUT_UNIT
    return known or PER.search(name) is not None or PLURAL.search(name) is not None


def _is_number(annotation: ast.expr) -> bool:
    names = {each.strip() for each in ast.unparse(annotation).split("|")}
    return bool(names & {"int", "float"}) and names <= {"int", "float", "None"}


def _function_anomalies(node: ast.FunctionDef | ast.AsyncFunctionDef, inside: Path) -> Iterator[str]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > LONGEST_FUNCTION_LINES and inside.as_posix() not in NUMBA_HOMES:
        yield f"{inside}:{node.lineno}: function {node.name} has {lines} lines and does not fit a screen"


def _purity_anomalies(node: ast.AST, inside: Path) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    called = ast.unparse(node.func)
    last = called.rsplit(".", 1)[-1]
    if called in BANNED_CALLS:
        yield f"{inside}:{node.lineno}: the core calls {called}()"
    if last in CLOCK_CALLS and "date" in called:
        yield f"{inside}:{node.lineno}: the core reads the clock by {called}()"
    if last in GLOBAL_CHANCE and called in {f"np.random.{last}", f"numpy.random.{last}"}:
        yield f"{inside}:{node.lineno}: the core draws from the global generator by {called}()"


def _numba_anomalies(node: ast.AST, inside: Path) -> Iterator[str]:
    modules = (
        [each.name for each in node.names]
        if isinstance(node, ast.Import)
        else [node.module or ""]
        if isinstance(node, ast.ImportFrom)
        else []
    )
    if any(each.split(".")[0] == "numba" for each in modules) and inside.as_posix() not in NUMBA_HOMES:
        homes = " and ".join(sorted(NUMBA_HOMES))
        yield f"{inside}:{getattr(node, 'lineno', 0)}: compiled code stands in {homes} alone"
