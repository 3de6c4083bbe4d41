"""Search for the ports and formulas that read a result of a loop or conditional."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mdf_loop.document.parts import DocumentValue
from mdf_loop.outline.loops import result_positions
from mdf_loop.outline.parts import Block, DefinitionOutline, NodeOutline


def result_readers(node: NodeOutline, block: Block, k: int) -> tuple[str, ...]:
    """Return the names of ports and definitions that compute with the `k`-th result of `block`.

    For the result `until_decision`, `choice` is a reader if `choice = until_decision > 0`. A port whose value is
    exactly the result is not a reader.
    """
    other_blocks = (other_block for other_block in node.blocks if other_block is not block)
    expression_texts_by_name = [
        *(
            (definition.id, _texts([*_definition_expressions(definition)]))
            for definition in node.definitions
        ),
        *(
            (other_block.id, _texts([*other_block.expressions, *_capture_names(other_block)]))
            for other_block in other_blocks
        ),
        *((port.id, _texts(port.value)) for port in node.outputs if port.id not in block.ports),
    ]
    return tuple(
        name
        for name, expression_texts in expression_texts_by_name
        if _reads_result(expression_texts, block.id, k)
    )


def _reads_result(expression_texts: Iterable[str], block_id: str, k: int) -> bool:
    """Return True if a text in `expression_texts` reads the `k`-th result of a loop or conditional."""
    return any(
        position in (None, k)
        for text in expression_texts
        for position in result_positions(text, block_id)
    )


def _definition_expressions(definition: DefinitionOutline) -> Iterator[DocumentValue]:
    """Yield the expressions in the definition of a parameter or function."""
    yield from (definition.value, definition.initial_expression, definition.derivative)
    yield from (value for _, value in definition.arguments)
    yield from (text for test_and_value in definition.conditions for text in test_and_value)


def _capture_names(block: Block) -> Iterator[str]:
    """Return the names of the values that a loop or conditional captures."""
    return (capture.name for capture in block.captures)


def _texts(value: DocumentValue) -> Iterator[str]:
    """Yield the text expressions in a value, also in nested lists and dicts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for nested_value in value:
            yield from _texts(nested_value)
