"""The forms of a random model: standard, native, automatic, interpreted, and a file in plain ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np

from mdf_loop import Results
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.errors import LoopError
from mdf_loop.native import loop_decisions
from mdf_loop.native.loop_decisions import NATIVE
from tests.long_runs.helpers import Case
from tests.random_models.models import RandomModel
from tests.random_programs.forms import Arrays, in_plain_runtime

STANDARD, REQUIRED, AUTO = "off", "require", "auto"


@dataclass
class Form:
    """A model compiled in one form, with the results of its first run.

    `has_arrays` is True if the native loop over time of that run computes arrays. Such a loop uses the
    package's own functions, as do members that run together.
    """

    case: Case
    compiled: CompiledModel
    has_arrays: bool | None = None

    def run(self, **more: Any) -> Results:
        """Run the model; arguments in `more` replace those of the case."""
        words = {**self.case.arguments, "nan": "ignore", "progress": False, **more}
        if self.has_arrays is None:
            return self._first(words)
        return self.compiled.run(**words)

    def in_lanes(self, results: Results) -> bool:
        """Return True if native loops with lanes or arrays computed the whole run."""
        is_native = all(word == NATIVE for word in results.native.values())
        return is_native and (len(results.axes) > 1 or bool(self.has_arrays))

    def _first(self, words: Mapping[str, Any]) -> Results:
        forms: dict[str, bool] = {}

        def noting(loop: Any, known: Any) -> Any:
            form = original_signature_of(loop, known)
            forms[loop.name] = form.computes_arrays
            return form

        original_signature_of = loop_decisions.signature_of
        with mock.patch.object(loop_decisions, "signature_of", noting):
            results = self.compiled.run(**words)
        self.has_arrays = forms.get("time", False)
        return results


def form_of_model(model: RandomModel, native: str, **options: Any) -> Form:
    """Compile a random model in one form."""
    case = Case(model.source, model.run, {**model.options, "native": native, **options})
    return Form(case, case.compiled())


class Forms:
    """The forms of a model, each compiled once and run once."""

    def __init__(self, model: RandomModel) -> None:
        self.model = model
        self.standard = form_of_model(model, STANDARD)
        self.standard.run()
        self.required = form_of_model(model, REQUIRED)
        self.native({})

    @cached_property
    def auto(self) -> Form:
        """The automatically selected form."""
        return form_of_model(self.model, AUTO)

    def native(self, words: Mapping[str, Any]) -> Form:
        """Return the form with native loops for these run arguments, or the automatic form if unsupported."""
        try:
            self.required.run(**words)
        except LoopError as error:
            if "cannot be native" not in str(error):
                raise
            return self.auto
        return self.required


def file_outputs(model: RandomModel, compiled: CompiledModel) -> Arrays:
    """Return the outputs of the exported run in plain ONNX Runtime, with nan in rows of nodes that did not run."""
    run = {word: model.run[word] for word in ("steps", "dt")}
    file = compiled.to_onnx(model.run["inputs"], **run, origin=False)
    dtype = model.options.get("precision", "float64")
    feeds = {}
    for name, array in model.feeds.items():
        feeds[name] = feeds[name.split(".")[-1]] = np.asarray(array, dtype)
    rows = in_plain_runtime(file, feeds)
    outputs = {name: a for name, a in rows.items() if not name.startswith("has run: ")}
    for name, array in outputs.items():
        has_run = rows.get(f"has run: {name}")
        if has_run is not None and not has_run.all():
            front = has_run.reshape(-1, *[1] * (array.ndim - 1))
            outputs[name] = np.where(front, array, np.array(np.nan, dtype))
    return outputs
