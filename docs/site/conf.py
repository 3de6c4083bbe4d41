"""Sphinx's settings; docs/site lays out the pages that they are for."""

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

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

html_theme = "furo"
html_title = "mdf_loop"
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"
