"""The DOT text of every kind of diagram; look at the picture before updating one."""

import pytest

from mdf_loop.drawing import draw

CASES = {
    "sample_0": ("sample", {"level": 0}),
    "sample_1": ("sample", {"level": 1}),
    "sample_2": ("sample", {"level": 2}),
    "sample_3": ("sample", {"level": 3}),
    "sample_top_to_bottom": ("sample", {"rankdir": "TB"}),
    "sample_without_captures": ("sample", {"captures": False}),
    "nested": ("nested", {}),
    "nested_depth_1": ("nested", {"depth": 1}),
    "wavefront": ("wavefront", {}),
    "modes": ("modes", {"level": 2}),
    "workshop": ("workshop", {}),
    "feedback": ("feedback", {}),
    "broken": ("broken", {}),
}


@pytest.mark.parametrize("name", CASES)
def test_dot_text(name, models, golden):
    model, options = CASES[name]
    golden(f"{name}.dot", draw(models / f"{model}.yaml", **options).dot)


def test_the_same_model_gives_the_same_text(models):
    assert draw(models / "wavefront.yaml").dot == draw(models / "wavefront.yaml").dot
