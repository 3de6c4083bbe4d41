"""Fits: the values of parameters by which a model does what was observed.

free.py            which parameters, within which bounds, as the numbers of one vector
observed.py        data -> rows of outputs at steps of a run, with their weights
model.py           what a fit asks of a model
squares.py         the sum of squared residuals, and how residuals change
reaction_times.py  the likelihood of choices and their times, by trials
apart.py           data of decisions that no trial of a model is like are refused
search.py          where the least is: many points at once, then the best of them polished
unmoved.py         parameters that change nothing are refused
watch.py           how far it is, and what ends it
uncertainty.py     standard errors, intervals, what cannot be told apart
around.py          the same where nothing can be differentiated
"""
