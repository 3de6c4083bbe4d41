"""Value expressions of MDF -> operations, through Python's `ast` and a table of allowed nodes.

Nothing is ever evaluated by Python: an expression is data.

Source: modelspec.utils.evaluate (modeci-mdf 0.4.15), which this follows except where a value's
number type would depend on the value (there, a float result without fraction becomes an int).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mdf_loop.build import Builder
from mdf_loop.errors import ExpressionError, LoopError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.functions import constants, function
from mdf_loop.lower.operators import Term, tensor
from mdf_loop.lower.scope import Scope
from mdf_loop.lower.subscripts import Index, Slice, subscript

_BINARY: dict[type[ast.operator], Callable[[Builder, Value, Value], Value]] = {
    ast.Add: ops.add,
    ast.Sub: ops.subtract,
    ast.Mult: ops.multiply,
    ast.Div: ops.divide,
    ast.FloorDiv: ops.floor_divide,
    ast.Mod: ops.modulo,
    ast.Pow: ops.power,
    ast.MatMult: ops.matmul,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Builder, Value, Value], Value]] = {
    ast.Lt: ops.less,
    ast.LtE: ops.less_equal,
    ast.Gt: ops.greater,
    ast.GtE: ops.greater_equal,
    ast.Eq: ops.equal,
    ast.NotEq: ops.not_equal,
}
_LOGICAL = {ast.BitAnd: "And", ast.BitOr: "Or", ast.BitXor: "Xor"}


def lower_expression(b: Builder, expression: Any, scope: Scope) -> Term:
    """What a document's value means here.

    In order: an exact name of the scope, a number, a list, else a Python expression.

    Raises:
        LoopError: the expression, its column and what is wrong with it.
    """
    if isinstance(expression, str):
        return _lower_text(b, expression, scope)
    if isinstance(expression, list | tuple) and _holds_text(expression):
        return tuple(lower_expression(b, part, scope) for part in expression)
    if expression is None or isinstance(expression, dict):
        raise ExpressionError(
            f"{type(expression).__name__} is not a value", hint="give a number, list or expression"
        )
    return ops.literal(b, expression)


def _holds_text(parts: Any) -> bool:
    return any(isinstance(p, str) or (isinstance(p, list) and _holds_text(p)) for p in parts)


def _lower_text(b: Builder, text: str, scope: Scope) -> Term:
    found = scope.find(text)
    if found is None:
        found = scope.find(text.strip())
    if found is not None:
        return found
    number = number_of(text)
    if number is not None:
        return ops.literal(b, number)
    tree = parse(text)
    try:
        return _Lowering(b, scope).visit(tree.body)
    except LoopError as error:
        raise _with_expression(error, text) from None


def number_of(text: str) -> int | float | None:
    """The number that a text spells (`5`, `1e-3`), if it spells one."""
    for kind in (int, float):
        try:
            number: int | float = kind(text)
        except ValueError:
            continue
        if text.strip().lstrip("+-")[:1].isdigit() or text.strip().lstrip("+-")[:1] == ".":
            return number
    return None


def parse(text: str) -> ast.Expression:
    """The syntax tree of an expression, or an error that shows the place."""
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None)
        place = f" at column {column}" if column else ""
        raise ExpressionError(
            f"cannot read the expression '{_short(text)}'{place}",
            hint="expressions are Python arithmetic on the names of the node",
        ) from None


def names_in(expression: Any) -> set[str]:
    """The names an expression reads (dotted ones whole); an unreadable text is one name."""
    if isinstance(expression, list | tuple):
        return set().union(*(names_in(part) for part in expression)) if expression else set()
    if not isinstance(expression, str) or number_of(expression) is not None:
        return set()
    try:
        tree = parse(expression)
    except ExpressionError:
        return {expression.strip()}
    dotted = {_dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    plain = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {expression.strip()} | plain | {name for name in dotted if name}


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _with_expression(error: LoopError, text: str) -> LoopError:
    marked = f" (in '{_short(text)}')"
    error.findings = tuple(
        f if f.where or marked in f.what else replace(f, what=f.what + marked)
        for f in error.findings
    )
    return error


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


class _Lowering:
    """One method per kind of syntax node that an expression may hold."""

    def __init__(self, b: Builder, scope: Scope) -> None:
        self.b = b
        self.scope = scope

    def visit(self, node: ast.expr) -> Term:
        method = getattr(self, f"visit_{type(node).__name__}", None)
        if method is None:
            raise ExpressionError(
                f"'{type(node).__name__}' is not allowed in a value expression (column {node.col_offset + 1})"
            )
        term: Term = method(node)
        return term

    def value(self, node: ast.expr) -> Value:
        return tensor(self.b, self.visit(node))

    def visit_Constant(self, node: ast.Constant) -> Term:
        if not isinstance(node.value, bool | int | float):
            raise ExpressionError(f"{node.value!r} is not a number or truth value")
        return ops.literal(self.b, node.value)

    def visit_Name(self, node: ast.Name) -> Term:
        return self.scope.get(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> Term:
        name = _dotted(node)
        if not name:
            raise ExpressionError(f"'.{node.attr}' is not allowed here")
        found = self.scope.find(name)
        if found is not None:
            return found
        if name in constants:
            return ops.literal(self.b, constants[name])
        return self.scope.get(name)

    def visit_BinOp(self, node: ast.BinOp) -> Term:
        left, right = self.value(node.left), self.value(node.right)
        logical = _LOGICAL.get(type(node.op))
        if logical is not None:
            return self._logical(logical, left, right)
        operator = _BINARY.get(type(node.op))
        if operator is None:
            raise ExpressionError(f"the operator '{type(node.op).__name__}' is not supported")
        return operator(self.b, left, right)

    def _logical(self, op_type: str, left: Value, right: Value) -> Value:
        if left.dtype != "bool" or right.dtype != "bool":
            raise ExpressionError(
                f"'&', '|', '^' combine truth values here, not {left.type} and {right.type}",
                hint="compare first, e.g. (a > 0) & (b > 0)",
            )
        return self.b.op(op_type, left, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Term:
        value = self.value(node.operand)
        match node.op:
            case ast.USub():
                return ops.negative(self.b, value)
            case ast.UAdd():
                return value
            case ast.Not():
                return self.b.op("Not", ops.truth(self.b, value))
            case _:
                if value.dtype == "bool":
                    return self.b.op("Not", value)
                raise ExpressionError("'~' negates truth values only")

    def visit_BoolOp(self, node: ast.BoolOp) -> Term:
        result = self.value(node.values[0])
        for part in node.values[1:]:
            other = self.value(part)
            test = ops.truth(self.b, result)
            if result.dtype == other.dtype == "bool":
                op_type = "And" if isinstance(node.op, ast.And) else "Or"
                result = self.b.op(op_type, test, ops.truth(self.b, other))
            elif isinstance(node.op, ast.And):
                result = ops.choose(self.b, test, other, result)
            else:
                result = ops.choose(self.b, test, result, other)
        return result

    def visit_Compare(self, node: ast.Compare) -> Term:
        left = self.value(node.left)
        result: Value | None = None
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            compare = _COMPARE.get(type(operator))
            if compare is None:
                raise ExpressionError(
                    f"the comparison '{type(operator).__name__}' is not supported"
                )
            right = self.value(right_node)
            part = compare(self.b, left, right)
            if result is None:
                result = part
            else:
                result = self.b.op("And", ops.truth(self.b, result), ops.truth(self.b, part))
            left = right
        assert result is not None
        return result

    def visit_IfExp(self, node: ast.IfExp) -> Term:
        test = ops.truth(self.b, self.value(node.test))
        known = self.b.constant_of(test)
        if known is not None:
            return self.visit(node.body if known else node.orelse)
        return ops.choose(self.b, test, self.value(node.body), self.value(node.orelse))

    def visit_Tuple(self, node: ast.Tuple) -> Term:
        return tuple(self.visit(part) for part in node.elts)

    def visit_List(self, node: ast.List) -> Term:
        try:
            return ops.literal(self.b, ast.literal_eval(node))
        except (ValueError, TypeError):
            return tuple(self.visit(part) for part in node.elts)

    def visit_Subscript(self, node: ast.Subscript) -> Term:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return subscript(self.b, self.visit(node.value), tuple(self._index(p) for p in parts))

    def _index(self, node: ast.expr) -> Index:
        if not isinstance(node, ast.Slice):
            return self.value(node)
        ends = (node.lower, node.upper, node.step)
        return Slice(*(None if end is None else self.value(end) for end in ends))

    def visit_Call(self, node: ast.Call) -> Term:
        name = _dotted(node.func)
        call = function(name or ast.unparse(node.func))
        arguments = [self.visit(argument) for argument in node.args]
        keywords: dict[str, Term] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ExpressionError("'**' is not allowed in a call")
            keywords[keyword.arg] = self.visit(keyword.value)
        try:
            return call(self.b, *arguments, **keywords)
        except LoopError:
            raise
        except TypeError as error:
            raise ExpressionError(f"{name}: {_call_problem(error)}") from None


def _call_problem(error: TypeError) -> str:
    return str(error).split("() ", 1)[-1]
