"""Documents are correct: their code runs, their outputs are reproducible, and their links are valid."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from docs import generate
from mdf_loop import errors
from tests.documents import Block, Document, blocks, commands, matches_output

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md"))
)
MEASURED_ELSEWHERE = {"docs/gpu.md", "docs/benchmarks.md"}
"""Documents with figures of other machines, which are not run."""

SLOW_PREFIXES = (
    *("examples/", "docs/tutorial", "docs/how-to/checkpoint", "docs/how-to/long-runs"),
    *(
        "docs/how-to/run-on-",
        "docs/how-to/come-from-brian2",
        "docs/how-to/parameter-conditions",
        "docs/how-to/run-over",
        "docs/how-to/save-and-plot",
        "docs/how-to/stream-to",
        "docs/how-to/sweep",
        "docs/how-to/use-pandas",
    ),
)
"""Prefixes of documents with slow code."""

NATIVE_WORDS = ("native", "run-on-a-cluster")
"""Words in the names of documents whose shown output mentions native loops."""


def marks(name):
    """Return the pytest marks of a document."""
    slow, native = (
        [pytest.mark.slow] * name.startswith(SLOW_PREFIXES),
        [pytest.mark.native] * any(word in name for word in NATIVE_WORDS),
    )
    return [*slow, *native]


RUN_DOCUMENTS = [
    pytest.param(name, marks=marks(name)) for name in DOCUMENTS if name not in MEASURED_ELSEWHERE
]


@pytest.mark.parametrize("name", RUN_DOCUMENTS)
def test_the_code_of_a_document_has_the_shown_output(name, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    Document(ROOT / name).run()


_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub generates for the headings of a document."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_are_valid(name):
    path = ROOT / name
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in (a or b for a, b in _LINK.findall(text)):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name}: {link}"


def test_every_document_is_linked_from_the_readme_or_its_links():
    visited, queue = set(), [ROOT / "README.md"]
    while queue:
        path = queue.pop()
        if path in visited or path.suffix != ".md" or not path.exists():
            continue
        visited.add(path)
        links = (a or b for a, b in _LINK.findall(path.read_text()))
        queue += [(path.parent / link.split("#")[0]).resolve() for link in links]
    missing = {name for name in DOCUMENTS if ROOT / name not in visited}
    assert not missing


def test_generated_parts_are_up_to_date():
    assert generate.stale_documents() == [], "run: make docs"


def reference(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text()


# --- the forms of the loop node -----------------------------------------------------------------


def forms() -> list[tuple[str, str, str]]:
    """Return model, args and result of each row in the tables of loop-node.md and other-control-nodes.md."""
    model, rows = "", []
    pattern = r"^```yaml \w+\.yaml\n([\s\S]*?)^```$|^\| `([^`\n]*)` \| ([^|\n]*) \|[^\n]*\|$"
    text = reference("loop-node.md") + reference("other-control-nodes.md")
    for match in re.finditer(pattern, text, re.MULTILINE):
        model = match[1] or model
        if match[2] and ":" in match[2] and model:
            rows.append((model, match[2], match[3]))
    return rows


@pytest.mark.parametrize(("model", "args", "result"), forms(), ids=[form[1] for form in forms()])
def test_every_form_of_the_loop_node(model, args, result, tmp_path):
    import mdf_loop

    content = yaml.safe_load(model)
    (graph, *_) = next(iter(content.values()))["graphs"].values()
    (node,) = graph["nodes"].values()
    *_, function = node["functions"].values()
    function["args"].update(yaml.safe_load("{" + _quote_tuples(args) + "}"))
    path = tmp_path / "model.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    if result.endswith("Error"):
        with pytest.raises(getattr(errors, result)):
            mdf_loop.compile(path).run()
    else:
        values = mdf_loop.compile(path).run().values()
        assert "; ".join(map(_value_text, values)) == result


def _value_text(value):
    return str([part.tolist() for part in value] if isinstance(value, list) else value.tolist())


def _quote_tuples(args: str) -> str:
    """Quote tuples, because they are no valid values in a YAML flow mapping."""
    return re.sub(r": (\([^\"]*?\))", r': "\1"', args)


# --- the reference is complete ----------------------------------------------------------------


def error_classes() -> list[str]:
    members = vars(errors).values()
    classes = (c for c in members if isinstance(c, type) and issubclass(c, errors.LoopError))
    return [c.__name__ for c in classes]


@pytest.mark.parametrize("name", [n for n in error_classes() if n != "LoopError"])
def test_every_error_is_shown_with_its_remedy(name):
    sections = re.split(r"^## ", reference("errors.md"), flags=re.MULTILINE)
    section = next((s for s in sections if s.startswith(f"{name}\n")), None)
    assert section is not None, f"errors.md has no section '{name}'"
    outputs = [b.text for b in blocks(section) if b.language in ("console", "text")]
    assert any(f"{name}: " in text for text in outputs), "no example message"
    assert "**Remedy**" in section


def test_every_command_and_option_is_in_the_reference():
    text = reference("cli.md")
    for name in generate.commands():
        assert f"## mdf-loop {name}" in text


def test_every_scheduler_condition_is_in_its_table():
    from mdf_loop.reading.schedule.table import COMPILED_TYPES, REFUSED_TYPES

    text = (ROOT / "docs" / "how-to" / "use-scheduler-conditions.md").read_text()
    _, compiled, refused = re.split(r"^## Conditions that ", text, flags=re.MULTILINE)
    assert set(re.findall(r"`([A-Z]\w+)`", compiled)) == set(COMPILED_TYPES)
    assert set(re.findall(r"`([A-Z]\w+)`", refused)) - {"Threshold"} == set(REFUSED_TYPES)


def test_every_public_name_is_in_the_reference():
    import mdf_loop

    text = reference("python-api.md")
    for name in mdf_loop.__all__:
        assert f"`{name}" in text or f"mdf_loop.{name}" in text, name


def test_every_dependency_has_a_row():
    text = (ROOT / "docs" / "explanation" / "dependencies.md").read_text()
    for name in generate.dependencies():
        assert f"| {name} |" in text, name


def test_every_requirement_is_in_the_table_with_its_tests():
    """Check the table only; tests/requirements checks that each requirement has a test."""
    rows = re.findall(r"^\| (R\d\.\d\d) \| .+ \| (.*) \|$", reference("requirements.md"), re.M)
    assert [requirement for requirement, _ in rows] == sorted({r for r, _ in rows})
    assert not [requirement for requirement, tests in rows if not tests]


# --- runner of code blocks --------------------------------------------------------------------


def test_an_ellipsis_matches_any_text():
    assert matches_output("a ... c", "a b c\n")
    assert matches_output("a\n...\nc", "a\nb\nb\nc")
    assert not matches_output("a ... c", "a b")
    assert not matches_output("a", "ab")
    assert matches_output("1.5 (x)", "1.5 (x)  ")


def test_blocks_and_commands():
    (first, second) = blocks(
        "text\n```yaml a.yaml\nx: 1\n```\n\n```console\n$ a \\\n b\nout\n```\n"
    )
    assert first == Block("yaml", "a.yaml", "x: 1\n", 3)
    assert list(commands(second)) == [(7, "a    b", "out\n")]


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```console\n$ mdf-loop --version\nmdf-loop, version 0\n```\n",
        "```console\n$ rm x\n```\n",
        "```python\nassert False\n```\n",
    ],
)
def test_a_document_with_a_wrong_output_fails(text, tmp_path):
    path = tmp_path / "document.md"
    path.write_text(text)
    with pytest.raises(AssertionError):
        Document(path).run()
