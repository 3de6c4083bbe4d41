"""One layer as a translator sees it: its inputs, their types, its attributes; and the table.

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
from mdf_loop.importing.openvino.elements import Extents, numpy_dtype, whole, wholes
from mdf_loop.importing.openvino.network import Layer
from mdf_loop.importing.openvino.place import OnnxOp, Place, Term, op
from mdf_loop.ir import Array
from mdf_loop.ir.types import element_type

Result: TypeAlias = Term | tuple[Term, ...]
"""What a layer gives: one value, or one for each of its output ports."""

Translator: TypeAlias = "Callable[[Call], Result]"

MOST_AXES = 1000
"""No list of axes is longer: it says what is broken before it takes memory."""

LAYERS: dict[str, Translator] = {}
"""Layer type -> what it means in ONNX operators."""

T = TypeVar("T")


def layer(*types: str) -> Callable[[Translator], Translator]:
    """Register the translator of these layer types."""

    def register(translator: Translator) -> Translator:
        LAYERS.update(dict.fromkeys(types, translator))
        return translator

    return register


def unary(op_type: str) -> Translator:
    """The translator of a layer that is this operator of its one input."""
    return lambda call: op(op_type, call.input(0))


class Call(Struct, frozen=True):
    """A layer and the place it stands in."""

    layer: Layer
    place: Place

    # --- inputs ---------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many inputs it has."""
        return len(self.layer.inputs)

    def input(self, position: int) -> str:
        """The name of an input's value."""
        if position >= self.count:
            raise ModelError(
                f"a {self.layer.type} needs {position + 1} inputs, but has {self.count}",
                self.layer.where,
            )
        return self.place.source(self.layer, position)

    def optional(self, position: int) -> str | None:
        """The name of an input's value; None if the layer has not so many."""
        return self.input(position) if position < self.count else None

    def first(self, count: int) -> list[str]:
        """The names of the inputs that it must have."""
        return [self.input(k) for k in range(count)]

    def inputs(self) -> list[str]:
        """The names of all inputs."""
        return [self.input(k) for k in range(self.count)]

    def dtype(self, position: int = 0) -> str:
        """The dtype of an input."""
        found = self.place.dtypes.get(self.input(position), "")
        if not found:
            raise ModelError(
                f"the file does not state the type of input {position}", self.layer.where
            )
        return found

    def is_float(self, position: int = 0) -> bool:
        """Whether an input is of floats."""
        return "float" in self.dtype(position)

    def is_of(self, position: int, *dtypes: str) -> bool:
        """Whether the file says that an input has one of these dtypes."""
        return self.place.dtypes.get(self.input(position)) in dtypes

    def shape(self, position: int = 0) -> Extents:
        """The shape of an input; None if even its rank is open."""
        return self.place.shapes.get(self.input(position))

    def rank(self, position: int = 0) -> int:
        """How many axes an input has.

        Raises:
            UnsupportedError: the file leaves it open.
        """
        shape = self.shape(position)
        if shape is None:
            raise self.refused(f"needs input {position} of known rank")
        return len(shape)

    def length(self, position: int, what: str) -> int:
        """How many entries a list of positions, axes or repeats has.

        Raises:
            UnsupportedError: the file leaves it open.
        """
        shape = self.shape(position)
        if shape is None or len(shape) > 1 or (shape and shape[0] is None):
            raise self.refused(f"needs a known number of {what}")
        count = int(shape[0] or 0) if shape else 1
        if count > MOST_AXES:
            raise ModelError(f"{count} are too many {what}", self.layer.where)
        return count

    def known(self, position: int) -> Array | None:
        """The numbers of an input, if they are constant."""
        return self.place.known.get(self.input(position))

    def fixed(self, position: int, what: str) -> Array:
        """The numbers of an input that ONNX wants as an attribute.

        Raises:
            UnsupportedError: they are only known at run time.
        """
        found = self.known(position)
        if found is None:
            raise self.refused(f"has its {what} (input {position}) only at run time")
        return found

    def axis(self, position: int, what: str = "axis") -> int:
        """One constant whole number."""
        found = self.fixed(position, what)
        if found.size != 1:
            raise ModelError(f"the {what} must be one number, not {found.size}", self.layer.where)
        return int(found.reshape(())[()])

    def number(self, value: float, position: int = 0) -> Array:
        """A number in the dtype of an input."""
        return np.array(value, numpy_dtype(self.dtype(position)))

    def int64(self, position: int) -> Term:
        """An input as whole numbers for ONNX's shapes, axes and counts: int64, one axis."""
        found = self.known(position)
        if found is not None:
            return found.astype(np.int64).reshape(-1)
        value: Term = self.input(position)
        if not self.is_of(position, "int64"):
            value = cast(value, "int64")
        shape = self.shape(position)
        return (
            value if shape is not None and len(shape) == 1 else op("Reshape", value, whole_list(-1))
        )

    # --- attributes -----------------------------------------------------------------------------

    def text(self, key: str, default: str | None = None) -> str:
        """An attribute as it is written, in small letters."""
        found = self.layer.attributes.get(key, default)
        if found is None:
            raise ModelError(f"the attribute '{key}' is missing", self.layer.where)
        return found.strip().lower()

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        return whole(
            self.text(key, None if default is None else str(default)), key, self.layer.where
        )

    def wholes(self, key: str, default: str | None = None) -> tuple[int, ...]:
        """Whole numbers with commas between them."""
        return wholes(self.text(key, default), key, self.layer.where)

    def real(self, key: str, default: float | None = None) -> float:
        """A number."""
        text = self.text(key, None if default is None else repr(default))
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ModelError(f"'{key}' must be a number, not '{text[:40]}'", self.layer.where)
        return number

    def truth(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        text = self.text(key, None if default is None else str(default))
        if text not in ("true", "false", "1", "0"):
            raise ModelError(f"'{key}' must be true or false, not '{text[:40]}'", self.layer.where)
        return text in ("true", "1")

    def choice(self, key: str, meanings: dict[str, T], default: str | None = None) -> T:
        """What a word means.

        Raises:
            UnsupportedError: another word is there.
        """
        word = self.text(key, default)
        if word not in meanings:
            raise self.refused(f"with {key}='{word}' cannot be read")
        return meanings[word]

    # --- results --------------------------------------------------------------------------------

    def refused(self, what: str) -> UnsupportedError:
        """The error for what this layer asks and ONNX has not."""
        opset = f" ({self.layer.opset})" if self.layer.opset else ""
        return UnsupportedError(f"the layer type {self.layer.type}{opset} {what}", self.layer.where)


def cast(value: Term, dtype: str) -> OnnxOp:
    """The value in another dtype."""
    return op("Cast", value, to=element_type(dtype))


def whole_list(*numbers: int) -> Array:
    """Whole numbers as ONNX wants shapes and axes."""
    return np.array(numbers, np.int64)
