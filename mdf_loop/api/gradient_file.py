"""Program of an ONNX file that computes a scalar and its derivatives, with the names of the document."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.differentiation import DifferentiatedNames
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, InputRole, OutputRole, Program
from mdf_loop.ir.substitute import substitute
from mdf_loop.losses import Loss
from mdf_loop.passes.check_row_counts import check_row_counts
from mdf_loop.passes.gradient.backward_strategy import backward_for_onnxruntime
from mdf_loop.passes.gradient.objective import Term
from mdf_loop.reading.binding import BoundValues
from mdf_loop.run.device import USUAL
from mdf_loop.run.gradient.loaded import Differentiation
from mdf_loop.run.gradient.terms import Data, make_unscaled_terms
from mdf_loop.specification import RunSpecification


def build_file_program(
    named: DifferentiatedNames,
    losses: Sequence[Loss],
    spec: RunSpecification,
    bound: BoundValues,
    most: int | None,
) -> tuple[Program, dict[str, Array]]:
    """Return the program of a file with derivatives, and the defaults of its inputs.

    Args:
        named: The differentiated outputs, and the names with respect to which they are differentiated.
        losses: The terms of the scalar.
        spec: The run that the file computes.
        bound: The bound values of the run.
        most: The largest number of iterations of backward propagation, or None.

    Raises:
        InputError: The run has several trials, or derivatives over time are truncated.
    """
    if most is not None and spec.steps is not None:
        raise InputError("a file has no truncated derivatives over time", hint="leave truncate out")
    if bound.streams.has_members:
        raise InputError("a file computes one run", hint="leave trials out")
    source = named.program(spec, bound)
    terms = tuple(
        replace(term, has_scalar_data=loss.data is not None and np.ndim(loss.data) == 0)
        for term, loss in zip(make_unscaled_terms(losses, named.outputs), losses, strict=True)
    )
    names = {target: name for name, target in named.inputs.items()}
    gradient_program = Differentiation(terms, tuple(names), USUAL, most).program(
        source, backward_for_onnxruntime
    )
    data = Data.of(losses, terms, source, spec.steps)
    default_values = {
        **bound.with_random_keys(source).arrays,
        **data.arrays,
        **named.controls(spec),
    }
    names |= _name_data_inputs(terms)
    if spec.steps is not None:
        input_names = {
            *bound.inputs.varying_names,
            *(t.data for t in terms if t.data in data.arrays and not t.has_scalar_data),
        }
        gradient_program = _add_row_checks(gradient_program, input_names, names)
    known = [e.value.name for e in gradient_program.inputs if e.role is not InputRole.PORT]
    return _rename_inputs(gradient_program, names), {
        names.get(name, name): default_values[name] for name in known
    }


def _add_row_checks(
    program: Program, input_names: Collection[str | None], names: Mapping[str, str]
) -> Program:
    """Add a check that each input over time has as many rows as the run has steps."""
    rows = {e.value.name for e in program.inputs if e.value.name in input_names}
    (steps,) = (
        e for e in program.inputs if e.role is InputRole.CONTROL and e.owner_name == "steps"
    )
    return check_row_counts(
        program, {name: names.get(name, name) for name in rows}, steps.value.name
    )


def _name_data_inputs(terms: Sequence[Term]) -> dict[str, str]:
    """Return the names of data inputs: `data of cell.V`, `data of cell.V 2` for the next term, and so on."""
    data_names: dict[str, str] = {}
    for term in terms:
        if term.data is not None:
            name = f"data of {term.output}"
            again = sum(each.startswith(name) for each in data_names.values())
            data_names[term.data] = f"{name} {again + 1}" if again else name
    return data_names


def _rename_inputs(program: Program, names: Mapping[str, str]) -> Program:
    """Rename the inputs of a program and their derivatives to the names of the document."""
    new = {
        entry.value: replace(entry.value, name=names[entry.value.name])
        for entry in program.inputs
        if entry.value.name in names
    }
    outputs = tuple(
        replace(output, name=f"gradient of {names[output.owner_name]}")
        if output.role is OutputRole.CHANGE
        else output
        for output in substitute(program.outputs, new)
    )
    return replace(
        program,
        inputs=tuple(replace(e, value=new.get(e.value, e.value)) for e in program.inputs),
        ops=tuple(substitute(op, new) for op in program.ops),
        outputs=outputs,
    )
