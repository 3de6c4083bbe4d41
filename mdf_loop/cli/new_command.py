"""`mdf-loop new`: write a small model as a template."""

from __future__ import annotations

import shlex

import click

from mdf_loop.cli.show import show
from mdf_loop.starts import STARTER_MODELS

_MODEL_SUFFIXES = (".yaml", ".yml")


@click.command("new")
@click.argument(
    "kind", type=click.Choice([starter_model.model_kind for starter_model in STARTER_MODELS])
)
@click.argument("path", required=False, type=click.Path())
def command(kind: str, path: str | None) -> None:
    """Write a small model as a template for a new one: a neuron, a decision or a loop.

    The model is written to PATH, or to KIND.yaml without PATH. Existing files are never overwritten. Comments
    in the file explain the parts of the model.
    """
    from mdf_loop.errors import InputError
    from mdf_loop.files import checked_target

    (starter_model,) = (
        starter_model for starter_model in STARTER_MODELS if starter_model.model_kind == kind
    )
    target_path = checked_target(
        path if path is not None else f"{kind}.yaml", _MODEL_SUFFIXES, "a model"
    )
    try:
        with target_path.open("xb") as target_file:
            target_file.write(starter_model.path.read_bytes())
    except FileExistsError:
        raise InputError(
            f"there is '{target_path}' already, and it is not overwritten",
            hint=f"give another name: mdf-loop new {kind} another.yaml",
        ) from None
    quoted_path, quoted_stem = shlex.quote(str(target_path)), shlex.quote(target_path.stem)
    show(f"wrote {target_path}: {starter_model.description}. Go on with")
    show(f"  mdf-loop check {quoted_path}")
    show(
        f"  mdf-loop run {quoted_path} {starter_model.run_arguments.format(name=quoted_stem)}".rstrip()
    )
    show(f"  mdf-loop draw {quoted_path} -o {quoted_stem}.svg")
