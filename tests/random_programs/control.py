"""Random nested loops, choices and scans."""

from __future__ import annotations

import random
from collections.abc import Callable

from onnx import helper

from tests.random_programs import elementwise, moves, totals
from tests.random_programs.drawing import Drawing, Known, NotPossibleError, Scope, typed
from tests.random_programs.values import Extents, is_fixed

Add = Callable[[Drawing, Scope], None]


def fill(d: Drawing, s: Scope, count: int) -> None:
    """Append up to `count` random operations."""
    kinds, weights = list(TABLE), [d.profile.weights[kind.__name__] for kind in TABLE]
    left = count
    for _ in range(count * 8):
        if left == 0:
            return
        before = len(s.nodes), len(s.own)
        try:
            d.rng.choices(kinds, weights)[0](d, s)
        except NotPossibleError:
            del s.nodes[before[0] :], s.own[before[1] :]
        else:
            left -= 1


def copied(d: Drawing, s: Scope, value: Known) -> Known:
    """Return a copy of a value as a possible output of the graph."""
    return d.one(s, "Identity", [value], value.dtype, value.shape)


def _result(d: Drawing, s: Scope, dtype: str, shape: Extents) -> Known | None:
    """Return a value of the dtype and shape, from the scope if possible, else an outer value."""

    def fits(v: Known) -> bool:
        return (v.dtype, v.shape) == (dtype, shape)

    own_values = [value for value in s.own if fits(value)]
    if own_values:
        return own_values[-1 - int(len(own_values) * d.rng.random() ** 2)]
    return d.maybe(s, fits)


def choice(d: Drawing, s: Scope) -> None:
    """Add an If with random branches."""
    if s.depth >= d.profile.depth:
        raise NotPossibleError
    test = d.maybe(s, lambda v: v.dtype == "bool" and v.shape == ())
    if test is None or d.chance(0.15):
        number = d.of(s, "int64", "float64", "float32")
        if number.shape != ():
            raise NotPossibleError
        other = d.random_constant(s, number.dtype, ())
        test = d.one(s, "Less", [number, other], "bool", ())
    sides = s.inner(in_loop=False), s.inner(in_loop=False)
    for side in sides:
        fill(d, side, d.rng.randint(1, 4))
    results: list[tuple[Known, Known]] = []
    for _ in range(d.rng.randint(1, 2)):
        first = d.pick(sides[0])
        second = _result(d, sides[1], first.dtype, first.shape)
        if second is None:
            if not is_fixed(first.shape):
                continue
            second = d.random_constant(sides[1], first.dtype, first.shape)  # type: ignore[arg-type]
        results.append((first, second))
    if not results:
        raise NotPossibleError
    graphs = []
    for k, side in enumerate(sides):
        leaves = [copied(d, side, pair[k]) for pair in results]
        graphs.append(helper.make_graph(side.nodes, d.name(), [], list(map(typed, leaves))))
    outputs = [(first.dtype, first.shape) for first, _ in results]
    d.node(s, "If", [test], *outputs, then_branch=graphs[0], else_branch=graphs[1])


def _leave(d: Drawing, body: Scope, initial: Known, enter: Known) -> Known:
    """Return the next value of a carried value; its shape may differ where the loop permits."""

    def other(v: Known) -> bool:
        return v.dtype == initial.dtype and v.name != enter.name

    if d.changes_shapes and d.chance(0.4):
        candidate = d.maybe(body, lambda v: other(v) and len(v.shape) == len(initial.shape))
        if candidate is not None:
            return candidate
    own_values = [v for v in body.own if other(v) and v.shape == initial.shape]
    if own_values and d.chance(0.95):
        return own_values[-1 - int(len(own_values) * d.rng.random() ** 2)]
    return d.maybe(body, lambda v: other(v) and v.shape == initial.shape) or enter


def loop_of(
    d: Drawing, s: Scope, trip: Known | None, test: Known | None, size: tuple[int, int, int]
) -> list[Known]:
    """Append a Loop with carried values, recorded values and `size` operations."""
    n_carried, n_recorded, n_operations = size
    body = s.inner()
    iteration, going = Known(d.name(), "int64", ()), Known(d.name(), "bool", ())
    initials = [d.pick(s) for _ in range(n_carried)]
    enters = [Known(d.name(), v.dtype, v.shape) for v in initials]
    body.own += [iteration, going, *enters, *enters]
    fill(d, body, n_operations)
    go_on = going
    if test is not None and d.chance(0.6):
        go_on = _result(d, body, "bool", ()) or going
    leaves = [_leave(d, body, v, e) for v, e in zip(initials, enters, strict=True)]
    recorded = _unread(d, body, n_recorded)
    if not leaves and not recorded:
        recorded = [iteration]
    finals = [
        (v.dtype, _joint(d, v.shape, leaf.shape)) for v, leaf in zip(initials, leaves, strict=True)
    ]
    outputs = [*finals, *((row.dtype, (d.extent(), *row.shape)) for row in recorded)]
    is_strict = all(v.shape == leaf.shape for v, leaf in zip(initials, leaves, strict=True))
    results = [copied(d, body, value) for value in (go_on, *leaves, *recorded)]
    graph = helper.make_graph(
        body.nodes,
        d.name(),
        [*map(typed, (iteration, going)), *(typed(e, shape=is_strict) for e in enters)],
        [typed(results[0]), *(typed(v, shape=False) for v in results[1:])],
    )
    return d.node(s, "Loop", [trip, test, *initials], *outputs, body=graph)


def _unread(d: Drawing, body: Scope, least: int) -> list[Known]:
    """Return values to record, mostly unread values of fixed extents."""
    read = {name for node in body.nodes for name in node.input}
    last = [v for v in body.own if v.name not in read and is_fixed(v.shape)]
    count = max(least, len(last)) if d.chance(0.7) else least
    recorded = d.rng.sample(last, min(len(last), count, 6))
    while len(recorded) < least:
        recorded.append(d.pick(body, lambda v: is_fixed(v.shape) or d.chance(0.1)))
    return recorded


def _joint(d: Drawing, before: Extents, after: Extents) -> Extents:
    pairs = zip(before, after, strict=True)
    return tuple(one if one == other else d.extent() for one, other in pairs)


def inner_loop(d: Drawing, s: Scope) -> None:
    """Add a short loop, with a constant or a computed trip count, sometimes with a condition."""
    if s.depth >= d.profile.depth:
        raise NotPossibleError
    is_constant = d.chance(0.4)
    trip = d.constant(s, d.rng.randrange(4)) if is_constant else d.zero_or_more(s, 5)
    test = d.maybe(s, lambda v: v.dtype == "bool" and v.shape == ()) if d.chance(0.35) else None
    size = (d.rng.randint(0, 2), d.rng.randint(0, 2), d.rng.randint(1, 5))
    loop_of(d, s, trip, test, size)


def scan(d: Drawing, s: Scope) -> None:
    """Add a Scan over the first axis of one or two values."""
    if s.depth >= d.profile.depth:
        raise NotPossibleError
    first = d.pick(s, lambda v: len(v.shape) > 0 and is_fixed(v.shape))
    scanned = [first]
    if d.chance(0.5):
        scanned.append(d.pick(s, lambda v: len(v.shape) > 0 and v.shape[:1] == first.shape[:1]))
    initials = [d.pick(s, lambda v: is_fixed(v.shape)) for _ in range(d.rng.randint(0, 2))]
    body = s.inner()
    enters = [Known(d.name(), v.dtype, v.shape) for v in initials]
    rows = [Known(d.name(), v.dtype, v.shape[1:]) for v in scanned]
    body.own += [*enters, *rows]
    fill(d, body, d.rng.randint(1, 5))
    leaves = []
    for enter in enters:
        own_values = [v for v in body.own if (v.dtype, v.shape) == (enter.dtype, enter.shape)]
        leaves.append(d.rng.choice(own_values))
    recorded = [d.pick(body, lambda v: is_fixed(v.shape)) for _ in range(d.rng.randint(1, 2))]
    results = [copied(d, body, value) for value in (*leaves, *recorded)]
    graph = helper.make_graph(
        body.nodes, d.name(), list(map(typed, (*enters, *rows))), list(map(typed, results))
    )
    outputs = [(v.dtype, v.shape) for v in enters]
    outputs += [(v.dtype, (first.shape[0], *v.shape)) for v in recorded]
    d.node(s, "Scan", [*initials, *scanned], *outputs, body=graph, num_scan_inputs=len(scanned))


TABLE: dict[Add, float] = {
    **elementwise.KINDS,
    **moves.KINDS,
    **totals.KINDS,
    choice: 1.0,
    inner_loop: 0.7,
    scan: 0.4,
}
"""Kinds of operations in random programs, with their weights."""


def random_weights(rng: random.Random) -> dict[str, float]:
    """Return random weights by kind of operation; some kinds are frequent, others absent."""
    weights = {}
    for kind, weight in TABLE.items():
        uniform_number = rng.random()
        weights[kind.__name__] = weight * (
            4.0 if uniform_number < 0.2 else 0.0 if uniform_number < 0.35 else 1.0
        )
    weights["arithmetic"] = max(weights["arithmetic"], 1.0)
    return weights
