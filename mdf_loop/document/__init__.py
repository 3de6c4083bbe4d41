"""What a model says, as it is written: its graphs, the graphs that functions own, its keys and texts.

Nothing here knows operations; `mdf_loop.importing.opening` makes a document of a path.
"""
