"""Safe reading of an untrusted XML file: no document types, no entities, limited depth.

A violation is detected while the file is parsed, before its content is stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from mdf_loop.errors import ModelError

MAX_FILE_SIZE = 2**30
"""Maximum size of an .xml file in bytes. The numbers of an IR are in the .bin file."""

MAX_NESTING = 3 * 100 + 6
"""Maximum nesting of elements. A body has three levels, and 100 bodies may be nested."""


def read_xml(path: Path) -> Element:
    """Return the root element of the file.

    Raises:
        ModelError: The file is missing, too large, not well-formed XML, or has a document type.
    """
    try:
        file_size = path.stat().st_size
        if file_size > MAX_FILE_SIZE:
            raise ModelError(
                f"the file has {file_size} bytes, more than {MAX_FILE_SIZE}", str(path)
            )
        xml_bytes = path.read_bytes()
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", str(path)) from None
    parser = XMLParser(target=_RestrictedTreeBuilder(path))
    try:
        parser.feed(xml_bytes)
        root_element = parser.close()
    except ModelError:
        raise
    except ParseError as error:
        raise ModelError(f"the file is not well-formed XML: {error}", str(path)) from None
    except (LookupError, ValueError):
        raise ModelError(
            "the file's text encoding is not known", str(path), "save it as UTF-8"
        ) from None
    assert ElementTree.iselement(root_element)
    return root_element


class _RestrictedTreeBuilder(TreeBuilder):
    """XML tree builder that raises ModelError for content that no IR has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._nesting_depth = 0

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Raise ModelError, because a document type can define entities that read other files."""
        raise ModelError(
            f"the file declares a document type ({name}), which no IR does",
            str(self._path),
            "an OpenVINO IR is plain XML without <!DOCTYPE>",
        )

    def start(self, tag: Any, attrs: dict[Any, Any]) -> Element:
        """Start an XML element, or raise ModelError if elements are nested too deeply."""
        self._nesting_depth += 1
        if self._nesting_depth > MAX_NESTING:
            raise ModelError(
                f"the file is nested too deeply: more than {MAX_NESTING} elements",
                str(self._path),
                "bodies may be nested a hundred deep",
            )
        return super().start(tag, attrs)

    def end(self, tag: str) -> Element:
        """End an XML element."""
        self._nesting_depth -= 1
        return super().end(tag)
