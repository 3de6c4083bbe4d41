"""The four forms of a program: interpreter, standard and native loops, and a saved file in plain ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

import mdf_loop
from mdf_loop.errors import LoopError, RunError
from mdf_loop.ir import Data, Program
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.pipeline import prepare
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.interpret import interpret
from tests.placements import NATIVE, kernels_checked

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Failure:
    """A failed form, with the error message."""

    reason: str


Outcome = Arrays | Failure


@dataclass(frozen=True)
class Forms:
    """Outputs of each form of a program, the program itself, and its native loops."""

    program: Program
    arrays: Mapping[str, Data]
    outcomes: dict[str, Outcome]
    native: dict[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """The package refuses the program before it runs."""


def all_forms(
    source: Any, inputs: Mapping[str, Any], *, shapes: str = "strict", checked: bool = False
) -> Forms:
    """Run a program in all four forms; `checked` enables bounds checks in native loops.

    Raises:
        RefusedError: the program is refused before it runs.
        RunError: ONNX Runtime does not load the program.
    """
    try:
        if isinstance(source, onnx.ModelProto):
            source = mdf_loop.from_onnx(source)
        compiled = mdf_loop.compile(source, native="off", shapes=shapes, device="cpu")
        arrays, program, _ = compiled.prepare(inputs)
    except RunError:
        raise
    except LoopError as error:
        raise RefusedError(error.report) from error
    words: dict[str, str] = {}
    program = eliminate_dead_code(program)  # an operation that nothing reads cannot fail
    outcomes = {
        "interpreter": outcome(lambda: interpret(program, arrays)),
        "standard": outcome(lambda: dict(compiled.run(inputs))),
        "native": outcome(lambda: _native(program, arrays, words, checked)),
        "file": outcome(lambda: in_plain_runtime(compiled.to_onnx(inputs, origin=False), arrays)),
    }
    return Forms(program, arrays, outcomes, words)


def outcome(compute: Callable[[], Mapping[str, Any]]) -> Outcome:
    """Return the outputs of a form, or its failure."""
    try:
        return {name: np.asarray(array) for name, array in compute().items()}
    except Exception as error:  # noqa: BLE001 - the runtime raises classes of its own
        text = f"{type(error).__name__}: {error}"
        return Failure(" ".join(text.split())[:600])


def _native(
    program: Program, arrays: Mapping[str, Data], words: dict[str, str], checked: bool
) -> Mapping[str, Data]:
    backend = PROGRAM_BACKENDS["onnxruntime"]
    with kernels_checked(checked):
        session = backend.load(prepare(program, backend.pass_order), NATIVE)
        words.update(session.native)
        return session.run(arrays)


def in_plain_runtime(file: onnx.ModelProto, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a file in plain ONNX Runtime; inputs with a default need no array."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        file.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {entry.name: arrays[entry.name] for entry in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    quiet = onnxruntime.RunOptions()
    quiet.log_severity_level = 4
    return dict(zip(names, session.run(names, feeds, quiet), strict=True))
