"""Write the generated parts of docs/; `make docs` runs this script.

A generated part is enclosed by `<!-- generated: name -->` and `<!-- end -->`. tests/test_docs.py checks that
every part is up to date.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mdf_loop.request.option import Field

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


# --- functions --------------------------------------------------------------------------------


def _code_list(names: Iterator[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "\n"


def expression_functions() -> str:
    """Return lists of the builtins, math and numpy functions that an expression may call."""
    from mdf_loop.lower.functions import constants, function_names

    names = function_names()
    groups = {
        "Python": (n for n in names if "." not in n),
        "math": (n for n in names if n.startswith("math.")),
        "numpy": (n for n in names if n.startswith("numpy.")),
        "Named numbers": iter(sorted(constants)),
    }
    return "\n".join(
        f"**{title}**: {_code_list(names_of_group)}" for title, names_of_group in groups.items()
    )


def mdf_functions() -> str:
    """Return the table of MDF's own functions with arguments and formulas."""
    import modeci_mdf.functions.actr
    import modeci_mdf.functions.ddm  # noqa: F401 - registers its functions
    from modeci_mdf.functions.standard import mdf_functions as registry

    rows = ["| function | arguments | formula |", "|---|---|---|"]
    for name, entry in sorted(registry.items()):
        formula = entry["expression_string"]
        if "::" not in name and not formula.startswith(("actr.", "ddm.")):
            arguments = ", ".join(entry["arguments"])
            rows.append(f"| `{name}` | {arguments} | `{formula.strip()}` |")
    return "\n".join(rows) + "\n"


def onnx_functions() -> str:
    """Return the list of ONNX operators that a model may use as `onnx::Name`."""
    from mdf_loop.lower.onnx_functions import UNSUPPORTED_OPERATORS
    from mdf_loop.ops.onnx_schema import operator_names

    return _code_list(name for name in operator_names() if name not in UNSUPPORTED_OPERATORS)


# --- commands ---------------------------------------------------------------------------------


def commands() -> tuple[str, ...]:
    """Return the names of all commands."""
    from mdf_loop.cli import COMMANDS

    return COMMANDS


def command_help() -> str:
    """Return the output of `--help` of each command."""
    from click.testing import CliRunner

    from mdf_loop.cli import cli

    sections = []
    for name in commands():
        invocation = CliRunner().invoke(
            cli, [name, "--help"], prog_name="mdf-loop", terminal_width=90
        )
        sections.append(f"## mdf-loop {name}\n\n```text\n{invocation.output.strip()}\n```\n")
    return "\n".join(sections)


# --- options of `run` ---------------------------------------------------------------------------


def run_options() -> str:
    """Return the tables of the options of `run`, one for each group."""
    from mdf_loop.request.option import groups_of
    from mdf_loop.request.run_options import RunOptions

    groups = groups_of(RunOptions).items()
    tables = (f"**{title}**\n\n{_option_table(fields)}" for title, fields in groups)
    return "\n" + "\n\n".join(tables) + "\n\n"


def fit_options() -> str:
    """Return the table of the options of `fit`."""
    from mdf_loop.request.fit_options import FitOptions
    from mdf_loop.request.option import fields_of

    return f"\n{_option_table(fields_of(FitOptions))}\n\n"


def derivative_options() -> str:
    """Return the table of the options of `differentiate`."""
    from mdf_loop.request.derivative_options import DifferentiationOptions
    from mdf_loop.request.option import fields_of

    return f"\n{_option_table(fields_of(DifferentiationOptions))}\n\n"


def _option_table(fields: Sequence[Field]) -> str:
    """Return a table of options with their defaults and meanings."""
    rows = ["| argument | default | meaning |", "|---|---|---|"]
    for field in fields:
        parameter = field.parameter
        has_default = parameter.default is not parameter.empty
        default = repr(parameter.default).replace("'", '"') if has_default else ""
        meaning = field.option.meaning.replace("|", "\\|")
        rows.append(f"| `{field.name}` | {f'`{default}` ' if default else ''}| {meaning} |")
    return "\n".join(rows)


def run_conditions() -> str:
    """Return sentences on the options of `run` that need others, or are not supported in some runs."""
    from mdf_loop.request.option import IN_ENGINE, ON_CLUSTER, OVER_TRIALS, fields_of
    from mdf_loop.request.run_options import RunOptions

    fields = fields_of(RunOptions)
    names_by_need: dict[tuple[str, ...], list[str]] = {}
    for field in fields:
        if field.option.needs is not None:
            names_by_need.setdefault(field.option.needs.names, []).append(field.name)
    sentences = [
        f"{_words(names, 'and')} {'require' if len(names) > 1 else 'requires'} {_words(needed, 'or')}."
        for needed, names in names_by_need.items()
    ]
    for mode, beginning in (
        (IN_ENGINE, 'With `engine="modeci"`'),
        (ON_CLUSTER, "With `cluster`"),
        (OVER_TRIALS, "With `over_trials`"),
    ):
        refused = []
        for field in fields:
            phrase = field.option.conflicts.get(mode, ())
            values = [""] if isinstance(phrase, str) else [f'="{value}"' for value in phrase]
            refused += [f"`{field.name}{value}`" for value in values]
        sentences.append(f"{beginning}, these arguments are not supported: {', '.join(refused)}.")
    return "\n" + "\n".join(f"- {sentence}" for sentence in sentences) + "\n\n"


def _words(names: Sequence[str], conjunction: str) -> str:
    """Return names of arguments as a list in a sentence."""
    quoted = [f"`{name}`" for name in names]
    return f" {conjunction} ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


# --- requirements -----------------------------------------------------------------------------


def list_tests(requirement: str) -> list[tuple[str, str]]:
    """Return file and name of every test of a requirement, e.g. with `r1_04` in its name."""
    mark = requirement.lower().replace(".", "_")
    pattern = re.compile(rf"(?<![a-z0-9]){mark}(?!\d)")
    return [
        (path.name, name)
        for path in sorted((ROOT / "tests" / "requirements").glob("test_*.py"))
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if pattern.search(name.removeprefix("test_"))
    ]


def requirements() -> str:
    """Return the table of requirements with its last column filled in."""
    text = (REFERENCE / "requirements.md").read_text(encoding="utf-8")
    rows = ["| id | from | what must hold | tests |", "|---|---|---|---|"]
    entries = re.findall(r"^\| (R\d\.\d\d) \| (.*?) \| (.*?) \|", text, re.MULTILINE)
    for requirement, source, sentence in entries:
        tests = list_tests(requirement)
        files = list(dict.fromkeys(file for file, _ in tests))
        names = "; ".join(
            f"[{file}](../../tests/requirements/{file}): "
            + ", ".join(f"`{name}`" for f, name in tests if f == file)
            for file in files
        )
        rows.append(f"| {requirement} | {source} | {sentence} | {names} |")
    return "\n".join(rows) + "\n"


# --- reasons ----------------------------------------------------------------------------------


def stop_reasons() -> str:
    """Return the table of stop reasons of loops and runs with their words and sentences."""
    from mdf_loop.ir import StopReason

    rows = [f"| `{r.name}` | `{r.word}` | {r.value} |" for r in StopReason]
    return "\n".join(["| name | word | sentence |", "|---|---|---|", *rows]) + "\n"


# --- dependencies -----------------------------------------------------------------------------


def dependencies() -> list[str]:
    """Return the names of all packages in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = chain(project["dependencies"], *project["optional-dependencies"].values())
    return [name for line in lines if (name := re.split(r"[^\w-]", line)[0]) != project["name"]]


# --- pictures ---------------------------------------------------------------------------------


def draw_pictures() -> None:
    """Draw the pictures of the README and of the example pages.

    The pictures are not compared with stored ones, because their bytes depend on fonts.
    """
    from mdf_loop.drawing import draw

    images, examples = ROOT / "docs" / "images", ROOT / "examples"
    _draw_first_model(ROOT / "README.md", images / "decision.svg")
    neuron = examples / "adaptive_threshold" / "model.yaml"
    draw(neuron, images / "adaptive_threshold.svg", captures=False)
    network = examples / "onnx_round_trip" / "model.yaml"
    draw(network, images / "onnx_round_trip.svg", rankdir="TB")
    for name in ("drift_diffusion", "competing_accumulators", "stroop"):
        draw(examples / name / "model.yaml", images / f"{name}.svg")
    for name in ("noisy_current", "poisson_inputs"):
        draw(examples / name / "model.yaml", images / f"{name}.svg", over_time=True)
    _draw_gradient(examples / "newton_sqrt" / "model.yaml", images / "gradient.svg")


def _draw_first_model(document: Path, picture: Path) -> None:
    """Draw the model of the first YAML block of a document."""
    from tempfile import TemporaryDirectory

    from mdf_loop.drawing import draw

    text = document.read_text(encoding="utf-8")
    name, content = re.findall(r"^```yaml (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    with TemporaryDirectory() as folder:
        model = Path(folder) / name
        model.write_text(content, encoding="utf-8")
        draw(model, picture)


def _draw_gradient(model: Path, picture: Path) -> None:
    """Draw a loop together with the backward loop of its derivatives."""
    from tempfile import TemporaryDirectory

    from mdf_loop.api.compiled import compile
    from mdf_loop.drawing import draw

    gradient = compile(model).differentiate({"newton.root": "sum"}, ["a", "first_guess"])
    with TemporaryDirectory() as folder:
        file = Path(folder) / "gradient.onnx"
        gradient.save(file)
        draw(file, picture, rankdir="TB")


# --- writing ----------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], str]] = {
    "expression_functions": expression_functions,
    "derivative_options": derivative_options,
    "fit_options": fit_options,
    "mdf_functions": mdf_functions,
    "onnx_functions": onnx_functions,
    "command_help": command_help,
    "run_conditions": run_conditions,
    "run_options": run_options,
    "requirements": requirements,
    "reasons": stop_reasons,
}


def _update_parts(text: str) -> str:
    return _PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}{part[3]}", text)


def stale_documents(*, write: bool = False) -> list[str]:
    """Return the documents whose generated parts are outdated, and update them with `write`."""
    outdated = []
    for path in sorted(REFERENCE.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        fresh = _update_parts(text)
        if fresh != text:
            outdated.append(path.name)
            if write:
                path.write_text(fresh, encoding="utf-8")
    return outdated


if __name__ == "__main__":
    draw_pictures()
    click.echo(f"written anew: {', '.join(stale_documents(write=True)) or 'nothing'}")
