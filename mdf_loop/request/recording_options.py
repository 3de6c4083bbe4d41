"""Options of `run` about recorded values, random numbers and trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from mdf_loop.request.model_options import NEEDS_STEPS, ModelOptions
from mdf_loop.request.option import IN_ENGINE, ON_CLUSTER, OVER_TRIALS, Option, Requirement, flag

RECORDING = "What to record"
RANDOM = "Random numbers and trials"

OVER_TRIALS_EXAMPLE = (
    "over_trials={'ddm.rt': ['mean', {'quantiles': [0.1, 0.5, 0.9]}]}, by='ddm.choice'"
)
"""Example of the options `over_trials` and `by`."""


class RecordingOptions(ModelOptions, frozen=True, kw_only=True):
    """Options of `run` about recorded values, random numbers and trials."""

    record: Annotated[
        Sequence[str],
        Option(
            RECORDING,
            "Names `node.port`, `node.parameter` or `node.function` to record in addition to the "
            "outputs.",
            (
                flag(
                    "--record",
                    "Record node.port, node.parameter or node.function in addition to the outputs.",
                    multiple=True,
                    metavar="NAME",
                ),
            ),
            conflicts={OVER_TRIALS: "outputs of each trial"},
        ),
    ] = ()

    only: Annotated[
        Sequence[str] | None,
        Option(
            RECORDING,
            "Names, as for `record`, to record instead of the outputs.",
            (
                flag(
                    "--only",
                    "Record this value instead of the model's outputs.",
                    multiple=True,
                    metavar="NAME",
                ),
            ),
            conflicts={OVER_TRIALS: "outputs of each trial"},
        ),
    ] = None

    every: Annotated[
        int,
        Option(
            RECORDING,
            "With `every=n`, the first evaluation and every n-th evaluation after the first are "
            "recorded.",
            (
                flag(
                    "--every",
                    "Record only the first step and every N-th step after it.",
                    metavar="N",
                ),
            ),
            needs=NEEDS_STEPS,
        ),
    ] = 1

    when: Annotated[
        str | None,
        Option(
            RECORDING,
            "Name of a boolean value. [Only the "
            "rows](../how-to/record-what-you-need.md#record-selected-rows) in which this value is "
            "true are recorded.",
            (
                flag(
                    "--when",
                    "Record only the steps in which this Boolean value is true.",
                    metavar="NAME",
                ),
            ),
            needs=NEEDS_STEPS,
            conflicts={
                IN_ENGINE: "when",
                ON_CLUSTER: "rows of some steps only (when)",
                OVER_TRIALS: "rows of some steps only",
            },
        ),
    ] = None

    reduce: Annotated[
        Mapping[str, str | Sequence[str]] | None,
        Option(
            RECORDING,
            'Reductions over all evaluations by output: `"mean"`, `"sum"`, `"last"`, `"min"` or '
            '`"max"`, or several, as `"mean,max"` or a list. `{"node.port": "mean"}` returns [one '
            "value for all steps](../how-to/record-what-you-need.md#reduce-a-run-to-one-value), "
            "named `node.port.mean`, instead of the rows of this output.",
            (
                flag(
                    "--reduce",
                    "Record the mean, sum, last, min or max of an output over all steps, instead "
                    "of the value of each step: v=mean,max.",
                    multiple=True,
                    metavar="NAME=WORDS",
                ),
            ),
            needs=NEEDS_STEPS,
            conflicts={IN_ENGINE: "reduce"},
        ),
    ] = None

    execution_list: Annotated[
        bool,
        Option(
            RECORDING,
            "With True, "
            "[`.execution_list`](../how-to/use-scheduler-conditions.md#read-the-order-of-execution) "
            "of the results lists the nodes that ran in each step, also if this order depends on "
            "computed values. Such a run needs one call of ONNX Runtime for each step.",
            (
                flag(
                    "--execution-list",
                    "Show which nodes ran in each step, in the order of execution.",
                    is_flag=True,
                ),
            ),
            needs=NEEDS_STEPS,
        ),
    ] = False

    seed: Annotated[
        int | str,
        Option(
            RANDOM,
            "Seed of the [random numbers](../how-to/noise.md): an integer from 0 to 2**64 - 1, or "
            '`"fresh"` for a new seed in each run, which `results.seed` reports. Equal seeds draw '
            "equal numbers.",
            (
                flag(
                    "--seed",
                    "Seed of the random numbers: an integer, or fresh for a seed that differs in "
                    "each run.",
                    default="0",
                    show_default=True,
                ),
            ),
        ),
    ] = 0

    trials: Annotated[
        int | Sequence[int] | None,
        Option(
            RANDOM,
            "Number of [trials](../how-to/trials-and-distributions.md), which are runs with "
            "different random numbers, or a list of trial numbers. The number of a trial selects "
            "its random numbers, and trial 0 equals the run without trials. Each output gets an "
            "axis `trial`, which comes after the axis of a sweep.",
            (
                flag(
                    "--trials",
                    "Number of trials (runs with different random numbers), or the numbers of the "
                    "trials: a list, or FIRST:END without END.",
                    metavar="N|FIRST:END|LIST",
                ),
            ),
            conflicts={IN_ENGINE: "trials"},
        ),
    ] = None

    over_trials: Annotated[
        Mapping[str, Any] | None,
        Option(
            RANDOM,
            "Lists of [statistics over all "
            "trials](../how-to/trials-and-distributions.md#statistics-instead-of-trials) by "
            'output, which are returned instead of the results of each trial: `"mean"`, `"var"`, '
            '`"std"`, `"min"`, `"max"`, `"count"`, `{"quantiles": [0.1, 0.5, 0.9]}` and '
            '`{"histogram": edges}`. The results have names such as `node.port.mean`. Trials are '
            "run in batches, and not stored.",
            (
                flag(
                    "--over-trials",
                    "Return statistics of an output over all trials instead of its value in each "
                    "trial: rt=mean,var. Statistics: mean, var, std, min, max, count, "
                    "quantiles:0.1:0.5:0.9, and histogram:first:last:number with this number of "
                    "bin edges.",
                    multiple=True,
                    metavar="NAME=WORDS",
                ),
            ),
            needs=Requirement(
                ("trials",),
                "{} needs trials: it is about what trials share",
                f"e.g. trials=10_000, {OVER_TRIALS_EXAMPLE}",
            ),
        ),
    ] = None

    by: Annotated[
        str | None,
        Option(
            RANDOM,
            "Name of an output with one number in each trial, such as a choice. The statistics of "
            "`over_trials` are computed separately for each value of this output, along an axis "
            "with the output's name after the axis of a sweep.",
            (
                flag(
                    "--by",
                    "Output, such as a choice: compute the statistics of --over-trials separately "
                    "for each of its values.",
                    metavar="NAME",
                ),
            ),
            needs=Requirement(
                ("over_trials",),
                "{} needs over_trials: it is about what trials share",
                f"e.g. trials=10_000, {OVER_TRIALS_EXAMPLE}",
            ),
        ),
    ] = None
