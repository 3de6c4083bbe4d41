"""Random MDF loops of expressions: `expression_program(seed)` is equal for equal seeds.

The placeholders of a pattern state dtype and shape. The first letter is the dtype: `f` is a float, `i` an
integer and `b` a boolean. The second letter is the shape: `n` is a single number, `l` a list of the program's
length, which is written `@`, and `t` a square table.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.random_programs.onnx_programs import TRIP_WEIGHTS, TRIPS, RandomProgram
from tests.random_programs.values import random_array

EXACT = {
    "fn": (
        *("({fn} + {fn})", "({fn} - {fn})", "({fn} * {fn})", "({fn} / {fn})", "({in} / {in})"),
        *("abs({fn})", "numpy.sqrt({fn})", "numpy.floor({fn})", "numpy.round({fn})", "(-{fn})"),
        *("min({fn}, {fn})", "max({fn}, 1.5)", "numpy.sign({fn})", "numpy.clip({fn}, -1.5, {fn})"),
        *("({fn} if {bn} else {fn})", "numpy.where({bn}, {fn}, {fn})", "numpy.minimum({fn}, {fn})"),
        *("({fn} % {fn})", "({fn} // {fn})", "numpy.fmod({fn}, {fn})", "numpy.trunc({fn})"),
        *("float({in})", "({fn} + {in})", "({in} * 0.5)", "numpy.float32({fn})", "({fn} * {bn})"),
        *("numpy.max({fl})", "numpy.min({fl})", "{fl}[{in} % @]", "{fl}[-1]", "numpy.ptp({fl})"),
        *("numpy.copysign({fn}, {fn})", "numpy.heaviside({fn}, 0.5)", "numpy.nan_to_num({fn})"),
        *("numpy.square({fn})", "numpy.reciprocal({fn})", "numpy.maximum({fn}, {in})", "{fl}[0]"),
    ),
    "in": (
        *("({in} + {in})", "({in} - {in})", "({in} * {in})", "({in} // 3)", "({in} % 7)"),
        *("({in} // -2)", "({in} // max({in}, 1))", "(-{in})", "abs({in})"),
        *("({in} if {bn} else {in})", "min({in}, {in})", "max({in}, 2)", "(1 * {bn})"),
        *("numpy.argmax({fl})", "numpy.argmin({il})", "len({fl})", "numpy.sum({il})"),
        *(
            "numpy.max({il})",
            "{il}[{in} % @]",
            "numpy.count_nonzero({bl})",
            "numpy.size({fl}[{bl}])",
        ),
        *("numpy.where({bn}, {in}, {in})", "numpy.sign({in})", "numpy.int32({in})"),
        *("numpy.int64(numpy.clip({fn}, -9, 9))", "numpy.sum({bl})", "numpy.dot({il}, {il})"),
    ),
    "bn": (
        *("({fn} < {fn})", "({fn} >= {fn})", "({fn} == {fn})", "({in} > {in})", "({in} != {in})"),
        *("({bn} and {bn})", "({bn} or {bn})", "(not {bn})", "numpy.any({bl})", "numpy.all({bl})"),
        *(
            "numpy.isnan({fn})",
            "numpy.isfinite({fn})",
            "numpy.signbit({fn})",
            "({fn} < {fn} < {fn})",
        ),
        *("numpy.logical_xor({bn}, {bn})", "{bl}[-1]"),
    ),
    "fl": (
        *("({fl} + {fl})", "({fl} - {fn})", "({fl} * {fl})", "({fl} / {fl})", "({fn} * {fl})"),
        *("(-{fl})", "numpy.abs({fl})", "numpy.sqrt({fl})", "numpy.floor({fl})", "{fl}[::-1]"),
        *(
            "numpy.where({bl}, {fl}, {fn})",
            "numpy.where({bn}, {fl}, {fl})",
            "numpy.maximum({fl}, {fn})",
        ),
        *("numpy.minimum({fl}, {fl})", "({fl} % {fn})", "({fl} // 2)", "numpy.clip({fl}, -1, 1)"),
        *(
            "numpy.take({fl}, {il} % @)",
            "{fl}[{il} % @]",
            "numpy.roll({fl}, 1)",
            "numpy.sort({fl})",
        ),
        *("numpy.concatenate(({fl}[1:], {fl}[:1]))", "numpy.flip({fl})", "(1.0 * {il})"),
        *(
            "({fl} * ({fl} > 0))",
            "numpy.zeros(@)",
            "(numpy.ones(@) * {fn})",
            "({fl} if {bn} else {fl})",
        ),
        *("numpy.copysign({fl}, {fl})", "numpy.outer({fl}, {fl})[:, 0]", "numpy.sign({fl})"),
    ),
    "il": (
        *("({il} + {il})", "({il} * {in})", "({il} // 3)", "({il} % 5)", "numpy.abs({il})"),
        *("numpy.where({bl}, {il}, {in})", "{il}[::-1]", "(1 * {bl})", "numpy.cumsum({il})"),
        *("numpy.argsort({fl})", "numpy.arange(@)", "numpy.maximum({il}, {in})", "{il}[{il} % @]"),
        *("numpy.int64(numpy.clip({fl}, -9, 9))", "numpy.roll({il}, -1)", "numpy.sort({il})"),
    ),
    "bl": (
        *("({fl} > {fl})", "({fl} <= {fn})", "({il} == {in})", "({bl} & {bl})", "({bl} | {bl})"),
        *(
            "(~{bl})",
            "numpy.isnan({fl})",
            "numpy.logical_not({bl})",
            "({fl} != {fl})",
            "{bl}[::-1]",
        ),
    ),
}
"""Patterns with equal bits in all forms."""

ROUNDING = {
    "fn": (
        *("numpy.exp({fn})", "numpy.tanh({fn})", "numpy.sin({fn})", "numpy.cos({fn})"),
        *(
            "numpy.log(numpy.abs({fn}))",
            "(numpy.abs({fn}) ** {fn})",
            "({fn} ** 3)",
            "math.exp({fn})",
        ),
        *("numpy.sum({fl})", "numpy.mean({fl})", "numpy.std({fl})", "numpy.var({fl})", "sum({fl})"),
        *(
            "numpy.dot({fl}, {fl})",
            "numpy.matmul({fl}, {fl})",
            "numpy.linalg.norm({fl})",
            "numpy.prod({fl})",
        ),
        *("numpy.hypot({fn}, {fn})", "numpy.arctan2({fn}, {fn})", "numpy.expm1({fn})"),
        *(
            "numpy.log1p(numpy.abs({fn}))",
            "numpy.cbrt({fn})",
            "numpy.arctan({fn})",
            "math.erf({fn})",
        ),
    ),
    "fl": (
        *("numpy.exp({fl})", "numpy.tanh({fl})", "numpy.sin({fl})", "(numpy.abs({fl}) ** 0.5)"),
        *("numpy.cumsum({fl})", "numpy.log(numpy.abs({fl}) + 1)", "({fl} ** 2)", "numpy.cos({fl})"),
        *("({fl} - numpy.mean({fl}))", "numpy.exp(-numpy.abs({fl}))", "numpy.arctan({fl})"),
    ),
}
"""Patterns that round."""

CONSTANTS = {
    "f": ("0.5", "2.0", "-1.25", "0.1", "1e-3", "0.0", "-0.0", "1e300", "3.0"),
    "i": ("0", "1", "2", "-3", "7", "100"),
    "b": ("True", "False"),
}
DTYPES = {"f": ("float64", "float64", "float32"), "i": ("int64",), "b": ("bool",)}
CAST = {
    "float64": "numpy.float64",
    "float32": "numpy.float32",
    "int64": "numpy.int64",
    "bool": "bool",
}

_HOLE = re.compile(r"\{(\w\w)\}")
_LENGTH = re.compile(r"@(?! )")
"""The length of lists, with a trailing space in a product of matrices."""

_READS_ELEMENT = re.compile(r"% @\]|\[-1\]|\[0\]|max|min|ptp|take|mean|std|var|roll")


Patterns = Mapping[str, tuple[str, ...]]
"""Patterns by the kind of their value."""


class Writer:
    """Writer of the random expressions of one program."""

    def __init__(
        self,
        rng: random.Random,
        length: int,
        *,
        rounds: bool,
        exact: Patterns = EXACT,
        rounding: Patterns = ROUNDING,
        constants: Patterns = CONSTANTS,
    ) -> None:
        self.rng = rng
        self.length = length
        self.rounds = rounds
        self.has_rounded = False
        self.exact = exact
        self.rounding = rounding
        self.constants = constants

    def expression(self, kind: str, names: Mapping[str, str], depth: int) -> str:
        """Return a random expression of a kind that reads names of known kinds."""
        names_of_kind = [name for name, other in names.items() if other == kind]
        if depth == 0 or (names_of_kind and self.rng.random() < 0.25):
            return self._leaf(kind, names_of_kind)
        pattern = self.rng.choice(self._patterns(kind))
        filled = _HOLE.sub(lambda hole: self.expression(hole[1], names, depth - 1), pattern)
        return _LENGTH.sub(str(max(self.length, 1)), filled)

    def _patterns(self, kind: str) -> tuple[str, ...]:
        if self.rounds and kind in self.rounding and self.rng.random() < 0.4:
            self.has_rounded = True
            return self.rounding[kind]
        patterns = self.exact[kind]
        if self.length == 0:
            patterns = tuple(p for p in patterns if not _READS_ELEMENT.search(p))
        return patterns

    def _leaf(self, kind: str, known: list[str]) -> str:
        if known and self.rng.random() < 0.8:
            return self.rng.choice(known)
        number = self.rng.choice(self.constants[kind[0]])
        if kind[1] == "n":
            return number
        shape = {"l": f"{self.length}", "t": f"({self.length}, {self.length})"}[kind[1]]
        return f"numpy.full({shape}, {number})"


def expression_program(seed: int) -> RandomProgram:
    """Return the random MDF model of a seed."""
    rng = random.Random(f"expression {seed}")
    length = rng.choice((*range(1, 10), 1, 2, 3, 0, 1000 if rng.random() < 0.3 else 4))
    kinds = (
        ("fn", "in", "bn") if rng.random() < 0.35 else ("fn", "in", "bn", "fl", "fl", "il", "bl")
    )
    writer = Writer(rng, length, rounds=rng.random() < 0.4)
    inputs: dict[str, Any] = {}
    captured = {name: rng.choice(kinds) for name in ("a", "b", "c")[: rng.randint(1, 3)]}
    carried = {name: rng.choice(kinds) for name in ("x", "y", "z")[: rng.randint(1, 3)]}
    for name, kind in (*captured.items(), *((f"{k}_0", v) for k, v in carried.items())):
        shape = () if kind[1] == "n" else (length,)
        inputs[name] = random_array(rng, rng.choice(DTYPES[kind[0]]), shape)
    names = {**captured, **carried, "i": "in"}
    depth = rng.choice((1, 2, 2, 3))
    ports = {}
    for name, kind in carried.items():
        text = writer.expression(kind, names, depth)
        dtype = str(inputs[f"{name}_0"].dtype)
        ports[f"{name}_next"] = text if dtype == "bool" else f"{CAST[dtype]}({text})"
    recorded = {f"r{k}": rng.choice(kinds) for k in range(rng.randint(0, 3))}
    ports |= {name: writer.expression(kind, names, depth) for name, kind in recorded.items()}
    test = writer.expression("bn", names, 2) if rng.random() < 0.3 else None
    ports["go"] = test or "True"
    model = _document(captured, carried, recorded, ports, inputs, has_test=test is not None)
    inputs["trips"] = np.array(rng.choices(TRIPS, TRIP_WEIGHTS)[0])
    return RandomProgram(model, inputs, not writer.has_rounded)


def _document(
    captured: Mapping[str, str],
    carried: Mapping[str, str],
    recorded: Mapping[str, str],
    ports: Mapping[str, str],
    inputs: Mapping[str, Any],
    *,
    has_test: bool,
) -> dict[str, Any]:
    step = {
        "input_ports": {name: {} for name in (*captured, *carried, "i")},
        "output_ports": {name: {"value": text} for name, text in ports.items()},
    }
    finals = [f"{name}_next" for name in carried]
    body = {
        "metadata": {
            "inputs": ["i", "go_in", *carried],
            "outputs": ["go", *finals, *recorded],
        },
        "nodes": {"step": step},
    }
    initial = "(" + "".join(f"{name}_0, " for name in carried) + ")"
    args = {"M": "trips", "v_initial": initial, "body": {"b": body}}
    if has_test:
        args["cond"] = True
    count = len(carried) + len(recorded)
    outputs = {f"o{k}": {"value": f"f[{k}]" if count > 1 else "f"} for k in range(count)}
    node = {
        "input_ports": {
            **{name: {"shape": list(array.shape)} for name, array in inputs.items()},
            "trips": {"type": "int64"},
        },
        "functions": {"f": {"function": "onnx::Loop", "args": args}},
        "output_ports": outputs,
    }
    return {"g": {"nodes": {"A": node}, "edges": {}}}
