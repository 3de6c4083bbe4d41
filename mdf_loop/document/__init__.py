"""MDF documents: the model as written by the user, with checks of its structure.

This package is independent of operations. `mdf_loop.importing.opening` opens a path as a document.
"""
