"""What `Compiled.fit` does: one fit, one for each subject, or one of all that share parameters."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitted_curves import fit_curves
from mdf_loop.api.fitted_objective import fit_objective
from mdf_loop.api.fitted_times import fit_times
from mdf_loop.api.fitted_together import fit_together
from mdf_loop.api.fitting_to_data import (
    FitRequest,
    free_parameters,
    is_of_subjects,
    of_subject,
    subjects_of,
)
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import Free
from mdf_loop.ir import StoppedBy
from mdf_loop.paths import noting
from mdf_loop.results.fit import Fit, Fits


def fit(model: Derivable, request: FitRequest) -> Fit | Fits:
    """The fit that is asked for.

    Raises:
        LoopError: what is asked for does not fit; the sentence names it.
    """
    free = free_parameters(model, request)
    if not is_of_subjects(request.data):
        if request.shared:
            raise InputError("shared ties subjects, but the data are of one", hint="leave it out")
        return _one(model, request, free)
    if request.shared:
        return fit_together(model, request, free)
    found: dict[str, Fit] = {}
    began = perf_counter()
    for name, each in subjects_of(request):
        if each.time_limit is not None:
            each = replace(each, time_limit=max(each.time_limit - (perf_counter() - began), 0.0))
        with of_subject(name):
            found[name] = _one(model, each, free)
        if found[name].stopped_by is not StoppedBy.COMPLETED:
            break
    return Fits(found, read_from=frozenset().union(*(fit.read_from for fit in found.values())))


def _one(model: Derivable, request: FitRequest, free: Free) -> Fit:
    way = fit_times if request.likelihood else fit_curves
    if request.objective is not None:
        way = fit_objective
    with noting(model.prepared.document.files) as files:
        found = way(model, request, free)
    return replace(found, read_from=frozenset(files))
