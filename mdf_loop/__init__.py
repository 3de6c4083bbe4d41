"""Running and drawing of MDF models whose nodes contain `onnx::Loop`.

    import mdf_loop                                  # onnx::Loop now works in modeci_mdf's engine

    program = mdf_loop.read("model.yaml")            # MDF -> loop IR; print(program)
    compiled = mdf_loop.compile("model.yaml")        # loop IR -> ONNX -> ONNX Runtime
    results = compiled.run({"port": 3.0})            # numbers by node.port; results.loops
    mdf_loop.draw("model.yaml", "model.svg")         # picture
    mdf_loop.verify("model.yaml")                    # comparison with modeci_mdf's engine
    fit = compiled.fit("data.csv", {"cell.a": (0, 1)}, "cell.v", dt=0.1)     # parameters from data
    model = mdf_loop.from_onnx("model.onnx")         # ONNX -> MDF

The source of a model is a path (also of an .onnx file), a modeci_mdf Model or a Graph.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import mdf_loop.locks  # noqa: F401 - first: another thread may fork during the other imports
from mdf_loop.plugin.install import register, unregister
from mdf_loop.version import __version__ as __version__

if TYPE_CHECKING:
    from mdf_loop.api.compiled import CompiledModel, compile
    from mdf_loop.api.differentiated import Differentiated
    from mdf_loop.api.recovery import recover
    from mdf_loop.drawing import Drawing, draw
    from mdf_loop.errors import LoopError
    from mdf_loop.explanation import explain
    from mdf_loop.fitting.watch import FitProgress
    from mdf_loop.folding import fold, unfold
    from mdf_loop.importing import from_onnx
    from mdf_loop.ir import StopReason
    from mdf_loop.plugin.loop_call import loop
    from mdf_loop.reading import read
    from mdf_loop.results.data import Results
    from mdf_loop.results.derivatives import Derivatives
    from mdf_loop.results.fit import Fit, Fits
    from mdf_loop.results.gradient import Gradient
    from mdf_loop.results.recovery import Recovery
    from mdf_loop.run.control.progress import Progress
    from mdf_loop.run.modeci.seeds import seed
    from mdf_loop.sweeps import Grid, grid, paired, sobol
    from mdf_loop.verification import Verification, verify


_MODULE_BY_NAME = {
    "CompiledModel": "mdf_loop.api.compiled",
    "LoopError": "mdf_loop.errors",
    "Derivatives": "mdf_loop.results.derivatives",
    "Differentiated": "mdf_loop.api.differentiated",
    "Fit": "mdf_loop.results.fit",
    "FitProgress": "mdf_loop.fitting.watch",
    "Fits": "mdf_loop.results.fit",
    "Grid": "mdf_loop.sweeps",
    "Gradient": "mdf_loop.results.gradient",
    "Progress": "mdf_loop.run.control.progress",
    "Recovery": "mdf_loop.results.recovery",
    "Results": "mdf_loop.results.data",
    "StopReason": "mdf_loop.ir",
    "Drawing": "mdf_loop.drawing",
    "Verification": "mdf_loop.verification",
    "compile": "mdf_loop.api.compiled",
    "draw": "mdf_loop.drawing",
    "explain": "mdf_loop.explanation",
    "fold": "mdf_loop.folding",
    "from_onnx": "mdf_loop.importing",
    "grid": "mdf_loop.sweeps",
    "loop": "mdf_loop.plugin.loop_call",
    "paired": "mdf_loop.sweeps",
    "read": "mdf_loop.reading",
    "recover": "mdf_loop.api.recovery",
    "sobol": "mdf_loop.sweeps",
    "seed": "mdf_loop.run.modeci.seeds",
    "unfold": "mdf_loop.folding",
    "verify": "mdf_loop.verification",
}
"""Module of each public name. The module is imported on the first access to the name."""

__all__ = [
    "CompiledModel",
    "Derivatives",
    "Differentiated",
    "Drawing",
    "Fit",
    "FitProgress",
    "Fits",
    "Gradient",
    "Grid",
    "LoopError",
    "Progress",
    "Recovery",
    "Results",
    "StopReason",
    "Verification",
    "compile",
    "draw",
    "explain",
    "fold",
    "from_onnx",
    "grid",
    "loop",
    "paired",
    "read",
    "recover",
    "register",
    "seed",
    "sobol",
    "unfold",
    "unregister",
    "verify",
]


_NEW_NAME_BY_OLD = {"Compiled": "CompiledModel", "StoppedBy": "StopReason"}
"""Current name of each public name that was renamed, by its former name."""


def __getattr__(name: str) -> Any:
    if name in _NEW_NAME_BY_OLD:
        raise ImportError(f"'mdf_loop.{name}' is now 'mdf_loop.{_NEW_NAME_BY_OLD[name]}'")
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'mdf_loop' has no attribute '{name}'")
    public_object = getattr(importlib.import_module(_MODULE_BY_NAME[name]), name)
    globals()[name] = public_object
    return public_object


register()
