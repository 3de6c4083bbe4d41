"""Program -> Program. One file is one function; `mdf_loop.pipeline` says in which order they come.

`simplify/` does with less work, `legalize/` with the kernels there are; `batching/` computes many values at
once, `segments/` cuts a program into parts that are run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mdf_loop.ir import Program

Pass: TypeAlias = Callable[[Program], Program]
"""A new program, or the same object where there is nothing to change."""
