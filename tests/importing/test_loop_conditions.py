"""Loops of ONNX files without a condition input, in the ONNX specification and in the runtime.

Source: ONNX operators, Loop-13; onnxruntime 1.32 ends such a loop when its body gives false.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.errors import InputError

X = {"x": np.arange(1, 9, dtype=np.float32), "limit": np.array(5, np.float32)}
"""The sum passes 5 in the third of eight iterations."""

HEAD = (
    '<ir_version: 10, opset_import: ["" : 17, "own" : 1]> f (float[8] x, float limit) => (float s)'
)
STEP = "(int64 i, bool c, float a) => (bool go, float b)"
SUM = "v = Gather <axis: int = 0> (x, i)  b = Add (a, v)  over = Greater (b, limit)"


def broken(
    condition: str = "go = Not (over)", loop: str = 'Loop (k, "", z)', more: str = ""
) -> Any:
    """Return a sum over a loop whose body computes a condition output."""
    body = f"<body = step {STEP} {{ {SUM}  {condition} }}>"
    return onnx.parser.parse_model(
        f"{HEAD} {{ z = Constant <value = float {{0}}> ()  k = Size (x)  {more} s = {loop} {body} }}"
    )


def runtime(proto: Any) -> Any:
    return onnxruntime.InferenceSession(proto.SerializeToString()).run(None, X)[0]


def run(proto: Any, loop_condition: str = "document") -> Any:
    model = mdf_loop.from_onnx(proto, loop_condition=loop_condition)
    return mdf_loop.compile(model, device="cpu").run(X)["s"]


def warned(proto: Any, loop_condition: str = "document") -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mdf_loop.from_onnx(proto, loop_condition=loop_condition)
    assert all(each.category is UserWarning and each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the loop")
def test_each_reading_is_computed_and_exported() -> None:
    proto = broken()
    assert runtime(proto) == 6
    for reading, result in (("document", 36), ("runtime", 6)):
        assert run(proto, reading) == result
        compiled = mdf_loop.compile(mdf_loop.from_onnx(proto, loop_condition=reading), device="cpu")
        for origin in (True, False):
            exported = compiled.to_onnx(origin=origin)
            assert runtime(exported) == result
            assert not warned(exported)
            assert run(exported, "runtime") == result


def test_the_warning_names_the_loop_and_both_readings() -> None:
    (sentence,) = warned(broken())
    assert sentence == (
        "the loop 'Loop_4.loop' has no condition input, but its body computes the condition 'go'. "
        "By the ONNX document the loop ignores the condition and runs all M iterations "
        "(loop_condition='document'). ONNX Runtime ends the loop when the condition is false "
        "(loop_condition='runtime'). It is read as 'document', at "
        "$.graphs[0].nodes['Loop_4'].functions['loop']"
    )
    assert warned(broken(), "runtime") == []


ONE = "one = Constant <value = int64 {1}> ()"
TRUE = "t = Constant <value = bool {1}> ()"
UNAMBIGUOUS = {
    "passed on": "go = Identity (c)",
    "true": "go = Constant <value = bool {1}> ()",
    "an initializer's number as a truth": f"{ONE}  go = Cast <to = 9> (one)",
    "computed of constants": f"{ONE}  go = Equal (one, one)",
    "passed on, and true": f"{TRUE}  d = Identity (c)  go = And (d, t)",
    "true in any case": f"{TRUE}  go = Or (over, t)",
    "by way of a vector": f"{ONE}  d = Reshape (c, r)  go = Squeeze (d)",
    "true on both sides": "go = If (over) <then_branch = p () => (bool p) { p = Identity (c) }, "
    "else_branch = q () => (bool q) { q = Constant <value = bool {1}> () }>",
}


@pytest.mark.parametrize("condition", UNAMBIGUOUS.values(), ids=UNAMBIGUOUS)
def test_equal_readings_have_no_warning(condition: str) -> None:
    proto = broken(condition, more="r = Constant <value = int64[1] {1}> ()")
    assert warned(proto) == []
    assert run(proto) == run(proto, "runtime") == runtime(proto) == 36


AMBIGUOUS = {
    "false": "go = Constant <value = bool {0}> ()",
    "no longer true": "d = Not (c)  go = Identity (d)",
    "passed on, and computed": "d = Not (over)  go = And (c, d)",
    "an input of the model": "d = Less (limit, b)  go = Not (d)",
    "false on one side": "go = If (over) <then_branch = p () => (bool p) { p = Not (c) }, "
    "else_branch = q () => (bool q) { q = Identity (c) }>",
}


@pytest.mark.parametrize("condition", AMBIGUOUS.values(), ids=AMBIGUOUS)
@pytest.mark.filterwarnings("ignore:the loop")
def test_the_option_selects_the_reading_of_the_runtime(condition: str) -> None:
    proto = broken(condition)
    assert len(warned(proto)) == 1
    assert run(proto) == 36
    assert run(proto, "runtime") == runtime(proto) < 36


@pytest.mark.parametrize("loop", ["Loop (k, t, z)", 'Loop ("", t, z)'])
def test_a_condition_input_decides(loop: str) -> None:
    proto = broken(loop=loop, more=TRUE)
    assert warned(proto) == []
    assert run(proto) == runtime(proto) == 6


def test_one_iteration_cannot_be_cut_short() -> None:
    assert warned(broken(loop='Loop (one, "", z)', more=ONE)) == []


def test_without_a_trip_count() -> None:
    proto = broken(loop='Loop ("", "", z)')
    (sentence,) = warned(proto)
    assert "By the ONNX document the loop ignores the condition and never ends" in sentence
    assert run(proto, "runtime") == runtime(proto) == 6


INNER = f'Loop (k, "", z) <body = inner {STEP} {{ {SUM}  go = Not (over) }}>'
PLACES = {
    "in a loop": (
        f"u = Loop (k, , z) <body = outer (int64 j, bool d, float w) => (bool e, float y) "
        f"{{ e = Identity (d)  y = {INNER} }}>  s = Identity (u)",
        "['Loop_4'].functions['loop'].args.body.nodes['Loop_1'].functions['loop']",
    ),
    "in a branch": (
        f"o = Constant <value = bool {{1}}> ()  s = If (o) "
        f"<then_branch = p () => (float y) {{ y = {INNER} }}, "
        "else_branch = q () => (float y2) { y2 = Identity (z) }>",
        "['If_5'].functions['choice'].args.then_branch.nodes['Loop_0'].functions['loop']",
    ),
}


@pytest.mark.parametrize(("nodes", "where"), PLACES.values(), ids=PLACES)
@pytest.mark.filterwarnings("ignore:the loop")
def test_loops_in_bodies_have_a_warning(nodes: str, where: str) -> None:
    head = "z = Constant <value = float {0}> ()  k = Size (x)"
    proto = onnx.parser.parse_model(f"{HEAD} {{ {head}  {nodes} }}")
    (sentence,) = warned(proto)
    assert sentence.endswith(f"at $.graphs[0].nodes{where}")
    assert run(proto) == 36
    assert run(proto, "runtime") == runtime(proto) == 6


@pytest.mark.filterwarnings("ignore:the loop")
def test_loops_in_functions_have_a_warning() -> None:
    function = (
        '<domain: "own", opset_import: ["" : 17]> F (x, limit) => (r) '
        f"{{ z = Constant <value = float {{0}}> ()  k = Size (x)  r = {INNER} }}"
    )
    proto = onnx.parser.parse_model(f"{HEAD} {{ s = own.F (x, limit) }}")
    proto.functions.append(onnx.parser.parse_function(function))
    assert len(warned(proto)) == 1
    assert run(proto, "runtime") == runtime(proto) == 6


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(broken(), path)
    return path


def test_compile_accepts_loop_condition_for_files(file: Path) -> None:
    assert mdf_loop.compile(file, device="cpu", loop_condition="runtime").run(X)["s"] == 6
    with pytest.warns(UserWarning, match=r"the loop 'Loop_4\.loop' has no condition input"):
        compiled = mdf_loop.compile(file, device="cpu")
    assert compiled.run(X)["s"] == 36


@pytest.mark.parametrize("other", ["m.yaml", "a graph"])
def test_loop_condition_is_refused_for_other_sources(file: Path, other: str) -> None:
    node = {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x"}}}
    source: Any = {"g": {"nodes": {"n": node}}}
    if other == "m.yaml":
        source = file.with_name(other)
        source.write_text("m: {graphs: {g: {nodes: {n: {output_ports: {y: {value: 1.0}}}}}}}")
    mdf_loop.compile(source, device="cpu", loop_condition="document")
    with pytest.raises(InputError, match=r"loop_condition='runtime' is about \.onnx files"):
        mdf_loop.compile(source, device="cpu", loop_condition="runtime")


def test_unknown_loop_conditions_are_refused(file: Path) -> None:
    for call in (mdf_loop.compile, mdf_loop.from_onnx):
        with pytest.raises(InputError, match="loop_condition cannot be 'onnx'"):
            call(file, loop_condition="onnx")
