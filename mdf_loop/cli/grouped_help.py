"""Click command whose help lists its options in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import click

Groups = Mapping[str, Sequence[str]]
"""Names of a command's parameters, by the title of their group in the help."""


class GroupedCommand(click.Command):
    """Click command whose help lists its options in groups.

    Attributes:
        groups: The groups of a subclass. Options without a group are in the last group, `Other options`.
    """

    groups: ClassVar[Groups] = {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section of the help text for each group of options."""
        help_records = {
            str(parameter.name): help_record
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            and (help_record := parameter.get_help_record(ctx)) is not None
        }
        for title, names in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([help_records.pop(name) for name in names])
        with formatter.section("Other options"):
            formatter.write_dl(list(help_records.values()))
