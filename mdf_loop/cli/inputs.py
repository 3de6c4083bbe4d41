"""Parsing of values from the command line: `NAME=VALUE` texts and files.

    3   2.5   true   nan   [1, 2.5]   [[1, 2], [3, 4]]     as in JSON or in Python
    stimulus.csv:current   weights.npz:W                    one column or array of a file
    0:1:5                                                   for a sweep: numpy.linspace(0, 1, 5)

Files are .csv, .npz and .json. Only .json files can have sequences and absent optional values:

    {"history": {"sequence": [{"dtype": "float32", "shape": [2], "data": [1, 2]}]}, "x": null}
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.archives import read_arrays
from mdf_loop.cli.show import show
from mdf_loop.columns import TIME_COLUMNS, read_columns
from mdf_loop.document.document import Document
from mdf_loop.document.units import stated_time_unit, time_unit_of
from mdf_loop.durations import convert_step, unit_of_step
from mdf_loop.errors import InputError
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.losses import TERMS_WITH_DATA, TERMS_WITHOUT_DATA
from mdf_loop.memory_limit import check
from mdf_loop.name_suggestions import suggest
from mdf_loop.paths import path_of, record_read_file
from mdf_loop.sweeps import grid


def read_inputs(
    pairs: Iterable[str],
    files: Iterable[str],
    steps: int | None = None,
    dt: float | None = None,
) -> dict[str, Any]:
    """Return the model inputs from command-line options, by name.

    Single values override values in files.

    With `steps`, a column of a csv file must have one row per step. With `dt`, a column `time` must increase
    by `dt` from row to row.

    Raises:
        InputError: A value or a file cannot be read, or does not fit the run.
    """
    inputs: dict[str, Any] = {}
    for file_name in files:
        path = path_of(file_name, "the file of inputs")
        values_by_name = _read_file(path, steps)
        if steps is not None and dt is not None and "time" in values_by_name:
            _check_times(path, values_by_name["time"], dt)
        ignored_columns = TIME_COLUMNS if path.suffix.lower() == ".csv" else ()
        inputs.update(
            {
                column_name: value
                for column_name, value in values_by_name.items()
                if column_name not in ignored_columns
            }
        )
    for assignment in pairs:
        input_name, value_text = _split_pair(assignment, "--input x=3 or --input x='[1, 2]'")
        inputs[input_name] = _read_value(value_text, f"the input '{input_name}'", steps)
    return inputs


def _check_times(path: Path, times: Any, dt: float) -> None:
    """Check that the times in a csv file increase by the time step from row to row.

    Raises:
        InputError: The times of two rows have another difference. The message has the difference and `dt`.
    """
    if path.suffix.lower() != ".csv":
        return
    times = np.asarray(times, np.float64).reshape(-1)
    differences = np.diff(times)
    tolerance = 16 * np.finfo(np.float64).eps * np.abs(times[1:])
    rows_with_wrong_step = np.flatnonzero(~(np.abs(differences - dt) <= 1e-6 * abs(dt) + tolerance))
    if rows_with_wrong_step.size:
        row_index = int(rows_with_wrong_step[0])
        raise InputError(
            f"the column 'time' of '{path}' contradicts --dt: rows {row_index} and {row_index + 1} are "
            f"{differences[row_index]:.6g} apart (time {times[row_index]:.6g} and {times[row_index + 1]:.6g}), "
            f"and the dt of the run is {dt:.6g}",
            hint="give the dt of the file, or a row for each step of the run; without the column "
            "'time' the rows are taken one for each step",
        )


def read_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the values of `--set` options by `node.parameter`."""
    return {
        name: _read_value(value_text, f"the value of '{name}'")
        for name, value_text in split_once(pairs, "--set cell.g=0.5")
    }


def read_step(dt: str | None, document: Document) -> float | None:
    """Return the time step in `--dt`, in the model's unit of time.

    A conversion is reported on stderr.

    dt: 0.5ms is 0.0005 s (the model states no unit of time)
    """
    if dt is None:
        return None
    unit = time_unit_of(document)
    time_step: float = convert_step(dt, unit)
    if unit_of_step(dt) not in (None, unit):
        has_unit = stated_time_unit(document) is not None
        unit_remark = "" if has_unit else " (the model states no unit of time)"
        show(f"dt: {dt.strip()} is {time_step:.16g} {unit}{unit_remark}", error=True)
    return time_step


def read_members(pairs: Iterable[str], grid_pairs: Iterable[str]) -> Mapping[str, Any]:
    """Return the members of a sweep from `--sweep` or `--grid` options.

    Raises:
        InputError: A value cannot be read, or both options are present.
    """
    sweep_values, grid_values = read_sweep(pairs), read_sweep(grid_pairs)
    if sweep_values and grid_values:
        raise InputError("--sweep and --grid are different sweeps", hint="give one of them")
    return grid(grid_values) if grid_values else sweep_values


def read_cluster(text: str | None) -> Any:
    """Parse `--cluster`: a number of processes, or a cluster's address or file."""
    return int(text) if text is not None and text.isdecimal() else text


def read_sweep(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the swept values in `--sweep` or `--grid` options, by parameter or input name."""
    sweep = {}
    for name, sweep_text in split_once(
        pairs, "--sweep cell.g='[0.1, 0.2]' or --sweep cell.g=0:1:100"
    ):
        range_parts = sweep_text.split(":")
        is_range = len(range_parts) == 3 and not _FILE_ENTRY_PATTERN.fullmatch(sweep_text.strip())
        description = f"the sweep of '{name}'"
        sweep[name] = (
            _parse_range(range_parts, description)
            if is_range
            else _read_value(sweep_text, description)
        )
    return sweep


def read_losses(texts: Iterable[str], steps: int | None = None) -> dict[str, list[Any]]:
    """Return the terms of an objective from `--of` options, by output.

    cell.V:mean   cell.V:sse=data.csv   cell.V:sse=data.csv:V   cell.V:weighted='[0.5, 1]'

    For a file without a column name, the data are the column with the name of the output.
    """
    losses: dict[str, list[Any]] = {}
    for loss_text in texts:
        output, loss_name, data_text = _parse_loss(loss_text)
        description = f"the data of {loss_name} of '{output}'"
        if data_text is not None and _WHOLE_FILE_PATTERN.fullmatch(data_text.strip()):
            data_text = f"{data_text.strip()}:{output}"
        loss_term = (
            loss_name
            if data_text is None
            else {loss_name: _read_value(data_text, description, steps)}
        )
        losses.setdefault(output, []).append(loss_term)
    return losses


_LOSS_PATTERN = re.compile(r"(.+?):\s*(\w+)\s*(?:=(.*))?", re.DOTALL)


def _parse_loss(text: str) -> tuple[str, str, str | None]:
    """Split an `--of` option into the output, the kind of term, and the text of the data."""
    if match := _LOSS_PATTERN.fullmatch(text.strip()):
        output, loss_name, data_text = match[1].strip(), match[2], match[3]
        if loss_name in (TERMS_WITHOUT_DATA if data_text is None else TERMS_WITH_DATA):
            return output, loss_name, data_text
    raise InputError(
        f"--of '{text}' is not OUTPUT:WORD, or OUTPUT:WORD=DATA"[:200],
        hint=f"the words are {', '.join(TERMS_WITHOUT_DATA)}, and with data {' and '.join(TERMS_WITH_DATA)}: "
        "--of cell.V:mean, --of cell.V:sse=data.csv:V",
    )


def read_seed(text: str) -> int | str:
    """Return the seed in a text as an integer, or the unchanged text if it is no integer."""
    return int(text) if _INTEGER_PATTERN.fullmatch(text.strip()) else text


def read_trials(text: str | None) -> Any:
    """Parse `--trials`: a number of trials, a range `first:end`, or a list of trial numbers."""
    if text is None:
        return None
    range_ends = text.split(":")
    if len(range_ends) == 2 and all(
        _INTEGER_PATTERN.fullmatch(end_text.strip()) for end_text in range_ends
    ):
        return range(*map(int, range_ends))
    return parse_value(text, "--trials")


def read_over_trials(pairs: Iterable[str]) -> dict[str, list[Any]] | None:
    """Return the statistics over trials from `--over-trials` options, by output."""
    usage_example = "--over-trials ddm.rt=mean,quantiles:0.1:0.5:0.9"
    statistics: dict[str, list[Any]] = {}
    for assignment in pairs:
        name, statistics_text = _split_pair(assignment, usage_example)
        statistics[name] = [
            *statistics.get(name, ()),
            *map(_parse_statistic, statistics_text.split(",")),
        ]
    return statistics or None


def _parse_statistic(text: str) -> Any:
    """Parse the text of a statistic over trials as a word, or as a dict with numbers."""
    statistic_name, *parameter_texts = (
        statistic_part.strip() for statistic_part in text.split(":")
    )
    if not parameter_texts:
        return statistic_name
    if statistic_name == "histogram" and len(parameter_texts) == 3:
        return {statistic_name: _parse_range(parameter_texts, "the edges of a histogram")}
    return {
        statistic_name: [
            parse_value(parameter_text, f"{statistic_name} over trials")
            for parameter_text in parameter_texts
        ]
    }


_INTEGER_PATTERN = re.compile(r"-?[0-9]{1,20}")


def _split_pair(pair: str, example: str) -> tuple[str, str]:
    """Split a `NAME=VALUE` option into the name and the text of the value."""
    name, separator, value_text = pair.partition("=")
    if not separator or not name.strip():
        option_name = example.split()[0]
        raise InputError(f"{option_name} '{pair}' is not NAME=VALUE", hint=f"e.g. {example}")
    return name.strip(), value_text


def split_once(pairs: Iterable[str], example: str) -> list[tuple[str, str]]:
    """Split `NAME=VALUE` options into a dict of texts, in which each name must occur once.

    Raises:
        InputError: A name occurs twice.
    """
    texts_by_name: dict[str, str] = {}
    for assignment in pairs:
        name, value_text = _split_pair(assignment, example)
        if name in texts_by_name:
            raise InputError(f"{example.split()[0]} has '{name}' twice", hint="give it once")
        texts_by_name[name] = value_text
    return list(texts_by_name.items())


def _parse_range(range_parts: list[str], description: str) -> Any:
    """Parse a text `first:last:number` as evenly spaced values that include both ends."""
    first_value, last_value, value_count = (
        parse_value(bound_text, description) for bound_text in range_parts
    )
    are_ends_finite = all(
        isinstance(end_value, int | float) and np.isfinite(end_value)
        for end_value in (first_value, last_value)
    )
    if (
        not are_ends_finite
        or isinstance(value_count, bool)
        or not isinstance(value_count, int)
        or value_count < 1
    ):
        raise InputError(
            f"{description} is no range: {':'.join(range_parts)!r}"[:200],
            hint="write first:last:number, e.g. 0:1:5 for 0, 0.25, 0.5, 0.75, 1",
        )
    try:
        check(8 * value_count, description)
        return np.linspace(first_value, last_value, value_count)
    except (MemoryError, OverflowError, ValueError):
        raise InputError(f"{description} has too many values: {value_count}") from None


# --- values ------------------------------------------------------------------------------------

_FILE_ENTRY_PATTERN = re.compile(r"(.+?\.(?:csv|npz|json)):(.*)", re.IGNORECASE | re.DOTALL)

_WHOLE_FILE_PATTERN = re.compile(r"[^:]+\.(?:csv|npz|json)", re.IGNORECASE)


def _read_value(text: str, description: str, steps: int | None = None) -> Any:
    """Return the value in a text, or the column or array of the file that the text names."""
    file_match = _FILE_ENTRY_PATTERN.fullmatch(text.strip())
    if file_match is None:
        return parse_value(text, description)
    path, name = path_of(file_match[1], "the file of a value"), file_match[2]
    values_by_name = _read_file(path, steps)
    if name not in values_by_name:
        raise InputError(
            f"'{path.name}' has no '{name}'",
            hint=suggest(name, values_by_name) or "it holds nothing",
        )
    return values_by_name[name]


_PYTHON_CONSTANTS = {
    "true": True,
    "false": False,
    "nan": float("nan"),
    "inf": float("inf"),
    "infinity": float("inf"),
}


class _ReplaceConstants(ast.NodeTransformer):
    """Syntax tree transformer that replaces `true`, `nan` and `inf` by Python constants."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the Python constant for a name such as `nan`, or the node unchanged."""
        lower_case_name = node.id.lower()
        return (
            ast.Constant(_PYTHON_CONSTANTS[lower_case_name])
            if lower_case_name in _PYTHON_CONSTANTS
            else node
        )


def parse_value(text: str, description: str) -> Any:
    """Parse a number, boolean or (nested) list, written as in JSON or Python."""
    try:
        parsed_value = ast.literal_eval(
            _ReplaceConstants().visit(ast.parse(text.strip(), mode="eval"))
        )
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        parsed_value = None
    if not isinstance(parsed_value, bool | int | float | list | tuple):
        raise InputError(
            f"{description} is not a number or a list of numbers: {text.strip()[:60]!r}",
            hint="e.g. 3, 2.5, true, [1, 2, 3], [[1, 2], [3, 4]], or file.csv:column",
        )
    if isinstance(parsed_value, int) and not -(2**63) <= parsed_value < 2**63:
        raise InputError(f"{description} does not fit into 64 bits: {str(parsed_value)[:40]}")
    return parsed_value


# --- files -------------------------------------------------------------------------------------


def _read_file(path: Path, steps: int | None) -> Mapping[str, Any]:
    """Return the arrays of a .npz or JSON file, or the columns of a csv file, by name."""
    if not path.is_file():
        raise InputError(f"there is no file '{path}' with inputs")
    check(record_read_file(path).stat().st_size, f"'{path.name}'"[:300])
    match path.suffix.lower():
        case ".npz":
            return read_arrays(path)
        case ".json":
            return _read_json(path)
        case ".csv":
            return read_columns(path, steps)
        case _:
            raise InputError(f"'{path.name}' is neither .csv, .json nor .npz")


def _read_json(path: Path) -> dict[str, Any]:
    """Return the values of a JSON file by name."""
    try:
        json_content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"'{path.name}' is not JSON: {error}") from None
    if not isinstance(json_content, dict):
        raise InputError(f"'{path.name}' must hold one object: {{name: value, ...}}")
    return {name: _from_json(name, value, path) for name, value in json_content.items()}


def _from_json(name: str, value: Any, path: Path) -> Any:
    """Convert a value of a JSON file to an array, a sequence of arrays, or numbers."""
    if not isinstance(value, dict):
        return value
    if set(value) == {"sequence"} and isinstance(value["sequence"], list):
        return [_from_json(name, sequence_member, path) for sequence_member in value["sequence"]]
    try:
        array = np.array(value["data"], dtype=numpy_dtype(value["dtype"]))
        return array.reshape(value.get("shape", array.shape))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the input '{name}' in '{path.name}' is not {{dtype, shape, data}}: {error}",
            hint="a sequence is written {sequence: [...]}, an absent optional value null",
        ) from None
