"""Entry point of runs that a run specification describes."""

from __future__ import annotations

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.running import run
from mdf_loop.results.data import Results
from mdf_loop.specification import RunSpecification


def run_specified(prepared: PreparedModel, spec: RunSpecification) -> Results:
    """Run a model as specified, in this process or on a cluster, without warnings.

    Save the results if requested.

    Raises:
        LoopError: An input does not fit, or the model failed. The message names the place.
    """
    if spec.sharing is None:
        return run(prepared, spec)
    from mdf_loop.api.clustered import run_on_cluster  # a slow import that few runs need

    return run_on_cluster(prepared, spec)
