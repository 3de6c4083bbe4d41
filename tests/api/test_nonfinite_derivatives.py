"""One warning per call names derivatives that are nan or infinite although the output is finite."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import GradientError

FUNCTIONS: dict[str, tuple[str, Any, str]] = {
    "std": ("numpy.std(v)", [1.0, 1.0, 1.0], "nan"),
    "norm": ("numpy.linalg.norm(v)", [0.0, 0.0], "nan"),
    "norm of a difference": ("numpy.linalg.norm(v - 1.0)", [1.0, 1.0], "nan"),
    "root of a sum of squares": ("numpy.sqrt(numpy.sum(v * v))", [0.0, 0.0], "nan"),
    "numpy.cbrt": ("numpy.cbrt(v)", 0.0, "nan"),
    "math.cbrt": ("math.cbrt(v)", 0.0, "nan"),
    "root of a size": ("numpy.sqrt(abs(v))", 0.0, "nan"),
    "numpy.sqrt": ("numpy.sqrt(v)", 0.0, "infinite"),
    "math.sqrt": ("math.sqrt(v)", 0.0, "infinite"),
    "a power": ("v ** 0.5", 0.0, "infinite"),
    "arcsin": ("numpy.arcsin(v)", 1.0, "infinite"),
}
"""By name the expression, where it has no finite derivative, and what the derivative is there."""

FINITE: dict[str, tuple[str, Any, Any]] = {
    "numpy.hypot": ("numpy.hypot(v, 0.0)", 0.0, 0.0),
    "math.hypot": ("math.hypot(v, v, v)", 0.0, 0.0),
    "abs": ("abs(v)", 0.0, 0.0),
    "var": ("numpy.var(v)", [1.0, 1.0], [0.0, 0.0]),
    "guarded std": ("numpy.std(v) if numpy.var(v) > 0 else 0.0", [1.0, 1.0], [0.0, 0.0]),
    "guarded norm": (
        "numpy.linalg.norm(v) if numpy.any(v != 0) else 0.0",
        [0.0, 0.0],
        [0.0, 0.0],
    ),
    "guarded cbrt": ("numpy.cbrt(v) if v != 0 else 0.0", 0.0, 0.0),
    "guarded root": ("numpy.sqrt(v) if v > 0 else 0.0", 0.0, 0.0),
    "a root above 0": ("numpy.sqrt(numpy.sum(v * v) + 1e-12)", [0.0, 0.0], [0.0, 0.0]),
}
"""By name an expression, the value, and its derivative, which is a choice at a kink, or guarded."""


def compiled(text: str, value: Any, native: str = "off", **more: Any) -> mdf_loop.CompiledModel:
    """Return a node whose state v starts as the parameter x, with the expression as output y."""
    parameters = {
        "x": {"value": value},
        **{name: {"value": number} for name, number in more.items()},
        "v": {"default_initial_value": "x", "value": "1.0 * v"},
    }
    node = {"parameters": parameters, "output_ports": {"y": {"value": text}}}
    model = {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}
    return mdf_loop.compile(model, native=native, device="cpu")


def sentences(compute: Callable[[], Any]) -> list[str]:
    """Return the warnings of a call and check that the warnings point to this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compute()
    assert all(each.category is UserWarning and each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


GRADIENT = {"of": {"n.y": "sum"}, "wrt": ["n.x"]}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_of_one_evaluation(name: str) -> None:
    text, value, kind = FUNCTIONS[name]
    model = compiled(text, value)
    (sentence,) = sentences(lambda: model.gradient(**GRADIENT))
    size = np.size(value)
    share = "" if size == 1 else f" in {size} of {size} elements"
    beginning = f"the number is finite, but its derivative by 'n.x' is {kind}{share}: "
    assert sentence.startswith(beginning)
    assert "write into the model what holds there" in sentence


@pytest.mark.parametrize("name", FINITE)
def test_a_kink_with_a_stated_derivative_and_a_guard_give_no_warning(name: str) -> None:
    text, value, derivative = FINITE[name]
    model = compiled(text, value)
    assert sentences(lambda: model.gradient(**GRADIENT)) == []
    np.testing.assert_array_equal(model.gradient(**GRADIENT)["n.x"], derivative)
    assert sentences(lambda: model.jacobian(["n.y"], ["n.x"])) == []


def test_derivatives_of_hypot_and_norm_at_the_origin() -> None:
    """Check that `hypot` has the derivative 0 at the origin and `norm`, a square root, has nan."""
    hypot = compiled("numpy.hypot(v, b)", 0.0, b=0.0).gradient({"n.y": "sum"}, ["n.x", "n.b"])
    assert (hypot["n.x"], hypot["n.b"]) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("native", [pytest.param("require", marks=pytest.mark.native), "off"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_over_steps(name: str, native: str) -> None:
    text, value, _ = FUNCTIONS[name]
    model = compiled(text, value, native)
    (sentence,) = sentences(lambda: model.gradient(**GRADIENT, steps=30))
    assert sentence.startswith("the number is finite, but its derivative by 'n.x' is ")
    if native == "require":
        with pytest.warns(UserWarning, match=r"by 'n\.x' is"):
            gradient = model.gradient(**GRADIENT, steps=30)
        assert set(gradient.native.values()) == {"native"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_jacobian_and_a_hessian(name: str) -> None:
    text, value, _ = FUNCTIONS[name]
    model = compiled(text, value)
    (sentence,) = sentences(lambda: model.jacobian(["n.y"], ["n.x"]))
    assert sentence.startswith("outputs are finite, but the derivative of 'n.y' by 'n.x' is ")
    (sentence,) = sentences(lambda: model.hessian(**GRADIENT))
    assert sentence.startswith(
        "the number is finite, but its second derivative by 'n.x' and 'n.x' is "
    )


@pytest.mark.slow
@pytest.mark.parametrize("native", ["auto", "off"])
def test_a_jacobian_and_a_hessian_over_steps(native: str) -> None:
    model = compiled("numpy.std(v)", [1.0, 1.0, 1.0], native)
    (sentence,) = sentences(lambda: model.jacobian(["n.y"], ["n.x"], steps=4))
    assert "'n.x' is nan in 12 of 12 elements" in sentence
    (sentence,) = sentences(lambda: model.hessian(**GRADIENT, steps=4))
    assert "second derivative" in sentence


def test_each_derivative_is_named_with_the_number_of_its_elements() -> None:
    model = compiled("numpy.sqrt(v) * a + numpy.cbrt(b)", [0.0, 4.0], a=1.0, b=0.0)
    (sentence,) = sentences(lambda: model.gradient({"n.y": "sum"}, ["n.x", "n.a", "n.b"]))
    assert "derivative by 'n.x' is infinite in 1 of 2 elements, by 'n.b' is nan: " in sentence
    (sentence,) = sentences(lambda: model.hessian({"n.y": "sum"}, ["n.x", "n.b"]))
    assert "by 'n.b' and 'n.b' is nan" in sentence
    assert "'n.b' and 'n.x'" not in sentence


def test_only_elements_of_a_jacobian_whose_output_is_finite_count() -> None:
    model = compiled("numpy.log(v)", [0.0, 2.0])
    assert np.isinf(model.jacobian(["n.y"], ["n.x"])["n.y", "n.x"][0, 0])
    assert sentences(lambda: model.jacobian(["n.y"], ["n.x"])) == []
    assert sentences(lambda: compiled("1 / v", 0.0).gradient(**GRADIENT)) == []
    assert sentences(lambda: compiled("numpy.log(v)", 0.0).hessian(**GRADIENT)) == []


def test_members_of_a_sweep_count_each_for_itself() -> None:
    model = compiled("numpy.log(v) + numpy.sqrt(v - 1.0)", 2.0)

    def by_sweep(*values: float) -> list[str]:
        return sentences(lambda: model.gradient(**GRADIENT, sweep={"n.x": list(values)}))

    assert by_sweep(2.0, 3.0) == []
    (sentence,) = by_sweep(2.0, 1.0, 3.0, 1.0)
    assert "by 'n.x' is infinite in 2 of 4 elements" in sentence
    assert (
        sentences(lambda: compiled("1 / v", 1.0).gradient(**GRADIENT, sweep={"n.x": [0.0, 1.0]}))
        == []
    )


def test_a_grid_of_members() -> None:
    model = compiled("numpy.linalg.norm(v - b) * a", [1.0, 1.0], a=1.0, b=0.5)
    grid = mdf_loop.grid({"n.a": [1.0, 2.0], "n.b": [0.5, 1.0, 2.0]})
    (sentence,) = sentences(lambda: model.gradient(**GRADIENT, sweep=grid))
    assert "by 'n.x' is nan in 4 of 12 elements" in sentence


def test_trials_and_float32() -> None:
    model = compiled("numpy.std(v) + 0.0 * numpy.random.normal()", [1.0, 1.0])
    (sentence,) = sentences(lambda: model.gradient(**GRADIENT, trials=3))
    assert "by 'n.x' is nan in 2 of 2 elements" in sentence
    float32_values = mdf_loop.compile(model.document, precision="float32", device="cpu")
    assert len(sentences(lambda: float32_values.gradient(**GRADIENT))) == 1


def two_states(second: str, output: str, native: str) -> mdf_loop.CompiledModel:
    """Return a node with a state v, which starts as x, and w, which starts as a."""
    parameters = {
        "x": {"value": 0.0},
        "a": {"value": 1.0},
        "v": {"default_initial_value": "x", "value": "1.0 * v"},
        "w": {"default_initial_value": "a", "value": second},
    }
    ports = {"y": {"value": output}, "z": {"value": "w - v"}}
    model = {
        "m": {"graphs": {"g": {"nodes": {"n": {"parameters": parameters, "output_ports": ports}}}}}
    }
    return mdf_loop.compile(model, native=native, device="cpu")


STATES = [("0.5 * w", "numpy.sqrt(v) + w"), ("0.5 * w + numpy.sqrt(v)", "w")]


@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize(("second", "output"), STATES)
def test_derivatives_independent_of_the_singularity_stay_finite(
    second: str, output: str, native: str
) -> None:
    model = two_states(second, output, native)
    with pytest.warns(UserWarning, match=r"its derivative by 'n\.x' is infinite: "):
        gradient = model.gradient({"n.y": "sum"}, ["n.a", "n.x"], steps=5)
    np.testing.assert_array_equal([gradient["n.a"], gradient["n.x"]], [31 / 32, np.inf])
    with pytest.warns(
        UserWarning, match=r"derivative of 'n\.y' by 'n\.x' is (nan or )?infinite in 5 of"
    ):
        jacobian = model.jacobian(["n.y"], ["n.a", "n.x"], steps=5)
    np.testing.assert_array_equal(jacobian["n.y", "n.a"], 0.5 ** np.arange(1, 6))


def test_other_members_keep_their_bits_beside_one_without_derivatives() -> None:
    model = two_states("0.7 * w + numpy.sqrt(v)", "w * w", "off")
    with pytest.warns(UserWarning, match=r"in 1 of 3 elements"):
        gradient = model.gradient(
            {"n.y": "sum"}, ["n.a", "n.x"], sweep={"n.x": [0.3, 0.0, 0.7]}, steps=9
        )
    for k, start in ((0, 0.3), (2, 0.7)):
        single_run = model.gradient(
            {"n.y": "sum"}, ["n.a", "n.x"], sweep={"n.x": [start, 0.4, 0.5]}, steps=9
        )
        assert [gradient[name][k] for name in gradient] == [
            single_run[name][0] for name in single_run
        ]


def test_derivatives_that_grow_beyond_all_numbers() -> None:
    node = {
        "parameters": {
            "x": {"value": 0.5},
            "v": {"default_initial_value": "x", "value": "(4.0 - 1e-13) * v * (1 - v)"},
        },
        "output_ports": {"y": {"value": "v"}},
    }
    model = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}, device="cpu")
    (sentence,) = sentences(
        lambda: model.gradient({"n.y": "last"}, ["n.x"], set={"n.x": 0.3}, steps=3000)
    )
    assert "derivatives over many steps may grow beyond all numbers" in sentence


def test_a_check_still_fails() -> None:
    model = compiled("numpy.std(v)", [1.0, 1.0])
    with (
        pytest.warns(UserWarning, match=r"by 'n\.x' is nan"),
        pytest.raises(GradientError, match="is nan, but central differences give"),
    ):
        model.gradient(**GRADIENT, check=True)


# --- fits -----------------------------------------------------------------------------------------

NORM = "numpy.linalg.norm(v - 0.5) * t + a"


def test_a_fit_by_least_squares_says_that_a_derivative_was_lost() -> None:
    model = compiled(NORM, [0.0, 0.0], t=[1.0, 2.0, 3.0, 4.0], a=0.0)
    free, data = {"n.x": (0.0, 1.0), "n.a": (-1.0, 1.0)}, {"n.y": np.array([2.0, 3.0, 4.0, 5.0])}
    start = {"n.x": [0.5, 0.5], "n.a": 0.0}
    fits: list[Any] = []
    (sentence,) = sentences(lambda: fits.append(model.fit(data, free, start=start)))
    assert sentence.startswith(
        "at points of the search outputs are finite, but derivatives by 'n.x' are nan or infinite: "
    )
    (fit,) = fits
    assert fit.nonfinite_derivatives == ("n.x",)
    assert fit.to_dict()["nonfinite_derivatives"] == ["n.x"]
    assert "derivatives by n.x were nan or infinite at points of the search" in str(fit)
    assert sentences(lambda: model.fit(data, free, start={"n.x": [0.25, 0.75], "n.a": 0.0})) == []


def test_a_fit_by_the_gradient_warns() -> None:
    model = compiled("numpy.linalg.norm(v - 0.5) + (v[0] - 0.7) ** 2", [0.0, 0.0])
    words: dict[str, Any] = {"free": {"n.x": (0.0, 1.0)}, "objective": {"n.y": "sum"}}
    (sentence,) = sentences(lambda: model.fit(None, **words, start={"n.x": [0.5, 0.5]}))
    assert "derivatives by 'n.x' are nan or infinite" in sentence
    evolved = {"method": "differential_evolution"}
    assert sentences(lambda: model.fit(None, **words, **evolved)) == []


def test_fits_of_subjects_warn_once() -> None:
    model = compiled(NORM, [0.0, 0.0], t=[1.0, 2.0, 3.0, 4.0], a=0.0)
    free, data = {"n.x": (0.0, 1.0), "n.a": (-1.0, 1.0)}, {"n.y": np.array([2.0, 3.0, 4.0, 5.0])}
    start = {"n.x": [0.5, 0.5], "n.a": 0.0}
    assert len(sentences(lambda: model.fit({"s": data, "t": data}, free, start=start))) == 1


def test_a_derivative_of_a_row_that_was_not_observed_does_not_count() -> None:
    model = compiled("numpy.sqrt(numpy.maximum(a * t, 0.0))", 0.0, t=[0.0, 1.0, 4.0], a=1.0)
    data = {"n.y": np.array([np.nan, 2.0, 4.0])}
    assert sentences(lambda: model.fit(data, {"n.a": (1.0, 9.0)}, start={"n.a": 2.0})) == []


def test_a_recovery_warns_once() -> None:
    """Check that a recovery gives one warning for a derivative that is nan everywhere (inf times 0)."""
    model = compiled(
        "a * t + b * t * t + numpy.sqrt(b * 0.0)", 0.0, t=[1.0, 2.0, 3.0], a=1.0, b=1.0
    )
    free = {"n.a": (0.0, 2.0), "n.b": (0.0, 2.0)}
    words: dict[str, Any] = {"against": "n.y", "noise": 0.01, "times": 2, "points": 8, "polish": 1}
    (sentence,) = sentences(lambda: mdf_loop.recover(model, free, **words))
    assert "derivatives by 'n.b' are nan or infinite" in sentence
