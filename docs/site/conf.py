"""Settings of Sphinx for the pages that docs/site generates."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from mdf_loop.version import __version__

project = "mdf_loop"
author = "the authors of mdf_loop"
copyright = "the authors of mdf_loop, Apache 2.0"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["examples/files/**"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
default_role = "code"
python_maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_custom_sections = [
    (title, "params_style")
    for title in (
        *("Model and inputs", "Time", "What to record", "Random numbers and trials"),
        *("Limits", "Files", "Cluster"),
    )
]

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

html_theme = "furo"
html_title = "mdf_loop"
html_show_sphinx = False
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": []}
html_static_path = ["static"]
html_css_files = ["site.css"]

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"


_SAVED_LINES: list[str] = []


def _save_property_docstring(_app: Sphinx, kind: str, *rest: Any) -> None:
    """Save the docstring of a property, because napoleon takes words before a colon for its type."""
    _SAVED_LINES[:] = rest[-1] if kind == "property" else []


def _restore_property_docstring(_app: Sphinx, kind: str, *rest: Any) -> None:
    if kind == "property":
        rest[-1][:] = _SAVED_LINES


def _remove_constructor_arguments(_app: Sphinx, kind: str, *_: Any) -> tuple[str, str] | None:
    """Remove the constructor arguments of a class: functions create these objects, not users."""
    return ("", "") if kind == "class" else None


def setup(app: Sphinx) -> None:
    """Register the hooks of the site before and after those of napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", _save_property_docstring, priority=400)
    app.connect("autodoc-process-docstring", _restore_property_docstring, priority=600)
    app.connect("autodoc-process-signature", _remove_constructor_arguments)
