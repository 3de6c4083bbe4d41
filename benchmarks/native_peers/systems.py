"""The loops that are compared, as one writes them by hand; what numbers alone give is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from native_peers import models
from native_peers.system import Array, State, System

# --- FitzHugh-Nagumo --------------------------------------------------------------------------


def fn_step(m: Any, state: State, constants: State) -> State:
    """One step; w follows the new v."""
    v, w = state
    current, dt = constants
    v = v + (-1 / 3 * v * v * v + v + 1 - w + current) / 0.001 * dt
    return v, w + (v - 0.8 * w + 0.7) / 0.0125 * dt


def fn(cells: int, *, recorded: bool) -> System:
    """So many cells, each with a current of its own; a single one is of plain numbers."""
    start, current = models.fn_arrays(cells)
    if cells == 1:
        zero = np.float64(0.0)
        places = (0, 1) if recorded else ()
        return System(("v", "w"), (np.float64(-1.0), zero), (0.0, models.FN_DT), fn_step, places)
    constants = (current, models.FN_DT)
    places = (0,) if recorded else ()
    return System(("v", "w"), (start, np.zeros(cells)), constants, fn_step, places)


def fn_swept(members: int) -> System:
    """The single cell with so many currents."""
    start = (np.full(members, -1.0), np.zeros(members))
    return System(("v", "w"), start, (models.currents(members), models.FN_DT), fn_step, (0,))


# --- Hodgkin-Huxley ---------------------------------------------------------------------------


def hh_step(m: Any, state: State, constants: State) -> State:
    """One step of PyNN's neuron; all that changes follows the values of the step before."""
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
    """The same of any conductances, reversal potential of sodium and current."""
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
    """One neuron, of plain numbers."""
    start = (np.float64(-0.065), *(np.float64(0.0),) * 3)
    return System(("v", "m", "h", "n"), start, (models.HH_DT,), hh_step, (0, 1, 2, 3))


# --- networks ---------------------------------------------------------------------------------


def rnn_step(m: Any, state: State, constants: State) -> State:
    """Units that see all others."""
    (r,) = state
    weights, drive = constants
    return (m.tanh(weights @ r + drive),)


def rnn(units: int) -> System:
    """So many units; the model steps at once."""
    weights, drive = models.rnn_arrays(units)
    system = System(("r",), (np.zeros(units),), (weights, drive), rnn_step, (0,))
    return system.begun()


def lstm_step(m: Any, state: State, constants: State) -> State:
    """Layers of cells on top of each other; a sine into the first."""
    t, *cells = state
    dt, phases, w, u, b = constants
    below = m.sin(t + phases)
    after: list[Any] = []
    for layer in range(models.LSTM_LAYERS):
        h, c = cells[2 * layer : 2 * layer + 2]
        gates = [w[layer, k] @ below + u[layer, k] @ h + b[layer, k] for k in range(4)]
        i, f, o = (1 / (1 + m.exp(-total)) for total in gates[:3])
        c = f * c + i * m.tanh(gates[3])
        h = o * m.tanh(c)
        after += [h, c]
        below = h
    return (t + dt, *after)


def lstm() -> System:
    """Two layers of 16 cells; the model steps at once, and then time passes."""
    zeros = np.zeros(models.LSTM_UNITS)
    names = ("t", *(f"{x}{k}" for k in range(models.LSTM_LAYERS) for x in "hc"))
    start = (np.float64(0.0), *(zeros,) * (2 * models.LSTM_LAYERS))
    constants = (models.LSTM_DT, *models.lstm_arrays())
    last = 2 * models.LSTM_LAYERS - 1
    return System(names, start, constants, lstm_step, (last,)).begun()


def iaf_step(m: Any, state: State, constants: State) -> State:
    """Neurons, a synapse of each, neurons behind those; a current from `on` to `off`."""
    time, spiking, pre, synapse, spiking_post, post = state
    dt, on, off, v_rest, threshold, tau, amplitude, weights = constants
    time = time + dt
    current = m.where((time > on) & (time <= off), amplitude, 0.0)
    spiking, pre = _fired(m, spiking, pre, current, dt, v_rest, threshold, tau)
    arriving = weights @ spiking if np.ndim(weights) == 2 else weights * spiking
    synapse = m.where(spiking > 0.0, arriving, synapse - synapse * dt)
    spiking_post, post = _fired(m, spiking_post, post, synapse, dt, v_rest, threshold, tau)
    return time, spiking, pre, synapse, spiking_post, post


def _fired(
    m: Any, spiking: Any, v: Any, current: Any, dt: Any, v_rest: Any, threshold: Any, tau: Any
) -> tuple[Any, Any]:
    spiking = m.where(v >= threshold, 1.0, m.where(v < threshold, 0.0, spiking))
    after = v + (-(v - v_rest) / tau + current) * dt
    return spiking, m.where(v > threshold, v_rest, after)


def iaf(neurons: int, *, pointwise: bool) -> System:
    """So many neurons in front and behind; the first step takes no time."""
    v, amplitude, weights = models.iaf_arrays(neurons, pointwise=pointwise)
    zeros = np.zeros(neurons)
    start = (np.float64(0.0), zeros, v, zeros, zeros, v)
    constants = (20.0, 80.0, -70.0, -20.0, 10.0)
    names = ("time", "spiking", "pre", "synapse", "spiking_post", "post")
    first = System(names, start, (0.0, *constants, amplitude, weights), iaf_step, (2, 5, 4))
    return first.begun((models.IAF_DT, *constants, amplitude, weights))


# --- decisions and roots ----------------------------------------------------------------------


def drift_step(m: Any, state: State, constants: State) -> State:
    """Evidence until a bound; its noise is that of exact arithmetic modulo 2 ** 26."""
    noise, x = state
    drift, dt, scale, bound = constants
    noise = models.FACTOR * noise + models.MORE
    noise = noise - m.floor(noise)
    after = x + drift * dt + scale * (noise - 0.5)
    return noise, m.where(m.abs(x) < bound, after, x)


def drift(trials: int) -> System:
    """So many trials, each with a drift of its own; the model steps at once."""
    noise, drifts = models.drift_arrays(trials)
    constants = (drifts, models.DRIFT_DT, models.DRIFT_SCALE, 1.0)
    start = (noise, np.zeros(trials))
    return System(("noise", "x"), start, constants, drift_step, (1,)).begun()


def newton_step(m: Any, state: State, constants: State) -> State:
    """A step towards the root of a number, which then is a little larger."""
    x, a = state
    more, _ = constants
    return 0.5 * (x + a / x), a + more


def newton(steps: int) -> System:
    """The root is followed until the number is so much larger."""
    end = newton_end(steps)
    one = np.float64(1.0)

    def condition(m: Any, state: State, constants: State) -> Any:
        return state[1] < constants[1]

    return System(("x", "a"), (one, one), (models.NEWTON_MORE, end), newton_step, (), condition)


def newton_end(steps: int) -> float:
    """What a number that begins with one comes to in so many steps."""
    return 1.0 + (steps - 0.5) * models.NEWTON_MORE


# --- plain Python -----------------------------------------------------------------------------


class Numbers:
    """The functions that steps call, of Python's floats."""

    from math import exp, floor, sin, tanh


def by_python(system: System, steps: int) -> dict[str, Array]:
    """The same step of Python's floats, which are kept in lists."""
    state = tuple(map(float, system.start))
    rows: list[list[float]] = [[] for _ in system.recorded]
    places = tuple(zip(system.recorded, rows, strict=True))
    if system.condition is not None:
        while system.condition(Numbers, state, system.constants):
            state = system.step(Numbers, state, system.constants)
        return system.made(state, ())
    for _ in range(steps):
        state = system.step(Numbers, state, system.constants)
        for place, column in places:
            column.append(state[place])
    return system.made(state, tuple(rows))


def fn_by_python(system: System, steps: int) -> dict[str, Array]:
    """FitzHugh-Nagumo without calls."""
    v, w = map(float, system.start)
    current, dt = system.constants
    vs, ws = [], []
    for _ in range(steps):
        v = v + (-1 / 3 * v * v * v + v + 1 - w + current) / 0.001 * dt
        w = w + (v - 0.8 * w + 0.7) / 0.0125 * dt
        if system.recorded:
            vs.append(v)
            ws.append(w)
    return system.made((v, w), (vs, ws))
