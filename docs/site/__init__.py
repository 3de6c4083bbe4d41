"""Build the documentation site; `make docs` runs this package.

Documents are written as files of the repository. This package converts them to pages in a temporary source
folder, from which Sphinx builds docs/_build/html:

    README.md                   index.md                   the front page
    docs/index.md               how-to/index.md, ...       a page for each of its sections
    docs/how-to/draw.md         how-to/draw.md
    docs/notebooks/neuron.ipynb notebooks/neuron.ipynb     executed while the site is built
    examples/collatz/README.md  examples/collatz.md        with a picture, the model and the script
    docs/site/pictures.py       pictures.md                thirty pictures and six pages, drawn anew
    mdf_loop.__all__            api/*.rst                  from docstrings

Links are rewritten to the pages of their targets. Every warning fails the build, including broken links.
"""
