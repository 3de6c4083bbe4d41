"""Compiler passes: program transformations, one per file, which `pipeline.py` applies in order.

The docstring of each file shows an example before and after the pass. `Preserves:` states which properties of
a program the pass leaves unchanged.

- `simplify/`: compute the same results with fewer and cheaper operations.
- `legalize/`: replace operations that ONNX Runtime has no kernel for, or computes wrongly.
- `batching/`: compute many values of some inputs at once.
- `gradient/`: add derivatives, in forward and reverse mode.
- `segments/`: split a program into parts that run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mdf_loop.ir import Program

Pass: TypeAlias = Callable[[Program], Program]
"""Function that returns the transformed program, or the same object if the program is unchanged."""
