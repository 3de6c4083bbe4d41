"""Counted loops that record run as Scans: which ones, with equal bits, from zero iterations on."""

from __future__ import annotations

import threading
import time

import numpy as np
import onnx
import onnxruntime
import pytest

from mdf_loop.build import Options
from mdf_loop.emit import to_onnx
from mdf_loop.emit.legalise import runnable
from mdf_loop.emit.scans import MOST, with_scans
from mdf_loop.errors import RunError
from mdf_loop.ir import Carried, Program
from mdf_loop.passes.in_pieces import in_pieces
from mdf_loop.run.session import Session
from tests.passes.sketch import Sketch


def model(program: Program) -> onnx.ModelProto:
    return to_onnx(runnable(program, Options()))


def op_types(graph: onnx.GraphProto) -> set[str]:
    """The operators of a graph and of its bodies."""
    found = {node.op_type for node in graph.node}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found |= op_types(attribute.g)
    return found


def run(proto: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)


def recording(**fields: object) -> Program:
    """x' = x + a * i, u' = x; x', u, u' and i are recorded: given twice, inputs, iteration."""
    s = Sketch()
    u = s.body.new("float64", (2,), "u")
    turn = s.body.op("Cast", s.i, to=11)
    leave = s.body.op("Add", s.x, s.body.op("Mul", s.a, turn))
    swap = Carried(s.a, u, s.x, s.b.new("float64", (2,), "u_final"))
    loop = s.loop(leave, leave, u, s.x, s.i, more=[swap], **fields)
    stacks = {f"r{k}": recorded.stack for k, recorded in enumerate(loop.recorded)}
    return s.program(x=loop.carried[0].final, u=loop.carried[1].final, count=loop.count, **stacks)


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 50])
def test_a_scan_gives_what_the_loop_gives(n: int) -> None:
    proto = model(recording())
    scanned = with_scans(proto)
    assert op_types(scanned.graph) >= {"Scan", "Loop", "If"}
    onnx.checker.check_model(scanned, full_check=True)
    arrays = {"n": np.array(n), "x0": np.array([0.1, -0.0]), "a": np.array([1 / 3, 0.7])}
    for left, right in zip(run(proto, arrays), run(scanned, arrays), strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize(("most", "done"), [(0, 4), (1, 0), (1, 9), (6, 9), (6, -9)])
def test_numbers_that_begin_later_cost_no_operation(most: int, done: int) -> None:
    pieces = in_pieces(runnable(recording(), Options()))
    assert pieces is not None
    proto = to_onnx(pieces[0].program)
    scanned = with_scans(proto)
    onnx.checker.check_model(scanned, full_check=True)
    (chosen,) = (node for node in scanned.graph.node if node.op_type == "If")
    (scan,) = (node for node in chosen.attribute[-1].g.node if node.op_type == "Scan")
    (body,) = (attribute.g for attribute in scan.attribute if attribute.name == "body")
    assert body.input[-1].name == "i"
    assert [node.op_type for node in body.node].count("Add") == 1
    state = {"x_before": np.array([0.1, -0.0]), "u_before": np.array([0.5, 2.0])}
    arrays = {"a": np.array([1 / 3, 0.7]), "most": np.array(most), "done": np.array(done), **state}
    for left, right in zip(run(proto, arrays), run(scanned, arrays), strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()


def test_a_condition_that_is_read_is_true() -> None:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    loop = s.loop(leave, leave, s.go_in, condition_out=s.go_in)
    program = s.program(rows=loop.recorded[0].stack, go=loop.recorded[1].stack)
    made = Session(runnable(program, Options()), "cpu").run(
        {"n": np.array(3), "x0": np.zeros(2), "a": np.ones(2)}
    )
    assert made["go"].tolist() == [True, True, True]


def test_more_iterations_than_memory_would_hold_are_a_loop() -> None:
    (choice,) = (node for node in with_scans(model(recording())).graph.node if node.op_type == "If")
    runs = {attribute.name: op_types(attribute.g) for attribute in choice.attribute}
    assert "Scan" in runs["then_branch"]
    assert "Loop" in runs["else_branch"]
    limits = [
        attribute.i
        for node in with_scans(model(recording())).graph.node
        for attribute in node.attribute
        if attribute.name == "value_int"
    ]
    assert limits == [0, MOST]


def test_the_model_that_was_given_is_not_changed() -> None:
    proto = model(recording())
    before = proto.SerializeToString(deterministic=True)
    with_scans(proto)
    assert proto.SerializeToString(deterministic=True) == before


def stops_early() -> Program:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    goes_on = s.body.op("Less", s.i, s.n)
    loop = s.loop(leave, leave, condition=s.true, condition_out=goes_on)
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
    kept = s.body.op("Add", s.x, s.a)
    loop = s.loop(kept, kept, more=[more], dynamic_shapes=True)
    return s.program(rows=loop.recorded[0].stack, wide=loop.carried[1].final)


@pytest.mark.parametrize("make", [stops_early, records_nothing, grows])
def test_other_loops_stay(make) -> None:
    proto = model(make())
    assert with_scans(proto) is proto


def test_a_scan_can_be_stopped() -> None:
    program = runnable(recording(), Options())
    session = onnxruntime.InferenceSession(
        with_scans(to_onnx(program)).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    settings = onnxruntime.RunOptions()
    settings.log_severity_level = 4
    stopping = threading.Timer(0.2, setattr, (settings, "terminate", True))
    arrays = {"n": np.array(MOST), "x0": np.zeros(2), "a": np.zeros(2)}
    stopping.start()
    start = time.perf_counter()
    with pytest.raises(Exception, match="terminate flag"):
        session.run(None, arrays, settings)
    assert time.perf_counter() - start < 2


def test_a_failure_in_a_scan_names_its_place() -> None:
    s = Sketch()
    with s.body.at("$.graphs[0].nodes['A']"):
        quotient = s.body.op("Cast", s.body.op("Div", s.i, s.i), to=11)
    loop = s.loop(s.body.op("Add", s.x, quotient), s.x, where="$.graphs[0]")
    program = runnable(s.program(rows=loop.recorded[0].stack), Options())
    arrays = {"n": np.array(3), "x0": np.zeros(2), "a": np.zeros(2)}
    with pytest.raises(RunError, match="a whole number was divided by zero") as caught:
        Session(program, "cpu").run(arrays)
    assert caught.value.findings[0].where == "$.graphs[0].nodes['A']"
