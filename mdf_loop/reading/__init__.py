"""MDF -> `Program`.

Functions that own graphs (`control`) have readers in `loop`, `scan_form`, `branches` and
`sequence_map`.
"""

from mdf_loop.reading import (  # noqa: F401 - they register readers
    branches,
    loop,
    scan_form,
    sequence_map,
)
from mdf_loop.reading.document import Document, Source, open_document
from mdf_loop.reading.inputs import bind, open_ports
from mdf_loop.reading.program import Reading, read, read_annotated

__all__ = [
    "Document",
    "Reading",
    "Source",
    "bind",
    "open_document",
    "open_ports",
    "read",
    "read_annotated",
]
