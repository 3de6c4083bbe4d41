"""Builder of the nodes that replace one ONNX node at the next opset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mdf_loop.errors import UnsupportedError
from mdf_loop.importing.opsets.facts import Facts, attribute_of
from mdf_loop.importing.opsets.names import NameGenerator
from mdf_loop.importing.opsets.weights import graphs_of
from mdf_loop.ir import Array
from mdf_loop.ops.onnx_schema import attribute_protos


class Rewrite:
    """Builder of the nodes that replace `node` at the next opset.

    The replacement is collected in `replacement`.
    """

    def __init__(
        self, node: onnx.NodeProto, facts: Facts, names: NameGenerator, version: int, where: str
    ) -> None:
        self.node, self.facts, self.name_generator = node, facts, names
        self.version, self.node_path = version, where
        self.replacement: list[onnx.NodeProto] = []

    # the node

    def input(self, index: int) -> str:
        """Return the name of the node's input, or "" if the input is absent."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def output(self, index: int = 0) -> str:
        """Return the name of the node's output, or "" if the output is unused."""
        return self.node.output[index] if index < len(self.node.output) else ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value, or `default` if the node lacks the attribute."""
        return attribute_of(self.node, name, default)

    # facts about values

    def dtype(self, name: str) -> int:
        """Return the element type of a value, or raise UnsupportedError if the type is unknown."""
        element_type_number = self.facts.dtype(name)
        if not element_type_number:
            self.refuse(f"the element type of '{name}' is not known")
        return element_type_number

    def rank(self, name: str) -> int:
        """Return the number of axes of a value, or raise UnsupportedError if the rank is unknown."""
        shape = self.facts.shape(name)
        if shape is None:
            self.refuse(f"the number of axes of '{name}' is not known")
        return len(shape)

    def constant_integers(self, name: str) -> list[int]:
        """Return the integers of a constant, or raise UnsupportedError if the value varies."""
        constant_array = self.facts.constant_array(name)
        if constant_array is None:
            self.refuse(f"'{name}' is only known when the model runs")
        return [int(number) for number in constant_array.reshape(-1)]

    def is_read(self, name: str) -> bool:
        """Return True if a value is an input of any node or an output of any graph."""
        graphs = tuple(graphs_of(self.facts.graph))
        graph_outputs = (graph_output.name for graph in graphs for graph_output in graph.output)
        node_inputs = (
            input_name for graph in graphs for node in graph.node for input_name in node.input
        )
        return bool(name) and (name in graph_outputs or name in node_inputs)

    # the replacement

    def add_node(self, op_type: str, inputs: Sequence[str], to: str = "", **attributes: Any) -> str:
        """Add a node with one output to the replacement, and return the name of the output.

        The name of the output is `to` if stated.
        """
        return self.add_node_with_outputs(
            op_type, inputs, [to or self.intermediate_name(op_type)], **attributes
        )[0]

    def add_node_with_outputs(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> Sequence[str]:
        """Add a node with several outputs to the replacement, and return the output names.

        Attributes with the value None are omitted.
        """
        stated_attributes = {
            attribute_name: attribute_value
            for attribute_name, attribute_value in attributes.items()
            if attribute_value is not None
        }
        original_outputs = set(outputs) & set(self.node.output) - {""}
        node_name = self.node.name if original_outputs else ""
        node = helper.make_node(op_type, list(inputs), list(outputs), node_name)
        node.attribute.extend(attribute_protos(op_type, stated_attributes))
        self.replacement.append(node)
        return outputs

    def add_constant(self, array: Array) -> str:
        """Add a constant array to the replacement, and return the name of the constant."""
        constant_name = self.intermediate_name("constant")
        constant_tensor = numpy_helper.from_array(array)
        self.replacement.append(
            helper.make_node("Constant", [], [constant_name], value=constant_tensor)
        )
        return constant_name

    def add_integers(self, numbers: Sequence[int]) -> str:
        """Add a constant list of integers to the replacement, and return the constant's name."""
        return self.add_constant(np.array(numbers, dtype=np.int64))

    def add_cast(self, name: str, dtype: int, to: str = "") -> str:
        """Add a Cast to the replacement, and return the name of the Cast's output.

        The name of the output is `to` if stated.
        """
        output_name = to or self.intermediate_name("Cast")
        node_name = self.node.name if to else ""
        self.replacement.append(
            helper.make_node("Cast", [name], [output_name], node_name, to=dtype)
        )
        return output_name

    def add_copy(
        self,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        *,
        drop: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        """Add a copy of the original node with changed inputs, outputs or attributes."""
        node_copy = onnx.NodeProto()
        node_copy.CopyFrom(self.node)
        if inputs is not None:
            node_copy.input[:] = _without_trailing_empty(inputs)
        if outputs is not None:
            node_copy.output[:] = outputs
        removed_attributes = {*drop, *attributes}
        remaining_attributes = [
            attribute
            for attribute in node_copy.attribute
            if attribute.name not in removed_attributes
        ]
        del node_copy.attribute[:]
        node_copy.attribute.extend(remaining_attributes)
        node_copy.attribute.extend(attribute_protos(self.node.op_type, attributes))
        self.replacement.append(node_copy)

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        """Raise UnsupportedError, because the node has no equivalent at the package's opset."""
        raise UnsupportedError(
            f"{self.node.op_type} of opset {self.version}: {reason}", self.node_path, hint
        )

    def intermediate_name(self, suffix: str) -> str:
        """Return a new name for an intermediate value of the nodes that replace the old node."""
        name_prefix = self.node.name or next((name for name in self.node.output if name), "")
        return self.name_generator.unique_name(f"{name_prefix}_{suffix}")


Conversion = Callable[[Rewrite], None]
RewriteCondition = Callable[[Rewrite], bool]


def _without_trailing_empty(inputs: Sequence[str]) -> list[str]:
    input_names = list(inputs)
    while input_names and not input_names[-1]:
        input_names.pop()
    return input_names
