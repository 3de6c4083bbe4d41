"""Documents: the content of a model as written in MDF, with checks of its graphs, keys and texts.

This package is independent of operations. `mdf_loop.importing.opening` opens a path as a document.
"""
