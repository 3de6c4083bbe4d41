"""Generate the page of pictures: loops, models over time, drawing options, runs, imports, interactive pages.

All pictures are drawn anew into the source folder of the site.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docs.site.gallery import grid
from docs.site.pages import ROOT
from mdf_loop.drawing import Drawing, draw
from tests.drawing.page.large import write

EXTRA = "extra"
"""Folder of files that Sphinx copies unchanged."""

FOLDER = "pictures"
"""Folder of the pictures and interactive pages within `EXTRA`."""

ENCODER = "encoder-"
"""Prefix of sources that are generated ONNX encoders, followed by the number of layers."""

_NEURON = {"steps": 200, "dt": 0.1, "inputs": {"current": 0.5}}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of an example or of an encoder; `run` holds the arguments of a run that the picture shows."""

    source: str
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] | None = None

    def draw(self, folder: Path) -> Drawing:
        """Draw the picture.

        Args:
            folder: Folder for generated files.
        """
        if self.source.startswith(ENCODER):
            model = write(folder / f"{self.source}.onnx", int(self.source.removeprefix(ENCODER)))
        else:
            model = ROOT / "examples" / self.source / "model.yaml"
        if self.run is None:
            return draw(model, **self.options)
        import mdf_loop

        arguments = dict(self.run)
        return (
            mdf_loop.compile(model)
            .run(arguments.pop("inputs", {}), **arguments)
            .draw(**self.options)
        )


_OVER_TIME = {"over_time": True}

PICTURES: Mapping[str, tuple[Picture, ...]] = {
    "Loops": (
        Picture("matrix_power", "A for loop whose trip count is an input"),
        Picture("newton_sqrt", "A while loop with a tolerance"),
        Picture("collatz", "A while loop inside a for loop"),
        Picture("nested_triangular", "The inner trip count is the outer iteration"),
        Picture("leaky_neuron", "A threshold, a reset, two traces"),
        Picture("fitzhugh_nagumo", "Two carried values"),
        Picture("adaptive_threshold", "A branch inside a loop"),
        Picture("competing_accumulators", "A race of three to a threshold"),
        Picture("drift_diffusion", "A decision: a while loop of unknown length"),
        Picture("fitted_decision", "A decision and the time beside it"),
        Picture("implicit_root", "Newton's method, and where its derivative comes from"),
        Picture("wavefront_rnn", "Two loops in series"),
        Picture("trained_rnn", "A network that is given one number after the other"),
        Picture("onnx_round_trip", "A loop that comes from an ONNX file"),
    ),
    "Models over time": (
        Picture("parameter_sweep", "A neuron as MDF writes it", _OVER_TIME),
        Picture("noisy_current", "A neuron with a noisy current", _OVER_TIME),
        Picture("poisson_inputs", "Random arrays", _OVER_TIME),
        Picture("stroop", "A network with scheduler conditions", _OVER_TIME),
        Picture("fitted_rnn", "Three units, joined", _OVER_TIME),
        Picture("fitted_integrate_and_fire", "A condition that resets a state", _OVER_TIME),
    ),
    "Ways to draw": (
        Picture("wavefront_rnn", "`level=0`: a box for each node", {"level": 0}),
        Picture("nested_triangular", "`level=1`: frames and terminals", {"level": 1}),
        Picture("nested_triangular", "`level=3`: types, shapes and values", {"level": 3}),
        Picture("collatz", "`depth=1`: the inner loop is closed", {"depth": 1}),
        Picture("stroop", '`focus="answers"`: a node and its neighbours', {"focus": "answers"}),
        Picture("fitzhugh_nagumo", '`rankdir="TB"`: from top to bottom', {"rankdir": "TB"}),
    ),
    "After a run": (
        Picture("newton_sqrt", "How often the loop ran, and why it ended", run={}),
        Picture("parameter_sweep", "Values and traces of a neuron", run=_NEURON),
    ),
    "Imports": (
        Picture(f"{ENCODER}2", "Operators of two layers, chains of them in one box"),
        Picture(f"{ENCODER}8", "The same of eight layers, in bands"),
    ),
}

PAGES: tuple[Picture, ...] = (
    Picture("nested_triangular", "Loops inside loops, after a run", run={}),
    Picture("parameter_sweep", "A neuron over time: move the slider", run=_NEURON),
    Picture("fitzhugh_nagumo", "A loop of 2000 steps: move the slider", run={}),
    Picture("wavefront_rnn", "Two loops in series"),
    Picture("stroop", "A network over time, with its schedule", _OVER_TIME),
    Picture(f"{ENCODER}56", "A network of 56 layers, folded"),
)

_CARD = """\
:::{{grid-item-card}} {description}
:link: {link}
:link-type: url
:img-top: {picture}

{source}
:::
"""


def pictures_page(source: Path) -> str:
    """Draw all pictures and interactive pages, and return the text of the page that shows them.

    Args:
        source: Folder with the source files of the site.
    """
    (source / EXTRA / FOLDER).mkdir(parents=True, exist_ok=True)
    text = [
        "# Pictures\n\nDrawings of the [examples](examples/index.md) and of exported encoder networks by "
        "[`mdf-loop draw`](how-to/draw.md). Click a picture to open it in full size.\n"
    ]
    for title, pictures in PICTURES.items():
        cards = [
            _picture(source, f"{title[0]}{k}".lower(), each) for k, each in enumerate(pictures)
        ]
        text.append(f"## {title}\n\n{grid(cards)}")
    text.append(
        "## Pages\n\nEach page is one file to [explore](how-to/look-around.md): fold and open boxes, "
        f"search, follow a value.\n\n{_page_list(source)}"
    )
    return "\n".join(text)


def _picture(source: Path, name: str, picture: Picture) -> str:
    link = f"{FOLDER}/{name}-{picture.source}.svg"
    picture.draw(source).save(source / EXTRA / link)
    return _CARD.format(
        description=picture.description, link=link, picture=f"{EXTRA}/{link}", source=picture.source
    )


def _page_list(source: Path) -> str:
    def lines() -> Iterator[str]:
        for picture in PAGES:
            link = f"{FOLDER}/{picture.source}.html"
            picture.draw(source).save(source / EXTRA / link)
            yield f'- <a href="{link}">{picture.source}</a>: {picture.description}\n'

    return "".join(lines())
