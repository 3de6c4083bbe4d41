"""Colours, signs, fonts, line styles and levels of detail of pictures.

Every kind has a letter or sign in addition to its colour, so that a picture is readable in black and white.
The colours are suitable for colour-blind readers (Okabe and Ito, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

_T = TypeVar("_T")

FONT_FAMILIES = "Helvetica,Arial,DejaVu Sans,sans-serif"
TEXT_COLOR = "#1b1f24"
REMARK_COLOR = "#57606a"
PAPER_COLOR = "#ffffff"
LINE_COLOR = "#8c959f"
TERMINAL_BORDER_COLOR = "#c8d1da"
WARNING_COLOR = "#a40e26"
HEADER_COLOR = "#eaeef2"
LOOP_LINE_COLOR = "#0b5394"
FRAME_FILL_COLORS = ("#f3f7fb", "#e6eff8", "#d9e6f3")
"""Backgrounds of nested loop frames, outermost first. Deeper frames repeat these colours."""

CONDITIONAL_LINE_COLOR = "#9a6700"
CONDITIONAL_FILL_COLOR, BRANCH_FILL_COLOR = "#fdf6e3", "#fffdf7"
"""Backgrounds of a conditional and of its branches."""

IMPORTED_FUNCTION_ID = "result"
"""Id of a node's function in a model that was imported from another system."""

BIG_FONT_SIZE, NORMAL_FONT_SIZE, SMALL_FONT_SIZE = 13, 11, 9
ROW_HEIGHT = 40
"""Height of a row with an input or output in points. It has space for two lines, so that the rows of both tables are equal."""
BADGE_SIZE = 24


class Mark(Struct, frozen=True):
    """Sign on a coloured background that marks a property, with its legend text."""

    sign: str
    background_color: str
    text_color: str
    legend_text: str


MARKS: dict[str, Mark] = {
    "trip_count": Mark("N", "#4d4d4d", PAPER_COLOR, "trip count"),
    "iteration": Mark("i", "#4d4d4d", PAPER_COLOR, "iteration number"),
    "start": Mark("?", "#b34700", PAPER_COLOR, "runs only if true"),
    "stop": Mark("■", "#b34700", PAPER_COLOR, "stops when false"),
    "enter": Mark("▼", "#0072b2", PAPER_COLOR, "carried value enters"),
    "leave": Mark("▲", "#0072b2", PAPER_COLOR, "leaves for t+1, at last the result"),
    "delayed": Mark("−k", "#0072b2", PAPER_COLOR, "value of k iterations ago"),
    "sliced": Mark("[i]", "#00725a", PAPER_COLOR, "sliced, one part per iteration"),
    "recorded": Mark("[ ]", "#00725a", PAPER_COLOR, "recorded, one row per iteration"),
    "choose": Mark("?", CONDITIONAL_LINE_COLOR, PAPER_COLOR, "chooses the branch"),
    "join": Mark("Y", CONDITIONAL_LINE_COLOR, PAPER_COLOR, "result of the branch that was taken"),
    "captured": Mark("◇", PAPER_COLOR, TEXT_COLOR, "read from outside"),
    "result": Mark("#", "#4d4d4d", PAPER_COLOR, "report on the run"),
    "before_test": Mark(
        "+1", "#f7dcc8", TEXT_COLOR, "before the test: runs once more than the rest"
    ),
    "native": Mark("⚡", "#f6e7a8", TEXT_COLOR, "ran as machine code"),
    "state": Mark("↻", "#f6e7a8", TEXT_COLOR, "state, kept between evaluations"),
    "noise": Mark("~", "#f7dcc8", TEXT_COLOR, "draws random numbers"),
    "schedule": Mark("◷", "#f7dcc8", TEXT_COLOR, "when the scheduler lets it run"),
}


class LineStyle(Struct, frozen=True):
    """Line style of an edge: Graphviz attributes, and a sample and a text for the legend."""

    attributes: dict[str, str]
    legend_sample: str
    legend_text: str


LINE_STYLES: dict[str, LineStyle] = {
    "data": LineStyle({"color": TEXT_COLOR}, "", ""),
    "capture": LineStyle(
        {"color": "#6e7781", "style": "dotted", "penwidth": "1.4", "arrowhead": "vee"},
        "···▸",
        "captured value",
    ),
    "back": LineStyle(
        {
            "color": "#0072b2",
            "fontcolor": "#0072b2",
            "style": "dashed",
            "constraint": "false",
            "weight": "0",
        },
        "╌╌▸",
        "next iteration (t+1)",
    ),
    "cut": LineStyle({"color": "#0072b2", "penwidth": "0.8"}, "3▸ ▸3", "goes on at its number"),
    "feedback": LineStyle(
        {
            "color": "#8a3f7f",
            "fontcolor": "#8a3f7f",
            "style": "dashed",
            "constraint": "false",
            "weight": "0",
        },
        "╌╌▸",
        "value of the pass before",
    ),
}


class Direction(Struct, frozen=True):
    """Flow direction of a picture, with the sides of nodes at which edges start and end."""

    rankdir: str
    enter_side: str
    leave_side: str
    back_start_side: str
    back_end_side: str

    @property
    def is_sideways(self) -> bool:
        """True if values flow from left to right."""
        return self.rankdir == "LR"

    def stacking_order(self, elements: Sequence[_T]) -> Sequence[_T]:
        """Return elements in the order that Graphviz needs, which is reversed for sideways flow.

        Graphviz stacks the nodes of a left-to-right picture bottom up.
        """
        return elements[::-1] if self.is_sideways else elements


DIRECTIONS = {
    "LR": Direction("LR", enter_side="w", leave_side="e", back_start_side="w", back_end_side="e"),
    "TB": Direction("TB", enter_side="n", leave_side="s", back_start_side="n", back_end_side="s"),
}


class Detail(Struct, frozen=True):
    """Settings of a level of detail, such as the number of formulas shown per node.

    With `shows_only_operators`, nodes show only their operators, and chains of operators share a box. With
    `shortens_large_graphs`, imported operators of a large graph are single words without ports, and constants
    are omitted.
    """

    level: int | str
    shows_frames: bool
    shows_bodies: bool
    shows_types: bool
    max_formulas: int
    line_width: int
    shows_only_operators: bool = False
    shortens_large_graphs: bool = False


DETAIL_LEVELS = (
    Detail(
        0, shows_frames=False, shows_bodies=False, shows_types=False, max_formulas=0, line_width=32
    ),
    Detail(
        1, shows_frames=True, shows_bodies=False, shows_types=False, max_formulas=0, line_width=32
    ),
    Detail(
        2, shows_frames=True, shows_bodies=True, shows_types=False, max_formulas=6, line_width=40
    ),
    Detail(
        3, shows_frames=True, shows_bodies=True, shows_types=True, max_formulas=200, line_width=64
    ),
)
OPERATORS_DETAIL = Detail(
    "operators",
    shows_frames=True,
    shows_bodies=True,
    shows_types=False,
    max_formulas=0,
    line_width=32,
    shows_only_operators=True,
)
"""Level of detail for large graphs."""
PAGE_DETAIL = replace(DETAIL_LEVELS[-1], shortens_large_graphs=True)
"""Level of detail of an interactive page, which has the whole content of a model."""
BAND_LINE_COLOR, BAND_FILL_COLOR = "#d8dee4", "#fbfcfd"
"""Colours of the border and of the background of a band."""
