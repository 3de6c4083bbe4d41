"""Options of a call: their types, defaults, documentation, and the form that they have on the command line.

Arguments of a user come in, as Python values or command-line texts. A checked `RunSpecification` goes out,
independent of the model. A new option of `run` is one field of `run_options.RunOptions`.
"""
