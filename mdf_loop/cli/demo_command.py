"""`mdf-loop demo`: run and draw three demonstration models."""

from __future__ import annotations

import click

from mdf_loop.cli.show import show, show_title
from mdf_loop.paths import path_of


@click.command("demo")
@click.option(
    "--output",
    default="demo-output",
    show_default=True,
    metavar="FOLDER",
    help="Folder for models and pictures.",
)
def command(output: str) -> None:
    """Run and draw three demonstration models, and write models, pictures and .onnx files to a folder."""
    from mdf_loop.api.compiled import compile
    from mdf_loop.demo import DEMOS
    from mdf_loop.drawing import draw
    from mdf_loop.explanation import explain

    folder = path_of(output, "the folder")
    folder.mkdir(parents=True, exist_ok=True)
    for demo in DEMOS:
        model_path = folder / demo.path.name
        model_path.write_bytes(demo.path.read_bytes())
        show_title(f"{demo.name}: {demo.description}")
        show(explain(model_path))
        compiled_model = compile(model_path)
        results = compiled_model.run(demo.inputs)
        for name, array in results.items():
            show(f"  {name} = {' '.join(str(array).split())}")
        for name, report in results.loops.items():
            show(f"  {name}: {report.how_often}; {report.why}")
        draw(model_path, model_path.with_suffix(".svg"))
        compiled_model.save(model_path.with_suffix(".onnx"), demo.inputs)
        show(
            f"  picture: {model_path.with_suffix('.svg')}, ONNX: {model_path.with_suffix('.onnx')}"
        )
