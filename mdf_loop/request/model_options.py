"""Options of `run` about the model, its values, and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct

from mdf_loop.request.option import IN_ENGINE, ON_CLUSTER, OVER_TRIALS, Option, Requirement, flag

MODEL = "Model and inputs"
TIME = "Time"

NEEDS_STEPS = Requirement(
    ("steps",), "{} needs steps: it is about a run over time", "give steps too"
)


class RunInputs(Struct, frozen=True):
    """Positional argument of `run`."""

    inputs: Annotated[
        Mapping[str, Any] | None,
        Option(
            MODEL,
            "Values by port id (`node.port` where ambiguous). Other inputs have their defaults. "
            "Over time, one value applies to all steps, or an array has [a row for each "
            "step](../how-to/run-over-time.md#inputs-over-time) along its first axis. In all "
            "arguments, a Quantity of the package pint is converted to the unit of the model.",
            (
                flag(
                    "--input",
                    "Value of an input: --input x='[1, 2.5]', or a column of a file: --input "
                    "x=file.csv:column. NAME is the id of an input port, or node.port if several "
                    "nodes have a port with this id.",
                    name="pairs",
                    multiple=True,
                    metavar="NAME=VALUE",
                ),
                flag(
                    "--inputs",
                    "Read inputs by name from a .json, .npz or .csv file. Each row of a csv file "
                    "is the input of one step. A column `time` must increase by --dt from row to "
                    "row, and a column `step` is ignored.",
                    name="files",
                    multiple=True,
                    metavar="FILE",
                ),
            ),
        ),
    ] = None


class ModelOptions(RunInputs, frozen=True, kw_only=True):
    """Options of `run` about the model, its values, and time."""

    set: Annotated[
        Mapping[str, Any] | None,
        Option(
            MODEL,
            "Values of parameters by `node.parameter`. For a state (a parameter whose value each "
            "step passes to the next step), the initial value.",
            (
                flag(
                    "--set",
                    "Value of a parameter. For a state (a parameter whose value each step passes "
                    "to the next), the initial value.",
                    name="settings",
                    multiple=True,
                    metavar="NODE.PARAMETER=VALUE",
                ),
            ),
        ),
    ] = None

    sweep: Annotated[
        Mapping[str, Any] | None,
        Option(
            MODEL,
            "Values for a [sweep](../how-to/sweep-parameters.md): a dict from parameters or "
            "inputs to lists of values, or a [grid](#mdf_loopgrid-mdf_looppaired-mdf_loopsobol). "
            "All members are computed at once. With a dict, each output gets a first axis "
            "`batch`, with one element for each member.",
            (
                flag(
                    "--sweep",
                    "Run the model for several values of a parameter or input at once: a list of "
                    "values, or first:last:number for this number of evenly spaced values. "
                    "Several --sweep options must have equally many values: the first run has the "
                    "first value of each, and so on.",
                    multiple=True,
                    metavar="NAME=VALUES",
                ),
                flag(
                    "--grid",
                    "Run the model for all combinations of the values of all --grid options: "
                    "cell.g=0:1:100.",
                    name="grid",
                    multiple=True,
                    metavar="NAME=VALUES",
                ),
            ),
            conflicts={IN_ENGINE: "sweep"},
        ),
    ] = None

    state: Annotated[
        Mapping[str, Any] | None,
        Option(
            MODEL,
            "The attribute `.state` of the `Results` of an earlier run, to "
            "[continue](../how-to/continue-a-run.md) that run.",
            (
                flag(
                    "--initial-state",
                    "Continue an earlier run from this .npz file, which the earlier run wrote "
                    "with --final-state.",
                    name="initial_state",
                    metavar="FILE",
                ),
            ),
            needs=NEEDS_STEPS,
            conflicts={IN_ENGINE: "state", ON_CLUSTER: "a state", OVER_TRIALS: "a state"},
        ),
    ] = None

    engine: Annotated[
        str,
        Option(
            MODEL,
            '`"onnxruntime"`; `"interpreter"`, a simple and slow implementation in NumPy; or '
            '`"modeci"`, the engine of modeci_mdf, which supports [fewer '
            "arguments](#arguments-that-depend-on-others).",
            (
                flag(
                    "--engine",
                    "Engine: onnxruntime, interpreter (NumPy, slow), or modeci (modeci_mdf's own "
                    "engine).",
                    default="onnxruntime",
                    show_default=True,
                ),
            ),
            conflicts={
                ON_CLUSTER: {"modeci": "modeci_mdf's engine"},
                OVER_TRIALS: {"modeci": "modeci_mdf's engine"},
            },
        ),
    ] = "onnxruntime"

    steps: Annotated[
        int | None,
        Option(
            TIME,
            "Number of evaluations of a run over time. Every output then has a first axis of "
            "time, with a row for each evaluation.",
            (
                flag(
                    "--steps",
                    "Run the model over time, with this number of evaluations (steps). Outputs "
                    "get a time axis.",
                    type=int,
                ),
            ),
        ),
    ] = None

    dt: Annotated[
        float | str | None,
        Option(
            TIME,
            "Time between two evaluations: a number in the [model's unit of "
            "time](../how-to/units-and-time.md) (seconds if the model states none), a text with a "
            'unit (`"0.5ms"`), or a Quantity. No time passes before the first evaluation. With '
            "None, no time passes between evaluations.",
            (
                flag(
                    "--dt",
                    "Time between two evaluations: a number in the model's unit of time (seconds "
                    "if the model states none), or a number with a unit: 0.5ms.",
                    metavar="TIME",
                ),
            ),
            needs=NEEDS_STEPS,
        ),
    ] = None
