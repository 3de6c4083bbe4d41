"""`native="auto"` selects the faster form by the loop and its extents alone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import mdf_loop
from mdf_loop.ir import loops
from mdf_loop.native.cost import is_slower
from mdf_loop.native.loop_decisions import predict_forms
from mdf_loop.native.support import constants_in
from mdf_loop.pipeline import LOADED, ONNXRUNTIME, prepare

SLOWER_DECISION = "standard: ONNX Runtime's own kernels are faster for its arrays"
RNG = np.random.default_rng(4)


def source(shape: str, body: str, weights: dict[str, tuple[int, ...]], dtype: str = "float"):
    """Return an ONNX model of one loop whose body computes `w` from `v`."""
    onnx_type = f"{dtype}{shape}"
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        f (int64 n, {onnx_type} x) => ({onnx_type} y) {{
          t = Constant <value = bool {{1}}> ()
          y = Loop (n, t, x) <body = b (int64 i, bool c, {onnx_type} v) => (bool g, {onnx_type} w) {{
            g = Identity (c) {body} }}>
        }}""")
    numpy_dtype = np.float32 if dtype == "float" else np.float64
    for name, extents in weights.items():
        array = RNG.normal(size=extents).astype(numpy_dtype) if extents else np.array([[3]])
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def form_of(model) -> str:
    """Return the form of the only loop of a model for a long run, without running the model."""
    program = mdf_loop.compile(mdf_loop.from_onnx(model)).prepared.default_program(over_time=False)
    (form,) = predict_forms(prepare(prepare(program, ONNXRUNTIME), LOADED)).values()
    return form


CONVOLUTION = "a = Conv <pads = [1, 1, 1, 1]> (v, A) w = Tanh (a)"

KERNELS_ARE_FASTER = {
    "rows of a large cache": ("[512, 64]", "w = ScatterND (v, P, U)", {"P": (), "U": (1, 64)}),
    "convolution": ("[1, 8, 32, 32]", CONVOLUTION, {"A": (8, 8, 3, 3)}),
    "softmax": ("[64, 64]", "a = Softmax <axis = 1> (v) w = Add (a, v)", {}),
    "product and tanh": ("[128, 128]", "a = MatMul (v, A) w = Tanh (a)", {"A": (128, 128)}),
    "tanh": ("[8192]", "w = Tanh (v)", {}),
    "normalization": ("[64, 64]", "w = LayerNormalization (v, A)", {"A": (64,)}),
    "transposed": ("[256, 256]", "a = Transpose (v) w = Add (a, v)", {}),
    "places of the largest of rows": (
        "[512, 64]",
        "a = ArgMax <axis = 1> (v) f = Cast <to = 1> (a) w = Sub (v, f)",
        {},
    ),
}


@pytest.mark.parametrize("name", KERNELS_ARE_FASTER)
def test_loops_of_large_arrays_keep_the_kernels_of_the_runtime(name: str) -> None:
    assert form_of(source(*KERNELS_ARE_FASTER[name])) == SLOWER_DECISION


CODE_IS_FASTER = {
    "rows of a small cache": ("[64, 64]", "w = ScatterND (v, P, U)", {"P": (), "U": (1, 64)}),
    "small convolution": ("[1, 4, 8, 8]", CONVOLUTION, {"A": (4, 4, 3, 3)}),
    "small softmax": ("[16, 16]", "a = Softmax <axis = 1> (v) w = Add (a, v)", {}),
    "small product and tanh": ("[16, 16]", "a = MatMul (v, A) w = Tanh (a)", {"A": (16, 16)}),
    "arithmetic": ("[32768]", "a = Mul (v, A) w = Add (a, v)", {"A": (32768,)}),
    "largest of rows": ("[512, 64]", "a = ReduceMax <axes = [1]> (v) w = Sub (v, a)", {}),
    "sums of rows": ("[512, 64]", "a = ReduceMean <axes = [1]> (v) w = Sub (v, a)", {}),
    "sine": ("[8192]", "w = Sin (v)", {}),
    "choice": ("[4096]", "m = Less (v, A) w = Where (m, v, A)", {"A": (4096,)}),
    "a row times a matrix": ("[1, 256]", "w = MatMul (v, A)", {"A": (256, 256)}),
}


@pytest.mark.parametrize("name", CODE_IS_FASTER)
def test_loops_of_small_arrays_or_of_arithmetic_are_machine_code(name: str) -> None:
    assert form_of(source(*CODE_IS_FASTER[name])) == "native"


@pytest.mark.parametrize("name", ["softmax", "tanh", "normalization", "transposed"])
def test_functions_of_float64_are_machine_code(name: str) -> None:
    shape, body, weights = KERNELS_ARE_FASTER[name]
    assert form_of(source(shape, body, weights, "double")) == "native"


TANH_MODEL = source("[8192]", "w = Tanh (v)", {})


def test_a_loop_of_unknown_extents_is_native() -> None:
    compiled = mdf_loop.compile(mdf_loop.from_onnx(TANH_MODEL))
    member_arrays = np.zeros((2, 8192), np.float32)
    results = compiled.run({"n": 300}, sweep={"x": member_arrays})
    assert set(results.native.values()) == {"native"}


@pytest.mark.parametrize("iterations", [1, 300])
def test_the_form_does_not_depend_on_the_number_of_iterations(iterations: int) -> None:
    compiled = mdf_loop.compile(mdf_loop.from_onnx(TANH_MODEL))
    inputs = {"n": iterations, "x": np.zeros(8192, np.float32)}
    assert list(compiled.run(inputs).native.values()) == [SLOWER_DECISION]
    segmented_results = compiled.run(inputs, progress=lambda _: None)
    assert list(segmented_results.native.values()) == [SLOWER_DECISION]


def cells(dtype: str) -> dict[str, object]:
    """Return a model over time of 8192 decaying numbers."""
    parameters = {
        "x": {"default_initial_value": [1.0] * 8192, "time_derivative": "-numpy.tanh(x)"},
        "far": {"value": "x * 2"},
    }
    node = {"parameters": parameters, "output_ports": {"y": {"value": "x"}}}
    return {"g": {"nodes": {"A": node}, "edges": {}}}


@pytest.mark.parametrize(
    "words",
    [{}, {"every": 10}, {"steps": 3}, {"record": ["A.far"]}, {"reduce": {"A.y": "mean"}}],
    ids=str,
)
def test_the_form_of_a_model_over_time_does_not_depend_on_run_options(words) -> None:
    compiled = mdf_loop.compile(cells("float32"), precision="float32")
    results = compiled.run(**{"steps": 41, "dt": 0.1, **words})
    assert set(results.native.values()) == {SLOWER_DECISION}


def test_require_overrides_the_cost() -> None:
    compiled = mdf_loop.compile(mdf_loop.from_onnx(TANH_MODEL), native="require")
    inputs = {"n": 3, "x": np.full(8192, 0.5, np.float32)}
    assert list(compiled.run(inputs).native.values()) == ["native"]


@pytest.mark.parametrize("inner", [3, 3000])
def test_the_cost_of_an_inner_loop_counts_all_its_iterations(inner: int) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        f (int64 n, float[300] x) => (float[300] y) {{
          t = Constant <value = bool {{1}}> ()
          y = Loop (n, t, x) <body = b (int64 i, bool c, float[300] v)
              => (bool g, float[300] w) {{
            g = Identity (c)
            m = Constant <value_int = {inner}> ()
            w = Loop (m, c, v) <body = d (int64 j, bool e, float[300] p)
                => (bool h, float[300] q) {{ h = Identity (e) r = Tanh (p) q = Add (r, p) }}>
          }}>
        }}""")
    compiled = mdf_loop.compile(mdf_loop.from_onnx(model))
    program = prepare(compiled.prepared.default_program(over_time=False), ONNXRUNTIME)
    (loop,) = loops(program)
    assert not is_slower(loop, loop, constants_in(program))
