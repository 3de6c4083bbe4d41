"""Options of `differentiate`, `gradient`, `jacobian` and `hessian`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct

from mdf_loop.request.option import ARGUMENTS, Option, flag


class DifferentiatedValues(Struct, frozen=True):
    """Positional arguments of `differentiate` and `gradient`."""

    of: Annotated[
        Mapping[str, Any],
        Option(
            ARGUMENTS,
            "Terms of the objective, the number to differentiate: a dict from outputs to terms, or to "
            'lists of terms. All terms are added. A term is `"sum"`, `"mean"`, `"last"` (the sum of '
            'the last row), `{"sse": data}` (the sum of squared differences from data) or '
            '`{"weighted": weights}` (the sum of products with weights). Data may be Quantities; see '
            "`run`.",
            (
                flag(
                    "--of",
                    "Term of the objective, a number that is computed from an output: cell.V:mean or "
                    "cell.V:sse=data.csv:V. WORD is sum, mean, last (the sum of the last row), sse (the "
                    "sum of squared differences from DATA) or weighted (the sum of products with DATA). "
                    "Several terms are added.",
                    required=True,
                    multiple=True,
                    metavar="OUTPUT:WORD[=DATA]",
                ),
            ),
        ),
    ]

    wrt: Annotated[
        Sequence[str],
        Option(
            ARGUMENTS,
            "Names of the parameters and inputs with respect to which the objective is "
            "differentiated: `node.parameter` or a port id. For a state, this is its initial value. "
            "An input over time has a derivative for each row.",
            (
                flag(
                    "--wrt",
                    "Parameter (node.parameter) or input with respect to which the objective is "
                    "differentiated.",
                    required=True,
                    multiple=True,
                    metavar="NAME",
                ),
            ),
        ),
    ]


class DifferentiationOptions(DifferentiatedValues, frozen=True, kw_only=True):
    """Arguments of `CompiledModel.differentiate`, as the user gave them."""

    steps: Annotated[int | None, Option(ARGUMENTS, "Number of evaluations of the model.")] = None

    dt: Annotated[
        float | str | None,
        Option(ARGUMENTS, "Time between two evaluations; see [`run`](#mdf_loopcompiledmodelrun)."),
    ] = None

    seed: Annotated[int | str, Option(ARGUMENTS, "Seed of the model's random numbers.")] = 0

    trials: Annotated[
        int | Sequence[int] | None,
        Option(
            ARGUMENTS,
            "Number of runs with different random numbers. A `mean` is also the mean over trials.",
        ),
    ] = None

    truncate: Annotated[
        int | None,
        Option(
            ARGUMENTS,
            "Largest number of steps (in a loop: of iterations) through which derivatives are "
            "propagated back from the end. Earlier values are treated as constants.",
            (
                flag(
                    "--truncate",
                    "Maximum number of steps (in a loop: iterations) through which derivatives are "
                    "propagated back from the end. Earlier values are constants.",
                    type=int,
                    metavar="STEPS",
                ),
            ),
        ),
    ] = None

    stop: Annotated[
        Sequence[str],
        Option(
            ARGUMENTS,
            "Output ports (`node.port`), also of nodes inside loops, whose values are treated as "
            "constants.",
            (
                flag(
                    "--stop",
                    "Output port whose value is treated as a constant.",
                    multiple=True,
                    metavar="NODE.PORT",
                ),
            ),
        ),
    ] = ()


class GradientOptions(DifferentiationOptions, frozen=True, kw_only=True):
    """Arguments of `CompiledModel.gradient`, as the user gave them."""

    set: Annotated[
        Mapping[str, Any] | None, Option(ARGUMENTS, "Values of parameters by `node.parameter`.")
    ] = None

    inputs: Annotated[Mapping[str, Any] | None, Option(ARGUMENTS, "Input values by port id.")] = (
        None
    )

    sweep: Annotated[
        Mapping[str, Any] | None,
        Option(
            ARGUMENTS,
            "Lists of values for parameters or inputs. Each member has its own derivatives.",
        ),
    ] = None

    check: Annotated[
        bool,
        Option(
            ARGUMENTS,
            "With True, the derivatives are compared with central differences between runs.",
            (
                flag(
                    "--check",
                    "Compare the derivatives with central differences. The exit code is 1 if a "
                    "derivative differs.",
                    is_flag=True,
                ),
            ),
        ),
    ] = False

    on_interrupt: Annotated[
        str | None,
        Option(
            ARGUMENTS,
            'Effect of Ctrl-C during the check: `"raise"`, or `"return"` for the unchecked '
            "derivatives; see [`run`](#mdf_loopcompiledmodelrun).",
        ),
    ] = None


class _OptionsAtPoint(Struct, frozen=True, kw_only=True):
    """Options of `jacobian` and `hessian` that determine the run which is differentiated."""

    set: Annotated[
        Mapping[str, Any] | None, Option(ARGUMENTS, "Values of parameters by `node.parameter`.")
    ] = None

    inputs: Annotated[Mapping[str, Any] | None, Option(ARGUMENTS, "Input values by port id.")] = (
        None
    )

    steps: Annotated[int | None, Option(ARGUMENTS, "Number of evaluations of the model.")] = None

    dt: Annotated[
        float | str | None,
        Option(ARGUMENTS, "Time between two evaluations; see [`run`](#mdf_loopcompiledmodelrun)."),
    ] = None

    seed: Annotated[int | str, Option(ARGUMENTS, "Seed of the model's random numbers.")] = 0


class JacobianOptions(_OptionsAtPoint, frozen=True):
    """Arguments of `CompiledModel.jacobian`, as the user gave them."""

    of: Annotated[Sequence[str], Option(ARGUMENTS, "Outputs by `node.port`.")]

    wrt: Annotated[
        Sequence[str],
        Option(
            ARGUMENTS,
            "Names with respect to which the outputs are differentiated; see `differentiate`.",
        ),
    ]


class HessianOptions(_OptionsAtPoint, frozen=True):
    """Arguments of `CompiledModel.hessian`, as the user gave them."""

    of: Annotated[
        Mapping[str, Any], Option(ARGUMENTS, "Terms of the scalar, by output; see `differentiate`.")
    ]

    wrt: Annotated[
        Sequence[str],
        Option(ARGUMENTS, "Names with respect to which the scalar is differentiated twice."),
    ]
