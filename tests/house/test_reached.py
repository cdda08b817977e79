"""What no verb reaches goes: every function and class of the package is used in it, in a page or in a benchmark."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ullage"
# Libraries of their own: the simulator with its literal reference, and maps over cores for whoever brings the work.
APART = ("simulate/", "execute/")


def names_in(node: ast.AST) -> Counter[str]:
    """Every name and attribute that is used, as often as it is; an import alone uses nothing."""
    found: Counter[str] = Counter()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found[each.id] += 1
        elif isinstance(each, ast.Attribute):
            found[each.attr] += 1
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value[:1].isupper():
            # An annotation in quotes, or a class in the table of what is printed.
            found.update(re.findall(r"\w+", each.value[:120]))
    return found


def unreached(root: Path, elsewhere: str) -> list[str]:
    """Functions and classes at the top of a module that nothing but themselves mentions."""
    used: Counter[str] = Counter()
    defined: list[tuple[str, str, int]] = []
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).as_posix()
        for node in ast.parse(path.read_text()).body:
            names = names_in(node)
            used.update(names)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not inside.startswith(APART):
                defined.append((inside, node.name, names[node.name]))
    outside = set(re.findall(r"\w+", elsewhere))
    return [
        f"{inside}: {name}"
        for inside, name, own in defined
        if used[name] <= own and name not in outside and not name.startswith("__")
    ]


def test_every_function_and_class_is_used() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    tools = [*ROOT.glob("bench/**/*.py"), *ROOT.glob("scripts/*.py"), *(ROOT / "tests" / "support").glob("*.py")]
    assert unreached(SOURCE, "\n".join(each.read_text() for each in (*pages, *tools))) == []


def test_what_only_mentions_itself_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from two import other, third\n"
        "def again(n): return again(n - 1)\n"
        "def told(): return other()\n"
        "def third(): return told()\n"
        "def other(): return 1\n"
        "class Alone: pass\n"
    )
    assert unreached(tmp_path, "") == ["one.py: again", "one.py: third", "one.py: Alone"]
    assert unreached(tmp_path, "a page about Alone and third") == ["one.py: again"]
