"""Lowering of MDF functions and expressions to operations of a program.

Each function that an expression may call is one Python function under `@names(...)`, in a file of its
family (`elementary`, `arrays`, ...). MDF's own functions come from its registry (`standard`), ONNX's
from their schemas (`onnx_functions`).
"""

from mdf_loop.lower import (  # noqa: F401 - these modules register functions
    arrays,
    builtins,
    draws,
    elementary,
    logic,
    ordering,
    products,
    python_math,
    reductions,
    rounding,
    shapes,
)
from mdf_loop.lower.expression import is_omitted, lower_expression
from mdf_loop.lower.operators import Term, cast, tensor
from mdf_loop.lower.scope import Scope, unknown_name
from mdf_loop.lower.standard import function_draws, lower_function, with_arguments
from mdf_loop.lower.syntax import draws_numbers, names_in

__all__ = [
    "Scope",
    "Term",
    "cast",
    "draws_numbers",
    "function_draws",
    "is_omitted",
    "lower_expression",
    "lower_function",
    "names_in",
    "tensor",
    "unknown_name",
    "with_arguments",
]
