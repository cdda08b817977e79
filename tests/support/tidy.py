"""The habits of STYLE as checks over source text; each anomaly names file, line, thing and rule."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ullage"
GLOSSARY = ROOT / "docs" / "glossary.md"

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
    "least": "its unit stands beside it",
    "most": "its unit stands beside it",
    "low": "its unit stands beside it",
    "high": "its unit stands beside it",
    "score": "its unit stands beside it",
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
    "port": "an address of a process",
    "major": "part of a version",
    "minor": "part of a version",
    "patch": "part of a version",
}
# What numba is told there it finds by decorators.
APART = "simulate/kernel/"
BANNED_NAMES = frozenset({"utils", "util", "common", "helpers", "core", "schemas", "compat", "misc", "v2"})
PURE = frozenset(
    "reconcile uncertainty planning cost scaling fleet admission startup service".split()
    + "simulate memory workload prices".split()
) | {"units.py", "documents.py", "errors.py", "evidence.py", "foreign.py"}
BANNED_CALLS = frozenset({"open", "print", "input", "eval", "exec", "breakpoint"})
CLOCK_CALLS = frozenset({"now", "today", "utcnow"})
GLOBAL_CHANCE = frozenset(
    "seed rand randn randint random normal uniform choice shuffle permutation exponential".split()
)
IMPURE_CALLS = BANNED_CALLS | CLOCK_CALLS | GLOBAL_CHANCE
# One function writes files; the terminal sends to the null device what a closed pipe did not take.
WRITING_CALLS = frozenset(
    "write_text write_bytes replace rename renames unlink remove rmdir rmtree truncate mkdir makedirs symlink_to "
    "hardlink_to link symlink touch copy copyfile copy2 move mkstemp mkdtemp NamedTemporaryFile TemporaryFile tofile "
    "savetxt to_csv to_parquet to_json write_csv write_parquet".split()
)
WRITING_OR_OPENING = WRITING_CALLS | {"open", "fdopen"}
# Names that values have too: a text is replaced, a dict is copied. Only as functions of these modules do they write.
ALSO_OF_VALUES = frozenset("replace copy link move remove to_json".split())
WRITING_MODULES = frozenset({"os", "shutil", "tempfile"})
COPY_TO = re.compile(r"\bCOPY\b.*\bTO\b")
WRITING_MODE = re.compile(r"[wax+]")
# Files of users are written by the first alone; the second writes into a folder that ends with the service.
WRITING_HOMES = frozenset({"files/whole.py", "serve/disk.py"})
NULL_DEVICE = "os.open(os.devnull, os.O_WRONLY)"
# Where files that a user names are read; what is read there without a limit is packaged with us.
READING_ROOMS = frozenset("readers load files verbs ledger cli loadtools".split())
READS_OF_OURS = frozenset(
    {"(files('ullage.files') / 'example.yaml').read_text(encoding='utf-8')", "found.read_bytes()"}
)
NUMBA_HOMES = ("simulate/kernel/", "workload/synthetic/stream.py")
LONGEST_FUNCTION_LINES = 80
# A longer file has two subjects.
LONGEST_FILE_LINES = 600
# A room whose files fit on one screen; a larger one has two subjects and becomes two rooms.
LARGEST_ROOM_FILES = 22
# In the docstring of a package, one line for each of its modules.
LISTED_MODULE = re.compile(r"(?m)^ *(\w+\.py) {1,}\S")
# One file a verb: these are as large as the command line is.
ROOMS_OF_VERBS = frozenset({"cli", "verbs"})
# Written before a word was retired, and right for their time.
HISTORY = frozenset({"docs/decisions", "CHANGELOG.md"})
# The glossary lists the retired words, and the tests of this rule plant them.
QUOTES_RETIRED_WORDS = frozenset({"docs/glossary.md", "tests/house/test_tidy.py"})


def anomalies(root: Path = SOURCE) -> list[str]:
    """Every breach below this folder, in order of file and line; then class names and rooms, which span files."""
    return list(_walked(root).anomalies)


def unreached(elsewhere: str, root: Path = SOURCE) -> list[str]:
    """Functions and classes at the top of a module that nothing but themselves mentions."""
    walked, outside = _walked(root), set(re.findall(r"\w+", elsewhere))
    return [
        f"{inside}: {name}"
        for inside, name, own in walked.defined
        if walked.used[name] <= own and name not in outside and not name.startswith("__")
    ]


class _Walked(NamedTuple):
    """What is left of a source tree after its files were parsed, which takes longer than looking at them."""

    anomalies: tuple[str, ...]
    defined: tuple[tuple[str, str, int], ...]
    """File and name of each function and class, and how often it mentions itself."""
    used: Counter[str]


@functools.cache
def _walked(root: Path) -> _Walked:
    paths = sorted(root.rglob("*.py"))
    found: list[str] = []
    repeated: list[str] = []
    homes: dict[str, str] = {}
    defined: list[tuple[str, str, int]] = []
    used: Counter[str] = Counter()
    for path in paths:
        inside = path.relative_to(root)
        for top in ast.parse(path.read_text()).body:
            nodes = list(ast.walk(top))
            found += _file_anomalies(nodes, inside)
            repeated += _repeated_classes(nodes, inside, homes)
            names = _names_in(nodes)
            used.update(names)
            if isinstance(top, ast.FunctionDef | ast.ClassDef) and not inside.as_posix().startswith(APART):
                defined.append((inside.as_posix(), top.name, names[top.name]))
    named = [each for path in paths for each in _name_anomalies(path.relative_to(root))]
    rooms = (*_large_rooms(root, paths), *_listed_modules(root, paths), *_long_files(root, paths))
    return _Walked((*named, *found, *repeated, *rooms), tuple(defined), used)


def _listed_modules(root: Path, paths: Sequence[Path]) -> Iterator[str]:
    """A package whose docstring lists modules lists them all, and no other."""
    for path in paths:
        listed = set(LISTED_MODULE.findall(path.read_text())) if path.name == "__init__.py" else set()
        if listed:
            there = {each.name for each in path.parent.glob("*.py")} - {"__init__.py"}
            inside = path.relative_to(root)
            yield from (f"{inside}: lists {name}, which is not there" for name in sorted(listed - there))
            yield from (f"{inside}: does not list {name}" for name in sorted(there - listed))


def _long_files(root: Path, paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        lines = path.read_text().count("\n")
        if lines > LONGEST_FILE_LINES:
            yield f"{path.relative_to(root)}: {lines} lines, at most {LONGEST_FILE_LINES}"


def _names_in(nodes: Sequence[ast.AST]) -> Counter[str]:
    """Every name and attribute that is used, as often as it is; an import alone uses nothing."""
    found: list[str] = []
    for each in nodes:
        if isinstance(each, ast.Name):
            found.append(each.id)
        elif isinstance(each, ast.Attribute):
            found.append(each.attr)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value[:1].isupper():
            # An annotation in quotes, or a class in the table of what is printed.
            found += re.findall(r"\w+", each.value[:120])
    return Counter(found)


def _repeated_classes(nodes: Sequence[ast.AST], inside: Path, homes: dict[str, str]) -> Iterator[str]:
    """A class name means one thing in the whole package; `homes` is where those of the files before stand."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            place = f"{inside}:{node.lineno}"
            if node.name in homes:
                yield f"{place}: class {node.name} is also defined in {homes[node.name]}"
            homes.setdefault(node.name, place)


def _large_rooms(root: Path, paths: Sequence[Path]) -> Iterator[str]:
    for room, count in sorted(Counter(path.parent.relative_to(root).as_posix() for path in paths).items()):
        if count > LARGEST_ROOM_FILES and room not in ROOMS_OF_VERBS:
            yield f"{room}: {count} files in one room, at most {LARGEST_ROOM_FILES}"


def retired_words(glossary: str) -> list[re.Pattern[str]]:
    """What the glossary's section on retired words says to search for: the backquoted patterns of its last column."""
    section = glossary.partition("## Retired words")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line.strip("| ")) for line in section.splitlines() if line.startswith("|")]
    cells = [row[-1].replace("\\|", "|") for row in rows]
    return [re.compile(pattern, re.IGNORECASE) for cell in cells for pattern in re.findall("`([^`]+)`", cell)]


def retired_word_anomalies(root: Path = ROOT, glossary: Path = GLOSSARY) -> list[str]:
    """Every retired word in source, the page, tests, documents and README, with file and line."""
    patterns = [(_loose(each), each) for each in retired_words(glossary.read_text())]
    folders = ("src/**/*.py", "page/src/**/*.ts*", "tests/**/*.py", "docs/**/*.md", "bench/*.md", "*.md")
    paths = [each for folder in folders for each in root.glob(folder)]
    return [
        f"{path.relative_to(root)}:{number}: '{found[0]}' is retired; see docs/glossary.md"
        for path in sorted(paths)
        if not _is_exempt(path.relative_to(root))
        for text in [path.read_text()]
        for small in [text.lower()]
        for loose, pattern in patterns
        if loose.search(small)
        for number, line in _prose(path, text)
        if (found := pattern.search(line))
    ]


def _loose(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """What finds at least as much in a text without capitals; a plain letter to look for first is ten times as fast."""
    return re.compile(re.sub(r"\\b|\(\?<!.*?\)", "", pattern.pattern).replace("(?-i:", "(?:").lower())


def _is_exempt(inside: Path) -> bool:
    places = {inside.as_posix(), *(parent.as_posix() for parent in inside.parents)}
    return bool(places & (HISTORY | QUOTES_RETIRED_WORDS))


def _prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines; on a page without its recorded examples, whose words are those of the source that prints them."""
    is_recorded = False
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix == ".md" and line.lstrip().startswith("```"):
            is_recorded = not is_recorded
        elif not is_recorded:
            yield number, line


def _name_anomalies(inside: Path) -> Iterator[str]:
    for part in inside.with_suffix("").parts:
        if part in BANNED_NAMES:
            yield f"{inside}: a module is named by its subject, not '{part}'"


def _file_anomalies(nodes: Sequence[ast.AST], inside: Path) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from _class_anomalies(node, inside)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function_anomalies(node, inside)
        elif isinstance(node, ast.Call):
            if inside.parts[0] in PURE:
                yield from _purity_anomalies(node, inside)
            yield from _writing_anomalies(node, inside)
            yield from _reading_anomalies(node, inside)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and COPY_TO.search(node.value):
            yield f"{inside}:{node.lineno}: COPY ... TO writes a file; files/whole.py alone does"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _numba_anomalies(node, inside)


def _class_anomalies(node: ast.ClassDef, inside: Path) -> Iterator[str]:
    decorators = [each for each in node.decorator_list if "dataclass" in ast.unparse(each).split("(")[0]]
    if not decorators:
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
    if lines > LONGEST_FUNCTION_LINES and not inside.as_posix().startswith(NUMBA_HOMES):
        yield f"{inside}:{node.lineno}: function {node.name} has {lines} lines and does not fit a screen"


def _purity_anomalies(node: ast.Call, inside: Path) -> Iterator[str]:
    last = _last_name(node)
    if last not in IMPURE_CALLS:
        return
    called = ast.unparse(node.func)
    if called in BANNED_CALLS:
        yield f"{inside}:{node.lineno}: the core calls {called}()"
    if last in CLOCK_CALLS and "date" in called:
        yield f"{inside}:{node.lineno}: the core reads the clock by {called}()"
    if last in GLOBAL_CHANCE and called in {f"np.random.{last}", f"numpy.random.{last}"}:
        yield f"{inside}:{node.lineno}: the core draws from the global generator by {called}()"


def _last_name(call: ast.Call) -> str:
    """The name that is called, without its owner; spelling out the owner of every call would take seconds."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _writing_anomalies(node: ast.Call, inside: Path) -> Iterator[str]:
    """Nothing but files/whole.py opens for writing, or renames and removes files, in Python or in SQL."""
    last = _last_name(node)
    if last not in WRITING_OR_OPENING or inside.as_posix() in WRITING_HOMES or ast.unparse(node) == NULL_DEVICE:
        return
    called = ast.unparse(node.func)
    owner = called.rpartition(".")[0]
    of_module = owner.split(".")[0] in WRITING_MODULES
    is_writer = last in WRITING_CALLS and (of_module or (last not in ALSO_OF_VALUES and bool(owner)))
    if is_writer or (last in ("open", "fdopen") and (called == "os.open" or _opens_for_writing(node))):
        yield f"{inside}:{node.lineno}: {called}() writes; files/whole.py alone does"


def _reading_anomalies(node: ast.Call, inside: Path) -> Iterator[str]:
    """What a user names is read whole by bounded.py alone: a device that never ends would fill the memory."""
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in ("read_text", "read_bytes")
    if not is_method or inside.parts[0] not in READING_ROOMS or ast.unparse(node) in READS_OF_OURS:
        return
    if inside.as_posix() not in WRITING_HOMES:
        yield f"{inside}:{node.lineno}: {ast.unparse(node.func)}() reads without a limit; bounded.py has one"


def _opens_for_writing(node: ast.Call) -> bool:
    """Whether a mode among the arguments is one of writing; a mode that is worked out might be."""
    modes = [each.value for each in node.keywords if each.arg == "mode"]
    given = [*modes, *(each for each in node.args[:2] if isinstance(each, ast.Constant))]
    return any(
        not isinstance(each, ast.Constant)
        or (isinstance(each.value, str) and len(each.value) <= 3 and WRITING_MODE.search(each.value) is not None)
        for each in given
    )


def _numba_anomalies(node: ast.Import | ast.ImportFrom, inside: Path) -> Iterator[str]:
    modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    if any(each.split(".")[0] == "numba" for each in modules) and not inside.as_posix().startswith(NUMBA_HOMES):
        homes = " and ".join(sorted(NUMBA_HOMES))
        yield f"{inside}:{node.lineno}: compiled code stands in {homes} alone"
