"""Hand-written numba loops: time in the outer loop, cells in the inner loop, rows preallocated.

    loop(steps, start, constants, rows) -> last values

A single cell is computed with scalars. Divisions use `error_model="numpy"`. The default error model of
Python checks each divisor for zero, which prevents vectorization of the loop over cells.
"""

from __future__ import annotations

from math import exp, sin, tanh

import numpy as np
from numba import njit

from native_peers.models import FACTOR, MORE

compiled = njit(error_model="numpy")


@compiled
def fn_one(steps, start, constants, rows):
    v, w = start
    current, dt = constants
    for _ in range(steps):
        v = v + (-1 / 3 * v * v * v + v + 1 - w + current) / 0.001 * dt
        w = w + (v - 0.8 * w + 0.7) / 0.0125 * dt
    return v, w


@compiled
def fn_one_recorded(steps, start, constants, rows):
    v, w = start
    current, dt = constants
    vs, ws = rows
    for k in range(steps):
        v = v + (-1 / 3 * v * v * v + v + 1 - w + current) / 0.001 * dt
        w = w + (v - 0.8 * w + 0.7) / 0.0125 * dt
        vs[k] = v
        ws[k] = w
    return v, w


@compiled
def fn(steps, start, constants, rows):
    v, w = start[0].copy(), start[1].copy()
    current, dt = constants
    for _ in range(steps):
        for i in range(v.size):
            x = v[i]
            x = x + (-1 / 3 * x * x * x + x + 1 - w[i] + current[i]) / 0.001 * dt
            w[i] = w[i] + (x - 0.8 * w[i] + 0.7) / 0.0125 * dt
            v[i] = x
    return v, w


@compiled
def fn_recorded(steps, start, constants, rows):
    v, w = start[0].copy(), start[1].copy()
    current, dt = constants
    vs = rows[0]
    for k in range(steps):
        for i in range(v.size):
            x = v[i]
            x = x + (-1 / 3 * x * x * x + x + 1 - w[i] + current[i]) / 0.001 * dt
            w[i] = w[i] + (x - 0.8 * w[i] + 0.7) / 0.0125 * dt
            v[i] = x
            vs[k, i] = x
    return v, w


@compiled
def hh(steps, start, constants, rows):
    v, m, h, n = start
    dt = constants[0]
    vs, ms, hs, ns = rows
    for k in range(steps):
        mv = v / 0.001
        leak = 0.01 * (-65.0 - mv)
        sodium = 20.0 * (m * m * m) * h * (50.0 - mv)
        potassium = 6.0 * (n * n * n * n) * (-90.0 - mv)
        membrane = leak + sodium + potassium + 0.05
        m_up, n_up, shifted = 13 - mv - 63.0, 15 - mv - 63.0, mv + 63.0 - 40
        m_opens = 0.32 * m_up / (exp(m_up / 4.0) - 1)
        h_opens = 0.128 * exp((17 - mv - 63.0) / 18.0)
        n_opens = 0.032 * n_up / (exp(n_up / 5) - 1)
        m_closes = 0.28 * shifted / (exp(shifted / 5.0) - 1)
        h_closes = 4.0 / (1 + exp((40 - mv - 63.0) / 5))
        n_closes = 0.5 * exp((10 - mv - 63.0) / 40)
        v = v + 0.001 * (membrane / 0.2) / 0.001 * dt
        m = m + (m_opens * (1 - m) - m_closes * m) / 0.001 * dt
        h = h + (h_opens * (1 - h) - h_closes * h) / 0.001 * dt
        n = n + (n_opens * (1 - n) - n_closes * n) / 0.001 * dt
        vs[k], ms[k], hs[k], ns[k] = v, m, h, n
    return v, m, h, n


@compiled
def rnn(steps, start, constants, rows):
    """Small networks: the matrix product is a loop over columns, so that the inner loop is vectorized."""
    weights, drive = constants
    columns = weights.T.copy()
    r, total = start[0].copy(), np.empty_like(drive)
    rs = rows[0]
    for k in range(steps):
        for i in range(r.size):
            total[i] = 0.0
        for j in range(r.size):
            for i in range(r.size):
                total[i] += columns[j, i] * r[j]
        for i in range(r.size):
            r[i] = tanh(total[i] + drive[i])
            rs[k, i] = r[i]
    return (r,)


@compiled
def rnn_wide(steps, start, constants, rows):
    """Large networks: the matrix product is a call of BLAS."""
    weights, drive = constants
    r, total = start[0].copy(), np.empty_like(drive)
    rs = rows[0]
    for k in range(steps):
        np.dot(weights, r, total)
        for i in range(r.size):
            r[i] = tanh(total[i] + drive[i])
            rs[k, i] = r[i]
    return (r,)


@compiled
def lstm(steps, start, constants, rows):
    """Two layers: the matrix products are loops over columns."""
    t, h0, c0, h1, c1 = start
    dt, phases, w, u, b = constants
    states = (h0.copy(), c0.copy(), h1.copy(), c1.copy())
    below, gates = np.empty(phases.size), np.empty((4, phases.size))
    into, within = _columns(w), _columns(u)
    hs = rows[0]
    for k in range(steps):
        for i in range(below.size):
            below[i] = sin(t + phases[i])
        _layer(0, below, states[0], states[1], into, within, b, gates)
        _layer(1, below, states[2], states[3], into, within, b, gates)
        t = t + dt
        for i in range(below.size):
            hs[k, i] = below[i]
    return t, states[0], states[1], states[2], states[3]


@compiled
def _columns(weights):
    layers, gates, rows, columns = weights.shape
    by_column = np.empty((layers, gates, columns, rows))
    for layer in range(layers):
        for gate in range(gates):
            for i in range(rows):
                for j in range(columns):
                    by_column[layer, gate, j, i] = weights[layer, gate, i, j]
    return by_column


@compiled
def _layer(layer, below, h, c, into, within, b, gates):
    """Update h and c of a layer, and replace `below` by the output of this layer."""
    units = below.size
    for gate in range(4):
        for i in range(units):
            gates[gate, i] = b[layer, gate, i]
        for j in range(units):
            for i in range(units):
                arrives = into[layer, gate, j, i] * below[j]
                gates[gate, i] += arrives + within[layer, gate, j, i] * h[j]
    for i in range(units):
        update = tanh(gates[3, i]) / (1 + exp(-gates[0, i]))
        c[i] = c[i] / (1 + exp(-gates[1, i])) + update
        h[i] = tanh(c[i]) / (1 + exp(-gates[2, i]))
        below[i] = h[i]


@compiled
def _spike(spiking, v, current, dt, v_rest, threshold, tau):
    spiking = 1.0 if v >= threshold else 0.0 if v < threshold else spiking
    next_v = v + (-(v - v_rest) / tau + current) * dt
    return spiking, v_rest if v > threshold else next_v


@compiled
def iaf(steps, start, constants, rows):
    """Neurons with one synapse each."""
    time = start[0]
    spiking, pre, synapse = start[1].copy(), start[2].copy(), start[3].copy()
    spiking_post, post = start[4].copy(), start[5].copy()
    dt, on, off, v_rest, threshold, tau, amplitude, weights = constants
    pres, posts, spikes = rows
    for k in range(steps):
        time = time + dt
        flows = time > on and time <= off
        for i in range(pre.size):
            current = amplitude[i] if flows else 0.0
            s, v = _spike(spiking[i], pre[i], current, dt, v_rest, threshold, tau)
            y = weights[i] * s if s > 0 else synapse[i] - synapse[i] * dt
            s_post, v_post = _spike(spiking_post[i], post[i], y, dt, v_rest, threshold, tau)
            spiking[i], pre[i], synapse[i] = s, v, y
            spiking_post[i], post[i] = s_post, v_post
            pres[k, i], posts[k, i], spikes[k, i] = v, v_post, s_post
    return time, spiking, pre, synapse, spiking_post, post


@compiled
def iaf_net(steps, start, constants, rows):
    """Neurons with synapses between all pairs."""
    time = start[0]
    spiking, pre, synapse = start[1].copy(), start[2].copy(), start[3].copy()
    spiking_post, post = start[4].copy(), start[5].copy()
    dt, on, off, v_rest, threshold, tau, amplitude, weights = constants
    pres, posts, spikes = rows
    for k in range(steps):
        time = time + dt
        flows = time > on and time <= off
        for i in range(pre.size):
            current = amplitude[i] if flows else 0.0
            spiking[i], pre[i] = _spike(spiking[i], pre[i], current, dt, v_rest, threshold, tau)
        for i in range(pre.size):
            if spiking[i] > 0:
                total = 0.0
                for j in range(pre.size):
                    total += weights[i, j] * spiking[j]
                synapse[i] = total
            else:
                synapse[i] = synapse[i] - synapse[i] * dt
            s, v = _spike(spiking_post[i], post[i], synapse[i], dt, v_rest, threshold, tau)
            spiking_post[i], post[i] = s, v
            pres[k, i], posts[k, i], spikes[k, i] = pre[i], v, s
    return time, spiking, pre, synapse, spiking_post, post


@compiled
def drift(steps, start, constants, rows):
    noise, x = start[0].copy(), start[1].copy()
    drifts, dt, scale, bound = constants
    xs = rows[0]
    for k in range(steps):
        for i in range(x.size):
            n = FACTOR * noise[i] + MORE
            n = n - np.floor(n)
            noise[i] = n
            if abs(x[i]) < bound:
                x[i] = x[i] + drifts[i] * dt + scale * (n - 0.5)
            xs[k, i] = x[i]
    return noise, x


@compiled
def newton(steps, start, constants, rows):
    x, a = start
    more, end = constants
    while a < end:
        x, a = 0.5 * (x + a / x), a + more
    return x, a
