"""Counted loops that record run as Scans with equal bits, for any number of iterations."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import onnxruntime
import pytest

from mdf_loop.emit import SessionModel, to_onnx
from mdf_loop.emit.scan_node import MAX_SCAN_ITERATIONS
from mdf_loop.errors import RunError
from mdf_loop.ir import Carried, Program, Scanned
from mdf_loop.passes.segments.split_into_segments import split_into_segments
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.sketch import Sketch
from tests.placements import STANDARD


def plain(program: Program) -> onnx.ModelProto:
    return to_onnx(prepare(program, ONNXRUNTIME))


def for_cpu(program: Program) -> onnx.ModelProto:
    return SessionModel(prepare(program, ONNXRUNTIME)).for_cpu


def op_types(graph: onnx.GraphProto) -> set[str]:
    """Return the operators of a graph and of its bodies."""
    names = {node.op_type for node in graph.node}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                names |= op_types(attribute.g)
    return names


def run(proto: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)


def recording(**fields: object) -> Program:
    """Return the loop x' = x + a * i, u' = x that records x', u, u' and i.

    The body returns values twice, inputs of the body and the iteration number.
    """
    s = Sketch()
    u = s.body.new("float64", (2,), "u")
    iteration = s.body.op("Cast", s.i, to=11)
    leave = s.body.op("Add", s.x, s.body.op("Mul", s.a, iteration))
    swap = Carried(s.a, u, s.x, s.b.new("float64", (2,), "u_final"))
    loop = s.loop(leave, leave, u, s.x, s.i, more=[swap], **fields)
    stacks = {f"r{k}": recorded.stack for k, recorded in enumerate(loop.recorded)}
    return s.program(
        x=loop.carried[0].final, u=loop.carried[1].final, count=loop.iteration_count, **stacks
    )


def check_same_bits(program: Program, **arrays: object) -> None:
    """Check that the Loop and the If between Scan and Loop compute the same bits."""
    scanned = for_cpu(program)
    onnx.checker.check_model(scanned, full_check=True)
    feeds = {name: np.asarray(array) for name, array in arrays.items()}
    for left, right in zip(run(plain(program), feeds), run(scanned, feeds), strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 50])
def test_a_scan_computes_the_bits_of_the_loop(n: int) -> None:
    program = recording()
    assert op_types(for_cpu(program).graph) >= {"Scan", "Loop", "If"}
    check_same_bits(program, n=n, x0=[0.1, -0.0], a=[1 / 3, 0.7])


def the_scan(proto: onnx.ModelProto) -> tuple[onnx.NodeProto, onnx.GraphProto]:
    """Return the Scan of a model, and its body."""
    (choice,) = (node for node in proto.graph.node if node.op_type == "If")
    branch = onnx.helper.get_node_attr_value(choice, "then_branch")
    (scan,) = (node for node in branch.node if node.op_type == "Scan")
    return scan, onnx.helper.get_node_attr_value(scan, "body")


@pytest.mark.parametrize(("most", "done"), [(0, 4), (1, 0), (1, 9), (6, 9), (6, -9)])
def test_iteration_numbers_with_an_offset_need_no_operation(most: int, done: int) -> None:
    pieces = split_into_segments(prepare(recording(), ONNXRUNTIME))
    assert pieces is not None
    program = pieces[0].program
    _, body = the_scan(SessionModel(program).for_cpu)
    assert body.input[-1].name == "i"
    assert [node.op_type for node in body.node].count("Add") == 1
    state = {"x_before": [0.1, -0.0], "u_before": [0.5, 2.0]}
    check_same_bits(program, a=[1 / 3, 0.7], most=most, done=done, **state)


# --- scanned rows ----------------------------------------------------------------------------


def scanning(
    axis: int = 0, backward: bool = False, shape: tuple[int | str, ...] = ("t", 2)
) -> Program:
    """Return the loop x' = tanh(x + row), which records x' and the row."""
    s = Sketch()
    rows = s.b.new("float64", shape, "rows")
    row = s.body.new("float64", (*shape[:axis], *shape[axis + 1 :]), "row")
    leave = s.body.op("Tanh", s.body.op("Add", s.x, row))
    loop = s.loop(leave, leave, row, scanned=(Scanned(rows, row, axis, backward),))
    outputs = {"x": loop.carried[0].final, "trace": loop.recorded[0].stack}
    program = s.program(rows, **outputs, rows_again=loop.recorded[1].stack)
    return program


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("n", [-1, 0, 1, 7, 9])
def test_rows_are_scanned_with_equal_bits(axis: int, backward: bool, n: int) -> None:
    shape = ("t", 2) if axis == 0 else (2, "t")
    program = scanning(axis, backward, shape)
    rows = np.random.default_rng(1).standard_normal((9, 2) if axis == 0 else (2, 9))
    arrays = {"n": np.array(n), "x0": np.array([0.1, -0.0]), "rows": rows, "a": np.zeros(2)}
    check_same_bits(program, **arrays)
    outputs = Session(prepare(program, ONNXRUNTIME), STANDARD).run(arrays)
    expected = interpret(program, arrays)
    np.testing.assert_array_equal(outputs["rows_again"], expected["rows_again"])
    np.testing.assert_allclose(outputs["trace"], expected["trace"], rtol=1e-12)


def test_unaligned_rows_have_the_bits_of_a_loop() -> None:
    program = scanning(shape=("t", 2))
    rows = np.random.default_rng(2).standard_normal(203)[1:].reshape(101, 2)
    check_same_bits(program, n=101, x0=[0.3, 0.4], rows=rows, a=[0.0, 0.0])


def test_unread_iteration_numbers_are_no_input_of_the_scan() -> None:
    scan, body = the_scan(SessionModel(scanning(1, backward=True, shape=(2, "t"))).for_cpu)
    settings = {a.name: onnx.helper.get_attribute_value(a) for a in scan.attribute}
    assert settings["num_scan_inputs"] == 1
    assert settings["scan_input_axes"] == [1]
    assert settings["scan_input_directions"] == [1]
    assert "Gather" not in op_types(body)


def test_rows_for_exactly_all_iterations_are_read_without_a_copy() -> None:
    s = Sketch()
    rows, row = s.b.new("float64", (4, 2), "rows"), s.body.new("float64", (2,), "row")
    leave = s.body.op("Add", s.x, row)
    four = s.b.constant(np.array(4))
    loop = s.loop(leave, leave, trip_count=four, scanned=(Scanned(rows, row),))
    scan, _ = the_scan(for_cpu(s.program(rows, trace=loop.recorded[0].stack)))
    assert scan.input[-1] == "rows"


@pytest.mark.parametrize("backward", [False, True])
def test_a_missing_row_fails_like_an_index_out_of_range(backward: bool) -> None:
    program = prepare(scanning(backward=backward), ONNXRUNTIME)
    arrays = {"n": np.array(4), "x0": np.zeros(2), "rows": np.zeros((3, 2)), "a": np.zeros(2)}
    with pytest.raises(
        RunError, match=r"position -?\d does not exist: the axis has positions -3 to 2"
    ):
        Session(program, STANDARD).run(arrays)


# --- loops that become a Scan --------------------------------------------------------------------------------


def test_the_condition_that_a_body_reads_is_true() -> None:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    loop = s.loop(leave, leave, s.go_in, condition_out=s.go_in)
    program = s.program(rows=loop.recorded[0].stack, go=loop.recorded[1].stack)
    outputs = Session(prepare(program, ONNXRUNTIME), STANDARD).run(
        {"n": np.array(3), "x0": np.zeros(2), "a": np.ones(2)}
    )
    assert outputs["go"].tolist() == [True, True, True]


def test_more_iterations_than_the_limit_of_a_scan_run_as_a_loop() -> None:
    proto = for_cpu(recording())
    (choice,) = (node for node in proto.graph.node if node.op_type == "If")
    runs = {attribute.name: op_types(attribute.g) for attribute in choice.attribute}
    assert "Scan" in runs["then_branch"]
    assert "Loop" in runs["else_branch"]
    constants = [onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer]
    assert MAX_SCAN_ITERATIONS in [array.item() for array in constants if array.ndim == 0]


def test_files_and_other_providers_contain_no_scan() -> None:
    program = prepare(recording(), ONNXRUNTIME)
    assert "Scan" not in op_types(to_onnx(program).graph)
    assert "Scan" not in op_types(SessionModel(program).model_for_cuda().graph)


def stops_early() -> Program:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    condition = s.body.op("Less", s.i, s.n)
    loop = s.loop(leave, leave, condition=s.true, condition_out=condition)
    return s.program(rows=loop.recorded[0].stack)


def records_nothing() -> Program:
    s = Sketch()
    loop = s.loop(s.body.op("Add", s.x, s.a))
    return s.program(x=loop.carried[0].final)


def grows() -> Program:
    s = Sketch()
    wide = s.body.new("float64", ("k",), "wide")
    leave = s.body.op("Concat", wide, s.a, axis=0)
    more = Carried(s.x0, wide, leave, s.b.new("float64", ("m",), "wide_final"))
    leave_x = s.body.op("Add", s.x, s.a)
    loop = s.loop(leave_x, leave_x, more=[more], has_dynamic_shapes=True)
    return s.program(rows=loop.recorded[0].stack, wide=loop.carried[1].final)


@pytest.mark.parametrize("make", [stops_early, records_nothing, grows])
def test_other_loops_are_not_scans(make) -> None:
    assert op_types(for_cpu(make()).graph).isdisjoint({"Scan", "If"})


def test_a_scan_can_be_stopped() -> None:
    program = prepare(recording(), ONNXRUNTIME)
    session = onnxruntime.InferenceSession(
        SessionModel(program).for_cpu.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    settings = onnxruntime.RunOptions()
    settings.log_severity_level = 4
    stopping = threading.Timer(0.2, setattr, (settings, "terminate", True))
    arrays = {"n": np.array(MAX_SCAN_ITERATIONS), "x0": np.zeros(2), "a": np.zeros(2)}
    stopping.start()
    with pytest.raises(Exception, match="terminate flag"):
        session.run(None, arrays, settings)


def test_a_failure_in_a_scan_names_its_place() -> None:
    s = Sketch()
    with s.body.at("$.graphs[0].nodes['A']"):
        quotient = s.body.op("Cast", s.body.op("Div", s.i, s.i), to=11)
    loop = s.loop(s.body.op("Add", s.x, quotient), s.x, where="$.graphs[0]")
    program = prepare(s.program(rows=loop.recorded[0].stack), ONNXRUNTIME)
    arrays = {"n": np.array(3), "x0": np.zeros(2), "a": np.zeros(2)}
    with pytest.raises(RunError, match="a whole number was divided by zero") as caught:
        Session(program, STANDARD).run(arrays)
    assert caught.value.findings[0].where == "$.graphs[0].nodes['A']"
