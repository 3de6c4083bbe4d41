"""Conversion of user-supplied values with units to the units that the model states.

    units = ModelUnits(document)
    units.convert_inputs({"I": Quantity(0.9, "nA")})           {"I": 900.0}, of a port in pA
    units.convert_settings({"cell.tau": Quantity(1, "s")})     {"cell.tau": 1000.0}, of a parameter in ms

Values without a unit are returned unchanged. Arguments that are not mappings are returned unchanged too, since
later checks report them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.document.units import TIME, unit_of, unit_of_time
from mdf_loop.durations import UNITS, convert_step, unit_of_step
from mdf_loop.errors import InputError
from mdf_loop.quantities import NO_UNIT, Unit, convert, has_unit, short_form
from mdf_loop.reading.binding import SEED
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.names import find_item
from mdf_loop.reading.settings import parameter_of
from mdf_loop.request.run_options import RunOptions
from mdf_loop.sweeps import ComputedSweep

_PARAMETER_PREFIX = "parameter "
"""Prefix of the names of parameters in a state."""


class ModelUnits:
    """Converter of user-supplied values to the units of a model."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def convert_options(self, options: RunOptions) -> RunOptions:
        """Return the options of a run with all values in the units of the model."""
        return replace(
            options,
            inputs=self.convert_inputs(options.inputs),
            set=self.convert_settings(options.set),
            sweep=self.convert_sweep(options.sweep),
            dt=self.convert_time_step(options.dt),
            over_trials=self.convert_over_trials(options.over_trials),
            state=self.convert_state(options.state),
        )

    # --- values by name ---------------------------------------------------------------------------

    def convert_inputs(self, values: Any) -> Any:
        """Return input values, by port id, in the units of their ports."""
        return _convert_by_name(values, self._find_input_unit, "the input '{}'")

    def convert_settings(self, values: Any) -> Any:
        """Return parameter values, by `node.parameter`, in the units of the parameters."""
        return _convert_by_name(values, self._find_parameter_unit, "the value of '{}'")

    def convert_sweep(self, values: Any) -> Any:
        """Return the values of a parameter sweep in the units of the swept inputs and parameters."""
        if values is None:
            return None
        if isinstance(values, ComputedSweep):
            return values.convert(self.convert_sweep)
        return _convert_by_name(values, self._find_varied_unit, "the sweep of '{}'")

    def convert_bounds(self, free: Any) -> Any:
        """Return the bounds of free parameters and inputs in the units that the model states for them."""
        return _convert_by_name(free, self._find_varied_unit, "a bound of '{}'")

    def convert_start(self, values: Any) -> Any:
        """Return the start values of a search in the units of its parameters and inputs."""
        return _convert_by_name(values, self._find_varied_unit, "the start of '{}'")

    def convert_state(self, values: Any) -> Any:
        """Return the saved state of an earlier run in the units of the model's parameters and of time."""
        return _convert_by_name(values, self._find_state_unit, "'{}' of the state")

    def convert_losses(self, of: Any) -> Any:
        """Return loss specifications of `differentiate`, with their arrays in the units of their outputs."""
        return self._convert_specifications(of, "sse", "the array for {} of '{}'")

    def convert_over_trials(self, specifications: Any) -> Any:
        """Return specifications of `over_trials`, with histogram edges in the units of the outputs."""
        return self._convert_specifications(specifications, "histogram", "{} over trials of '{}'")

    def convert_time_step(self, dt: Any) -> Any:
        """Return the time step as a number in the model's unit of time.

        A Quantity in a common unit of time is converted exactly and rounded once, like a text.
        """
        if dt is None:
            return None
        time_unit = unit_of_time(self._document)
        if has_unit(dt):
            dt_text = short_form(dt)
            dt = dt_text if unit_of_step(dt_text) in UNITS else convert(dt, time_unit, "dt")
        return convert_step(dt, time_unit.text)

    def _convert_specifications(
        self, specifications: Any, in_unit_of_output: str, description: str
    ) -> Any:
        """Convert numbers in `over_trials` or loss arguments to the units of the outputs.

        Only numbers under the key `in_unit_of_output` may have a unit.
        """
        if specifications is None or not isinstance(specifications, Mapping):
            return specifications

        def convert_word(name: str, specification: Any) -> Any:
            if isinstance(specification, list | tuple):
                return [convert_word(name, element) for element in specification]
            if not isinstance(specification, Mapping):
                return specification
            return {
                field_name: convert_numbers(name, field_name, field_value)
                for field_name, field_value in specification.items()
            }

        def convert_numbers(name: str, key: Any, numbers: Any) -> Any:
            if not has_unit(numbers):
                return numbers
            unit = self.find_output_unit(name) if key == in_unit_of_output else NO_UNIT
            return convert(numbers, unit, description.format(key, name))

        return {name: convert_word(name, unit_words) for name, unit_words in specifications.items()}

    # --- units ------------------------------------------------------------------------------------

    def find_common_unit(self, names: Iterable[str], what: str) -> Unit:
        """Return the unit that several outputs share.

        `what` names the value to convert in errors.

        Raises:
            InputError: If two outputs have different units.
        """
        unit_by_output = {name: self.find_output_unit(name) for name in names}
        unit_texts = {name: unit.text or "no unit" for name, unit in unit_by_output.items()}
        if len(set(unit_texts.values())) > 1:
            unit_list = ", ".join(
                f"'{name}' has {unit_text}" for name, unit_text in unit_texts.items()
            )
            raise InputError(
                f"{what} has a unit, but is for outputs of different units: {unit_list}",
                hint="give plain numbers, or outputs of one unit",
            )
        return next(iter(unit_by_output.values()), NO_UNIT)

    def find_output_unit(self, name: str) -> Unit:
        """Return the unit of an output port, parameter or function by its name.

        Raises:
            UnknownNameError: If no part of the model has the name.
        """
        node_item = find_item(self._document, name)
        return self._find_part_unit(node_item.node, node_item.node_field, node_item.id)

    def _find_input_unit(self, name: str, names: Container[str]) -> Unit | None:
        """Return the unit of the input ports with a name, or None if no input port has the name.

        `names` are all given names. A port that has several of them is meant by the first in `OpenPort.names`.

        Raises:
            InputError: If the ports have different units.
        """
        named_ports = [
            port for port in open_ports(self._document) if port.name_among(names) == name
        ]
        units = [
            self._find_part_unit(port.node, "input_ports", port.port.id) for port in named_ports
        ]
        if len({unit.text for unit in units}) > 1:
            port_list = ", ".join(f"'{port.full_name}'" for port in named_ports)
            raise InputError(
                f"'{name}' is given with a unit, but means inputs of different units: {port_list}",
                hint="name each of them",
            )
        return units[0] if units else None

    def _find_parameter_unit(self, name: str, names: Container[str] = ()) -> Unit:
        """Return the unit of a parameter by `node.parameter`.

        Raises:
            InputError: If the parameter does not exist.
        """
        return unit_of(self._document, *parameter_of(self._document, name))

    def _find_varied_unit(self, name: str, names: Container[str]) -> Unit:
        """Return the unit of an input or a parameter that a sweep or a fit varies."""
        unit = self._find_input_unit(name, names)
        if unit is None:
            unit = NO_UNIT if name == SEED else self._find_parameter_unit(name)
        return unit

    def _find_state_unit(self, name: str, names: Container[str]) -> Unit | None:
        """Return the unit of a state, or None if the state cannot have a unit."""
        if name == TIME:
            return unit_of_time(self._document)
        return (
            self._find_parameter_unit(name.removeprefix(_PARAMETER_PREFIX))
            if name.startswith(_PARAMETER_PREFIX)
            else None
        )

    def _find_part_unit(self, node_id: str, kind: str, part_id: str) -> Unit:
        """Return the unit of an output port, a parameter or a function of a node."""
        node = next(node for node in self._document.graph.nodes if node.id == node_id)
        part = next(node_part for node_part in getattr(node, kind) if node_part.id == part_id)
        return unit_of(self._document, node, part)


def _convert_by_name(
    values: Any, unit_of_name: Callable[[str, Container[str]], Unit | None], what: str
) -> Any:
    """Convert each value of a mapping to the unit of the quantity that its key names.

    A quantity is an input, a parameter or a state of the model.

    A value is not converted if its name has no unit.
    """
    if values is None or (type(values) is not dict and not isinstance(values, Mapping)):
        return values
    if not any(map(has_unit, values.values())):
        return values
    converted_values = dict(values)
    for name, value in values.items():
        unit = unit_of_name(name, values) if has_unit(value) else None
        if unit is not None:
            converted_values[name] = convert(value, unit, what.format(name))
    return converted_values
