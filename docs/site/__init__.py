"""Makes a site of the documents; `make docs` runs it.

Documents are written to be read as files, beside what they speak of. Here they are laid out as pages, in
docs/_build/source, and Sphinx builds docs/_build/html from that:

    README.md                   index.md                   the front page
    docs/index.md               how-to/index.md, ...       a page for each of its sections
    docs/how-to/draw.md         how-to/draw.md
    docs/notebooks/neuron.ipynb notebooks/neuron.ipynb     executed while the site is built
    examples/collatz/README.md  examples/collatz.md        with a picture, the model and the script
    docs/site/pictures.py       pictures.md                thirty pictures and six pages, drawn anew
    mdf_loop.__all__            api/*.rst                  from docstrings

Links are turned to where their targets went. Any warning fails the build, a link that leads nowhere among them.
"""
