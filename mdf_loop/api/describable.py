"""Descriptions of a compiled model's inputs, parameters, states and outputs."""

from __future__ import annotations

from collections.abc import Mapping

from mdf_loop.api.description import Description, ModelDescription
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.cached_property import cached_property
from mdf_loop.errors import LoopError
from mdf_loop.public_call import public_calls
from mdf_loop.text_escaping import escape_control_characters


@public_calls
class Describable:
    """Compiled model with descriptions of its inputs, parameters, states and outputs."""

    prepared: PreparedModel

    @cached_property
    def _description(self) -> ModelDescription:
        """Description of the model's inputs, parameters, states and outputs, cached."""
        return ModelDescription.of(self.prepared)

    @property
    def inputs(self) -> Mapping[str, Description]:
        """Descriptions of the model's inputs by port id (`node.port` where ambiguous)."""
        return self._description.inputs

    @property
    def parameters(self) -> Mapping[str, Description]:
        """Descriptions of the parameters that are no states, by `node.parameter`."""
        return self._description.parameters

    @property
    def states(self) -> Mapping[str, Description]:
        """Descriptions of the states, which keep a value between evaluations, by `node.parameter`."""
        return self._description.states

    @property
    def outputs(self) -> Mapping[str, Description]:
        """Descriptions of the model's outputs by `node.port`."""
        return self._description.outputs

    def __repr__(self) -> str:
        try:
            return str(self._description)
        except LoopError as error:
            return f"model '{escape_control_characters(self.prepared.document.name)}', which cannot be evaluated: {error}"

    def _repr_html_(self) -> str | None:
        try:
            return self._description.to_html()
        except LoopError:
            return None  # a notebook shows the text
