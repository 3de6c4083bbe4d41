"""Where tests run programs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from mdf_loop.native.bounds import VARIABLE
from mdf_loop.run.device import Placement

STANDARD = Placement("cpu", native="off")
"""On the CPU, by ONNX Runtime's own operators alone."""

NATIVE = Placement("cpu")
"""On the CPU, loops as machine code where they can be."""

REQUIRED = Placement("cpu", native="require")
"""On the CPU, all loops as machine code."""


@contextmanager
def kernels_checked(checked: bool = True) -> Iterator[None]:
    """Native loops that are made meanwhile check, or do not check, what they read and write."""
    with mock.patch.dict(os.environ, {VARIABLE: str(int(checked))}):
        yield
