"""Write the files in `data`: exports of PsyNeuLink, and the numbers that PsyNeuLink computes.

Run this script from the root of the repository in a separate environment with
`pip install psyneulink==0.21`, which is not a dependency of this project:
`python tests/psyneulink/make_data.py [name ...]`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psyneulink as pnl
from psyneulink.core.globals.utilities import parse_valid_identifier

DATA = Path(__file__).parent / "data"
NUMBERS = [[0.5], [-1.25], [2.0], [0.0]]
VECTORS = [[0.5, -1.0, 2.0], [0.0, 0.25, -0.75], [1.5, 1.5, -3.0]]
COUNTS = [[1.0], [2.0], [3.0], [4.0]]
THREE = [[0.0, 0.0, 0.0]]

CompositionAndInputs = tuple[pnl.Composition, dict[Any, Any]]
COMPOSITIONS: dict[str, Callable[[], CompositionAndInputs]] = {}


def composition(make: Callable[[], CompositionAndInputs]) -> Callable[[], CompositionAndInputs]:
    COMPOSITIONS[make.__name__] = make
    return make


def processing(name: str, function: Any, **more: Any) -> Any:
    return pnl.ProcessingMechanism(name=name, function=function, **more)


def transfer(name: str, function: Any, **more: Any) -> Any:
    return pnl.TransferMechanism(name=name, function=function, **more)


def in_parallel(inputs: Any, *mechanisms: Any) -> CompositionAndInputs:
    """Return a composition of parallel mechanisms with the same inputs."""
    whole = pnl.Composition(name="comp", pathways=[[mechanism] for mechanism in mechanisms])
    return whole, dict.fromkeys(mechanisms, inputs)


def chain() -> tuple[Any, Any, Any, pnl.Composition]:
    a, b, c = (
        processing(name, pnl.SimpleIntegrator(rate=rate))
        for name, rate in (("A", 1.0), ("B", 2.0), ("C", 0.5))
    )
    return a, b, c, pnl.Composition(name="comp", pathways=[[a, b, c]])


def scheduled(b_runs: Any = None, c_runs: Any = None, ends: Any = None) -> CompositionAndInputs:
    """Return a chain A -> B -> C with scheduler conditions that refer to its mechanisms."""
    a, b, c, whole = chain()
    for mechanism, condition in ((b, b_runs), (c, c_runs)):
        if condition is not None:
            whole.scheduler.add_condition(mechanism, condition(a, b))
    if ends is not None:
        whole.termination_processing = {pnl.TimeScale.TRIAL: ends(a, b)}
    return whole, {a: COUNTS}


# --- exports that agree with PsyNeuLink ----------------------------------------------------------


@composition
def transfer_functions() -> CompositionAndInputs:
    return in_parallel(
        VECTORS,
        transfer("Linear", pnl.Linear(slope=2.0, intercept=0.5), input_shapes=3),
        transfer("Logistic", pnl.Logistic(gain=1.5, bias=0.3, x_0=0.2), input_shapes=3),
        processing("Exponential", pnl.Exponential(rate=0.5, scale=2.0), default_variable=THREE),
        processing("Tanh", pnl.Tanh(scale=2.0), default_variable=THREE),
        processing("ReLU", pnl.ReLU(gain=2.0, bias=0.25, leak=0.1), default_variable=THREE),
        processing("SoftMax", pnl.SoftMax(gain=1.5), default_variable=THREE),
        processing("Gaussian", pnl.Gaussian(standard_deviation=0.5), default_variable=THREE),
        processing("Identity", pnl.Identity(), default_variable=THREE),
    )


@composition
def whole_defaults() -> CompositionAndInputs:
    a, b = transfer("A", pnl.Linear(slope=0.5)), transfer("B", pnl.Linear(intercept=0.25))
    return pnl.Composition(name="comp", pathways=[[a, b]]), {a: NUMBERS}


@composition
def integrators() -> CompositionAndInputs:
    return in_parallel(
        NUMBERS,
        processing("Simple", pnl.SimpleIntegrator(rate=0.5, offset=0.1, initializer=[0.25])),
        processing("Adaptive", pnl.AdaptiveIntegrator(rate=0.25, initializer=[1.0])),
        processing("Leaky", pnl.LeakyCompetingIntegrator(rate=0.4, time_step_size=0.1)),
        processing("Accumulator", pnl.AccumulatorIntegrator(rate=0.9, increment=0.5)),
        transfer("Mode", pnl.Logistic(), integrator_mode=True, integration_rate=0.3),
    )


@composition
def fitzhugh_nagumo() -> CompositionAndInputs:
    euler = pnl.FitzHughNagumoIntegrator(
        integration_method="EULER", initial_v=-1.0, time_step_size=0.05
    )
    runge_kutta = pnl.FitzHughNagumoIntegrator(initial_v=-1.0, initial_w=0.5, time_step_size=0.1)
    return in_parallel(
        NUMBERS,
        pnl.IntegratorMechanism(name="Euler", function=euler),
        pnl.IntegratorMechanism(name="RungeKutta", function=runge_kutta),
    )


@composition
def layers() -> CompositionAndInputs:
    a = transfer("A", pnl.Linear(), input_shapes=2)
    b = transfer("B", pnl.Logistic(), input_shapes=3)
    c = transfer("C", pnl.Linear())
    first = np.array([[1.0, 0.5, -1.0], [0.25, -2.0, 1.0]])
    second = np.array([[1.0], [2.0], [-1.0]])
    whole = pnl.Composition(name="comp", pathways=[[a, first, b, second, c]])
    return whole, {a: [[1.0, 2.0], [0.5, -0.5], [0.0, 1.0]]}


@composition
def combinations() -> CompositionAndInputs:
    two = [[0.0, 0.0], [0.0, 0.0]]
    inputs = [[[1.0, 2.0], [3.0, 4.0]], [[0.5, 1.0], [3.0, 2.0]]]
    return in_parallel(
        inputs,
        processing("Sum", pnl.LinearCombination(offset=0.5), default_variable=two),
        processing(
            "Product",
            pnl.LinearCombination(operation=pnl.PRODUCT, scale=2.0),
            default_variable=two,
        ),
        processing("Rows", pnl.Linear(slope=2.0), default_variable=two),
    )


@composition
def drift_diffusion() -> CompositionAndInputs:
    def integrator() -> Any:
        return pnl.DriftDiffusionIntegrator(rate=0.5, noise=0.0, threshold=1.0, time_step_size=0.5)

    ddm = pnl.DDM(
        name="DDM",
        function=integrator(),
        execute_until_finished=False,
        reset_stateful_function_when=pnl.Never(),
        output_ports=[pnl.DECISION_VARIABLE],
    )
    return in_parallel(NUMBERS, processing("Integrator", integrator()), ddm)


@composition
def to_a_threshold() -> CompositionAndInputs:
    """Return a composition whose trials end when the drift diffusion process reaches its threshold."""
    function = pnl.DriftDiffusionIntegrator(
        rate=0.5, noise=0.0, threshold=100.0, time_step_size=0.5
    )
    a, b = processing("A", function), processing("B", pnl.SimpleIntegrator(rate=0.5))
    whole = pnl.Composition(name="comp", pathways=[[a, b]])
    at_threshold = pnl.Any(
        pnl.Threshold(a, "value", 2.0, ">=", indices=(0, 0)), pnl.AfterNCalls(a, 10)
    )
    whole.termination_processing = {pnl.TimeScale.TRIAL: pnl.All(at_threshold, pnl.JustRan(b))}
    return whole, {a: [[1.0], [2.0], [-3.0], [4.0]]}


@composition
def every_n_calls() -> CompositionAndInputs:
    return scheduled(lambda a, b: pnl.EveryNCalls(a, 2), lambda a, b: pnl.EveryNCalls(b, 3))


@composition
def after_n_calls() -> CompositionAndInputs:
    return scheduled(lambda a, b: pnl.AfterNCalls(a, 3), lambda a, b: pnl.AfterNCalls(b, 2))


@composition
def passes() -> CompositionAndInputs:
    return scheduled(lambda a, b: pnl.AfterPass(1), lambda a, b: pnl.AtPass(3))


@composition
def any_of() -> CompositionAndInputs:
    return scheduled(
        lambda a, b: pnl.EveryNPasses(2),
        lambda a, b: pnl.Any(pnl.AfterNCalls(b, 2), pnl.AfterPass(5)),
    )


@composition
def all_of() -> CompositionAndInputs:
    return scheduled(
        lambda a, b: pnl.All(pnl.AfterPass(1), pnl.Not(pnl.AtPass(2))),
        lambda a, b: pnl.JustRan(b),
    )


@composition
def threshold_of_node() -> CompositionAndInputs:
    return scheduled(lambda a, b: pnl.Threshold(a, "value", 5.0, ">=", indices=(0, 0)))


@composition
def threshold_ends() -> CompositionAndInputs:
    return scheduled(ends=lambda a, b: pnl.Threshold(a, "value", 5.0, ">=", indices=(0, 0)))


@composition
def trials() -> CompositionAndInputs:
    return scheduled(
        b_runs=lambda a, b: pnl.AtTrial(1),
        ends=lambda a, b: pnl.AfterNCalls(a, 2),
    )


@composition
def never() -> CompositionAndInputs:
    return scheduled(b_runs=lambda a, b: pnl.Never(), ends=lambda a, b: pnl.AfterNPasses(2))


@composition
def time_interval() -> CompositionAndInputs:
    return scheduled(lambda a, b: pnl.TimeInterval(repeat=2))


# --- exports that differ from PsyNeuLink -----------------------------------------------------------


@composition
def left_out() -> CompositionAndInputs:
    return in_parallel(
        VECTORS,
        transfer("Scaled", pnl.Logistic(scale=2.0, offset=0.5), input_shapes=3),
        processing("Tanh", pnl.Tanh(gain=0.7, bias=0.1), default_variable=THREE),
        transfer("Clipped", pnl.Linear(slope=2.0), clip=(-1.0, 1.0), input_shapes=3),
        transfer("Noisy", pnl.Linear(slope=2.0), noise=0.5, input_shapes=3),
    )


@composition
def two_senders() -> CompositionAndInputs:
    a, b = transfer("A", pnl.Linear(slope=2.0)), transfer("B", pnl.Logistic())
    c = transfer("C", pnl.Linear(intercept=1.0))
    return pnl.Composition(name="comp", pathways=[[a, c], [b, c]]), {a: NUMBERS, b: NUMBERS[::-1]}


@composition
def recurrent() -> CompositionAndInputs:
    return in_parallel(
        VECTORS,
        pnl.RecurrentTransferMechanism(
            name="A", input_shapes=3, function=pnl.Logistic(), auto=0.5, hetero=-0.25
        ),
    )


@composition
def competing() -> CompositionAndInputs:
    return in_parallel(
        [[0.5, 1.0], [0.5, 1.0], [1.0, 0.25]],
        pnl.LCAMechanism(
            name="A", input_shapes=2, leak=0.5, competition=0.3, noise=0.0, time_step_size=0.1
        ),
    )


@composition
def ddm_trials() -> CompositionAndInputs:
    function = pnl.DriftDiffusionIntegrator(rate=0.5, noise=0.0, threshold=1.0, time_step_size=0.1)
    return in_parallel(COUNTS, pnl.DDM(name="DDM", function=function))


# --- exports that are refused ---------------------------------------------------------------------


@composition
def nested() -> CompositionAndInputs:
    inner = pnl.Composition(name="inner", pathways=[[transfer("A", pnl.Linear(slope=2.0))]])
    b = transfer("B", pnl.Linear(intercept=1.0))
    return pnl.Composition(name="comp", pathways=[[inner, b]]), {inner: NUMBERS}


@composition
def python_function() -> CompositionAndInputs:
    def doubled(variable: Any, plus: float = 1.0) -> Any:
        return variable * 2 + plus

    return in_parallel(NUMBERS, processing("A", pnl.UserDefinedFunction(custom_function=doubled)))


@composition
def drift_diffusion_analytical() -> CompositionAndInputs:
    return in_parallel(NUMBERS, pnl.DDM(name="DDM"))


@composition
def python_condition() -> CompositionAndInputs:
    return scheduled(lambda a, b: pnl.Condition(lambda sender: sender.value[0][0] > 3, a))


@composition
def when_finished() -> CompositionAndInputs:
    a = transfer(
        "A",
        pnl.Linear(),
        integrator_mode=True,
        termination_threshold=0.1,
        execute_until_finished=False,
    )
    b = processing("B", pnl.SimpleIntegrator())
    whole = pnl.Composition(name="comp", pathways=[[a, b]])
    whole.scheduler.add_condition(b, pnl.WhenFinished(a))
    return whole, {a: COUNTS}


@composition
def circle() -> CompositionAndInputs:
    a, b = transfer("A", pnl.Linear(slope=0.5, intercept=1.0)), transfer("B", pnl.Linear())
    return pnl.Composition(name="comp", pathways=[[a, b, a]]), {a: NUMBERS}


# --- with noise ----------------------------------------------------------------------------------

NOISY: dict[str, Callable[[], CompositionAndInputs]] = {}
REPEATS = 300


def noisy(make: Callable[[], CompositionAndInputs]) -> Callable[[], CompositionAndInputs]:
    NOISY[make.__name__] = make
    return make


def normal(deviation: float) -> Any:
    return pnl.NormalDist(standard_deviation=deviation)


def integrating(function: Any) -> CompositionAndInputs:
    return in_parallel(COUNTS, processing("A", function))


@noisy
def noisy_simple() -> CompositionAndInputs:
    return integrating(pnl.SimpleIntegrator(rate=0.5, noise=normal(0.5)))


@noisy
def noisy_adaptive() -> CompositionAndInputs:
    return integrating(pnl.AdaptiveIntegrator(rate=0.25, noise=normal(0.5)))


@noisy
def noisy_accumulator() -> CompositionAndInputs:
    return integrating(pnl.AccumulatorIntegrator(rate=0.9, increment=0.2, noise=normal(0.3)))


@noisy
def noisy_uniform() -> CompositionAndInputs:
    return integrating(pnl.SimpleIntegrator(rate=0.5, noise=pnl.UniformDist(low=-1.0, high=2.0)))


@noisy
def noisy_exponential() -> CompositionAndInputs:
    return integrating(pnl.SimpleIntegrator(rate=0.5, noise=pnl.ExponentialDist(beta=0.5)))


@noisy
def noisy_distribution() -> CompositionAndInputs:
    return integrating(pnl.NormalDist(mean=2.0, standard_deviation=0.5))


@noisy
def noisy_ornstein_uhlenbeck() -> CompositionAndInputs:
    function = pnl.OrnsteinUhlenbeckIntegrator(decay=-0.5, noise=0.4, time_step_size=0.1)
    return integrating(function)


@noisy
def noisy_drift_diffusion() -> CompositionAndInputs:
    function = pnl.DriftDiffusionIntegrator(rate=1.0, noise=0.7, time_step_size=0.1, threshold=50.0)
    mechanism = pnl.DDM(name="DDM", function=function, execute_until_finished=False)
    return in_parallel(COUNTS, mechanism)


@noisy
def noisy_logistic() -> CompositionAndInputs:
    mechanism = transfer(
        "A", pnl.Logistic(gain=2.0), integrator_mode=True, integration_rate=0.3, noise=normal(0.2)
    )
    return in_parallel(NUMBERS, mechanism)


@noisy
def noisy_network() -> CompositionAndInputs:
    a = processing("A", pnl.SimpleIntegrator(rate=0.25, noise=normal(0.5)))
    b = processing("B", pnl.AdaptiveIntegrator(rate=0.5, noise=normal(0.25)))
    whole = pnl.Composition(name="comp", pathways=[[a, b]])
    whole.scheduler.add_condition(b, pnl.EveryNCalls(a, 2))
    return whole, {a: COUNTS}


def statistics(make: Callable[[], CompositionAndInputs]) -> dict[str, Any]:
    """Return means and variances of outputs after each trial, over runs with different random numbers."""
    pnl.clear_registry()
    pnl.core.globals.utilities.set_global_seed(1)
    whole, inputs = make()
    runs = []
    for _ in range(REPEATS):
        runs.append(numbers(whole, inputs))
        for mechanism in mechanisms_of(whole):
            if mechanism.parameters.has_initializers.get(whole):
                mechanism.reset(context=whole)
    report: dict[str, Any] = {"inputs": inputs_by_port(inputs), "repeats": REPEATS, "outputs": {}}
    for name in runs[0]:
        rows = np.array([[np.ravel(row)[0] for row in run[name]] for run in runs], float)
        report["outputs"][name] = [rows.mean(axis=0).tolist(), rows.var(axis=0).tolist()]
    return report


# --- single function ------------------------------------------------------------------------------

DRIFT_DIFFUSIONS = [
    # drift_rate, threshold, noise, starting_value, non_decision_time
    (1.0, 1.0, 0.5, 0.0, 0.2),
    (1.0, 1.0, 0.5, 0.2, 0.2),
    (2.0, 0.7, 1.0, -0.3, 0.0),
    (-1.0, 1.0, 0.5, 0.2, 0.2),
    (1.0, 1.0, 0.5, 1.0, 0.2),  # starts at a threshold or beyond
    (1.0, 1.0, 0.5, -1.0, 0.2),
    (1.0, 1.0, 0.5, 2.0, 0.2),
    (0.5, 1.5, 0.05, 0.1, 0.3),  # nearly no noise
    (1.0, 1.0, 0.01, 0.0, 0.2),
    (1.0, 0.3, 2.0, 0.2, 0.1),
]
STIMULI = [0.5, -1.25, 2.0, 0.0, 1e-9, 5e-3, -5e-3, 50.0]


def drift_diffusions() -> list[Any]:
    """Return arguments of DriftDiffusionAnalytical with its results for each stimulus."""
    names = ("drift_rate", "threshold", "noise", "starting_value", "non_decision_time")
    cases = []
    for values in DRIFT_DIFFUSIONS:
        arguments = dict(zip(names, values, strict=True))
        function = pnl.DriftDiffusionAnalytical(**arguments)
        rows = [np.ravel(function(np.array([[x]]))).astype(float).tolist() for x in STIMULI]
        cases.append([arguments, list(zip(STIMULI, rows, strict=True))])
    return cases


# --- running and writing --------------------------------------------------------------------------


def mechanisms_of(whole: pnl.Composition) -> Iterator[Any]:
    for node in whole.nodes:
        if isinstance(node, pnl.Composition):
            yield from mechanisms_of(node)
        else:
            yield node


def numbers(whole: pnl.Composition, inputs: dict[Any, Any]) -> dict[str, list[Any]]:
    """Return the values of every output port after each trial, or None before its mechanism has run."""
    rows: dict[str, list[Any]] = {}
    have_run: set[Any] = set()
    mechanisms = list(mechanisms_of(whole))

    def after_trial() -> None:
        lists = whole.scheduler.execution_list.values()
        have_run.update(*(mechanisms_of_step for steps in lists for mechanisms_of_step in steps))
        for mechanism in mechanisms:
            for port in mechanism.output_ports:
                value = np.asarray(port.parameters.value.get(whole)).tolist()
                node = parse_valid_identifier(mechanism.name)
                name = f"{node}.{node}_{parse_valid_identifier(port.name)}"
                rows.setdefault(name, []).append(value if mechanism in have_run else None)

    whole.run(inputs=inputs, call_after_trial=after_trial)
    return rows


def inputs_by_port(inputs: dict[Any, Any]) -> dict[str, Any]:
    """Return the inputs by the port names of the export, one row per trial."""
    port_rows = {}
    for mechanism, rows in inputs.items():
        for k, port in enumerate(mechanism.input_ports):
            has_several_ports = len(mechanism.input_ports) > 1
            name = f"{parse_valid_identifier(mechanism.name)}_{parse_valid_identifier(port.name)}"
            port_rows[name] = [[row[k] if has_several_ports else row] for row in rows]
    return port_rows


def main(names: list[str]) -> None:
    """Write all files, or only those with the given names."""
    warnings.filterwarnings("ignore")
    if not names or "drift_diffusions" in names:
        text = json.dumps(drift_diffusions()).replace("NaN", '"nan"')
        (DATA / "drift_diffusions.numbers.json").write_text(text + "\n")
    for name in [name for name in names or NOISY if name in NOISY]:
        pnl.clear_registry()
        pnl.write_mdf_file(NOISY[name]()[0], f"{name}.yaml", str(DATA / "noisy"))
        text = json.dumps(statistics(NOISY[name]))
        (DATA / "noisy" / f"{name}.statistics.json").write_text(text + "\n")
        print(name)  # noqa: T201
    for name in [name for name in names or COMPOSITIONS if name in COMPOSITIONS]:
        pnl.clear_registry()
        whole, inputs = COMPOSITIONS[name]()
        ending = "json" if name in ("transfer_functions", "every_n_calls", "nested") else "yaml"
        for old in DATA.glob(f"{name}.*"):
            old.unlink()
        pnl.write_mdf_file(whole, f"{name}.{ending}", str(DATA))
        content = {"inputs": inputs_by_port(inputs), "outputs": numbers(whole, inputs)}
        (DATA / f"{name}.numbers.json").write_text(json.dumps(content) + "\n")
        print(name)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
