"""Signature of a loop body: the names of inputs and outputs in order, stated or inferred.

The order is stated in `metadata`, or inferred if only one order is possible. Inference is for documents of
modeci_mdf's importer, which does not store the order.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from msgspec import Struct

from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Graph, Node, OutputPort
from mdf_loop.errors import ArityError, SignatureError
from mdf_loop.ops.onnx_schema import operator_names, schema
from mdf_loop.reading.loop_forms import LoopForm

_ORDER_HINT = (
    "write the order in the body graph: metadata: {inputs: [iteration, condition, carried...], "
    "outputs: [condition, carried..., recorded...]}"
)


class Signature(Struct, frozen=True):
    """Names of the inputs and outputs of a loop body, in the order of ONNX's Loop.

    Attributes:
        iteration: Input for the iteration number, or None if unused.
        condition_in: Input for the condition, or None if unused.
        carried_inputs: Inputs for the carried values.
        condition_out: Output with the condition, or an empty text for a condition that is always true.
        carried_outputs: Outputs with the carried values.
        recorded_outputs: Recorded outputs.
    """

    iteration: str | None
    condition_in: str | None
    carried_inputs: tuple[str, ...]
    condition_out: str
    carried_outputs: tuple[str, ...]
    recorded_outputs: tuple[str, ...]


def find_signature(form: LoopForm, node: Node, carried_count: int) -> Signature:
    """Determine the names and the order of a loop body's inputs and outputs.

    The body has `carried_count` carried values.

    Raises:
        ArityError: If the number of inputs or outputs does not match.
        SignatureError: If no order is stated and several orders are possible.
    """
    stated_inputs = form.owned_graph.input_names
    if stated_inputs is None:
        iteration, condition_in, carried_inputs = _infer_inputs(form, node, carried_count)
    else:
        if len(stated_inputs) != 2 + carried_count:
            raise ArityError(
                f"the loop '{form.name}' has {_format_count(carried_count, 'initial value')}, so its body needs "
                f"2 + {carried_count} inputs (iteration, condition, carried values), but "
                f"metadata.inputs names {len(stated_inputs)}: {list(stated_inputs)}",
                form.body_path,
            )
        iteration, condition_in, carried_inputs = (
            stated_inputs[0],
            stated_inputs[1],
            stated_inputs[2:],
        )
    output_names = (
        _infer_outputs(form, node, carried_count)
        if form.owned_graph.output_names is None
        else form.owned_graph.output_names
    )
    if len(output_names) < 1 + carried_count:
        raise ArityError(
            f"the loop '{form.name}' has {_format_count(carried_count, 'initial value')}, so its body needs at "
            f"least 1 + {carried_count} outputs (condition, carried values), but it has "
            f"{len(output_names)}: {list(output_names)}",
            form.body_path,
            "the first output is the condition: the body must give one",
        )
    first_row_position = 1 + carried_count
    return Signature(
        iteration,
        condition_in,
        carried_inputs,
        output_names[0],
        output_names[1:first_row_position],
        output_names[first_row_position:],
    )


def _format_count(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# --- inference --------------------------------------------------------------------------------


def find_free_ports(graph: Graph) -> tuple[str, ...]:
    """Return the ids of a graph's input ports that no edge feeds, in document order."""
    fed_ports = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    unconnected_port_ids = (
        port.id
        for node in graph.nodes
        for port in node.input_ports
        if (node.id, port.id) not in fed_ports
    )
    return tuple(dict.fromkeys(unconnected_port_ids))


def find_end_ports(graph: Graph) -> tuple[tuple[Node, OutputPort], ...]:
    """Return the output ports of a graph that feed no edge, with their nodes, in document order."""
    sent_ports = {(edge.sender, edge.sender_port) for edge in graph.edges}
    return tuple(
        (node, port)
        for node in graph.nodes
        for port in node.output_ports
        if (node.id, port.id) not in sent_ports
    )


_ITERATION_PATTERN = re.compile(
    r"^(i|it|iter\w*|iteration\w*|trip\w*|step\w*|t)([._]\d+)?$", re.IGNORECASE
)
_CONDITION_PATTERN = re.compile(r"go|.*(cond|keep|going|continue).*", re.IGNORECASE)


def _infer_inputs(
    form: LoopForm, node: Node, carried_count: int
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Infer which inputs of a loop body are the iteration number, the condition and carried values."""
    bound_names = {
        node_part.id for node_part in (*node.input_ports, *node.parameters, *node.functions)
    }
    bound_names |= {
        *form.bindings,
        *(input_slice.name for input_slice in form.slices),
        *(delay.name for delay in form.delays),
    }
    names_with_defaults = {
        port.id
        for body_node in form.body.nodes
        for port in body_node.input_ports
        if port.default_value is not None
    }
    free_names = [
        name for name in find_free_ports(form.body) if name not in bound_names | names_with_defaults
    ]
    if isinstance(form.initial_expressions, dict):
        return _match_named_inputs(form, tuple(form.initial_expressions), free_names)
    if carried_count <= 1 and len(free_names) == carried_count:
        return None, None, tuple(free_names)
    iteration_names = [name for name in free_names if _ITERATION_PATTERN.match(name)]
    condition_names = [name for name in free_names if _CONDITION_PATTERN.fullmatch(name)]
    if (
        carried_count <= 1
        and len(free_names) == 2 + carried_count
        and len(iteration_names) == len(condition_names) == 1
    ):
        carried_inputs = tuple(
            name for name in free_names if name not in (iteration_names[0], condition_names[0])
        )
        return iteration_names[0], condition_names[0], carried_inputs
    raise _unknown_order_error(form, carried_count, free_names)


def _match_named_inputs(
    form: LoopForm, names: tuple[str, ...], free_names: list[str]
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Infer the roles of a loop body's inputs if `v_initial` names the carried inputs."""
    unknown_names = [name for name in names if name not in find_free_ports(form.body)]
    if unknown_names:
        raise SignatureError(
            f"v_initial names '{unknown_names[0]}', but the body has no such open input port: "
            f"{list(find_free_ports(form.body))}",
            f"{form.where}.args.v_initial",
        )
    other_names = [name for name in free_names if name not in names]
    iteration_names = [name for name in other_names if _ITERATION_PATTERN.match(name)]
    condition_names = [
        name
        for name in other_names
        if name not in iteration_names and _CONDITION_PATTERN.fullmatch(name)
    ]
    if (
        len(iteration_names) > 1
        or len(condition_names) > 1
        or len(iteration_names + condition_names) < len(other_names)
    ):
        raise _unknown_order_error(form, len(names), free_names)
    iteration = iteration_names[0] if iteration_names else None
    return iteration, condition_names[0] if condition_names else None, names


def _unknown_order_error(
    form: LoopForm, carried_count: int, free_names: list[str]
) -> SignatureError:
    """Return the error for body inputs whose order cannot be inferred."""
    return SignatureError(
        f"the order of the body's inputs is not written and cannot be inferred for "
        f"{carried_count} carried values from the free ports {free_names}: metadata.inputs is missing",
        form.body_path,
        _ORDER_HINT,
    )


def _count_results_read(form: LoopForm, node: Node) -> int:
    """Return the number of a loop's results that the output ports of its node read."""
    port_values = [port.value for port in node.output_ports if isinstance(port.value, str)]
    bare_use_count = sum(port_value == form.name for port_value in port_values)
    result_pattern = re.compile(rf"(?<!\w){re.escape(form.name)}\[(\d+)\]")
    result_positions = [
        int(position)
        for port_value in port_values
        for position in result_pattern.findall(port_value)
    ]
    return max([bare_use_count, *(k + 1 for k in result_positions)])


def _infer_outputs(form: LoopForm, node: Node, carried_count: int) -> tuple[str, ...]:
    """Infer the order of a loop body's outputs, of which the first is the condition."""
    ports_at_end = find_end_ports(form.body)
    result_count = max(_count_results_read(form, node), carried_count)
    port_names = [port.id for _, port in ports_at_end]
    truth_outputs = [
        port.id for port_node, port in ports_at_end if gives_truth(port_node, port.value)
    ]
    is_inferable = (
        len(ports_at_end) == 1 + result_count and result_count <= 1 and len(truth_outputs) == 1
    )
    if not is_inferable or len(set(port_names)) != len(port_names):
        raise SignatureError(
            f"the order of the body's outputs is not written and cannot be inferred for "
            f"{result_count} results from the end ports {port_names}: metadata.outputs is missing",
            form.body_path,
            _ORDER_HINT,
        )
    return (truth_outputs[0], *(name for name in port_names if name != truth_outputs[0]))


def gives_truth(node: Node, value: DocumentValue) -> bool:
    """Return True if an expression of a node certainly yields a bool, such as a comparison."""
    if isinstance(value, bool):
        return True
    if not isinstance(value, str):
        return False
    node_parts: Iterable[FunctionOrParameter] = node.functions_and_parameters
    node_part = next((candidate for candidate in node_parts if candidate.id == value), None)
    if node_part is None:
        return _is_comparison(value)
    if node_part.function is None:
        return node_part.value != value and gives_truth(node, node_part.value)
    if node_part.function == "onnx::Identity":
        return gives_truth(node, next(iter((node_part.args or {}).values()), None))
    if node_part.function == "onnx::Cast":
        return (node_part.args or {}).get("to") in (9, "9")
    return _is_truth_function(str(node_part.function))


def _is_truth_function(function: str) -> bool:
    """Return True if a function is an ONNX operator that returns only booleans."""
    domain, _, op_type = function.partition("::")
    if domain != "onnx" or op_type not in operator_names():
        return False
    return all(set(output.types) == {"tensor(bool)"} for output in schema(op_type).outputs)


def _is_comparison(text: str) -> bool:
    """Return True for an expression that is a comparison, `not`, `and`, `or`, True or False."""
    try:
        expression = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return False
    if isinstance(expression, ast.UnaryOp):
        return isinstance(expression.op, ast.Not)
    if isinstance(expression, ast.Constant):
        return isinstance(expression.value, bool)
    return isinstance(expression, ast.Compare | ast.BoolOp)
