"""Error classes. Each error states the problem, its place in the model, and the remedy.

Every error is a `LoopError`. One error may carry several findings, since a modeller
wants to see all that is wrong at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from mdf_loop.text_escaping import escape_control_characters, shorten_middle

LONGEST = 1500
"""Characters of a sentence that anyone reads; what is longer is shortened in its middle."""


class Finding(Struct, frozen=True):
    """One problem: its kind, a sentence, its place in the model, and a hint."""

    kind: str
    what: str
    where: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        for part in ("what", "where", "hint"):
            text = escape_control_characters(shorten_middle(getattr(self, part), LONGEST))
            force_setattr(self, part, text)

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.what}"]
        if self.where:
            lines.append(f"  at {self.where}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class LoopError(Exception):
    """Base class of all errors about models, arguments and files of the user.

    Attributes:
        results: of an error that has ended a run: what was reached (`Results`); else None.
    """

    results: Any = None

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        self.findings: tuple[Finding, ...] = (Finding(type(self).__name__, what, where, hint),)
        super().__init__(str(self))

    def __str__(self) -> str:
        """Return the sentences of the error, without its own class in front, which a traceback shows."""
        return self.report.removeprefix(f"{type(self).__name__}: ")

    @property
    def report(self) -> str:
        """Text of all findings, each with its kind."""
        return "\n".join(str(finding) for finding in self.findings)


class ModelError(LoopError, ValueError):
    """The file or the document is not a usable MDF model."""


class UnknownNameError(LoopError, NameError):
    """An expression or a reference names something that does not exist here."""


class UnknownFunctionError(LoopError, NameError):
    """A function that neither MDF, ONNX nor this library knows."""


class ExpressionError(LoopError, ValueError):
    """A value expression that cannot be read or cannot be computed by a compiled program."""


class OperandError(LoopError, TypeError):
    """An operation cannot take the values (dtypes, shapes, attributes) that it is given."""


class ArityError(LoopError, TypeError):
    """A loop, its body and its node disagree about how many values there are."""


class ConditionError(LoopError, TypeError):
    """A loop condition is missing, is not boolean or has more than one element."""


class TripCountError(LoopError, ValueError):
    """A trip count is not one whole number."""


class CarryTypeError(LoopError, TypeError):
    """A carried value changes its dtype from one iteration to the next."""


class CarryShapeError(LoopError, TypeError):
    """A carried value changes its shape from one iteration to the next."""


class JoinError(OperandError):
    """Two values for one place, from two branches or two iterations, that do not join."""


class RecordShapeError(LoopError, TypeError):
    """The rows of a recorded value (scan output) do not all have one shape."""


class ScopeError(LoopError, NameError):
    """A value is used where it does not exist, or a name is used twice."""


class SignatureError(LoopError, ValueError):
    """The order of a body's inputs and outputs is missing, ambiguous or wrong."""


class EndlessLoopError(LoopError, ValueError):
    """A loop has neither a trip count nor a condition, and no bound was set."""


class CycleError(LoopError, ValueError):
    """Nodes wait for each other in a circle."""


class UnsupportedError(LoopError, NotImplementedError):
    """Something MDF can say that this library cannot compile."""


class InputError(LoopError, ValueError):
    """A value given to a run does not fit the model's input."""


class DiskFullError(InputError):
    """The disk has no space for a file."""


class MemoryLimitError(LoopError, MemoryError):
    """An array or a run exceeds the memory limit."""


class DeviceError(LoopError, RuntimeError):
    """The requested device cannot be used."""


class RunError(LoopError, RuntimeError):
    """The compiled model failed while it ran."""


class NotFiniteError(RunError):
    """A value became nan or infinite in a run with `nan="error"`."""


class GradientError(LoopError, ArithmeticError):
    """A derivative differs from the differences between runs."""


def _kinds(cls: type[LoopError]) -> dict[str, type[LoopError]]:
    kinds = {cls.__name__: cls}
    for sub in cls.__subclasses__():
        kinds.update(_kinds(sub))
    return kinds


def raise_findings(findings: Iterable[Finding]) -> None:
    """Raise one error for all `findings`, of their common class if they have one."""
    unique = tuple(dict.fromkeys(findings))
    if not unique:
        return
    kinds = {finding.kind for finding in unique}
    cls = _kinds(LoopError).get(kinds.pop(), LoopError) if len(kinds) == 1 else LoopError
    error = cls.__new__(cls)
    error.findings = unique
    Exception.__init__(error, str(error))
    raise error


class Poisoned(Exception):  # noqa: N818 - not an error: the error was found elsewhere
    """A value is missing because of an error that is already in the findings."""


class Findings:
    """Collector of errors, so that reading continues and all errors are reported at once.

    `lasting` are those of branches that no other shapes would mend, `unread` those in what nothing
    reads: said beside other errors, alone they refuse nothing.
    """

    def __init__(self) -> None:
        self.items: list[Finding] = []
        self.lasting: set[Finding] = set()
        self.unread: list[Finding] = []

    @contextmanager
    def catch(self) -> Iterator[None]:
        """Record a `LoopError` that is raised inside this context, and continue after it."""
        try:
            yield
        except LoopError as error:
            self.items.extend(error.findings)
        except Poisoned:
            pass

    def since(self, mark: int) -> tuple[Finding, ...]:
        """Remove the findings after the first `mark` findings, and return them."""
        new_findings = tuple(self.items[mark:])
        del self.items[mark:]
        return new_findings

    def raise_any(self) -> None:
        """Raise all findings as one error, if there are any."""
        raise_findings(self.items)
