"""Reductions inside of loops: extremes propagate nan, and sums have one order, in every form.

A reduction counts as inside if a loop of the written model contains it. The loop may be unrolled or be one
evaluation of a run over time, the operand may be hoisted or constant, and members may be computed together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.ops.ordered_sum import ordered_sum
from tests.onnx_engines import all_engines
from tests.strategies.addresses import shifted

NAN = np.nan
X = np.array([[1.0, NAN, 0.0], [NAN, 3.0, -1.0], [4.0, 5.0, 5.0], [1.0, NAN, NAN]])
EXTREMES = ("ReduceMax", "ReduceMin", "ArgMax", "ArgMin")


def expected(word: str, x: np.ndarray) -> np.ndarray:
    function = {"ReduceMax": np.max, "ReduceMin": np.min, "ArgMax": np.argmax, "ArgMin": np.argmin}
    return np.asarray(function[word](x, axis=1))


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{text}')


def call(word: str, operand: str) -> str:
    """Return the text of `y = word(operand)` along axis 1, the last one."""
    if word.startswith("Arg"):
        return f"y = {word} <axis = 1, keepdims = 0> ({operand})"
    return (
        f"axes = Constant <value = int64[1] {{1}}> () y = {word} <keepdims = 0> ({operand}, axes)"
    )


def result(word: str, dtype: str = "double") -> str:
    return "int64" if word.startswith("Arg") else dtype


def in_loop(word: str, operand: str = "c2", trips: str = "{2}", dtype: str = "double") -> Any:
    """Return a loop that doubles its state, and reduces the state or a value that is equal in all iterations."""
    return parsed(f"""m ({dtype}[n,3] x) => ({dtype}[n,3] last, {result(word, dtype)}[t,n] ys) {{
        M = Constant <value = int64 {trips}> ()
        last, ys = Loop (M, "", x) <body = b (int64 i, bool go, {dtype}[n,3] c)
            => (bool more, {dtype}[n,3] c2, {result(word, dtype)}[n] y) {{
            more = Identity (go)
            two = Constant <value = {dtype} {{2.0}}> ()
            c2 = Mul (c, two)
            {call(word, operand)} }}> }}""")


def in_scan(word: str) -> Any:
    return parsed(f"""m (double[t,n,3] xs) => ({result(word)}[t,n] ys) {{
        ys = Scan <num_scan_inputs = 1, body = b (double[n,3] c) => ({result(word)}[n] y) {{
            {call(word, "c")} }}> (xs) }}""")


def in_sequence_map(reduced: str, dtype: str = "double") -> Any:
    """Return a map over a sequence of two equal arrays; the rank of its members is unknown."""
    return parsed(f"""m (double[n,k] x) => ({dtype}[n] y) {{
        s = SequenceConstruct (x, x)
        r = SequenceMap <body = b (double[n,k] c) => ({dtype}[n] y0) {{ {reduced} }}> (s)
        i = Constant <value = int64 {{1}}> ()
        y = SequenceAt (r, i) }}""")


def alone(word: str) -> Any:
    return parsed(f"m (double[n,3] x) => ({result(word)}[n] y) {{ {call(word, 'x')} }}")


# --- extremes -------------------------------------------------------------------------------------


@pytest.mark.native
@pytest.mark.parametrize("operand", ["c2", "x"])
@pytest.mark.parametrize("word", EXTREMES)
def test_extremes_propagate_nan_in_a_loop(word: str, operand: str) -> None:
    for results in all_engines(in_loop(word, operand), {"x": X}):
        first = X if operand == "x" else 2 * X
        np.testing.assert_array_equal(np.asarray(results["ys"])[0], expected(word, first))


@pytest.mark.native
@pytest.mark.parametrize("word", EXTREMES)
def test_operands_without_nan_have_the_extremes_of_numpy(word: str) -> None:
    """An `If` selects the runtime's kernel by the sum of the operand; opposite infinities have the sum nan."""
    finite = np.array([[1.0, 7.0, 7.0], [-1.0, -3.0, -3.0]])
    infinite = np.array([[np.inf, 1.0, -np.inf], [-np.inf, 2.0, np.inf]])
    for operand in (finite, infinite):
        for results in all_engines(in_loop(word), {"x": operand}):
            np.testing.assert_array_equal(results["ys"][0], expected(word, 2 * operand))


@pytest.mark.native
@pytest.mark.parametrize("word", EXTREMES)
def test_extremes_propagate_nan_in_a_scan_in_float32_and_unrolled(word: str) -> None:
    for results in all_engines(in_scan(word), {"xs": X[np.newaxis]}):
        np.testing.assert_array_equal(np.asarray(results["ys"])[0], expected(word, X))
    float32_values = {"x": X.astype(np.float32)}
    results = mdf_loop.compile(mdf_loop.from_onnx(in_loop(word, dtype="float")), unroll=4).run(
        float32_values
    )
    np.testing.assert_array_equal(results["ys"][1], expected(word, 4 * X))
    assert results["ys"].dtype == (np.int64 if word.startswith("Arg") else np.float32)


@pytest.mark.parametrize("word", EXTREMES)
def test_extremes_propagate_nan_in_a_map_over_a_sequence(word: str) -> None:
    reduced = call(word, "c").replace("y =", "y0 =")
    model = mdf_loop.from_onnx(in_sequence_map(reduced, result(word)))
    for engine in ("onnxruntime", "interpreter"):
        extremes = mdf_loop.compile(model).run({"x": X}, engine=engine)["y"]
        np.testing.assert_array_equal(extremes, expected(word, X))


@pytest.mark.parametrize("extent", [5, 40])
def test_sums_in_a_map_over_a_sequence_have_one_order(extent: int) -> None:
    reduced = "axes = Constant <value = int64[1] {-1}> () y0 = ReduceSum <keepdims = 0> (c, axes)"
    model = mdf_loop.from_onnx(in_sequence_map(reduced))
    x = np.random.default_rng(9).normal(size=(3, extent))
    expected_sums = ordered_sum(x, (1,), keepdims=False)
    for engine in ("onnxruntime", "interpreter"):
        sums = mdf_loop.compile(model).run({"x": x}, engine=engine)["y"]
        np.testing.assert_array_equal(sums, expected_sums)


@pytest.mark.parametrize("word", EXTREMES)
def test_extremes_propagate_nan_over_time_and_among_members(word: str) -> None:
    model = mdf_loop.from_onnx(alone(word))
    for native in ("off", "auto"):
        compiled = mdf_loop.compile(model, native=native)
        over_time = compiled.run({"x": np.stack([X, X, 2 * X])}, steps=3)["y"]
        np.testing.assert_array_equal(
            over_time, np.stack([expected(word, k * X) for k in (1, 1, 2)])
        )
        members = compiled.run(sweep={"x": np.stack([X, 3 * X])})["y"]
        np.testing.assert_array_equal(members, np.stack([expected(word, k * X) for k in (1, 3)]))


@pytest.mark.native
@pytest.mark.parametrize("word", EXTREMES)
def test_a_constant_is_reduced_like_a_computed_operand(word: str) -> None:
    model = in_loop(word, "k")
    model.graph.initializer.append(onnx.numpy_helper.from_array(X, "k"))
    for results in all_engines(model, {"x": X}):
        np.testing.assert_array_equal(np.asarray(results["ys"])[1], expected(word, X))


@pytest.mark.parametrize("word", EXTREMES)
def test_reductions_outside_of_loops_keep_the_kernel_of_the_runtime(word: str) -> None:
    model = alone(word)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    extremes = mdf_loop.compile(mdf_loop.from_onnx(model)).run({"x": X})["y"]
    np.testing.assert_array_equal(extremes, session.run(None, {"x": X})[0])
    program = str(mdf_loop.read(mdf_loop.from_onnx(model), {"x": X}))
    assert f"{word}(" in program


@pytest.mark.native
def test_select_last_index_finds_the_last_nan() -> None:
    row = np.array([[1.0, NAN, 7.0, NAN, 2.0, 7.0], [1.0, 7.0, 2.0, 7.0, 0.0, 0.0]])
    for word, places in [("ArgMax", [3, 3]), ("ArgMin", [3, 5])]:
        model = parsed(f"""m (double[2,6] x) => (double[2,6] last, int64[t,2] ys) {{
            M = Constant <value = int64 {{2}}> ()
            last, ys = Loop (M, "", x) <body = b (int64 i, bool go, double[2,6] c)
                => (bool more, double[2,6] c2, int64[2] y) {{
                more = Identity (go)
                c2 = Add (c, c)
                y = {word} <axis = 1, keepdims = 0, select_last_index = 1> (c2) }}> }}""")
        for results in all_engines(model, {"x": row}):
            np.testing.assert_array_equal(np.asarray(results["ys"])[0], places)


# --- sums -----------------------------------------------------------------------------------------

SUMS = {
    "numpy.sum(I)": 5,
    "numpy.mean(I)": 7,
    "numpy.std(I)": 11,
    "numpy.sum(I * x)": 17,
    "numpy.var(numpy.random.normal(0.0, 1.0, 19))": 1,
    "numpy.dot(I, I)": 5,
    "numpy.linalg.norm(I)": 33,
    "numpy.einsum('i->', I)": 21,
    "numpy.einsum('i,j->', I, I[:5])": 21,
    "numpy.sum(numpy.einsum('ij,j->j', numpy.reshape(I, (7, 3)), I[:3]))": 21,
    "numpy.sum(numpy.reshape(numpy.sum(numpy.reshape(I, (3, 7)), axis=1), (3,)))": 21,
}


def model_of(expression: str, extent: int) -> Any:
    node = {
        "input_ports": {"I": {"type": "float64", "shape": [extent]}},
        "parameters": {
            "x": {"default_initial_value": 0.1, "value": f"0.5 * x + 0.1 * {expression}"}
        },
        "output_ports": {"y": {"value": "x"}},
    }
    return {"w": {"graphs": {"w": {"nodes": {"cell": node}}}}}


@pytest.mark.parametrize("native", ["off", "auto"])
@pytest.mark.parametrize("expression", SUMS)
def test_chunks_of_a_run_have_equal_bits(expression: str, native: str, tmp_path: Path) -> None:
    extent, steps = SUMS[expression], 40
    rows = np.random.default_rng(1).normal(size=(steps, extent))
    compiled = mdf_loop.compile(model_of(expression, extent), native=native)
    unbroken_run = compiled.run({"I": rows}, steps=steps, seed=3)["y"]
    for by in range(1, 8):
        repeated = compiled.run({"I": shifted(rows, by)}, steps=steps, seed=3)["y"]
        np.testing.assert_array_equal(repeated, unbroken_run)
    for cut in (1, 3, 20):
        first = compiled.run({"I": rows[:cut]}, steps=cut, seed=3)
        feeds = {"I": shifted(rows[cut:], cut % 8)}
        second_part = compiled.run(feeds, steps=steps - cut, seed=3, state=first.state)
        np.testing.assert_array_equal(np.concatenate([first["y"], second_part["y"]]), unbroken_run)
    thinned = compiled.run({"I": rows}, steps=steps, seed=3, every=10)["y"]
    np.testing.assert_array_equal(thinned, unbroken_run[::10])
    streamed = compiled.run({"I": rows}, steps=steps, seed=3, output=tmp_path / "y.zarr")["y"]
    np.testing.assert_array_equal(streamed, unbroken_run)


@pytest.mark.native
@pytest.mark.parametrize(
    "expression", [each for each in SUMS if "dot" not in each and "einsum" not in each]
)
def test_every_engine_gives_the_same_sums(expression: str) -> None:
    extent, steps = SUMS[expression], 9
    feeds = {"I": np.random.default_rng(2).normal(size=(steps, extent))}
    model = model_of(expression, extent)
    sums = [
        mdf_loop.compile(model, native=native).run(feeds, steps=steps, engine=engine)["y"]
        for native, engine in [
            ("off", "onnxruntime"),
            ("require", "onnxruntime"),
            ("off", "interpreter"),
        ]
    ]
    for other in sums[1:]:
        np.testing.assert_array_equal(other, sums[0])


@pytest.mark.parametrize("expression", ["numpy.sum(I)", "numpy.mean(I)", "numpy.std(I)"])
def test_a_member_has_the_bits_of_a_single_run(expression: str) -> None:
    rows = np.random.default_rng(5).normal(size=(6, 21))
    for native in ("off", "auto"):
        compiled = mdf_loop.compile(model_of(expression, 21), native=native)
        members = compiled.run(sweep={"I": rows}, steps=7)["y"]
        for row, member in zip(rows, members, strict=True):
            np.testing.assert_array_equal(compiled.run({"I": row}, steps=7)["y"], member)


@pytest.mark.parametrize("extent", [5, 40])
@pytest.mark.parametrize(
    "word", ["ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"]
)
def test_sums_of_imported_graphs_over_time_have_one_order(word: str, extent: int) -> None:
    text = f"m (double[3,{extent}] x) => (double[3] y) {{ {call(word, 'x')} }}"
    model = mdf_loop.from_onnx(parsed(text))
    compiled = mdf_loop.compile(model, native="off")
    rows = np.random.default_rng(6).normal(size=(12, 3, extent))
    unbroken_run = compiled.run({"x": rows}, steps=12)["y"]
    for by in (1, 2, 3, 5):
        np.testing.assert_array_equal(
            compiled.run({"x": shifted(rows, by)}, steps=12)["y"], unbroken_run
        )
    first = compiled.run({"x": rows[:5]}, steps=5)
    second_part = compiled.run({"x": rows[5:]}, steps=7, state=first.state)
    np.testing.assert_array_equal(np.concatenate([first["y"], second_part["y"]]), unbroken_run)


def test_unrolling_changes_no_bit_of_a_sum() -> None:
    x = {"x": np.random.default_rng(7).normal(size=(4, 3))}
    for word in ("ReduceSum", "ReduceMean", "ReduceL2"):
        model = mdf_loop.from_onnx(in_loop(word))
        sums = [
            mdf_loop.compile(model, native="off", unroll=unroll).run(x)["ys"]
            for unroll in (None, 4)
        ]
        np.testing.assert_array_equal(*sums)


def test_one_evaluation_of_an_imported_graph_keeps_the_kernels() -> None:
    for word in ("ReduceSum", "ReduceMean", "ReduceL1"):
        model = parsed(f"m (double[3,5] x) => (double[3] y) {{ {call(word, 'x')} }}")
        program = str(mdf_loop.read(mdf_loop.from_onnx(model), {"x": np.ones((3, 5))}))
        assert f"{word}(" in program


def test_computed_axes_keep_the_operator() -> None:
    model = parsed("""m (double[2,3] x, int64[1] a) => (double[2,3] last, double[t,k] ys) {
        M = Constant <value = int64 {2}> ()
        last, ys = Loop (M, "", x) <body = b (int64 i, bool go, double[2,3] c)
            => (bool more, double[2,3] c2, double[k] y) {
            more = Identity (go)
            c2 = Add (c, c)
            y = ReduceSum <keepdims = 0> (c2, a) }> }""")
    feeds = {"x": np.arange(6.0).reshape(2, 3), "a": np.array([0])}
    sums = mdf_loop.compile(mdf_loop.from_onnx(model), native="off").run(feeds)["ys"]
    np.testing.assert_array_equal(sums[0], [6.0, 10.0, 14.0])
