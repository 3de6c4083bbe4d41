"""Where tests run programs."""

from mdf_loop.run.device import Placement

STANDARD = Placement("cpu", native="off")
"""On the CPU, by ONNX Runtime's own operators alone."""

NATIVE = Placement("cpu")
"""On the CPU, loops as machine code where they can be."""

REQUIRED = Placement("cpu", native="require")
"""On the CPU, all loops as machine code."""
