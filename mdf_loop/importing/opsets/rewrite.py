"""One node on its way to the next opset: what it is, what is known, the nodes that replace it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mdf_loop.errors import UnsupportedError
from mdf_loop.importing.opsets.facts import Facts, attribute_of
from mdf_loop.importing.opsets.names import Names
from mdf_loop.importing.opsets.weights import graphs_of
from mdf_loop.ir import Array
from mdf_loop.ops.onnx_schema import attribute_protos


class Rewrite:
    """Collects in `made` what stands for `node` one opset further."""

    def __init__(
        self, node: onnx.NodeProto, facts: Facts, names: Names, version: int, where: str
    ) -> None:
        self.node, self.facts, self.names = node, facts, names
        self.version, self.where = version, where
        self.made: list[onnx.NodeProto] = []

    # what the node is

    def input(self, index: int) -> str:
        """The name of an input, "" where there is none."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def output(self, index: int = 0) -> str:
        """The name of an output, "" where nobody wants it."""
        return self.node.output[index] if index < len(self.node.output) else ""

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute as it is written."""
        return attribute_of(self.node, name, default)

    # what is known of values

    def dtype(self, name: str) -> int:
        """The element type of a value; refuses if nobody knows it."""
        found = self.facts.dtype(name)
        if not found:
            self.refuse(f"the element type of '{name}' is not known")
        return found

    def rank(self, name: str) -> int:
        """The number of axes of a value; refuses if nobody knows it."""
        shape = self.facts.shape(name)
        if shape is None:
            self.refuse(f"the number of axes of '{name}' is not known")
        return len(shape)

    def numbers(self, name: str) -> list[int]:
        """The whole numbers of a value that must be known now; refuses if they are not."""
        found = self.facts.value(name)
        if found is None:
            self.refuse(f"'{name}' is only known when the model runs")
        return [int(number) for number in found.reshape(-1)]

    def is_read(self, name: str) -> bool:
        """Return True if a node, or an output of a graph, reads a value of this node."""
        graphs = tuple(graphs_of(self.facts.graph))
        outputs = (output.name for graph in graphs for output in graph.output)
        inputs = (each for graph in graphs for node in graph.node for each in node.input)
        return bool(name) and (name in outputs or name in inputs)

    # what replaces it

    def make(self, op_type: str, inputs: Sequence[str], to: str = "", **attributes: Any) -> str:
        """Add a node with one output (named `to`); returns the name of the output."""
        return self.make_all(op_type, inputs, [to or self.between(op_type)], **attributes)[0]

    def make_all(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> Sequence[str]:
        """Add a node; None among the attributes stands for absent."""
        given = {key: value for key, value in attributes.items() if value is not None}
        ours = set(outputs) & set(self.node.output) - {""}
        name = self.node.name if ours else ""
        node = helper.make_node(op_type, list(inputs), list(outputs), name)
        node.attribute.extend(attribute_protos(op_type, given))
        self.made.append(node)
        return outputs

    def constant(self, array: Array) -> str:
        """Add a constant; returns its name."""
        name = self.between("constant")
        tensor = numpy_helper.from_array(array)
        self.made.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def ints(self, numbers: Sequence[int]) -> str:
        """Add a constant list of whole numbers; returns its name."""
        return self.constant(np.array(numbers, dtype=np.int64))

    def cast(self, name: str, dtype: int, to: str = "") -> str:
        """Add a cast (`to` of `make` is the name of the output, not the attribute)."""
        name_out = to or self.between("Cast")
        own = self.node.name if to else ""
        self.made.append(helper.make_node("Cast", [name], [name_out], own, to=dtype))
        return name_out

    def keep(
        self,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        *,
        drop: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        """Add the node itself with other inputs, outputs or attributes."""
        kept = onnx.NodeProto()
        kept.CopyFrom(self.node)
        if inputs is not None:
            kept.input[:] = _without_tail(inputs)
        if outputs is not None:
            kept.output[:] = outputs
        gone = {*drop, *attributes}
        stays = [a for a in kept.attribute if a.name not in gone]
        del kept.attribute[:]
        kept.attribute.extend(stays)
        kept.attribute.extend(attribute_protos(self.node.op_type, attributes))
        self.made.append(kept)

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        """This node cannot be said at our opset."""
        raise UnsupportedError(
            f"{self.node.op_type} of opset {self.version}: {what}", self.where, hint
        )

    def between(self, word: str) -> str:
        """A name for a value between this node's inputs and outputs."""
        base = self.node.name or next((name for name in self.node.output if name), "")
        return self.names.fresh(f"{base}_{word}")


Step = Callable[[Rewrite], None]
Question = Callable[[Rewrite], bool]


def _without_tail(inputs: Sequence[str]) -> list[str]:
    kept = list(inputs)
    while kept and not kept[-1]:
        kept.pop()
    return kept
