"""Options that several commands share, and how values on the command line are read."""

from __future__ import annotations

import ast
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mdf_loop.errors import InputError

_F = TypeVar("_F", bound=Callable[..., Any])

model_argument = click.argument("model", type=click.Path())


def input_options(command: _F) -> _F:
    """`--input name=value` and `--inputs file`."""
    command = click.option(
        "--inputs",
        "files",
        multiple=True,
        metavar="FILE",
        help="Read inputs by name from a .json or .npz file.",
    )(command)
    return click.option(
        "--input",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Give an input by port id (node.port where ambiguous), e.g. --input x='[1, 2.5]'.",
    )(command)


def device_option(command: _F) -> _F:
    """`--device`, for commands that run a model."""
    return click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")(
        command
    )


def compile_options(command: _F) -> _F:
    """What decides about the program that a model becomes."""
    for option in (
        click.option(
            "--max-iterations",
            type=int,
            help="The most iterations that a loop without a trip count may run.",
        ),
        click.option(
            "--shapes",
            default="strict",
            show_default=True,
            help="strict: carried values keep their shape; dynamic: they may change it.",
        ),
        click.option(
            "--precision", default="float64", show_default=True, help="float64 or float32."
        ),
    ):
        command = option(command)
    return command


def read_inputs(pairs: tuple[str, ...], files: tuple[str, ...]) -> dict[str, Any]:
    """Inputs by name: files first, single values override them."""
    inputs: dict[str, Any] = {}
    for name in files:
        inputs.update(_read_file(Path(name)))
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(
                f"--input '{pair}' is not NAME=VALUE", hint="e.g. --input x=3 or --input x='[1, 2]'"
            )
        inputs[name.strip()] = parse_value(text, name)
    return inputs


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


def parse_value(text: str, name: str) -> Any:
    """A number, truth value or (nested) list, written as JSON or Python does."""
    try:
        value = ast.literal_eval(_Words().visit(ast.parse(text.strip(), mode="eval")))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = None
    if not isinstance(value, bool | int | float | list | tuple):
        raise InputError(
            f"the input '{name}' is not a number or a list of numbers: {text.strip()[:60]!r}",
            hint="e.g. 3, 2.5, true, [1, 2, 3], [[1, 2], [3, 4]]",
        )
    return _in_range(value, name)


def _in_range(value: Any, name: str) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"the input '{name}' does not fit into 64 bits: {str(value)[:40]}")
    return value


def _read_file(path: Path) -> dict[str, Any]:
    import numpy as np

    if not path.is_file():
        raise InputError(f"there is no file '{path}' with inputs")
    match path.suffix.lower():
        case ".npz":
            try:
                with np.load(path, allow_pickle=False) as archive:
                    return dict(archive)
            except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
                raise InputError(f"'{path.name}' is not an npz file: {error}") from None
        case ".json":
            return _read_json(path)
        case _:
            raise InputError(f"'{path.name}' is neither .json nor .npz")


def _read_json(path: Path) -> dict[str, Any]:
    import numpy as np

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"'{path.name}' is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"'{path.name}' must hold one object: {{name: value, ...}}")
    inputs: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            try:
                data = np.array(value["data"], dtype=value["dtype"])
                inputs[name] = data.reshape(value.get("shape", data.shape))
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    f"the input '{name}' in '{path.name}' is not {{dtype, shape, data}}: {error}"
                ) from None
        else:
            inputs[name] = value
    return inputs
