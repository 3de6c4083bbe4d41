"""Quantities as inputs, parameters and options are converted to the units of the model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pint
import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError
from tests.conftest import document_of
from tests.models.with_units import CELL, RUN

REGISTRY = pint.UnitRegistry()
Q = REGISTRY.Quantity
PLACE = r"\$\.graphs\[0\]\.nodes\['cell'\]"


@pytest.fixture(scope="module")
def cell() -> mdf_loop.CompiledModel:
    return mdf_loop.compile(document_of(CELL), device="cpu")


@pytest.fixture(autouse=True)
def _no_unit_is_stripped() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pint.UnitStrippedWarning)
        yield


def pico(nano: float) -> float:
    """Return a current in pA, converted by the unit registry of the current."""
    return float(Q(nano, "nA").to("pA").magnitude)


def same(a: Any, b: Any) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in a)


# --- inputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        ({"I": Q(0.9, "nA")}, {"I": pico(0.9)}),
        ({"cell.I": Q(900, "pA")}, {"I": 900}),
        ({"drive": Q([1.0, 2.0], "nA")}, {"drive": [pico(1.0), pico(2.0)]}),
        ({"drive": [Q(1.0, "nA"), Q(2.0, "pA")]}, {"drive": [pico(1.0), 2.0]}),
        ({"drive": (Q(1.0, "nA"), 2.0)}, {"drive": [pico(1.0), 2.0]}),
        ({"gain": Q(2.0, "")}, {"gain": 2.0}),
        ({"gain": Q(2.0, "nA/pA")}, {"gain": float(Q(2.0, "nA/pA"))}),
        ({"I": Q(2.0, "")}, {"I": 2.0}),
        ({"odd": Q(2.0, "")}, {"odd": 2.0}),
        ({"heat": Q(68.0, "degF")}, {"heat": float(Q(68.0, "degF").to("degC").magnitude)}),
        ({"part": Q(30.0, "percent")}, {"part": 30.0}),
        ({"level": Q(2, "pA")}, {"level": 2}),
    ],
)
@pytest.mark.parametrize("how", [{}, RUN, {"engine": "interpreter"}, {"engine": "modeci"}])
def test_inputs_are_converted(
    cell: mdf_loop.CompiledModel, values: Any, plain: Any, how: dict[str, Any]
) -> None:
    assert same(cell.run(values, **how), cell.run(plain, **how))


def test_rows_over_time_are_converted(cell: mdf_loop.CompiledModel) -> None:
    rows = np.linspace(0.1, 0.9, RUN["steps"])
    expected = cell.run({"I": Q(rows, "nA").to("pA").magnitude}, **RUN)
    assert same(cell.run({"I": Q(rows, "nA")}, **RUN), expected)
    assert same(cell.run({"I": [Q(row, "nA") for row in rows]}, **RUN), expected)


REFUSED: tuple[tuple[Any, str], ...] = (
    ({"I": Q(3.0, "mV")}, rf"(?s)the input 'I' is given in millivolt.*'pA'.*{PLACE}\.input_ports\['I'\]\.metadata\.units"),
    ({"I": [Q(3.0, "mV")]}, "the input 'I' is given in millivolt"),
    ({"gain": Q(3.0, "mV")}, rf"(?s)'gain' is given in millivolt, but has no unit.*{PLACE}\.input_ports\['gain'\]\n"),
    ({"odd": Q(3.0, "mV")}, rf"(?s)'widgets', is none that pint knows.*{PLACE}\.input_ports\['odd'\]\.metadata\.units"),
    ({"heat": Q(3.0, "delta_degC")}, "'heat' is given in delta_degree_Celsius"),
    ({"level": Q(500.5, "pA")}, "must be int64, but 500.5 is not"),
    ({"nothing": Q(3.0, "mV")}, "the model has no input 'nothing'"),
    ({"I": Q(1 + 2j, "nA")}, "must be a number"),
)  # fmt: skip


@pytest.mark.parametrize(("values", "message"), REFUSED)
def test_inputs_that_do_not_fit_are_refused(
    cell: mdf_loop.CompiledModel, values: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        cell.run(values)


def test_a_name_of_inputs_with_different_units_is_refused() -> None:
    port = "input_ports: {x: {default_value: 0.0, metadata: {units: %s}}}, output_ports: {y: {value: x}}"
    text = f"nodes:\n  A: {{{port % 'mV'}}}\n  B: {{{port % 'pA'}}}\n"
    model = mdf_loop.compile(document_of(text))
    with pytest.raises(InputError, match=r"different units: 'A.x', 'B.x'"):
        model.run({"x": Q(1.0, "V")})
    results = model.run({"A.x": Q(1.0, "V"), "B.x": Q(1.0, "nA")})
    assert (float(results["A.y"]), float(results["B.y"])) == (1000.0, pico(1.0))
    results = model.run({"A.x": Q(1.0, "V"), "x": Q(1.0, "nA")})
    assert (float(results["A.y"]), float(results["B.y"])) == (1000.0, pico(1.0))


def test_a_unit_may_be_stated_by_the_node_or_passed_on() -> None:
    text = """
nodes:
  A:
    metadata: {units: {x: mV}}
    input_ports: {x: {default_value: 0.0}}
    parameters:
      a0: {value: 1.0, metadata: {unit: mV}}
      a: {default_initial_value: a0, value: a + x}
    output_ports: {y: {value: a}}
"""
    model = mdf_loop.compile(document_of(text))
    results = model.run({"x": Q(1.0, "V")}, set={"A.a": Q(2.0, "V")}, steps=2)
    assert results["y"].tolist() == [3000.0, 4000.0]
    with pytest.raises(InputError, match=r"nodes\['A'\]\.metadata\.units\['x'\]"):
        model.run({"x": Q(1.0, "A")})
    with pytest.raises(InputError, match=r"parameters\['a0'\]\.metadata\.unit\n"):
        model.run(set={"A.a": Q(1.0, "A")})


# --- the other words of a run ---------------------------------------------------------------------


def test_parameters_and_states_are_converted(cell: mdf_loop.CompiledModel) -> None:
    results = cell.run(set={"cell.R": Q(300.0, "Mohm"), "cell.v": Q(-0.06, "V")}, **RUN)
    magnitudes = {"cell.R": Q(300.0, "Mohm").to("Gohm").magnitude, "cell.v": -60.0}
    assert same(results, cell.run(set=magnitudes, **RUN))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cell.R": Q(3.0, "mV")}, rf"(?s)the value of 'cell.R' is given in millivolt.*{PLACE}\.parameters\['R'\]"),
        ({"cell.plain": Q(3.0, "mV")}, "the value of 'cell.plain' is given in millivolt, but has no unit"),
        ({"cell.none": Q(3.0, "mV")}, "the model has no parameter 'cell.none'"),
    ],
)  # fmt: skip
def test_parameters_that_do_not_fit_are_refused(
    cell: mdf_loop.CompiledModel, values: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        cell.run(set=values)


RATES = [0.1, 0.5, 0.9]


@pytest.mark.parametrize(
    "sweep",
    [
        {"I": Q(RATES, "nA")},
        {"I": [Q(rate, "nA") for rate in RATES]},
        mdf_loop.paired({"I": Q(RATES, "nA")}),
        mdf_loop.paired({"I": [Q(rate, "nA") for rate in RATES]}),
        mdf_loop.grid({"I": Q(RATES, "nA")}),
        mdf_loop.grid({"I": [Q(rate, "nA") for rate in RATES]}),
        dict(mdf_loop.grid({"I": Q(RATES, "nA")})),
    ],
)
def test_sweeps_are_converted(cell: mdf_loop.CompiledModel, sweep: Any) -> None:
    magnitudes = {"I": Q(RATES, "nA").to("pA").magnitude}
    assert same(cell.run(sweep=sweep, **RUN), cell.run(sweep=magnitudes, **RUN))


def test_a_grid_has_converted_axes(cell: mdf_loop.CompiledModel) -> None:
    grid = mdf_loop.grid({"cell.tau": Q([1.0, 2.0], "s"), "gain": [1.0, 2.0, 3.0]})
    results = cell.run(sweep=grid, **RUN)
    assert results.axes[0].coordinates["cell.tau"].tolist() == [1000.0, 2000.0]
    plain = mdf_loop.grid({"cell.tau": [1000.0, 2000.0], "gain": [1.0, 2.0, 3.0]})
    assert same(results, cell.run(sweep=plain, **RUN))


def test_rows_of_a_paired_sweep_may_be_arrays(cell: mdf_loop.CompiledModel) -> None:
    sweep = mdf_loop.paired({"drive": Q([[1.0, 2.0], [3.0, 4.0]], "nA"), "gain": [1.0, 2.0]})
    assert cell.run(sweep=sweep)["D"].tolist() == [[pico(1.0), pico(2.0)], [pico(3.0), pico(4.0)]]


@pytest.mark.parametrize(
    "bounds", [(Q(0.1, "nA"), Q(900, "pA")), Q([0.1, 0.9], "nA"), [Q(100.0, "pA"), 900.0]]
)
def test_bounds_of_a_space_are_converted(cell: mdf_loop.CompiledModel, bounds: Any) -> None:
    results = cell.run(sweep=mdf_loop.sobol({"I": bounds, "gain": (1.0, 2.0)}, 8))
    plain = mdf_loop.sobol({"I": (100.0, 900.0), "gain": (1.0, 2.0)}, 8)
    assert np.allclose(results["J"], cell.run(sweep=plain)["J"], rtol=1e-14)


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"I": Q([1.0, 2.0], "mV")}, "the sweep of 'I' is given in millivolt"),
        (mdf_loop.grid({"I": Q([1.0, 2.0], "mV")}), "the sweep of 'I' is given in millivolt"),
        (mdf_loop.sobol({"I": Q([1.0, 2.0], "mV")}, 4), "the sweep of 'I' is given in millivolt"),
        (mdf_loop.sobol({"I": Q([2.0, 1.0], "pA")}, 4), "'I' has no bounds"),
        ({"seed": Q([1, 2], "mV")}, "the sweep of 'seed' is given in millivolt, but has no unit"),
        ({"cell.plain": Q([1.0], "mV")}, "the sweep of 'cell.plain' is given in millivolt"),
        ({"cell.none": Q([1.0], "mV")}, "the model has no parameter 'cell.none'"),
        ({"I": Q(1.0, "nA")}, "the sweep of 'I' is no list of numbers"),
    ],
)
def test_sweeps_that_do_not_fit_are_refused(
    cell: mdf_loop.CompiledModel, sweep: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        cell.run(sweep=sweep)


@pytest.mark.parametrize("wrong", [Q(1.0, "nA"), Q([[1.0]], "nA"), []])
def test_a_grid_of_no_list_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="no list of numbers in the grid"):
        mdf_loop.grid({"I": wrong})


@pytest.mark.parametrize(
    ("dt", "plain"),
    [
        (Q(50, "us"), 0.05),
        (Q(0.1, "ms"), 0.1),
        (Q(0.0001, "s"), 0.1),
        (Q(np.float64(0.1), "ms"), 0.1),
        (Q(0.5, ""), 0.5),
        (Q(2.0, "1/kHz"), 2.0),
        (pint.UnitRegistry(force_ndarray=True).Quantity(2.0, "1/kHz"), 2.0),
        (Q(1, "week"), 7 * 24 * 3600e3),
    ],
)
def test_a_time_step_is_converted(cell: mdf_loop.CompiledModel, dt: Any, plain: float) -> None:
    assert cell.run(steps=2, dt=dt).time.tolist() == [0.0, plain]


@pytest.mark.parametrize(
    ("dt", "message"),
    [
        (Q(1.0, "mV"), r"(?s)dt is given in millivolt, but its unit is 'ms'.*\$\.graphs\[0\]\.metadata\.time_unit"),
        (Q([1.0, 2.0], "ms"), "dt must be a length of time"),
        (Q(-1.0, "ms"), "dt must be longer than zero"),
        (Q(np.nan, "ms"), "dt must be a length of time"),
    ],
)  # fmt: skip
def test_a_time_step_of_another_dimension_is_refused(
    cell: mdf_loop.CompiledModel, dt: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        cell.run(steps=2, dt=dt)


def test_a_model_without_a_unit_of_time_counts_seconds() -> None:
    model = mdf_loop.compile(document_of("nodes: {A: {output_ports: {y: {value: '1.0'}}}}"))
    assert model.run(steps=2, dt=Q(50, "ms")).time.tolist() == [0.0, 0.05]


def test_a_state_is_converted(cell: mdf_loop.CompiledModel) -> None:
    state = cell.run(**RUN).state
    quantity_state = {
        **state,
        "parameter cell.v": Q(-0.06, "V"),
        "time": Q(float(state["time"]), "ms"),
    }
    magnitudes = {**state, "parameter cell.v": np.array(-60.0)}
    assert same(cell.run(state=quantity_state, **RUN), cell.run(state=magnitudes, **RUN))
    with pytest.raises(InputError, match=r"'parameter cell.v' of the state is given in ampere"):
        cell.run(state={**state, "parameter cell.v": Q(1.0, "A")}, **RUN)
    with pytest.raises(InputError, match="'step' of the state is given in volt, but has no unit"):
        cell.run(state={**state, "step": Q(1, "V")}, **RUN)


def test_limits_may_be_quantities(cell: mdf_loop.CompiledModel) -> None:
    assert same(cell.run(time_limit=Q(10, "min"), **RUN), cell.run(**RUN))
    assert same(cell.run(memory_limit=Q(4, "gigabyte"), **RUN), cell.run(**RUN))
    with pytest.raises(InputError, match="the memory limit is given in volt"):
        cell.run(memory_limit=Q(4, "volt"), **RUN)
    with pytest.raises(InputError, match="the time limit is given in volt, but its unit is 's'"):
        cell.run(time_limit=Q(1.0, "V"), **RUN)


NOISY = """
nodes:
  ddm:
    functions: {x: {value: 'numpy.random.normal()', metadata: {units: ms}}}
    output_ports: {rt: {value: x}}
"""


def test_edges_of_a_histogram_are_converted() -> None:
    model = mdf_loop.compile(document_of(NOISY))
    words = [{"histogram": Q([-1e-3, 0.0, 1e-3], "s")}, {"quantiles": [0.5]}, "mean"]
    plain = [{"histogram": [-1.0, 0.0, 1.0]}, {"quantiles": [0.5]}, "mean"]
    results = model.run(trials=50, over_trials={"ddm.rt": words})
    assert same(results, model.run(trials=50, over_trials={"ddm.rt": plain}))
    invalid = {"ddm.rt": {"quantiles": Q([0.5], "s")}}
    with pytest.raises(InputError, match=r"quantiles over trials of 'ddm.rt' is given in second"):
        model.run(trials=50, over_trials=invalid)


# --- other entries --------------------------------------------------------------------------------


def test_derivatives_take_quantities(cell: mdf_loop.CompiledModel) -> None:
    settings: dict[str, Any] = {"set": {"cell.R": Q(300.0, "Mohm")}, "inputs": {"I": Q(0.9, "nA")}}
    magnitudes: dict[str, Any] = {
        "set": {"cell.R": Q(300.0, "Mohm").to("Gohm").magnitude},
        "inputs": {"I": Q(0.9, "nA").to("pA").magnitude},
    }
    fit_options: dict[str, Any] = {"steps": 6}
    data = np.linspace(-0.07, -0.06, 6)
    of, with_unit = ({"cell.V": {"sse": each}} for each in (data * 1e3, Q(data, "V")))
    wrt = ["cell.tau", "I"]
    dt = Q(500, "us")
    first = cell.gradient(with_unit, wrt, dt=dt, **settings, **fit_options)
    second = cell.gradient(of, wrt, dt=0.5, **magnitudes, **fit_options)
    assert np.isclose(first.value, second.value, rtol=1e-12)
    assert np.allclose(first["cell.tau"], second["cell.tau"], rtol=1e-12)
    swept = cell.gradient(
        with_unit, wrt, dt=dt, sweep={"cell.rest": Q([-0.07], "V")}, **settings, **fit_options
    )
    assert np.allclose(swept["I"], first["I"], rtol=1e-12)
    for pair in zip(
        (
            cell.jacobian(["cell.V"], wrt, dt=dt, **settings, **fit_options),
            cell.hessian(with_unit, wrt, dt=dt, **settings, **fit_options),
        ),
        (
            cell.jacobian(["cell.V"], wrt, dt=0.5, **magnitudes, **fit_options),
            cell.hessian(of, wrt, dt=0.5, **magnitudes, **fit_options),
        ),
        strict=True,
    ):
        assert all(np.allclose(pair[0][names], pair[1][names], rtol=1e-12) for names in pair[0])
    gradient = cell.differentiate(with_unit, wrt, dt=dt, **fit_options)
    assert np.isclose(gradient.run(**settings).value, second.value, rtol=1e-12)


def test_derivatives_refuse_what_does_not_fit(cell: mdf_loop.CompiledModel) -> None:
    with pytest.raises(InputError, match=r"the array for sse of 'cell.V' is given in ampere"):
        cell.gradient({"cell.V": {"sse": Q(1.0, "A")}}, ["cell.tau"])
    with pytest.raises(
        InputError, match=r"the array for weighted of 'cell.V' is given in millivolt"
    ):
        cell.gradient({"cell.V": ["sum", {"weighted": Q(1.0, "mV")}]}, ["cell.tau"])
    with pytest.raises(InputError, match=r"the value of 'cell.R' is given in ampere"):
        cell.gradient({"cell.V": "sum"}, ["cell.tau"], set={"cell.R": Q(1.0, "A")})
    with pytest.raises(InputError, match="the input 'I' is given in volt"):
        cell.jacobian(["cell.V"], ["cell.tau"], inputs={"I": Q(1.0, "V")})


def test_verify_takes_quantities(cell: mdf_loop.CompiledModel) -> None:
    settings: dict[str, Any] = {"set": {"cell.R": Q(300.0, "Mohm")}, "dt": Q(500, "us")}
    assert mdf_loop.verify(document_of(CELL), {"I": Q(0.9, "nA")}, steps=3, **settings).equal
    with pytest.raises(InputError, match="the input 'I' is given in volt"):
        mdf_loop.verify(document_of(CELL), {"I": Q(1.0, "V")})


def test_files_are_written_for_quantities(cell: mdf_loop.CompiledModel, tmp_path: Path) -> None:
    proto = cell.to_onnx({"I": Q(0.9, "nA")}, steps=3, dt=Q(500, "us"))
    assert (
        proto.SerializeToString() == cell.to_onnx({"I": 900.0}, steps=3, dt=0.5).SerializeToString()
    )
    cell.save(tmp_path / "a.onnx", {"I": Q(0.9, "nA")})
    with pytest.raises(InputError, match="the input 'I' is given in volt"):
        cell.save(tmp_path / "b.onnx", {"I": Q(0.9, "V")})


def test_a_program_is_read_for_quantities(cell: mdf_loop.CompiledModel) -> None:
    arrays, _, _ = cell.prepare({"I": Q(0.9, "nA")})
    assert float(arrays["I"]) == pico(0.9)
    with pytest.raises(InputError, match="the input 'gain' is given in volt"):
        mdf_loop.read(document_of(CELL), {"gain": Q(0.9, "V")})
    assert "I" in str(mdf_loop.read(document_of(CELL), {"I": Q(0.9, "nA")}))


BODY = {
    "metadata": {"inputs": ["k", "go", "x"], "outputs": ["go", "y"]},
    "nodes": {"A": {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x + 1.0"}}}},
}


def test_values_of_one_loop_have_no_unit() -> None:
    assert float(mdf_loop.loop(Q(3, ""), None, Q(0.5, ""), BODY)) == 3.5
    assert float(mdf_loop.loop(2, None, Q(50.0, "percent"), BODY)) == 2.5
    with pytest.raises(LoopError, match="'initial value 0' is given in millivolt, but has no unit"):
        mdf_loop.loop(3, None, Q(0.5, "mV"), BODY)
    with pytest.raises(LoopError, match="'the trip count' is given in second"):
        mdf_loop.loop(Q(3, "s"), None, 0.5, BODY)


@pytest.mark.parametrize("part", ["default_value", "value", "default_initial_value"])
def test_values_of_a_document_are_plain_numbers(part: str) -> None:
    node: dict[str, Any] = {"output_ports": {"y": {"value": "a"}}}
    if part == "default_value":
        node["input_ports"] = {"a": {part: Q(1.0, "mV"), "metadata": {"units": "mV"}}}
    else:
        node["parameters"] = {"a": {part: Q(1.0, "mV"), "time_derivative": "-a"}}
        if part == "value":
            del node["parameters"]["a"]["time_derivative"]
    with pytest.raises(
        LoopError, match="given in millivolt, but values of a model are plain numbers"
    ):
        mdf_loop.compile({"g": {"nodes": {"A": node}}}).run()
