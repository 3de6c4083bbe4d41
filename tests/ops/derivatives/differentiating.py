"""Differentiate programs of plain operations by their rules and by central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Input, Op, Output, Program, Value
from mdf_loop.ops.derivatives.rule import DecomposedDerivative, is_float
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep, derivative_of, rule_of
from mdf_loop.passes.rewrite import rewrite
from mdf_loop.run.interpret import interpret

Arrays = Mapping[str, np.ndarray]
STEP = 6e-6


def decompose_operations(program: Program) -> Program:
    """Return the program with decompositions of the operations that are differentiated through them."""
    while True:
        active = active_values(program)

        def rule(
            b: Builder, op: Op, active: set[Value] = active
        ) -> tuple[Value | None, ...] | None:
            if active.isdisjoint(op.inputs) or not any(map(is_float, op.outputs)):
                return None
            derivative = derivative_of(op)
            replacement = (
                derivative.decompose(b, op)
                if isinstance(derivative, DecomposedDerivative)
                else None
            )
            return (replacement,) if isinstance(replacement, Value) else replacement

        transformed = rewrite(program, rule)
        if transformed is program:
            return program
        program = transformed


def active_values(program: Program) -> set[Value]:
    """Return the values that depend on inputs of floats."""
    active = {entry.value for entry in program.inputs if is_float(entry.value)}
    for operation in program.ops:
        if isinstance(operation, Op) and not active.isdisjoint(operation.inputs):
            active.update(filter(is_float, operation.outputs))
    return active


def differentiated(program: Program, order: str = "") -> Program:
    """Return the program with tangents and cotangents.

    x, t x -> y, t y   tangents of results from those of inputs
    x, g y -> g x      cotangents of inputs from those of results

    `order` is a prefix of these names, for a program that has some of them already.
    """
    program = decompose_operations(program)
    floats = [entry.value for entry in program.inputs if is_float(entry.value)]
    b = Builder.for_rewrite_of(program)
    tangents = {v: b.new(v.dtype, v.shape, f"{order}t {v.name}") for v in floats}
    tangent_inputs = [Input(t) for t in tangents.values()]
    active = active_values(program)
    for operation in program.ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
            continue
        assert isinstance(operation, Op)
        b.ops.append(operation)
        if not tangents.keys().isdisjoint(operation.inputs) and not active.isdisjoint(
            operation.outputs
        ):
            known = [tangents.get(v) for v in operation.inputs]
            output_tangents = rule_of(operation).tangents(b, operation, known)
            pairs = zip(operation.outputs, output_tangents, strict=True)
            tangents.update((v, t) for v, t in pairs if t is not None)
    float_outputs = [output for output in program.outputs if is_float(output.value)]
    outputs = [
        Output(f"{order}t {o.name}", tangents.get(o.value) or zeros(b, o.value))
        for o in float_outputs
    ]
    sweep = Sweep(b, active)
    for output in float_outputs:
        cotangent = b.new(output.value.dtype, output.value.shape, f"{order}g {output.name}")
        tangent_inputs.append(Input(cotangent))
        sweep.add(output.value, cotangent)
    for operation in reversed(program.ops):
        if isinstance(operation, Op) and sweep.has_result_cotangent(operation):
            sweep.propagate(operation)
    outputs += [
        Output(f"{order}g {v.name}", sweep.cotangents.get(v) or zeros(b, v)) for v in floats
    ]
    return Program("d", (*program.inputs, *tangent_inputs), tuple(b.ops), tuple(outputs))


def select_outputs(program: Program, names: Callable[[str], bool]) -> Program:
    """Return the program with some of its outputs."""
    return replace(program, outputs=tuple(o for o in program.outputs if names(o.name)))


def random_tangents_and_cotangents(
    program: Program, arrays: Arrays, order: str = ""
) -> dict[str, np.ndarray]:
    """Return random tangents and cotangents for a program."""
    rng = np.random.default_rng(0)
    results = interpret(program, arrays)
    floats = {e.value.name: arrays[e.value.name] for e in program.inputs if is_float(e.value)}
    changes_by_name = {
        f"{order}t {name}": rng.uniform(-1, 1, np.shape(a)) for name, a in floats.items()
    }
    outputs = [o for o in program.outputs if is_float(o.value)]
    return changes_by_name | {
        f"{order}g {o.name}": rng.uniform(-1, 1, np.shape(results[o.name])) for o in outputs
    }


def by_differences(
    program: Program, arrays: Arrays, change: Arrays, order: str = ""
) -> dict[str, np.ndarray]:
    """Compute the derivatives of a program by central differences, element by element."""
    floats = [entry.value.name for entry in program.inputs if is_float(entry.value)]
    outputs = [o.name for o in program.outputs if is_float(o.value)]
    middle = interpret(program, arrays)
    derivatives = {f"{order}t {name}": np.zeros(np.shape(middle[name])) for name in outputs}
    derivatives |= {f"{order}g {name}": np.zeros(np.shape(arrays[name])) for name in floats}
    for name in floats:
        for index in np.ndindex(np.shape(arrays[name])):
            sides = []
            for sign in (1, -1):
                shifted_array = np.array(arrays[name], np.float64)
                shifted_array[index] += sign * STEP
                sides.append(interpret(program, {**arrays, name: shifted_array}))
            for output in outputs:
                slope = (sides[0][output] - sides[1][output]) / (2 * STEP)
                derivatives[f"{order}t {output}"] += slope * change[f"{order}t {name}"][index]
                derivatives[f"{order}g {name}"][index] += np.sum(
                    slope * change[f"{order}g {output}"]
                )
    return derivatives


def assert_equal_to_differences(
    program: Program, arrays: Arrays, *, reference: Program | None = None, order: str = ""
) -> Program:
    """Compare both directions with central differences and return the differentiated program.

    `reference` computes the numbers where the interpreter lacks the program's operation.
    """
    numbers = reference or program
    change = random_tangents_and_cotangents(numbers, arrays, order)
    derived = differentiated(program, order)
    actual = interpret(derived, {**arrays, **change})
    expected = by_differences(numbers, arrays, change, order)
    shapes = {f"{order}t {o.name}": o.value.shape for o in program.outputs}
    shapes |= {f"{order}g {e.value.name}": e.value.shape for e in program.inputs}
    for output in derived.outputs:
        array = actual[output.name]
        assert array.dtype == output.value.dtype
        assert array.shape == expected[output.name].shape, output
        assert output.value.shape == shapes[output.name], "the names of extents are told, too"
        np.testing.assert_allclose(
            array, expected[output.name], rtol=1e-6, atol=2e-8, err_msg=output.name
        )
    return derived
