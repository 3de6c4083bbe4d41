"""The while loops of NNC, folded from flat graphs (R3.01 to R3.04, R3.08, R3.11)."""

from __future__ import annotations

import numpy as np
import pytest

import mdf_loop
from tests.folding.flat_graphs import graph, node, run_to_lists

COUNT = node("k", k1="k + 1", go="k < 5")


def counted(carry: dict[str, str], nodes: list[str], flat: dict) -> object:
    """Fold nodes of a flat graph to a loop of five iterations."""
    return mdf_loop.fold(
        flat, [*nodes, "count"], {**carry, "count.k1": "count.k"}, while_="count.go"
    )


def test_r3_01_parameter_map_and_a_condition_over_a_counter() -> None:
    flat = graph(
        {
            "start": node(one="1.0", zero="0"),
            "scale": node("z y", z1="z * y"),
            "count": COUNT,
            "out": node("x z", result="x * z"),
        },
        *("start.one -> scale.z", "start.zero -> count.k", "scale.z1 -> out.z"),
    )
    outputs = run_to_lists(counted({"scale.z1": "scale.z"}, ["scale"], flat), x=0.34, y=1.11)
    assert outputs["result"] == pytest.approx(0.34 * 1.11**5, rel=1e-15)
    assert outputs["k1"] == 5


@pytest.mark.parametrize(("x", "y", "expected"), [(0.32, 2.8, 55.0731776), (0.47, 5.5, 2365.43656)])
def test_r3_02_the_output_of_an_iteration_is_the_next_input(
    x: float, y: float, expected: float
) -> None:
    flat = graph({"scale": node("x y", z="x * y")})
    folded_model = mdf_loop.fold(flat, ["scale"], {"z": "x"}, trip_count=5)
    assert run_to_lists(folded_model, x=x, y=y)["z"] == pytest.approx(expected, rel=1e-8)


def test_r3_03_a_node_after_the_loop_reads_the_final_value() -> None:
    flat = graph(
        {"power": node("z x", z1="z * x"), "count": COUNT, "out": node("z y", result="z * y")},
        "power.z1 -> out.z",
    )
    model = counted({"power.z1": "power.z"}, ["power"], flat)
    results = mdf_loop.compile(model).run({"loop.z": 1.0, "k": 0, "x": 0.92, "y": 3.2})
    assert results["out.result"] == pytest.approx(2.10906087, rel=1e-8)


def test_r3_04_the_initial_value_is_read_after_the_loop() -> None:
    flat = graph(
        {
            "start": node("z", z0="z"),
            "power": node("z x", z1="z * x"),
            "out": node("z1 z0 y", result="z1 * y + z0"),
        },
        *("start.z0 -> power.z", "start.z0 -> out.z0", "power.z1 -> out.z1"),
    )
    folded_model = mdf_loop.fold(flat, ["power"], {"power.z1": "power.z"}, trip_count=5)
    z, x, y = 1.2, 0.92, 3.2
    assert run_to_lists(folded_model, z=z, x=x, y=y)["result"] == pytest.approx(
        z * x**5 * y + z, rel=1e-14
    )


def test_r3_08_a_chain_of_carried_values_is_readable_after_the_loop() -> None:
    flat = graph(
        {
            "start": node(a="0.1", b="0.2", c="0.3"),
            "step": node("x0 x1 x2", x3="numpy.tanh(x0 - 2 * x1 + 0.5 * x2)", old="x1 * 1"),
        },
        *("start.a -> step.x0", "start.b -> step.x1", "start.c -> step.x2"),
    )
    carry = {"step.x3": "x2", "step.x2": "x1", "step.x1": "x0"}
    outputs = run_to_lists(mdf_loop.fold(flat, ["step"], carry, trip_count=5))
    x0, x1, x2 = 0.1, 0.2, 0.3
    for _ in range(5):
        old = x1
        x0, x1, x2 = x1, x2, float(np.tanh(x0 - 2 * x1 + 0.5 * x2))
    assert outputs == {"x3": pytest.approx(x2), "old": pytest.approx(old)}


def test_r3_08_two_values_swap() -> None:
    flat = graph({"pair": node("x y", a="x * 1", b="y * 1")})
    for rounds, expected in ((3, (2.0, 1.0)), (4, (1.0, 2.0))):
        folded_model = mdf_loop.fold(
            flat, ["pair"], {"a": "pair.y", "b": "pair.x"}, trip_count=rounds
        )
        outputs = run_to_lists(folded_model, x=1.0, y=2.0)
        assert (outputs["b"], outputs["a"]) == expected


@pytest.mark.parametrize(
    ("x", "limit", "expected"),
    [(1.0, 20.0, (31.0, 30.0, 4)), (3.0, 2.0, (3.0, 0.0, 0)), (0.5, 100.0, (127.5, 127.0, 7))],
)
def test_r3_11_exit_in_mid_body(x: float, limit: float, expected: tuple[float, ...]) -> None:
    flat = graph(
        {
            "start": node(s="0.0", n="0"),
            "before": node("s x limit", p="s + x", go="s + x < limit"),
            "after": node("p n", s1="2 * p", n1="n + 1"),
        },
        *("start.s -> before.s", "start.n -> after.n", "before.p -> after.p"),
        metadata={"outputs": ["before.p", "after.s1", "after.n1"]},
    )
    folded_model = mdf_loop.fold(
        flat, ["before", "after"], {"s1": "before.s", "n1": "after.n"}, while_="before.go"
    )
    outputs = run_to_lists(folded_model, x=x, limit=limit)
    assert (outputs["p"], outputs["s1"], outputs["n1"]) == expected
