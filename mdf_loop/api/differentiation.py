"""Names of differentiated outputs and of parameters, bound to outputs and inputs of programs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.prepared import Prepared
from mdf_loop.api.values_of import values_of
from mdf_loop.cached_property import cached_property
from mdf_loop.errors import Finding, Findings, UnknownNameError, raise_findings
from mdf_loop.ir import Array, Op, Program, walk
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.stop_gradient import STOP_GRADIENT
from mdf_loop.passes.whole_run import control_inputs, whole_run
from mdf_loop.reading.binding import Bound
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.names import find_item, named_items
from mdf_loop.reading.over_time import OverTime, read_over_time
from mdf_loop.reading.program import read_once
from mdf_loop.reading.settings import input_name, written_value
from mdf_loop.specification import RunSpecification, Selection, Values


class DifferentiatedNames:
    """Outputs that are differentiated with respect to parameters and inputs, in runs of one kind.

    Attributes:
        outputs: what results call each of them.
        wrt: by what, as a modeller names it.
        ports: those of them that are inputs, by the names that programs have for them.
        options: how the model is read.
    """

    def __init__(
        self,
        prepared: Prepared,
        outputs: Sequence[str],
        wrt: Sequence[str],
        specification: RunSpecification,
        stop: Sequence[str] = (),
    ) -> None:
        self.prepared = prepared
        self.options = replace(prepared.options, stops=frozenset(stop))
        self.wrt = tuple(wrt)
        self._specification = specification
        document = prepared.document
        self.ports = {n: p.name for n in wrt for p in open_ports(document) if n in p.names}
        self._refuse_unknown(outputs)
        items = named_items(document, Selection(only=tuple(outputs)))
        shown_names = {item.name: name for name, item in items.items()}
        self.outputs = {name: shown_names[find_item(document, name).name] for name in outputs}
        self._own: dict[str, Any] = {}

    def by(self, name: str) -> DifferentiatedNames:
        """Return the same outputs, differentiated with respect to one name."""
        return DifferentiatedNames(
            self.prepared, (*self.outputs,), (name,), self._specification, (*self.options.stops,)
        )

    @property
    def key(self) -> Hashable:
        """Everything that determines the derivatives, except values."""
        run = self._specification
        of = (tuple(self.outputs.items()), self.wrt, self.options.stops)
        return *of, run.steps, run.dt, run.values.draws

    def _refuse_unknown(self, outputs: Sequence[str]) -> None:
        """Refuse all names that the model does not have, in one error."""
        document, findings = self.prepared.document, Findings()
        for name in outputs:
            with findings.catch():
                find_item(document, name)
        for name in self.wrt:
            with findings.catch():
                _ = name in self.ports or written_value(document, name)
        findings.raise_any()

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Return the inputs of programs by the names in the document."""
        return {name: self.ports.get(name) or input_name(name) for name in self.wrt}

    def specification(
        self,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Any] | None = None,
    ) -> RunSpecification:
        """Return the specification of a run with these values. Parameters that are not set keep the model's values."""
        units = self.prepared.model_units
        set, inputs = (
            dict(units.convert_settings(set) or {}),
            dict(units.convert_inputs(inputs) or {}),
        )
        sweep = dict(units.convert_sweep(sweep) or {})
        used_names = {*self.ports, *set, *sweep}
        own = self._of_model([name for name in self.wrt if name not in used_names])
        draws = self._specification.values.draws
        values = Values(inputs, {**own, **set}, sweep, None, draws)
        selection = Selection(only=tuple(dict.fromkeys(self.outputs.values())))
        return replace(self._specification, values=values, selection=selection)

    def bound(self, spec: RunSpecification) -> Bound:
        """Return the bound values of a run.

        Raises:
            LoopError: a value does not fit, or does not change a little: all by name.
        """
        bound = self.prepared.bound(spec)
        raise_findings(self._refused(bound))
        return bound

    def at(self, bound: Bound) -> dict[str, Array]:
        """Return the values with respect to which the outputs are differentiated."""
        return {name: np.asarray(bound.arrays[target]) for name, target in self.inputs.items()}

    def program(self, spec: RunSpecification, bound: Bound) -> Program:
        """Return the model as one program: one evaluation, or a whole run over time."""
        document, options = self.prepared.document, self.options
        if spec.steps is None:
            program = read_once(document, bound, options, spec.selection).program
            self._refuse_unread(program)
            return program
        programs = self.over_time(spec, bound)
        rows = frozenset(bound.inputs.over_time)
        return whole_run(programs.first, programs.later, programs.recorded, rows)

    def over_time(self, spec: RunSpecification, bound: Bound) -> OverTime:
        """Return the model over time as two programs: the first evaluation and the loop."""
        programs = read_over_time(self.prepared.document, bound, self.options, spec)
        self._refuse_unread(programs.later)
        return programs

    def controls(self, spec: RunSpecification) -> dict[str, Array]:
        """Return the inputs that determine the number of steps of that program."""
        return control_inputs(spec.steps, spec.dt, self.prepared.options.precision)

    def _refuse_unread(self, program: Program) -> None:
        """Refuse ports at which derivatives are to stop, but which nothing in the model reads."""
        stopped = [
            op.where
            for op in walk(program.ops)
            if isinstance(op, Op) and op.op_type == STOP_GRADIENT
        ]
        for name in sorted(self.options.stops):
            node, _, port = name.rpartition(".")
            end = f".nodes['{node}'].output_ports['{port}']"
            if not any(where.endswith(end) for where in stopped):
                raise UnknownNameError(
                    f"stop names '{name}', which is no output port of the model that is computed",
                    self.prepared.document.where,
                    "name it as node.port, also of a node inside of a loop",
                )

    def _of_model(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the values that the model gives its parameters."""
        self._own |= values_of(self.prepared, [name for name in names if name not in self._own])
        return {name: self._own[name] for name in names}

    def _refused(self, bound: Bound) -> Iterator[Finding]:
        """Return the error about a value that cannot be changed continuously."""
        arrays = bound.arrays
        for name, target in self.inputs.items():
            array = arrays[target]
            dtype = str(getattr(array, "dtype", type(array).__name__))
            if not isinstance(array, np.ndarray) or kind_of(dtype) != "f":
                yield Finding(
                    "UnsupportedError",
                    f"'{name}' is {dtype}: only by numbers with a point can be differentiated",
                    self.prepared.document.where,
                    "if it can have any value, give it one with a point: 3.0, not 3",
                )
