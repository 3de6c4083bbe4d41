"""Who takes a result of a loop or a choice: output ports plainly, and expressions that compute with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mdf_loop.outline.loops import result_reads
from mdf_loop.outline.parts import Block, ItemOutline, NodeOutline


def readers(node: NodeOutline, block: Block, k: int) -> tuple[str, ...]:
    """What of a node computes with the `k`-th result of one of its blocks, in document order.

    `choice` in `choice = until_decision > 0`; a port that is the result and nothing else is none.
    """
    others = (other for other in node.blocks if other is not block)
    read = [
        *((item.id, _texts([*_written(item)])) for item in node.items),
        *((other.id, _texts([*other.expressions, *_captured(other)])) for other in others),
        *((port.id, _texts(port.value)) for port in node.outputs if port.id not in block.ports),
    ]
    return tuple(name for name, texts in read if _reads(texts, block.id, k))


def _reads(texts: Iterable[str], block_id: str, k: int) -> bool:
    return any(place in (None, k) for text in texts for place in result_reads(text, block_id))


def _written(item: ItemOutline) -> Iterator[Any]:
    yield from (item.value, item.initial, item.derivative)
    yield from (value for _, value in item.arguments)
    yield from (text for pair in item.conditions for text in pair)


def _captured(block: Block) -> Iterator[str]:
    return (capture.name for capture in block.captures)


def _texts(value: Any) -> Iterator[str]:
    """The expressions in a value, also in lists and dicts of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
