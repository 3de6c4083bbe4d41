"""Check that the stated axis names of outputs match the axes of the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mdf_loop.document.dims import dims_of
from mdf_loop.document.document import Document
from mdf_loop.errors import Finding
from mdf_loop.ir import Shape
from mdf_loop.reading.names import Item


def check_dims(document: Document, shapes: Mapping[Item, Shape]) -> Iterator[Finding]:
    """Yield findings about axis names of outputs that do not match the number or length of axes."""
    dims_by_item = dims_of(document)
    extents_by_dim: dict[str, tuple[str, object]] = {}
    for node_item, shape in shapes.items():
        dims = dims_by_item.get(node_item.name)
        if dims is None or shape is None:
            continue
        item_path = (
            f"{document.where}.nodes['{node_item.node}'].{node_item.node_field}['{node_item.id}']"
        )
        if len(dims) != len(shape):
            axis_text = f"{len(shape)} axes" if len(shape) != 1 else "1 axis"
            yield Finding(
                "ModelError",
                f"'{node_item.name}' has {axis_text}, but 'dims' names {len(dims)}: {', '.join(dims)}",
                item_path,
                "name each axis of one evaluation; those of time and of members come by themselves",
            )
            continue
        for dim, extent in zip(dims, shape, strict=True):
            if not isinstance(extent, int):
                continue
            first_item_name, first_extent = extents_by_dim.setdefault(dim, (node_item.name, extent))
            if first_extent != extent:
                yield Finding(
                    "ModelError",
                    f"the axis '{dim}' is {extent} long in '{node_item.name}', but {first_extent} in '{first_item_name}'",
                    item_path,
                    "give axes of different lengths different names in 'dims'",
                )
