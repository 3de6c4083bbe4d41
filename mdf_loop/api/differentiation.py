"""Names of the outputs to differentiate, and of the parameters to differentiate by."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.values_of import values_of
from mdf_loop.cached_property import cached_property
from mdf_loop.errors import Finding, Findings, UnknownNameError, raise_findings
from mdf_loop.ir import Array, Op, Program, walk
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.stop_gradient import STOP_GRADIENT
from mdf_loop.passes.whole_run import control_inputs, whole_run
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.names import find_item, named_items
from mdf_loop.reading.over_time import OverTime, read_over_time
from mdf_loop.reading.program import read_once
from mdf_loop.reading.settings import input_name, written_value
from mdf_loop.specification import RunSpecification, Selection, Values


class DifferentiatedNames:
    """Names of the outputs to differentiate, and of the parameters and inputs to differentiate by.

    Attributes:
        prepared: The model.
        outputs: Name of each output in results, by the user's name.
        wrt: Names of the parameters and inputs, as the user writes them.
        ports: Name in programs of each of these inputs, by the user's name.
        options: Compilation options, with the output ports that count as constants.
    """

    def __init__(
        self,
        prepared: PreparedModel,
        outputs: Sequence[str],
        wrt: Sequence[str],
        specification: RunSpecification,
        stop: Sequence[str] = (),
    ) -> None:
        self.prepared = prepared
        self.options = replace(prepared.options, constant_ports=frozenset(stop))
        self.wrt = tuple(wrt)
        self._specification = specification
        document = prepared.document
        self.ports = {
            name: port.name for name in wrt for port in open_ports(document) if name in port.names
        }
        self._refuse_unknown(outputs)
        items_by_name = named_items(document, Selection(only=tuple(outputs)))
        names_in_results = {model_item.name: name for name, model_item in items_by_name.items()}
        self.outputs = {name: names_in_results[find_item(document, name).name] for name in outputs}
        self._model_values: dict[str, Any] = {}

    def restricted_to(self, name: str) -> DifferentiatedNames:
        """Return a copy that differentiates the same outputs by one parameter or input only."""
        return DifferentiatedNames(
            self.prepared,
            (*self.outputs,),
            (name,),
            self._specification,
            (*self.options.constant_ports,),
        )

    @property
    def cache_key(self) -> Hashable:
        """Hashable key of everything that determines the program of the derivatives."""
        spec = self._specification
        names_key = (tuple(self.outputs.items()), self.wrt, self.options.constant_ports)
        return *names_key, spec.steps, spec.dt, spec.values.draws

    def _refuse_unknown(self, outputs: Sequence[str]) -> None:
        """Raise one error about all outputs and parameters that are missing in the model."""
        document, name_errors = self.prepared.document, Findings()
        for name in outputs:
            with name_errors.catch():
                find_item(document, name)
        for name in self.wrt:
            with name_errors.catch():
                _ = name in self.ports or written_value(document, name)
        name_errors.raise_any()

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Program inputs to differentiate by, by the name of the parameter or input in the document."""
        return {name: self.ports.get(name) or input_name(name) for name in self.wrt}

    def specification(
        self,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Any] | None = None,
    ) -> RunSpecification:
        """Return the specification of a run with given parameters and inputs.

        Other parameters keep the model's values.
        """
        model_units = self.prepared.model_units
        set, inputs = (
            dict(model_units.convert_settings(set) or {}),
            dict(model_units.convert_inputs(inputs) or {}),
        )
        sweep = dict(model_units.convert_sweep(sweep) or {})
        used_names = {*self.ports, *set, *sweep}
        model_values = self._values_in_model([name for name in self.wrt if name not in used_names])
        draws = self._specification.values.draws
        run_values = Values(inputs, {**model_values, **set}, sweep, None, draws)
        selection = Selection(only=tuple(dict.fromkeys(self.outputs.values())))
        return replace(self._specification, values=run_values, selection=selection)

    def bind(self, spec: RunSpecification) -> BoundValues:
        """Return the arrays for the program's inputs, from the checked values of a run.

        Raises:
            LoopError: A value does not fit, or a differentiated parameter is no float. The error names each.
        """
        bound_values = self.prepared.bind(spec)
        raise_findings(self._find_non_floats(bound_values))
        return bound_values

    def values_in(self, bound_values: BoundValues) -> dict[str, Array]:
        """Return the values of the parameters and inputs to differentiate by."""
        return {
            name: np.asarray(bound_values.arrays[target_name])
            for name, target_name in self.inputs.items()
        }

    def program(self, spec: RunSpecification, bound_values: BoundValues) -> Program:
        """Return the model as one program, which computes one evaluation or a whole run over time."""
        document, options = self.prepared.document, self.options
        if spec.steps is None:
            program = read_once(document, bound_values, options, spec.selection).program
            self._refuse_unknown_stops(program)
            return program
        programs = self.over_time(spec, bound_values)
        inputs_over_time = frozenset(bound_values.inputs.varying_names)
        return whole_run(
            programs.first_program,
            programs.later_program,
            programs.recorded_names,
            inputs_over_time,
        )

    def over_time(self, spec: RunSpecification, bound_values: BoundValues) -> OverTime:
        """Return the model over time as two programs: the first evaluation and the loop."""
        programs = read_over_time(self.prepared.document, bound_values, self.options, spec)
        self._refuse_unknown_stops(programs.later_program)
        return programs

    def time_inputs(self, spec: RunSpecification) -> dict[str, Array]:
        """Return the arrays of the inputs `steps` and `dt` of a program over time, or {}."""
        return control_inputs(spec.steps, spec.dt, self.prepared.options.precision)

    def _refuse_unknown_stops(self, program: Program) -> None:
        """Raise an error for a name in `stop` that is no output port of the program."""
        constant_locations = [
            op.where
            for op in walk(program.ops)
            if isinstance(op, Op) and op.op_type == STOP_GRADIENT
        ]
        for name in sorted(self.options.constant_ports):
            node_name, _, port_name = name.rpartition(".")
            location_suffix = f".nodes['{node_name}'].output_ports['{port_name}']"
            if not any(location.endswith(location_suffix) for location in constant_locations):
                raise UnknownNameError(
                    f"stop names '{name}', which is no output port of the model that is computed",
                    self.prepared.document.where,
                    "name it as node.port, also of a node inside of a loop",
                )

    def _values_in_model(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the parameter values in the document, from a cache if possible."""
        self._model_values |= values_of(
            self.prepared, [name for name in names if name not in self._model_values]
        )
        return {name: self._model_values[name] for name in names}

    def _find_non_floats(self, bound_values: BoundValues) -> Iterator[Finding]:
        """Yield an error for each parameter or input to differentiate by that is no float array."""
        arrays = bound_values.arrays
        for name, target_name in self.inputs.items():
            array = arrays[target_name]
            dtype = str(getattr(array, "dtype", type(array).__name__))
            if not isinstance(array, np.ndarray) or kind_of(dtype) != "f":
                yield Finding(
                    "UnsupportedError",
                    f"'{name}' is {dtype}: only by numbers with a point can be differentiated",
                    self.prepared.document.where,
                    "if it can have any value, give it one with a point: 3.0, not 3",
                )
