"""Conversion of MDF documents to programs (`Program`).

The modules `loop`, `scan_form`, `branches` and `sequence_map` read the functions that own graphs.
"""

from mdf_loop.reading import (  # noqa: F401 - the imports register readers
    branches,
    loop,
    scan_form,
    sequence_map,
)
from mdf_loop.reading.inputs import bind, open_ports
from mdf_loop.reading.program import Reading, read, read_annotated

__all__ = [
    "Reading",
    "bind",
    "open_ports",
    "read",
    "read_annotated",
]
