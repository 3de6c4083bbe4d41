"""Hand-written steps of the loops in the comparison; invariant scalars are computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from native_peers import models
from native_peers.system import Array, State, System

# --- FitzHugh-Nagumo --------------------------------------------------------------------------


def fn_step(m: Any, state: State, constants: State) -> State:
    """Return the next state of FitzHugh-Nagumo; w is updated with the new v."""
    v, w = state
    current, dt = constants
    v = v + (-1 / 3 * v * v * v + v + 1 - w + current) / 0.001 * dt
    return v, w + (v - 0.8 * w + 0.7) / 0.0125 * dt


def fn(cells: int, *, recorded: bool) -> System:
    """Return a loop over `cells` cells with different currents; a single cell is computed with scalars."""
    start, current = models.fn_arrays(cells)
    if cells == 1:
        zero = np.float64(0.0)
        places = (0, 1) if recorded else ()
        return System(("v", "w"), (np.float64(-1.0), zero), (0.0, models.FN_DT), fn_step, places)
    constants = (current, models.FN_DT)
    places = (0,) if recorded else ()
    return System(("v", "w"), (start, np.zeros(cells)), constants, fn_step, places)


def fn_swept(members: int) -> System:
    """Return a loop over a single cell with `members` different currents."""
    start = (np.full(members, -1.0), np.zeros(members))
    return System(("v", "w"), start, (models.currents(members), models.FN_DT), fn_step, (0,))


# --- Hodgkin-Huxley ---------------------------------------------------------------------------


def hh_step(m: Any, state: State, constants: State) -> State:
    """Return the next state of PyNN's neuron; all derivatives use the values of the previous step."""
    return hh_with(
        m, state, *constants, leak=0.01, sodium=20.0, potassium=6.0, reversal=50.0, current=0.05
    )


def hh_with(
    m: Any,
    state: State,
    dt: float,
    *,
    leak: Any,
    sodium: Any,
    potassium: Any,
    reversal: Any,
    current: Any,
) -> State:
    """Return the next state of PyNN's neuron for given conductances, reversal potential and current."""
    v, mm, h, n = state
    mv = v / 0.001
    leaking = leak * (-65.0 - mv)
    entering = sodium * (mm * mm * mm) * h * (reversal - mv)
    leaving = potassium * (n * n * n * n) * (-90.0 - mv)
    membrane = leaking + entering + leaving + current
    m_up, n_up, shifted = 13 - mv - 63.0, 15 - mv - 63.0, mv + 63.0 - 40
    m_opens = 0.32 * m_up / (m.exp(m_up / 4.0) - 1)
    h_opens = 0.128 * m.exp((17 - mv - 63.0) / 18.0)
    n_opens = 0.032 * n_up / (m.exp(n_up / 5) - 1)
    m_closes = 0.28 * shifted / (m.exp(shifted / 5.0) - 1)
    h_closes = 4.0 / (1 + m.exp((40 - mv - 63.0) / 5))
    n_closes = 0.5 * m.exp((10 - mv - 63.0) / 40)
    return (
        v + 0.001 * (membrane / 0.2) / 0.001 * dt,
        mm + (m_opens * (1 - mm) - m_closes * mm) / 0.001 * dt,
        h + (h_opens * (1 - h) - h_closes * h) / 0.001 * dt,
        n + (n_opens * (1 - n) - n_closes * n) / 0.001 * dt,
    )


def hh() -> System:
    """Return a loop over one neuron, computed with scalars."""
    start = (np.float64(-0.065), *(np.float64(0.0),) * 3)
    return System(("v", "m", "h", "n"), start, (models.HH_DT,), hh_step, (0, 1, 2, 3))


# --- networks ---------------------------------------------------------------------------------


def rnn_step(m: Any, state: State, constants: State) -> State:
    """Return the next rates of a fully connected network."""
    (r,) = state
    weights, drive = constants
    return (m.tanh(weights @ r + drive),)


def rnn(units: int) -> System:
    """Return a loop over `units` units, whose model steps in its first evaluation."""
    weights, drive = models.rnn_arrays(units)
    system = System(("r",), (np.zeros(units),), (weights, drive), rnn_step, (0,))
    return system.after_one_step()


def lstm_step(m: Any, state: State, constants: State) -> State:
    """Return the next state of stacked LSTM layers with a sine as input of the first."""
    t, *cells = state
    dt, phases, w, u, b = constants
    below = m.sin(t + phases)
    next_cells: list[Any] = []
    for layer in range(models.LSTM_LAYERS):
        h, c = cells[2 * layer : 2 * layer + 2]
        gates = [w[layer, k] @ below + u[layer, k] @ h + b[layer, k] for k in range(4)]
        i, f, o = (1 / (1 + m.exp(-total)) for total in gates[:3])
        c = f * c + i * m.tanh(gates[3])
        h = o * m.tanh(c)
        next_cells += [h, c]
        below = h
    return (t + dt, *next_cells)


def lstm() -> System:
    """Return a loop over two layers of 16 cells, whose model steps in its first evaluation."""
    zeros = np.zeros(models.LSTM_UNITS)
    names = ("t", *(f"{x}{k}" for k in range(models.LSTM_LAYERS) for x in "hc"))
    start = (np.float64(0.0), *(zeros,) * (2 * models.LSTM_LAYERS))
    constants = (models.LSTM_DT, *models.lstm_arrays())
    last = 2 * models.LSTM_LAYERS - 1
    return System(names, start, constants, lstm_step, (last,)).after_one_step()


def iaf_step(m: Any, state: State, constants: State) -> State:
    """Return the next state of neurons, their synapses and the postsynaptic neurons.

    A current flows into the first neurons from time `on` to time `off`.
    """
    time, spiking, pre, synapse, spiking_post, post = state
    dt, on, off, v_rest, threshold, tau, amplitude, weights = constants
    time = time + dt
    current = m.where((time > on) & (time <= off), amplitude, 0.0)
    spiking, pre = _spike(m, spiking, pre, current, dt, v_rest, threshold, tau)
    arriving = weights @ spiking if np.ndim(weights) == 2 else weights * spiking
    synapse = m.where(spiking > 0.0, arriving, synapse - synapse * dt)
    spiking_post, post = _spike(m, spiking_post, post, synapse, dt, v_rest, threshold, tau)
    return time, spiking, pre, synapse, spiking_post, post


def _spike(
    m: Any, spiking: Any, v: Any, current: Any, dt: Any, v_rest: Any, threshold: Any, tau: Any
) -> tuple[Any, Any]:
    spiking = m.where(v >= threshold, 1.0, m.where(v < threshold, 0.0, spiking))
    next_v = v + (-(v - v_rest) / tau + current) * dt
    return spiking, m.where(v > threshold, v_rest, next_v)


def iaf(neurons: int, *, pointwise: bool) -> System:
    """Return a loop over `neurons` presynaptic and postsynaptic neurons; the first step has dt = 0."""
    v, amplitude, weights = models.iaf_arrays(neurons, pointwise=pointwise)
    zeros = np.zeros(neurons)
    start = (np.float64(0.0), zeros, v, zeros, zeros, v)
    constants = (20.0, 80.0, -70.0, -20.0, 10.0)
    names = ("time", "spiking", "pre", "synapse", "spiking_post", "post")
    first = System(names, start, (0.0, *constants, amplitude, weights), iaf_step, (2, 5, 4))
    return first.after_one_step((models.IAF_DT, *constants, amplitude, weights))


# --- drift diffusion and roots ----------------------------------------------------------------


def drift_step(m: Any, state: State, constants: State) -> State:
    """Accumulate evidence until a bound; the noise is exact arithmetic modulo 2 ** 26."""
    noise, x = state
    drift, dt, scale, bound = constants
    noise = models.FACTOR * noise + models.MORE
    noise = noise - m.floor(noise)
    next_x = x + drift * dt + scale * (noise - 0.5)
    return noise, m.where(m.abs(x) < bound, next_x, x)


def drift(trials: int) -> System:
    """Return a loop over `trials` trials with different drifts, whose model steps in its first evaluation."""
    noise, drifts = models.drift_arrays(trials)
    constants = (drifts, models.DRIFT_DT, models.DRIFT_SCALE, 1.0)
    start = (noise, np.zeros(trials))
    return System(("noise", "x"), start, constants, drift_step, (1,)).after_one_step()


def newton_step(m: Any, state: State, constants: State) -> State:
    """Return a Newton step towards the square root of `a`, and the increased `a`."""
    x, a = state
    more, _ = constants
    return 0.5 * (x + a / x), a + more


def newton(steps: int) -> System:
    """Return a while loop that follows the square root of a growing number for `steps` iterations."""
    end = newton_end(steps)
    one = np.float64(1.0)

    def condition(m: Any, state: State, constants: State) -> Any:
        return state[1] < constants[1]

    return System(("x", "a"), (one, one), (models.NEWTON_MORE, end), newton_step, (), condition)


def newton_end(steps: int) -> float:
    """Return the bound of the number for which the loop has `steps` iterations."""
    return 1.0 + (steps - 0.5) * models.NEWTON_MORE


# --- plain Python -----------------------------------------------------------------------------


class Numbers:
    """Math functions for steps over Python floats."""

    from math import exp, floor, sin, tanh


def by_python(system: System, steps: int) -> dict[str, Array]:
    """Run the step over Python floats and collect rows in lists."""
    state = tuple(map(float, system.start))
    rows: list[list[float]] = [[] for _ in system.recorded]
    places = tuple(zip(system.recorded, rows, strict=True))
    if system.condition is not None:
        while system.condition(Numbers, state, system.constants):
            state = system.step(Numbers, state, system.constants)
        return system.name_arrays(state, ())
    for _ in range(steps):
        state = system.step(Numbers, state, system.constants)
        for place, column in places:
            column.append(state[place])
    return system.name_arrays(state, tuple(rows))


def fn_by_python(system: System, steps: int) -> dict[str, Array]:
    """Run FitzHugh-Nagumo over Python floats without function calls."""
    v, w = map(float, system.start)
    current, dt = system.constants
    vs, ws = [], []
    for _ in range(steps):
        v = v + (-1 / 3 * v * v * v + v + 1 - w + current) / 0.001 * dt
        w = w + (v - 0.8 * w + 0.7) / 0.0125 * dt
        if system.recorded:
            vs.append(v)
            ws.append(w)
    return system.name_arrays((v, w), (vs, ws))
