"""Lowering of conditional expressions to `If` operations, which run only one branch.

    choose(b, go, lambda b: [b.op("Neg", x)], lambda b: [x], "y")

    if %go giving %y: float64[n]
      %Neg: float64[n] = Neg(%x)
      give %Neg
    else
      give %x

`operators.select` chooses between two existing values. A selection is cheaper if both values have one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from mdf_loop.errors import ArityError, JoinError, Poisoned
from mdf_loop.ir import Branch, If, Shape, Value
from mdf_loop.ir.shape_join import any_shape, dtype_sentence
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import common_dtype, fits_dtype
from mdf_loop.ops.build_helpers import cast, ints

BranchLowering: TypeAlias = Callable[[ModelBuilder], Sequence[Value]]
"""Function that appends the operations of one branch and returns the outputs of the branch."""

ShapeJoin: TypeAlias = Callable[[Shape, Shape], Shape]
"""Function that returns the common shape of two shapes (`mdf_loop.ir.shape_join`)."""


class BranchNames(Struct, frozen=True):
    """Names of the branches and values of a conditional, for error messages."""

    branches: tuple[str, str] = ("the then branch", "the else branch")
    value_name: Callable[[int], str] | None = None


class _BranchBuilder(Struct, frozen=True):
    """Builder of one branch of a conditional, with the branch's output values."""

    b: ModelBuilder
    outputs: list[Value]

    def build_branch(self) -> Branch:
        """Return the finished branch of an If: its operations and its output values."""
        return Branch(tuple(self.b.ops), tuple(self.outputs))


def choose(
    b: ModelBuilder,
    condition: Value,
    then: BranchLowering,
    otherwise: BranchLowering,
    name: str,
    *,
    names: BranchNames | None = None,
    join: ShapeJoin = any_shape,
) -> tuple[Value, ...]:
    """Append a conditional that returns the values of one of two branches, selected by `condition`.

    If the condition is known at compile time, the other branch is not lowered. Both branches return the
    same number of values in the same dtypes. Weakly typed numbers take the dtype of the other branch.
    Shapes may differ: extents or ranks that are not equal in both branches are known only at run time. With
    `join=join_shapes`, the shapes must be joinable.

    Raises:
        ArityError: The branches return different numbers of values.
        JoinError: Two corresponding values have dtypes or shapes that cannot be joined.
        Poisoned: A branch has an error, which is already in the findings.
    """
    constant_condition = b.constant_of(condition)
    if constant_condition is not None and condition.type == "bool[]":
        return tuple((then if constant_condition else otherwise)(b))
    branch_names = names or BranchNames()
    then_builder, else_builder = _lower_branch(b, then), _lower_branch(b, otherwise)
    if then_builder is None or else_builder is None:
        raise Poisoned
    if len(then_builder.outputs) != len(else_builder.outputs):
        raise ArityError(
            f"both branches of '{name}' must give the same number of values, but "
            f"{branch_names.branches[0]} gives {len(then_builder.outputs)}, {branch_names.branches[1]} {len(else_builder.outputs)}"
        )
    joined_outputs = tuple(
        _join_values(
            b,
            (then_builder, else_builder),
            k,
            branch_names.value_name(k) if branch_names.value_name else name,
            branch_names,
            join,
        )
        for k in range(len(then_builder.outputs))
    )
    b.append(
        If(
            name,
            condition,
            then_builder.build_branch(),
            else_builder.build_branch(),
            joined_outputs,
            b.where,
        )
    )
    return joined_outputs


def select_value(b: ModelBuilder, test: Value, then: Value, otherwise: Value) -> Value:
    """Return one of two values of the same dtype, selected at run time without broadcasting.

    `Where` is cheaper, but broadcasts both values to one shape. Therefore `Where` is used only for shapes
    that are known to be equal.
    """
    if then.shape is not None and otherwise.shape is not None:
        rank = max(len(then.shape), len(otherwise.shape))
        then, otherwise = add_leading_axes(b, then, rank), add_leading_axes(b, otherwise, rank)
    return choose(b, test, lambda _: [then], lambda _: [otherwise], "chosen")[0]


def add_leading_axes(b: ModelBuilder, value: Value, rank: int) -> Value:
    """Return a value with leading axes of extent 1 inserted until it has `rank` axes."""
    missing_axis_count = rank - len(value.shape or ())
    return (
        b.op("Unsqueeze", value, ints(b, *range(missing_axis_count)))
        if missing_axis_count > 0
        else value
    )


def _lower_branch(b: ModelBuilder, lower: BranchLowering) -> _BranchBuilder | None:
    """Lower one branch of a conditional, or return None if the branch has errors.

    The other branch is then checked, too.
    """
    body = b.body()
    with b.findings.catch():
        return _BranchBuilder(body, list(lower(body)))
    return None


def _join_values(
    b: ModelBuilder,
    branch_builders: tuple[_BranchBuilder, _BranchBuilder],
    k: int,
    name: str,
    names: BranchNames,
    join: ShapeJoin,
) -> Value:
    """Cast output `k` of both branches to a common dtype, and return this output of the conditional."""
    branch_outputs = branch_builders[0].outputs[k], branch_builders[1].outputs[k]
    message_prefix = (
        f"Cannot join the values of '{name}' from {names.branches[0]} ({branch_outputs[0].type}) "
        f"and {names.branches[1]} ({branch_outputs[1].type})"
    )
    joined_dtype = _join_dtypes(b, *branch_outputs, message_prefix)
    join_shape = _join_shapes(
        branch_outputs[0].shape, branch_outputs[1].shape, message_prefix, join
    )
    for branch_builder, value in zip(branch_builders, branch_outputs, strict=True):
        cast_output = cast(branch_builder.b, value, joined_dtype)
        branch_builder.outputs[k] = (
            _to_vector(branch_builder.b, cast_output)
            if join_shape == (1,) and cast_output.shape == ()
            else cast_output
        )
    joined_shape = join_shape and tuple(
        b.name("d") if str(extent).startswith("?") else extent for extent in join_shape
    )
    joined_output = b.new(joined_dtype, joined_shape, name)
    return b.mark_weak(joined_output) if all(map(b.is_weak, branch_outputs)) else joined_output


def _join_dtypes(b: ModelBuilder, then: Value, otherwise: Value, message_prefix: str) -> str:
    """Return the common dtype of one output in both branches of a conditional.

    A weakly typed number in range takes the dtype of the other branch.
    """
    if then.dtype == otherwise.dtype:
        return then.dtype
    nonweak_dtypes = {value.dtype for value in (then, otherwise) if not b.is_weak(value)}
    if len(nonweak_dtypes) < 2 and all(
        value.dtype != "string" and "(" not in value.dtype for value in (then, otherwise)
    ):
        dtype = common_dtype(b, (then, otherwise))
        if (
            nonweak_dtypes <= {dtype}
            and fits_dtype(b, then, dtype)
            and fits_dtype(b, otherwise, dtype)
        ):
            return dtype
    raise JoinError(
        f"{message_prefix}: {dtype_sentence(then.dtype, otherwise.dtype)}",
        hint="make both whole numbers, or give both a point (6.0)",
    )


def _join_shapes(then: Shape, otherwise: Shape, message_prefix: str, join: ShapeJoin) -> Shape:
    try:
        return join(then, otherwise)
    except JoinError as error:
        raise JoinError(
            f"{message_prefix}: {error.findings[0].what}",
            hint="give both one shape, or allow the difference: metadata: {shapes: dynamic} in a "
            "branch, shapes='dynamic' or --shapes dynamic",
        ) from None


def _to_vector(b: ModelBuilder, value: Value) -> Value:
    return b.op("Reshape", value, ints(b, 1))
