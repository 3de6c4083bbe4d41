"""The schedule of a graph: which nodes run when, and when an evaluation ends.

    conditions  what a condition says, as data
    written     MDF's conditions -> that data, or a refusal by name
    known       numbers and truth values that may be known while reading
    counters    what conditions count, and whether they hold
    plan        the order of one evaluation, where it is known while reading

Source: graph_scheduler.Scheduler.run (1.2.2), as modeci_mdf 0.4.15 drives it.
"""
