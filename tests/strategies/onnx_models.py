"""Random ONNX models of nested loops, branches and scans, with typed values and finite results.

`random_model(seed)` returns the same model for equal seeds. No body omits the condition of its loop, since
ONNX Runtime and the ONNX document differ in this case. Such a body returns its condition unchanged.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

F32, F64, I32, I64, BOOL = 1, 11, 6, 7, 9
FLOATS, WHOLE = (F32, F64), (I32, I64)
DTYPES = (F32, F32, F64, I64, I32, BOOL)
NUMPY = {F32: np.float32, F64: np.float64, I32: np.int32, I64: np.int64, BOOL: np.bool_}
Extents = tuple[int | None, ...]


@dataclass(frozen=True)
class Known:
    """A value with its element type and extents (None: known only at run time)."""

    name: str
    dtype: int
    shape: Extents

    @property
    def fixed(self) -> bool:
        return None not in self.shape


@dataclass
class Graph:
    """A graph under construction: the visible values, and its nodes."""

    outer: list[Known]
    own: list[Known] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    @property
    def visible(self) -> list[Known]:
        return self.outer + self.own


class GraphBuilder:
    """Builder of graphs whose choices come from one seeded source."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0
        self.budget = self.rng.randint(6, 40)
        self.kinds: list[Callable[[Graph, int], None]] = [
            *(self.unary, self.binary, self.binary, self.compare, self.where, self.cast),
            *(self.shaped, self.shaped, self.constant),
        ]

    # --- parts ----------------------------------------------------------------------------------

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def add(
        self, g: Graph, op: str, inputs: list[str], dtype: int, shape: Extents, **more: Any
    ) -> Known:
        known = Known(self.name(), dtype, shape)
        g.nodes.append(helper.make_node(op, inputs, [known.name], **more))
        g.own.append(known)
        return known

    def number(self, g: Graph, array: Any) -> Known:
        array = np.asarray(array)
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        return self.add(g, "Constant", [], dtype, array.shape, value=numpy_helper.from_array(array))

    def pick(self, g: Graph, *dtypes: int, test: Callable[[Known], bool] = lambda _: True) -> Known:
        """Return a visible value, preferably recent, or a new constant if no value passes."""
        candidates = [v for v in g.visible if v.dtype in (dtypes or DTYPES) and test(v)]
        if candidates:
            return candidates[-1 - min(int(self.rng.expovariate(0.4)), len(candidates) - 1)]
        dtype = self.rng.choice(dtypes or DTYPES)
        for shape in ((), (2,), (3, 2), (2, 3)):
            if test(Known("", dtype, shape)):
                return self.number(g, self.array(dtype, shape))
        raise AssertionError("no value of that shape")

    def array(self, dtype: int, shape: tuple[int, ...]) -> Any:
        size = int(np.prod(shape))
        if dtype == BOOL:
            numbers: list[Any] = [self.rng.random() < 0.5 for _ in range(size)]
        elif dtype in WHOLE:
            numbers = [self.rng.randint(-5, 5) for _ in range(size)]
        else:
            numbers = [round(self.rng.uniform(-2, 2), 3) for _ in range(size)]
        return np.array(numbers, NUMPY[dtype]).reshape(shape)

    def truth(self, g: Graph) -> Known:
        """Return a boolean scalar."""
        return self.pick(g, BOOL, test=lambda v: v.shape == ())

    # --- plain nodes ----------------------------------------------------------------------------

    def unary(self, g: Graph, depth: int) -> None:
        x = self.pick(g)
        whole = ["Neg", "Abs", "Identity", "Sign"]
        floats = ["Neg", "Abs", "Tanh", "Sigmoid", "Floor", "Identity", "Sin", "Relu", "Ceil"]
        ops = {BOOL: ["Not", "Identity"], I32: whole, I64: whole}.get(x.dtype, floats)
        self.add(g, self.rng.choice(ops), [x.name], x.dtype, x.shape)

    def _pair(self, g: Graph, *dtypes: int) -> tuple[Known, Known, Extents]:
        x = self.pick(g, *dtypes)
        fits = [
            v for v in g.visible if v.dtype == x.dtype and _joined(x.shape, v.shape) is not None
        ]
        y = self.rng.choice(fits) if fits else self.number(g, self.array(x.dtype, ()))
        return x, y, _joined(x.shape, y.shape) or ()

    def binary(self, g: Graph, depth: int) -> None:
        x, y, shape = self._pair(g)
        if x.dtype == BOOL:
            self.add(g, self.rng.choice(["And", "Or", "Xor"]), [x.name, y.name], BOOL, shape)
            return
        op = self.rng.choice(
            ["Add", "Sub", "Mul", "Max", "Min", "Div" if x.dtype in FLOATS else "Add"]
        )
        if op == "Div":
            size = self.add(g, "Abs", [y.name], y.dtype, y.shape)
            one = self.number(g, np.ones((), NUMPY[y.dtype]))
            y = self.add(g, "Add", [size.name, one.name], y.dtype, y.shape)
        computed = self.add(g, op, [x.name, y.name], x.dtype, shape)
        if x.dtype in FLOATS and self.rng.random() < 0.5:
            self.add(g, "Tanh", [computed.name], x.dtype, shape)

    def compare(self, g: Graph, depth: int) -> None:
        x, y, shape = self._pair(g, F32, F64, I32, I64)
        op = self.rng.choice(["Less", "Greater", "LessOrEqual", "Equal"])
        comparison = self.add(g, op, [x.name, y.name], BOOL, shape)
        if shape:
            number = self.add(g, "Cast", [comparison.name], I64, shape, to=I64)
            total = self.add(g, "ReduceSum", [number.name], I64, (), keepdims=0)
            self.add(g, "Cast", [total.name], BOOL, (), to=BOOL)

    def where(self, g: Graph, depth: int) -> None:
        x, y, shape = self._pair(g)
        c = self.pick(g, BOOL, test=lambda v: _joined(v.shape, shape) is not None)
        if x.dtype == BOOL:
            return
        self.add(g, "Where", [c.name, x.name, y.name], x.dtype, _joined(c.shape, shape) or ())

    def cast(self, g: Graph, depth: int) -> None:
        x, to = self.pick(g), self.rng.choice(DTYPES)
        if x.dtype in FLOATS and to in WHOLE:
            x = self.add(g, "Tanh", [x.name], x.dtype, x.shape)
            ten = self.number(g, np.array(9.5, NUMPY[x.dtype]))
            x = self.add(g, "Mul", [x.name, ten.name], x.dtype, x.shape)
        self.add(g, "Cast", [x.name], to, x.shape, to=to)

    def constant(self, g: Graph, depth: int) -> None:
        shape = self.rng.choice([(), (1,), (2,), (3, 2), (2, 3)])
        self.number(g, self.array(self.rng.choice(DTYPES), shape))

    def shaped(self, g: Graph, depth: int) -> None:
        self.rng.choice(
            [
                self.reduce,
                self.transpose,
                self.flat,
                self.join,
                self.part,
                self.wide,
                self.split,
                self.ask,
            ]
        )(g)

    def reduce(self, g: Graph) -> None:
        x = self.pick(g, *FLOATS, I64, test=lambda v: len(v.shape) > 0)
        op = self.rng.choice(["ReduceSum", "ReduceMax"])
        if op == "ReduceMax" and 0 in (n or 0 for n in x.shape):
            op = "ReduceSum"
        self.add(g, op, [x.name], x.dtype, (), keepdims=0)

    def transpose(self, g: Graph) -> None:
        x = self.pick(g)
        self.add(g, "Transpose", [x.name], x.dtype, x.shape[::-1])

    def flat(self, g: Graph) -> None:
        x = self.pick(g)
        extent = int(np.prod([n or 0 for n in x.shape])) if x.fixed else None
        self.add(g, "Reshape", [x.name, self.number(g, np.array([-1])).name], x.dtype, (extent,))

    def join(self, g: Graph) -> None:
        x = self.pick(g, test=lambda v: len(v.shape) > 0)
        extent = None if x.shape[0] is None else 2 * x.shape[0]
        if extent is None or extent < 9:
            self.add(g, "Concat", [x.name, x.name], x.dtype, (extent, *x.shape[1:]), axis=0)

    def part(self, g: Graph) -> None:
        x = self.pick(
            g, test=lambda v: len(v.shape) > 0 and v.shape[0] is not None and v.shape[0] > 0
        )
        place = self.pick(g, I64, test=lambda v: v.shape == ())
        extent = self.number(g, np.array(x.shape[0]))
        row = self.add(g, "Mod", [place.name, extent.name], I64, ())
        self.add(g, "Gather", [x.name, row.name], x.dtype, x.shape[1:], axis=0)

    def wide(self, g: Graph) -> None:
        x = self.pick(g, test=lambda v: len(v.shape) < 3)
        axis = self.rng.choice([0, -1])
        shape = (1, *x.shape) if axis == 0 else (*x.shape, 1)
        self.add(g, "Unsqueeze", [x.name, self.number(g, np.array([axis])).name], x.dtype, shape)

    def split(self, g: Graph) -> None:
        x = self.pick(g, F32, F64, I64, test=lambda v: len(v.shape) > 0 and (v.shape[0] or 0) > 1)
        sizes = self.number(g, np.array([1, (x.shape[0] or 0) - 1]))
        a = Known(self.name(), x.dtype, (1, *x.shape[1:]))
        b = Known(self.name(), x.dtype, ((x.shape[0] or 0) - 1, *x.shape[1:]))
        g.nodes.append(helper.make_node("Split", [x.name, sizes.name], [a.name, b.name], axis=0))
        g.own += [a, b]

    def ask(self, g: Graph) -> None:
        x = self.pick(g)
        self.add(g, "Size", [x.name], I64, ())
        if x.shape:
            self.add(g, "Shape", [x.name], I64, (len(x.shape),))

    # --- bodies ---------------------------------------------------------------------------------

    def fill(self, g: Graph, depth: int, least: int = 1) -> None:
        for _ in range(self.rng.randint(least, least + 4)):
            self.budget -= 1
            roll = self.rng.random()
            if depth < 3 and self.budget > 0 and roll < 0.3:
                self.rng.choice([self.loop, self.loop, self.branch, self.scan])(g, depth)
            else:
                self.rng.choice(self.kinds)(g, depth)

    def copied(self, g: Graph, x: Known) -> Known:
        """Return the value copied by a node of this graph."""
        return self.add(g, "Identity", [x.name], x.dtype, x.shape)

    def info(self, x: Known, *, open_: bool = False) -> onnx.ValueInfoProto:
        if open_ and self.rng.random() < 0.3:
            return helper.make_tensor_value_info(x.name, x.dtype, None)
        dims = [
            self.name() if n is None or (open_ and self.rng.random() < 0.2) else n for n in x.shape
        ]
        return helper.make_tensor_value_info(x.name, x.dtype, dims)

    def like(self, g: Graph, dtype: int, shape: Extents) -> Known:
        """Return a value of this type that the graph computes."""
        fits = [v for v in g.visible if (v.dtype, v.shape) == (dtype, shape) and None not in shape]
        if fits and self.rng.random() < 0.8:
            return self.copied(g, self.rng.choice(fits[-4:]))
        return self.number(g, self.array(dtype, tuple(n or 0 for n in shape)))

    def branch(self, g: Graph, depth: int) -> None:
        cond = self.truth(g)
        leaves = [self.pick(g, test=lambda v: v.fixed) for _ in range(self.rng.randint(1, 3))]
        branches = {}
        for word in ("then_branch", "else_branch"):
            inner = Graph(g.visible)
            self.fill(inner, depth + 1, 0)
            results = [self.like(inner, v.dtype, v.shape) for v in leaves]
            outputs = [self.info(v) for v in results]
            branches[word] = helper.make_graph(inner.nodes, self.name(), [], outputs)
        branch_outputs = [Known(self.name(), v.dtype, v.shape) for v in leaves]
        g.nodes.append(
            helper.make_node("If", [cond.name], [v.name for v in branch_outputs], **branches)
        )
        g.own += branch_outputs

    def loop(self, g: Graph, depth: int) -> None:
        initial = [self.pick(g) for _ in range(self.rng.randint(0, 3))]
        grows = [len(v.shape) > 0 and self.rng.random() < 0.3 for v in initial]
        inner = Graph(g.visible)
        i, c = Known(self.name(), I64, ()), Known(self.name(), BOOL, ())
        carried = [
            Known(self.name(), v.dtype, (None, *v.shape[1:]) if grow else v.shape)
            for v, grow in zip(initial, grows, strict=True)
        ]
        inner.own += [i, c, *carried]
        self.fill(inner, depth + 1)
        limits = self.rng.choice(["trip", "trip", "both", "cond"])
        trip = self.number(g, np.array(self.rng.randint(0, 4)))
        if limits != "cond" and self.rng.random() < 0.5:
            count = self.pick(g, I64, test=lambda v: v.shape == ())
            four = self.number(g, np.array(4))
            trip = self.add(g, "Mod", [count.name, four.name], I64, ())
        go = self.goes_on(inner, i, c, limits)
        updates = [self.update(inner, v, grow) for v, grow in zip(carried, grows, strict=True)]
        rows = [
            self.copied(inner, v)
            for v in self.rng.sample(inner.own, min(self.rng.randint(0, 2), len(inner.own)))
            if v.fixed
        ]
        if not carried and not rows:
            rows = [self.copied(inner, i)]
        body = helper.make_graph(
            inner.nodes, self.name(),
            [self.info(i), self.info(c), *(self.info(v, open_=not v.fixed) for v in carried)],
            [self.info(v) for v in (go, *updates, *rows)],
        )  # fmt: skip
        outputs = [Known(self.name(), v.dtype, v.shape) for v in carried]
        outputs += [Known(self.name(), v.dtype, (None, *v.shape)) for v in rows]
        start = "" if limits == "trip" else self.truth(g).name
        inputs = ["" if limits == "cond" else trip.name, start, *(v.name for v in initial)]
        g.nodes.append(helper.make_node("Loop", inputs, [v.name for v in outputs], body=body))
        g.own += outputs

    def goes_on(self, g: Graph, i: Known, c: Known, limits: str) -> Known:
        if limits == "trip":
            return self.copied(g, c)
        last = self.number(g, np.array(self.rng.randint(0, 3)))
        comparison = self.add(g, "Less", [i.name, last.name], BOOL, ())
        if self.rng.random() < 0.5:
            comparison = self.add(g, "And", [comparison.name, self.truth(g).name], BOOL, ())
        return comparison

    def update(self, g: Graph, old: Known, grows: bool) -> Known:
        if grows:
            whole = [
                v
                for v in g.own
                if v.dtype == old.dtype and v.fixed and v.shape[1:] == old.shape[1:]
            ]
            more = [v for v in whole if len(v.shape) == len(old.shape)]
            part = self.rng.choice(more) if more else None
            if part is None:
                return self.copied(g, old)
            return self.add(g, "Concat", [old.name, part.name], old.dtype, old.shape, axis=0)
        fits = [v for v in g.own if (v.dtype, v.shape) == (old.dtype, old.shape)]
        new = self.rng.choice(fits[-4:])
        if new.dtype in FLOATS:
            return self.add(g, "Tanh", [new.name], new.dtype, new.shape)
        if new.dtype in WHOLE:
            most = self.number(g, np.array(50, NUMPY[new.dtype]))
            return self.add(g, "Min", [new.name, most.name], new.dtype, new.shape)
        return self.copied(g, new)

    def scan(self, g: Graph, depth: int) -> None:
        x = self.pick(g, test=lambda v: v.fixed and len(v.shape) > 0 and 0 not in v.shape)
        axis = self.rng.randrange(len(x.shape))
        length = x.shape[axis]
        states = [self.pick(g, test=lambda v: v.fixed) for _ in range(self.rng.randint(0, 2))]
        inner = Graph(g.visible)
        carried = [Known(self.name(), v.dtype, v.shape) for v in states]
        row = Known(self.name(), x.dtype, x.shape[:axis] + x.shape[axis + 1 :])
        inner.own += [*carried, row]
        self.fill(inner, depth + 1)
        updates = [self.update(inner, v, False) for v in carried]
        rows = [self.copied(inner, self.rng.choice([v for v in inner.own if v.fixed]))]
        body = helper.make_graph(
            inner.nodes, self.name(), [self.info(v) for v in (*carried, row)],
            [self.info(v) for v in (*updates, *rows)],
        )  # fmt: skip
        place = self.rng.randint(0, len(rows[0].shape))
        out = (*rows[0].shape[:place], length, *rows[0].shape[place:])
        outputs = [Known(self.name(), v.dtype, v.shape) for v in carried]
        outputs.append(Known(self.name(), rows[0].dtype, out))
        sign = len(x.shape) if self.rng.random() < 0.3 else 0
        g.nodes.append(
            helper.make_node(
                "Scan", [*(v.name for v in states), x.name], [v.name for v in outputs], body=body,
                num_scan_inputs=1, scan_input_axes=[axis - sign],
                scan_input_directions=[self.rng.randint(0, 1)],
                scan_output_directions=[self.rng.randint(0, 1)], scan_output_axes=[place],
            )
        )  # fmt: skip
        g.own += outputs

    # --- the model ------------------------------------------------------------------------------

    def model(self) -> tuple[onnx.ModelProto, dict[str, Any]]:
        shapes: list[tuple[int, ...]] = [(), (2,), (3, 2), (2, 3), (1,), (0, 2)]
        inputs, arrays = [], {}
        for _ in range(self.rng.randint(1, 4)):
            dtype, shape = self.rng.choice(DTYPES), self.rng.choice(shapes)
            inputs.append(Known(self.name(), dtype, shape))
            arrays[inputs[-1].name] = self.array(dtype, shape)
        graph = Graph([], list(inputs))
        for _ in range(3):
            self.fill(graph, 0, 2)
        self.loop(graph, 0)
        appended = graph.own[len(inputs) :]
        results = list(
            dict.fromkeys([*self.rng.sample(appended, min(3, len(appended))), appended[-1]])
        )
        proto = helper.make_graph(
            graph.nodes, "random", [self.info(v, open_=True) for v in inputs],
            [self.info(v) for v in results],
        )  # fmt: skip
        opset = [helper.make_opsetid("", self.rng.choice([13, 15, 16, 17, 21]))]
        return helper.make_model(proto, opset_imports=opset, ir_version=8), arrays


def _joined(a: Extents, b: Extents) -> Extents | None:
    """Return the shape of `x + y`, or None if the sum could fail."""
    if not a or not b:
        return a or b
    return a if a == b and None not in a else None


def random_model(seed: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model and its inputs."""
    return GraphBuilder(seed).model()
