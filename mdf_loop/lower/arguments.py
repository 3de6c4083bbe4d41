"""Conversion of call arguments in MDF expressions to the parameter types of the called function.

    @names("numpy.sum")
    def total(b: ModelBuilder, a: Value, axis: Axes = None, *, keepdims: bool = False) -> Value

This lowering converts any term to one tensor `a`. `axis` and `keepdims` must be known at compile time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mdf_loop.errors import ExpressionError, OperandError
from mdf_loop.ir import Array, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import Term, tensor
from mdf_loop.ops.build_helpers import ints, scalar

Argument: TypeAlias = "Term | str | None"
"""Argument of a call: a term, a text (also the name of a dtype), or None."""

Axes: TypeAlias = "int | tuple[int, ...] | None"
"""One axis, several, or None for all; known at compile time."""

Extents: TypeAlias = "Value"
"""Shape as an ONNX operand: a vector of integers, known at compile time or not."""

Dtype: TypeAlias = str
"""Name of a dtype."""

DTYPES: Mapping[str, str] = {
    **{
        f"{prefix}{dtype}": dtype
        for prefix in ("", "numpy.")
        for dtype in (
            *("float64", "float32", "float16", "int64", "int32", "int16", "int8"),
            *("uint64", "uint32", "uint16", "uint8"),
        )
    },
    **{"float": "float", "numpy.double": "float64", "numpy.single": "float32"},
    **{"int": "int64", "numpy.int_": "int64", "numpy.intp": "int64", "numpy.half": "float16"},
    **{"bool": "bool", "numpy.bool": "bool", "numpy.bool_": "bool"},
}
"""Spellings of dtypes; `float` is the compilation's precision."""


def known_array(b: ModelBuilder, argument: Argument) -> Array:
    """Return an argument as an array, or raise an error if it is unknown at compile time."""
    constant_array = b.evaluated(_read_tensor(b, argument))
    if constant_array is None:
        raise OperandError(
            "must be known when the model is compiled",
            hint="write a number, or the name of a parameter with a fixed value",
        )
    return constant_array


def _known_scalar_reader(
    kinds: str, description: str, convert: Callable[[Any], Any]
) -> Callable[..., Any]:
    def read(b: ModelBuilder, argument: Argument) -> Any:
        constant_array = known_array(b, argument)
        if constant_array.shape != () or constant_array.dtype.kind not in kinds:
            raise OperandError(f"must be {description}, not {_argument_text(argument)}")
        return convert(constant_array.item())

    return read


def _read_axes(b: ModelBuilder, argument: Argument) -> Axes:
    axis_numbers = known_array(b, argument)
    if axis_numbers.dtype.kind not in "iu" or axis_numbers.ndim > 1:
        raise OperandError(f"must be one whole number or several, not {_argument_text(argument)}")
    return int(axis_numbers) if axis_numbers.ndim == 0 else tuple(axis_numbers.tolist())


def _read_extents(b: ModelBuilder, argument: Argument) -> Value:
    extents = ints(b) if argument == () else _read_tensor(b, argument)
    if extents.dtype not in ("int64", "int32") or extents.shape is None or len(extents.shape) > 1:
        raise OperandError(f"must be whole numbers, not {extents.type}")
    extents = extents if extents.dtype == "int64" else b.op("Cast", extents, to=7)
    return b.op("Reshape", extents, ints(b, 1)) if extents.shape == () else extents


def _read_dtype(b: ModelBuilder, argument: Argument) -> Dtype:
    if not isinstance(argument, str) or argument not in DTYPES:
        raise OperandError(
            f"must be a dtype such as float or numpy.int64, not {_argument_text(argument)}"
        )
    return b.float_dtype if DTYPES[argument] == "float" else DTYPES[argument]


def _read_text(b: ModelBuilder, argument: Argument) -> str:
    if not isinstance(argument, str):
        raise OperandError("must be a text in quotes")
    return argument


def _read_term(b: ModelBuilder, argument: Argument) -> Term:
    if argument is None or isinstance(argument, str):
        raise OperandError(f"must be a value, not {_argument_text(argument)}")
    return argument


def _read_tensor(b: ModelBuilder, argument: Argument) -> Value:
    return tensor(b, _read_term(b, argument))


def _read_terms(b: ModelBuilder, argument: Argument) -> tuple[Term, ...]:
    """Return a list as a tuple of its elements, or a tensor as a tuple of its rows."""
    if isinstance(argument, tuple):
        return argument
    stacked_rows = _read_tensor(b, argument)
    if not stacked_rows.shape or not isinstance(stacked_rows.shape[0], int):
        raise OperandError(f"must be a list of arrays, not {stacked_rows.type}")
    return tuple(
        b.op("Gather", stacked_rows, scalar(b, k, "int64"), axis=0)
        for k in range(stacked_rows.shape[0])
    )


def _argument_text(argument: Argument) -> str:
    if isinstance(argument, Value):
        return argument.type
    return repr(argument) if isinstance(argument, str) else str(argument or "nothing")


_READERS: dict[str, Callable[[ModelBuilder, Argument], Any]] = {
    "Term": _read_term,
    "Value": _read_tensor,
    "Terms": _read_terms,
    "Axes": _read_axes,
    "Extents": _read_extents,
    "Dtype": _read_dtype,
    "str": _read_text,
    "int": _known_scalar_reader("iu", "one whole number", int),
    "bool": _known_scalar_reader("b", "True or False", bool),
    "float": _known_scalar_reader("biuf", "one number", float),
}

Terms: TypeAlias = "tuple[Term, ...]"
"""Sequence of terms; a tensor is the sequence of its rows."""


class Parameters:
    """Signature of a function that MDF expressions can call, with a converter for each parameter."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        signature = inspect.signature(call)
        parameters = list(signature.parameters.values())[1:]
        self.name = name
        self.parameters = signature.replace(parameters=parameters)
        self.readers = {
            parameter.name: _READERS[_annotation_name(parameter.annotation)]
            for parameter in parameters
        }
        self.optional_names = {
            parameter.name
            for parameter in parameters
            if parameter.default is None or "None" in parameter.annotation
        }

    def __str__(self) -> str:
        """Return the signature as text, such as `numpy.clip(a, a_min=None, a_max=None)`."""
        untyped_parameters = [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in self.parameters.parameters.values()
        ]
        untyped_signature = self.parameters.replace(
            parameters=untyped_parameters, return_annotation=inspect.Signature.empty
        )
        return self.name + str(untyped_signature).replace(", /", "").replace("/, ", "").replace(
            "b_", "b"
        )

    def read(
        self, b: ModelBuilder, arguments: list[Argument], keywords: dict[str, Argument]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Bind the arguments of a call to the signature, and convert each to the type of its parameter.

        Raises:
            ExpressionError: The call does not fit the signature.
            OperandError: An argument has the wrong type for its parameter.
        """
        try:
            bound_arguments = self.parameters.bind(*arguments, **keywords)
        except TypeError as error:
            raise ExpressionError(f"{self.name}: {error}", hint=f"write {self}") from None
        for name, argument in bound_arguments.arguments.items():
            if self.parameters.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                variadic_arguments = tuple(
                    self._convert_argument(b, name, variadic_argument)
                    for variadic_argument in argument
                )
                bound_arguments.arguments[name] = variadic_arguments
            else:
                bound_arguments.arguments[name] = self._convert_argument(b, name, argument)
        return bound_arguments.args, bound_arguments.kwargs

    def _convert_argument(self, b: ModelBuilder, name: str, argument: Argument) -> Any:
        if argument is None and name in self.optional_names:
            return None
        try:
            return self.readers[name](b, argument)
        except OperandError as error:
            (finding,) = error.findings
            if not finding.what.startswith("must be"):
                raise
            raise OperandError(
                f"the argument '{name}' of {self.name} {finding.what}", hint=finding.hint
            ) from None


def _annotation_name(annotation: str) -> str:
    return annotation.removesuffix(" | None")
