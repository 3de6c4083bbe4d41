"""`mdf-loop import`: convert an ONNX or OpenVINO file to an MDF model."""

from __future__ import annotations

import click

from mdf_loop.cli.opening import show_warnings
from mdf_loop.cli.options import loop_condition_option
from mdf_loop.cli.show import show
from mdf_loop.errors import InputError
from mdf_loop.paths import path_of


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "-o",
    "--output",
    metavar="MODEL",
    help="The .yaml or .json file. Default: in the folder of FILE.",
)
@loop_condition_option
def command(file: str, output: str | None, loop_condition: str) -> None:
    """Convert FILE (.onnx, or an OpenVINO .xml with its .bin) to an MDF model.

    Loops, branches and scans become functions of nodes. Large arrays are written to an .npz file beside
    the model.
    """
    from mdf_loop.importing import READERS, import_file
    from mdf_loop.importing.opening import open_document
    from mdf_loop.importing.writing import check_model_file, write_model
    from mdf_loop.reading.inputs import open_ports
    from mdf_loop.reading.names import output_names

    source_path = path_of(file, "the file")
    if source_path.suffix.lower() not in READERS:
        raise InputError(
            f"cannot import '{source_path.name}'",
            hint=f"import takes {' and '.join(READERS)} files",
        )
    target_path = check_model_file(source_path.with_suffix(".yaml") if output is None else output)
    imported_model = import_file(source_path, loop_condition)
    show_warnings(imported_model.import_warnings)
    for written_path in write_model(imported_model.mdf_content, target_path):
        show(f"wrote {written_path}")
    document = open_document(imported_model.mdf_content)
    for port in open_ports(document):
        show(f"  input {port.name}")
    for name in output_names(document):
        show(f"  output {name}")
