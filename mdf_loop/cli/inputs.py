"""How values on the command line are read: `NAME=VALUE`, and files with many of them.

    3   2.5   true   nan   [1, 2.5]   [[1, 2], [3, 4]]     as in JSON or in Python
    stimulus.csv:current   weights.npz:W                    one column or array of a file
    0:1:5                                                   for a sweep: numpy.linspace(0, 1, 5)

Files are .csv, .npz and .json. Sequences, and optional values that are absent, come in .json only:

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
from mdf_loop.columns import IGNORED, read_columns
from mdf_loop.document.document import Document
from mdf_loop.document.units import stated_time_unit, time_unit_of
from mdf_loop.durations import step_in, unit_of_step
from mdf_loop.errors import InputError
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.losses import WITH_DATA, WORDS
from mdf_loop.memory_limit import check
from mdf_loop.paths import noted, path_of
from mdf_loop.suggestion import suggestion
from mdf_loop.sweeps import grid


def read_inputs(
    pairs: Iterable[str],
    files: Iterable[str],
    steps: int | None = None,
    dt: float | None = None,
) -> dict[str, Any]:
    """Read inputs by name: files first, single values override them.

    With `steps` a column of a csv file must have a row for each; with `dt` its column `time`, if
    there is one, must rise by it from row to row.

    Raises:
        InputError: a file does not fit.
    """
    inputs: dict[str, Any] = {}
    for name in files:
        path = path_of(name, "the file of inputs")
        content = _read_file(path, steps)
        if steps is not None and dt is not None and "time" in content:
            _check_times(path, content["time"], dt)
        ignored = IGNORED if path.suffix.lower() == ".csv" else ()
        inputs.update({key: value for key, value in content.items() if key not in ignored})
    for pair in pairs:
        name, text = _split(pair, "--input x=3 or --input x='[1, 2]'")
        inputs[name] = _read(text, f"the input '{name}'", steps)
    return inputs


def _check_times(path: Path, times: Any, dt: float) -> None:
    """Raise if the rows of a csv file are not `dt` apart.

    Raises:
        InputError: two rows are not; the sentence has their distance and the dt of the run.
    """
    if path.suffix.lower() != ".csv":
        return
    times = np.asarray(times, np.float64).reshape(-1)
    apart = np.diff(times)
    rounding = 16 * np.finfo(np.float64).eps * np.abs(times[1:])
    wrong = np.flatnonzero(~(np.abs(apart - dt) <= 1e-6 * abs(dt) + rounding))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"the column 'time' of '{path}' contradicts --dt: rows {row} and {row + 1} are "
            f"{apart[row]:.6g} apart (time {times[row]:.6g} and {times[row + 1]:.6g}), "
            f"and the dt of the run is {dt:.6g}",
            hint="give the dt of the file, or a row for each step of the run; without the column "
            "'time' the rows are taken one for each step",
        )


def read_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Values of parameters by `node.parameter`."""
    return {
        name: _read(text, f"the value of '{name}'")
        for name, text in split_once(pairs, "--set cell.g=0.5")
    }


def read_step(dt: str | None, document: Document) -> float | None:
    """`--dt` in the model's unit of time; that of another unit is said, on stderr.

    dt: 0.5ms is 0.0005 s (the model states no unit of time)
    """
    if dt is None:
        return None
    unit = time_unit_of(document)
    step: float = step_in(dt, unit)
    if unit_of_step(dt) not in (None, unit):
        stated = stated_time_unit(document) is not None
        why = "" if stated else " (the model states no unit of time)"
        show(f"dt: {dt.strip()} is {step:.16g} {unit}{why}", error=True)
    return step


def read_members(pairs: Iterable[str], along: Iterable[str]) -> Mapping[str, Any]:
    """What `--sweep` and `--grid` say together.

    Raises:
        InputError: they cannot be read, or both are given.
    """
    swept, crossed = read_sweep(pairs), read_sweep(along)
    if swept and crossed:
        raise InputError("--sweep and --grid are different sweeps", hint="give one of them")
    return grid(crossed) if crossed else swept


def read_cluster(text: str | None) -> Any:
    """Who computes: a number, an address or a file."""
    return int(text) if text is not None and text.isdecimal() else text


def read_sweep(pairs: Iterable[str]) -> dict[str, Any]:
    """Lists of values by name."""
    sweep = {}
    for name, text in split_once(pairs, "--sweep cell.g='[0.1, 0.2]' or --sweep cell.g=0:1:100"):
        parts = text.split(":")
        is_range = len(parts) == 3 and not _FILE.fullmatch(text.strip())
        what = f"the sweep of '{name}'"
        sweep[name] = _range(parts, what) if is_range else _read(text, what)
    return sweep


def read_losses(texts: Iterable[str], steps: int | None = None) -> dict[str, list[Any]]:
    """What a number is made of: words for each output, some with data.

    cell.V:mean   cell.V:sse=data.csv   cell.V:sse=data.csv:V   cell.V:weighted='[0.5, 1]'

    Of a file that is named alone it takes what is called like the output.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        output, word, data = _loss(text)
        what = f"the data of {word} of '{output}'"
        if data is not None and _WHOLE_FILE.fullmatch(data.strip()):
            data = f"{data.strip()}:{output}"
        said = word if data is None else {word: _read(data, what, steps)}
        found.setdefault(output, []).append(said)
    return found


_LOSS = re.compile(r"(.+?):\s*(\w+)\s*(?:=(.*))?", re.DOTALL)


def _loss(text: str) -> tuple[str, str, str | None]:
    """The output, the word, and the text of its data."""
    if read := _LOSS.fullmatch(text.strip()):
        output, word, data = read[1].strip(), read[2], read[3]
        if word in (WORDS if data is None else WITH_DATA):
            return output, word, data
    raise InputError(
        f"--of '{text}' is not OUTPUT:WORD, or OUTPUT:WORD=DATA"[:200],
        hint=f"the words are {', '.join(WORDS)}, and with data {' and '.join(WITH_DATA)}: "
        "--of cell.V:mean, --of cell.V:sse=data.csv:V",
    )


def read_seed(text: str) -> int | str:
    """A seed; what is no whole number is left as it is."""
    return int(text) if _WHOLE.fullmatch(text.strip()) else text


def read_trials(text: str | None) -> Any:
    """How many trials, `first:end` of their numbers, or a list of these."""
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) == 2 and all(_WHOLE.fullmatch(part.strip()) for part in parts):
        return range(*map(int, parts))
    return parse_value(text, "--trials")


def read_over_trials(pairs: Iterable[str]) -> dict[str, list[Any]] | None:
    """The words for each name, with the numbers that belong to them."""
    example = "--over-trials ddm.rt=mean,quantiles:0.1:0.5:0.9"
    found: dict[str, list[Any]] = {}
    for pair in pairs:
        name, text = _split(pair, example)
        found[name] = [*found.get(name, ()), *map(_statistic, text.split(","))]
    return found or None


def _statistic(text: str) -> Any:
    word, *parts = (part.strip() for part in text.split(":"))
    if not parts:
        return word
    if word == "histogram" and len(parts) == 3:
        return {word: _range(parts, "the edges of a histogram")}
    return {word: [parse_value(part, f"{word} over trials") for part in parts]}


_WHOLE = re.compile(r"-?[0-9]{1,20}")


def _split(pair: str, example: str) -> tuple[str, str]:
    name, equals, text = pair.partition("=")
    if not equals or not name.strip():
        option = example.split()[0]
        raise InputError(f"{option} '{pair}' is not NAME=VALUE", hint=f"e.g. {example}")
    return name.strip(), text


def split_once(pairs: Iterable[str], example: str) -> list[tuple[str, str]]:
    """Names and texts; a name that is there twice is refused."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, text = _split(pair, example)
        if name in found:
            raise InputError(f"{example.split()[0]} has '{name}' twice", hint="give it once")
        found[name] = text
    return list(found.items())


def _range(parts: list[str], what: str) -> Any:
    """`first:last:number`: so many values from the first to the last, both included."""
    first, last, number = (parse_value(part, what) for part in parts)
    ends = all(isinstance(end, int | float) and np.isfinite(end) for end in (first, last))
    if not ends or isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(
            f"{what} is no range: {':'.join(parts)!r}"[:200],
            hint="write first:last:number, e.g. 0:1:5 for 0, 0.25, 0.5, 0.75, 1",
        )
    try:
        check(8 * number, what)
        return np.linspace(first, last, number)
    except (MemoryError, OverflowError, ValueError):
        raise InputError(f"{what} has too many values: {number}") from None


# --- values ------------------------------------------------------------------------------------

_FILE = re.compile(r"(.+?\.(?:csv|npz|json)):(.*)", re.IGNORECASE | re.DOTALL)

_WHOLE_FILE = re.compile(r"[^:]+\.(?:csv|npz|json)", re.IGNORECASE)


def _read(text: str, what: str, steps: int | None = None) -> Any:
    """A value that is written out, or one of a file."""
    named = _FILE.fullmatch(text.strip())
    if named is None:
        return parse_value(text, what)
    path, name = path_of(named[1], "the file of a value"), named[2]
    content = _read_file(path, steps)
    if name not in content:
        raise InputError(
            f"'{path.name}' has no '{name}'",
            hint=suggestion(name, content) or "it holds nothing",
        )
    return content[name]


_WORDS = {
    "true": True,
    "false": False,
    "nan": float("nan"),
    "inf": float("inf"),
    "infinity": float("inf"),
}


class _Words(ast.NodeTransformer):
    """JSON's and numpy's words for truth values, nan and infinity, in any case."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        word = node.id.lower()
        return ast.Constant(_WORDS[word]) if word in _WORDS else node


def parse_value(text: str, what: str) -> Any:
    """A number, truth value or (nested) list, written as JSON or Python does."""
    try:
        value = ast.literal_eval(_Words().visit(ast.parse(text.strip(), mode="eval")))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = None
    if not isinstance(value, bool | int | float | list | tuple):
        raise InputError(
            f"{what} is not a number or a list of numbers: {text.strip()[:60]!r}",
            hint="e.g. 3, 2.5, true, [1, 2, 3], [[1, 2], [3, 4]], or file.csv:column",
        )
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"{what} does not fit into 64 bits: {str(value)[:40]}")
    return value


# --- files -------------------------------------------------------------------------------------


def _read_file(path: Path, steps: int | None) -> Mapping[str, Any]:
    if not path.is_file():
        raise InputError(f"there is no file '{path}' with inputs")
    check(noted(path).stat().st_size, f"'{path.name}'"[:300])
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
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"'{path.name}' is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"'{path.name}' must hold one object: {{name: value, ...}}")
    return {name: _typed(name, value, path) for name, value in content.items()}


def _typed(name: str, value: Any, path: Path) -> Any:
    """A value of a JSON file: `{dtype, shape, data}`, `{sequence: [...]}`, or plain numbers."""
    if not isinstance(value, dict):
        return value
    if set(value) == {"sequence"} and isinstance(value["sequence"], list):
        return [_typed(name, member, path) for member in value["sequence"]]
    try:
        data = np.array(value["data"], dtype=numpy_dtype(value["dtype"]))
        return data.reshape(value.get("shape", data.shape))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the input '{name}' in '{path.name}' is not {{dtype, shape, data}}: {error}",
            hint="a sequence is written {sequence: [...]}, an absent optional value null",
        ) from None
