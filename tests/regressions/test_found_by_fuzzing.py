"""Regression tests of defects that `make fuzz` found, each with a minimal model."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import mdf_loop

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

NODE = "m: {graphs: {g: {nodes: {n: {%s, output_ports: {o: {value: 1}}}}}}}"
LAUGHTER = "a0: &a0 [1, 2]\n" + "\n".join(
    f"a{k + 1}: &a{k + 1} [*a{k}, *a{k}, *a{k}]" for k in range(40)
)
LOOP = """
m: {graphs: {g: {nodes: {n: {
  input_ports: {x: {default_value: [[1.0, 2.0], [3.0, 4.0]]}},
  functions: {f: {function: onnx::Loop, args: {v_initial: "(0.0,)", %s, body: {b: {
    metadata: {inputs: [i, c, v], outputs: [go, w]%s}, nodes: {k: {input_ports: {v: {}},
    output_ports: {go: {value: v < 9}, w: {value: v + 1}}}}%s}}}}},
  output_ports: {o: {value: f}}}}}}}
"""
TABLE = {
    "an alias inside what it names": ("m: &m {graphs: {g: *m}}", "contains itself"),
    "aliases of aliases": (LAUGHTER, "aliases spell out to more than"),
    "a list as a name": ("? [1, 2]\n: x", "a name in line 1 is not text"),
    "a body's edge with a list as metadata": (
        LOOP % ("cond: true", "", ", edges: {e: {sender: k, sender_port: w, receiver: k, receiver_port: v, metadata: [1]}}"),
        "the metadata of the edge 'e' is a list",
    ),
    "zeros beyond all memory": (
        NODE % "input_ports: {x: {shape: [4611686018427387904, 9]}}",
        "the input 'x' must be given",
    ),
    "a slice that is far away": (
        LOOP % ("slices: {s: {of: x, start: 99999999999999999999}}", "", ""),
        "does not fit into 64 bits",
    ),
    "a slice of results with the step 0": (
        LOOP.replace('"(0.0,)"', '"(0.0, 1.0)[::0]"') % ("cond: true", "", ""),
        "a slice cannot have the step 0",
    ),
    "a condition's number beyond all floats": (
        "m: {graphs: {g: {nodes: {n: {parameters: {p: {value: 1}}, output_ports: {o: {value: p}}}}, "
        f"conditions: {{node_specific: {{n: {{type: AfterPass, kwargs: {{n: 1{'0' * 400}}}}}}}}}}}}}}}",
        "does not fit into 64 bits",
    ),
    "conditions that are a number": (
        "m: {graphs: {g: {nodes: {n: {parameters: {p: {conditions: 5.0}}}}}}}",
        "'conditions' is a number, 5.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_invalid_documents_are_refused_with_a_message(name: str, tmp_path: Path) -> None:
    text, says = TABLE[name]
    path = tmp_path / "model.yaml"
    path.write_text(text)
    with pytest.raises(mdf_loop.LoopError) as caught:
        mdf_loop.compile(path, device="cpu").run()
    assert says in str(caught.value)


def test_the_length_of_a_message_is_bounded() -> None:
    error = mdf_loop.LoopError("begin " + "x" * 10**6 + " end")
    assert len(str(error)) < 2_000
    assert error.report.startswith("LoopError: begin xxx")
    assert str(error).endswith("xxx end")


@pytest.mark.parametrize(
    "part",
    [
        "functions: {f: {value: [1.0, 2.0], metadata: {dtype: float32}}}",
        "parameters: {p: {default_initial_value: 0, conditions: [{id: a, test: p > 0, value: 1}]}}",
        "metadata: {when: 2020-01-01, raw: !!binary aGk=}",
    ],
    ids=["an array in a function", "conditions as modeci_mdf writes them", "a date and bytes"],
)
def test_values_that_modeci_mdf_cannot_write_are_exported(part: str, tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(NODE % part)
    compiled = mdf_loop.compile(path, device="cpu")
    assert compiled.run()["n.o"] == 1
    compiled.save(tmp_path / "model.onnx")
    assert mdf_loop.compile(tmp_path / "model.onnx", device="cpu").run()["n.o"] == 1


def test_a_choice_whose_branch_is_a_list_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(
        NODE
        % "functions: {f: {function: onnx::If, args: {cond: true, then_branch: [], else_branch: {}}}}"
    )
    assert "graph" in mdf_loop.explain(path)


def _onnx(text: str, tmp_path: Path) -> tuple[onnx.ModelProto, Path]:
    return onnx.parser.parse_model(HEAD + text), tmp_path / "model.onnx"


def test_a_constant_without_numbers(tmp_path: Path) -> None:
    model, path = _onnx("g () => (float y) { y = Constant<value = float {1.0}>() }", tmp_path)
    attribute = model.graph.node[0].attribute
    attribute[0].ClearField("t")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.read(path)
    del attribute[:]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.read(path)


@pytest.mark.parametrize("kind", ["seq(int64)", "int64[k]"])
def test_an_iteration_number_of_another_type(kind: str, tmp_path: Path) -> None:
    text = """
    g (float x) => (float y) {
        m = Constant<value = int64 {2}>()
        y = Loop(m, , x) <body = b (KIND i, bool c, float v) => (bool d, float w) {
            d = Identity(c) w = Neg(v) }>
    }""".replace("KIND", kind)
    model, path = _onnx(text, tmp_path)
    path.write_bytes(model.SerializeToString())
    if kind == "int64[k]":
        assert mdf_loop.compile(path, device="cpu").run({"x": 1.0})["y"] == 1
    else:
        with pytest.raises(mdf_loop.LoopError):
            mdf_loop.read(path)


def test_an_empty_tensor_with_an_extent_beyond_memory(tmp_path: Path) -> None:
    model, path = _onnx("g (float x) => (float y) { y = Neg(x) }", tmp_path)
    model.graph.initializer.add(name="w", data_type=1, dims=[0, 2**62, 2**30], raw_data=b"")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(mdf_loop.LoopError, match="'w' cannot have the shape"):
        mdf_loop.read(path)


SMALL = {"n": {"parameters": {"p": {"value": 1.0}}, "output_ports": {"y": {"value": "p"}}}}


@pytest.mark.parametrize("outputs", [3.5, "n.y", True])
def test_outputs_that_are_no_list(outputs: object) -> None:
    graph = {"g": {"metadata": {"outputs": outputs}, "nodes": SMALL}}
    with pytest.raises(mdf_loop.LoopError, match=r"metadata\.outputs is a list of names"):
        mdf_loop.read(graph)
    assert "n" in mdf_loop.explain(graph)  # partial explanations are still printed


def test_an_extent_of_a_shape_beyond_64_bits() -> None:
    node = {**SMALL["n"], "output_ports": {"y": {"value": "p", "shape": [2**64]}}}
    with pytest.raises(mdf_loop.LoopError, match="a shape is a list of whole numbers"):
        mdf_loop.compile({"g": {"nodes": {"n": node}}}, device="cpu").to_onnx()


def test_a_condition_whose_type_is_a_list() -> None:
    part = {"type": ["After"], "kwargs": {}}
    condition = {"type": "All", "kwargs": {"args": [part]}}
    conditions = {"node_specific": {"n": condition}}
    graph = {"g": {"nodes": SMALL, "conditions": conditions}}
    with pytest.raises(mdf_loop.LoopError, match=r"a condition is written as \{type: "):
        mdf_loop.read(graph)
    assert "n" in mdf_loop.explain(graph)


def test_a_part_of_a_slice_beyond_all_memory() -> None:
    body = {"b": {"metadata": {"inputs": ["i", "go", "v"], "outputs": ["go", "v"]},
                  "nodes": {}}}  # fmt: skip
    args = {"v_initial": "p", "slices": {"r": {"of": "x", "part_size": 2**31}}, "body": body}
    node = {
        "input_ports": {"x": {"shape": [-1]}},
        "parameters": {"p": {"value": 1.0}},
        "functions": {"f": {"function": "onnx::Loop", "args": args}},
        "output_ports": {"y": {"value": "f"}},
    }
    with pytest.raises(mdf_loop.LoopError, match=r"part_size of the slice 'r' is 2147483648"):
        mdf_loop.read({"g": {"nodes": {"n": node}}})


def test_a_parameter_condition_without_a_value() -> None:
    parameter = {"value": 1.0, "conditions": [{"id": "c", "test": "1 > 0"}]}
    node = {"parameters": {"p": parameter}, "output_ports": {"y": {"value": "p"}}}
    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.read({"g": {"nodes": {"n": node}}})


def test_a_date_as_a_key_of_metadata(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        "m: {graphs: {g: {metadata: {2026-01-01: x}, nodes: {n: {parameters: {p: {value: 1.0}}, "
        "output_ports: {y: {value: p}}}}}}}"
    )
    proto = mdf_loop.compile(path, device="cpu").to_onnx()
    assert mdf_loop.from_onnx(proto).graphs[0].metadata == {"2026-01-01": "x"}


@pytest.mark.parametrize("conditions", ["x > 0", 3, ["x > 0"], {"c": "x > 0"}, [None]])
def test_parameter_conditions_that_are_no_mappings(conditions: object) -> None:
    node = {"parameters": {"p": {"value": 1.0, "conditions": conditions}},
            "output_ports": {"y": {"value": "p"}}}  # fmt: skip
    with pytest.raises(mdf_loop.LoopError, match="write conditions: "):
        mdf_loop.read({"g": {"nodes": {"n": node}}})
