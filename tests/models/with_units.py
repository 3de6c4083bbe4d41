"""A cell with units in its metadata, and plain numbers for its values."""

from __future__ import annotations

CELL = """
metadata: {time_unit: ms}
nodes:
  cell:
    input_ports:
      I: {default_value: 500.0, metadata: {units: pA}}
      drive: {default_value: 0.0, shape: [2], metadata: {units: pA}}
      gain: {default_value: 1.0}
      heat: {default_value: 20.0, metadata: {units: degC}}
      odd: {default_value: 0.0, metadata: {units: widgets}}
      part: {default_value: 50.0, metadata: {units: percent}}
      level: {default_value: 3, type: int64, metadata: {units: pA}}
    parameters:
      R: {value: 0.1, metadata: {units: Gohm}}
      tau: {value: 10.0, metadata: {units: ms}}
      plain: {value: 2.0}
      rest: {value: -70.0, metadata: {units: mV}}
      v: {default_initial_value: rest, time_derivative: (rest - v + R*I*gain)/tau}
    output_ports:
      V: {value: v}
      J: {value: I}
      D: {value: drive}
      T: {value: heat}
      G: {value: gain + plain}
      O: {value: odd}
      P: {value: part}
      L: {value: level}
"""
"""Model whose units are known to pint, except `widgets`."""

RUN = {"steps": 6, "dt": 0.5}
