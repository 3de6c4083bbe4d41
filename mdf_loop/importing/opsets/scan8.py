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


def scan_9(r: Rewrite) -> None:
    """Replace a Scan of opset 8 by a Scan over the batch whose body is a Scan over time."""
    if r.input(0):
        r.refuse("sequence_lens (samples of different length) are not supported")
    body, scan_count = r.get("body"), r.get("num_scan_inputs")
    input_names = list(r.node.input[1:])
    sample_inputs = [r.intermediate_name(value.name) for value in body.input]
    sample_outputs = [r.intermediate_name(value.name) for value in body.output]
    sample_scan = helper.make_node(
        "Scan",
        sample_inputs,
        sample_outputs,
        r.node.name,
        body=body,
        num_scan_inputs=scan_count,
        scan_input_directions=list(r.get("directions", [0] * scan_count)),
    )
    inputs = _sample_values(body.input, sample_inputs, first_row=len(sample_inputs) - scan_count)
    outputs = _sample_values(body.output, sample_outputs, first_row=len(sample_inputs) - scan_count)
    batch_body = helper.make_graph([sample_scan], f"{body.name or 'body'}_batch", inputs, outputs)
    r.add_all("Scan", input_names, r.node.output, body=batch_body, num_scan_inputs=len(input_names))


def _sample_values(
    values: Sequence[onnx.ValueInfoProto], names: Sequence[str], first_row: int
) -> list[onnx.ValueInfoProto]:
    """Return declarations of a body's inputs or outputs for one sample, with new names.

    Values from index `first_row` on have a time axis.
    """
    sample_values = []
    for value_index, (value, sample_name) in enumerate(zip(values, names, strict=True)):
        value_copy = onnx.ValueInfoProto()
        value_copy.CopyFrom(value)
        value_copy.name = sample_name
        tensor = value_copy.type.tensor_type
        if value_index >= first_row and tensor.HasField("shape"):
            dims = list(tensor.shape.dim)
            del tensor.shape.dim[:]
            tensor.shape.dim.add()
            tensor.shape.dim.extend(dims)
        sample_values.append(value_copy)
    return sample_values
