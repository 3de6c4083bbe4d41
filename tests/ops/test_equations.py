"""Refusal of `onnx::Einsum` equations for which the shape inference of onnx does not terminate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import mdf_loop
from mdf_loop.errors import LoopError, ModelError, OperandError
from mdf_loop.importing.onnx_file import check_onnx
from mdf_loop.ops.einsum_equation import equation_fault
from tests.ops.op_running import program_of

NONTERMINATING = (
    "...a...->a",
    "....a->a",
    "a-b->a",
    "......->...",
    "...a...",
    "a.b->",
    "... ...->a",
)
"""Equations of one operand for which onnx 1.23.2 does not return."""


@pytest.mark.parametrize(
    "equation", [*NONTERMINATING, "ab->...a...", "a1->a", "a->b->c", "a\tb->a", "é->"]
)
def test_nonterminating_equations_are_detected(equation: str) -> None:
    assert repr(equation)[1:-1] in repr(equation_fault({"equation": equation}))


@pytest.mark.parametrize(
    "equation",
    ["ij,jk->ik", "i...,...->...", " ... a -> a", "...", "", "->", ",,->", "aB,Bc", "a...b->ab..."],
)
def test_valid_equations_are_accepted(equation: str) -> None:
    assert equation_fault({"equation": equation}) == ""
    assert equation_fault({"equation": equation.encode()}) == ""


@pytest.mark.parametrize("equation", NONTERMINATING)
def test_the_inference_of_one_operation_refuses_nonterminating_equations(equation: str) -> None:
    with pytest.raises(OperandError, match="equation"):
        program_of("Einsum", [np.ones((2, 3, 4))], equation=equation)


BODIES = {
    "of the graph": "y = Einsum <equation = EQUATION> (x)",
    "of a branch": """
        c = Constant <value = bool {1}> ()
        y = If (c) <then_branch = a () => (float[N] u) { u = Einsum <equation = EQUATION> (x) },
                    else_branch = b () => (float[N] v) { v = Einsum <equation = EQUATION> (x) }>
    """,
}


@pytest.mark.parametrize("nodes", BODIES.values(), ids=BODIES)
def test_a_file_with_a_nonterminating_equation_is_refused(nodes: str) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 4] x) => (float[N] y)'
    text = nodes.replace("EQUATION", '"...a...->a"')
    with pytest.raises(ModelError, match="more than one ellipsis") as refusal:
        check_onnx(parser.parse_model(f"{head} {{ {text} }}"))
    assert refusal.value.findings[0].where.startswith("$.graph.node['")


@pytest.mark.parametrize("opset", [13, 17])
def test_an_equation_from_the_call_of_a_function_is_refused(opset: int) -> None:
    """Check an equation that is known only after the import has replaced the call by the function's nodes."""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : {opset}, "l" : 1]>
        g (float[2, 3, 4] x) => (float[N] y) {{ y = l.f <eq = "...a...->a"> (x) }}
        <domain: "l", opset_import: ["" : {opset}]>
        f <eq> (u) => (v) {{ v = Einsum <equation: string = @eq> (u) }}"""
    )
    with pytest.raises(LoopError, match="equation"):
        mdf_loop.compile(mdf_loop.from_onnx(model)).run({"x": np.ones((2, 3, 4), np.float32)})


def mdf_model(function: dict[str, Any], port: str = "f") -> dict[str, Any]:
    node = {
        "input_ports": {"x": {"shape": [2, 3], "type": "float"}},
        "functions": {"f": function},
        "output_ports": {"y": {"value": port}},
    }
    return {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}


def test_an_mdf_model_with_a_nonterminating_equation_is_refused() -> None:
    function = {"function": "onnx::Einsum", "args": {"Inputs": "[x]", "equation": "'...a...->a'"}}
    written = {"value": "numpy.einsum('...a...->a', x)"}
    for definition in (function, written):
        with pytest.raises(LoopError, match="equation") as refusal:
            mdf_loop.compile(mdf_model(definition)).run({"x": np.ones((2, 3))})
        assert "nodes['n']" in refusal.value.findings[0].where
