"""Error classes, whose messages state the problem, its place in the model, and the remedy.

Every error is a `LoopError`. One error may contain several findings, so that users see all problems of
a model at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from mdf_loop.text_escaping import escape_control_characters, shorten_middle

MAX_MESSAGE_CHARACTERS = 1500
"""Largest number of characters of a message. Longer messages are shortened in the middle."""


class Finding(Struct, frozen=True):
    """One problem in a model or in the arguments of a call, with its place and a remedy.

    Attributes:
        kind: Name of the error class.
        what: Sentence about the problem.
        where: Place in the model, or an empty text.
        hint: Remedy, or an empty text.
    """

    kind: str
    what: str
    where: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        for field_name in ("what", "where", "hint"):
            escaped_text = escape_control_characters(
                shorten_middle(getattr(self, field_name), MAX_MESSAGE_CHARACTERS)
            )
            force_setattr(self, field_name, escaped_text)

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
        findings: All problems that the error reports.
        results: `Results` so far of a run that the error has ended, else None.
    """

    results: Any = None

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        self.findings: tuple[Finding, ...] = (Finding(type(self).__name__, what, where, hint),)
        super().__init__(str(self))

    def __str__(self) -> str:
        """Return the text of the error without its class name, which tracebacks show."""
        return self.report.removeprefix(f"{type(self).__name__}: ")

    @property
    def report(self) -> str:
        """Text of all findings of the error, each with its kind."""
        return "\n".join(str(finding) for finding in self.findings)


class ModelError(LoopError, ValueError):
    """A file or document is not a usable MDF model."""


class UnknownNameError(LoopError, NameError):
    """An expression or a reference contains a name that is not defined in its scope."""


class UnknownFunctionError(LoopError, NameError):
    """A model calls a function that neither MDF, ONNX nor this library defines."""


class ExpressionError(LoopError, ValueError):
    """A value expression cannot be parsed, or a compiled program cannot compute it."""


class OperandError(LoopError, TypeError):
    """An operation does not support the dtypes, shapes or attributes of its operands."""


class ArityError(LoopError, TypeError):
    """A loop, its body and its node have different numbers of inputs or results."""


class ConditionError(LoopError, TypeError):
    """A loop condition is missing, is not boolean or has more than one element."""


class TripCountError(LoopError, ValueError):
    """The trip count of a loop is not one whole number."""


class CarryTypeError(LoopError, TypeError):
    """A carried value changes its dtype from one iteration to the next."""


class CarryShapeError(LoopError, TypeError):
    """A carried value changes its shape from one iteration to the next."""


class JoinError(OperandError):
    """Two values of one variable, from two branches or two iterations, have incompatible types."""


class RecordShapeError(LoopError, TypeError):
    """The rows that a loop records (scan output) have different shapes."""


class ScopeError(LoopError, NameError):
    """A value is used outside of its scope, or a name is defined twice."""


class SignatureError(LoopError, ValueError):
    """The order of a loop body's inputs and outputs is missing, ambiguous or wrong."""


class EndlessLoopError(LoopError, ValueError):
    """A loop has no trip count, no condition and no bound of iterations."""


class CycleError(LoopError, ValueError):
    """The graph has a cycle of nodes, each of which needs an output of the next."""


class UnsupportedError(LoopError, NotImplementedError):
    """A model uses a feature of MDF that this library cannot compile."""


class InputError(LoopError, ValueError):
    """A value given to a run does not fit the model's input."""


class DiskFullError(InputError):
    """The disk has no space for a file."""


class MemoryLimitError(LoopError, MemoryError):
    """An array or a run exceeds the memory limit."""


class DeviceError(LoopError, RuntimeError):
    """The requested device, such as `cuda`, cannot be used."""


class RunError(LoopError, RuntimeError):
    """The compiled model failed while it ran."""


class NotFiniteError(RunError):
    """A value became nan or infinite in a run with `nan="error"`."""


class GradientError(LoopError, ArithmeticError):
    """A computed derivative differs from finite differences between runs."""


def _collect_classes(cls: type[LoopError]) -> dict[str, type[LoopError]]:
    """Return an error class and all of its subclasses, by name."""
    class_by_name = {cls.__name__: cls}
    for subclass in cls.__subclasses__():
        class_by_name.update(_collect_classes(subclass))
    return class_by_name


def raise_findings(findings: Iterable[Finding]) -> None:
    """Raise all findings as one error, or do nothing if there are none.

    Its class is their common class, or `LoopError`.
    """
    unique_findings = tuple(dict.fromkeys(findings))
    if not unique_findings:
        return
    finding_kinds = {finding.kind for finding in unique_findings}
    error_class = (
        _collect_classes(LoopError).get(finding_kinds.pop(), LoopError)
        if len(finding_kinds) == 1
        else LoopError
    )
    error = error_class.__new__(error_class)
    error.findings = unique_findings
    Exception.__init__(error, str(error))
    raise error


class Poisoned(Exception):  # noqa: N818 - not an error: the findings already contain the error
    """Exception for a value that is missing because of an error that is already recorded."""


class Findings:
    """Collector of errors, which lets a reader continue and report all errors at once.

    Attributes:
        items: Findings so far.
        lasting: Findings in branches that remain errors with any shapes.
        unread: Findings in parts of the model that no output reads. They are reported only together with
            other errors.
    """

    def __init__(self) -> None:
        self.items: list[Finding] = []
        self.lasting: set[Finding] = set()
        self.unread: list[Finding] = []

    @contextmanager
    def catch(self) -> Iterator[None]:
        """Record each `LoopError` that is raised inside this context, instead of raising it."""
        try:
            yield
        except LoopError as error:
            self.items.extend(error.findings)
        except Poisoned:
            pass

    def pop_since(self, mark: int) -> tuple[Finding, ...]:
        """Remove and return all findings after the first `mark` findings."""
        new_findings = tuple(self.items[mark:])
        del self.items[mark:]
        return new_findings

    def raise_any(self) -> None:
        """Raise all findings as one error, if there are any."""
        raise_findings(self.items)
