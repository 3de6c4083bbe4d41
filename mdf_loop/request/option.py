"""Descriptions of the options of `run`, from which signatures and docstrings are composed.

class RunOptions(Struct):
    steps: Annotated[int | None, Option(TIME, "Number of evaluations.")] = None

@takes_options(RunOptions)
def run(self, options: RunOptions) -> Results:      called as model.run(steps=100)
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from msgspec import Struct, field

from mdf_loop.errors import LoopError
from mdf_loop.public_call import discard_frames, mark_public

_Options = TypeVar("_Options", bound=Struct)
_Parameters = ParamSpec("_Parameters")
_Owner = TypeVar("_Owner")
_Result = TypeVar("_Result")

DOCSTRING_WIDTH = 108
"""Number of characters in a line of a composed docstring."""

IN_ENGINE = "modeci_mdf's engine takes no {}"
"""Error for an option that a run in modeci_mdf's engine does not support."""

ON_CLUSTER = "a cluster does not take {}"
"""Error for an option that a run on a cluster does not support."""

OVER_TRIALS = "statistics over trials do not go together with {}"
"""Error for an option that a run with statistics over trials does not support."""

ARGUMENTS = "Args"
"""Title of the options of a call that has no groups of options."""

_LINK = re.compile(r"\[(.+?)\]\(\S+?\)", re.DOTALL)


class Flag(Struct, frozen=True):
    """Option of the command line that sets an option of `run`.

    Attributes:
        spelling: Spelling of the option, such as `--time-limit`.
        help: Text in the help of commands.
        settings: Further arguments of `click.option`, such as `metavar` or `multiple`.
        name: Key of the value among the options of a command, or empty for the name of the option of `run`.
    """

    spelling: str
    help: str
    settings: Mapping[str, Any]
    name: str = ""


def flag(spelling: str, help: str, *, name: str = "", **settings: Any) -> Flag:
    """Describe a command-line option, with keyword arguments for `click.option`."""
    return Flag(spelling, help, settings, name)


class Requirement(Struct, frozen=True):
    """Set of options, at least one of which another option requires.

    Attributes:
        names: Names of the options. One of them must be given.
        message: Text of the error if none of them is given. `{}` stands for the name of the option.
        hint: Remedy that the error shows.
    """

    names: tuple[str, ...]
    message: str
    hint: str


class Option(Struct, frozen=True):
    """Description of an option of `run`.

    Attributes:
        group: Title of the group of options in the documentation.
        meaning: Sentences in Markdown. Links are relative to the folder `docs/reference`.
        flags: Options of the command line that set this option.
        needs: Other options of which this option needs one, or None.
        conflicts: Ways of running that the option cannot be combined with. The key is the text of the
            error, such as `IN_ENGINE`. The value is the phrase for the option in this error. If only
            some values of the option are refused, the value is a mapping from these to phrases.
    """

    group: str
    meaning: str
    flags: tuple[Flag, ...] = ()
    needs: Requirement | None = None
    conflicts: Mapping[str, str | Mapping[Any, str]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Meaning of the option without links."""
        return _LINK.sub(r"\1", self.meaning)


class Field(Struct, frozen=True):
    """Parameter in a method's signature, with the description of the option that it sets."""

    parameter: inspect.Parameter
    option: Option
    name: str
    default: Any


@functools.cache
def fields_of(options: type[Struct]) -> tuple[Field, ...]:
    """Return the fields of a class of options, in the order of the class."""
    return tuple(map(_field_of, inspect.signature(options).parameters.values()))


def _field_of(parameter: inspect.Parameter) -> Field:
    """Return the field for a parameter whose annotation contains an `Option`."""
    accepted_type, option = get_args(parameter.annotation)
    type_text = inspect.formatannotation(accepted_type)
    short_type_text = re.sub(
        r"\b(?:[a-z_]+\.)+", "", type_text
    )  # Mapping, not collections.abc.Mapping
    parameter = parameter.replace(annotation=short_type_text)
    return Field(parameter, option, parameter.name, parameter.default)


def groups_of(options: type[Struct]) -> dict[str, list[Field]]:
    """Return a dict from group titles to the fields of a class of options."""
    groups: dict[str, list[Field]] = {}
    for option_field in fields_of(options):
        groups.setdefault(option_field.option.group, []).append(option_field)
    return groups


# --- calls ----------------------------------------------------------------------------------------


def takes_options(
    options: Callable[_Parameters, _Options],
) -> Callable[
    [Callable[[_Owner, _Options], _Result]], Callable[Concatenate[_Owner, _Parameters], _Result]
]:
    """Return a decorator that lets a method accept the fields of a class of options as its arguments.

    The decorated method is a public call, and has the signature of the class. Sections with the meaning of the options, one for
    each group, stand in its docstring before the section `Raises`.
    """
    fields = fields_of(options)

    def decorate(
        method: Callable[[_Owner, _Options], _Result],
    ) -> Callable[Concatenate[_Owner, _Parameters], _Result]:
        @functools.wraps(method)
        def call(
            owner: _Owner, /, *arguments: _Parameters.args, **keywords: _Parameters.kwargs
        ) -> _Result:
            try:
                given_options = options(*arguments, **keywords)
            except TypeError:
                signature.bind(owner, *arguments, **keywords)  # raises an error in Python's words
                raise
            try:
                return method(owner, given_options)
            except LoopError as error:
                discard_frames(error)
                raise

        signature = inspect.signature(method)
        self_parameter = next(iter(signature.parameters.values()))
        parameters = [self_parameter, *(option_field.parameter for option_field in fields)]
        signature = signature.replace(parameters=parameters)
        vars(call).update(__signature__=signature)
        call.__doc__ = _insert_options(method.__doc__ or "", fields)
        return mark_public(call)

    return decorate


def _insert_options(docstring: str, fields: Iterable[Field]) -> str:
    """Return a docstring with a section for each group of options before its section `Raises`."""
    sections: dict[str, str] = {}
    for option_field in fields:
        meaning = textwrap.fill(
            f"{option_field.name}: {option_field.option.text}",
            DOCSTRING_WIDTH,
            initial_indent=" " * 12,
            subsequent_indent=" " * 16,
            break_long_words=False,
            break_on_hyphens=False,
        )
        title = option_field.option.group
        sections[title] = f"{sections.get(title, '')}{meaning}\n"
    options_text = "".join(f"        {title}:\n{text}\n" for title, text in sections.items())
    summary, separator, errors = docstring.partition("        Raises:\n")
    return f"{summary}{options_text}{separator}{errors}"
