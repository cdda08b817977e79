"""The house keeps its own rules, and each rule catches what it is for, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tidy import GLOSSARY, ROOT, anomalies, retired_word_anomalies, retired_words, unreached


def test_the_source_has_no_anomalies() -> None:
    assert anomalies() == []


def test_what_no_verb_reaches_goes() -> None:
    """Every function and class of the package is used in it, in a page or in a benchmark."""
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    tools = [*ROOT.glob("bench/**/*.py"), *ROOT.glob("scripts/*.py"), *(ROOT / "tests" / "support").glob("*.py")]
    assert unreached("\n".join(each.read_text() for each in (*pages, *tools))) == []


def test_what_only_mentions_itself_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from two import other, third\n"
        "def again(n): return again(n - 1)\n"
        "def told(): return other()\n"
        "def third(): return told()\n"
        "def other(): return 1\n"
        "class Alone: pass\n"
    )
    assert unreached("", tmp_path) == ["one.py: again", "one.py: third", "one.py: Alone"]
    assert unreached("a page about Alone and third", tmp_path) == ["one.py: again"]


@pytest.mark.parametrize(
    ("where", "source", "anomaly"),
    [
        (
            "memory/planted.py",
            "@dataclass(kw_only=True)\nclass Budget:\n    size_bytes: int\n",
            "memory/planted.py:2: dataclass Budget lacks frozen=True",
        ),
        (
            "memory/planted.py",
            "@dataclass(frozen=True)\nclass Budget:\n    size_bytes: int\n",
            "memory/planted.py:2: dataclass Budget lacks kw_only=True",
        ),
        (
            "service/planted.py",
            "@dataclass(frozen=True, kw_only=True)\nclass Curve:\n    latency: float | None = None\n",
            "service/planted.py:3: field Curve.latency does not end in its unit",
        ),
        ("memory/utils.py", "", "memory/utils.py: a module is named by its subject, not 'utils'"),
        ("cost/planted.py", "text = open('prices.csv').read()\n", "cost/planted.py:1: the core calls open()"),
        (
            "planning/planted.py",
            "import datetime\nnow = datetime.date.today()\n",
            "planning/planted.py:2: the core reads the clock by datetime.date.today()",
        ),
        (
            "simulate/planted.py",
            "import numpy as np\nx = np.random.rand(3)\n",
            "simulate/planted.py:2: the core draws from the global generator by np.random.rand()",
        ),
        (
            "fleet/planted.py",
            "from numba import njit\n",
            "fleet/planted.py:1: compiled code stands in simulate/kernel/ and workload/synthetic/stream.py alone",
        ),
        (
            "verbs/planted.py",
            "from pathlib import Path\nPath('a').open('w')\n",
            "verbs/planted.py:2: Path('a').open() writes; files/whole.py alone does",
        ),
        (
            "cli/planted.py",
            "with open(file, mode='ab') as out:\n    pass\n",
            "cli/planted.py:1: open() writes; files/whole.py alone does",
        ),
        (
            "emit/planted.py",
            "file.write_text('a')\n",
            "emit/planted.py:1: file.write_text() writes; files/whole.py alone does",
        ),
        (
            "load/planted.py",
            "import os\nos.replace(a, b)\n",
            "load/planted.py:2: os.replace() writes; files/whole.py alone does",
        ),
        (
            "readers/planted.py",
            "query = \"COPY (SELECT 1) TO 'out.csv'\"\n",
            "readers/planted.py:1: COPY ... TO writes a file; files/whole.py alone does",
        ),
        (
            "readers/planted.py",
            "text = path.read_text(encoding='utf-8')\n",
            "readers/planted.py:1: path.read_text() reads without a limit; bounded.py has one",
        ),
        (
            "verbs/planted.py",
            "def long() -> None:\n" + "    pass\n" * 90,
            "verbs/planted.py:1: function long has 91 lines and does not fit a screen",
        ),
    ],
)
def test_a_planted_breach_is_named(where: str, source: str, anomaly: str, tmp_path: Path) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert anomalies(tmp_path) == [anomaly]


@pytest.mark.parametrize(
    "field", ["limit_s: float", "kv_tokens: int", "bytes_per_token: float", "layers: int", "name: str", "seed: int"]
)
def test_a_near_miss_is_not_named(field: str, tmp_path: Path) -> None:
    path = tmp_path / "memory" / "planted.py"
    path.parent.mkdir()
    path.write_text(f"@dataclass(frozen=True, kw_only=True)\nclass Fine:\n    {field}\n")
    assert anomalies(tmp_path) == []


def test_a_class_name_that_means_two_things_is_named(tmp_path: Path) -> None:
    for room in ("memory", "service"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "planted.py").write_text("class Budget: ...\n")
    assert anomalies(tmp_path) == ["service/planted.py:1: class Budget is also defined in memory/planted.py:1"]


@pytest.mark.parametrize(("files", "anomaly"), [(22, []), (23, ["memory: 23 files in one room, at most 22"])])
def test_a_room_that_has_grown_too_large_is_named(files: int, anomaly: list[str], tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for number in range(files):
        (tmp_path / "memory" / f"planted_{number}.py").write_text("")
    assert anomalies(tmp_path) == anomaly


def test_a_file_of_two_subjects_is_named(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for name, lines in (("whole", 600), ("long", 601)):
        (tmp_path / "memory" / f"{name}.py").write_text("x = 1\n" * lines)
    assert anomalies(tmp_path) == ["memory/long.py: 601 lines, at most 600"]


def test_a_package_lists_the_modules_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "__init__.py").write_text('"""Memory.\n\nkv.py    the cache\ngone.py  moved\n"""\n')
    for name in ("kv.py", "budget.py"):
        (tmp_path / "memory" / name).write_text("")
    assert anomalies(tmp_path) == [
        "memory/__init__.py: lists gone.py, which is not there",
        "memory/__init__.py: does not list budget.py",
    ]


def test_no_retired_word_is_left() -> None:
    assert retired_word_anomalies() == []


def test_every_row_of_retired_words_has_a_pattern() -> None:
    section = GLOSSARY.read_text().partition("## Retired words")[2]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    assert all("`" in row for row in rows)
    assert len(retired_words(GLOSSARY.read_text())) >= len(rows)


@pytest.mark.parametrize(
    ("where", "line", "word"),
    [
        ("src/ullage/fleet/planted.py", '"""Every promise of the pool."""', "promise"),
        ("src/ullage/fleet/planted.py", "def broken_promises(): ...", "promise"),
        ("src/ullage/memory/planted.py", "# How a model is cut.", "How a model is cut"),
        ("src/ullage/memory/planted.py", "class ListFinding: ...", "tFinding"),
        ("tests/fleet/test_planted.py", "def test_a_stage_straddles_nodes() -> None: ...", "straddl"),
        ("docs/howto/planted.md", "The pool keeps every SLO with step times as nominal.", "keeps every SLO"),
        ("docs/howto/planted.md", "Steps are as long as believed.", "believ"),
        ("docs/explanation/planted.md", "Both are the user's own word.", "own word"),
        ("README.md", "Observed demand is what came.", "what came"),
        ("bench/RESULTS.md", "Every start was foretold.", "foretold"),
        ("page/src/planted.tsx", "<p>Machines are given back.</p>", "given back"),
        ("src/ullage/report/planted.py", 'line = f"{turns} turns/h"', "turns/h"),
        ("src/ullage/load/planted.py", 'problem = "is given beside a trace"', "is given beside"),
    ],
)
def test_a_planted_retired_word_is_named(where: str, line: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"\n{line}\n")
    assert retired_word_anomalies(tmp_path) == [f"{where}:2: '{word}' is retired; see docs/glossary.md"]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("src/ullage/readers/planted.py", "problem = 'the file is cut short'"),
        ("src/ullage/readers/planted.py", "# The log says what the engine said, word by word."),
        ("src/ullage/fleet/planted.py", "# A compromise, found carefully; finding the next one takes no time."),
        ("docs/decisions/0001-planted.md", "A promise is kept."),
        ("CHANGELOG.md", "Promises are called SLOs."),
        ("docs/howto/planted.md", "```console\n$ ullage plan\nNot promised here\n```"),
    ],
)
def test_a_near_miss_of_a_retired_word_is_not_named(where: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert retired_word_anomalies(tmp_path) == []
