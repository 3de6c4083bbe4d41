"""Models for fits: a relaxing cell and a decision, with simulated data."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdf_loop
from tests.conftest import document_of

CELL = """
nodes:
  cell:
    input_ports: {drive: {default_value: 1.0}}
    parameters:
      tau: {value: 2.0}
      gain: {value: 3.0}
      offset: {value: 0.5}
      unread: {value: 1.0}
      w: {value: [1.0, 2.0]}
      v0: {value: 0.0}
      v: {default_initial_value: v0, time_derivative: (gain*drive - v)/tau}
    output_ports:
      V: {value: v + offset}
      both: {value: 'w * v'}
"""
FREE = {"cell.tau": (0.5, 5.0), "cell.gain": (1.0, 6.0)}
STEPS, DT = 60, 0.1

DECISION = """
nodes:
  ddm:
    functions:
      walk:
        function: onnx::Loop
        args:
          cond: true
          v_initial: start
          body:
            step:
              metadata: {inputs: [k, go, x], outputs: [going, y]}
              nodes:
                move:
                  input_ports: {x: {}, drift: {}, dt: {}}
                  output_ports:
                    y: {value: 'x + drift*dt + numpy.sqrt(dt)*numpy.random.normal()'}
                bound:
                  input_ports: {y: {}, threshold: {}}
                  output_ports:
                    going: {value: 'abs(y) < threshold'}
              edges:
                e: {sender: move, sender_port: y, receiver: bound, receiver_port: y}
    parameters:
      drift: {value: 1.0}
      threshold: {value: 1.0}
      start: {value: 0.0}
      late: {value: 0.3}
      dt: {value: 0.02}
    output_ports:
      rt: {value: late + walk.iterations*dt}
      choice: {value: walk > 0}
"""


def compiled(text: str) -> mdf_loop.CompiledModel:
    """Compile the model in a YAML text."""
    return mdf_loop.compile(document_of(text))


def trace(model: mdf_loop.CompiledModel, noise: float = 0.02, seed: int = 0, **set: Any) -> Any:
    """Simulate a cell and return columns of time and V with measurement noise."""
    values = {f"cell.{name}": value for name, value in set.items()}
    voltage = np.asarray(model.run(set=values, steps=STEPS, dt=DT, progress=False)["cell.V"])
    rng = np.random.default_rng(seed)
    return {
        "time": np.arange(STEPS) * DT,
        "cell.V": voltage + noise * rng.standard_normal(voltage.shape),
    }
