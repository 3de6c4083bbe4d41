"""Options of `fit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct

from mdf_loop.request.option import ARGUMENTS, Option, flag
from mdf_loop.request.run_options import ProgressOption


class FittedData(Struct, frozen=True):
    """Positional arguments of `fit`."""

    data: Annotated[
        Any,
        Option(
            ARGUMENTS,
            "The [data](../how-to/fit-a-model.md): a .csv or .npz file, a pandas DataFrame, or a dict "
            "of arrays by column. The columns are `time` (or `step`), one column for each output, and "
            "optionally `weight` or `sd`, and `trial`. If `data` is a dict from names of subjects to "
            "data, the parameters of each subject are estimated. With `objective`, `data` is None.",
        ),
    ]

    free: Annotated[
        Mapping[str, Any],
        Option(
            ARGUMENTS,
            "The parameters (`node.parameter`) or inputs (port id) to estimate, which are *free*, "
            'with their lower and upper bounds: `{"cell.a": (0.2, 1.2)}`. If a parameter is an array, '
            "a bound is one number for all elements, or an array. For a state, the bounds are those "
            "of its initial value.",
            (
                flag(
                    "--free",
                    "Parameter (node.parameter) or input to estimate (a free parameter), with its "
                    "lower and upper bound.",
                    required=True,
                    multiple=True,
                    metavar="NAME=LOW..HIGH",
                ),
            ),
        ),
    ]

    against: Annotated[
        str | Sequence[str] | Mapping[str, str] | None,
        Option(
            ARGUMENTS,
            "Outputs that correspond to the data: a name, a list of names, or a dict from outputs to "
            'columns: `{"cell.V": "volt"}`. With None, all columns with the name of an output.',
            (
                flag(
                    "--against",
                    "Output to compare with the data, and the name of the data column if it differs.",
                    multiple=True,
                    metavar="OUTPUT[=COLUMN]",
                ),
            ),
        ),
    ] = None


class FitOptions(FittedData, frozen=True, kw_only=True):
    """Arguments of `CompiledModel.fit`, as the user gave them."""

    steps: Annotated[
        int | None,
        Option(
            ARGUMENTS,
            "Number of evaluations of the model. With None, the run is as long as the data.",
        ),
    ] = None

    dt: Annotated[
        float | str | None,
        Option(
            ARGUMENTS,
            "Time between two evaluations; see [`run`](#mdf_loopcompiledmodelrun). With None, times "
            "are step numbers.",
        ),
    ] = None

    set: Annotated[
        Mapping[str, Any] | None,
        Option(ARGUMENTS, "Values of other parameters by `node.parameter`."),
    ] = None

    inputs: Annotated[Mapping[str, Any] | None, Option(ARGUMENTS, "Input values by port id.")] = (
        None
    )

    likelihood: Annotated[
        Mapping[str, str] | None,
        Option(
            ARGUMENTS,
            "For a [fit of reaction times](../how-to/fit-a-model.md): the outputs of the model with "
            'the reaction time and the choice, `{"rt": output, "choice": output}`. The fit maximizes '
            "the likelihood of the data, which have the columns `rt` and `choice`. The values of a "
            "choice in the data and in the output must be equal.",
        ),
    ] = None

    trials: Annotated[
        int | None,
        Option(ARGUMENTS, "Number of simulated trials from which the likelihood is estimated."),
    ] = None

    objective: Annotated[
        Callable[[Mapping[str, Any]], float] | Mapping[str, Any] | None,
        Option(
            ARGUMENTS,
            "Another number to minimize, in place of the difference from data: a function that "
            "receives the outputs of one run by name, or a dict like `of` of "
            "[`differentiate`](#mdf_loopdifferentiated).",
        ),
    ] = None

    shared: Annotated[
        Sequence[str],
        Option(
            ARGUMENTS,
            "Free parameters with one common value for all subjects.",
            (
                flag(
                    "--shared",
                    "Free parameter with one common value for all subjects.",
                    multiple=True,
                    metavar="NAME",
                ),
            ),
        ),
    ] = ()

    start: Annotated[
        Mapping[str, Any] | None,
        Option(
            ARGUMENTS,
            "Values of the free parameters at which the search starts, in place of the best of many "
            "`points`.",
            (
                flag(
                    "--start",
                    "Value of a free parameter at which the search starts, in place of the best of "
                    "many --points.",
                    multiple=True,
                    metavar="NAME=VALUE",
                ),
            ),
        ),
    ] = None

    method: Annotated[
        str | None,
        Option(
            ARGUMENTS,
            'Search method: `"least_squares"`, `"gradient"` (for an `objective` that is a dict) or '
            '`"differential_evolution"`. With None, the method that suits the data.',
            (
                flag(
                    "--method",
                    "Search method: least_squares or differential_evolution.",
                    metavar="WORD",
                ),
            ),
        ),
    ] = None

    points: Annotated[
        int,
        Option(
            ARGUMENTS,
            "Number of points within the bounds that are evaluated first, in one sweep. They are "
            "points of a Sobol sequence, which are evenly distributed.",
            (
                flag(
                    "--points",
                    "Number of points within the bounds that are evaluated first.",
                    type=int,
                    default=256,
                    show_default=True,
                ),
            ),
        ),
    ] = 256

    polish: Annotated[
        int,
        Option(
            ARGUMENTS,
            "Number of the best points from which local searches start.",
            (
                flag(
                    "--polish",
                    "Number of the best points from which local searches start.",
                    type=int,
                    default=4,
                    show_default=True,
                ),
            ),
        ),
    ] = 4

    seed: Annotated[
        int, Option(ARGUMENTS, "Seed of the search and of the model's random numbers.")
    ] = 0

    progress: Annotated[
        ProgressOption,
        Option(
            ARGUMENTS,
            "True, False or None, as for `run`, or a function. The function receives a "
            "`mdf_loop.FitProgress` (`.evaluations`, `.best`, `.elapsed`), and ends the fit by "
            "returning False.",
        ),
    ] = None

    time_limit: Annotated[
        float | str | None,
        Option(
            ARGUMENTS,
            "Time limit for the fits of all subjects together: a number of seconds, or a text such as "
            '`"10min"`. A fit that reaches the limit returns its best values.',
            (
                flag(
                    "--time-limit",
                    "Stop the fit after this time: 90 (seconds), 5min, 2h.",
                    metavar="TIME",
                ),
            ),
        ),
    ] = None

    cluster: Annotated[
        Any,
        Option(
            ARGUMENTS,
            "Worker processes; see [`run`](#mdf_loopcompiledmodelrun). They compute one subject each. "
            "Of a single fit, or a fit with `shared`, they compute the points of each generation.",
        ),
    ] = None

    on_interrupt: Annotated[
        str | None,
        Option(
            ARGUMENTS,
            'Effect of Ctrl-C: `"raise"`, or `"return"` for the best values so far; see '
            "[`run`](#mdf_loopcompiledmodelrun).",
        ),
    ] = None
