"""Documents: the content of a model as it is written, with its graphs, owned graphs, keys and texts.

This package knows no operations. `mdf_loop.importing.opening` opens a path as a document.
"""
