"""Access to one OpenVINO layer for its translator to ONNX, and the table of translators.

@layer("Add")
def add(call: Call) -> Result:
return op("Add", call.input(0), call.input(1))
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
from mdf_loop.importing.openvino.place import NetworkWriter, OnnxOp, Term, op
from mdf_loop.ir import Array
from mdf_loop.ir.types import element_type

Result: TypeAlias = Term | tuple[Term, ...]
"""Output of a layer, or a tuple with one output for each port."""

Translator: TypeAlias = "Callable[[LayerCall], Result]"

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


def unary(op_type: str) -> Translator:
    """Return a translator for a layer that is equivalent to an ONNX operator with one input."""
    return lambda call: op(op_type, call.input(0))


class LayerCall(Struct, frozen=True):
    """OpenVINO layer during its translation to ONNX, with access to its inputs and attributes."""

    layer: Layer
    writer: NetworkWriter

    # --- inputs ---------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of inputs of the layer."""
        return len(self.layer.inputs)

    def input(self, position: int) -> str:
        """Return the name of the value at an input of the layer."""
        if position >= self.count:
            raise ModelError(
                f"a {self.layer.type} needs {position + 1} inputs, but has {self.count}",
                self.layer.where,
            )
        return self.writer.source(self.layer, position)

    def optional(self, position: int) -> str | None:
        """Return the name of the value at an input, or None if the layer has fewer inputs."""
        return self.input(position) if position < self.count else None

    def required_inputs(self, count: int) -> list[str]:
        """Return the names of the values at the first `count` inputs, which are required."""
        return [self.input(k) for k in range(count)]

    def inputs(self) -> list[str]:
        """Return the names of the values at all inputs of the layer."""
        return [self.input(k) for k in range(self.count)]

    def dtype(self, position: int = 0) -> str:
        """Return the dtype of the value at an input."""
        dtype_name = self.writer.dtypes.get(self.input(position), "")
        if not dtype_name:
            raise ModelError(
                f"the file does not state the type of input {position}", self.layer.where
            )
        return dtype_name

    def is_float(self, position: int = 0) -> bool:
        """Return True if the value at an input has a floating-point dtype."""
        return "float" in self.dtype(position)

    def is_of(self, position: int, *dtypes: str) -> bool:
        """Return True if the file declares one of `dtypes` for the value at an input."""
        return self.writer.dtypes.get(self.input(position)) in dtypes

    def shape(self, position: int = 0) -> Extents:
        """Return the shape of the value at an input, or None if even its rank is unknown."""
        return self.writer.shapes.get(self.input(position))

    def rank(self, position: int = 0) -> int:
        """Return the number of axes of the value at an input.

        Raises:
            UnsupportedError: The file does not state the rank.
        """
        shape = self.shape(position)
        if shape is None:
            raise self.unsupported(f"needs input {position} of known rank")
        return len(shape)

    def length(self, position: int, what: str) -> int:
        """Return the length of an input that lists positions, axes or repeats.

        Raises:
            UnsupportedError: The file does not state the length.
        """
        shape = self.shape(position)
        if shape is None or len(shape) > 1 or (shape and shape[0] is None):
            raise self.unsupported(f"needs a known number of {what}")
        element_count = int(shape[0] or 0) if shape else 1
        if element_count > MAX_AXES:
            raise ModelError(f"{element_count} are too many {what}", self.layer.where)
        return element_count

    def constant_value(self, position: int) -> Array | None:
        """Return the array at an input if the input is constant, else None."""
        return self.writer.constants.get(self.input(position))

    def require_constant(self, position: int, what: str) -> Array:
        """Return the array at an input that must be constant, because ONNX has an attribute for it.

        Raises:
            UnsupportedError: The numbers are only known at run time.
        """
        array = self.constant_value(position)
        if array is None:
            raise self.unsupported(f"has its {what} (input {position}) only at run time")
        return array

    def axis(self, position: int, what: str = "axis") -> int:
        """Return the axis number that a constant input contains."""
        array = self.require_constant(position, what)
        if array.size != 1:
            raise ModelError(f"the {what} must be one number, not {array.size}", self.layer.where)
        return int(array.reshape(())[()])

    def number(self, value: float, position: int = 0) -> Array:
        """Build a scalar constant with the same dtype as an input of the layer."""
        return np.array(value, numpy_dtype(self.dtype(position)))

    def int64(self, position: int) -> Term:
        """Return an input as an int64 vector, which ONNX requires for shapes, axes and counts."""
        array = self.constant_value(position)
        if array is not None:
            return array.astype(np.int64).reshape(-1)
        vector: Term = self.input(position)
        if not self.is_of(position, "int64"):
            vector = cast(vector, "int64")
        shape = self.shape(position)
        return (
            vector
            if shape is not None and len(shape) == 1
            else op("Reshape", vector, int64_array(-1))
        )

    # --- attributes -----------------------------------------------------------------------------

    def text(self, key: str, default: str | None = None) -> str:
        """Return a layer attribute as text in lower case."""
        attribute_text = self.layer.attributes.get(key, default)
        if attribute_text is None:
            raise ModelError(f"the attribute '{key}' is missing", self.layer.where)
        return attribute_text.strip().lower()

    def read_integer(self, key: str, default: int | None = None) -> int:
        """Return a layer attribute as an integer."""
        return read_integer(
            self.text(key, None if default is None else str(default)), key, self.layer.where
        )

    def read_integers(self, key: str, default: str | None = None) -> tuple[int, ...]:
        """Return a layer attribute, a list separated by commas, as a tuple of integers."""
        return read_integers(self.text(key, default), key, self.layer.where)

    def read_float(self, key: str, default: float | None = None) -> float:
        """Return a layer attribute as a float."""
        number_text = self.text(key, None if default is None else repr(default))
        try:
            number = float(number_text)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ModelError(
                f"'{key}' must be a number, not '{number_text[:40]}'", self.layer.where
            )
        return number

    def read_bool(self, key: str, default: bool | None = None) -> bool:
        """Return a layer attribute as a bool."""
        flag_text = self.text(key, None if default is None else str(default))
        if flag_text not in ("true", "false", "1", "0"):
            raise ModelError(
                f"'{key}' must be true or false, not '{flag_text[:40]}'", self.layer.where
            )
        return flag_text in ("true", "1")

    def choice(self, key: str, meanings: dict[str, T], default: str | None = None) -> T:
        """Read a layer attribute and look up its text in the dict `meanings`.

        Raises:
            UnsupportedError: The word is not in `meanings`.
        """
        choice_text = self.text(key, default)
        if choice_text not in meanings:
            raise self.unsupported(f"with {key}='{choice_text}' cannot be read")
        return meanings[choice_text]

    # --- results --------------------------------------------------------------------------------

    def unsupported(self, reason: str) -> UnsupportedError:
        """Return the error that reports a layer without an ONNX equivalent."""
        opset_text = f" ({self.layer.opset})" if self.layer.opset else ""
        return UnsupportedError(
            f"the layer type {self.layer.type}{opset_text} {reason}", self.layer.where
        )


def cast(value: Term, dtype: str) -> OnnxOp:
    """Build an ONNX Cast of a value to another dtype."""
    return op("Cast", value, to=element_type(dtype))


def int64_array(*numbers: int) -> Array:
    """Return integers as the int64 vector that ONNX expects for shapes and axes."""
    return np.array(numbers, np.int64)
