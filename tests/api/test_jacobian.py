"""Jacobians and Hessians of all rows by parameters, states and inputs, in forward and reverse mode."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError, UnsupportedError

CELL = {
    "graph": {
        "nodes": {
            "cell": {
                "input_ports": {"current": {"default_value": 0.5}},
                "parameters": {
                    "a": {"value": 0.7},
                    "gain": {"value": [1.0, 0.5]},
                    "v": {
                        "default_initial_value": [-1.0, 0.3],
                        "time_derivative": "gain * (v - v*v*v/3) - w + current",
                    },
                    "w": {"default_initial_value": [0.0, 0.1], "time_derivative": "(v + a - w)/5"},
                },
                "output_ports": {"V": {"value": "v"}},
            }
        }
    }
}
STEPS, DT = 12, 0.1
CURRENTS = np.linspace(0.4, 0.6, STEPS)
NAMES = ["cell.a", "cell.gain", "cell.v", "current"]
AT = {"cell.a": 0.7, "cell.gain": [1.0, 0.5], "cell.v": [-1.0, 0.3]}


@pytest.fixture(scope="module", params=["auto", "off"])
def model(request):
    return mdf_loop.compile(CELL, native=request.param)


def rows(model, name, change):
    """Return all rows of a run after a change of one element."""
    values = {key: np.array(value, float) for key, value in AT.items()}
    values["current"] = CURRENTS.copy()
    values[name] = values[name] + change
    inputs = {"current": values.pop("current")}
    return model.run(inputs, set=values, steps=STEPS, dt=DT)["cell.V"]


def differences(model, name):
    """Compute the Jacobian by central differences."""
    shape = np.shape(AT.get(name, CURRENTS))
    quotients = np.zeros((STEPS, 2, *shape))
    for index in np.ndindex(*shape):
        change = np.zeros(shape)
        change[index] = 1e-6
        more, less = rows(model, name, change), rows(model, name, -change)
        quotients[(..., *index)] = (more - less) / 2e-6
    return quotients


@pytest.mark.parametrize(
    ("names", "mode"), [(NAMES[:3], "forward"), (NAMES, "forward"), (["current"], "forward")]
)
def test_jacobian_of_all_rows(model, names, mode):
    inputs = {"current": CURRENTS}
    jacobian = model.jacobian(["cell.V"], names, set=AT, inputs=inputs, steps=STEPS, dt=DT)
    assert jacobian.mode == mode
    assert set(jacobian) == {("cell.V", name) for name in names}
    for name in names:
        expected = differences(model, name)
        assert jacobian["cell.V", name].shape == expected.shape
        assert np.allclose(jacobian["cell.V", name], expected, atol=1e-7)


def test_fewer_numbers_than_parameters_go_in_reverse():
    node = {
        "input_ports": {"x": {"default_value": [0.1, 0.2, 0.3]}},
        "parameters": {"w": {"value": [[1.0, 2.0, 3.0], [-1.0, 0.5, 0.25]]}},
        "functions": {"y": {"function": "MatMul", "args": {"A": "w", "B": "x"}}},
        "output_ports": {"out": {"value": "numpy.tanh(y)"}, "first": {"value": "y"}},
    }
    model = mdf_loop.compile({"graph": {"nodes": {"n": node}}})
    jacobian = model.jacobian(["n.out", "n.first"], ["n.w", "x"])
    assert jacobian.mode == "reverse"
    w, x = np.array(node["parameters"]["w"]["value"]), np.array([0.1, 0.2, 0.3])
    slope = 1 - np.tanh(w @ x) ** 2
    assert np.allclose(jacobian["n.out", "x"], slope[:, None] * w)
    assert np.allclose(jacobian["n.first", "x"], w)
    by_weights = np.einsum("ij,k->ijk", np.eye(2), x)
    assert np.allclose(jacobian["n.first", "n.w"], by_weights)
    assert np.allclose(jacobian["n.out", "n.w"], slope[:, None, None] * by_weights)
    single_run = model.jacobian(["n.out"], ["n.w"])
    assert np.array_equal(single_run["n.out", "n.w"], jacobian["n.out", "n.w"])


def test_the_rows_of_a_jacobian_add_up_to_the_gradient(model):
    jacobian = model.jacobian(["cell.V"], NAMES[:3], set=AT, steps=STEPS, dt=DT)
    gradient = model.gradient({"cell.V": "sum"}, NAMES[:3], set=AT, steps=STEPS, dt=DT)
    for name in gradient:
        assert np.allclose(jacobian["cell.V", name].sum(axis=(0, 1)), gradient[name], rtol=1e-12)


def test_hessian(model):
    number = {"cell.V": [{"sse": np.zeros((STEPS, 2))}, "mean"]}
    options = {"inputs": {"current": CURRENTS}, "steps": STEPS, "dt": DT}
    hessian = model.hessian(number, NAMES, set=AT, **options)
    for one in NAMES:
        for other in NAMES:
            shape = (*np.shape(AT.get(one, CURRENTS)), *np.shape(AT.get(other, CURRENTS)))
            assert hessian[one, other].shape == shape
            turned = (
                np.moveaxis(
                    hessian[other, one],
                    range(np.ndim(AT.get(other, CURRENTS))),
                    range(-(len(shape) - np.ndim(AT.get(one, CURRENTS))), 0),
                )
                if len(shape) > 1
                else hessian[other, one]
            )
            assert np.allclose(hessian[one, other], turned, rtol=1e-9, atol=1e-11)
    d = model.differentiate(number, NAMES, steps=STEPS, dt=DT)
    more, less = (
        d.run(set={**AT, "cell.a": 0.7 + h}, inputs={"current": CURRENTS}) for h in (1e-6, -1e-6)
    )
    for name in NAMES:
        expected = (more[name] - less[name]) / 2e-6
        assert np.allclose(hessian[name, "cell.a"], expected, rtol=1e-6, atol=1e-7)


def test_outputs_without_jacobian_are_refused_by_name(model):
    with pytest.raises(LoopError, match=r"cell\.U.*\n.*\n.*\n.*cell\.b"):
        model.jacobian(["cell.U"], ["cell.b"], steps=STEPS, dt=DT)
    whole = {
        "graph": {
            "nodes": {
                "n": {
                    "parameters": {"p": {"value": 2.0}},
                    "output_ports": {"k": {"value": "int(p)"}},
                }
            }
        }
    }
    with pytest.raises(UnsupportedError, match=r"n\.k"):
        mdf_loop.compile(whole).jacobian(["n.k"], ["n.p"])
    with pytest.raises(InputError, match="of says what is differentiated"):
        model.hessian("cell.V", ["cell.a"])


def test_a_jacobian_program_is_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mdf_loop.compile(CELL)
    options = {"set": {"cell.a": 0.7}, "inputs": {"current": 0.5}, "steps": STEPS, "dt": DT}
    first = model.jacobian(["cell.V"], ["cell.a"], **options)
    with monkeypatch.context() as patch:
        patch.setattr("mdf_loop.api.jacobian.jacobian_forward", None)
        repeated = model.jacobian(["cell.V"], ["cell.a"], **options)
    assert np.array_equal(first["cell.V", "cell.a"], repeated["cell.V", "cell.a"])
    other = model.jacobian(["cell.V"], ["cell.a"], **{**options, "steps": STEPS + 3})
    assert other["cell.V", "cell.a"].shape == (STEPS + 3, 2)
