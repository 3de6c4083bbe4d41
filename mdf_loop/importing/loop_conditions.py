"""Ambiguous ONNX loops, which have no condition input although the body computes a condition.

    s = Loop (M, "", z) <body = b (i, c, a) => (go, a2) { ...  go = Not (over) }>

                  iterations
    document      all M; the ONNX document: the condition of the body is ignored
    runtime       until `go` is false; ONNX Runtime takes the absent input for true

A loop whose body always computes true is not ambiguous: both readings give the same iterations.

Source: ONNX operators, Loop-13; onnxruntime 1.32, core/providers/cpu/controlflow/loop.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from msgspec import Struct

from mdf_loop.importing.opsets.facts import Facts, infer_types
from mdf_loop.importing.opsets.weights import graphs_of

DOCUMENT, RUNTIME = INTERPRETATIONS = ("document", "runtime")

LOOP_CONDITION = "loop_condition"
"""Metadata key for the reading of an ambiguous loop, at the node and at the body in MDF."""

_TRUTH_PRESERVING_OPERATORS = ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten")
"""Operators whose result is true if the first input is true."""


class AmbiguousLoop(Struct, frozen=True):
    """Imported ONNX loop for which it is unclear whether the condition of its body ends the loop."""

    loop_name: str
    mdf_path: str
    condition_output: str
    has_trip_count: bool
    interpretation: str  # "document" or "runtime"

    @property
    def note(self) -> str:
        """Explanation of the two possible interpretations of the loop's condition."""
        iterations_text = "runs all M iterations" if self.has_trip_count else "never ends"
        return (
            f"the loop '{self.loop_name}' has no condition input, but its body computes the condition "
            f"'{self.condition_output}'. By the ONNX document the loop ignores the condition and {iterations_text} "
            f"(loop_condition='{DOCUMENT}'). ONNX Runtime ends the loop when the condition is false "
            f"(loop_condition='{RUNTIME}'). It is read as '{self.interpretation}'"
        )

    @property
    def warning(self) -> str:
        """One-line warning with the explanation and the path of the loop."""
        return f"{self.note}, at {self.mdf_path}"


# --- in the ONNX model ------------------------------------------------------------------------


def mark_ambiguous_loops(model: onnx.ModelProto, interpretation: str) -> None:
    """Mark each ambiguous loop of an ONNX model with the chosen interpretation of its condition.

    The interpretation `reading` is written into the metadata of the Loop. The model is at the package's opset.
    """
    if not any(
        _has_no_condition_input(node) for graph in graphs_of(model.graph) for node in graph.node
    ):
        return
    opset_version = next(opset.version for opset in model.opset_import if opset.domain == "")
    typed_model = onnx.ModelProto()
    typed_model.CopyFrom(model)
    _mark_loops(
        model.graph,
        _TrueValues(Facts(infer_types(typed_model).graph, opset_version)),
        interpretation,
    )


def interpretation_of(node: onnx.NodeProto) -> str | None:
    """Return the interpretation of a Loop's condition in the node's metadata, or None.

    `mark_ambiguous_loops` writes the interpretation.
    """
    return next(
        (
            metadata_entry.value
            for metadata_entry in node.metadata_props
            if metadata_entry.key == LOOP_CONDITION
        ),
        None,
    )


def _has_no_condition_input(node: onnx.NodeProto) -> bool:
    """Return True if the node is a Loop without a condition input."""
    return node.op_type == "Loop" and not (len(node.input) > 1 and node.input[1])


class _TrueValues(Struct, frozen=True):
    """Boolean values of an ONNX graph that are true in every run."""

    facts: Facts  # types and constants of the graph
    true_names: frozenset[str] = frozenset()  # names of values that are known to be true

    def values_in_body(self, body: onnx.GraphProto, *true_names: str) -> _TrueValues:
        """Return the always-true values of a body graph, provided that `true_names` are true."""
        input_names = {value.name for value in body.input}
        true_value_names = (self.true_names - input_names) | frozenset(true_names)
        return _TrueValues(Facts(body, self.facts.version, self.facts), true_value_names)

    def is_always_true(self, name: str) -> bool:
        """Return True if the value is true in every run."""
        defining_graph_facts = self.facts.defining_facts(name)
        if name in self.true_names and (
            defining_graph_facts is None or name not in defining_graph_facts.producer_by_name
        ):
            return True
        constant_array = self.facts.constant_array(name)
        if constant_array is not None:
            return bool(constant_array.astype(bool).all())
        producer = (
            defining_graph_facts.producer_by_name.get(name)
            if defining_graph_facts is not None
            else None
        )
        return producer is not None and not producer.domain and self._returns_true(producer, name)

    def _returns_true(self, node: onnx.NodeProto, name: str) -> bool:
        if node.op_type in _TRUTH_PRESERVING_OPERATORS:
            return self.is_always_true(node.input[0])
        if node.op_type in ("And", "Or"):
            inputs_are_true = map(self.is_always_true, node.input)
            return all(inputs_are_true) if node.op_type == "And" else any(inputs_are_true)
        if node.op_type == "If":
            output_index = list(node.output).index(name)
            branch_graphs = (attribute.g for attribute in node.attribute)
            return all(
                self.values_in_body(branch).is_always_true(branch.output[output_index].name)
                for branch in branch_graphs
            )
        return False


def _mark_loops(graph: onnx.GraphProto, true_values: _TrueValues, interpretation: str) -> None:
    """Mark the ambiguous loops of a graph and its bodies with the given interpretation.

    `truths` belong to a copy with inferred types.
    """
    for node, typed_node in zip(graph.node, true_values.facts.graph.node, strict=True):
        bodies = (attribute.g for attribute in node.attribute if attribute.HasField("g"))
        typed_bodies = (
            attribute.g for attribute in typed_node.attribute if attribute.HasField("g")
        )
        for body, typed_body in zip(bodies, typed_bodies, strict=True):
            true_body_inputs = [body.input[1].name] if node.op_type == "Loop" else []
            true_body_values = true_values.values_in_body(typed_body, *true_body_inputs)
            if _has_no_condition_input(node) and not true_body_values.is_always_true(
                body.output[0].name
            ):
                true_body_values = true_values.values_in_body(typed_body)
                if not _runs_once(node, true_values.facts):
                    node.metadata_props.add(key=LOOP_CONDITION, value=interpretation)
            _mark_loops(body, true_body_values, interpretation)


def _runs_once(loop: onnx.NodeProto, facts: Facts) -> bool:
    """Return True if a loop has a constant trip count of at most 1.

    The condition of such a loop has no effect.
    """
    trip_count = facts.constant_array(loop.input[0]) if loop.input and loop.input[0] else None
    return trip_count is not None and trip_count.size == 1 and int(trip_count.reshape(())) <= 1


# --- in the MDF document ----------------------------------------------------------------------


def ambiguous_loops(content: Mapping[str, Any]) -> Iterator[AmbiguousLoop]:
    """Yield the imported loops for which it is unclear whether the condition ends the loop.

    Outer loops come first.
    """
    for model in content.values():
        for graph_index, graph in enumerate(model.get("graphs", {}).values()):
            yield from _loops_in_graph(graph, f"$.graphs[{graph_index}]")


def _loops_in_graph(graph: Mapping[str, Any], graph_path: str) -> Iterator[AmbiguousLoop]:
    for node_id, node in (graph.get("nodes") or {}).items():
        for function_id, function in (node.get("functions") or {}).items():
            function_arguments = function.get("args")
            if isinstance(function_arguments, Mapping):
                function_path = f"{graph_path}.nodes['{node_id}'].functions['{function_id}']"
                yield from _loops_in_function(
                    f"{node_id}.{function_id}", function_arguments, function_path
                )


def _loops_in_function(
    loop_name: str, function_arguments: Mapping[str, Any], function_path: str
) -> Iterator[AmbiguousLoop]:
    """Yield each loop with two readings of its condition: the function itself, and loops in its graphs."""
    for argument_name, argument in function_arguments.items():
        body_contents = [*argument.values()] if isinstance(argument, Mapping) else []
        if (
            len(body_contents) != 1
            or not isinstance(body_contents[0], Mapping)
            or "nodes" not in body_contents[0]
        ):
            continue
        body_metadata = body_contents[0].get("metadata") or {}
        if body_metadata.get(LOOP_CONDITION) in INTERPRETATIONS and body_metadata.get("outputs"):
            condition_output, condition_interpretation = (
                str(body_metadata["outputs"][0]),
                body_metadata[LOOP_CONDITION],
            )
            yield AmbiguousLoop(
                loop_name,
                function_path,
                condition_output,
                function_arguments.get("M") is not None,
                condition_interpretation,
            )
        yield from _loops_in_graph(body_contents[0], f"{function_path}.args.{argument_name}")
