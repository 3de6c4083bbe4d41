"""Models with a branch that is invalid only for some shapes are accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import mdf_loop
from mdf_loop.errors import (
    JoinError,
    OperandError,
    RunError,
    ScopeError,
    UnknownFunctionError,
    UnsupportedError,
)
from mdf_loop.ir import If, Op, walk
from tests.models.control import Graph, body, case, choose, give, model, refused, repeat

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.fixture
def run(run_everywhere):
    def one(source: Any, inputs: Any, **options: Any) -> Any:
        results = run_everywhere(source, inputs, **{"engine": False, **options})
        return next(iter(results.values())).tolist()

    return one


# --- ONNX files ---------------------------------------------------------------------------------


def onnx_model(signature: str, nodes: str) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({signature}) {{ {nodes} }}'
    return parser.parse_model(text)


def either(then: str, otherwise: str, x: str = "float[n, m]") -> onnx.ModelProto:
    """Return the file `y = then(x, axes) if c else otherwise(x, axes)` with the axes [1]."""
    return onnx_model(
        f"{x} x, bool c) => (float[k] y",
        "axes = Constant <value_ints = [1]> () "
        f"y = If (c) <then_branch = t () => (float[k] a) {{ a = {then} }}, "
        f"else_branch = e () => (float[k] b) {{ b = {otherwise} }}>",
    )


SQUEEZE, SUM = "Squeeze (x, axes)", "ReduceSum <keepdims = 0> (x, axes)"


def runtime(proto: onnx.ModelProto, feeds: dict[str, Any]) -> Any:
    """Return the first output of the model in plain ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return session.run(None, feeds)[0].tolist()


@pytest.mark.parametrize(("x", "c"), [(X, False), (X[:, :1], True), (X[:, :1], False)])
@pytest.mark.parametrize("has_rank", [True, False])
def test_the_numbers_are_those_of_plain_onnxruntime(run, x: Any, c: bool, has_rank: bool) -> None:
    proto = either(SQUEEZE, SUM)
    if not has_rank:
        proto.graph.input[0].type.tensor_type.ClearField("shape")
    feeds = {"x": x, "c": np.array(c)}
    assert run(mdf_loop.from_onnx(proto), feeds) == runtime(proto, feeds)


def test_the_branch_stands_on_either_side(run) -> None:
    m = mdf_loop.from_onnx(either(SUM, SQUEEZE))
    assert run(m, {"x": X, "c": True}) == [6, 15]


def test_a_run_that_takes_the_invalid_branch_fails_there() -> None:
    error = refused(mdf_loop.from_onnx(either(SQUEEZE, SUM)), RunError, x=X, c=True)
    assert "axis 1 has 3 elements and cannot be left out" in error.what
    assert error.where.endswith("args.then_branch.nodes['Squeeze_0'].functions['result']")


def test_other_axes_than_those_given(run) -> None:
    """Check axes that are invalid for two dimensions, with an unknown rank of x in the file."""
    proto = either("Squeeze (x, more)", SUM)
    proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["more"], value_ints=[2]))
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    assert run(mdf_loop.from_onnx(proto), {"x": X, "c": False}) == [6, 15]


def test_errors_for_every_input_are_refused() -> None:
    m = mdf_loop.from_onnx(either(SQUEEZE, SUM, "float[2, 3]"))
    error = refused(m, OperandError, x=X, c=False)
    assert error.what.endswith("Dimension of input 1 must be 1 instead of 3")
    m = mdf_loop.from_onnx(either("Squeeze (axes, axes)", SUM))
    assert "onnx::Squeeze cannot take" in refused(m, OperandError, x=X, c=False).what


def test_later_operations_use_the_common_shape(run) -> None:
    proto = either(SQUEEZE, SUM)
    proto.graph.node[-1].output[0] = "chosen"
    proto.graph.node.append(onnx.helper.make_node("Add", ["chosen", "chosen"], ["y"]))
    assert run(mdf_loop.from_onnx(proto), {"x": X, "c": False}) == [12, 30]


def test_a_shape_taken_outside_is_open_too(run) -> None:
    """Check captured extents of x that do not fit the branch."""
    proto = onnx_model(
        "float[n, m] x, bool c) => (float[k, l] y",
        """s = Shape (x)  w = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()
        y = If (c) <then_branch = t () => (float[k, l] a) { a = Expand (w, s) },
                    else_branch = e () => (float[k, l] b) { b = Neg (x) }>""",
    )
    assert run(mdf_loop.from_onnx(proto), {"x": X, "c": False}) == (-X).tolist()
    wide = np.ones((2, 4), np.float32)
    assert run(mdf_loop.from_onnx(proto), {"x": wide, "c": True}) == [[1, 2, 3, 4]] * 2


def test_the_file_that_is_saved_runs_either_way(tmp_path) -> None:
    compiled = mdf_loop.compile(mdf_loop.from_onnx(either(SQUEEZE, SUM)))
    proto = compiled.save(tmp_path / "m.onnx", {"x": X, "c": False})
    assert runtime(proto, {"x": X, "c": np.array(False)}) == [6, 15]


# --- choices that shapes decide -----------------------------------------------------------------

AS_TORCH = """s = Shape (x)  one = Constant <value_ints = [1]> ()
    count = Gather (s, one)  is_one = Equal (count, one)
    r = If (is_one) <then_branch = t () => (float[k] a) { a = Squeeze (x, one) },
                     else_branch = e () => (float[k, l] b) { b = Identity (x) }>
    y = Neg (r)"""


def test_a_choice_by_shapes_is_made_while_reading(run) -> None:
    m = mdf_loop.from_onnx(onnx_model("float[n, m] x) => (float[k] y", AS_TORCH))
    for x, expected in ((X, (-X).tolist()), (X[:, :1], [-1, -4])):
        program = mdf_loop.read(m, {"x": x})
        assert not any(isinstance(op, If) for op in walk(program.ops))
        assert program.outputs[0].value.shape == np.shape(expected)
        assert run(m, {"x": x}) == expected


def test_unknown_extents_keep_the_branch() -> None:
    m = mdf_loop.from_onnx(onnx_model("float[n, m] x) => (float[k] y", AS_TORCH))
    assert any(isinstance(op, If) for op in walk(mdf_loop.read(m).ops))


def test_known_parts_of_a_shape_are_folded() -> None:
    m = mdf_loop.from_onnx(onnx_model("float[n, 3] x) => (int64[k] y", "y = Shape <start = 1> (x)"))
    assert not [op for op in mdf_loop.read(m).ops if isinstance(op, Op) and op.op_type == "Shape"]


def test_numbers_made_of_extents_keep_their_bits() -> None:
    """Check that integers of shapes are folded, but functions with kernel-dependent rounding are not."""
    nodes = "s = Shape (x) t = Add (s, s) f = Cast <to = 11> (t) y = Exp (f)"
    m = mdf_loop.from_onnx(onnx_model("float[n, m] x) => (double[k] y", nodes))
    ops = [op for op in mdf_loop.read(m, {"x": X}).ops if isinstance(op, Op)]
    assert [op.op_type for op in ops] == ["Exp"]


def test_a_range_to_an_extent(run) -> None:
    nodes = """s = Shape <end = 1> (x)  zero = Constant <value = int64 {0}> ()
        one = Constant <value = int64 {1}> ()  y = Range (zero, s, one)"""
    m = mdf_loop.from_onnx(onnx_model("float[n, m] x) => (int64[k] y", nodes))
    assert run(m, {"x": X}) == [0, 1]


# --- MDF ----------------------------------------------------------------------------------------

V = [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "formula", ["x[5]", "numpy.sum(numpy.reshape(x, [2, 2]))", "numpy.dot(x, w)"]
)
def test_formulas_with_invalid_shapes_fail_only_when_taken(run, formula: str) -> None:
    m = model({"y": "choice"}, choice=choose("c", give(r=formula), give(r="x[0] + 0 * w[0]")))
    assert run(m, {"c": False, "x": V, "w": [1.0, 2.0]}) == 1
    with pytest.raises(RunError):
        mdf_loop.compile(m, device="cpu").run({"c": True, "x": V, "w": [1.0, 2.0]})


def test_the_engine_accepts_the_same_branches(run) -> None:
    m = model({"y": "choice"}, choice=choose("c", give(r="x[5]"), give(r="x[0]")))
    assert run(m, {"c": False, "x": np.array(V)}, engine=True) == 1


def test_one_of_many_branches(run) -> None:
    m = model({"y": "pick"}, pick=case("k", [give(r="x[7]"), give(r="x[1]"), give(r="x + w")], "x"))
    inputs = {"x": V, "w": [1.0, 2.0]}
    for k, expected in ((1, 2), (9, V)):
        assert run(m, {"k": k, **inputs}, shapes="dynamic") == expected


def test_a_result_of_open_shape_joins(run) -> None:
    """Check that `x + w`, invalid for two elements of w, does not constrain the shape of the other branch."""
    m = model({"y": "choice"}, choice=choose("c", give(r="x + w"), give(r="2 * x")))
    assert run(m, {"c": False, "x": V, "w": [1.0, 2.0]}) == [2, 4, 6]
    assert run(m, {"c": True, "x": V, "w": [1.0]}) == [2, 3, 4]


def test_two_valid_branches_must_have_a_common_type() -> None:
    m = model({"y": "outer"}, outer=choose("c", inner_of("x", "w"), give("x")))
    assert "Shape Join Failed" in refused(m, JoinError, c=False, d=True, x=V, w=[1.0, 2.0]).what


def inner_of(then: str, otherwise: str) -> Graph:
    return Graph({"r": "q"}, {"q": choose("d", give(r=then), give(r=otherwise))})


def test_the_innermost_branch_alone_is_open(run) -> None:
    m = model({"y": "outer"}, outer=choose("c", inner_of("x[5]", "x[1]"), give(r="x[0]")))
    assert run(m, {"c": True, "d": False, "x": V}) == 2
    assert run(m, {"c": False, "d": True, "x": V}) == 1
    program = mdf_loop.read(m, {"c": True, "d": False, "x": V})
    (outer,) = (op for op in program.ops if isinstance(op, If))
    assert [op.op_type for op in outer.otherwise.ops if isinstance(op, Op)] == ["Gather"]


def test_in_the_body_of_a_loop(run) -> None:
    step = body("i go s", {"go": "go", "r": "p"}, p=choose("c", give(r="s + w"), give(r="2 * s")))
    m = model({"y": "loop"}, loop=repeat(step, ["x"], M=3))
    assert run(m, {"c": False, "x": V, "w": [1.0, 2.0]}) == [8, 16, 24]


def test_a_loop_in_the_branch(run) -> None:
    step = body("i go s", {"go": "go", "r": "s + x[5]"})
    inner = Graph({"r": "loop"}, {"loop": repeat(step, ["x[0]"], M=2)})
    m = model({"y": "choice"}, choice=choose("c", inner, give(r="x[0]")))
    assert run(m, {"c": False, "x": V}) == 1
    assert run(m, {"c": True, "x": [*V, *V]}) == 7


STATED = model({"y": "choice"}, choice=choose("c", give(r="x[5]"), give(r="x[0]")))
STATED["graph"]["nodes"]["m"]["input_ports"]["x"] = {"shape": [-1]}


def test_over_time() -> None:
    results = mdf_loop.compile(STATED, device="cpu").run({"c": False, "x": V}, steps=3)
    assert results["m.y"].tolist() == [1, 1, 1]
    with pytest.raises(RunError, match="does not exist: the axis has positions"):
        mdf_loop.compile(STATED, device="cpu").run({"c": [False, True], "x": V}, steps=2)


def test_in_sweeps() -> None:
    compiled = mdf_loop.compile(STATED, device="cpu")
    rows = [V, [4.0, 5.0, 6.0]]
    assert compiled.run({"c": False}, sweep={"x": rows})["m.y"].tolist() == [1, 4]
    with pytest.raises(UnsupportedError, match="Slice cannot be computed for many values at once"):
        compiled.run({"x": V}, sweep={"c": [True, False]})


# --- what stays wrong ---------------------------------------------------------------------------


def test_errors_for_every_shape_are_reported_once() -> None:
    deep = Graph({"r": "x + nope"})
    for _ in range(6):
        deep = Graph({"r": "q"}, {"q": choose("d", deep, give("x"))})
    m = model({"y": "choice"}, choice=choose("c", deep, give("x")))
    del m["graph"]["nodes"]["m"]["input_ports"]["nope"]
    with pytest.raises(ScopeError) as caught:
        mdf_loop.read(m, {"c": True, "d": True, "x": V})
    assert len(caught.value.findings) == 1


def test_wrong_dtypes_and_names_are_still_refused() -> None:
    m = model({"y": "choice"}, choice=choose("c", give(r="x + text"), give(r="x")))
    error = refused(m, OperandError, c=False, x=V, text=["a"])
    assert error.what.startswith("text cannot take part in arithmetic")
    m = model({"y": "choice"}, choice=choose("c", give(r="numpy.nope(x)"), give(r="x")))
    with pytest.raises(UnknownFunctionError):
        mdf_loop.read(m, {"c": False, "x": V})


def test_a_note_names_the_invalid_branch() -> None:
    from mdf_loop.reading import read_annotated

    reading = read_annotated(STATED, {"c": False, "x": V})
    (note,) = reading.notes
    assert note.what.startswith(
        "the then branch of 'm.choice' does not fit these shapes: a run that takes it fails ("
    )
    assert "then_branch" in note.where
