"""Lowering of MDF's value expressions, parsed by Python's `ast`, to operations.

Python parses an expression, but never evaluates it.

Source: modelspec.utils.evaluate (modeci-mdf 0.4.15). The semantics are the same, with one exception:
modelspec converts a float result without a fraction to an int, so that the type depends on the value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from mdf_loop.errors import ExpressionError, LoopError, UnknownNameError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.arguments import DTYPES, Argument
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import constants, function, qualified_hint
from mdf_loop.lower.scope import Scope
from mdf_loop.lower.subscripts import Index, SliceIndex, subscript
from mdf_loop.lower.syntax import dotted_name, drawing_calls, parse, parse_number, shorten
from mdf_loop.lower.terms import Term, literal, tensor
from mdf_loop.number_check import contains_only_numbers
from mdf_loop.ops.build_helpers import is_scalar, kind, scalar

_ARRAY_PROPERTIES = {
    "T": "numpy.transpose",
    "shape": "numpy.shape",
    "size": "numpy.size",
    "ndim": "numpy.ndim",
}
"""Equivalent function of numpy for each attribute of arrays."""

_FAILING_OPERATORS = (ast.FloorDiv, ast.Mod, ast.Pow)
"""Operators that fail for some integers as the right operand."""

_BINARY_OPERATORS: dict[type[ast.operator], Callable[[ModelBuilder, Value, Value], Value]] = {
    ast.Add: ops.add,
    ast.Sub: ops.subtract,
    ast.Mult: ops.multiply,
    ast.Div: ops.divide,
    ast.FloorDiv: ops.floor_divide,
    ast.Mod: ops.modulo,
    ast.Pow: ops.power,
    ast.MatMult: ops.matmul,
    ast.BitAnd: ops.bit_and,
    ast.BitOr: ops.bit_or,
    ast.BitXor: ops.bit_xor,
    ast.LShift: ops.left_shift,
    ast.RShift: ops.right_shift,
}
_UNARY_OPERATORS: dict[type[ast.unaryop], Callable[[ModelBuilder, Value], Value]] = {
    ast.USub: ops.negative,
    ast.UAdd: ops.positive,
    ast.Not: ops.negation,
    ast.Invert: ops.invert,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[ModelBuilder, Value, Value], Value]] = {
    ast.Lt: ops.less,
    ast.LtE: ops.less_equal,
    ast.Gt: ops.greater,
    ast.GtE: ops.greater_equal,
    ast.Eq: ops.equal,
    ast.NotEq: ops.not_equal,
}
_REFUSED_NODES: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lambda: ("a function of its own (lambda)", "write the formula where it is used"),
    ast.NamedExpr: ("an assignment (:=)", "make it a parameter of its own"),
    ast.JoinedStr: ("a text with values in it", ""),
    ast.Dict: ("a dictionary", "give a number, a list or an expression"),
    ast.Set: ("a set", "write a list [a, b]"),
    ast.Starred: ("a list spread with '*'", "write its elements"),
    ast.Slice: ("a slice", ""),
    **dict.fromkeys(
        (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        ("a comprehension (for ... in ...)", "write numpy functions of arrays"),
    ),
    ast.In: ("the comparison 'in'", "write numpy.any(list == x)"),
    ast.NotIn: ("the comparison 'not in'", "write numpy.all(list != x)"),
    ast.Is: ("the comparison 'is'", "write '=='"),
    ast.IsNot: ("the comparison 'is not'", "write '!='"),
}


def is_omitted(expression: Any) -> bool:
    """Return True if a document omits a value (None or an empty text)."""
    return expression is None or (isinstance(expression, str) and not expression)


def lower_expression(b: ModelBuilder, expression: Any, scope: Scope, part: str = "") -> Term:
    """Lower a value expression of the document to operations, and return its value.

    An expression is a name of the scope, a number, a list, or the text of a Python expression. If an
    item has several expressions, `part` is the name of `expression`.

    Raises:
        LoopError: The expression is invalid. The message has the expression and the column.
    """
    try:
        with b.part(part):
            return _lower(b, expression, scope)
    except RecursionError:
        raise ExpressionError(
            f"{shorten(expression)} is nested too deeply",
            hint="split it: give parts of it to parameters of their own",
        ) from None


def _lower(b: ModelBuilder, expression: Any, scope: Scope) -> Term:
    if isinstance(expression, str):
        return _lower_text(b, expression, scope)
    if isinstance(expression, list | tuple) and _contains_text(expression):
        return tuple(_lower_member(b, k, member, scope) for k, member in enumerate(expression))
    if expression is None or isinstance(expression, dict):
        raise ExpressionError(
            "there is no value here" if expression is None else "a dict is not a value",
            hint="give a number, list or expression",
        )
    return literal(b, expression)


def _lower_member(b: ModelBuilder, k: int, expression: Any, scope: Scope) -> Term:
    with b.part(str(k)):
        return _lower(b, expression, scope)


def _contains_text(members: Any) -> bool:
    return not contains_only_numbers(members) and any(
        isinstance(member, str) or (isinstance(member, list | tuple) and _contains_text(member))
        for member in members
    )


def _lower_text(b: ModelBuilder, text: str, scope: Scope) -> Term:
    term = scope.find(text)
    if term is None:
        term = scope.find(text.strip())
    if term is not None:
        return term
    number = parse_number(text)
    if number is not None:
        return literal(b, number)
    syntax_tree = parse(text)
    try:
        return _Lowering(b, scope, drawing_calls(syntax_tree)).visit(syntax_tree.body)
    except LoopError as error:
        raise _with_expression(error, text) from None


def _with_expression(error: LoopError, text: str) -> LoopError:
    expression_suffix = f" (in '{shorten(text)}')"
    error.findings = tuple(
        finding
        if finding.where or expression_suffix in finding.what
        else replace(finding, what=finding.what + expression_suffix)
        for finding in error.findings
    )
    return error


def _refused_node_error(node: ast.AST, place: ast.expr) -> ExpressionError:
    construct, hint = _REFUSED_NODES.get(type(node), (f"'{type(node).__name__}'", ""))
    return ExpressionError(
        f"{construct} is not allowed in a value expression (column {place.col_offset + 1})",
        hint=hint,
    )


class _Lowering:
    """Visitor of syntax trees that lowers each node of an expression to operations."""

    def __init__(self, b: ModelBuilder, scope: Scope, drawing: Sequence[ast.Call]) -> None:
        self.b = b
        self.scope = scope
        self.drawing_calls = drawing

    def visit(self, node: ast.expr) -> Term:
        visit_method = getattr(self, f"visit_{type(node).__name__}", None)
        if visit_method is None:
            raise _refused_node_error(node, node)
        term: Term = visit_method(node)
        return term

    def value(self, node: ast.expr) -> Value:
        return tensor(self.b, self.visit(node))

    def visit_Constant(self, node: ast.Constant) -> Term:
        if not isinstance(node.value, bool | int | float):
            raise ExpressionError(
                f"{shorten(repr(node.value))} is not a number or truth value",
                hint="names are written without quotes" if isinstance(node.value, str) else "",
            )
        return literal(self.b, node.value)

    def visit_Name(self, node: ast.Name) -> Term:
        hint = "" if node.id in self.scope else qualified_hint(node.id)
        if hint:
            raise UnknownNameError(f"unknown name '{node.id}'", hint=hint)
        return self.scope.get(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> Term:
        full_name = dotted_name(node)
        term = self.scope.find(full_name) if full_name else None
        if term is not None:
            return term
        if full_name in constants:
            return literal(self.b, constants[full_name])
        module_name = full_name.split(".", 1)[0]
        if full_name and module_name not in self.scope:
            return self.scope.get(full_name)
        if node.attr in _ARRAY_PROPERTIES:
            return function(_ARRAY_PROPERTIES[node.attr])(
                self.b, [self._lower_argument(node.value)], {}
            )
        raise ExpressionError(
            f"values have no attributes: '.{node.attr}' is not allowed",
            hint=_method_call_hint(node),
        )

    # --- operators -------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> Term:
        nested_operations = [node]
        while isinstance(nested_operations[-1].left, ast.BinOp):  # no recursion for long sums
            nested_operations.append(nested_operations[-1].left)
        partial_result = self.value(nested_operations[-1].left)
        for operation in reversed(nested_operations):
            right_operand = self.value(operation.right)
            _refuse_list(operation, partial_result, right_operand)
            if isinstance(operation.op, _FAILING_OPERATORS):
                right_operand = self._replace_if_not_evaluated(right_operand, 1)
            partial_result = _BINARY_OPERATORS[type(operation.op)](
                self.b, partial_result, right_operand
            )
        return partial_result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Term:
        return _UNARY_OPERATORS[type(node.op)](self.b, self.value(node.operand))

    def visit_BoolOp(self, node: ast.BoolOp) -> Term:
        """Lower `and` or `or`, which return one of their operands, as in Python.

        A skipped operand is not evaluated.
        """
        is_and = isinstance(node.op, ast.And)
        combine = ops.python_and if is_and else ops.python_or
        partial_result = self.value(node.values[0])
        for operand_node in node.values[1:]:
            constant_truth = self.b.constant_of(ops.truth(self.b, partial_result))
            if constant_truth is None:
                partial_result = combine(
                    self.b,
                    partial_result,
                    self._lower_if_evaluated(partial_result, is_and, operand_node),
                )
            elif bool(constant_truth) == is_and:
                partial_result = self.b.mark_unrolled_if(partial_result, self.value(operand_node))
        return partial_result

    def visit_Compare(self, node: ast.Compare) -> Term:
        left_operand = self.value(node.left)
        conjunction: Value | None = None
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            if type(operator) not in _COMPARISONS:
                raise _refused_node_error(operator, node)
            right_operand = self.value(right_node)
            comparison = _COMPARISONS[type(operator)](self.b, left_operand, right_operand)
            conjunction = (
                comparison
                if conjunction is None
                else ops.python_and(self.b, conjunction, comparison)
            )
            left_operand = right_operand
        assert conjunction is not None
        return conjunction

    def visit_IfExp(self, node: ast.IfExp) -> Term:
        test = ops.truth(self.b, self.value(node.test))
        constant_test = self.b.constant_of(test)
        if constant_test is not None:
            chosen_branch = self.visit(node.body if constant_test else node.orelse)
            return (
                chosen_branch
                if isinstance(chosen_branch, tuple)
                else self.b.mark_unrolled_if(test, chosen_branch)
            )
        then_term = self._lower_if_evaluated(test, True, node.body)
        return ops.select(
            self.b, test, then_term, self._lower_if_evaluated(test, False, node.orelse)
        )

    def _lower_if_evaluated(self, test: Value, when: bool, node: ast.expr) -> Value:
        """Lower a subexpression that Python evaluates only if `test` has the truth value `when`.

        The lowered subexpression cannot fail for other values of `test`.
        """
        outer_condition = self.b.read_condition
        evaluation_condition = (
            ops.truth(self.b, test) if when else self.b.op("Not", ops.truth(self.b, test))
        )
        self.b.read_condition = (
            evaluation_condition
            if outer_condition is None
            else self.b.op("And", outer_condition, evaluation_condition)
        )
        try:
            return self.value(node)
        finally:
            self.b.read_condition = outer_condition

    def _replace_if_not_evaluated(self, value: Value, number: int) -> Value:
        """Replace a divisor or subscript by `number` wherever Python would skip its evaluation.

        The operation then cannot fail.
        """
        if (
            self.b.read_condition is None
            or kind(value) not in "iu"
            or self.b.constant_of(value) is not None
        ):
            return value
        return self.b.op("Where", self.b.read_condition, value, scalar(self.b, number, value.dtype))

    # --- lists, subscripts, calls ----------------------------------------------------------------

    def visit_Tuple(self, node: ast.Tuple) -> Term:
        return tuple(self.visit(element_node) for element_node in node.elts)

    def visit_List(self, node: ast.List) -> Term:
        try:
            numbers = ast.literal_eval(node)
        except (ValueError, TypeError):
            return tuple(self.visit(element_node) for element_node in node.elts)
        return literal(self.b, numbers)

    def visit_Subscript(self, node: ast.Subscript) -> Term:
        index_nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return subscript(
            self.b,
            self.visit(node.value),
            tuple(self._lower_index(index_node) for index_node in index_nodes),
        )

    def _lower_index(self, node: ast.expr) -> Index:
        if isinstance(node, ast.Constant) and (node.value is None or node.value is ...):
            return None if node.value is None else ...
        if isinstance(node, ast.Attribute) and dotted_name(node) == "numpy.newaxis":
            return None
        if not isinstance(node, ast.Slice):
            return self._replace_if_not_evaluated(self.value(node), 0)
        slice_nodes = (node.lower, node.upper, node.step)
        return SliceIndex(
            *(None if slice_node is None else self.value(slice_node) for slice_node in slice_nodes)
        )

    def visit_Call(self, node: ast.Call) -> Term:
        function_name = dotted_name(node.func)
        if not function_name:
            raise ExpressionError(
                f"'{shorten(ast.unparse(node.func))}' is not a function",
                hint="call a function by its name, e.g. numpy.exp(x)",
            )
        if function_name.split(".", 1)[0] in self.scope:
            raise ExpressionError(
                f"'{shorten(function_name)}' is a value, not a function",
                hint=_method_call_hint(node.func),
            )
        called_function = function(function_name)
        arguments = [self._lower_argument(argument) for argument in node.args]
        keywords: dict[str, Argument] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ExpressionError("'**' is not allowed in a call")
            keywords[keyword.arg] = self._lower_argument(keyword.value)
        draw_index = self.drawing_calls.index(node) if node in self.drawing_calls else 0
        with self.b.at_call_site(call_index=draw_index):
            return called_function(self.b, arguments, keywords)

    def _lower_argument(self, node: ast.expr) -> Argument:
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
            return node.value
        full_name = dotted_name(node)
        if full_name in DTYPES and self.scope.find(full_name) is None:
            return full_name
        return self.visit(node)


def _refuse_list(node: ast.BinOp, left: Value, right: Value) -> None:
    """Raise an error for an operator that would join or repeat a list in Python."""
    list_flags = [
        isinstance(operand_node, ast.List | ast.Tuple) for operand_node in (node.left, node.right)
    ]
    if any(list_flags) and all(
        is_list or is_scalar(operand)
        for is_list, operand in zip(list_flags, (left, right), strict=True)
    ):
        raise ExpressionError(
            "Python would join or repeat the list here instead of calculating",
            hint="write numpy.array([...])",
        )


def _method_call_hint(node: ast.expr) -> str:
    """Return a hint to call a function instead of a method: `x.sum()` -> `write numpy.sum(x)`."""
    if not isinstance(node, ast.Attribute):
        return ""
    function_name = {"flatten": "ravel", "astype": "array"}.get(node.attr, node.attr)
    qualified_name_hint = qualified_hint(f"numpy.{function_name}")
    return (
        f"write 'numpy.{function_name}({shorten(ast.unparse(node.value))})'"
        if qualified_name_hint
        else ""
    )
