"""Delays: values from earlier iterations, compared with plain loops over lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import CarryShapeError, CarryTypeError, LoopError, ModelError, UnknownNameError
from mdf_loop.ir import loops
from mdf_loop.run.interpret import interpret
from tests.models.loops import loop_model


def delay_model(delays, *, count=8, body="a + b", **constants):
    return loop_model(
        {"M": count, "delays": delays}, {"x": body}, port_values=constants, recorded="x"
    )


def test_a_recorded_value(run_everywhere):
    delays = {"a": {"of": "x", "back": 2, "initial": [0, 1]}, "b": {"of": "x", "back": 1}}
    assert run_everywhere(delay_model(delays))["r0"].tolist() == [1, 2, 3, 5, 8, 13, 21, 34]


def test_delays_of_one_value_share_a_history():
    delays = {"a": {"of": "x", "back": 2, "initial": [0, 1]}, "b": {"of": "x", "back": 1}}
    (loop,) = loops(mdf_loop.read(delay_model(delays)))
    assert len(loop.carried) == 2
    delays["b"]["initial"] = [0, 1]
    (loop,) = loops(mdf_loop.read(delay_model(delays)))
    assert len(loop.carried) == 2


def test_delays_with_initial_values_of_their_own(run_everywhere):
    delays = {
        "a": {"of": "x", "back": 2, "initial": [0.0, 1.0]},
        "b": {"of": "x", "back": 1, "initial": 100.0},
    }
    assert run_everywhere(delay_model(delays, count=3))["r0"].tolist() == [100, 101, 201]


def test_a_carried_value(run_everywhere):
    model = loop_model(
        {
            "M": 5,
            "v_initial": "(1.0,)",
            "delays": {"v_3": {"of": "v_next", "back": 3, "initial": "h"}},
        },
        {"v_next": "v + v_3"},
        port_values={"h": [10.0, 20.0, 30.0]},
        carried="v",
        recorded="v_next",
    )
    v, history = 1.0, [10.0, 20.0, 30.0]
    for _ in range(5):
        v += history[-3]
        history.append(v)
    results = run_everywhere(model)
    assert results["r0"] == v
    assert results["r1"].tolist() == history[3:]


def test_a_value_that_is_no_output(run_everywhere):
    args = {"M": 4, "delays": {"before": {"of": "half", "back": 1, "initial": 0.0}}}
    model = loop_model(args, {"half": "i / 2", "change": "half - before"}, recorded="change")
    body = model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]["body"]["b"]
    body["nodes"] = {
        "one": {"input_ports": {"i": {}}, "output_ports": {"half": {"value": "i / 2"}}},
        "two": {
            "input_ports": {"half": {}, "before": {}},
            "output_ports": {"change": {"value": "half - before"}, "go": {"value": True}},
        },
    }
    body["edges"] = {
        "e": {"sender": "one", "sender_port": "half", "receiver": "two", "receiver_port": "half"}
    }
    assert run_everywhere(model)["r0"].tolist() == [0.0, 0.5, 0.5, 0.5]


def test_a_slice(run_everywhere):
    args = {
        "slices": {"x_t": "x"},
        "delays": {"x_2": {"of": "x_t", "back": 2, "initial": [-1.0, -2.0]}},
    }
    model = loop_model(
        args, {"y": "x_t + x_2"}, port_values={"x": [10.0, 20.0, 30.0, 40.0]}, recorded="y"
    )
    assert run_everywhere(model)["r0"].tolist() == [9.0, 18.0, 40.0, 60.0]


def test_a_carried_input_and_the_iteration_number(run_everywhere):
    args = {
        "M": 3,
        "v_initial": "(5,)",
        "delays": {"v_1": {"of": "v", "back": 1, "initial": 0}, "i_1": {"of": "i", "initial": -1}},
    }
    model = loop_model(
        args, {"v_next": "v + 1", "p": "1 * v_1", "q": "1 * i_1"}, carried="v", recorded="p q"
    )
    results = run_everywhere(model)
    assert results["r1"].tolist() == [0, 5, 6]
    assert results["r2"].tolist() == [-1, 0, 1]


@pytest.mark.parametrize("back", [1, 3, 10, 11, 20])
def test_chains_and_long_histories_are_the_same(run_everywhere, back):
    h = np.linspace(1, 2, back)
    model = delay_model(
        {"a": {"of": "x", "back": back, "initial": "h"}}, count=15, body="a * 1.5 + i", h=h.tolist()
    )
    history = [*h]
    for i in range(15):
        history.append(history[-back] * 1.5 + i)
    np.testing.assert_allclose(run_everywhere(model)["r0"], history[back:])


@pytest.mark.parametrize("back", [2, 13])
def test_rows_with_axes(run_everywhere, back):
    h = np.arange(back * 3.0).reshape(back, 3)
    model = delay_model(
        {"a": {"of": "x", "back": back, "initial": "h"}},
        count=12,
        body="a + w",
        h=h.tolist(),
        w=[1.0, 2.0, 3.0],
    )
    history = [*h]
    for _ in range(12):
        history.append(history[-back] + [1.0, 2.0, 3.0])
    np.testing.assert_allclose(run_everywhere(model)["r0"], np.array(history[back:]))


@pytest.mark.parametrize("back", [1, 2, 13])
@pytest.mark.parametrize("many", [False, True])
def test_numbers_stand_for_rows(run_everywhere, back, many):
    """Check scalar initial values of a delayed array: one number, or one for each earlier iteration."""
    initial = list(np.arange(1.0, 1 + back)) if many else 1.0
    model = delay_model(
        {"a": {"of": "x", "back": back, "initial": initial}},
        count=12,
        body="a + w",
        w=[1.0, 2.0, 3.0],
    )
    history = [np.full(3, k) for k in (initial if many else [1.0] * back)]
    for _ in range(12):
        history.append(history[-back] + [1.0, 2.0, 3.0])
    np.testing.assert_allclose(run_everywhere(model)["r0"], np.array(history[back:]))


@pytest.mark.parametrize("initial", [[[7.0, 8.0]], [7.0, 8.0]])
def test_one_row_for_one_iteration_before(run_everywhere, initial):
    model = delay_model({"a": {"of": "x", "initial": initial}}, count=2, body="a + w", w=[1.0, 2.0])
    assert run_everywhere(model)["r0"].tolist() == [[8.0, 10.0], [9.0, 12.0]]


def test_one_row_of_one_element(run_everywhere):
    model = delay_model({"a": {"of": "x", "initial": [7.0]}}, count=2, body="a + w", w=[1.0])
    assert run_everywhere(model)["r0"].tolist() == [[8.0], [9.0]]
    model = delay_model({"a": {"of": "x", "initial": [7.0]}}, count=2, body="a + w", w=1.0)
    assert run_everywhere(model)["r0"].tolist() == [8.0, 9.0]


def test_a_longer_history_is_used_from_its_end(run_everywhere):
    model = delay_model(
        {"a": {"of": "x", "back": 2, "initial": "h"}}, count=2, body="1 * a", h=[1.0, 2.0, 3.0]
    )
    assert run_everywhere(model)["r0"].tolist() == [2.0, 3.0]
    assert run_everywhere(model, {"h": [5.0, 6.0]})["r0"].tolist() == [5.0, 6.0]


def test_a_history_whose_length_is_known_only_at_run_time(run_everywhere):
    model = delay_model(
        {"a": {"of": "x", "back": 2, "initial": "h[:m]"}},
        count=2,
        body="1 * a",
        h=[1.0, 2.0, 3.0],
        m=3,
    )
    assert run_everywhere(model)["r0"].tolist() == [2.0, 3.0]
    with pytest.raises(LoopError, match="need the 2 values before the loop"):
        mdf_loop.compile(model).run({"m": 1})


def test_no_iteration(run_everywhere):
    model = delay_model(
        {"a": {"of": "x", "back": 2, "initial": [1.0, 2.0]}}, count="m", body="2 * a", m=0
    )
    assert run_everywhere(model)["r0"].shape == (0,)


def test_a_delay_of_a_delay(run_everywhere):
    delays = {
        "a": {"of": "x", "back": 2, "initial": [1, 2]},
        "b": {"of": "a", "back": 1, "initial": 0},
    }
    model = delay_model(delays, count=5, body="i + 10 * b")
    x, a = [1, 2], [0]
    for i in range(5):
        x.append(i + 10 * a[-1])
        a.append(x[-3])
    assert run_everywhere(model)["r0"].tolist() == x[2:]


@pytest.mark.parametrize("back", [2, 13])
def test_a_sweep_has_histories_of_its_own(back):
    delays = {"a": {"of": "x", "back": back, "initial": 1.0}}
    compiled = mdf_loop.compile(delay_model(delays, count=20, body="a * w", w=2.0))
    sweep_run = compiled.run(sweep={"w": [1.5, 3.0]})["r0"]
    for w, rows in zip((1.5, 3.0), sweep_run, strict=True):
        np.testing.assert_array_equal(rows, compiled.run({"w": w})["r0"])


def test_long_histories_are_one_carried_value():
    def carried(back, row):
        model = delay_model({"a": {"of": "x", "back": back, "initial": 0.5}}, body="a + w", w=row)
        (loop,) = loops(mdf_loop.read(model))
        return len(loop.carried)

    assert [carried(back, 1.0) for back in (1, 10, 11, 100)] == [1, 10, 1, 1]
    assert [carried(back, [1.0] * 100) for back in (11, 256, 257)] == [11, 256, 1]


@pytest.mark.slow
@settings(max_examples=40)
@drawn(
    st.lists(st.integers(1, 14), min_size=1, max_size=3),
    st.integers(0, 12),
    st.integers(0, 2),
)
def test_random_delays(backs, count, axes):
    shape = (2, 3)[:axes]
    rng = np.random.default_rng(len(backs) * 100 + count)
    history = rng.normal(size=(max(backs), *shape))
    delays = {f"d{k}": {"of": "x", "back": back, "initial": "h"} for k, back in enumerate(backs)}
    body = "0.5 * i + 0.3 * (" + " + ".join(delays) + ")"
    model = delay_model(delays, count=count, body=body, h=history)
    values = [*history]
    for i in range(count):
        values.append(0.5 * i + 0.3 * sum(values[-back] for back in backs))
    compiled = mdf_loop.compile(model)
    arrays, program, _ = compiled.prepare({})
    for recorded in (compiled.run()["r0"], interpret(program, arrays)["A.r0"]):
        np.testing.assert_allclose(recorded, np.array(values[max(backs) :]).reshape(count, *shape))


@pytest.mark.parametrize(
    ("delays", "kind", "sentence"),
    [
        (["a"], ModelError, "'delays' maps names of the body"),
        ({"a": "x"}, ModelError, "'a' is written as {of: ..., back: ..., initial: ...}"),
        ({"a": {"of": "x", "bak": 1, "initial": 0}}, ModelError, "'a' has a key 'bak'"),
        ({"a": {"of": 3, "initial": 0}}, ModelError, "'of' of the delay 'a' is the name"),
        ({"a": {"of": "x", "back": 0, "initial": 0}}, ModelError, "'a' is 0 iterations back"),
        ({"a": {"of": "x", "back": -2, "initial": 0}}, ModelError, "'a' is -2 iterations back"),
        ({"a": {"of": "x"}}, ModelError, "the delay 'a' has no 'initial'"),
        (
            {
                "a": {"of": "x", "back": 3, "initial": [1.0, 2.0, 3.0]},
                "b": {"of": "x", "back": 2, "initial": [1.0, 2.0]},
                "d": {"of": "x"},
            },
            ModelError,
            "the delay 'd' has no 'initial'",
        ),
        ({"a": {"of": "xx", "initial": 0.0}}, UnknownNameError, "no output port 'xx'"),
        (
            {"a": {"of": "x", "back": 3, "initial": [1.0, 2.0]}},
            CarryShapeError,
            "need the 3 values",
        ),
        ({"a": {"of": "x", "initial": True}}, CarryTypeError, "bool"),
    ],
    ids=str,
)
def test_invalid_delays_are_refused(delays, kind, sentence):
    reads = " + 0 * (a == 1)" if "a" in delays and isinstance(delays, dict) else ""
    model = delay_model(delays if isinstance(delays, dict) else {}, body="i + 0.5" + reads)
    model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]["delays"] = delays
    with pytest.raises(kind, match=sentence):
        mdf_loop.compile(model).run()


def test_rows_that_do_not_fit():
    model = delay_model(
        {"a": {"of": "x", "back": 2, "initial": [[1.0, 2.0], [3.0, 4.0]]}},
        body="w + numpy.sum(a)",
        w=[1.0, 2.0, 3.0],
    )
    with pytest.raises(
        CarryShapeError, match=r"'a' would be float64\[2\] before the loop, but 'x' is float64\[3\]"
    ):
        mdf_loop.compile(model).run()


def test_whole_numbers_before_numbers_with_a_point():
    model = delay_model({"a": {"of": "x", "back": 2, "initial": [1, 2]}}, body="0.5 * a")
    with pytest.raises(
        CarryTypeError, match="hold int64 before the loop, but the value is float64"
    ):
        mdf_loop.compile(model).run()
