"""The mutation tool breaks what it says it breaks, and nothing that says nothing."""

from __future__ import annotations

import ast

import pytest
from bench.mutants.operators import statements


def broken(source: str) -> list[tuple[str, str]]:
    """Every mutant of a source, as its kind and its text; the tree is whole again after each."""
    tree = ast.parse(source)
    before, found = ast.unparse(tree), []
    for statement in statements(tree):
        for edit in statement.edits():
            undo = edit.put()
            found.append((edit.kind, ast.unparse(ast.fix_missing_locations(tree))))
            undo.put()
            assert ast.unparse(tree) == before
    assert all(after != before for _, after in found)
    return found


@pytest.mark.parametrize(
    ("source", "kind", "after"),
    [
        ("x = a < b", "comparison", "x = a <= b"),
        ("x = a - b", "arithmetic", "x = a + b"),
        ("x += y", "arithmetic", "x -= y"),
        ("x += y", "dropped statement", "pass"),
        ("x = 3", "off by one", "x = 4"),
        ("x = 0.5", "constant", "x = 1.0"),
        ("x = f(True)", "constant", "x = f(False)"),
        ("x = y['key']", "constant", "x = y['not_key']"),
        ("x = a and b", "and, or", "x = a or b"),
        ("x = a if b else c", "negated condition", "x = a if not b else c"),
        ("x = [y for y in z if y]", "negated condition", "x = [y for y in z if not y]"),
        ("raise error", "dropped statement", "pass"),
        ("x = f(a, by=b)", "dropped keyword", "x = f(a)"),
        ("x = f(a, b, c)", "swapped arguments", "x = f(b, a, c)"),
        ("x = min(a, b)", "min, max", "x = max(a, b)"),
        ("x = math.ceil(a)", "min, max", "x = math.floor(a)"),
    ],
)
def test_a_statement_is_broken(source: str, kind: str, after: str) -> None:
    assert (kind, after) in broken(source)


@pytest.mark.parametrize(
    ("returns", "after"),
    [
        ("float", "0.0"),
        ("int", "0"),
        ("bool", "False"),
        ("str", "''"),
        ("Figure | None", "None"),
        ("tuple[int, ...]", "()"),
        ("Mapping[str, int]", "{}"),
    ],
)
def test_a_function_hands_back_what_says_nothing(returns: str, after: str) -> None:
    assert [text for kind, text in broken(f"def f(x) -> {returns}:\n    return x") if kind == "neutral return"] == [
        f"def f(x) -> {returns}:\n    return {after}"
    ]


def test_a_branch_is_taken_the_other_way() -> None:
    assert ("negated condition", "if not a:\n    pass") in broken("if a:\n    pass")


@pytest.mark.parametrize(
    "source",
    [
        '"""A text."""',
        "import os",
        "assert a < b",
        "x: int",
        "name = f'{a + b} words'",
        "if TYPE_CHECKING:\n    x = 1",
        "@njit\ndef f():\n    return 1 + 2",
        "x = zip(y, strict=z)",
        "x = zip(y, strict=True)",
        "x = f(map=map)",
    ],
)
def test_what_says_nothing_is_left_alone(source: str) -> None:
    assert broken(source) == []
