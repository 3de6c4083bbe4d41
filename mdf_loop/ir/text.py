"""Deterministic text form of a program for `print(program)`, with one operation per line.

program(%go: bool[], %x: float64[n])
  if %go giving %y: float64[n]
    %neg: float64[n] = Neg(%x)
    give %neg
  else
    give %x
  output A.y = %y
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from mdf_loop.ir import Array, Branch, Constant, Guard, If, Loop, Op, Operation, Output, Program
from mdf_loop.text_escaping import escape_to_one_line


def array_text(array: Array) -> str:
    """Return a constant array as text, abbreviated to `[...]` for more than 6 elements."""
    if array.size > 6:
        return "[...]"
    return str(array.tolist())


def _arguments_text(operation: Op) -> str:
    """Return the operand names of an operation (`-` if omitted) and its attributes as text."""

    def attribute_text(value: Any) -> str:
        return array_text(value) if isinstance(value, np.ndarray) else str(value)

    operands = ["-" if value is None else f"%{value.name}" for value in operation.inputs]
    return ", ".join(
        [
            *operands,
            *(
                f"{attribute_name}={attribute_text(attribute)}"
                for attribute_name, attribute in sorted(operation.attributes.items())
            ),
        ]
    )


def loop_header(loop: Loop) -> str:
    """Return the first line of the text of a loop, e.g. `loop %i < %steps while %go`."""
    trip_count_text = f" < %{loop.trip_count.name}" if loop.trip_count is not None else ""
    limit_text = (
        f" < bound {loop.max_iterations}"
        if loop.trip_count is None and loop.max_iterations is not None
        else ""
    )
    condition_text = f" while %{loop.condition.name}" if loop.condition is not None else ""
    first_iteration_text = (
        f" after %{loop.first_iteration.name}" if loop.first_iteration is not None else ""
    )
    member_text = f" for each {loop.member_axis}" if loop.member_axis is not None else ""
    return f"loop %{loop.iteration.name}{trip_count_text}{limit_text}{first_iteration_text}{condition_text}{member_text}"


def _print_loop(loop: Loop, indent: str) -> Iterator[str]:
    yield indent + loop_header(loop)
    inner_indent = indent + "  "
    for carried_value in loop.carried:
        yield (
            f"{inner_indent}carry {carried_value.body_input} from %{carried_value.initial.name} "
            f"to %{carried_value.body_output.name} giving %{carried_value.final.name}"
        )
    for scanned_input in loop.scanned:
        direction_text = " backward" if scanned_input.is_backward else ""
        yield f"{inner_indent}scan {scanned_input.row} of %{scanned_input.rows.name} axis {scanned_input.axis}{direction_text}"
    yield from _print_ops(loop.ops, inner_indent)
    for recording in loop.recorded:
        yield f"{inner_indent}record %{recording.row.name} giving {recording.stack}"
    if loop.condition_out is not None:
        yield f"{inner_indent}continue if %{loop.condition_out.name}"
    for result_label, result_value in (
        ("count", loop.iteration_count),
        ("last condition", loop.last_condition),
    ):
        if result_value is not None:
            yield f"{inner_indent}{result_label} giving %{result_value.name}"


def _print_if(choice: If, indent: str) -> Iterator[str]:
    output_list = ", ".join(map(str, choice.outputs))
    yield f"{indent}if %{choice.condition.name} giving {output_list}"
    yield from _print_branch(choice.then, indent + "  ")
    yield f"{indent}else"
    yield from _print_branch(choice.otherwise, indent + "  ")


def _print_branch(branch: Branch, indent: str) -> Iterator[str]:
    yield from _print_ops(branch.ops, indent)
    yield f"{indent}give {', '.join(f'%{value.name}' for value in branch.outputs)}"


def _print_ops(ops: Iterable[Operation], indent: str) -> Iterator[str]:
    for operation in ops:
        if isinstance(operation, Constant):
            yield f"{indent}{operation.value} = {array_text(operation.array)}"
        elif isinstance(operation, Op):
            output_list = ", ".join(map(str, operation.outputs))
            yield f"{indent}{output_list} = {operation.op_type}({_arguments_text(operation)})"
        elif isinstance(operation, Guard):
            value_name, condition_name = operation.value.name, operation.condition.name
            yield f'{indent}{operation.output} = %{value_name} if %{condition_name} else fail "{operation.message}"'
        elif isinstance(operation, Loop):
            yield from _print_loop(operation, indent)
        else:
            yield from _print_if(operation, indent)


def print_program(program: Program) -> str:
    """Return a program as text, with one operation per line."""
    input_list = ", ".join(str(program_input.value) for program_input in program.inputs)
    lines = [f"program({input_list})", *_print_ops(program.ops, "  ")]
    lines += map(_output_text, program.outputs)
    return "\n".join(map(escape_to_one_line, lines))


def _output_text(output: Output) -> str:
    member_text = "" if output.member_axis is None else f" members along axis {output.member_axis}"
    return f"  output {output.name} = %{output.value.name}{member_text}"
