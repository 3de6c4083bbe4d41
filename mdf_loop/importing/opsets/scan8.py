"""Conversion of Scan of opset 8, in which each input and output has a leading batch axis.

final, ys = Scan-8("", initial, xs)   with initial: [batch, ...], xs: [batch, time, ...]
->
final, ys = Scan-9(initial, xs)       over the batch axis, no carried value; its body is
    final_b, ys_b = Scan-9(initial_b, xs_b)   the scan of one sample, over time
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite


def scan_9(rewrite: Rewrite) -> None:
    """Replace a Scan of opset 8 by a Scan over the batch whose body is a Scan over time."""
    if rewrite.input(0):
        rewrite.refuse("sequence_lens (samples of different length) are not supported")
    body_graph, scan_count = rewrite.attribute("body"), rewrite.attribute("num_scan_inputs")
    input_names = list(rewrite.node.input[1:])
    sample_scan_inputs = [rewrite.intermediate_name(value.name) for value in body_graph.input]
    sample_scan_outputs = [rewrite.intermediate_name(value.name) for value in body_graph.output]
    sample_scan = helper.make_node(
        "Scan",
        sample_scan_inputs,
        sample_scan_outputs,
        rewrite.node.name,
        body=body_graph,
        num_scan_inputs=scan_count,
        scan_input_directions=list(rewrite.attribute("directions", [0] * scan_count)),
    )
    sample_input_values = _declare_sample_values(
        body_graph.input, sample_scan_inputs, first_row=len(sample_scan_inputs) - scan_count
    )
    sample_output_values = _declare_sample_values(
        body_graph.output, sample_scan_outputs, first_row=len(sample_scan_inputs) - scan_count
    )
    batch_body = helper.make_graph(
        [sample_scan],
        f"{body_graph.name or 'body'}_batch",
        sample_input_values,
        sample_output_values,
    )
    rewrite.add_node_with_outputs(
        "Scan", input_names, rewrite.node.output, body=batch_body, num_scan_inputs=len(input_names)
    )


def _declare_sample_values(
    values: Sequence[onnx.ValueInfoProto], names: Sequence[str], first_row: int
) -> list[onnx.ValueInfoProto]:
    """Return the inputs or outputs of a Scan-8 body, declared for one batch entry and renamed.

    Values from index `first_row` on have a time axis.
    """
    sample_values = []
    for value_index, (value, sample_name) in enumerate(zip(values, names, strict=True)):
        value_copy = onnx.ValueInfoProto()
        value_copy.CopyFrom(value)
        value_copy.name = sample_name
        tensor_type = value_copy.type.tensor_type
        if value_index >= first_row and tensor_type.HasField("shape"):
            sample_dims = list(tensor_type.shape.dim)
            del tensor_type.shape.dim[:]
            tensor_type.shape.dim.add()
            tensor_type.shape.dim.extend(sample_dims)
        sample_values.append(value_copy)
    return sample_values
