"""Description of a compiled model: its inputs, parameters, states and outputs.

inputs        `current`       float64[]    nA     2.0
parameters    `cell.tau`      float64[]    ms     10.0
states        `cell.v`        float64[]    mV     v_rest
outputs       `cell.spike`    bool[]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError
from mdf_loop.html_tables import html_table, limit_rows, short_text
from mdf_loop.ir import OutputRole, Program, Shape, type_text
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.port_values import find_default
from mdf_loop.reading.settings import is_state
from mdf_loop.specification import Selection
from mdf_loop.text_escaping import escape_control_characters

_Types = Mapping[str, tuple[str, Shape]]


class Description(Struct, frozen=True):
    """Type, unit and default of an input, a parameter, a state or an output.

    Attributes:
        dtype: The dtype, such as `float64`; an empty text if it is unknown.
        shape: The extents. An extent that only a run determines is a name. None if the rank is unknown.
        unit: The unit that the model states, or an empty text.
        default: The default value: a number, a list, or the text of an expression. None without a default.
    """

    dtype: str
    shape: Shape
    unit: str = ""
    default: Any = None

    @property
    def type(self) -> str:
        """Dtype and shape as text, such as `float64[2, n]`."""
        return type_text(self.dtype, self.shape) if self.dtype else ""


class ModelDescription(Struct, frozen=True):
    """Descriptions of all inputs, parameters, states and outputs of a model, by name.

    Attributes:
        name: The name of the model.
        inputs: Inputs by port id, by `node.port` where several nodes have a port of this id.
        parameters: Parameters that are no states, by `node.parameter`.
        states: Parameters that keep a value from one evaluation to the next, by `node.parameter`.
        outputs: Outputs by `node.port`.
    """

    name: str
    inputs: Mapping[str, Description]
    parameters: Mapping[str, Description]
    states: Mapping[str, Description]
    outputs: Mapping[str, Description]

    @classmethod
    def of(cls, prepared: PreparedModel) -> ModelDescription:
        """Return the description of a model for the default values of its inputs."""
        document, units = prepared.document, prepared.units
        defaults = _read_defaults(document)
        types = _infer_types(prepared, tuple(defaults))
        descriptions = {
            name: Description(*types.get(name, ("", None)), units.get(name, ""), default)
            for name, default in defaults.items()
        }
        program = prepared.program_of(Selection())
        return cls(
            document.name,
            dict(_describe_inputs(prepared, program)),
            {
                name: description
                for name, description in descriptions.items()
                if not is_state(document, name)
            },
            {
                name: description
                for name, description in descriptions.items()
                if is_state(document, name)
            },
            {
                output.name: Description(
                    output.value.dtype, output.value.shape, units.get(output.name, "")
                )
                for output in program.outputs
                if output.role is OutputRole.RESULT
            },
        )

    @property
    def groups(self) -> Mapping[str, Mapping[str, Description]]:
        """Descriptions of inputs, parameters, states and outputs, by the title of each group."""
        descriptions_by_title = {
            name: getattr(self, name) for name in ("inputs", "parameters", "states", "outputs")
        }
        return {
            title: descriptions
            for title, descriptions in descriptions_by_title.items()
            if descriptions
        }

    def __str__(self) -> str:
        rows = limit_rows(_build_rows(self.groups), name_column=1)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table_lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join(
            [
                f"model '{escape_control_characters(self.name)}'",
                *(f"  {line}" for line in table_lines),
            ]
        )

    def to_html(self) -> str:
        """Return the descriptions of the model's values as a table in HTML."""
        header = ("", "name", "type", "unit", "default")
        return html_table(f"model {self.name}", header, _build_rows(self.groups), name_column=1)


def _build_rows(groups: Mapping[str, Mapping[str, Description]]) -> list[tuple[str, ...]]:
    """Return the table rows that describe a model's inputs, parameters, states and outputs."""
    return [
        (
            title if k == 0 else "",
            name,
            description.type,
            description.unit,
            short_text(description.default),
        )
        for title, descriptions in groups.items()
        for k, (name, description) in enumerate(descriptions.items())
    ]


def _describe_inputs(
    prepared: PreparedModel, program: Program
) -> Iterable[tuple[str, Description]]:
    """Yield the name and the description of each model input, in the order of the document."""
    input_values_by_name = {
        program_input.value.name: program_input.value for program_input in program.inputs
    }
    for port in open_ports(prepared.document):
        input_value = next(
            (input_values_by_name[name] for name in port.names if name in input_values_by_name),
            None,
        )
        dtype, shape = ("", None) if input_value is None else (input_value.dtype, input_value.shape)
        default = None
        if not port.is_required:
            with suppress(LoopError):  # an open shape, which has no default
                default_array = find_default(port.port, prepared.options.precision, port.where)
                default = (
                    default_array.tolist() if hasattr(default_array, "tolist") else default_array
                )
        yield port.name, Description(dtype, shape, prepared.units.get(port.name, ""), default)


def _read_defaults(document: Document) -> dict[str, Any]:
    """Return the value, or initial value, of each parameter in the document, by `node.parameter`."""
    return {
        f"{node.id}.{parameter.id}": parameter.value
        if parameter.default_initial_value is None
        else parameter.default_initial_value
        for node in document.graph.nodes
        for parameter in node.parameters
        if parameter.id is not None
    }


def _infer_types(prepared: PreparedModel, names: tuple[str, ...]) -> _Types:
    """Return the inferred dtype and shape of each parameter that a run can record."""
    with suppress(LoopError):
        return _read_types(prepared, names)
    types_by_name: dict[str, tuple[str, Shape]] = {}
    for name in names:
        with suppress(LoopError):
            types_by_name |= _read_types(prepared, (name,))
    return types_by_name


def _read_types(prepared: PreparedModel, names: tuple[str, ...]) -> _Types:
    """Return the dtype and shape of parameters from one program that records all of them.

    Raises:
        LoopError: A parameter cannot be recorded.
    """
    return {
        output.name: (output.value.dtype, output.value.shape)
        for output in prepared.program_of(Selection(only=names)).outputs
        if output.role is OutputRole.RESULT
    }
