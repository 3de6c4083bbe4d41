"""Conversion of every opset to the package's opset, checked by ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, helper, numpy_helper, parser

from mdf_loop.errors import LoopError, UnsupportedError
from mdf_loop.importing.opsets import convert_to_package_opset
from mdf_loop.importing.opsets.table import DOWNGRADES, EXPANSION_CONDITIONS, UPGRADES
from mdf_loop.ir import OPSET
from tests.importing.opset_models import is_close, model, results, run_converted
from tests.onnx_cases import node_cases
from tests.soak import some

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
B2 = np.array([10.0, 20.0], dtype=np.float32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7


def softmax(x: Any, axes: tuple[int, ...]) -> Any:
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    return e / e.sum(axis=axes, keepdims=True)


XY = "float[2,3] x => float[2,3] y"
OLD: list[tuple[int, str, str, tuple[Any, ...], Any]] = [
    (1, XY, "y = Abs <consumed_inputs=[0]> (x)", (X,), abs(X)),
    (6, "float[2,3] x, float[2] b => float[2,3] y", "y = Add <axis=0, broadcast=1> (x, b)",
     (X, B2), X + B2[:, None]),
    (6, "float[2,3] x, float[3] b => float[2,3] y", "y = Mul <broadcast=1> (x, b)",
     (X, X[0]), X * X[0]),
    (6, "float[2,3] x, float[2] b => bool[2,3] y", "y = Less <axis=0, broadcast=1> (x, b)",
     (X, B2), B2[:, None] > X),
    (6, "float[2,3,4] x, float[3] s => float[2,3,4] y", "y = PRelu(x, s)",
     (CUBE - 1, X[1]), np.where(CUBE < 1, (CUBE - 1) * X[1][None, :, None], CUBE - 1)),
    (1, "float[2,3] x => int64[2,3] y", 'y = Cast <to="int64"> (x)', (X,), X.astype(np.int64)),
    (1, "float[2,3] x => float[3,2] y", "y = Reshape <shape=[3, 2]> (x)", (X,), X.reshape(3, 2)),
    (1, "float[2,3] x => float[2,6] y", "y = Concat(x, x)", (X,), np.hstack([X, X])),
    (1, XY, "y = Clip <max=1.0> (x)", (X,), np.minimum(X, 1)),
    (6, XY, "y = Clip <min=0.0> (x)", (np.where(X > 2, np.inf, X),),
     np.clip(np.where(X > 2, np.inf, X), 0, np.finfo(np.float32).max)),
    (1, XY, "y = Selu(x)", (X,), 1.0507 * np.where(X > 0, X, 1.6732 * (np.exp(X) - 1))),
    (1, "float[2,3] x => float[4,3] y", 'y = Pad <paddings=[1,0,1,0], value=2.0> (x)', (X,),
     np.pad(X, ((1, 1), (0, 0)), constant_values=2)),
    (2, "float[2,3] x => float[2,4] y", 'y = Pad <pads=[0,0,0,1], mode="edge"> (x)', (X,),
     np.pad(X, ((0, 0), (0, 1)), mode="edge")),
    (9, "float[2,3] x => float[2,1] y", "y = Slice <starts=[-1], ends=[99], axes=[1]> (x)", (X,),
     X[:, -1:]),
    (9, "float[2,3] x => float[2,2] y, int64[2,2] i", "y, i = TopK <k=2> (x)", (X,),
     [X[:, ::-1][:, :2], np.array([[2, 1]] * 2)]),
    (9, "float[2,3] x, int64[1,3] i, float[1,3] u => float[2,3] y", "y = Scatter(x, i, u)",
     (X, np.array([[1, 0, 1]]), np.full((1, 3), 9, np.float32)),
     np.array([[-2, 9, 0], [9, 2, 9]], np.float32)),
    (10, "float[1,1,1,4] x => float[1,1,1,2] y",
     "s = Constant <value = float[4] {1.0,1.0,1.0,0.5}> () y = Resize(x, s)",
     (CUBE[:1, None, :1],), CUBE[:1, None, :1, ::2]),
    (10, "float[1,1,1,3] x => float[1,1,1,6] y",
     's = Constant <value = float[4] {1.0,1.0,1.0,2.0}> () y = Resize <mode="linear"> (x, s)',
     (X[:1, None, None],), np.array([-2, -1.5, -1, -0.5, 0, 0]).reshape(1, 1, 1, 6)),
    (1, "float[1,1,1,2] x => float[1,1,2,4] y",
     "y = Upsample <height_scale=2.0, width_scale=2.0> (x)", (X[:1, None, None, :2],),
     X[:1, None, None, :2].repeat(2, 2).repeat(2, 3)),
    (7, "float[1,1,1,2] x => float[1,1,2,4] y", "y = Upsample <scales=[1.0,1.0,2.0,2.0]> (x)",
     (X[:1, None, None, :2],), X[:1, None, None, :2].repeat(2, 2).repeat(2, 3)),
    (12, "float[2,3,4] x => float[2,3,4] y", "y = Softmax(x)", (CUBE,), softmax(CUBE, (1, 2))),
    (12, "float[2,3,4] x => float[2,3,4] y", "y = LogSoftmax <axis=2> (x)", (CUBE,),
     np.log(softmax(CUBE, (2,)))),
    (11, "float[1,2,3] x => float[2,3] y", "y = Squeeze <axes=[0]> (x)", (X[None],), X),
    (11, "float[2,3] x => float[2,1,3] y", "y = Unsqueeze <axes=[1]> (x)", (X,), X[:, None]),
    (11, "float[2,3] x => float[2] y", "y = ReduceSum <axes=[1], keepdims=0> (x)", (X,), X.sum(1)),
    (11, "float[2,3] x => float[2,1] y, float[2,2] z", "y, z = Split <axis=1, split=[1,2]> (x)",
     (X,), [X[:, :1], X[:, 1:]]),
    (1, "float[4,3] x => float[1,3] y, float[3,3] z",
     "s = Constant <value = float[2] {1.0, 3.0}> ()  y, z = Split <axis=0> (x, s)",
     (np.vstack([X, X]),), [X[:1], np.vstack([X[1:], X])]),
    (1, "float[2,3] x => float[4,3] y",
     "n = Constant <value = float {2.0}> ()  a = Constant <value = float {0.0}> () "
     "y = Tile(x, n, a)", (X,), np.vstack([X, X])),
    (10, XY, "y = Dropout <ratio=0.3> (x)", (X,), X),
    (6, XY, "y = Dropout <is_test=1> (x)", (X,), X),
    (6, "float[2,3] x, float[3] s, float[3] b, float[3] m, float[3] v => float[2,3] y",
     "y = BatchNormalization <is_test=1> (x, s, b, m, v)",
     (X, X[1], X[0], X[0], X[1] + 1), X[1] * (X - X[0]) / np.sqrt(X[1] + 1 + 1e-5) + X[0]),
    (1, "float[1,1,3] x => float[1,1,1] y", "y = GlobalLpPool <p=1.0> (x)", (X[None, :1],),
     np.abs(X[:1]).sum().reshape(1, 1, 1)),
    (6, "float[2,3] a, float[3,2] b, float[2] c => float[2,2] y",
     "y = Gemm <broadcast=1> (a, b, c)", (X, X.T, B2), X @ X.T + B2),
]  # fmt: skip
"""opset, signature, nodes, inputs, expected: what changed on the way from old opsets to ours."""


@pytest.mark.parametrize("case", OLD, ids=lambda case: f"{case[2].split('(')[0].strip()}-{case[0]}")
def test_old_forms(case: tuple[int, str, str, tuple[Any, ...], Any]) -> None:
    version, signature, body, inputs, expected = case
    actual = run_converted(version, signature, body, *inputs)
    expected = expected if isinstance(expected, list) else [expected]
    dtypes = [np.asarray(g).dtype for g in actual]
    assert is_close(
        actual, [np.asarray(w).astype(d) for w, d in zip(expected, dtypes, strict=True)]
    )


WORDS = np.array(["a", "b", "a"], dtype=object)
INTS = np.array([[5, -7, 0], [-(2**31), 2**31 - 1, 12]], dtype=np.int32)
NEW: list[tuple[int, str, str, tuple[Any, ...], Any]] = [
    (18, "float[2,5] x => float[2,3] y, float[2,2] z",
     "y, z = Split <axis=1, num_outputs=2> (x)", (CUBE[0, :2].repeat(2, 1)[:, :5],), None),
    (18, "float[n,2] x => y, z", "y, z = Split <num_outputs=2> (x)",
     (X.reshape(3, 2),), [X.reshape(3, 2)[:2], X.reshape(3, 2)[2:]]),
    (20, "float[2,3] x => float[3] y",
     "a = Constant <value_ints=[0]> ()  y = ReduceMax <keepdims=0> (x, a)", (X,), X.max(0)),
    (20, "float[2,3] x, int64[1] a => float[3] y", "y = ReduceMean <keepdims=0> (x, a)",
     (X, np.array([0])), X.mean(0)),
    (20, "float[2,3] x, int64[1] a => float[3] y", "y = ReduceL2 <keepdims=0> (x, a)",
     (X, np.array([0])), np.sqrt((X * X).sum(0))),
    (20, XY, "y = ReduceProd <noop_with_empty_axes=1> (x)", (X,), X),
    (20, XY, "y = ReduceSumSquare <noop_with_empty_axes=1> (x)", (X,), X * X),
    (20, "bool[3] x => bool y", "y = ReduceMax <keepdims=0> (x)",
     (np.array([False, True, False]),), np.array(True)),
    (19, "string[3] x, string[1] z => bool[3] y", "y = Equal(x, z)",
     (WORDS, WORDS[:1]), np.array([True, False, True])),
    (18, "int32[2,3] x, int32[3] z => int32[2,3] y", "y = BitwiseAnd(x, z)", (INTS, INTS[0]),
     INTS & INTS[0]),
    (18, "int64[2,3] x, int64[3] z => int64[2,3] y", "y = BitwiseXor(x, z)",
     (INTS.astype(np.int64) * 2**31 + 5, INTS[0].astype(np.int64)), None),
    (18, "uint64[2] x, uint64[2] z => uint64[2] y", "y = BitwiseOr(x, z)",
     (np.array([2**64 - 1, 2**63], np.uint64), np.array([1, 2**63 + 1], np.uint64)),
     np.array([2**64 - 1, 2**63 + 1], np.uint64)),
    (18, "uint8[3] x => uint8[3] y", "y = BitwiseNot(x)", (np.array([0, 255, 7], np.uint8),),
     np.array([255, 0, 248], np.uint8)),
    (18, "float[2,3] x => float[3,3] y",
     "p = Constant <value_ints=[1, 0]> () a = Constant <value_ints=[-2]> () "
     "y = Pad(x, p, , a)", (X,), np.pad(X, ((1, 0), (0, 0)))),
    (19, "float[2,3] x, int64[4] p => y", 'y = Pad <mode="wrap"> (x, p)',
     (X, np.array([1, -1, 0, 2])), np.pad(X, ((1, 0), (0, 0)), mode="wrap")[:, [1, 2, 0, 1]]),
    (18, "float[2,3] x => float[2,6] y",
     "s = Constant <value_ints=[6]> () y = Resize <axes=[1]> (x, , , s)", (X,), X.repeat(2, 1)),
    (26, "float[2,3] x => float[2,3] y",
     "a = Constant <value = int64 {1}> () y = CumProd <reverse=1> (x, a)", (X,),
     np.cumprod(X[:, ::-1], 1)[:, ::-1]),
    (26, "float[2,3] x => float[2,3] y",
     "a = Constant <value = int64 {0}> () y = CumProd <exclusive=1> (x, a)", (X,),
     np.vstack([np.ones((1, 3), np.float32), X[:1]])),
    (20, "float[1,4,1] x => float[1,4,2] y", "y = DFT(x)", (CUBE[:1, 0, :, None],),
     np.stack([f(np.fft.fft(CUBE[:1, 0])) for f in (np.real, np.imag)], -1).astype(np.float32)),
    (18, XY, "y = OptionalGetElement(x)", (X,), X),
    (18, "float[2,3] x => bool y", "y = OptionalHasElement(x)", (X,), np.array(True)),
    (24, "float[2,3] x => float[2,3] y", "y = Swish(x)", (X,), X / (1 + np.exp(-X))),
    (23, XY, "s = Constant <value_floats=[1.0,2.0,3.0]> () y = RMSNormalization(x, s)", (X,),
     X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-5) * np.array([1, 2, 3], np.float32)),
]  # fmt: skip
"""opset, signature, nodes, inputs, expected (None: what ONNX Runtime gives at that opset)."""


@pytest.mark.parametrize("case", NEW, ids=lambda case: f"{case[2].split(' = ')[-1][:24]}-{case[0]}")
def test_new_forms(case: tuple[int, str, str, tuple[Any, ...], Any]) -> None:
    version, signature, body, inputs, expected = case
    actual = run_converted(version, signature.replace("=> y, z", "=> float[m,2] y, float[k,2] z").replace(
        "p => y", "p => float[m,k] y"), body, *inputs)  # fmt: skip
    expected = results(model(version, signature, body), *inputs) if expected is None else expected
    assert is_close(actual, expected if isinstance(expected, list) else [expected])


CONTROL = {"Loop", "If", "Scan", "SequenceMap"}
SAMPLE = (
    "test_gelu_tanh_1", "test_gelu_default_2_expanded", "test_mish", "test_swish",
    "test_group_normalization_example", "test_group_normalization_epsilon",
    "test_rms_normalization_4d_axis1", "test_rotary_embedding_3d_input",
    "test_attention_4d_causal", "test_attention_local_window", "test_attention_3d_gqa_softcap",
    "test_affine_grid_3d", "test_center_crop_pad_crop_and_pad", "test_reduce_l1_keep_dims_example",  "test_gridsample_bicubic", "test_resize_downsample_scales_cubic",
    "test_resize_upsample_sizes_nearest_axes_2_3", "test_split_2d_uneven_split_opset18",
    "test_quantizelinear_axis", "test_dequantizelinear", "test_tensorscatter",
    "test_tensorscatter_circular", "test_wrap_pad", "test_roialign_mode_max",
    "test_optional_has_element_empty_no_input_name_optional_input",     "test_spacetodepth", "test_upsample_nearest", "test_softmax_axis_0", "test_range_float16_type_positive_delta",
    "test_equal_string_broadcast", "test_causal_conv_with_state_basic", "test_swiglu",
)  # fmt: skip


def agrees(case: Any) -> bool | None:
    """Return True if the converted model gives the expected outputs, None without a kernel."""
    inputs, outputs = case.data_sets[0]
    converted = convert_to_package_opset(case.model)
    try:
        actual = results(converted, *inputs)
    except Exception:  # noqa: BLE001 - a kernel that ONNX Runtime does not have
        return None
    expected = [numpy_helper.to_array(o) if isinstance(o, onnx.TensorProto) else o for o in outputs]
    return is_close(actual, expected, max(case.rtol, 1e-3), max(case.atol, 1e-5))


def owns_control(case: Any) -> bool:
    return any(node.op_type in CONTROL for node in _all_nodes(case.model.graph))


def _all_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    nodes = list(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                nodes.extend(_all_nodes(attribute.g))
    return nodes


@pytest.mark.slow
def test_onnx_tests_of_control_flow() -> None:
    cases = {name: case for name, case in node_cases().items() if owns_control(case)}
    assert len(cases) >= 44
    verdicts = {name: agrees(case) for name, case in cases.items()}
    unreadable = {name for name, verdict in verdicts.items() if verdict is None}
    assert all(verdict is not False for verdict in verdicts.values())
    assert all("bfloat16" in name or "bf16" in name for name in unreadable)


@pytest.mark.parametrize("name", SAMPLE)
def test_onnx_tests_of_every_translation(name: str) -> None:
    assert agrees(node_cases()[name])


@pytest.mark.slow
@pytest.mark.soak
def test_all_onnx_tests() -> None:
    agreed, wrong = 0, []
    every = node_cases().items()
    cases = some(every, 4)
    for name, case in cases:
        if any(o.version == OPSET for o in case.model.opset_import):
            continue
        try:
            verdict = agrees(case)
        except LoopError:
            continue
        agreed += verdict is True
        if verdict is False and not same_untranslated(case):
            wrong.append(name)
    assert agreed > 1300 * len(cases) / len(every)
    assert not [name for name in wrong if "bernoulli" not in name]


def same_untranslated(case: Any) -> bool:
    """Return True if ONNX Runtime gives equal outputs for the unconverted model."""
    inputs, _ = case.data_sets[0]
    actual = results(convert_to_package_opset(case.model), *inputs)
    try:
        return is_close(actual, results(case.model, *inputs), 1e-6, 1e-7)
    except Exception:  # noqa: BLE001
        return False


def test_every_operator_change_is_in_the_table() -> None:
    missing = [
        (before.name, now.since_version)
        for before, now in neighbours()
        if not _only_grew(before, now) and (before.name, now.since_version) not in UPGRADES
    ]
    assert not missing


def neighbours() -> list[tuple[Any, Any]]:
    """Return consecutive definitions of each operator up to the package's opset."""
    history: dict[str, list[Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain and schema.since_version <= OPSET:
            history.setdefault(schema.name, []).append(schema)
    ordered = [sorted(schemas, key=lambda s: s.since_version) for schemas in history.values()]
    return [pair for schemas in ordered for pair in itertools.pairwise(schemas)]


def _only_grew(before: Any, now: Any) -> bool:
    if now.deprecated or now.max_input < before.max_input or now.min_input > before.min_input:
        return False
    for name, formal in before.attributes.items():
        later = now.attributes.get(name)
        if later is None or later.default_value != formal.default_value:
            return False
    added = now.attributes.keys() - before.attributes.keys()
    return not any(now.attributes[name].required for name in added)


def test_the_tables_contain_only_real_changes() -> None:
    for op_type, version in (*UPGRADES, *DOWNGRADES, *EXPANSION_CONDITIONS):
        assert defs.get_schema(op_type, version, "").since_version == version or (
            defs.get_schema(op_type, version, "").deprecated
        )


FUNCTION = """
<ir_version: 8, opset_import: ["" : {version}, "own" : 1]>
g (float[2,3] x) => (float[2,3] y) {{ [call] y = own.Twice <by=3.0> (x) }}
<opset_import: ["" : {inner}, "own" : 1], domain: "own">
Twice <by> (a) => (b) {{
  c = Constant <value_float: float = @by> ()
  s = own.Halved (a)
  b = Mul(s, c)
}}
<opset_import: ["" : {inner}], domain: "own">
Halved (a) => (b) {{
  r = Softmax <axis=0> (a)
  b = Add(a, r)
}}
"""


@pytest.mark.parametrize(("version", "inner"), [(17, 17), (20, 20), (20, 17), (12, 17), (17, 12)])
def test_functions_of_the_file(version: int, inner: int) -> None:
    converted = convert_to_package_opset(
        parser.parse_model(FUNCTION.format(version=version, inner=inner))
    )
    assert not converted.functions
    axes = (0, 1) if inner == 12 else (0,)
    assert is_close(results(converted, X), [3 * (X + softmax(X, axes))])
    assert any(name.startswith("call_") for node in converted.graph.node for name in node.output)


BODY = """
<ir_version: 8, opset_import: ["" : {version}]>
g (int64 n, float[2,3] x) => (float[2,3] y, float[k,2] rows) {{
  c = Constant <value = bool {{1}}> ()
  y, rows = Loop (n, c, x) <body = body (int64 i, bool go, float[2,3] v) =>
     (bool go_on, float[2,3] w, float[2] row) {{
       go_on = Identity(go)
       w = {update}
       row = {row}
     }}>
}}
"""


@pytest.mark.parametrize(
    ("version", "update", "row"),
    [
        (11, "Add(v, x)", "ReduceSum <axes=[1], keepdims=0> (v)"),
        (12, "Softmax <axis=0> (v)", "ReduceMean <axes=[1], keepdims=0> (v)"),
        (20, 'Gelu <approximate="tanh"> (v)', "ReduceSumSquare <keepdims=0> (v, axes)"),
    ],
)
def test_bodies_are_translated_too(version: int, update: str, row: str) -> None:
    text = BODY.format(version=version, update=update, row=row)
    text = text.replace("go_on =", "axes = Constant <value_ints=[1]> () go_on =", version == 20)
    converted = convert_to_package_opset(parser.parse_model(text))
    expected = results(parser.parse_model(text), np.array(3), X)
    assert is_close(results(converted, np.array(3), X), expected, 1e-6, 1e-6)


def test_scan_of_opset_8_has_a_batch() -> None:
    text = """<ir_version: 3, opset_import: ["" : 8]>
    g (float[2,3] s, float[2,4,3] x) => (float[2,3] last, float[2,4,3] all) {
      last, all = Scan ("", s, x) <num_scan_inputs = 1, directions = [1],
        body = body (float[3] a, float[3] b) => (float[3] c, float[3] d)
          { c = Add(a, b) d = Identity(c) }>
    }"""
    proto = parser.parse_model(text.replace('("", s', "(, s"))
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    backward = np.cumsum(x[:, ::-1], axis=1)
    actual = results(convert_to_package_opset(proto), X, x)
    sums = backward + X[:, None]
    assert is_close(actual, [sums[:, -1], sums])


KEPT = [
    (18, "float[1,1,4] x => float[1,1,2] y", "y = LpPool <kernel_shape=[2], dilations=[2]> (x)"),
    (19, "float[1,1,4] x => float[1,1,2] y",
     "y = AveragePool <kernel_shape=[2], dilations=[2]> (x)"),
    (20, "string[2] x => string[2] y", "y = StringConcat(x, x)"),
    (20, "float[2,3] x, int64[1] a => float[2,1] y", "y = ReduceMax(x, a)"),
    (18, "float[3] x, int64[1] i, float[1] u => float[3] y",
     'y = ScatterElements <reduction="max"> (x, i, u)'),
    (20, "float[1,1,2,2,2] x, float[1,1,1,1,3] i => float[1,1,1,1,1] y", "y = GridSample(x, i)"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "signature", "body"), KEPT, ids=lambda case: str(case)[:24])
def test_operators_of_newer_opsets_are_unchanged(version: int, signature: str, body: str) -> None:
    proto = model(version, signature, body)
    converted = convert_to_package_opset(proto)
    assert list(converted.graph.node) == list(proto.graph.node)


REFUSED = [
    (23, XY, "s = Constant <value_float=0.5> () y = QuantizeLinear <precision=11> (x, s)",
     "QuantizeLinear of opset 23: precision is new in opset 23"),
    (6, XY, "y = Dropout(x)", "Dropout of opset 6: it is in training mode"),
    (7, "float[2,3] x => float[2,3] y, float[2,3] m", "y, m = Dropout(x)", "the mask is used"),
    (17, XY, "y = other.Thing(x)", "operator 'Thing' of the domain 'other' cannot be imported"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "signature", "body", "sentence"), REFUSED)
def test_inconvertible_operators_are_refused_by_name(
    version: int, signature: str, body: str, sentence: str
) -> None:
    with pytest.raises(UnsupportedError) as error:
        convert_to_package_opset(model(version, signature, body, ', "other" : 1'))
    assert sentence in str(error.value)
    assert "$.graph.node['" in str(error.value)


def test_unknown_opsets_are_refused() -> None:
    proto = model(17, XY, "y = Abs(x)")
    proto.opset_import[0].version = 99
    with pytest.raises(UnsupportedError, match="the model speaks opset 99"):
        convert_to_package_opset(proto)


def test_the_given_model_stays_and_unused_domains_go() -> None:
    proto = model(20, XY, "y = Gelu(x)", ', "ai.onnx.ml" : 3')
    content_before = proto.SerializeToString()
    converted = convert_to_package_opset(proto)
    assert proto.SerializeToString() == content_before
    assert [(o.domain, o.version) for o in converted.opset_import] == [("", OPSET)]


def test_the_long_name_of_onnx_is_its_own_domain() -> None:
    node = helper.make_node("Abs", ["x"], ["y"], domain="ai.onnx")
    proto = model(17, XY, "y = Neg(x)")
    proto.graph.node[0].CopyFrom(node)
    proto.opset_import[0].domain = "ai.onnx"
    assert is_close(results(convert_to_package_opset(proto), X), [abs(X)])


def test_large_weights_come_through_unchanged() -> None:
    weights = np.random.default_rng(1).normal(size=(200, 200)).astype(np.float32)
    proto = model(20, "float[200] x => float[200] y", "t = MatMul(w, x) y = Gelu(t)")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    converted = convert_to_package_opset(proto)
    assert np.array_equal(onnx.numpy_helper.to_array(converted.graph.initializer[0]), weights)
    assert not converted.graph.initializer[0].doc_string


LEARNED = [
    ("float[2,3] x, int64[2] i => float[2,2] y", "y = ai.onnx.ml.ArrayFeatureExtractor(x, i)",
     (X, np.array([2, 0])), X[:, [2, 0]]),
    ("float[3] x, int64[2] i => float[1,2] y", "y = ai.onnx.ml.ArrayFeatureExtractor(x, i)",
     (X[0], np.array([2, 0])), X[:1, [2, 0]]),
    ("float[2,3] x => float[2,3] y", "y = ai.onnx.ml.Binarizer <threshold=0.5> (x)",
     (X,), (X > 0.5).astype(np.float32)),
    ("int64[3] x => float[3] y",
     "y = ai.onnx.ml.LabelEncoder <keys_int64s=[3,5], values_floats=[0.5,1.5], default_float=9.0> (x)",
     (np.array([5, 4, 3]),), np.array([1.5, 9, 0.5], np.float32)),
]  # fmt: skip


@pytest.mark.parametrize(("signature", "body", "inputs", "expected"), LEARNED)
def test_machine_learning_operators_are_converted(
    signature: str, body: str, inputs: tuple[Any, ...], expected: Any
) -> None:
    converted = convert_to_package_opset(model(17, signature, body, ', "ai.onnx.ml" : 4'))
    assert is_close(results(converted, *inputs), [expected])


def test_a_mask_of_an_old_dropout_that_nobody_reads_is_left_out() -> None:
    converted = convert_to_package_opset(
        model(7, "float[2,3] x => float[2,3] y", "y, m = Dropout(x)")
    )
    (node,) = (node for node in converted.graph.node if node.op_type == "Dropout")
    assert list(node.output) == ["y"]
