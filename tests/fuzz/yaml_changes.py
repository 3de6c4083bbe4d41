"""Mutations of an MDF document: keys, types, places, names, numbers, nesting, aliases and formulas."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from tests.fuzz.seeds import Files

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

HUGE = (2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 1e300, -1e300, 1e-320)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 0.5, -0.0, float("nan"), float("inf"), float("-inf")),
    *(
        "",
        " ",
        "x",
        "0",
        "a b",
        "nan",
        "(",
        "x,",
        "()",
        "(,)",
        "None",
        "𝜆",
        "\0",
        "$",
        "..",
        "x" * 5000,
    ),
    *([], [[]], [None], [1, "a"], [[1, 2], [3]], {}, {"": None}, {"a": {}}, {1: 2}, {None: None}),
    *(datetime.date(2000, 1, 1), b"\x00\xff"),
    *HUGE,
)
KEYS: tuple[Any, ...] = (
    *(
        "metadata",
        "inputs",
        "outputs",
        "nodes",
        "edges",
        "functions",
        "parameters",
        "args",
        "value",
    ),
    *("function", "input_ports", "output_ports", "default_value", "shape", "type", "dtype", "npz"),
    *(
        "slices",
        "delays",
        "recordings",
        "exit",
        "of",
        "axis",
        "start",
        "end",
        "stride",
        "part_size",
    ),
    *("back", "initial", "concat", "reverse", "keep", "length", "pad", "strict", "shapes", "array"),
    *(
        "body",
        "then_branch",
        "else_branch",
        "branches",
        "default",
        "index",
        "cond",
        "M",
        "v_initial",
    ),
    *("num_scan_inputs", "scan_input_axes", "scan_output_axes", "scan_input_directions", "graph"),
    *("initial_state_and_scan_inputs", "input_sequence", "additional_inputs", "conditions", "id"),
    *("default_initial_value", "time_derivative", "sender", "sender_port", "receiver", "unit"),
    *("node_specific", "termination", "kwargs", "graphs", "format", "reduce", "dims", "to"),
    *("", "a b", "1", 5, 0.5, True, None, (1, 2), datetime.date(2000, 1, 1), "x" * 300),
)
WORDS = (
    *("float32", "float64", "int64", "int32", "bool", "string", "bfloat16", "float", "int", "S10"),
    *(
        "sequence(float32)",
        "optional(float32)",
        "optional(sequence(int64))",
        "sequence(",
        "sequence()",
    ),
    *("complex64", "object", "datetime64", "float16", "uint8", "f", "i4,f8", "void"),
    *(
        "onnx::Loop",
        "onnx::Scan",
        "onnx::If",
        "onnx::SequenceMap",
        "case_of",
        "onnx::",
        "onnx::Einsum",
    ),
    *(
        "onnx::Concat",
        "onnx::Split",
        "onnx::Reshape",
        "onnx::Expand",
        "onnx::ConstantOfShape",
        "MatMul",
    ),
    *(
        "onnx::Range",
        "onnx::Tile",
        "onnx::Pad",
        "onnx::Cast",
        "onnx::Gather",
        "onnx::LSTM",
        "onnx::Conv",
    ),
    *(
        "linear",
        "exponential",
        "relu",
        "drift_diffusion_integrator",
        "value",
        "middle",
        "end",
        "last",
    ),
    *("AllHaveRun", "EveryNCalls", "AfterPass", "AtNCalls", "WhenFinished", "TimeScale.LIFE"),
)
FORMULAS = (
    *(
        "{0} ** {0} ** {0}",
        "9 ** 9 ** 9",
        "9 ** 99999999",
        "{0} << 99999999999",
        "2 ** {0}",
        "{0} % 0",
    ),
    *(
        "{0} // 0",
        "1 / 0",
        "-{0}",
        "not {0}",
        "~{0}",
        "{0} @ {1}",
        "{0}[{1}]",
        "{0}[99999999999999]",
    ),
    *(
        "{0}[-1:2:0]",
        "{0}[::-1]",
        "{0}[...]",
        "{0}[None]",
        "{0}[{0}]",
        "{0}.T",
        "{0}.shape",
        "{0}.x",
    ),
    *(
        "{0} if {1} else {1}",
        "[{0}, {1}]",
        "({0},)",
        "[{0}, [{1}]]",
        "{{{0}}}",
        "lambda: {0}",
        "{0}()",
    ),
    *(
        "numpy.zeros({0})",
        "numpy.zeros(10 ** 12)",
        "numpy.ones((99999, 99999, 99))",
        "numpy.arange(10 ** 12)",
    ),
    *(
        "numpy.tile({0}, 10 ** 10)",
        "numpy.reshape({0}, (-1, 0))",
        "numpy.{0}",
        "numpy.sum({0}, axis=9)",
    ),
    *(
        "numpy.concatenate([{0}, {1}])",
        "numpy.linalg.inv({0})",
        "__import__('os')",
        "{0}.__class__",
    ),
    *(
        "{0} and {1}",
        "{0} < {1} < {0}",
        "{0} is {1}",
        "{0} in {1}",
        "'{0}'",
        "f'{{{0}}}'",
        "{0} = {1}",
    ),
    *(
        "{0}; {1}",
        "{0} {1}",
        "({0}",
        "{0}:",
        "0x{0}",
        "1e999 * {0}",
        "1j * {0}",
        "*{0}",
        "{0}, {1}",
    ),
    *(
        "len({0})",
        "range({0})",
        "max({0}, {1})",
        "sum({0})",
        "round({0}, 99)",
        "int({0})",
        "bool({0})",
    ),
    *(
        "[{0} for {0} in {1}]",
        "{0} := {1}",
        "await {0}",
        "yield {0}",
        "math.factorial(99999)",
        "{0}" * 9,
    ),
)

Place = tuple[Any, Any]
"""Mapping or list, and a key or index in it."""


def mutate_document(rng: random.Random, files: Files, times: int) -> Files:
    """Return the document after some mutations, as YAML or (where possible) JSON."""
    root = {"": yaml.load(files.content, Loader=_LOADER)}
    for _ in range(times):
        rng.choice(_CHANGES)(rng, root)
    suffix, text = _text(rng, root[""])
    return dataclasses.replace(files, suffix=suffix, content=text.encode("utf-8", "replace"))


def _text(rng: random.Random, tree: Any) -> tuple[str, str]:
    try:
        text = yaml.dump(tree, Dumper=_DUMPER, sort_keys=False)
    except (yaml.YAMLError, RecursionError):  # a tuple is no valid key
        return ".yaml", "? [1, 2]\n: x\n"
    if rng.random() < 0.15 and "&id" not in text:  # JSON has no aliases
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            return ".json", json.dumps(tree)
    return ".yaml", text


def places(tree: Any) -> list[Place]:
    """Return all places of a tree that contain values, outermost first."""
    return list(_places(tree, set()))


def _places(tree: Any, visited: set[int]) -> Iterator[Place]:
    if id(tree) in visited:
        return
    visited.add(id(tree))
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, part in list(entries):
        yield tree, key
        if isinstance(part, dict | list):
            yield from _places(part, visited)


def _random_place(rng: random.Random, root: Any, kind: Any = object) -> Place:
    candidates = places(root)
    fitting = [(holder, key) for holder, key in candidates if isinstance(holder[key], kind)]
    return rng.choice(fitting or candidates)


def _remove_value(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root)
    if holder is not root:
        del holder[key]


def _replace_value(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root)
    holder[key] = copy.deepcopy(rng.choice(VALUES))


def _exchange_values(rng: random.Random, root: Any) -> None:
    (one, key), (other, place) = _random_place(rng, root), _random_place(rng, root)
    one[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(one[key])


def _copy_value(rng: random.Random, root: Any) -> None:
    (one, key), (other, place) = _random_place(rng, root), _random_place(rng, root)
    one[key] = copy.deepcopy(other[place])


def _rename_key(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root)
    if isinstance(holder, dict) and holder is not root:
        names = [k for other, k in places(root) if isinstance(other, dict)]
        new = rng.choice((rng.choice(names), rng.choice(KEYS)))
        entries = [(new if k == key else k, v) for k, v in holder.items()]
        holder.clear()
        holder.update(entries)


def _add_key(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root, dict)
    if isinstance(holder[key], dict):
        _, other = place = _random_place(rng, root)
        known_value = copy.deepcopy(place[0][other])
        holder[key][rng.choice(KEYS)] = rng.choice((known_value, copy.deepcopy(rng.choice(VALUES))))


def _duplicate_value(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root, list)
    if isinstance(holder[key], list) and holder[key]:
        entries = holder[key]
        entries.insert(rng.randrange(len(entries) + 1), copy.deepcopy(rng.choice(entries)))


def _change_number(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root, int | float)
    holder[key] = rng.choice((*HUGE, 0, -1, -5, 1, 7, True, 0.5, float("nan"), float("inf")))


def _change_string(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root, str)
    other, place = _random_place(rng, root, str)
    holder[key] = rng.choice((other[place], rng.choice(WORDS)))


def _change_formula(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root, str)
    _, name = _random_place(rng, root, dict)
    holder[key] = rng.choice(FORMULAS).format(holder[key], name)


def _insert_long_formula(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root, str)
    text = str(holder[key])
    count = min(rng.choice((50, 300, 3000)), 1 + 30_000 // (1 + len(text)))
    holder[key] = rng.choice(
        (
            *("(" * count + text + ")" * count, "-" * count + text, "not " * count + text),
            *(" + ".join([text] * count), "[" * count + text + "]" * count, text + "[0]" * count),
            *(" ** ".join([text] * count), "x" * count, f"{text} if {text} else " * count + text),
        )
    )


def _insert_deep_nesting(rng: random.Random, root: Any) -> None:
    holder, key = _random_place(rng, root)
    part, name = holder[key], rng.choice(("a", "value", key))
    for _ in range(rng.choice((3, 60, 200, 400))):
        part = rng.choice(([part], {name: part}))
    holder[key] = part


def _insert_alias(rng: random.Random, root: Any) -> None:
    """Insert a reference to an existing object, perhaps inside this object."""
    (one, key), (other, place) = _random_place(rng, root), _random_place(rng, root, dict | list)
    one[key] = other[place]


def _nest_aliases(rng: random.Random, root: Any) -> None:
    """Insert aliases of aliases, whose expansion grows exponentially ("billion laughs")."""
    holder, key = _random_place(rng, root)
    part: Any = holder[key]
    for _ in range(rng.choice((8, 12, 40))):
        part = rng.choice(([part] * 4, {"a": part, "b": part, "c": part}))
    holder[key] = part


_CHANGES: tuple[Callable[[random.Random, Any], None], ...] = (
    *(
        _remove_value,
        _remove_value,
        _replace_value,
        _replace_value,
        _exchange_values,
        _copy_value,
        _rename_key,
        _rename_key,
        _add_key,
        _add_key,
        _duplicate_value,
    ),
    *(
        _change_number,
        _change_number,
        _change_string,
        _change_string,
        _change_string,
        _change_formula,
        _change_formula,
        _insert_long_formula,
    ),
    *(_insert_deep_nesting, _insert_alias, _nest_aliases),
)
