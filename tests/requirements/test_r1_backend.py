"""The backend tests of ONNX with control flow, imported to MDF, written as YAML and run (R1.35)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop.importing.onnx_model import content_of_onnx
from mdf_loop.importing.writing import write_model
from tests.onnx_cases import node_cases

NAMES = [
    "affine_grid_2d_align_corners_expanded",
    "affine_grid_2d_expanded",
    "affine_grid_3d_align_corners_expanded",
    "affine_grid_3d_expanded",
    "if",
    "if_opt",
    "if_seq",
    "linear_attention_decode_step_expanded",
    "linear_attention_delta_expanded",
    "linear_attention_explicit_scale_expanded",
    "linear_attention_fp16_expanded",
    "linear_attention_gated_delta_beta_scalar_expanded",
    "linear_attention_gated_delta_expanded",
    "linear_attention_gated_delta_gqa_expanded",
    "linear_attention_gated_delta_mqa_expanded",
    "linear_attention_gated_expanded",
    "linear_attention_gated_per_head_decay_expanded",
    "linear_attention_linear_expanded",
    "linear_attention_linear_t1_no_past_expanded",
    "linear_attention_no_past_explicit_zeros_expanded",
    "linear_attention_prefill_with_past_expanded",
    "loop11",
    "loop13_seq",
    "loop16_seq_none",
    "range_bfloat16_type_positive_delta_expanded",
    "range_float16_type_positive_delta_expanded",
    "range_float_type_positive_delta_expanded",
    "range_int32_type_negative_delta_expanded",
    "scan9_multi_state",
    "scan9_scalar",
    "scan9_sum",
    "scan_sum",
    "sequence_map_add_1_sequence_1_tensor",
    "sequence_map_add_1_sequence_1_tensor_expanded",
    "sequence_map_add_2_sequences",
    "sequence_map_add_2_sequences_expanded",
    "sequence_map_extract_shapes",
    "sequence_map_extract_shapes_expanded",
    "sequence_map_identity_1_sequence",
    "sequence_map_identity_1_sequence_1_tensor",
    "sequence_map_identity_1_sequence_1_tensor_expanded",
    "sequence_map_identity_1_sequence_expanded",
    "sequence_map_identity_2_sequences",
    "sequence_map_identity_2_sequences_expanded",
]


def cases() -> dict[str, Any]:
    """Return the backend tests of the installed onnx version by name."""
    return {name.removeprefix("test_"): case for name, case in node_cases().items()}


def assert_same(actual: Any, expected: Any, rtol: float, atol: float) -> None:
    if isinstance(expected, list):
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            assert_same(ours, theirs, rtol, atol)
        return
    expected = np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    ours, theirs = (np.asarray(a, np.float64) for a in (actual, expected))
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_r1_35_onnx_s_own_tests(name: str, tmp_path: Path) -> None:
    if name not in cases():
        pytest.skip(f"onnx {onnx.__version__} has no test of that name")
    case = cases()[name]
    path, *_ = write_model(content_of_onnx(case.model, name), tmp_path / "model.yaml")
    compiled = mdf_loop.compile(path, device="cpu")
    for inputs, outputs in case.data_sets:
        names = [value.name for value in case.model.graph.input]
        results = compiled.run(dict(zip(names, inputs, strict=True)))
        assert list(results) == [value.name for value in case.model.graph.output]
        for ours, theirs in zip(results.values(), outputs, strict=True):
            assert_same(ours, theirs, case.rtol, case.atol)


def test_r1_35_the_list_is_complete() -> None:
    """Check that the list has all backend tests of the installed onnx with control flow."""
    owners = {"Loop", "If", "Scan", "SequenceMap"}
    case_names = {
        name for name, case in cases().items() if owners & set(operator_names(case.model.graph))
    }
    assert case_names <= set(NAMES)


def operator_names(graph: onnx.GraphProto) -> list[str]:
    names = [node.op_type for node in graph.node]
    inner = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return names + [name for body in inner for name in operator_names(body)]
