"""Colours, shapes, signs and fonts of pictures.

Every kind has a letter or sign in addition to its colour, so that a picture is readable in black and white.
The colours are suitable for colour-blind readers (Okabe and Ito, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

_T = TypeVar("_T")

FONT = "Helvetica,Arial,DejaVu Sans,sans-serif"
INK = "#1b1f24"
REMARK_COLOR = "#57606a"
PAPER = "#ffffff"
LINE = "#8c959f"
CHIP_BORDER = "#c8d1da"
WARNING = "#a40e26"
HEADER = "#eaeef2"
LOOP_LINE = "#0b5394"
FRAME_FILLS = ("#f3f7fb", "#e6eff8", "#d9e6f3")
"""Backgrounds of nested loop frames, outermost first. Deeper frames repeat these colours."""

CHOICE_LINE = "#9a6700"
CHOICE_FILL, BRANCH_FILL = "#fdf6e3", "#fffdf7"
"""Backgrounds of a choice and of its branches."""

IMPORTED_FUNCTION_ID = "result"
"""Id of a node's function in a model that was imported from another system."""

BIG, NORMAL, SMALL = 13, 11, 9
ROW_HEIGHT = 40
"""Height of a terminal in points. It has space for two lines, so that the rows of both rails are equal."""
BADGE_SIZE = 24


class Mark(Struct, frozen=True):
    """Sign on a coloured background, with the text of its legend entry."""

    sign: str
    ground: str
    ink: str
    words: str


MARKS: dict[str, Mark] = {
    "trip_count": Mark("N", "#4d4d4d", PAPER, "trip count"),
    "iteration": Mark("i", "#4d4d4d", PAPER, "iteration number"),
    "start": Mark("?", "#b34700", PAPER, "runs only if true"),
    "stop": Mark("■", "#b34700", PAPER, "stops when false"),
    "enter": Mark("▼", "#0072b2", PAPER, "carried value enters"),
    "leave": Mark("▲", "#0072b2", PAPER, "leaves for t+1, at last the result"),
    "delayed": Mark("−k", "#0072b2", PAPER, "value of k iterations ago"),
    "sliced": Mark("[i]", "#00725a", PAPER, "sliced, one part per iteration"),
    "recorded": Mark("[ ]", "#00725a", PAPER, "recorded, one row per iteration"),
    "choose": Mark("?", CHOICE_LINE, PAPER, "chooses the branch"),
    "join": Mark("Y", CHOICE_LINE, PAPER, "result of the branch that was taken"),
    "captured": Mark("◇", PAPER, INK, "read from outside"),
    "result": Mark("#", "#4d4d4d", PAPER, "report on the run"),
    "before_test": Mark("+1", "#f7dcc8", INK, "before the test: runs once more than the rest"),
    "native": Mark("⚡", "#f6e7a8", INK, "ran as machine code"),
    "state": Mark("↻", "#f6e7a8", INK, "state, kept between evaluations"),
    "noise": Mark("~", "#f7dcc8", INK, "draws random numbers"),
    "schedule": Mark("◷", "#f7dcc8", INK, "when the scheduler lets it run"),
}


class Stroke(Struct, frozen=True):
    """Graphviz attributes of an edge, with the sample and the text of its legend entry."""

    attributes: dict[str, str]
    sample: str
    words: str


STROKES: dict[str, Stroke] = {
    "data": Stroke({"color": INK}, "", ""),
    "capture": Stroke(
        {"color": "#6e7781", "style": "dotted", "penwidth": "1.4", "arrowhead": "vee"},
        "···▸",
        "captured value",
    ),
    "back": Stroke(
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
    "cut": Stroke({"color": "#0072b2", "penwidth": "0.8"}, "3▸ ▸3", "goes on at its number"),
    "feedback": Stroke(
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
    """Direction of flow, with the sides of nodes at which edges start and end."""

    rankdir: str
    enter: str
    leave: str
    back_from: str
    back_to: str

    @property
    def is_sideways(self) -> bool:
        """True if values flow from left to right."""
        return self.rankdir == "LR"

    def stacking_order(self, elements: Sequence[_T]) -> Sequence[_T]:
        """Return elements in the order in which they must be drawn.

        Graphviz stacks the nodes of a left-to-right picture bottom up.
        """
        return elements[::-1] if self.is_sideways else elements


DIRECTIONS = {
    "LR": Direction("LR", enter="w", leave="e", back_from="w", back_to="e"),
    "TB": Direction("TB", enter="n", leave="s", back_from="n", back_to="s"),
}


class Detail(Struct, frozen=True):
    """Level of detail. `rows` and `width` limit the formulas of a node.

    With `operators`, nodes show only their operators, and chains of operators share a box.
    """

    level: int | str
    frames: bool
    bodies: bool
    types: bool
    rows: int
    width: int
    operators: bool = False


LEVELS = (
    Detail(0, frames=False, bodies=False, types=False, rows=0, width=32),
    Detail(1, frames=True, bodies=False, types=False, rows=0, width=32),
    Detail(2, frames=True, bodies=True, types=False, rows=6, width=40),
    Detail(3, frames=True, bodies=True, types=True, rows=200, width=64),
)
OPERATORS = Detail(
    "operators", frames=True, bodies=True, types=False, rows=0, width=32, operators=True
)
"""Level of detail for large graphs."""
BAND_LINE, BAND_FILL = "#d8dee4", "#fbfcfd"
"""Colours of the border and of the background of a band."""
