"""Guards of values of every type and scope raise errors with their message and source location."""

from __future__ import annotations

from itertools import starmap
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.emit import to_onnx
from mdf_loop.errors import RunError
from mdf_loop.ir import Guard, Input, Op, Output, Program, Value
from mdf_loop.ir.check import check
from mdf_loop.ir.types import dtype_name
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from mdf_loop.passes.simplify.sink_into_branches import sink_into_branches
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.sketch import Sketch, text
from tests.placements import STANDARD, written_for_cuda

WHERE = "$.graphs[0].nodes['A']"
SENTENCE = 'it\'s too large: "x" > 1'


def program(b: Builder, inputs: tuple[Value, ...], /, **outputs: Value) -> Program:
    outputs_of_program = tuple(starmap(Output, outputs.items()))
    valid = Program("p", tuple(map(Input, inputs)), tuple(b.ops), outputs_of_program)
    assert not check(valid)
    return valid


def guarded(dtype: str, shape: tuple[int | str, ...] | None) -> Program:
    b = Builder()
    x, ok = b.new(dtype, shape, "x"), b.new("bool", (), "ok")
    with b.at(WHERE, "y"):
        checked = b.guard(x, ok, SENTENCE)
    return program(b, (x, ok), y=checked)


def on_runtime(guarded_program: Program, arrays: dict[str, Any]) -> dict[str, Any]:
    return Session(prepare(guarded_program, ONNXRUNTIME), STANDARD).run(arrays)


def for_cuda(guarded_program: Program, arrays: dict[str, Any]) -> dict[str, Any]:
    with written_for_cuda():
        return on_runtime(guarded_program, arrays)


ENGINES = [interpret, on_runtime, for_cuda]

ARRAYS = [
    np.array([0.0, -0.0, np.nan, -1.5]),
    np.array(-0.0, np.float32),
    np.array([1.5, -2.5], np.float16),
    np.array([1.5, -2.5], ml_dtypes.bfloat16),
    np.array([[1, -2]], np.int8),
    np.array([3, 4], np.uint16),
    np.array(2**62),
    np.array([True, False]),
    np.array(["a", ""], object),
    np.zeros((0, 3)),
]


@pytest.mark.parametrize("array", ARRAYS, ids=[f"{a.dtype}{list(a.shape)}" for a in ARRAYS])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_value_is_unchanged_while_the_condition_is_true(engine, array: np.ndarray) -> None:
    with_guard = guarded(dtype_name(array), array.shape)
    y = engine(with_guard, {"x": array, "ok": np.array(True)})["y"]
    assert (y.dtype, y.shape) == (array.dtype, array.shape)
    if array.dtype == object:
        assert y.tolist() == array.tolist()
    else:
        assert y.tobytes() == array.tobytes()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("dtype", "x"),
    [
        ("float64", np.zeros(2)),
        ("string", np.array(["a"], object)),
        ("bool", np.array(True)),
        ("sequence(float64)", [np.zeros(2)]),
        ("sequence(string)", [np.array(["a"], object)]),
    ],
)
def test_a_false_condition_fails_with_the_sentence(engine, dtype: str, x: Any) -> None:
    shape = None if "sequence" in dtype else x.shape
    with_guard = guarded(dtype, shape)
    y = engine(with_guard, {"x": x, "ok": np.array(True)})["y"]
    assert len(y) == len(x) if isinstance(x, list) else y.shape == x.shape
    with pytest.raises(RunError) as caught:
        engine(with_guard, {"x": x, "ok": np.array(False)})
    (finding,) = caught.value.findings
    assert (finding.what, finding.where) == (SENTENCE, WHERE)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_guard_in_a_loop_fails_in_the_iteration_that_reads_it(recorded: bool) -> None:
    s = Sketch()
    ok = s.body.op("Less", s.i, s.b.constant(np.array(3)))
    with s.body.at(WHERE):
        leave = s.body.op("Add", s.body.guard(s.x, ok, SENTENCE), s.a)
    loop = s.loop(leave, *([leave] if recorded else []))
    with_guard = s.program(
        x=loop.carried[0].final, **{f"r{k}": r.stack for k, r in enumerate(loop.recorded)}
    )
    arrays = {"x0": np.zeros(2), "a": np.ones(2)}
    for engine in ENGINES:
        assert engine(with_guard, {**arrays, "n": np.array(3)})["x"].tolist() == [3, 3]
        with pytest.raises(RunError, match="too large") as caught:
            engine(with_guard, {**arrays, "n": np.array(4)})
        assert caught.value.findings[0].where == WHERE


def test_a_file_contains_the_sentence_of_a_guard() -> None:
    names = [node.name for node in to_onnx(guarded("float64", (2,))).graph.node]
    assert any(f"{WHERE} guard: {SENTENCE} Gather" in name for name in names)


# --- in passes ----------------------------------------------------------------------------------


def test_the_text_of_a_program_with_a_guard() -> None:
    assert text(guarded("float64", ("n",))) == [
        "program(%x: float64[n], %ok: bool[])",
        f'  %guard: float64[n] = %x if %ok else fail "{SENTENCE}"',
        "  output y = %guard",
    ]


def test_a_constant_true_condition_needs_no_guard() -> None:
    b = Builder()
    x = b.new("float64", (), "x")
    assert b.guard(x, b.constant(np.array(True)), SENTENCE) is x
    assert b.guard(x, b.constant(np.array(False)), SENTENCE) is not x


def test_passes_keep_a_guard_in_its_loop_and_out_of_branches() -> None:
    s = Sketch()
    ok = s.b.op("Less", s.b.op("ReduceMax", s.a, keepdims=0), s.b.constant(np.array(9.0)))
    checked = s.body.guard(s.a, ok, SENTENCE)
    loop = s.loop(s.body.op("Add", s.x, s.body.op("Sqrt", checked)))
    with_guard = s.program(x=loop.carried[0].final)
    assert hoist_invariants(with_guard) is with_guard
    arrays = {"n": np.array(0), "x0": np.zeros(2), "a": np.array([1.0, 10.0])}
    assert on_runtime(with_guard, arrays)["x"].tolist() == [0, 0]
    assert sink_into_branches(with_guard) is with_guard


def test_equal_guards_are_merged() -> None:
    b = Builder()
    x, ok = b.new("float64", (2,), "x"), b.new("bool", (), "ok")
    first, second = b.guard(x, ok, "first"), b.guard(x, ok, "second")
    merged = eliminate_common_subexpressions(program(b, (x, ok), y=b.op("Add", first, second)))
    assert [type(op) for op in merged.ops] == [Guard, Op]
    assert merged.ops[1].inputs == (first, first)  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [["x"], ["limit"], ["x", "limit"]])
def test_a_false_condition_of_one_member_fails_for_all_members(names: list[str]) -> None:
    b = Builder()
    x, limit = b.new("float64", (2,), "x"), b.new("float64", (), "limit")
    ok = b.op("Less", b.op("ReduceMax", x, keepdims=0), limit)
    single = program(b, (x, limit), y=b.op("Neg", b.guard(x, ok, SENTENCE)))
    batched = batch(single, names)
    assert not check(batched)
    feeds = {"x": np.array([0.5, 1.5]), "limit": np.array(2.0)}
    arrays = {k: np.stack([a, a * 0.95, a * 1.1]) if k in names else a for k, a in feeds.items()}
    y = on_runtime(batched, arrays)["y"]
    assert y.shape == ((3, 2) if "x" in names else (2,))
    arrays[names[0]][1] *= 100 if names[0] == "x" else 0.1
    with pytest.raises(RunError, match="too large"):
        on_runtime(batched, arrays)


def test_a_guard_with_wrong_types_has_findings() -> None:
    b = Builder()
    x, vector = b.new("float64", (2,), "x"), b.new("bool", (2,), "vector")
    invalid = Guard(x, vector, Value("y", "float32", (2,)), SENTENCE, WHERE)
    findings = check(
        Program("p", (Input(x), Input(vector)), (invalid,), (Output("y", invalid.output),))
    )
    assert [finding.kind for finding in findings] == ["ConditionError", "OperandError"]
