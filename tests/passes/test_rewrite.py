from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Carried, Constant, Input, Loop, Op, Output, Program, Recorded
from mdf_loop.ir.check import check
from mdf_loop.ir.substitute import substitute
from mdf_loop.ir.text import print_program
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.passes.rewrite import rewrite
from tests.models.choices import everywhere, program
from tests.ops.op_running import session_of


def keep(b, op):
    return None


def tan_by_sin_and_cos(b, op):
    if op.op_type != "Tan":
        return None
    return (b.op("Div", b.op("Sin", op.inputs[0]), b.op("Cos", op.inputs[0])),)


def without_identity(b, op):
    return (op.inputs[0],) if op.op_type == "Identity" else None


def negative_as_product(b, op):
    if op.op_type != "Neg":
        return None
    return (b.op("Mul", op.inputs[0], b.constant(np.array(-1.0))),)


def nested(op_type: str) -> Program:
    """Build x = x0; 3 times: { y = x0; 2 times: y = op_type(y) + x; x = y; record y }."""
    b = ModelBuilder()
    x0 = b.new("float64", ("n",), "x0")
    outer = b.body()
    x = outer.new("float64", ("n",), "x")
    inner = outer.body()
    y = inner.new("float64", ("n",), "y")
    with inner.at("$.inner", "inner"):
        step = inner.op("Add", inner.op(op_type, y), x)
    y_final = outer.new("float64", ("n",), "y_final")
    outer.append(loop(b, "inner", 2, [Carried(x0, y, step, y_final)], inner))
    stack = b.new("float64", (3, "n"), "ys")
    x_final = b.new("float64", ("n",), "x_final")
    carried, recorded = [Carried(x0, x, y_final, x_final)], [Recorded(y_final, stack)]
    b.append(loop(b, "outer", 3, carried, outer, recorded))
    return Program(
        "nested", (Input(x0),), tuple(b.ops), (Output("x", x_final), Output("ys", stack))
    )


def loop(b, name, times, carried, body, recorded=()):
    i, go = b.new("int64", (), f"{name}.i"), b.new("bool", (), f"{name}.go")
    trip = b.constant(np.array(times))
    return Loop(name, trip, None, i, go, None, tuple(carried), tuple(recorded), tuple(body.ops))


def only(program: Program, op_type: str, where=None) -> list[Op]:
    return [op for op in all_ops(program.ops) if op.op_type == op_type]


def all_ops(ops):
    for operation in ops:
        if isinstance(operation, Loop):
            yield from all_ops(operation.ops)
        elif isinstance(operation, Op):
            yield operation


def test_a_rule_replaces_operations():
    b = ModelBuilder()
    x = b.new("float64", ("n",), "x")
    with b.at("$.y", "y"):
        y = b.op("Tan", x)
    with b.at("$.z", "z"):
        z = b.op("Neg", y)
    program = Program("p", (Input(x),), tuple(b.ops), (Output("z", z),))
    transformed = rewrite(program, tan_by_sin_and_cos)
    assert print_program(transformed).splitlines() == [
        "program(%x: float64[n])",
        "  %y:Tan:Sin: float64[n] = Sin(%x)",
        "  %y:Tan:Cos: float64[n] = Cos(%x)",
        "  %y:Tan: float64[n] = Div(%y:Tan:Sin, %y:Tan:Cos)",
        "  %z:Neg: float64[n] = Neg(%y:Tan)",
        "  output z = %z:Neg",
    ]


def test_an_unchanged_program_is_the_same_object():
    program = nested("Tan")
    assert rewrite(program, keep) is program


def test_unchanged_operations_are_the_same_objects():
    program = nested("Tan")
    transformed = rewrite(program, tan_by_sin_and_cos)
    assert only(program, "Add") == only(transformed, "Add")


def test_new_operations_keep_the_source_location():
    transformed = rewrite(nested("Tan"), tan_by_sin_and_cos)
    assert [op.where for op in only(transformed, "Sin")] == ["$.inner"]


def test_rewriting_nested_bodies_keeps_names_and_results():
    program = nested("Tan")
    transformed = rewrite(program, tan_by_sin_and_cos)
    assert not only(transformed, "Tan")
    assert check(transformed) == ()
    assert [o.value for o in transformed.outputs] == [o.value for o in program.outputs]
    x = np.array([0.1, -0.2])
    expected = np.tan(np.tan(x) + x)  # by hand: the first outer iteration's y, one step early
    actual = dict(zip(("x", "ys"), run_x0(transformed, x), strict=True))
    assert actual["ys"].shape == (3, 2)
    np.testing.assert_allclose(actual["ys"][0], expected + x, rtol=1e-14)
    np.testing.assert_array_equal(actual["ys"][-1], actual["x"])


def run_x0(program, x):
    return session_of(program).run(None, {"x0": x})


def test_a_rule_may_return_an_existing_value():
    program = nested("Identity")
    transformed = rewrite(program, without_identity)
    assert not only(transformed, "Identity")
    assert check(transformed) == ()
    x = np.array([0.1, -0.2])
    for first, second in zip(run_x0(program, x), run_x0(transformed, x), strict=True):
        np.testing.assert_array_equal(first, second)


def test_an_output_may_become_an_input():
    b = ModelBuilder()
    x = b.new("float64", ("n",), "x0")
    y = b.op("Identity", b.op("Identity", x))
    program = Program("p", (Input(x),), tuple(b.ops), (Output("y", y),))
    transformed = rewrite(program, without_identity)
    assert transformed.ops == ()
    assert transformed.outputs == (Output("y", x),)


def test_constants_of_a_rule_are_shared_and_hoisted():
    transformed = rewrite(nested("Neg"), negative_as_product)
    constants = [o for o in transformed.ops if isinstance(o, Constant) and o.array == -1.0]
    assert len(constants) == 1
    assert check(transformed) == ()
    assert transformed.ops.index(constants[0]) < len(transformed.ops) - 1


def test_existing_constants_are_reused():
    b = ModelBuilder()
    x = b.new("float64", ("n",), "x0")
    minus = b.constant(np.array(-1.0))
    y = b.op("Neg", b.op("Mul", x, minus))
    program = Program("p", (Input(x),), tuple(b.ops), (Output("y", y),))
    arrays = []

    def rule(b, op):
        arrays.extend(b.constant_of(v) for v in op.inputs)
        return negative_as_product(b, op)

    transformed = rewrite(program, rule)
    assert [o.value for o in transformed.ops if isinstance(o, Constant)] == [minus]
    assert arrays == [None, np.array(-1.0), None]


def test_new_names_are_unique():
    transformed = rewrite(nested("Tan"), tan_by_sin_and_cos)
    names = [v.name for op in all_ops(transformed.ops) for v in op.outputs]
    assert len(set(names)) == len(names)


def test_repeated_and_unused_outputs():
    b = ModelBuilder()
    x = b.new("float64", (4,), "x0")
    one, two, _ = b.multi("Split", x, b.constant(np.array([1, 1, 2])), output_count=3, axis=0)
    program = Program("p", (Input(x),), tuple(b.ops), (Output("one", one), Output("two", two)))

    def rule(b, op):
        first = b.op("Slice", op.inputs[0], b.constant(np.array([0])), b.constant(np.array([1])))
        return first, first, None

    transformed = rewrite(program, rule)
    assert transformed.outputs == (Output("one", one), Output("two", one))
    actual = run_x0(transformed, np.arange(4.0))
    assert [g.tolist() for g in actual] == [[0.0], [0.0]]


def test_errors_of_a_rule_state_the_place():
    def rule(b, op):
        raise UnsupportedError("cannot")

    with pytest.raises(UnsupportedError, match=r"cannot\n  at \$\.inner"):
        rewrite(nested("Tan"), rule)


def test_substitute_without_a_match_keeps_the_object():
    program = nested("Tan")
    other = ModelBuilder().new("float64", ())
    inner = program.ops[-1]
    assert substitute(inner, {other: other}) is inner
    assert substitute(inner, {}) is inner


# --- choices -----------------------------------------------------------------------------------


def choosing(op_type: str) -> Program:
    """Build y, z = op_type(x), x if go else x, op_type(x)."""
    b = ModelBuilder()
    go, x = b.new("bool", (), "go"), b.new("float64", (2,), "x")
    y, z = choose(b, go, lambda b: [b.op(op_type, x), x], lambda b: [x, b.op(op_type, x)], "y")
    return program(b, (go, x), first=y, second=z)


def test_operations_of_branches_are_replaced_in_them() -> None:
    transformed = rewrite(choosing("Tan"), tan_by_sin_and_cos)
    assert check(transformed) == ()
    assert str(transformed).splitlines()[1:10] == [
        "  if %go giving %y: float64[2], %y_2: float64[2]",
        "    %Tan:Sin: float64[2] = Sin(%x)",
        "    %Tan:Cos: float64[2] = Cos(%x)",
        "    %Tan: float64[2] = Div(%Tan:Sin, %Tan:Cos)",
        "    give %Tan, %x",
        "  else",
        "    %Tan_2:Sin: float64[2] = Sin(%x)",
        "    %Tan_2:Cos: float64[2] = Cos(%x)",
        "    %Tan_2: float64[2] = Div(%Tan_2:Sin, %Tan_2:Cos)",
    ]
    assert rewrite(transformed, tan_by_sin_and_cos) is transformed


def test_a_leaf_may_become_an_outer_value_or_a_constant() -> None:
    transformed = rewrite(choosing("Identity"), without_identity)
    assert str(transformed).count("give %x, %x") == 2
    everywhere(transformed, go=True, x=[1.0, 2.0])
    negative = rewrite(choosing("Neg"), negative_as_product)
    assert check(negative) == ()
    np.testing.assert_array_equal(
        everywhere(negative, go=False, x=[1.0, 2.0])["second"], [-1.0, -2.0]
    )


def test_a_choice_with_unchanged_branches_is_the_same_object() -> None:
    original = choosing("Neg")
    assert rewrite(original, keep) is original
    assert rewrite(original, tan_by_sin_and_cos) is original
