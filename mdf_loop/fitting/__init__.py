"""Fits: estimation of the parameters with which a model reproduces observed data.

- `free.py`: free parameters and their bounds, as the elements of one vector
- `observed.py`: observed data, matched to the steps of a run, with weights
- `model.py`: the interface of a model that can be fitted
- `summands.py`: an objective as a sum over models that may share parameters
- `squares.py`: the sum of squared residuals, and its Jacobian
- `reaction_times.py`: the likelihood of choices and reaction times, estimated by trials
- `data_range.py`: check that data of decisions lie within the range of the model
- `search.py`: search of the minimum: many points at once, then the best of them polished
- `parameter_effects.py`: check that each free parameter has an effect
- `watch.py`: progress of a fit, and conditions that end it
- `uncertainty.py`: standard errors, intervals, unidentifiable parameters
- `response_surface.py`: refinement of a minimum of noisy costs, and its standard errors
"""
