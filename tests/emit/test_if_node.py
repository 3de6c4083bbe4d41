"""`If` -> ONNX If: a node of the branch computes each output of a branch, under a unique name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from mdf_loop.emit import to_onnx
from mdf_loop.ir import Branch, If, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.onnxruntime.session import Session
from tests.models.choices import choices, everywhere, program, repeat
from tests.placements import STANDARD


def program_inputs(b: ModelBuilder) -> tuple[Value, Value]:
    return b.new("bool", (), "go"), b.new("float64", (2,), "x")


def branches(model: onnx.ModelProto) -> dict[str, onnx.GraphProto]:
    (node,) = [node for node in model.graph.node if node.op_type == "If"]
    return {attribute.name: attribute.g for attribute in node.attribute}


def nodes(graph: onnx.GraphProto) -> list[tuple[str, str]]:
    return [(node.op_type, node.input[0]) for node in graph.node]


def test_a_branch_returns_outer_values_constants_and_repeated_values_as_copies() -> None:
    b = ModelBuilder()
    go, x = program_inputs(b)
    two = b.constant(np.array([2.0, 2.0]))

    def then(b: ModelBuilder) -> list[Value]:
        negative = b.op("Neg", x)
        return [negative, negative, x]

    outputs = choose(b, go, then, lambda b: [x, two, two], "y")
    p = program(b, (go, x), **{f"y{k}": value for k, value in enumerate(outputs)})
    graphs = branches(to_onnx(p))
    assert nodes(graphs["then_branch"]) == [("Neg", "x"), ("Identity", "Neg"), ("Identity", "x")]
    assert [op_type for op_type, _ in nodes(graphs["else_branch"])] == ["Identity"] * 3
    for graph in graphs.values():
        assert list(graph.input) == []
        names = [output.name for output in graph.output]
        assert len(set(names)) == 3
        assert set(names) <= {name for node in graph.node for name in node.output}
    assert everywhere(p, go=True, x=[1.0, 2.0])["y1"].tolist() == [-1, -2]
    assert everywhere(p, go=False, x=[1.0, 2.0])["y1"].tolist() == [2, 2]


def test_each_branch_declares_its_shape_and_the_node_the_common_extents() -> None:
    b = ModelBuilder()
    go, x = program_inputs(b)
    longer = b.op("Concat", x, x, axis=0)
    (y,) = choose(b, go, lambda b: [b.op("Neg", x)], lambda b: [b.op("Neg", longer)], "y")
    model = to_onnx(program(b, (go, x), y=y))

    def extents(value: onnx.ValueInfoProto) -> list[int | str]:
        dims = value.type.tensor_type.shape.dim
        return [dim.dim_param or dim.dim_value for dim in dims]

    graphs = branches(model)
    assert extents(graphs["then_branch"].output[0]) == [2]
    assert extents(graphs["else_branch"].output[0]) == [4]
    assert extents(model.graph.output[0]) == ["d"]


def test_the_node_is_named_after_its_place_and_its_value_after_the_output() -> None:
    b = ModelBuilder()
    go, x = program_inputs(b)
    with b.at("$.graphs[0].nodes['A']"):
        (y,) = choose(b, go, lambda b: [b.op("Neg", x)], lambda b: [x], "made")
    model = to_onnx(program(b, (go, x), **{"A.y": y}))
    (node,) = [node for node in model.graph.node if node.op_type == "If"]
    assert node.name.startswith("$.graphs[0].nodes['A'] If")
    assert list(node.output) == ["A.y"]


def test_an_if_without_outputs_is_omitted() -> None:
    b = ModelBuilder()
    go, x = program_inputs(b)
    b.append(If("nothing", go, Branch((), ()), Branch((), ()), ()))
    p = program(b, (go, x), y=b.op("Neg", x))
    assert [node.op_type for node in to_onnx(p).graph.node] == ["Neg"]
    assert everywhere(p, go=True, x=[1.0, 2.0])["y"].tolist() == [-1, -2]


def test_one_value_is_an_output_of_a_branch_and_of_the_program() -> None:
    b = ModelBuilder()
    go, x = program_inputs(b)
    outer = b.op("Abs", x)
    (y,) = choose(b, go, lambda b: [outer], lambda b: [x], "y")
    p = program(b, (go, x), outer=outer, y=y, again=y)
    arrays = everywhere(p, go=True, x=[-1.0, 2.0])
    assert [array.tolist() for array in arrays.values()] == [[1, 2]] * 3


def test_the_runtime_may_replace_an_if_with_a_constant_condition() -> None:
    """Check both branches: ONNX Runtime replaces an If with a constant condition by one branch."""
    for go in (True, False):
        b = ModelBuilder()
        x = b.new("float64", (2,), "x")

        def add_x(b: ModelBuilder, i: Value, values: Sequence[Value], x: Value = x) -> list[Value]:
            return [b.op("Add", values[0], x)]

        outputs = []
        for _ in range(2):
            then, otherwise = b.body(), b.body()
            negative, doubled = then.op("Neg", x), otherwise.op("Add", x, x)
            final, _ = repeat(otherwise, 2, [doubled], add_x)
            y = b.new("float64", (2,), "y")
            then_branch = Branch(tuple(then.ops), (negative,))
            else_branch = Branch(tuple(otherwise.ops), tuple(final))
            b.append(If("c", b.constant(np.array(go)), then_branch, else_branch, (y,)))
            outputs.append(y)
        p = program(b, (x,), one=outputs[0], two=outputs[1])
        expected = [-1, -2] if go else [4, 8]
        assert [a.tolist() for a in everywhere(p, x=[1.0, 2.0]).values()] == [expected] * 2


def test_operations_without_a_kernel_are_decomposed_in_their_branch() -> None:
    b = ModelBuilder()
    go, x = program_inputs(b)
    (y,) = choose(b, go, lambda b: [b.op("Tan", x)], lambda b: [x], "y")
    prepared = prepare(program(b, (go, x), y=y), ONNXRUNTIME)
    (choice,) = choices(prepared)
    op_types = [getattr(operation, "op_type", "") for operation in choice.then.ops]
    assert len(op_types) > 1
    assert "Tan" not in op_types
    tangents = Session(prepared, STANDARD).run({"go": np.array(True), "x": np.array([0.5, 1.0])})[
        "y"
    ]
    np.testing.assert_allclose(tangents, np.tan([0.5, 1.0]), rtol=1e-15)
