"""A differentiated model as a program of its own, with the names that a modeller gives its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdf_loop.api.prepared import Prepared
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Gives, Program, Takes
from mdf_loop.ir.substitute import substitute
from mdf_loop.losses import Loss
from mdf_loop.passes.gradient.forms import for_kernels
from mdf_loop.passes.gradient.objective import Term
from mdf_loop.passes.gradient.whole import whole_run
from mdf_loop.reading.binding import Bound
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.program import read_once
from mdf_loop.run.device import USUAL
from mdf_loop.run.gradient.loaded import Differentiation
from mdf_loop.run.gradient.terms import Data
from mdf_loop.specification import RunSpecification


def program_of_file(
    prepared: Prepared,
    losses: Sequence[Loss],
    outputs: Mapping[str, str],
    names: Mapping[str, str],
    asked: RunSpecification,
    bound: Bound,
) -> tuple[Program, dict[str, Array]]:
    """The program, and what its inputs hold that are not given.

    Args:
        prepared: the model.
        losses: the terms of the number.
        outputs: what programs call the outputs of losses.
        names: what a modeller calls the inputs by which is differentiated.
        asked: the run.
        bound: its values.

    Raises:
        InputError: it has several trials.
    """
    if bound.streams.vary:
        raise InputError("a file computes one run", hint="leave trials out")
    source = _source(prepared, asked, bound)
    terms = tuple(Term(outputs[loss.output], loss.word, False, k) for k, loss in enumerate(losses))
    made = Differentiation(terms, tuple(names), USUAL).program(source, for_kernels)
    data = Data.of(losses, terms, source, asked.steps)
    held: dict[str, Array] = {**bound.drawing(source).arrays, **data.arrays}
    if asked.steps is not None:
        held["steps"] = np.array(asked.steps)
        held |= {} if asked.dt is None else {"dt": np.array(asked.dt, prepared.options.precision)}
    known = [e.value.name for e in made.inputs if e.role is not Takes.PORT]
    defaults = {names.get(name, name): held[name] for name in known}
    return _named(made, names), defaults


def _source(prepared: Prepared, asked: RunSpecification, bound: Bound) -> Program:
    """The model as one program."""
    document, options = prepared.document, prepared.options
    if asked.steps is None:
        return read_once(document, bound, options, asked.selection).program
    programs = read_over_time(document, bound, options, asked)
    over_time = frozenset(bound.given.over_time)
    return whole_run(programs.first, programs.later, programs.recorded, over_time)


def _named(program: Program, names: Mapping[str, str]) -> Program:
    """The program with the names that a modeller gives inputs and their derivatives."""
    new = {
        entry.value: replace(entry.value, name=names[entry.value.name])
        for entry in program.inputs
        if entry.value.name in names
    }
    outputs = tuple(
        replace(output, name=f"gradient of {names[output.of]}")
        if output.role is Gives.CHANGE
        else output
        for output in substitute(program.outputs, new)
    )
    return replace(
        program,
        inputs=tuple(replace(e, value=new.get(e.value, e.value)) for e in program.inputs),
        ops=tuple(substitute(op, new) for op in program.ops),
        outputs=outputs,
    )
