"""Programs of plain operations differentiated by the rules of these, and by central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Input, Op, Output, Program, Value
from mdf_loop.ops.derivatives.rule import Through, is_float
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep, derivative_of, rule_of
from mdf_loop.passes.rewrite import rewrite
from mdf_loop.run.interpret import interpret

Arrays = Mapping[str, np.ndarray]
STEP = 6e-6


def spelled_out(program: Program) -> Program:
    """The program in which what is differentiated by a composition is written as that."""
    while True:
        active = active_in(program)

        def rule(
            b: Builder, op: Op, active: set[Value] = active
        ) -> tuple[Value | None, ...] | None:
            if active.isdisjoint(op.inputs) or not any(map(is_float, op.outputs)):
                return None
            found = derivative_of(op)
            made = found.composition(b, op) if isinstance(found, Through) else None
            return (made,) if isinstance(made, Value) else made

        made = rewrite(program, rule)
        if made is program:
            return program
        program = made


def active_in(program: Program) -> set[Value]:
    """What depends on inputs of floats."""
    active = {entry.value for entry in program.inputs if is_float(entry.value)}
    for operation in program.ops:
        if isinstance(operation, Op) and not active.isdisjoint(operation.inputs):
            active.update(filter(is_float, operation.outputs))
    return active


def differentiated(program: Program, order: str = "") -> Program:
    """The program with tangents and cotangents.

    x, t x -> y, t y   tangents of results for those of inputs
    x, g y -> g x      cotangents of inputs for those of results

    `order` goes in front of these names, where a program has some already.
    """
    program = spelled_out(program)
    floats = [entry.value for entry in program.inputs if is_float(entry.value)]
    b = Builder.resume(program)
    tangents = {v: b.new(v.dtype, v.shape, f"{order}t {v.name}") for v in floats}
    given = [Input(t) for t in tangents.values()]
    active = active_in(program)
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
            changes = rule_of(operation).tangents(b, operation, known)
            pairs = zip(operation.outputs, changes, strict=True)
            tangents.update((v, t) for v, t in pairs if t is not None)
    made = [output for output in program.outputs if is_float(output.value)]
    outputs = [
        Output(f"{order}t {o.name}", tangents.get(o.value) or zeros(b, o.value)) for o in made
    ]
    sweep = Sweep(b, active)
    for output in made:
        cotangent = b.new(output.value.dtype, output.value.shape, f"{order}g {output.name}")
        given.append(Input(cotangent))
        sweep.add(output.value, cotangent)
    for operation in reversed(program.ops):
        if isinstance(operation, Op) and sweep.reaches(operation):
            sweep.through(operation)
    outputs += [Output(f"{order}g {v.name}", sweep.of.get(v) or zeros(b, v)) for v in floats]
    return Program("d", (*program.inputs, *given), tuple(b.ops), tuple(outputs))


def only(program: Program, names: Callable[[str], bool]) -> Program:
    """The program with some of its outputs."""
    return replace(program, outputs=tuple(o for o in program.outputs if names(o.name)))


def changes(program: Program, arrays: Arrays, order: str = "") -> dict[str, np.ndarray]:
    """Tangents and cotangents for a program that is differentiated: any numbers."""
    rng = np.random.default_rng(0)
    made = interpret(program, arrays)
    floats = {e.value.name: arrays[e.value.name] for e in program.inputs if is_float(e.value)}
    given = {f"{order}t {name}": rng.uniform(-1, 1, np.shape(a)) for name, a in floats.items()}
    outputs = [o for o in program.outputs if is_float(o.value)]
    return given | {
        f"{order}g {o.name}": rng.uniform(-1, 1, np.shape(made[o.name])) for o in outputs
    }


def by_differences(
    program: Program, arrays: Arrays, change: Arrays, order: str = ""
) -> dict[str, np.ndarray]:
    """What a program that is differentiated gives, element by element from its numbers alone."""
    floats = [entry.value.name for entry in program.inputs if is_float(entry.value)]
    outputs = [o.name for o in program.outputs if is_float(o.value)]
    middle = interpret(program, arrays)
    made = {f"{order}t {name}": np.zeros(np.shape(middle[name])) for name in outputs}
    made |= {f"{order}g {name}": np.zeros(np.shape(arrays[name])) for name in floats}
    for name in floats:
        for place in np.ndindex(np.shape(arrays[name])):
            sides = []
            for sign in (1, -1):
                moved = np.array(arrays[name], np.float64)
                moved[place] += sign * STEP
                sides.append(interpret(program, {**arrays, name: moved}))
            for output in outputs:
                slope = (sides[0][output] - sides[1][output]) / (2 * STEP)
                made[f"{order}t {output}"] += slope * change[f"{order}t {name}"][place]
                made[f"{order}g {name}"][place] += np.sum(slope * change[f"{order}g {output}"])
    return made


def assert_right(
    program: Program, arrays: Arrays, *, reference: Program | None = None, order: str = ""
) -> Program:
    """Both directions are as central differences say; the program that is differentiated.

    `reference` gives the numbers where the interpreter lacks the program's operation.
    """
    numbers = reference or program
    change = changes(numbers, arrays, order)
    derived = differentiated(program, order)
    made = interpret(derived, {**arrays, **change})
    wanted = by_differences(numbers, arrays, change, order)
    shapes = {f"{order}t {o.name}": o.value.shape for o in program.outputs}
    shapes |= {f"{order}g {e.value.name}": e.value.shape for e in program.inputs}
    for output in derived.outputs:
        array = made[output.name]
        assert array.dtype == output.value.dtype
        assert array.shape == wanted[output.name].shape, output
        assert output.value.shape == shapes[output.name], "the names of extents are told, too"
        np.testing.assert_allclose(
            array, wanted[output.name], rtol=1e-6, atol=2e-8, err_msg=output.name
        )
    return derived
