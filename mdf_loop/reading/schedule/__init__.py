"""The schedule of a graph: which nodes run when, and when an evaluation ends.

    conditions  what a condition says, as data
    arguments   what is written of a condition, under all names that it may have
    written     one condition of MDF: its arguments, checked
    wording     the words of conditions
    table       every type of conditions: -> that data, or a refusal by name; -> words
    known       numbers and truth values that may be known while reading
    counters    what conditions count, and whether they hold
    plan        the order of one evaluation, where it is known while reading

Source: graph_scheduler.Scheduler.run (1.2.2), as modeci_mdf 0.4.15 drives it.
"""
