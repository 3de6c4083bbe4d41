"""Scan of opset 8: everything has a batch axis in front.

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
    """A scan over the batch around a scan over time."""
    if r.input(0):
        r.refuse("sequence_lens (samples of different length) are not supported")
    body, scanned = r.get("body"), r.get("num_scan_inputs")
    reads = list(r.node.input[1:])
    given = [r.between(value.name) for value in body.input]
    made = [r.between(value.name) for value in body.output]
    sample = helper.make_node(
        "Scan",
        given,
        made,
        r.node.name,
        body=body,
        num_scan_inputs=scanned,
        scan_input_directions=list(r.get("directions", [0] * scanned)),
    )
    inputs = _renamed(body.input, given, first_row=len(given) - scanned)
    outputs = _renamed(body.output, made, first_row=len(given) - scanned)
    batch = helper.make_graph([sample], f"{body.name or 'body'}_batch", inputs, outputs)
    r.make_all("Scan", reads, r.node.output, body=batch, num_scan_inputs=len(reads))


def _renamed(
    values: Sequence[onnx.ValueInfoProto], names: Sequence[str], first_row: int
) -> list[onnx.ValueInfoProto]:
    """The values of one sample; those from `first_row` on get a time axis."""
    renamed = []
    for place, (value, name) in enumerate(zip(values, names, strict=True)):
        copy = onnx.ValueInfoProto()
        copy.CopyFrom(value)
        copy.name = name
        tensor = copy.type.tensor_type
        if place >= first_row and tensor.HasField("shape"):
            dims = list(tensor.shape.dim)
            del tensor.shape.dim[:]
            tensor.shape.dim.add()
            tensor.shape.dim.extend(dims)
        renamed.append(copy)
    return renamed
