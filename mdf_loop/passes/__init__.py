"""Transformations of programs (`Program -> Program`), one in each file. `mdf_loop.pipeline` has their order.

- `simplify/`: compute the same results with fewer and cheaper operations.
- `legalize/`: replace operations that ONNX Runtime has no kernel for, or computes wrongly.
- `batching/`: compute many values of some inputs at once.
- `gradient/`: add derivatives, in forward and reverse mode.
- `segments/`: cut a program into parts that run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mdf_loop.ir import Program

Pass: TypeAlias = Callable[[Program], Program]
"""Returns a new program, or the same object if there is nothing to change."""
