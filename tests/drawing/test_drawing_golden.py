"""Golden DOT text of every kind of diagram. Look at the picture before updating one."""

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
    "feedback": ("feedback", {"level": 2}),
    "broken": ("broken", {}),
    "conditions": ("conditions", {"level": 2}),
    "fitzhugh_nagumo_over_time": ("fitzhugh_nagumo", {"over_time": True}),
    "two_nodes_over_time": ("two_nodes", {"over_time": True}),
    "two_nodes_over_time_1": ("two_nodes", {"over_time": True, "level": 1}),
    "two_nodes_over_time_top_to_bottom": ("two_nodes", {"over_time": True, "rankdir": "TB"}),
    "states_over_time": ("states", {"over_time": True}),
    "conditions_over_time": ("conditions", {"over_time": True, "level": 2}),
    "branches": ("branches", {}),
    "branches_0": ("branches", {"level": 0}),
    "branches_1": ("branches", {"level": 1}),
    "branches_depth_1": ("branches", {"depth": 1}),
    "loop_in_branch": ("loop_in_branch", {}),
    "cases": ("cases", {}),
    "cases_1": ("cases", {"level": 1}),
    "cases_top_to_bottom": ("cases", {"rankdir": "TB"}),
    "scans": ("scans", {}),
    "slices": ("slices", {}),
    "middle": ("middle", {}),
    "imported": ("imported", {}),
    "nested_over_time": ("nested", {"over_time": True, "depth": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_dot_text(name, models, golden):
    model, options = CASES[name]
    whole = {"level": 3, "rankdir": "LR", **options}
    golden(f"{name}.dot", draw(models / f"{model}.yaml", **whole).dot)


def test_the_same_model_gives_the_same_text(models):
    assert draw(models / "wavefront.yaml").dot == draw(models / "wavefront.yaml").dot
