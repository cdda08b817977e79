"""Where a statement can be broken, and how.

A statement is a simple one or the head of a compound one. Imports, docstrings, annotations, decorators, assertions and
prose (the text of messages and f-strings) are left alone, and so are two keywords that state no behaviour: `strict=`
of zip, an assertion, and `map=`, on how many cores.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_OPPOSITE = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "floor": "ceil", "ceil": "floor",
             "any": "all", "all": "any"}  # fmt: skip
# The order of their arguments means nothing, or a swap is no program that anyone would write.
_NOT_SWAPPED = {"min", "max", "minimum", "maximum", "hypot", "isinstance", "issubclass", "cast", "getattr", "setattr",
                "gcd", "lcm", "TypeVar", "NewType"}  # fmt: skip
_NO_BEHAVIOUR = {"strict", "map"}
_NEUTRAL: dict[str, bool | int | float | str | bytes] = {"bool": False, "int": 0, "float": 0.0, "str": "", "bytes": b""}
_EMPTY = {"tuple": ast.Tuple, "list": ast.List, "Sequence": ast.Tuple, "Iterable": ast.Tuple}
_NO_STATEMENT = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass, ast.Assert, ast.Global,
    ast.Nonlocal, ast.Try,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One place of a tree and what is to stand there."""

    kind: str
    target: Any
    key: str | int
    new: Any

    def put(self) -> Edit:
        """Change the tree; what is handed back changes it again to what it was."""
        if isinstance(self.key, int):
            old = self.target[self.key]
            self.target[self.key] = self.new
        else:
            old = getattr(self.target, self.key)
            setattr(self.target, self.key, self.new)
        return Edit(kind=self.kind, target=self.target, key=self.key, new=old)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement in the list that holds it, and the annotation of what its function returns."""

    node: ast.stmt
    body: list[ast.stmt]
    place: int
    returns: ast.expr | None

    @property
    def lines(self) -> range:
        """The lines of the statement, or of its head where others stand inside it."""
        inner: list[ast.stmt] = getattr(self.node, "body", [])
        last = inner[0].lineno - 1 if inner else self.node.end_lineno or self.node.lineno
        return range(self.node.lineno, max(self.node.lineno, last) + 1)

    def edits(self) -> list[Edit]:
        found = list(_dropped(self))
        for node in _own(self.node):
            found += _in_expression(node)
        if isinstance(self.node, ast.If | ast.While):
            found.append(_negated(self.node, "test", self.node.test))
        if isinstance(self.node, ast.Return) and self.node.value is not None:
            found += _neutral(self.node, self.returns)
        if isinstance(self.node, ast.AugAssign) and type(self.node.op) in _CALCULATED:
            found.append(_edit("arithmetic", self.node, "op", _CALCULATED[type(self.node.op)]()))
        return found

    def shown(self) -> str:
        """The statement without those inside it."""
        return ast.unparse(self.node).split("\n", 1)[0] if getattr(self.node, "body", []) else ast.unparse(self.node)


def statements(tree: ast.Module) -> list[Statement]:
    """Every statement that can be broken, in the order of the file."""
    return [each for each in _walk(tree.body, None) if each.edits()]


def _walk(body: list[ast.stmt], returns: ast.expr | None) -> Iterator[Statement]:
    for place, node in enumerate(body):
        if _is_for_types(node) or _is_compiled(node):
            continue
        if not isinstance(node, _NO_STATEMENT) and not _is_text(node):
            yield Statement(node=node, body=body, place=place, returns=returns)
        inner = node.returns if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else returns
        for name in ("body", "orelse", "finalbody"):
            yield from _walk(getattr(node, name, []), inner)
        for each in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            yield from _walk(each.body, inner)


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_compiled(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(each) for each in node.decorator_list)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement: not its inner statements, annotations or texts with values in them."""
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        if node is not statement:
            yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            children = value if isinstance(value, list) else [value]
            left += [
                each for each in children
                if isinstance(each, ast.AST) and not isinstance(each, ast.stmt | ast.JoinedStr | ast.excepthandler)
                and getattr(each, "arg", None) not in _NO_BEHAVIOUR
            ]  # fmt: skip


def _edit(kind: str, target: Any, key: str | int, new: Any) -> Edit:
    return Edit(kind=kind, target=target, key=key, new=new)


def _negated(target: Any, key: str | int, test: ast.expr) -> Edit:
    return _edit("negated condition", target, key, ast.UnaryOp(op=ast.Not(), operand=test))


def _dropped(statement: Statement) -> Iterator[Edit]:
    node = statement.node
    stored = isinstance(node, ast.Assign) and all(
        isinstance(each, ast.Subscript | ast.Attribute) for each in node.targets
    )
    if stored or isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Delete):
        yield _edit("dropped statement", statement.body, statement.place, ast.Pass())


def _in_expression(node: ast.AST) -> list[Edit]:
    found: list[Edit] = []
    if isinstance(node, ast.Compare):
        found += [_edit("comparison", node.ops, place, _COMPARED[type(op)]()) for place, op in enumerate(node.ops)]
        found += _compared_texts(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in _CALCULATED and not (_text(node.left) or _text(node.right)):
        found.append(_edit("arithmetic", node, "op", _CALCULATED[type(node.op)]()))
    elif isinstance(node, ast.BoolOp):
        found.append(_edit("and, or", node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found.append(_negated(node, "operand", node.operand))
    elif isinstance(node, ast.IfExp):
        found.append(_negated(node, "test", node.test))
    elif isinstance(node, ast.comprehension):
        found += [_negated(node.ifs, place, test) for place, test in enumerate(node.ifs)]
    elif isinstance(node, ast.Constant):
        found += _constant(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and _text(node.slice):
        found.append(_edit("constant", node.slice, "value", f"not_{node.slice.value!s}"))
    elif isinstance(node, ast.Call):
        found += _call(node)
    return found


def _text(node: ast.expr) -> bool:
    """Whether it is a text or a list written out: adding those is joining."""
    if isinstance(node, ast.Tuple | ast.List | ast.JoinedStr):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _compared_texts(node: ast.Compare) -> list[Edit]:
    return [
        _edit("constant", each, "value", f"not {each.value!s}")
        for each in (node.left, *node.comparators)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def _constant(node: ast.Constant) -> list[Edit]:
    value = node.value
    if isinstance(value, bool):
        return [_edit("constant", node, "value", not value)]
    if isinstance(value, int):
        return [_edit("off by one", node, "value", value + 1)]
    if isinstance(value, float):
        return [_edit("constant", node, "value", 2.0 * value if value else 1.0)]
    return []


def _call(node: ast.Call) -> list[Edit]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    found = [
        _edit("dropped keyword", node, "keywords", [each for each in node.keywords if each is not dropped])
        for dropped in node.keywords
        if dropped.arg is not None and dropped.arg not in _NO_BEHAVIOUR
    ]
    plain = not any(isinstance(each, ast.Starred) for each in node.args)
    if len(node.args) >= 2 and plain and name not in _NOT_SWAPPED:
        first, second, *rest = node.args
        if ast.dump(first) != ast.dump(second):
            found.append(_edit("swapped arguments", node, "args", [second, first, *rest]))
    if name in _OPPOSITE:
        key = "attr" if isinstance(node.func, ast.Attribute) else "id"
        found.append(_edit("min, max", node.func, key, _OPPOSITE[name]))
    return found


def _neutral(node: ast.Return, returns: ast.expr | None) -> list[Edit]:
    """The value that says nothing, of the type that the function hands back."""
    new = _nothing(returns)
    if new is None or node.value is None or ast.dump(new) == ast.dump(node.value):
        return []
    return [_edit("neutral return", node, "value", new)]


def _nothing(returns: ast.expr | None) -> ast.expr | None:
    if returns is None:
        return None
    text = ast.unparse(returns)
    if text.endswith("| None"):
        return ast.Constant(value=None)
    if text in _NEUTRAL:
        return ast.Constant(value=_NEUTRAL[text])
    head = text.split("[", 1)[0]
    if head in _EMPTY:
        return _EMPTY[head](elts=[], ctx=ast.Load())
    return ast.Dict(keys=[], values=[]) if head in ("dict", "Mapping") else None
