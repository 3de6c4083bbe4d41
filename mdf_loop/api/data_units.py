"""Conversion of observed data with units to the units of the fitted outputs.

{"time": Quantity([0, 1], "s"), "cell.V": Quantity([-70, -65], "mV")}
{"time": [0.0, 1000.0], "cell.V": [-0.07, -0.065]}         of a model in ms and V
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from mdf_loop.api.fitting_to_data import (
    has_subjects,
    list_column_names,
    name_subject_in_errors,
    refuse_columns_of_inputs,
)
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.document.units import unit_of_time
from mdf_loop.errors import InputError
from mdf_loop.fitting.observed import DEVIATION, RESERVED_COLUMNS, TIME, output_columns
from mdf_loop.quantities import NO_UNIT, convert, has_unit
from mdf_loop.request.fit_options import FitOptions


def convert_fit_options(prepared: PreparedModel, options: FitOptions) -> FitOptions:
    """Return the arguments of a fit with all values in the units of the model.

    Raises:
        InputError: A value cannot be converted.
    """
    model_units, has_dt = prepared.model_units, options.dt is not None
    converted_data = convert_data(
        prepared, options.data, options.against, options.likelihood, has_dt=has_dt
    )
    return replace(
        options,
        data=converted_data,
        free=model_units.convert_bounds(options.free),
        dt=model_units.convert_time_step(options.dt),
        set=model_units.convert_settings(options.set),
        inputs=model_units.convert_inputs(options.inputs),
        objective=model_units.convert_losses(options.objective),
        start=model_units.convert_start(options.start),
    )


def convert_data(
    prepared: PreparedModel, data: Any, against: Any, likelihood: Any, *, has_dt: bool
) -> Any:
    """Return the data of a fit as plain numbers in the units of the fitted outputs.

    Columns with a unit that the fit does not read are omitted.

    Args:
        prepared: The model.
        data: Data as for `CompiledModel.fit`. Data without units are returned unchanged.
        against: Outputs to which the data are compared.
        likelihood: Output of each column of decisions (`rt`, `choice`).
        has_dt: True if the run has a time step. Otherwise times are step numbers.

    Raises:
        InputError: A column cannot be converted to the unit of its output.
        UnknownNameError: A column belongs to no output.
    """
    if has_subjects(data):
        data_by_subject = {}
        for subject_name, subject_data in data.items():
            with name_subject_in_errors(subject_name):
                data_by_subject[subject_name] = convert_data(
                    prepared, subject_data, against, likelihood, has_dt=has_dt
                )
        return data_by_subject
    data_table = _to_table(data)
    if not any(map(has_unit, data_table.values())):
        return data
    return _Columns(prepared, data_table, against, likelihood, has_dt=has_dt).convert()


def convert_deviation(
    prepared: PreparedModel, value: Any, outputs: Iterable[str], what: str
) -> Any:
    """Return a standard deviation as a number in the common unit of several outputs.

    Raises:
        InputError: The standard deviation cannot be converted, or the outputs have different units.
    """
    if not has_unit(value):
        return value
    common_unit = prepared.model_units.find_common_unit(outputs, what)
    return convert(value, common_unit, what, is_difference=True)


def _to_table(data: Any) -> dict[str, Any]:
    """Return the columns of a mapping or DataFrame by name, or {} for any other object."""
    if isinstance(data, Mapping):
        return {str(name): values for name, values in data.items()}
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):
        return {str(name): data[name] for name in data.columns}
    return {}


class _Columns:
    """Converter of one subject's data columns to the units of the fitted outputs."""

    def __init__(
        self,
        prepared: PreparedModel,
        table: Mapping[str, Any],
        against: Any,
        likelihood: Any,
        *,
        has_dt: bool,
    ) -> None:
        self._prepared, self._table, self._has_dt = prepared, table, has_dt
        self._outputs_by_column: dict[str, list[str]] = {}
        if isinstance(likelihood, Mapping) and likelihood:
            self._outputs_by_column = {column: [output] for column, output in likelihood.items()}
            self._reserved_columns: tuple[str, ...] = ()
            return
        self._reserved_columns = RESERVED_COLUMNS
        outputs = output_columns(table) if against is None else against
        for output, column_names in list_column_names(prepared.document, outputs).items():
            column = next((name for name in column_names if name in table), None)
            if column is not None:
                self._outputs_by_column.setdefault(column, []).append(output)

    def convert(self) -> dict[str, Any]:
        """Return the data columns as plain numbers in the units of the fitted outputs.

        Columns with a unit that the fit does not read are omitted.
        """
        used_columns = {*self._outputs_by_column, *self._reserved_columns}
        omitted_columns = [
            name
            for name, values in self._table.items()
            if name not in used_columns and has_unit(values)
        ]
        refuse_columns_of_inputs(self._prepared.document, omitted_columns, ())
        return {
            name: self._convert_column(name) for name in self._table if name not in omitted_columns
        }

    def _convert_column(self, name: str) -> Any:
        """Return a data column in the unit of the output to which the column is fitted."""
        values, description = self._table[name], f"the column '{name}'"
        if not has_unit(values):
            return values.to_numpy() if hasattr(values, "to_numpy") else values
        if name in self._outputs_by_column:
            target_unit = self._prepared.model_units.find_common_unit(
                self._outputs_by_column[name], description
            )
            return convert(values, target_unit, description)
        if name == DEVIATION:
            fitted_outputs = [
                output
                for column_outputs in self._outputs_by_column.values()
                for output in column_outputs
            ]
            return convert_deviation(self._prepared, values, fitted_outputs, description)
        if name == TIME:
            return self._convert_times(values, description)
        return convert(values, NO_UNIT, description)

    def _convert_times(self, values: Any, what: str) -> Any:
        """Return the times of the data rows in the model's unit of time.

        Raises:
            InputError: The times have a unit, but the run has no time step.
        """
        if self._has_dt:
            return convert(values, unit_of_time(self._prepared.document), what)
        try:
            return convert(values, NO_UNIT, what)
        except InputError:
            error_message = f"{what} has a unit, but without dt its times are the numbers of steps"
            raise InputError(error_message, hint="give dt, too") from None
