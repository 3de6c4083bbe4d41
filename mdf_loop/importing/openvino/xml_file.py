"""An XML file of others, opened safely: no document types, no entities, no depth without end.

What is refused is refused while the file is read, before anything of it is kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from mdf_loop.errors import ModelError

LARGEST_FILE = 2**30
"""An IR's structure is small; its numbers lie in the .bin file."""

DEEPEST = 3 * 100 + 6
"""Nested elements: a body is three deeper than the one around it, and a hundred bodies may be nested."""


def read_xml(path: Path) -> Element:
    """The root element of the file.

    Raises:
        ModelError: there is no such file, it is too large, not well-formed XML, or has a doctype.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise ModelError(f"the file has {size} bytes, more than {LARGEST_FILE}", str(path))
        text = path.read_bytes()
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", str(path)) from None
    parser = XMLParser(target=_Careful(path))
    try:
        parser.feed(text)
        root = parser.close()
    except ModelError:
        raise
    except ParseError as error:
        raise ModelError(f"the file is not well-formed XML: {error}", str(path)) from None
    except (LookupError, ValueError):
        raise ModelError(
            "the file's text encoding is not known", str(path), "save it as UTF-8"
        ) from None
    assert ElementTree.iselement(root)
    return root


class _Careful(TreeBuilder):
    """Builds the tree, and stops at what an IR never holds."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._depth = 0

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Refuse it: a document type can define entities, and those can point anywhere."""
        raise ModelError(
            f"the file declares a document type ({name}), which no IR does",
            str(self._path),
            "an OpenVINO IR is plain XML without <!DOCTYPE>",
        )

    def start(self, tag: Any, attrs: dict[Any, Any]) -> Element:
        """Begin an element."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise ModelError(
                f"the file is nested too deeply: more than {DEEPEST} elements",
                str(self._path),
                "bodies may be nested a hundred deep",
            )
        return super().start(tag, attrs)

    def end(self, tag: str) -> Element:
        """End an element."""
        self._depth -= 1
        return super().end(tag)
