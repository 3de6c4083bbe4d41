"""Random noisy loops with per-member early exit, of arithmetic only, so that bits are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.loops import loop_model

DRAWS = (
    "numpy.random.uniform(-1.0, 1.0)",
    "numpy.random.normal()",
    "numpy.random.random()",
    "numpy.random.normal(0.0, 0.5)",
    "numpy.random.randint(0, 4)",
)
ENDS = ("while", "do-while", "for-while", "for", "for with a condition", "exit")


def noisy_loop(seed: int, *, records: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a random model and a sweep of some inputs; an empty sweep leaves only the trials."""
    rng = np.random.default_rng(seed)

    def one(*words: str) -> str:
        return str(rng.choice(words))

    ends, vector = str(rng.choice(ENDS)), rng.random() < 0.3
    draw = one(*DRAWS)
    if vector:
        draw = one("numpy.random.uniform(-1.0, 1.0, size=3)", "numpy.random.normal(size=3)")
    x0 = "(start + zeros, 0.0, 0)" if vector else "(start, 0.0, 0)"
    step = one(
        "x + drift * 0.1 + {}",
        "x * 0.9 + {}",
        "x + y * 0.25 - {}",
        "numpy.where(x > 0.5, x - {}, x + 0.5)",
    )
    body = {
        "x_next": step.format(f"{one('0.5', '0.25')} * {draw}"),
        "y_next": one("y + 0.125", "y * 0.5 + drift", f"y - 0.5 * {one(*DRAWS)}", "y + i"),
        "k_next": one("k + 1", f"k + {one('i', '2')}", "k + numpy.random.randint(0, 3)"),
        "row": one("x", "y", "x * y", "k"),
        "number": one("k", "i", "y"),
    }
    size = "numpy.sum(numpy.abs(x))" if vector else "numpy.abs(x)"
    go = one(f"{size} < 1.5", "y < 1.5", "k < 9", f"({size} < 2.0) and (k < 12)")
    args: dict[str, Any] = {"v_initial": x0}
    if ends in ("while", "for-while", "do-while"):
        args["cond"] = f"{size.replace('x', 'start')} < 1.5" if ends == "while" else True
        if ends == "while":
            args["cond"] = "begins"
    if ends != "for":
        args["M"] = 25
    if ends in ("for", "for with a condition"):
        args["M"] = "times"
        if ends == "for with a condition":
            args["cond"] = True
    if ends == "exit":
        args["cond"] = True
    parameters = {"start": 0.0, "drift": 0.5, "times": 6, "begins": True}
    model = loop_model(
        args,
        body,
        port_values=parameters,
        carried="x y k",
        recorded=one("", "row", "row number") if records else "",
        go=go if ends != "for" else "True",
    )
    node = model["model"]["graphs"]["graph"]["nodes"]["A"]
    node["parameters"] = {"zeros": {"value": [0.0, 0.0, 0.0]}}
    node["output_ports"] |= {
        "condition": {"value": "loop.condition"},
        "stopped_by": {"value": "loop.stopped_by"},
    }
    sweeps = {
        "start": [0.0, 0.75, -3.0],
        "drift": [0.5, -1.0, 2.0],
        "times": [0, 9, 4],
        "begins": [True, False, True],
    }
    read = {name for name in sweeps if f"{name}" in f"{args}{body}{go}"}
    if ends == "for":
        return model, {"times": sweeps["times"]}
    chosen = {name for name in sorted(read) if rng.random() < 0.5}
    return model, {name: sweeps[name] for name in sorted(chosen)}
