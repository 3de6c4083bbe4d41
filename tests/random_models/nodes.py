"""Random nodes of models over time: constants, states, functions, conditions of parameters, output ports."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.random_models.patterns import (
    CONSTANTS,
    DRAWS,
    EXACT,
    FROM_TABLES,
    PRODUCTS,
    ROUNDING,
    SMOOTH_SQUASHES,
    SQUASHES,
)
from tests.random_programs.expression_programs import Patterns, Writer

MOST_OF_TABLES = 40
"""Maximum number of rows of a random table."""


@dataclass(frozen=True)
class Profile:
    """Weights of the constructs in a random model.

    `length` is the length of lists and tables, `kinds` the kinds of values.
    """

    length: int
    kinds: tuple[str, ...]
    rounds: bool
    draws: bool
    depth: int


def random_profile(rng: random.Random) -> Profile:
    """Return random weights of the constructs in a model."""
    length = rng.choice((*range(1, 10), 2, 3, 4, 8, 16, 17, 33, 1000, 1000))
    uniform_number = rng.random()
    if uniform_number < 0.25:
        kinds: tuple[str, ...] = ("fn", "fn", "fn", "in", "bn")
    elif uniform_number < 0.6 or length > MOST_OF_TABLES:
        kinds = ("fn", "fn", "fl", "fl", "fl", "in", "bn", "il", "bl")
    else:
        kinds = ("fn", "fn", "fl", "fl", "ft", "in", "bn", "il")
    depth = rng.choice((1, 2, 2, 3))
    return Profile(length, kinds, rng.random() < 0.75, rng.random() < 0.35, depth)


def writer_of(rng: random.Random, profile: Profile) -> Writer:
    """Return a random writer of expressions for a model."""
    exact, rounding = dict(EXACT), dict(ROUNDING)
    if "ft" in profile.kinds:
        exact = _joined(exact, FROM_TABLES)
        rounding = _joined(rounding, PRODUCTS)
    if profile.draws:
        exact = _joined(exact, DRAWS)
    words = {"rounds": profile.rounds, "exact": exact, "rounding": rounding}
    return Writer(rng, profile.length, **words, constants=CONSTANTS)  # type: ignore[arg-type]


def _joined(one: Patterns, other: Patterns) -> dict[str, tuple[str, ...]]:
    return {kind: (*one.get(kind, ()), *other.get(kind, ())) for kind in {**one, **other}}


Names = dict[str, str]
"""Kinds of values by name."""


@dataclass
class Node:
    """A node under construction: its ports, its ports without an edge, its parameters and its names."""

    id: str
    input_ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    input_kinds: Names = field(default_factory=dict)
    free: list[str] = field(default_factory=list)
    outputs: Names = field(default_factory=dict)
    settable: Names = field(default_factory=dict)
    inner: Names = field(default_factory=dict)


class Drawing:
    """A model under construction, with one seeded source for all random choices."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        self.rng = rng
        self.profile = profile
        self.writer = writer_of(rng, profile)
        self.numbers = np.random.default_rng(rng.getrandbits(64))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    def kind(self, *, least: str = "") -> str:
        """Return a random kind of values whose name begins with `least`."""
        return self.rng.choice([kind for kind in self.profile.kinds if kind.startswith(least)])

    def shape(self, kind: str) -> tuple[int, ...]:
        """Return the shape of a kind."""
        n = self.profile.length
        return {"n": (), "l": (n,), "t": (n, n)}[kind[1]]

    def array(self, kind: str, *front: int) -> np.ndarray:
        """Return random numbers of a kind, with additional leading axes `front`."""
        shape = (*front, *self.shape(kind))
        if kind[0] == "b":
            return self.numbers.random(shape) < 0.5
        if kind[0] == "i":
            return self.numbers.integers(-3, 8, shape)
        return self.numbers.normal(0.0, self.rng.choice((0.5, 1.0, 2.0)), shape).round(3)

    def constant(self, kind: str) -> Any:
        """Return random numbers in the notation of a document."""
        return self.array(kind).tolist()

    def expression(self, kind: str, names: Names) -> str:
        """Return an expression, as deep as the profile allows, whose value is of a kind."""
        return self.writer.expression(kind, names, self.profile.depth)

    def simple(self, kind: str, names: Names) -> str:
        """Return an expression of at most one operation whose value is of a kind."""
        return self.writer.expression(kind, names, 1)

    def squash(self, kind: str, text: str) -> str:
        """Return a function of an expression that has small results."""
        patterns = SQUASHES[kind]
        if self.profile.rounds and self.chance(0.5):
            self.writer.has_rounded = True
            patterns = SMOOTH_SQUASHES[kind]
        return self.rng.choice(patterns).format(text)

    def small(self, kind: str, names: Names) -> str:
        """Return an expression of a kind whose numbers are small."""
        text = self.expression(kind, names)
        if kind[0] == "f":
            return self.squash(kind, text)
        if kind[0] == "i":
            return f"({text} % {self.rng.choice((3, 10, 17))})"
        return text

    def draw(self, node: Node, functions: Sequence[Callable[[Drawing, Names], Any]]) -> dict:
        """Return a node: its constants, states, functions, other parameters and output ports."""
        names: Names = dict(node.input_kinds)
        parameters: dict[str, Any] = {}
        for k in range(self.rng.randint(1, 3)):
            kind = self.kind()
            parameters[f"p{k}"] = {"value": self.constant(kind)}
            names[f"p{k}"] = kind
            if kind in ("fn", "fl"):
                node.settable[f"p{k}"] = kind
        states = {f"s{k}": self.kind() for k in range(self.rng.randint(1, 3))}
        names |= states
        bodies: dict[str, Any] = {}
        for k in range(self.rng.randint(0, 3)):
            name = f"f{k}"
            results, bodies[name] = self.rng.choice(functions)(self, names)
            names |= {f"{name}{suffix}": kind for suffix, kind in results.items()}
        parameters |= {name: state(self, name, kind, names) for name, kind in states.items()}
        for name, kind in states.items():
            if kind in ("fn", "fl") and not isinstance(
                parameters[name]["default_initial_value"], str
            ):
                node.settable[name] = kind
        for k in range(self.rng.randint(0, 2)):
            kind = self.kind()
            parameters[f"v{k}"] = {"value": self.expression(kind, names)}
            names[f"v{k}"] = kind
        node.inner = names
        ports = {name: {"value": self._output(kind, names)} for name, kind in node.outputs.items()}
        document: dict[str, Any] = {"parameters": parameters, "output_ports": ports}
        if bodies:
            document["functions"] = bodies
        return {"input_ports": node.input_ports, **document} if node.input_ports else document

    def _output(self, kind: str, names: Names) -> str:
        names_of_kind = [
            name for name, other in names.items() if other == kind and name[0] in "sfv"
        ]
        if names_of_kind and self.chance(0.6):
            return self.rng.choice(names_of_kind)
        return self.small(kind, names)


def state(d: Drawing, name: str, kind: str, names: Names) -> dict[str, Any]:
    """Return a parameter that keeps a state, sometimes with conditions."""
    target = d.small(kind, names)
    parameter: dict[str, Any] = {"default_initial_value": d.constant(kind)}
    if d.profile.draws and kind == "fn" and d.chance(0.2):
        parameter["default_initial_value"] = "numpy.random.normal(0.0, 1.0)"
    uniform_number = d.rng.random()
    if kind[0] == "f" and uniform_number < 0.4:
        rate = d.rng.choice(("", " / 2.0", " / 0.7", " * 3.0"))
        parameter["time_derivative"] = f"({target} - {name}){rate}"
    elif kind[0] == "f" and uniform_number < 0.75:
        keep = d.rng.choice((0.9, 0.5, 0.99, 0.25))
        parameter["value"] = f"{keep} * {name} + {round(1 - keep, 2)} * {target}"
    elif kind[0] == "i" and uniform_number < 0.5:
        parameter["value"] = f"({name} + {d.simple(kind, names)}) % 23"
    elif kind == "in" and uniform_number < 0.8:
        parameter["value"] = f"{name} + 1"
    else:
        parameter["value"] = target
    if d.chance(0.3):
        parameter["conditions"] = _conditions(d, name, kind, names)
    return parameter


def _conditions(d: Drawing, name: str, kind: str, names: Names) -> dict[str, Any]:
    if kind[0] == "f" and d.chance(0.6):
        test = f"{name} {d.rng.choice(('>', '>=', '<'))} {round(d.rng.uniform(-1.5, 1.5), 2)}"
    else:
        test = d.simple("bn", names)
    value = d.constant(kind) if d.chance(0.5) else d.small(kind, names)
    return {"c0": {"test": test, "value": value}}
