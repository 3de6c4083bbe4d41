"""Guards: of values of every type, in every scope, with the sentence and the place of the model."""

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
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from mdf_loop.passes.simplify.lazy_choices import lazy_choices
from mdf_loop.passes.simplify.merge_equal import merge_equal
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.sketch import Sketch, text
from tests.placements import STANDARD, written_for_cuda

WHERE = "$.graphs[0].nodes['A']"
SENTENCE = 'it\'s too large: "x" > 1'


def program(b: Builder, inputs: tuple[Value, ...], /, **outputs: Value) -> Program:
    made = tuple(starmap(Output, outputs.items()))
    program = Program("p", tuple(map(Input, inputs)), tuple(b.ops), made)
    assert not check(program)
    return program


def guarded(dtype: str, shape: tuple[int | str, ...] | None) -> Program:
    b = Builder()
    x, ok = b.new(dtype, shape, "x"), b.new("bool", (), "ok")
    with b.at(WHERE, "y"):
        made = b.guard(x, ok, SENTENCE)
    return program(b, (x, ok), y=made)


def on_runtime(made: Program, arrays: dict[str, Any]) -> dict[str, Any]:
    return Session(prepare(made, ONNXRUNTIME), STANDARD).run(arrays)


def for_cuda(made: Program, arrays: dict[str, Any]) -> dict[str, Any]:
    with written_for_cuda():
        return on_runtime(made, arrays)


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
def test_a_value_is_what_it_is_while_the_truth_holds(engine, array: np.ndarray) -> None:
    made = guarded(dtype_name(array), array.shape)
    y = engine(made, {"x": array, "ok": np.array(True)})["y"]
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
def test_else_the_run_fails_with_the_sentence(engine, dtype: str, x: Any) -> None:
    shape = None if "sequence" in dtype else x.shape
    made = guarded(dtype, shape)
    held = engine(made, {"x": x, "ok": np.array(True)})["y"]
    assert len(held) == len(x) if isinstance(x, list) else held.shape == x.shape
    with pytest.raises(RunError) as caught:
        engine(made, {"x": x, "ok": np.array(False)})
    (finding,) = caught.value.findings
    assert (finding.what, finding.where) == (SENTENCE, WHERE)


@pytest.mark.parametrize("recorded", [False, True])
def test_in_a_loop_it_fails_in_the_iteration_in_which_it_is_read(recorded: bool) -> None:
    s = Sketch()
    ok = s.body.op("Less", s.i, s.b.constant(np.array(3)))
    with s.body.at(WHERE):
        leave = s.body.op("Add", s.body.guard(s.x, ok, SENTENCE), s.a)
    loop = s.loop(leave, *([leave] if recorded else []))
    made = s.program(
        x=loop.carried[0].final, **{f"r{k}": r.stack for k, r in enumerate(loop.recorded)}
    )
    arrays = {"x0": np.zeros(2), "a": np.ones(2)}
    for engine in ENGINES:
        assert engine(made, {**arrays, "n": np.array(3)})["x"].tolist() == [3, 3]
        with pytest.raises(RunError, match="too large") as caught:
            engine(made, {**arrays, "n": np.array(4)})
        assert caught.value.findings[0].where == WHERE


def test_people_read_the_sentence_in_a_file() -> None:
    names = [node.name for node in to_onnx(guarded("float64", (2,))).graph.node]
    assert any(f"{WHERE} guard: {SENTENCE} Gather" in name for name in names)


# --- in passes ----------------------------------------------------------------------------------


def test_golden() -> None:
    assert text(guarded("float64", ("n",))) == [
        "program(%x: float64[n], %ok: bool[])",
        f'  %guard: float64[n] = %x if %ok else fail "{SENTENCE}"',
        "  output y = %guard",
    ]


def test_what_is_known_to_hold_needs_no_guard() -> None:
    b = Builder()
    x = b.new("float64", (), "x")
    assert b.guard(x, b.constant(np.array(True)), SENTENCE) is x
    assert b.guard(x, b.constant(np.array(False)), SENTENCE) is not x


def test_it_stays_in_its_loop_and_on_its_side() -> None:
    s = Sketch()
    ok = s.b.op("Less", s.b.op("ReduceMax", s.a, keepdims=0), s.b.constant(np.array(9.0)))
    held = s.body.guard(s.a, ok, SENTENCE)
    loop = s.loop(s.body.op("Add", s.x, s.body.op("Sqrt", held)))
    made = s.program(x=loop.carried[0].final)
    assert hoist_invariants(made) is made
    arrays = {"n": np.array(0), "x0": np.zeros(2), "a": np.array([1.0, 10.0])}
    assert on_runtime(made, arrays)["x"].tolist() == [0, 0]
    assert lazy_choices(made) is made


def test_equal_guards_are_one() -> None:
    b = Builder()
    x, ok = b.new("float64", (2,), "x"), b.new("bool", (), "ok")
    one, two = b.guard(x, ok, "first"), b.guard(x, ok, "second")
    made = merge_equal(program(b, (x, ok), y=b.op("Add", one, two)))
    assert [type(op) for op in made.ops] == [Guard, Op]
    assert made.ops[1].inputs == (one, one)  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [["x"], ["limit"], ["x", "limit"]])
def test_what_does_not_hold_for_one_member_fails_for_all(names: list[str]) -> None:
    b = Builder()
    x, limit = b.new("float64", (2,), "x"), b.new("float64", (), "limit")
    ok = b.op("Less", b.op("ReduceMax", x, keepdims=0), limit)
    made = program(b, (x, limit), y=b.op("Neg", b.guard(x, ok, SENTENCE)))
    many = batch(made, names)
    assert not check(many)
    given = {"x": np.array([0.5, 1.5]), "limit": np.array(2.0)}
    arrays = {k: np.stack([a, a * 0.95, a * 1.1]) if k in names else a for k, a in given.items()}
    y = on_runtime(many, arrays)["y"]
    assert y.shape == ((3, 2) if "x" in names else (2,))
    arrays[names[0]][1] *= 100 if names[0] == "x" else 0.1
    with pytest.raises(RunError, match="too large"):
        on_runtime(many, arrays)


def test_rules_for_guards() -> None:
    b = Builder()
    x, many = b.new("float64", (2,), "x"), b.new("bool", (2,), "many")
    wrong = Guard(x, many, Value("y", "float32", (2,)), SENTENCE, WHERE)
    found = check(Program("p", (Input(x), Input(many)), (wrong,), (Output("y", wrong.made),)))
    assert [finding.kind for finding in found] == ["ConditionError", "OperandError"]
