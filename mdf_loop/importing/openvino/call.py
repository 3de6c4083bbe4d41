"""Access to one OpenVINO layer for its translator to ONNX, and the table of translators.

@layer("Add")
def add(layer_call: LayerCall) -> LayerOutputs:
return op("Add", layer_call.input(0), layer_call.input(1))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np
from msgspec import Struct

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.openvino.elements import Extents, numpy_dtype, read_integer, read_integers
from mdf_loop.importing.openvino.network import Layer
from mdf_loop.importing.openvino.network_writer import NetworkWriter, OnnxOp, Term, op
from mdf_loop.ir import Array
from mdf_loop.ir.types import element_type

LayerOutputs: TypeAlias = Term | tuple[Term, ...]
"""Output of a layer, or a tuple with one output for each port."""

Translator: TypeAlias = "Callable[[LayerCall], LayerOutputs]"

MAX_AXES = 1000
"""Maximum length of a list of axes. A longer list is an error of the file."""

TRANSLATORS: dict[str, Translator] = {}
"""Translator of each layer type into ONNX operators."""

T = TypeVar("T")


def layer(*types: str) -> Callable[[Translator], Translator]:
    """Register the decorated function as the ONNX translator of the OpenVINO layer types `types`."""

    def register(translator: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(types, translator))
        return translator

    return register


def unary(onnx_op_type: str) -> Translator:
    """Return a translator for a layer that is equivalent to an ONNX operator with one input."""
    return lambda layer_call: op(onnx_op_type, layer_call.input(0))


class LayerCall(Struct, frozen=True):
    """OpenVINO layer during its translation to ONNX, with access to its inputs and attributes."""

    layer: Layer
    network_writer: NetworkWriter

    # --- inputs ---------------------------------------------------------------------------------

    @property
    def input_count(self) -> int:
        """Number of inputs of the layer."""
        return len(self.layer.input_ports)

    def input(self, position: int) -> str:
        """Return the name of the value at an input of the layer."""
        if position >= self.input_count:
            raise ModelError(
                f"a {self.layer.type} needs {position + 1} inputs, but has {self.input_count}",
                self.layer.location,
            )
        return self.network_writer.input_name(self.layer, position)

    def optional_input(self, position: int) -> str | None:
        """Return the name of the value at an input, or None if the layer has fewer inputs."""
        return self.input(position) if position < self.input_count else None

    def required_inputs(self, count: int) -> list[str]:
        """Return the names of the values at the first `count` inputs, which are required."""
        return [self.input(k) for k in range(count)]

    def inputs(self) -> list[str]:
        """Return the names of the values at all inputs of the layer."""
        return [self.input(k) for k in range(self.input_count)]

    def dtype(self, position: int = 0) -> str:
        """Return the dtype of the value at an input."""
        dtype_name = self.network_writer.value_dtypes.get(self.input(position), "")
        if not dtype_name:
            raise ModelError(
                f"the file does not state the type of input {position}", self.layer.location
            )
        return dtype_name

    def is_float(self, position: int = 0) -> bool:
        """Return True if the value at an input has a floating-point dtype."""
        return "float" in self.dtype(position)

    def has_declared_dtype(self, position: int, *dtypes: str) -> bool:
        """Return True if the file declares one of `dtypes` for the value at an input."""
        return self.network_writer.value_dtypes.get(self.input(position)) in dtypes

    def shape(self, position: int = 0) -> Extents:
        """Return the shape of the value at an input, or None if even its rank is unknown."""
        return self.network_writer.value_shapes.get(self.input(position))

    def rank(self, position: int = 0) -> int:
        """Return the number of axes of the value at an input.

        Raises:
            UnsupportedError: The file does not state the rank.
        """
        shape = self.shape(position)
        if shape is None:
            raise self.unsupported_error(f"needs input {position} of known rank")
        return len(shape)

    def list_length(self, position: int, list_description: str) -> int:
        """Return the length of an input that lists positions, axes or repeats.

        Raises:
            UnsupportedError: The file does not state the length.
        """
        shape = self.shape(position)
        if shape is None or len(shape) > 1 or (shape and shape[0] is None):
            raise self.unsupported_error(f"needs a known number of {list_description}")
        element_count = int(shape[0] or 0) if shape else 1
        if element_count > MAX_AXES:
            raise ModelError(
                f"{element_count} are too many {list_description}", self.layer.location
            )
        return element_count

    def constant_array(self, position: int) -> Array | None:
        """Return the array at an input if the input is constant, else None."""
        return self.network_writer.constant_arrays.get(self.input(position))

    def require_constant(self, position: int, array_description: str) -> Array:
        """Return the array at an input that must be constant, because ONNX has an attribute for it.

        Raises:
            UnsupportedError: The numbers are only known at run time.
        """
        constant_array = self.constant_array(position)
        if constant_array is None:
            raise self.unsupported_error(
                f"has its {array_description} (input {position}) only at run time"
            )
        return constant_array

    def constant_axis(self, position: int, axis_description: str = "axis") -> int:
        """Return the axis number that a constant input contains."""
        axis_array = self.require_constant(position, axis_description)
        if axis_array.size != 1:
            raise ModelError(
                f"the {axis_description} must be one number, not {axis_array.size}",
                self.layer.location,
            )
        return int(axis_array.reshape(())[()])

    def scalar(self, value: float, position: int = 0) -> Array:
        """Build a scalar constant with the same dtype as an input of the layer."""
        return np.array(value, numpy_dtype(self.dtype(position)))

    def int64_vector(self, position: int) -> Term:
        """Return an input as an int64 vector, which ONNX requires for shapes, axes and counts."""
        constant_array = self.constant_array(position)
        if constant_array is not None:
            return constant_array.astype(np.int64).reshape(-1)
        vector_term: Term = self.input(position)
        if not self.has_declared_dtype(position, "int64"):
            vector_term = cast(vector_term, "int64")
        shape = self.shape(position)
        return (
            vector_term
            if shape is not None and len(shape) == 1
            else op("Reshape", vector_term, int64_array(-1))
        )

    # --- attributes -----------------------------------------------------------------------------

    def read_text(self, key: str, default: str | None = None) -> str:
        """Return a layer attribute as text in lower case."""
        attribute_text = self.layer.attributes.get(key, default)
        if attribute_text is None:
            raise ModelError(f"the attribute '{key}' is missing", self.layer.location)
        return attribute_text.strip().lower()

    def read_integer(self, key: str, default: int | None = None) -> int:
        """Return a layer attribute as an integer."""
        return read_integer(
            self.read_text(key, None if default is None else str(default)), key, self.layer.location
        )

    def read_integers(self, key: str, default: str | None = None) -> tuple[int, ...]:
        """Return a layer attribute, a list separated by commas, as a tuple of integers."""
        return read_integers(self.read_text(key, default), key, self.layer.location)

    def read_float(self, key: str, default: float | None = None) -> float:
        """Return a layer attribute as a float."""
        number_text = self.read_text(key, None if default is None else repr(default))
        try:
            parsed_number = float(number_text)
        except ValueError:
            parsed_number = math.nan
        if math.isnan(parsed_number):
            raise ModelError(
                f"'{key}' must be a number, not '{number_text[:40]}'", self.layer.location
            )
        return parsed_number

    def read_bool(self, key: str, default: bool | None = None) -> bool:
        """Return a layer attribute as a bool."""
        flag_text = self.read_text(key, None if default is None else str(default))
        if flag_text not in ("true", "false", "1", "0"):
            raise ModelError(
                f"'{key}' must be true or false, not '{flag_text[:40]}'", self.layer.location
            )
        return flag_text in ("true", "1")

    def read_choice(self, key: str, meanings: dict[str, T], default: str | None = None) -> T:
        """Read a layer attribute and look up its text in the dict `meanings`.

        Raises:
            UnsupportedError: The word is not in `meanings`.
        """
        choice_text = self.read_text(key, default)
        if choice_text not in meanings:
            raise self.unsupported_error(f"with {key}='{choice_text}' cannot be read")
        return meanings[choice_text]

    # --- results --------------------------------------------------------------------------------

    def unsupported_error(self, reason: str) -> UnsupportedError:
        """Return the error that reports a layer without an ONNX equivalent."""
        opset_text = f" ({self.layer.opset})" if self.layer.opset else ""
        return UnsupportedError(
            f"the layer type {self.layer.type}{opset_text} {reason}", self.layer.location
        )


def cast(value: Term, dtype: str) -> OnnxOp:
    """Build an ONNX Cast of a value to another dtype."""
    return op("Cast", value, to=element_type(dtype))


def int64_array(*numbers: int) -> Array:
    """Return integers as the int64 vector that ONNX expects for shapes and axes."""
    return np.array(numbers, np.int64)
