"""Batched programs compared with single runs, in the interpreter and in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from mdf_loop.ir import OutputRole, Program
from mdf_loop.ir.check import check
from mdf_loop.passes.batching.batch import batch
from mdf_loop.pipeline import LEGAL, ONNXRUNTIME, SIMPLIFY, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.members import move_members_first
from tests.ops.op_running import session_of

RUNS = 3
Arrays = Mapping[str, np.ndarray]
Engine = Callable[[Program, Arrays], dict[str, np.ndarray]]


def single_run_inputs(arrays: Arrays, names: Collection[str]) -> list[dict[str, np.ndarray]]:
    """Return the inputs of each single run."""
    return [{k: a[run] if k in names else a for k, a in arrays.items()} for run in range(RUNS)]


def on_runtime(program: Program, arrays: Arrays) -> dict[str, np.ndarray]:
    """Return the outputs of a program in ONNX Runtime."""
    names = [output.name for output in program.outputs]
    input_names = {entry.value.name for entry in program.inputs}
    feeds = {k: np.asarray(a) for k, a in arrays.items() if k in input_names}
    return dict(zip(names, session_of(program).run(names, feeds), strict=True))


def batched_outputs_of(engine: Engine, program: Program, arrays: Arrays) -> dict[str, np.ndarray]:
    """Return the outputs of a batched program, with the run axis in front."""
    return move_members_first(program, engine(program, arrays), RUNS)


def assert_same(
    program: Program,
    arrays: Arrays,
    names: Collection[str],
    *,
    exact: bool = False,
    interpreted: bool = True,
) -> Program:
    """Check that a batched run equals the single runs; `arrays` of `names` have the run axis in front."""
    many = batch(program, names)
    assert not check(many)
    shapes = {o.name: o.value.shape for o in many.outputs}
    if interpreted:
        after = prepare(program, SIMPLIFY)
        for before, batched in ((program, many), (after, batch(after, names))):
            _same_on(interpret, before, batched, arrays, names, exact)
    alone, together = prepare(program, LEGAL), prepare(many, ONNXRUNTIME)
    batched_outputs = _same_on(on_runtime, alone, together, arrays, names, exact)
    shared = {output.name for output in many.outputs if output.member_axis is None}
    for name, array in batched_outputs.items():
        assert shapes[name] is None or len(shapes[name]) + (name in shared) == array.ndim
    return many


def _same_on(
    engine: Engine,
    alone: Program,
    together: Program,
    arrays: Arrays,
    names: Collection[str],
    exact: bool,
) -> dict[str, np.ndarray]:
    parts = [engine(alone, feeds) for feeds in single_run_inputs(arrays, names)]
    batched_outputs = batched_outputs_of(engine, together, arrays)
    lengths = {
        name: batched_outputs.pop(length)
        for name, length in together.output_names(OutputRole.LENGTH).items()
    }
    for name, array in batched_outputs.items():
        if name in lengths:
            assert lengths[name].tolist() == [len(part[name]) for part in parts]
            assert array.shape[1] == max(lengths[name])
            array = np.concatenate([own[:k] for own, k in zip(array, lengths[name], strict=True)])
            expected = np.concatenate([part[name] for part in parts])
        else:
            expected = np.stack([part[name] for part in parts])
        assert array.dtype == expected.dtype
        if exact or array.dtype.kind not in "fc":
            np.testing.assert_array_equal(array, expected)
        else:
            assert array.shape == expected.shape
            np.testing.assert_allclose(array, expected, rtol=1e-12, atol=1e-14)
    return batched_outputs
