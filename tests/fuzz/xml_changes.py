"""Mutations of an OpenVINO IR: elements, attributes, ids, ports, shapes and slices, and bytes of its .bin."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from tests.fuzz.byte_changes import mutate_bytes
from tests.fuzz.seeds import Files

NUMBERS = ("0", "1", "-1", "2", "3", "7", "-2", "-9", "100", "2147483648", "9223372036854775807")
WORDS = (
    *("-9223372036854775808", "18446744073709551616", "9" * 400, "", " ", "x", "nan", "1.5", "1e3"),
    *("?", "1..", "..3", "1..5", "2,3", "2,,3", "-1,-1", "4294967296,4294967296", "...", "true"),
    *("f32", "i64", "i32", "boolean", "f64", "u4", "bf16", "string", "FP32", "undefined", "\u0665"),
    *("execution_condition", "current_iteration", "opset1", "opset5", "opset8", "extension"),
)
TYPES = (
    *("Loop", "TensorIterator", "If", "Const", "Parameter", "Result", "Add", "Multiply", "Concat"),
    *("Split", "VariadicSplit", "StridedSlice", "Slice", "Gather", "Reshape", "Broadcast", "Tile"),
    *("Transpose", "Unsqueeze", "Squeeze", "ReduceSum", "Range", "Select", "Convert", "MatMul"),
    *("LSTMCell", "GRUCell", "RNNCell", "Pad", "OneHot", "TopK", "CumSum", "ShapeOf", "NonZero"),
    *("Convolution", "MaxPool", "Interpolate", "ReadValue", "Assign", "Softmax", "Clamp", "Elu"),
)
TAGS = (
    *("layer", "layers", "edges", "edge", "port", "dim", "input", "output", "data", "body", "net"),
    *("port_map", "back_edges", "then_body", "else_body", "then_port_map", "rt_info"),
)


def mutate_ir(rng: random.Random, files: Files, times: int) -> Files:
    """Return the IR after some mutations of its elements."""
    root = ElementTree.fromstring(files.content)
    for _ in range(times):
        rng.choice(_CHANGES)(rng, root)
    beside = dict(files.beside)
    if beside and rng.random() < 0.1:
        name = rng.choice(sorted(beside))
        beside[name] = mutate_bytes(rng, beside[name], 1)
    try:
        content = ElementTree.tostring(root, encoding="utf-8")
    except RecursionError:  # too deep for the XML writer, but not for the reader
        content = b"<net>" + b"<a>" * 5000 + b"</a>" * 5000 + b"</net>"
    return dataclasses.replace(files, content=content, beside=beside)


def _random_element(rng: random.Random, root: Element) -> Element:
    return rng.choice(list(root.iter()))


def _random_parent(rng: random.Random, root: Element) -> Element:
    return rng.choice([element for element in root.iter() if len(element)] or [root])


def _remove_element(rng: random.Random, root: Element) -> None:
    owner = _random_parent(rng, root)
    if len(owner):
        owner.remove(rng.choice(list(owner)))


def _duplicate_element(rng: random.Random, root: Element) -> None:
    owner = _random_parent(rng, root)
    if len(owner):
        owner.insert(rng.randrange(len(owner) + 1), copy.deepcopy(rng.choice(list(owner))))


def _move_element(rng: random.Random, root: Element) -> None:
    """Move or copy an element to another place."""
    owner, target = _random_parent(rng, root), _random_element(rng, root)
    if len(owner):
        element = rng.choice(list(owner))
        if rng.random() < 0.7:
            owner.remove(element)
        target.insert(rng.randrange(len(target) + 1), copy.deepcopy(element))


def _replace_element(rng: random.Random, root: Element) -> None:
    """Replace an element by another with the same tag, for example a body by another body."""
    one = _random_element(rng, root)
    other = copy.deepcopy(rng.choice(list(root.iter(one.tag))))
    one.clear()
    one.attrib.update(other.attrib)
    one.text = other.text
    one.extend(other)


def _change_attribute(rng: random.Random, root: Element) -> None:
    """Replace an attribute by the value of another element, a number or a word."""
    attributes = [(element, key) for element in root.iter() for key in sorted(element.attrib)]
    if attributes:
        element, key = rng.choice(attributes)
        alike = [other.attrib[key] for other in root.iter() if key in other.attrib]
        choices = (rng.choice(alike), rng.choice(NUMBERS), rng.choice(WORDS))
        element.attrib[key] = rng.choice(TYPES) if key == "type" else rng.choice(choices)


def _change_slices(rng: random.Random, root: Element) -> None:
    """Change the slices or concatenations in the port map of a loop."""
    elements = [e for part in root.iter("port_map") for e in part]
    if elements:
        key = rng.choice(("axis", "start", "end", "stride", "part_size", "purpose"))
        rng.choice(elements).attrib[key] = rng.choice((*NUMBERS, *NUMBERS, rng.choice(WORDS)))


def _remove_attribute(rng: random.Random, root: Element) -> None:
    elements = [element for element in root.iter() if element.attrib]
    if elements:
        element = rng.choice(elements)
        del element.attrib[rng.choice(sorted(element.attrib))]


def _add_attribute(rng: random.Random, root: Element) -> None:
    keys = sorted({key for element in root.iter() for key in element.attrib})
    _random_element(rng, root).attrib[rng.choice(keys or ["id"])] = rng.choice((*NUMBERS, *WORDS))


def _change_text(rng: random.Random, root: Element) -> None:
    dims = list(root.iter("dim"))
    element = rng.choice(dims) if dims and rng.random() < 0.8 else _random_element(rng, root)
    element.text = rng.choice((*NUMBERS, *WORDS))


def _change_tag(rng: random.Random, root: Element) -> None:
    _random_element(rng, root).tag = rng.choice(TAGS)


def _nest_layer(rng: random.Random, root: Element) -> None:
    """Nest a layer with a body in its own body several times."""
    bodies = [e for tag in ("body", "then_body", "else_body") for e in root.iter(tag)]
    owners = [layer for layer in root.iter("layer") if any(e in list(layer) for e in bodies)]
    for _ in range(rng.choice((1, 4)) if owners else 0):
        owner = rng.choice(owners)
        for layers in list(owner.iter("layers"))[:1]:
            if sum(1 for _ in root.iter()) < 5000:
                layers.append(copy.deepcopy(owner))


def _nest_bodies(rng: random.Random, root: Element) -> None:
    element = _random_element(rng, root)
    for _ in range(rng.choice((10, 150, 600))):
        element = ElementTree.SubElement(element, rng.choice(("body", "layers", "layer", "a")))


_CHANGES: tuple[Callable[[random.Random, Element], None], ...] = (
    *(
        _remove_element,
        _remove_element,
        _duplicate_element,
        _move_element,
        _replace_element,
        _change_attribute,
        _change_attribute,
        _change_attribute,
        _change_attribute,
    ),
    *(
        _change_slices,
        _change_slices,
        _change_slices,
        _remove_attribute,
        _add_attribute,
        _change_text,
        _change_text,
        _change_tag,
        _nest_layer,
        _nest_bodies,
    ),
)
