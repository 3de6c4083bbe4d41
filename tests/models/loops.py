"""Models of one node with one loop, written in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def loop_model(
    args: Mapping[str, Any],
    body: Mapping[str, str],
    *,
    port_values: Mapping[str, Any] | None = None,
    carried: str = "",
    recorded: str = "",
    go: str = "True",
    metadata: Mapping[str, Any] | None = None,
    types: Mapping[str, str] | None = None,
    function: str = "onnx::Loop",
) -> dict[str, Any]:
    """Build a model whose node `A` runs a loop with outputs `r0`, `r1`, ... and the count `n`.

    `body` maps each value of the body's only node to its formula. `carried` names the
    carried values, which leave the body as `<name>_next`. `recorded` names the recorded outputs.
    `port_values` holds the values of the input ports of `A`. `types` holds the types that the
    input ports of the body state.
    """
    enters, rows = carried.split(), recorded.split()
    leaves = [f"{name}_next" for name in enters]
    is_scan = function == "onnx::Scan"
    conditions = {} if is_scan else {"go": go}
    values = {**conditions, **body}
    inner = [*enters, *dict(args.get("slices") or {}), *dict(args.get("delays") or {})]
    inner += list((metadata or {}).get("scanned", ()))
    outer = [*(port_values or {}), *(k for k in args if k not in _OWN)]
    ports = [*inner, *outer, *([] if is_scan else ["i"])]
    input_ports = {
        name: {"type": types[name]} if types and name in types else {}
        for name in dict.fromkeys(ports)
        if any(_reads(v, name) for v in values.values())
    }
    signature = {
        "inputs": [*enters, *(metadata or {}).get("scanned", ())]
        if is_scan
        else ["i", "go_in", *enters],
        "outputs": [*conditions, *leaves, *rows],
    }
    extra_metadata = {k: v for k, v in (metadata or {}).items() if k != "scanned"}
    step = {
        "input_ports": input_ports,
        "output_ports": {k: {"value": v} for k, v in values.items()},
    }
    count = len(leaves) + len(rows)
    results = {"r0": "loop"} if count == 1 else {f"r{k}": f"loop[{k}]" for k in range(count)}
    graph = {
        "nodes": {
            "A": {
                "input_ports": {k: {"default_value": v} for k, v in (port_values or {}).items()},
                "functions": {
                    "loop": {
                        "function": function,
                        "args": {
                            **args,
                            "body": {
                                "b": {
                                    "metadata": {**signature, **extra_metadata},
                                    "nodes": {"step": step},
                                }
                            },
                        },
                    }
                },
                "output_ports": {
                    k: {"value": v} for k, v in {**results, "n": "loop.iterations"}.items()
                },
            }
        }
    }
    return {"model": {"format": "ModECI MDF v0.4", "graphs": {"graph": graph}}}


_OWN = (
    *("M", "cond", "v_initial", "body", "slices", "delays", "recordings", "exit"),
    *("initial_state_and_scan_inputs", "num_scan_inputs", "scan_input_axes"),
    *("scan_input_directions", "scan_output_axes", "scan_output_directions"),
)


def _reads(expression: str, name: str) -> bool:
    from mdf_loop.lower import names_in

    return name in names_in(expression)
