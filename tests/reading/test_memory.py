"""Stored values between iterations, and the values that a loop carries."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import CarryShapeError, CarryTypeError, Poisoned
from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.reading.memory import CarriedTypes, LoopMemory, Memory, State, generalize, select_term

V: State = ("parameter", "A", "v")
W: State = ("output", "A", "w")


def _constant(b: ModelBuilder, value: object) -> Value:
    return b.constant(np.array(value))


def test_stored_values_are_found_in_inner_scopes() -> None:
    b = ModelBuilder()
    outside = Memory(b)
    outside.put(V, _constant(b, 1))
    inside = Memory(b.body(), outside)
    assert inside.get(V) is outside.get(V)
    inside.put(W, lambda: _constant(b, 2))
    assert inside.get(W) is inside.get(W)
    assert inside.find(("count", "", "c")) is None
    with pytest.raises(Poisoned):
        outside.get(W)


def test_executed_nodes_are_recorded() -> None:
    b = ModelBuilder()
    outside = Memory(b)
    inside = Memory(b.body(), outside)
    assert inside.has_run("A") is False
    outside.record_run("A")
    assert inside.has_run("A") is True
    inside.record_run("B", b.new("bool", (), "ran"))
    assert outside.has_run("B") is False


def _loop(b: ModelBuilder, types: CarriedTypes) -> LoopMemory:
    return LoopMemory(b.body(), types, lambda state: _constant(b, 1), ["B"])


def test_values_read_before_assignment_are_carried() -> None:
    b, types = ModelBuilder(), CarriedTypes()
    types.widen(V, _constant(b, 1))
    memory = _loop(b, types)
    entered = memory.get(V)
    assert memory.get(V) is entered
    memory.put(V, _constant(memory.b, 2))
    assert not memory.find_body_outputs("$")
    (carried,) = memory.build_carried_values(b, lambda state: state[2])
    assert carried.body_input is entered
    assert memory.has_run("B") is True
    assert isinstance(memory.has_run("A"), Value)


def test_a_type_that_became_wider_is_too_narrow() -> None:
    """Check a carried type, also if it is widened while the body is read."""
    b, types = ModelBuilder(), CarriedTypes()
    types.widen(V, _constant(b, 1))
    memory = _loop(b, types)
    memory.get(V)
    constant = _constant(memory.b, 0.5)
    types.widen(V, constant)
    memory.put(V, constant)
    assert memory.find_body_outputs("$")
    again = _loop(b, types)
    again.get(V)
    again.put(V, _constant(again.b, 0.5))
    assert not again.find_body_outputs("$")
    (carried,) = again.build_carried_values(b, lambda state: state[2])
    assert carried.body_input.dtype == carried.final.dtype == "float64"


def test_carried_types_are_widened() -> None:
    b, types = ModelBuilder(), CarriedTypes()
    for value, type_ in ((1, ("int64", ())), (0.5, ("float64", ())), ([1, 2], ("float64", (2,)))):
        types.widen(V, _constant(b, value))
        assert types.type(V) == type_
    with pytest.raises(CarryShapeError, match="changes its shape over time"):
        types.widen(V, _constant(b, [1, 2, 3]))
    with pytest.raises(CarryTypeError, match="changes from float64 to string"):
        types.widen(V, b.constant(np.array("text", object)))
    assert types.type(("ran", "A", "")) == ("bool", ())
    assert types.type(("count", "", "x")) == ("int64", ())


def test_a_type_that_never_stops_widening_is_refused() -> None:
    b, types = ModelBuilder(), CarriedTypes()
    for rank in range(10):
        types.widen(V, b.new("int64", (1,) * rank, "v"))
    with pytest.raises(CarryShapeError, match="gets another shape with every step"):
        types.widen(V, b.new("int64", (1,) * 10, "v"))


def test_conversion_to_a_wider_type_keeps_the_numbers() -> None:
    b = ModelBuilder()
    wide = generalize(b, _constant(b, 3), "float64", (2,))
    assert b.constant_of(wide) is None or b.constant_of(wide).tolist() == [3.0, 3.0]  # type: ignore[union-attr]
    assert (wide.dtype, wide.shape) == ("float64", (2,))
    test = b.new("bool", (), "test")
    chosen = select_term(b, test, _constant(b, 1), _constant(b, [0.5, 0.5]))
    assert isinstance(chosen, Value)
    assert (chosen.dtype, chosen.shape) == ("float64", (2,))
    assert select_term(b, True, wide, _constant(b, 0)) is wide
