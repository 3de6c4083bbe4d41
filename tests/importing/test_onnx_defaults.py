"""Omitted attributes and inputs of opsets 7 to 24 have the defaults of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import defs, helper, numpy_helper, parser, shape_inference

import mdf_loop
from mdf_loop.importing.opsets.facts import infer_types
from mdf_loop.ir import OutputRole
from mdf_loop.ir.types import dtype_name
from mdf_loop.ops.onnx_schema import attribute_value
from tests.ops.operator_samples import SAMPLES, F, Sample

OPSETS = range(7, 25)
STACK = F(np.linspace(-1.9, 2.1, 24).reshape(1, 2, 3, 4))
ROW = F([0.5, -1.0, 2.0])
IMAGE = F(np.linspace(-1.9, 2.1, 6).reshape(1, 1, 2, 3))
ROW_OF_TWO = np.array([0.5, 1.0], np.float32)
TWICE = np.array([1, 1, 2, 2], np.float32)

MORE = {
    "AffineGrid": Sample((F(np.linspace(-1, 1, 12).reshape(2, 2, 3)), np.array([2, 1, 2, 3]))),
    "Attention": Sample((STACK, STACK, STACK)),
    "BitShift": Sample(
        (np.array([1, 8], np.uint8), np.array([1, 2], np.uint8)), {"direction": "LEFT"}
    ),
    "Mod": Sample((np.array([-7, 7, 5]), np.array([3, -3, 2]))),
    "OneHot": Sample((np.array([0, 2]), np.array(3), ROW_OF_TWO)),
    "RMSNormalization": Sample((F([[1.0, 2.0, 3.0]]), ROW)),
    "Resize": Sample((IMAGE, TWICE)),
    "RotaryEmbedding": Sample((STACK, F(np.ones((1, 3, 2))), F(np.ones((1, 3, 2)) / 2))),
    "STFT": Sample((F(np.ones((1, 8, 1))), np.array(2), None, np.array(4))),
    "Scatter": Sample((F([[1.0, 2.0, 3.0]]), np.array([[0, 0]]), F([[7.0, 8.0]]))),
    "Swish": Sample((ROW,)),
    "TensorScatter": Sample((STACK, F(np.ones((1, 2, 2, 4))))),
    "Upsample": Sample((IMAGE, TWICE), {"scales": (1.0, 1.0, 2.0, 2.0)}),
}
"""Operators that have no sample among those of our opset, or one with another form."""

RANDOM = {"Bernoulli", "Dropout", "Multinomial"} | {n for n in SAMPLES if n.startswith("Random")}
"""Operators that draw; Dropout does where its sample says `training_mode`."""


def samples(op_type: str) -> Iterator[Sample]:
    yield from (table[op_type] for table in (SAMPLES, MORE) if op_type in table)


def since(op_type: str) -> Iterator[tuple[int, Any]]:
    """Yield the opsets of `OPSETS` with a new version of the operator, each with its schema."""
    for version in OPSETS:
        if not defs.has(op_type, version, ""):
            continue
        schema = defs.get_schema(op_type, version, "")
        if not schema.deprecated and version == max(schema.since_version, OPSETS[0]):
            yield version, schema


OPERATORS = [name for name in sorted({*SAMPLES, *MORE} - RANDOM) if any(since(name))]


def nodes(op_type: str) -> Iterator[tuple[int, onnx.NodeProto, list[Any]]]:
    """Yield an opset, a node with as few arguments as possible, and its inputs.

    The inputs are the fewest that the operator allows, and all inputs of a sample.
    """
    for version, schema in since(op_type):
        required = {name for name, formal in schema.attributes.items() if formal.required}
        for sample in samples(op_type):
            inputs = [f32(array) for array in sample.inputs]
            sets = [required, schema.attributes.keys()]
            for count in sorted({schema.min_input, min(len(inputs), schema.max_input)}):
                for attribute_names in sets if set(sample.attributes) - required else sets[:1]:
                    yield (
                        version,
                        node(op_type, sample, inputs[:count], attribute_names, schema),
                        inputs[:count],
                    )


def f32(sample_input: Any) -> Any:
    array = sample_input.array("float32") if isinstance(sample_input, F) else sample_input
    return None if array is None else np.asarray(array)


def node(
    op_type: str, sample: Sample, inputs: list[Any], attribute_names: Any, schema: Any
) -> onnx.NodeProto:
    names = [f"i{k}" if array is not None else "" for k, array in enumerate(inputs)]
    chosen = {name: value for name, value in sample.attributes.items() if name in attribute_names}
    chosen |= {k: v.astype(np.float32) for k, v in chosen.items() if isinstance(v, np.ndarray)}
    attributes = {name: attribute_value(value) for name, value in chosen.items()}
    outputs = [f"o{k}" for k in range(max(schema.min_output, 1))]
    return helper.make_node(op_type, names, outputs, **attributes)


def model(version: int, one: onnx.NodeProto, arrays: list[Any]) -> onnx.ModelProto:
    """Return a model whose first input varies and whose other inputs are constants."""
    tensors = [
        numpy_helper.from_array(text(a), f"i{k}") for k, a in enumerate(arrays) if a is not None
    ]
    values = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in tensors[:1]]
    outputs = [onnx.ValueInfoProto(name=name) for name in one.output]
    graph = helper.make_graph([one], "g", values, outputs, tensors[1:])
    imports = [helper.make_opsetid("", version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if version < 21 else 10)


def text(array: Any) -> Any:
    return array.astype(object) if array.dtype.kind == "U" else array


def runtime(proto: onnx.ModelProto, feeds: Any) -> Any:
    """Return the outputs of ONNX Runtime, or None if it rejects the model or lacks a kernel."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        return session.run(None, feeds)
    except Exception:  # noqa: BLE001 - onnxruntime raises many kinds
        return None


def agree(op_type: str, version: int, one: onnx.NodeProto, arrays: list[Any]) -> bool:
    """Compare numbers and inferred types with ONNX Runtime; return False without a kernel."""
    proto = model(version, one, arrays)
    feeds = {"i0": text(arrays[0])} if arrays else {}
    expected = runtime(proto, feeds)
    if expected is None:
        return False
    compiled = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu")
    results = compiled.run(feeds)
    declared = [
        output.value for output in compiled.program.outputs if output.role is OutputRole.RESULT
    ]
    message = f"{op_type} of opset {version}: {one}"
    for name, value, array in zip(one.output, declared, expected, strict=True):
        actual = np.asarray(results[name])
        assert dtype_name(actual) == value.dtype == dtype_name(np.asarray(array)), message
        assert actual.shape == array.shape, message
        pairs = zip(value.shape or array.shape, array.shape, strict=True)
        assert all(not isinstance(extent, int) or extent == there for extent, there in pairs), (
            message
        )
        if array.dtype.kind == "f":
            np.testing.assert_allclose(actual, array, rtol=1e-4, atol=1e-6, err_msg=message)
        else:
            np.testing.assert_array_equal(actual, array, err_msg=message)
    return True


@pytest.mark.parametrize("op_type", OPERATORS)
def test_omitted_attributes_have_the_defaults_of_the_runtime(op_type: str) -> None:
    compared = [agree(op_type, *case) for case in nodes(op_type)]
    assert any(compared)


FORGOTTEN = {"STFT"}
"""Operators of which onnx 1.23 infers other types where a default is left out than where it is stated."""


def test_inference_of_onnx_forgets_no_other_default() -> None:
    """Check that `infer` lists all operators whose defaults the inference of onnx omits."""
    op_types = set()
    for op_type in OPERATORS:
        for version, one, arrays in nodes(op_type):
            plain, explicit = model(version, one, arrays), model(version, one, arrays)
            formals = defs.get_schema(op_type, version, "").attributes.values()
            stated_names = {attribute.name for attribute in one.attribute}
            explicit.graph.node[0].attribute.extend(
                formal.default_value
                for formal in formals
                if formal.default_value.name and formal.name not in stated_names
            )
            if contradict(plain, explicit):
                op_types.add(op_type)
    assert op_types == FORGOTTEN


def contradict(plain: onnx.ModelProto, stated: onnx.ModelProto) -> bool:
    """Return True if onnx infers different shapes or dtypes of an output from the two models."""
    left, right = (shape_inference.infer_shapes(m, data_prop=True).graph for m in (plain, stated))
    pairs = [
        (a.type.tensor_type, b.type.tensor_type)
        for a, b in zip(left.output, right.output, strict=True)
    ]
    return any(a != b for a, b in pairs if a.HasField("shape") and b.HasField("shape"))


def test_types_of_stft_are_known_before_it_runs() -> None:
    ((version, one, arrays), *_) = (case for case in nodes("STFT") if len(case[1].input) == 4)
    (output,) = infer_types(model(version, one, arrays)).graph.output
    assert [d.dim_value for d in output.type.tensor_type.shape.dim] == [1, 3, 3, 2]


TEXTS = {
    "members keep the axis": "s = SplitToSequence (x)  o = SequenceAt (s, k)",
    "members of the first axis": "s = SplitToSequence (x, one)  o = SequenceAt (s, k)",
    "joined along an axis": "s = SequenceConstruct (x, x)  o = ConcatFromSequence <axis = 0> (s)",
    "put in at the end": "e = SequenceConstruct (x)  n = Neg (x)  s = SequenceInsert (e, n)  "
    "o = ConcatFromSequence <axis = 0> (s)",
    "taken out at the end": "n = Neg (x)  e = SequenceConstruct (x, n)  s = SequenceErase (e)  "
    "o = SequenceAt (s, k)",
    "an empty sequence is of float": "e = SequenceEmpty ()  s = SequenceInsert (e, x)  "
    "o = SequenceAt (s, k)",
    "rows from the first on": "z = ReduceSum <keepdims = 0> (x, k1)  "
    "u, o = Scan <num_scan_inputs = 1, body = b (float[2] a, float[3] row) => (float[2] c, float[3] d) "
    "{ c = Identity (a)  d = Neg (row) }> (z, x)",
}


@pytest.mark.parametrize("nodes_text", TEXTS.values(), ids=TEXTS)
def test_defaults_of_sequences_and_scans(nodes_text: str) -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x) => (float[a, b] o) '
        f"{{ k = Constant <value = int64 {{0}}> ()  k1 = Constant <value = int64[1] {{1}}> ()  "
        f"one = Constant <value = int64 {{1}}> ()  {nodes_text} }}"
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (expected,) = runtime(proto, {"x": x})
    o = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").run({"x": x})["o"]
    assert o.tolist() == expected.tolist()
