"""Back end that evaluates a model document with modeci_mdf's engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.document.document import Document
from mdf_loop.ir import Data
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.names import Item, find_item, items
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.device import Device
from mdf_loop.run.modeci.engine_graph import EngineGraph

_ITEM_TABLES = {
    "output_ports": "evaluable_outputs",
    "parameters": "evaluable_parameters",
    "functions": "evaluable_functions",
}


class Evaluations:
    """Consecutive evaluations of a document by modeci_mdf's engine, with persistent state.

    Attributes:
        engine: Graph of the document in the engine.
        recorded_items: Ports and parameters that each run returns.
        are_outputs_named: True if the caller named the recorded items.
        executed_sets: Sets of nodes that ran in each evaluation.
    """

    device = Device("cpu", "modeci_mdf's engine computes there")

    def __init__(
        self,
        document: Document | EngineGraph,
        record: Sequence[str] | None = None,
        dt: float | None = None,
        seed: int = 0,
    ) -> None:
        """Load a document (or an `EngineGraph`), with `dt` as the time between evaluations."""
        self.engine = EngineGraph(document, seed) if isinstance(document, Document) else document
        model = self.engine.document
        self.recorded_items = (
            items(model) if record is None else [find_item(model, name) for name in record]
        )
        self.are_outputs_named = record is not None
        self._dt = dt
        self.executed_sets: list[tuple[tuple[str, ...], ...]] = []
        self._ports = {port.name: (port.node, port.port.id) for port in open_ports(model)}

    def run(self, arrays: Mapping[str, Data], stopping: Stopping | None = None) -> dict[str, Data]:
        """Run the next evaluation, and return the recorded ports and parameters by name.

        `arrays` has the values of open input ports.

        Items without a value are None. A port without a value in `arrays` has the engine's default.

        Raises:
            RunError: The engine failed. The message is the engine's own, with the place.
            Stopped: `stopping` has ended the run before this evaluation.
        """
        if stopping is not None and stopping.reason is not None:
            raise Stopped
        for name, array in arrays.items():
            node, port = self._ports[name]
            self.engine.nodes[node].evaluable_inputs[port].curr_value = np.array(array)
        self.executed_sets.append(self.engine.evaluate(self._dt if self.executed_sets else None))
        return {item.name: self._copy_value(item) for item in self.recorded_items}

    def _copy_value(self, item: Item) -> Any:
        """Return a copy of the current value of a port or parameter.

        The engine may change the array later.
        """
        evaluable_part = getattr(self.engine.nodes[item.node], _ITEM_TABLES[item.node_field]).get(
            item.id
        )
        current_value = getattr(evaluable_part, "curr_value", None)
        return current_value.copy() if isinstance(current_value, np.ndarray) else current_value
