"""Schedule of a graph: the conditions under which nodes run and an evaluation ends.

    arguments   type and arguments of a condition, under all names of an argument
    conditions  conditions as data
    written     one condition of MDF with checked arguments, converted to data
    wording     text of a condition
    table       all types of conditions, each with its conversion (or refusal) and its text
    absolute    conditions on absolute time
    known       numbers and truth values that may be known while the model is read
    counters    counts of conditions, and evaluation of conditions
    plan        order of one evaluation, if it is known while the model is read

Source: graph_scheduler.Scheduler.run (1.2.2), as modeci_mdf 0.4.15 drives it.
"""
