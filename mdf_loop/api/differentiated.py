"""`Compiled.differentiate`: a model and what is asked for derivatives of, made once, run again and again."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.api.gathering import seed_of
from mdf_loop.api.gradient_check import checked
from mdf_loop.api.gradient_file import program_of_file
from mdf_loop.api.onnx_files import checked_file, write_file
from mdf_loop.api.prepared import Prepared
from mdf_loop.api.running import run
from mdf_loop.api.values_of import values_of
from mdf_loop.errors import Finding, InputError, raise_findings
from mdf_loop.ir import Array, Program
from mdf_loop.ir.types import kind_of
from mdf_loop.losses import Loss
from mdf_loop.pipeline import PORTABLE, prepare
from mdf_loop.reading.binding import Bound
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.names import find_item, named_items
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.program import read_once
from mdf_loop.reading.settings import input_name
from mdf_loop.recent import Recent
from mdf_loop.results.data import Results
from mdf_loop.results.gradient import Gradient, GradientCheck
from mdf_loop.run.gradient.in_chunks import GradientOverTime
from mdf_loop.run.gradient.in_one import GradientInOne
from mdf_loop.run.gradient.loaded import Differentiation
from mdf_loop.run.gradient.terms import Data, terms_of
from mdf_loop.run.time_session import TimeSession
from mdf_loop.specification import RunSpecification, Selection, Values

SESSIONS = 16
"""For how many sets of input types a differentiated model is kept ready."""


class Differentiated:
    """How a number changes with parameters and inputs of a model: made once, run as often as one likes.

    Attributes:
        losses: what the number is: sums over outputs.
        wrt: by what it is differentiated.
    """

    def __init__(
        self,
        prepared: Prepared,
        losses: Sequence[Loss],
        wrt: Sequence[str],
        specification: RunSpecification,
    ) -> None:
        self.losses = tuple(losses)
        self.wrt = tuple(wrt)
        self._prepared = prepared
        self._specification = specification
        self._ready: Recent[GradientInOne | GradientOverTime] = Recent(SESSIONS)
        self._lock = threading.Lock()
        document = prepared.document
        names = [loss.output for loss in losses]
        shown = {
            item.name: name
            for name, item in named_items(document, Selection(only=tuple(names))).items()
        }
        self._outputs = {name: shown[find_item(document, name).name] for name in names}
        self._ports = {
            name: port.name for name in wrt for port in open_ports(document) if name in port.names
        }
        self._values: dict[str, Any] = {}

    def run(
        self,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        sweep: Mapping[str, Any] | None = None,
        check: bool = False,
    ) -> Gradient:
        """The number and its derivatives, at these values of parameters and inputs.

        Args:
            set: parameters by `node.parameter`; of one that keeps a state, what it starts from.
            inputs: values by port id; the rest have their defaults.
            sweep: lists of values for parameters or inputs: a number, and derivatives, for each member.
            check: compare the derivatives with central differences between runs, of at most 64 elements
                of each parameter or input.

        Raises:
            GradientError: a derivative is not what differences are; the sentence names the element.
            LoopError: a value does not fit, or something has no derivative; the sentence names it.
        """
        asked = self._asked(set or {}, inputs or {}, sweep or {})
        bound = self._prepared.bound(asked)
        ready = self._made(asked, bound)
        value, made = ready.run(bound)
        arrays = {name: made[target] for name, target in self._targets.items()}
        if bound.streams.trials is not None:
            trials = len(bound.streams.trials)
            value = _over_trials(value, trials)
            arrays = {name: _over_trials(array, trials) for name, array in arrays.items()}
            if not bound.members:
                value, arrays = value[0], {name: array[0] for name, array in arrays.items()}
        shown = value if bound.members else float(value)
        gradient = Gradient(shown, arrays, seed_of(bound), dict(ready.native))
        return replace(gradient, check=self._check(gradient, asked, bound)) if check else gradient

    def _check(self, gradient: Gradient, asked: RunSpecification, bound: Bound) -> GradientCheck:
        """Compare derivatives with differences between runs."""
        if bound.members:
            raise InputError("a sweep cannot be checked", hint="check one of its members")
        at = {name: np.asarray(bound.arrays[target]) for name, target in self._targets.items()}

        def runs(sweep: Mapping[str, Array]) -> Results:
            kept = (
                {n: v for n, v in given.items() if n not in sweep}
                for given in (asked.values.inputs, asked.values.set)
            )
            inputs, settings = kept
            values = replace(asked.values, inputs=inputs, set=settings, sweep=sweep)
            return run(self._prepared, replace(asked, values=values))

        trials = asked.values.draws.trials is not None
        return checked(gradient, at, self.losses, self._outputs, runs, int(trials))

    def _asked(
        self, set: Mapping[str, Any], inputs: Mapping[str, Any], sweep: Mapping[str, Any]
    ) -> RunSpecification:
        own = self._own([n for n in self.wrt if not {n} & {*self._ports, *set, *sweep}])
        values = self._specification.values
        given = Values(inputs, {**own, **set}, sweep, None, values.draws)
        only = tuple(dict.fromkeys(self._outputs.values()))
        selection = replace(self._specification.selection, only=only)
        return replace(self._specification, values=given, selection=selection)

    def _own(self, names: Sequence[str]) -> dict[str, Any]:
        """The values of parameters that the model itself has."""
        missing = [name for name in names if name not in self._values]
        self._values |= values_of(self._prepared, missing)
        return {name: self._values[name] for name in names}

    @property
    def _targets(self) -> dict[str, str]:
        """The inputs of programs by the names that were asked for."""
        return {name: self._ports.get(name) or input_name(name) for name in self.wrt}

    def _made(self, asked: RunSpecification, bound: Bound) -> GradientInOne | GradientOverTime:
        with self._lock:
            ready = self._ready.get(bound.types)
            if ready is None:
                ready = self._read(asked, bound)
                self._ready.put(bound.types, ready)
            return ready

    def _read(self, asked: RunSpecification, bound: Bound) -> GradientInOne | GradientOverTime:
        raise_findings(self._refused(bound))
        prepared = self._prepared
        terms = terms_of(self.losses, self._outputs)
        targets = tuple(self._targets.values())
        differentiation = Differentiation(terms, targets, prepared.placement)
        trials = 1 if bound.streams.trials is None else len(bound.streams.trials)
        if asked.steps is None:
            program = read_once(prepared.document, bound, prepared.options, asked.selection).program
            data = Data.of(self.losses, terms, program, None, trials)
            return GradientInOne(program, differentiation, data, bound.swept_in(program))
        programs = read_over_time(prepared.document, bound, prepared.options, asked)
        swept = bound.swept_in(programs.later)
        session = TimeSession(programs, prepared.options, prepared.placement, swept)
        data = Data.of(self.losses, terms, programs.later, asked.steps, trials)
        over_time = frozenset(bound.given.over_time)
        return GradientOverTime(programs, session, differentiation, data, asked, over_time)

    def _refused(self, bound: Bound) -> list[Finding]:
        """What does not change a little."""
        arrays = bound.arrays
        document = self._prepared.document
        found = []
        for name, target in self._targets.items():
            array = arrays[target]
            dtype = str(getattr(array, "dtype", type(array).__name__))
            if not isinstance(array, np.ndarray) or kind_of(dtype) != "f":
                found.append(
                    Finding(
                        "UnsupportedError",
                        f"'{name}' is {dtype}: only by numbers with a point can be differentiated",
                        document.where,
                        f"write {name.rpartition('.')[2]} as 3.0, not 3, if it can have any value",
                    )
                )
        return found

    # --- files --------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """The number and its derivatives as one program, for the model's own values; steps are an input."""
        return self._in_file()[0]

    def save(self, path: str | Path) -> Any:
        """Write a standard `.onnx` file that gives `value`, and `gradient of` each name.

        What it is differentiated by, and over time `steps` and `dt`, are inputs; these, the data of
        `of`, and `random_keys`, need not be given. It takes memory in proportion to the steps.

        Returns the `onnx.ModelProto` that was written.
        """
        from mdf_loop.emit import portable, to_onnx

        target = checked_file(path, self._prepared.document.files)
        program, defaults = self._in_file()
        made = portable(to_onnx(prepare(program, PORTABLE)), {}, defaults)
        write_file(target, made)
        return made

    def _in_file(self) -> tuple[Program, dict[str, Array]]:
        """The program of a file, and what its inputs hold that are not given."""
        asked = self._asked({}, {}, {})
        bound = self._prepared.bound(asked)
        raise_findings(self._refused(bound))
        names = {target: name for name, target in self._targets.items()}
        return program_of_file(self._prepared, self.losses, self._outputs, names, asked, bound)


def _over_trials(array: Array, trials: int) -> Array:
    """The sum over all trials of each member."""
    made: Array = array.reshape(-1, trials, *array.shape[1:]).sum(axis=1)
    return made
