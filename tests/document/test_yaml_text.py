"""YAML is read with the same results as PyYAML's SafeLoader, from events and from nodes."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings

from mdf_loop.document import yaml_text
from mdf_loop.document.yaml_text import read_yaml
from mdf_loop.errors import ModelError
from tests.soak import times
from tests.strategies.yaml_texts import DOCUMENTS, WORDS

pytestmark = pytest.mark.skipif(
    not hasattr(yaml, "CSafeLoader"), reason="PyYAML was built without libyaml"
)


def read(text: str) -> Any:
    return read_yaml(io.StringIO(text))


def typed_content(content: Any) -> Any:
    """Return the content with its types, and nan equal to itself."""
    if isinstance(content, dict):
        return [(typed_content(key), typed_content(value)) for key, value in content.items()]
    if isinstance(content, list):
        return [typed_content(part) for part in content]
    if isinstance(content, float):
        return "float", "nan" if math.isnan(content) else content.hex()
    return type(content).__name__, content


def outcome(read_it: Any, text: str) -> Any:
    try:
        return typed_content(read_it(text))
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        return type(error).__name__


@pytest.mark.parametrize("word", WORDS)
def test_words_have_the_types_of_pyyaml(word: str) -> None:
    for text in (word, f"[{word}, {word}]", f"- {word}\n- 1", f"a: {word}", f"a: '{word}'"):
        assert outcome(read, text) == outcome(yaml.safe_load, text), text


@pytest.mark.soak
@settings(
    suppress_health_check=[HealthCheck.too_slow], max_examples=times(60, 5_000), deadline=None
)
@given(DOCUMENTS)
@example("{1: a, 1.0: b}")
@example("{1: a, true: b}")
@example("[[a], {? [b] : c}]")
def test_random_documents_equal_pyyaml(text: str) -> None:
    ours = outcome(read, text)
    if ours != "ModelError":  # duplicate keys and keys that are no text, which PyYAML accepts
        parsers = (yaml.CSafeLoader, yaml.SafeLoader)  # PyYAML treats tags like !!str differently,
        assert ours in [outcome(lambda text, by=by: yaml.load(text, by), text) for by in parsers]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "---\na: 1\n...\n",
        "%YAML 1.1\n---\na: 1\n",
        "--- 1\n--- 2\n",
        "a: &x [1, 2]\nb: *x\n",
        "a: &x {c: 1}\nb: {<<: *x, d: 2}\n",
        "a: !!float 3\nb: !!str 3\nc: ! 3\nd: [! 3, !!str 4]\n",
        "a: |\n  1\n  2\nb: >-\n  x\n  y\n",
        "a:\n- 1\n-\n- null\n",
        "a: [1, &x 2, *x]\n",
        "\ufeffa: 1\n",
        "a: [1, 2\nb: 3\n",
        "a: 1\n b: 2\n",
        "a: \x07\n",
        "!!python/name:os.system x",
        "[" * 300 + "]" * 300,
    ],
)
def test_whole_documents_equal_pyyaml(text: str) -> None:
    assert outcome(read, text) == outcome(yaml.safe_load, text)


def test_plain_lists_and_mappings_are_read_without_nodes(monkeypatch) -> None:
    def refused(loader: Any) -> Any:
        raise AssertionError("nodes cost ten times as much")

    monkeypatch.setattr(yaml_text, "_read_from_nodes", refused)
    rows = [[k * 0.37, -k, f"n{k}", True, None] for k in range(100)]
    assert read(yaml.safe_dump({"rows": rows}, default_flow_style=True)) == {"rows": rows}
    assert read(yaml.safe_dump({"rows": rows}, default_flow_style=False)) == {"rows": rows}


def test_documents_are_read_without_libyaml(monkeypatch) -> None:
    monkeypatch.setattr(yaml_text, "_C_LOADER", None)
    assert read("a: [1, 1e3, .5, x]") == {"a": [1, "1e3", 0.5, "x"]}
    with pytest.raises(ModelError, match="'a' is written twice in one mapping, again in line 2"):
        read("a: 1\na: 2\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a' is written twice in one mapping, again in line 3"),
        ("a: 1\n[b]: 2\n", "a name in line 2 is not text, but a list or a mapping"),
        ("a: &a [1, *a]\n", "what begins in line 1 contains itself"),
    ],
)
def test_errors_state_the_line(text: str, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        read(text)


def test_invalid_yaml_is_reported_with_line_and_column() -> None:
    with pytest.raises(yaml.YAMLError, match="line 2, column 1"):
        read("a: [1, 2\n\tb: 3\n")
