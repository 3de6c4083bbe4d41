"""Verifier of programs that reports all violations at once, with names from the MDF document.

1. Every value is defined once, and used only after its definition, inside its scope.
2. A carried value keeps its dtype, and (unless shapes are dynamic) its shape.
3. A condition is one bool, or one bool for each member. A trip count is one integer.
4. A recorded row is a tensor. A run checks that all rows have one shape.
   A scanned array is a tensor. Its rows have its dtype, and its shape without the scanned axis.
5. A loop has a trip count, a condition or a bound.
6. The condition of a guard is one bool, and the output has the type of the guarded value.
7. Each branch of a choice has a leaf for each output, with the output's dtype and a compatible shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from mdf_loop.errors import Finding
from mdf_loop.ir import (
    Body,
    Carried,
    Guard,
    If,
    Loop,
    Operation,
    Program,
    Recorded,
    Scanned,
    Shape,
    Value,
    always_true,
    bodies,
    operands,
    results,
    true_constants,
    type_text,
    walk,
)
from mdf_loop.ir.shape_join import dtype_sentence, shape_sentence
from mdf_loop.ir.types import is_tensor, kind_of


def check(program: Program) -> tuple[Finding, ...]:
    """Return all violations of the loop IR's rules in a program, or an empty tuple if there are none."""
    input_values = {program_input.value for program_input in program.inputs}
    true_values = true_constants(program.ops)
    findings = list(_check_scope(program.ops, input_values, true_values))
    defined_values = input_values | {
        value for operation in program.ops for value in results(operation)
    }
    findings += [
        _out_of_scope_finding(output.value, f"output '{output.name}'")
        for output in program.outputs
        if output.value not in defined_values
    ]
    findings += _check_unique_names(program)
    return tuple(dict.fromkeys(findings))


def _check_scope(
    ops: Iterable[Operation], outer_values: set[Value], true_values: set[Value]
) -> Iterator[Finding]:
    visible_values = set(outer_values)
    for operation in ops:
        for value in operands(operation):
            if value not in visible_values:
                yield _out_of_scope_finding(value, getattr(operation, "where", ""))
        for body in bodies(operation):
            yield from _check_body(
                body, visible_values, true_values, getattr(operation, "where", "")
            )
        if isinstance(operation, Loop):
            yield from _check_loop(operation, true_values)
        elif isinstance(operation, If):
            yield from _check_choice(operation)
        elif isinstance(operation, Guard):
            yield from _check_guard(operation)
        for value in results(operation):
            if value in visible_values:
                yield Finding("ScopeError", f"'{value.name}' is made twice", value.where)
            visible_values.add(value)


def _out_of_scope_finding(value: Value, where: str) -> Finding:
    return Finding(
        "ScopeError",
        f"'{value.name}' is used where it does not exist",
        where or value.where,
        "a value made in a body leaves it only as one of the body's outputs",
    )


def _check_unique_names(program: Program) -> Iterator[Finding]:
    value_names = [program_input.value.name for program_input in program.inputs]
    value_names += [value.name for operation in walk(program.ops) for value in results(operation)]
    for value_name, definition_count in Counter(value_names).items():
        if definition_count > 1:
            yield Finding("ScopeError", f"{definition_count} values are called '{value_name}'")


def _check_body(
    body: Body, outer_values: set[Value], true_values: set[Value], where: str
) -> Iterator[Finding]:
    visible_values = outer_values | set(body.inputs)
    yield from _check_scope(body.ops, visible_values, true_values)
    defined_values = visible_values | {
        value for operation in body.ops for value in results(operation)
    }
    for value in body.outputs:
        if value not in defined_values:
            yield _out_of_scope_finding(value, where)


def _check_loop(loop: Loop, true_values: set[Value]) -> Iterator[Finding]:
    yield from _check_control(loop, true_values)
    for carried_position, carried_value in enumerate(loop.carried, start=1):
        yield from _check_carried(loop, carried_value, carried_position)
    for recording in loop.recorded:
        yield from _check_recorded(loop, recording)
    for scanned_input in loop.scanned:
        yield from _check_scanned(loop, scanned_input)


_UNRECORDABLE_DTYPE_KINDS = {
    "U": ("text", "carry it, or record a number that stands for it"),
    "s": ("a sequence", "carry it: the last one holds all that was put into it"),
    "o": ("an optional value", "record what it holds: onnx::OptionalGetElement"),
}
"""Descriptions and hints for the dtype kinds that cannot be recorded, by kind letter."""


def _check_recorded(loop: Loop, recorded: Recorded) -> Iterator[Finding]:
    value_text = f"the recorded value '{recorded.name or recorded.row.name}'"
    dtype_kind = kind_of(recorded.row.dtype)
    if dtype_kind in _UNRECORDABLE_DTYPE_KINDS:
        description, hint = _UNRECORDABLE_DTYPE_KINDS[dtype_kind]
        message = f"{value_text} is {description}, which cannot be recorded"
        yield Finding("UnsupportedError", message, loop.where, hint)


def _check_scanned(loop: Loop, scanned: Scanned) -> Iterator[Finding]:
    rows, row, axis = scanned.rows, scanned.row, scanned.axis
    rank = None if rows.shape is None else len(rows.shape)
    if not is_tensor(rows.dtype) or (rank is not None and not 0 <= axis < rank):
        yield Finding(
            "OperandError",
            f"'{rows.name}' is {rows.type}, which has no rows along axis {axis} to scan",
            loop.where,
        )
        return
    row_shape = None if rows.shape is None else (*rows.shape[:axis], *rows.shape[axis + 1 :])
    if row.dtype != rows.dtype or _shapes_differ(row_shape, row.shape):
        yield Finding(
            "OperandError",
            f"'{row.name}' is {row.type}, but the rows of '{rows.name}' along axis {axis} are "
            f"{type_text(rows.dtype, row_shape)}",
            loop.where,
        )


def _check_control(loop: Loop, true_values: set[Value]) -> Iterator[Finding]:
    has_limit = loop.trip_count is not None or loop.max_iterations is not None
    if not has_limit and (loop.condition is None or always_true(loop, true_values)):
        missing_end = "neither a trip count nor a condition"
        if loop.condition is not None:
            missing_end = "no trip count, and its condition is always true"
        yield Finding(
            "EndlessLoopError",
            f"the loop '{loop.name}' has {missing_end}: it would never end",
            loop.where,
            "give M, or a condition that becomes false, or set max_iterations (--max-iterations)",
        )
    condition_shape = () if loop.member_axis is None else (loop.member_axis,)
    for control_name, control_value, required_dtype, required_shape in (
        ("trip count", loop.trip_count, "int64", ()),
        ("first iteration number", loop.first_iteration, "int64", ()),
        ("condition", loop.condition, "bool", condition_shape),
        ("incoming condition", loop.condition_in, "bool", condition_shape),
        ("body's condition", loop.condition_out, "bool", condition_shape),
    ):
        if control_value is not None and (
            control_value.dtype != required_dtype or control_value.shape != required_shape
        ):
            yield Finding(
                "TripCountError" if required_dtype == "int64" else "ConditionError",
                f"the {control_name} of '{loop.name}' must be {type_text(required_dtype, required_shape)}, not {control_value.type}",
                loop.where,
            )


def _check_carried(loop: Loop, carried: Carried, position: int) -> Iterator[Finding]:
    carried_input, carried_output = carried.body_input, carried.body_output
    change_text = (
        f"'{carried_input.name}': {carried.initial.type} becomes '{carried.name or carried_output.name}': "
        f"{carried_output.type} (body output {position})"
    )
    if carried_input.dtype != carried_output.dtype or carried.initial.dtype != carried_input.dtype:
        yield Finding(
            "CarryTypeError",
            f"carried values must keep their dtype, but {change_text}: "
            f"{dtype_sentence(carried.initial.dtype, carried_output.dtype)}",
            loop.where,
            _dtype_hint(carried.initial.dtype, carried_output.dtype),
        )
    elif not loop.has_dynamic_shapes and _shapes_differ(
        carried.initial.shape, carried_output.shape
    ):
        yield Finding(
            "CarryShapeError",
            f"carried values must keep their shape, but {change_text}: "
            f"{shape_sentence(carried.initial.shape, carried_output.shape)}",
            loop.where,
            "give the initial value the shape it has after one iteration, or allow the change: "
            "metadata: {shapes: dynamic} in the body, shapes='dynamic' or --shapes dynamic",
        )


def _check_guard(guard: Guard) -> Iterator[Finding]:
    if guard.condition.type != "bool[]":
        yield Finding(
            "ConditionError",
            f"what is to hold for '{guard.output.name}' must be bool[], not {guard.condition.type}",
            guard.where,
        )
    if guard.output.dtype != guard.value.dtype or _shapes_differ(
        guard.value.shape, guard.output.shape
    ):
        yield Finding(
            "OperandError",
            f"'{guard.output.name}' is {guard.output.type}, but it stands for {guard.value.type}",
            guard.where,
        )


def _check_choice(choice: If) -> Iterator[Finding]:
    if choice.condition.type != "bool[]":
        yield Finding(
            "ConditionError",
            f"the condition of '{choice.name}' must be bool[], not {choice.condition.type}",
            choice.where,
        )
    for branch_condition, branch in (("true", choice.then), ("false", choice.otherwise)):
        if len(branch.outputs) != len(choice.outputs):
            yield Finding(
                "ArityError",
                f"'{choice.name}' has {len(choice.outputs)} values, but if its condition is "
                f"{branch_condition} there are {len(branch.outputs)}",
                choice.where,
            )
            continue
        for choice_output, branch_output in zip(choice.outputs, branch.outputs, strict=True):
            if branch_output.dtype != choice_output.dtype or _shapes_differ(
                choice_output.shape, branch_output.shape
            ):
                yield Finding(
                    "OperandError",
                    f"'{choice_output.name}' is {choice_output.type}, but if the condition of '{choice.name}' "
                    f"is {branch_condition} it is '{branch_output.name}': {branch_output.type}",
                    choice.where,
                    "both branches must give one dtype, and shapes that the result allows",
                )


def _dtype_hint(before: str, after: str) -> str:
    if before.startswith(("int", "uint", "bool")) and after.startswith("float"):
        return "write the initial value with a point (6.0), or keep the update whole (// and int())"
    if before.startswith("float") and after.startswith(("int", "uint", "bool")):
        return "make the update a number with a point, e.g. 1.0 * (...)"
    return f"cast one of them: the initial value is {before}, the update {after}"


def _shapes_differ(initial: Shape, leave: Shape) -> bool:
    """Return True if two shapes differ in rank or in extents that are known at compile time."""
    if initial is None or leave is None:
        return False
    if len(initial) != len(leave):
        return True
    return any(
        isinstance(extent, int) and isinstance(next_extent, int) and extent != next_extent
        for extent, next_extent in zip(initial, leave, strict=True)
    )
