"""Opening of model files on the command line, with import warnings on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdf_loop.cli.show import show

if TYPE_CHECKING:
    from mdf_loop.document.document import Document


def open_model(model: str, loop_condition: str) -> Document:
    """Open a model file, and print the warnings of its import."""
    from mdf_loop.importing.opening import open_document_silently

    document = open_document_silently(model, loop_condition)
    show_warnings(document.import_warnings)
    return document


def show_warnings(warnings: tuple[str, ...]) -> None:
    """Print each import warning as a line on stderr."""
    for warning in warnings:
        show(f"warning: {warning}", error=True)
