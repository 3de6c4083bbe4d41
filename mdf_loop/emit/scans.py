"""Counted loops that record, as ONNX Runtime's CPU provider runs them faster: `Scan` for `Loop`.

    finals, stacks = Loop(trip, True, initials)
      ->
    if 0 < trip <= MOST:  finals, stacks = Scan(initials, Range(0, trip))   # i is scanned
    else:                 finals, stacks = Loop(trip, True, initials)

Keeps: results bit for bit, names of nodes, the way to interrupt a run. A `Loop` keeps every row
and stacks them at the end, a `Scan` writes them where they belong: less time for every carried
and every recorded value, and half of the memory or less. It cannot stop early, change shapes or
run zero times, and it takes all its memory at once (ONNX Runtime 1.31). So other loops stay as
they are; so do loops that record nothing, which need no memory that grows with the trip count,
and loops in bodies.

A row that a `Scan` writes begins where the one before it ends. Kernels compute several elements at
once, and those before and behind them one by one, with other last bits (Tanh, Sin, Exp); which these
are depends on where an array begins. So a row of floats is a copy, unless all begin alike.

A number that every iteration adds to its own, and to nothing else (the iterations before a chunk of
a loop), is where the scanned numbers begin:

    i: i + done   ->   scan i over Range(done, done + trip)

Source: ONNX operators, Scan-16; measured in docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

import onnx
from onnx import TensorProto, helper, numpy_helper

MOST = 10_000_000
"""The most iterations of a Scan: their numbers are 80 MB."""


ALIGNMENT = 64
"""Bytes: where the runtime's own memory begins."""


def with_scans(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every loop of its main graph that can be a Scan as one."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    wholes = {value.name for value in model.graph.input if _is_whole_number(value)}
    if not any(_can_scan(node, constants) for node in model.graph.node):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes += _choice(node, wholes) if _can_scan(node, constants) else [node]
    del graph.node[:]
    graph.node.extend(nodes)
    return changed


# --- which loops ------------------------------------------------------------------------------


def _can_scan(node: onnx.NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    """Whether a node is a loop that counts, records, and keeps the shapes of its values."""
    if node.op_type != "Loop" or not all(node.input[:2]):
        return False
    body = _body(node)
    start = constants.get(node.input[1])
    counts = start is not None and bool(numpy_helper.to_array(start).all())
    if not counts or body.output[0].name != body.input[1].name:
        return False
    carried = len(body.input) - 2
    leaves, rows = body.output[1 : 1 + carried], body.output[1 + carried :]
    pairs = zip(body.input[2:], leaves, strict=True)
    alike = all(_extents(enter) == _extents(leave) for enter, leave in pairs)
    known = all(_extents(value) is not None for value in (body.input[1], *leaves, *rows))
    return bool(rows) and alike and known


def _body(node: onnx.NodeProto) -> onnx.GraphProto:
    body: onnx.GraphProto = helper.get_node_attr_value(node, "body")
    return body


def _extents(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """The shape of a tensor of numbers, if all of it is known."""
    tensor = value.type.tensor_type
    known = tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
    if not known or tensor.elem_type == TensorProto.STRING:
        return None
    return tuple(dim.dim_value for dim in tensor.shape.dim)


# --- what they become -------------------------------------------------------------------------


def _choice(loop: onnx.NodeProto, wholes: Collection[str]) -> list[onnx.NodeProto]:
    """Nodes that give what the loop gives: comparisons, and a choice between Scan and Loop."""
    trip, name = loop.input[0], loop.name
    zero, most, some, few, fits = (
        f"{name} {word}" for word in ("zero", "most", "some", "few", "fits")
    )
    return [
        _whole(name, zero, 0),
        _whole(name, most, MOST),
        helper.make_node("Greater", [trip, zero], [some], f"{name}1"),
        helper.make_node("LessOrEqual", [trip, most], [few], f"{name}2"),
        helper.make_node("And", [some, few], [fits], f"{name}3"),
        helper.make_node(
            "If",
            [fits],
            loop.output,
            name,
            then_branch=_scan(loop, wholes),
            else_branch=_same(loop),
        ),
    ]


def _whole(name: str, made: str, number: int) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [made], f"{name}0", value_int=number)


def _scan(loop: onnx.NodeProto, wholes: Collection[str]) -> onnx.GraphProto:
    """The loop as a Scan over its iteration numbers."""
    start, body = _numbered(_body(loop), wholes)
    name = loop.name
    iteration, condition, *carried = body.input
    goes_on = helper.make_tensor(
        condition.name, TensorProto.BOOL, _extents(condition) or (), [True]
    )
    copies, outputs = _own_outputs(body, len(carried))
    nodes, constants = [*body.node, *copies], [*body.initializer, goes_on]
    scanned = helper.make_graph(nodes, body.name, [*carried, iteration], outputs, constants)
    made = [f"{name} scan {position}" for position in range(len(loop.output))]
    numbers, first, step, end = (f"{name} {word}" for word in ("numbers", "first", "step", "end"))
    if start is None:
        bounds, steps = [first, loop.input[0]], [_whole(name, first, 0)]
    else:
        bounds = [start, end]
        steps = [helper.make_node("Add", [start, loop.input[0]], [end], f"{name}6")]
    steps += [
        _whole(name, step, 1),
        helper.make_node("Range", [*bounds, step], [numbers], f"{name}4"),
        helper.make_node(
            "Scan", [*loop.input[2:], numbers], made, f"{name}5", num_scan_inputs=1, body=scanned
        ),
    ]
    return helper.make_graph(steps, f"{name} scan", [], list(_results(loop, made)))


def _numbered(body: onnx.GraphProto, wholes: Collection[str]) -> tuple[str | None, onnx.GraphProto]:
    """Which of `wholes` the numbers begin with, if they do, and the body that is given those."""
    iteration = body.input[0].name
    readers = [node for node in body.node if iteration in _reads(node)]
    returned = any(value.name == iteration for value in body.output)
    if len(readers) != 1 or returned or readers[0].op_type != "Add":
        return None, body
    (add,) = readers
    own, start = add.input
    if own != iteration or start not in wholes:
        return None, body
    numbered = onnx.GraphProto()
    numbered.CopyFrom(body)
    numbered.node.remove(add)
    numbered.input[0].name = add.output[0]
    return start, numbered


def _is_whole_number(value: onnx.ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type == TensorProto.INT64 and _extents(value) == ()


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, in its bodies too."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _reads(inner)
        yield from (value.name for value in attribute.g.output)


def _own_outputs(
    body: onnx.GraphProto, carried: int
) -> tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto]]:
    """Outputs without the condition; ONNX Runtime loses those that are inputs or given twice.

    Rows that begin anywhere in memory are copies, too.
    """
    taken = {value.name for value in body.input}
    copies: list[onnx.NodeProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for position, output in enumerate(body.output[1:]):
        own = onnx.ValueInfoProto()
        own.CopyFrom(output)
        if own.name in taken or (position >= carried and _begins_anywhere(output)):
            own.name = f"{output.name}#scan{position}"
            copies.append(helper.make_node("Identity", [output.name], [own.name], own.name))
        taken.add(own.name)
        outputs.append(own)
    return copies, outputs


def _begins_anywhere(row: onnx.ValueInfoProto) -> bool:
    """Whether rows behind each other do not all begin where the processor likes to."""
    elements = math.prod(_extents(row) or ())
    dtype = helper.tensor_dtype_to_np_dtype(row.type.tensor_type.elem_type)
    return dtype.kind not in "biu" and elements > 1 and elements * dtype.itemsize % ALIGNMENT != 0


def _same(loop: onnx.NodeProto) -> onnx.GraphProto:
    """The loop as it is, with results of its own."""
    made = [f"{loop.name} loop {position}" for position in range(len(loop.output))]
    same = onnx.NodeProto()
    same.CopyFrom(loop)
    same.output[:] = made
    return helper.make_graph([same], f"{loop.name} loop", [], list(_results(loop, made)))


def _results(loop: onnx.NodeProto, made: list[str]) -> Iterator[onnx.ValueInfoProto]:
    """The loop's results under other names, typed."""
    body = _body(loop)
    carried = len(body.input) - 2
    for position, (name, value) in enumerate(zip(made, body.output[1:], strict=True)):
        extents: list[int | str] = [*(_extents(value) or ())]
        shape = extents if position < carried else ["iterations", *extents]
        yield helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, shape)
