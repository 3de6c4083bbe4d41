"""`mdf-loop compile`: write a model as one standard .onnx file."""

from __future__ import annotations

import click

from mdf_loop.cli.opening import open_model
from mdf_loop.cli.options import compile_options, model_argument, run_options
from mdf_loop.cli.show import show
from mdf_loop.paths import path_of, replace_suffix


@click.command("compile")
@model_argument
@click.option(
    "-o", "--output", metavar="FILE", help="The .onnx file. Default: in the folder of the model."
)
@run_options("inputs")
@run_options("steps", "dt")
@compile_options
@click.option(
    "--no-origin",
    is_flag=True,
    help="Omit the MDF model from the metadata of the file. An import then reads the ONNX graph.",
)
def command(
    model: str,
    output: str | None,
    pairs: tuple[str, ...],
    files: tuple[str, ...],
    steps: int | None,
    dt: str | None,
    precision: str,
    shapes: str,
    max_iterations: int | None,
    unroll: int | None,
    loop_condition: str,
    no_origin: bool,
) -> None:
    """Write MODEL as standard ONNX, which plain ONNX Runtime and OpenVINO run.

    Inputs fix the dtypes and shapes of the file's inputs. Their values are not stored. The file computes one
    evaluation, or with --steps a run over time.
    """
    from mdf_loop.api.compiled import compile
    from mdf_loop.cli.inputs import read_inputs
    from mdf_loop.files import checked_place

    default_target = replace_suffix(path_of(model, "the model"), ".onnx")
    target_path = str(default_target) if output is None else output
    checked_place(target_path)
    compiled_model = compile(
        open_model(model, loop_condition),
        device="cpu",
        precision=precision,
        shapes=shapes,
        max_iterations=max_iterations,
        unroll=unroll,
    )
    inputs = read_inputs(pairs, files)
    onnx_model = compiled_model.save(target_path, inputs, steps=steps, dt=dt, origin=not no_origin)
    opset = onnx_model.opset_import[0].version
    show(f"wrote {target_path} (ONNX opset {opset}, IR version {onnx_model.ir_version})")
    for port_kind, port_values in (
        ("input", onnx_model.graph.input),
        ("output", onnx_model.graph.output),
    ):
        for port_value in port_values:
            show(f"  {port_kind} {port_value.name}")
    if steps is None and compiled_model.prepared.reads_states():
        show("  one evaluation from the initial state; --steps writes a run over time")
