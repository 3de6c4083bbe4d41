"""Invalid models and files of every kind raise one clear error with a message, a place and a hint.

No other exception, no hang and no number is accepted. Every row of the table runs in Python and on the
command line.
"""

import contextlib
import json
import re
import signal
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

import mdf_loop
from mdf_loop import errors
from mdf_loop.cli import cli

VALID = """
nodes:
  source: {parameters: {level: {value: 2.0}}, output_ports: {level: {value: level}}}
  cell:
    input_ports: {level: {}, x: {default_value: 1.0}, n: {default_value: 3, type: int}}
    parameters: {gain: {value: 0.5}}
    functions:
      grow:
        function: onnx::Loop
        args:
          M: n
          cond: true
          v_initial: x
          body:
            step:
              metadata: {inputs: [i, go, v], outputs: [below, w, w]}
              nodes:
                update:
                  input_ports: {v: {}, gain: {}}
                  parameters: {w: {value: v + gain}}
                  output_ports: {w: {value: w}, below: {value: w < 100}}
      scaled: {function: linear, args: {variable0: level, slope: gain, intercept: 0}}
    output_ports: {x: {value: "grow[0]"}, xs: {value: "grow[1]"}, scaled: {value: scaled}}
edges:
  e: {sender: source, sender_port: level, receiver: cell, receiver_port: level}
"""
BODY = VALID[VALID.index("          body:") : VALID.index("      scaled:")]
GRAPH = VALID[VALID.index("            step:") : VALID.index("      scaled:")]
IN_LOOP = r"at \$\.graphs\[0\]\.nodes\['cell'\]\.functions\['grow'\]"
IN_BODY = IN_LOOP + r"\.args\.body\.nodes\['update'\]"
IN_CELL = r"at \$\.graphs\[0\]\.nodes\['cell'\]"


@dataclass
class Broken:
    """Replacements in the valid model (old, new, ...), with the expected error class and message."""

    change: tuple[str, ...]
    error: str
    pieces: list[str]
    inputs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        text = VALID
        for old, new in zip(self.change[::2], self.change[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        return text


TABLE = {
    # --- the document
    "no nodes": Broken(
        (VALID, "nodes: 5\n"),
        "ModelError",
        ["'nodes' is a number, 5", r"at \$\.graphs\[0\]\.nodes"],
    ),
    "a word that MDF does not have": Broken(
        ("input_ports: {level: {}", "input_port: {level: {}"),
        "ModelError",
        ["the node 'cell' has the key 'input_port', which nothing reads", "mean 'input_ports'?"],
    ),
    # --- edges
    "an edge from an unknown node": Broken(
        ("sender: source", "sender: sourse"),
        "UnknownNameError",
        ["the edge's sender 'sourse' is not a node", r"edges\['e'\]", "did you mean 'source'"],
    ),
    "an edge from an unknown port": Broken(
        ("sender_port: level", "sender_port: levels"),
        "UnknownNameError",
        ["'source' has no output port 'levels'", r"edges\['e'\]", "did you mean 'level'"],
    ),
    "an edge to an unknown port": Broken(
        ("receiver_port: level", "receiver_port: lvel"),
        "UnknownNameError",
        ["'cell' has no input port 'lvel'", "did you mean 'level'"],
    ),
    "an edge to an unknown node": Broken(
        ("receiver: cell", "receiver: sell"), "UnknownNameError", ["receiver 'sell'", "'cell'"]
    ),
    "an edge weight that is text": Broken(
        ("receiver_port: level}", "receiver_port: level, parameters: {weight: gain}}"),
        "ModelError",
        ["an edge weight is a number", r"edges\['e'\]\.parameters\.weight"],
    ),
    "an unknown way to reduce": Broken(
        ("{level: {}, x:", "{level: {reduce: average}, x:"),
        "ModelError",
        ["unknown reduce mode 'average'", "'overwrite', 'add' or 'multiply'"],
    ),
    # --- names and expressions
    "an unknown function": Broken(
        ("function: linear", "function: liner"),
        "UnknownFunctionError",
        ["'liner'", IN_CELL + r"\.functions\['scaled'\]", "did you mean 'linear'"],
    ),
    "an unknown onnx function": Broken(
        ("function: linear", "function: onnx::Lineer"),
        "UnknownFunctionError",
        ["'Lineer'", IN_CELL],
    ),
    "an unknown name": Broken(
        ("{w: {value: v + gain}}", "{w: {value: v + gian}}"),
        "UnknownNameError",
        ["unknown name 'gian'", "in 'v \\+ gian'", IN_BODY, "did you mean 'gain'"],
    ),
    "an unknown function in an expression": Broken(
        ("{w: {value: v + gain}}", "{w: {value: numpy.expp(v)}}"),
        "UnknownFunctionError",
        ["numpy.expp", IN_BODY, "numpy.exp"],
    ),
    "an expression that cannot be read": Broken(
        ("{w: {value: v + gain}}", "{w: {value: 'v + * gain'}}"),
        "ExpressionError",
        ["cannot read the expression 'v \\+ \\* gain'", IN_BODY],
    ),
    "an expression without end": Broken(
        ("{w: {value: v + gain}}", "{w: {value: '(v + gain'}}"), "ExpressionError", ["cannot read"]
    ),
    "code instead of an expression": Broken(
        ("{w: {value: v + gain}}", '{w: {value: \'__import__("os").system("true")\'}}'),
        "LoopError",
        ["__import__", IN_BODY],
    ),
    "a lambda": Broken(
        ("{w: {value: v + gain}}", "{w: {value: '(lambda: v)()'}}"), "LoopError", ["ambda", IN_BODY]
    ),
    "a list comprehension": Broken(
        ("{w: {value: v + gain}}", "{w: {value: '[v for i in range(3)]'}}"),
        "ExpressionError",
        ["ListComp|comprehension", IN_BODY],
    ),
    "an attribute of a value": Broken(
        ("{w: {value: v + gain}}", "{w: {value: v.__class__}}"), "LoopError", ["__class__", IN_BODY]
    ),
    "text in arithmetic": Broken(
        ("{w: {value: v + gain}}", "{w: {value: 'v + \"a\"'}}"), "LoopError", ["'a'", IN_BODY]
    ),
    "an expression nested too deeply": Broken(
        ("{w: {value: v + gain}}", "{w: {value: '" + "(" * 1000 + "v" + ")" * 1000 + "'}}"),
        "ExpressionError",
        ["cannot read the expression", IN_BODY],
    ),
    "an expression of a thousand signs": Broken(
        ("{w: {value: v + gain}}", "{w: {value: '" + "-" * 5000 + "v'}}"),
        "ExpressionError",
        ["'---.*nested too deeply", IN_BODY, "hint: split it"],
    ),
    "a sum of five thousand parts": Broken(
        ("{w: {value: v + gain}}", "{w: {value: '" + "v + " * 5000 + "v'}}"),
        "ExpressionError",
        ["'v \\+ v.*nested too deeply", IN_BODY, "hint: split it"],
    ),
    "a subscript out of range": Broken(
        ("intercept: 0}}", "intercept: 'numpy.array([1, 2])[5]'}}"), "LoopError", ["5", IN_CELL]
    ),
    "a result out of range": Broken(
        ('"grow[1]"', '"grow[2]"'),
        "ArityError",
        ["result 2 does not exist: there are 2 results", r"output_ports\['xs'\]"],
    ),
    "a division by zero in constants": Broken(
        ("gain: {value: 0.5}", "gain: {value: 1 / 0}"),
        "ExpressionError",
        ["division by zero", IN_CELL],
    ),
    "a number that is too large": Broken(
        ("gain: {value: 0.5}", "gain: {value: 123456789012345678901234567890}"),
        "LoopError",
        ["123456789012345678901234567890|64 bits|too large", IN_CELL],
    ),
    "a power that is too large": Broken(
        ("gain: {value: 0.5}", "gain: {value: 10 ** 400}"),
        "LoopError",
        ["too large|64 bits", IN_CELL],
    ),
    "a power that would take for ever": Broken(
        ("gain: {value: 0.5}", "gain: {value: 9 ** 9 ** 9}"),
        "LoopError",
        ["too large|64 bits", IN_CELL],
    ),
    "a ragged list": Broken(
        ("gain: {value: 0.5}", "gain: {value: [[1, 2], [3]]}"),
        "LoopError",
        ["ragged|lengths", IN_CELL],
    ),
    "a list of numbers and texts": Broken(
        ("gain: {value: 0.5}", "gain: {value: [1, abc]}"), "LoopError", ["'abc'", IN_CELL]
    ),
    "a parameter without value": Broken(
        ("gain: {value: 0.5}", "gain: {}"),
        "ExpressionError",
        ["parameter 'gain' has no value", IN_CELL],
    ),
    "parameters in a circle": Broken(
        ("gain: {value: 0.5}", "gain: {value: other}, other: {value: gain}"),
        "CycleError",
        ["need each other: gain -> other -> gain|other -> gain -> other", IN_CELL],
    ),
    "shapes that do not fit": Broken(
        ("gain: {value: 0.5}", "gain: {value: [1.0, 2.0, 3.0]}"),
        "LoopError",
        [r"\[2\]", r"\[3\]", IN_BODY],
        {"x": [1.0, 2.0]},
    ),
    # --- functions
    "a missing argument": Broken(
        ("slope: gain, ", ""),
        "OperandError",
        ["'linear' needs the argument 'slope'", "hint: add 'slope'"],
    ),
    "a missing onnx input": Broken(
        (
            "{function: linear, args: {variable0: level, slope: gain, intercept: 0}}",
            "{function: 'onnx::Add', args: {A: level}}",
        ),
        "OperandError",
        ["onnx::Add needs the argument 'B'", IN_CELL],
    ),
    "an unknown onnx argument": Broken(
        (
            "{function: linear, args: {variable0: level, slope: gain, intercept: 0}}",
            "{function: 'onnx::Add', args: {A: level, b: gain}}",
        ),
        "OperandError",
        ["onnx::Add", "'b'", "'B'"],
    ),
    "an onnx attribute that is not whole": Broken(
        (
            "{function: linear, args: {variable0: level, slope: gain, intercept: 0}}",
            "{function: 'onnx::Softmax', args: {input: '[[1.0]]', axis: 0.5}}",
        ),
        "OperandError",
        ["attribute 'axis' of onnx::Softmax is a whole number, not 0.5"],
    ),
    "an onnx attribute known only at run time": Broken(
        (
            "{function: linear, args: {variable0: level, slope: gain, intercept: 0}}",
            "{function: 'onnx::Softmax', args: {input: '[[1.0]]', axis: n}}",
        ),
        "OperandError",
        ["attribute 'axis' of onnx::Softmax must be known", IN_CELL],
    ),
    "an onnx function that needs a dtype": Broken(
        (
            "{function: linear, args: {variable0: level, slope: gain, intercept: 0}}",
            "{function: 'onnx::And', args: {A: level, B: gain}}",
        ),
        "OperandError",
        ["onnx::And", IN_CELL],
    ),
    "an ACT-R function": Broken(
        (
            "{function: linear, args: {variable0: level, slope: gain, intercept: 0}}",
            "{function: retrieve_chunk, args: {chunk: level}}",
        ),
        "LoopError",
        ["retrieve_chunk", IN_CELL],
    ),
    "random numbers in an expression": Broken(
        ("gain: {value: 0.5}", "gain: {value: 'random.vonmisesvariate(0.0, 1.0)'}"),
        "UnsupportedError",
        ["random.vonmisesvariate", IN_CELL],
    ),
    "a condition of the scheduler": Broken(
        (
            "edges:\n",
            "conditions: {node_specific: {cell: {type: EveryNCalls, kwargs: {dependencies: sauce, n: 2}}}}\nedges:\n",
        ),
        "UnknownNameError",
        [
            "EveryNCalls",
            "'sauce'",
            r"at \$\.graphs\[0\]\.conditions\.node_specific\['cell'\]",
            "did you mean 'source'",
        ],
    ),
    "a termination of the scheduler": Broken(
        (
            "edges:\n",
            "conditions: {termination: {environment_state_update: {type: WhenFinished, kwargs: {dependency: cell}}}}\nedges:\n",
        ),
        "UnsupportedError",
        ["WhenFinished", "a Threshold", r"\.conditions\.termination", "engine='modeci'"],
    ),
    # --- the loop's arguments
    "no body": Broken((BODY, ""), "ModelError", ["has no body", IN_LOOP, "hint: add 'body'"]),
    "an empty body": Broken((GRAPH, "            {}\n"), "ModelError", ["graph", IN_LOOP]),
    "a body that is a number": Broken(
        (BODY, "          body: 5\n"), "ModelError", ["a loop body is a graph, not int", IN_LOOP]
    ),
    "a body that is a list": Broken(
        (BODY, "          body: [step]\n"),
        "ModelError",
        ["a loop body is a graph, not list", IN_LOOP],
    ),
    "a body that does not exist": Broken(
        (BODY, "          body: stepp\n"),
        "ModelError",
        ["'stepp' is not a graph of the model", IN_LOOP],
    ),
    "a body without nodes": Broken(
        (GRAPH, "            step: {metadata: {inputs: [i, go, v], outputs: [go, v]}}\n"),
        "ModelError",
        ["the graph 'step' has no nodes", IN_LOOP],
    ),
    "a body with a word that MDF does not have": Broken(
        ("output_ports: {w: {value: w}, below", "outputs: {w: {value: w}, below"),
        "ModelError",
        ["has the key 'outputs', which nothing reads", "mean 'output_ports'?", IN_LOOP],
    ),
    "a body that contains itself": Broken(
        (BODY, "          body: {graph: graph}\n"),
        "LoopError",
        ["whose body is 'graph' again", "a body cannot contain itself"],
    ),
    "neither trip count nor condition": Broken(
        ("M: n\n          cond: true\n", "M: ''\n"),
        "EndlessLoopError",
        ["neither a trip count", "would never end", IN_LOOP, "max_iterations"],
    ),
    "a condition that is always true": Broken(
        ("M: n\n          cond: true\n", "cond: true\n", "[below, w, w]", "[go, w, w]"),
        "EndlessLoopError",
        ["no trip count, and its condition is always true", IN_LOOP, "max_iterations"],
    ),
    "a trip count with a fraction": Broken(
        ("M: n", "M: 2.5"),
        "TripCountError",
        ["must be a whole number, not 2.5", IN_LOOP, "hint: round"],
    ),
    "a trip count that is a list": Broken(
        ("M: n", "M: [1, 2]"), "TripCountError", ["must be one whole number, not", IN_LOOP]
    ),
    "a trip count that is text": Broken(
        ("M: n", "M: many"), "UnknownNameError", ["unknown name 'many'", IN_LOOP + r"\.args\.M"]
    ),
    "a trip count that is a truth value": Broken(
        ("M: n", "M: true"), "TripCountError", ["must be one whole number, not bool", IN_LOOP]
    ),
    "a trip count that is not a number": Broken(
        ("M: n", "M: .nan"), "TripCountError", ["must be a whole number, not nan", IN_LOOP]
    ),
    "a trip count that is infinite": Broken(
        ("M: n", "M: .inf"), "TripCountError", ["must be a whole number, not inf", IN_LOOP]
    ),
    "a trip count that is too large": Broken(
        ("M: n", "M: 1.0e+30"), "TripCountError", ["1e\\+30", IN_LOOP]
    ),
    "a trip count that is a graph": Broken(
        ("M: n", "M: {a: 1}"), "LoopError", [IN_LOOP + r"\.args\.M"]
    ),
    "a condition of several elements": Broken(
        ("cond: true", "cond: '[True, False]'"),
        "ConditionError",
        ["must be one truth value", IN_LOOP],
    ),
    "a condition that is text": Broken(
        ("cond: true", "cond: yess"),
        "UnknownNameError",
        ["unknown name 'yess'", IN_LOOP + r"\.args\.cond"],
    ),
    "an unknown initial value": Broken(
        ("v_initial: x", "v_initial: y"), "UnknownNameError", ["unknown name 'y'", IN_LOOP]
    ),
    "a ragged initial value": Broken(
        ("v_initial: x", "v_initial: [[1], [2, 3]]"), "LoopError", ["ragged|lengths", IN_LOOP]
    ),
    "initial values by wrong names": Broken(
        ("v_initial: x", "v_initial: {u: x}"),
        "ArityError",
        [r"v_initial names \['u'\], but the body carries \['v'\]", IN_LOOP],
    ),
    "initial values by name and by number": Broken(
        ("v_initial: x", "v_initial: {v: x}\n          arg_1: x"),
        "ModelError",
        ["cannot be mixed", IN_LOOP],
    ),
    "an argument that YAML took apart": Broken(
        (
            VALID[VALID.index("        args:") : VALID.index("            step:")],
            "        args:\n          {M: n, v_initial: (x, x), body: {step: {nodes: {}}}}\n",
            GRAPH,
            "",
        ),
        "LoopError",
        [r"v_initial is cut off: \(x", IN_LOOP, "YAML wants quotes"],
    ),
    "an argument without value": Broken(
        ("v_initial: x\n", "v_initial: x\n          gain:\n"),
        "ExpressionError",
        ["the loop's argument 'gain' has no value", IN_LOOP + r"\.args\.gain"],
    ),
    # --- the body's signature
    "too few body inputs": Broken(
        ("inputs: [i, go, v]", "inputs: [i, v]"),
        "ArityError",
        [r"needs 2 \+ 1 inputs", r"names 2: \['i', 'v'\]", IN_LOOP],
    ),
    "too many body inputs": Broken(
        ("inputs: [i, go, v]", "inputs: [i, go, v, u]"),
        "ArityError",
        [r"needs 2 \+ 1 inputs", "names 4"],
    ),
    "too few body outputs": Broken(
        ("outputs: [below, w, w]", "outputs: [w]"),
        "ArityError",
        [r"at least 1 \+ 1 outputs", "but it has 1: ", "the first output is the condition"],
    ),
    "no body outputs": Broken(
        ("outputs: [below, w, w]", "outputs: []"), "ArityError", ["condition", IN_LOOP]
    ),
    "a body input named twice": Broken(
        ("inputs: [i, go, v]", "inputs: [i, v, v]"), "SignatureError", ["name 'v' twice", IN_LOOP]
    ),
    "body inputs that are no names": Broken(
        ("inputs: [i, go, v]", "inputs: [1, 2, 3]"),
        "SignatureError",
        [r"list of names, not \[1, 2, 3\]"],
    ),
    "a body input that YAML took for a truth value": Broken(
        ("inputs: [i, go, v]", "inputs: [i, on, v]"),
        "SignatureError",
        ["on, off, yes and no", "quotes"],
    ),
    "a body output that does not exist": Broken(
        ("outputs: [below, w, w]", "outputs: [below, ww, w]"),
        "UnknownNameError",
        ["no output port 'ww'", IN_LOOP, "did you mean 'w'"],
    ),
    "a body output that could be two": Broken(
        (
            "              nodes:\n                update",
            "              nodes:\n                other: {output_ports: {w: {value: 1.0}}}\n                update",
        ),
        "ScopeError",
        ["'w' of the body of the loop could be 'other.w', 'update.w'", "write node.port"],
    ),
    "a body port bound to nothing": Broken(
        ("input_ports: {v: {}, gain: {}}", "input_ports: {v: {}, gian: {}}"),
        "LoopError",
        [
            "input port 'gian' of node 'update' in the body of the loop is bound to nothing",
            IN_BODY,
            "did you mean 'gain'",
        ],
    ),
    "a body value used outside": Broken(
        ('x: {value: "grow[0]"}', "x: {value: w}"),
        "UnknownNameError",
        ["unknown name 'w'", r"output_ports\['x'\]"],
    ),
    "a circle in the body": Broken(
        (
            "                  output_ports: {w: {value: w}, below: {value: w < 100}}\n",
            "                  output_ports: {w: {value: w}, below: {value: w < 100}}\n"
            "              edges: {e: {sender: update, sender_port: w, receiver: update, receiver_port: gain}}\n",
        ),
        "CycleError",
        ["'update'", IN_LOOP, "default_value"],
    ),
    "a body's condition that is a number": Broken(
        ("below: {value: w < 100}", "below: {value: 100 - w}"),
        "ConditionError",
        ["the body's condition 'below' must be a truth value, not float64", IN_LOOP, "compare"],
    ),
    "a body's condition of several elements": Broken(
        ("below: {value: w < 100}", "below: {value: 'numpy.array([w, w]) < 100'}"),
        "ConditionError",
        [r"'below' must be one truth value, not bool\[2\]", "numpy.max"],
    ),
    # --- carried and recorded values
    "a carried value that changes its dtype": Broken(
        ("v_initial: x", "v_initial: 6"),
        "CarryTypeError",
        [r"'v': int64\[\] becomes 'w': float64\[\]", IN_LOOP, "6.0"],
    ),
    "a carried value that changes its shape": Broken(
        (
            "{w: {value: v + gain}}",
            "{w: {value: 'numpy.array([v, v])'}}",
            "{value: w < 100}",
            "{value: numpy.max(w) < 100}",
        ),
        "CarryShapeError",
        [r"'v': float64\[\] becomes 'w': float64\[2\]", IN_LOOP, "shapes: dynamic"],
    ),
    "a recorded value that changes its shape": Broken(
        (
            "{w: {value: v + gain}}",
            "{w: {value: 'numpy.concatenate([v, v])'}}",
            "{value: w < 100}",
            "{value: numpy.max(w) < 100}",
        ),
        "RecordShapeError",
        [r"'w' has shape \[2\] at first, but \[4\]", IN_LOOP],
        {"x": [1.0]},
        {"shapes": "dynamic"},
    ),
    # --- inputs and outputs
    "an input of another name": Broken(
        ("M: n", "M: n"), "InputError", ["no input 'nn'", "did you mean 'n'"], {"nn": 3}
    ),
    "an input that an edge feeds": Broken(
        ("M: n", "M: n"), "InputError", ["fed by the edge 'e'"], {"level": 3.0}
    ),
    "an input with a fraction": Broken(
        ("M: n", "M: n"), "InputError", ["'n' must be int64, but 2.5 is not"], {"n": 2.5}
    ),
    "an input that is text": Broken(
        ("M: n", "M: n"), "InputError", ["'n' must be a number"], {"n": "three"}
    ),
    "a ragged input": Broken(
        ("M: n", "M: n"), "InputError", ["'x' is ragged"], {"x": [[1.0], [2.0, 3.0]]}
    ),
    "an input that is too large": Broken(
        ("M: n", "M: n"), "InputError", ["'n' does not fit into 64 bits"], {"n": 2**70}
    ),
    "an input of the wrong shape": Broken(
        ("M: n", "M: n"),
        "TripCountError",
        ["must be one whole number, not int64\\[2\\]"],
        {"n": [1, 2]},
    ),
    "a nothing as input": Broken(
        ("M: n", "M: n"), "InputError", ["'x' must be a number"], {"x": None}
    ),
    "an output that does not exist": Broken(
        ("nodes:\n  source", "metadata: {outputs: [cell.y]}\nnodes:\n  source"),
        "UnknownNameError",
        ["no output 'cell.y'", "cell.x"],
    ),
    "an output that is several results": Broken(
        ('x: {value: "grow[0]"}', "x: {value: grow}"),
        "ArityError",
        ["'cell.x' is 2 results, an output is one", r"loop\[0\]"],
    ),
    "a default that is text": Broken(
        ("x: {default_value: 1.0}", "x: {default_value: one}"),
        "ModelError",
        ["default_value of port 'x' must be a number .*, not 'one'", r"input_ports\['x'\]"],
    ),
    "a ragged default": Broken(
        ("x: {default_value: 1.0}", "x: {default_value: [[1.0], [2.0, 3.0]]}"),
        "LoopError",
        ["ragged|lengths"],
    ),
    "a shape that is no shape": Broken(
        ("x: {default_value: 1.0}", "x: {shape: [two]}"), "ModelError", ["'two'"]
    ),
    "a default with a fraction": Broken(
        ("{default_value: 3, type: int}", "{default_value: 2.5, type: int}"),
        "ModelError",
        ["default_value of port 'n' must be int64, but 2.5 is not"],
    ),
    "an open shape without a value": Broken(
        ("x: {default_value: 1.0}", "x: {shape: [-1, 2]}"),
        "InputError",
        [r"the input 'x' must be given: its shape \[-1, 2\] is open"],
    ),
    "an option that does not exist": Broken(
        ("M: n", "M: n"),
        "InputError",
        ["shapes cannot be 'loose'", "strict or dynamic"],
        {},
        {"shapes": "loose"},
    ),
    "a negative bound": Broken(
        ("M: n", "M: n"),
        "InputError",
        ["max_iterations must not be negative"],
        {},
        {"max_iterations": -1},
    ),
    # --- errors at run time
    "a whole division by zero": Broken(
        ("intercept: 0}}", "intercept: '7 // (n - 3)'}}"), "RunError", ["divided by zero", IN_CELL]
    ),
    "a subscript known only at run time": Broken(
        ("intercept: 0}}", "intercept: 'numpy.array([1.0, 2.0])[n]'}}"),
        "RunError",
        ["subscript is outside", IN_CELL],
    ),
    "a trip count known only at run time": Broken(
        ("{default_value: 3, type: int}", "{default_value: 2.5}"),
        "RunError",
        ["trip count of 'grow' must be a whole number", IN_LOOP],
    ),
}


@pytest.fixture(autouse=True)
def _no_hang():
    """Raise TimeoutError if a test takes more than 20 seconds."""

    def give_up(*_):
        raise TimeoutError("it hangs")

    old_handler = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old_handler)


def document(text):
    """Return the document of a YAML text, which must be valid YAML."""
    content = yaml.safe_load(text)
    return {"model": {"format": "ModECI MDF v0.4", "graphs": {"graph": content}}}


@pytest.fixture
def path(tmp_path):
    """Return a function `path(text)` that writes the model to a file."""

    def write(text):
        target = tmp_path / "model.yaml"
        target.write_text(yaml.safe_dump(document(text), sort_keys=False), encoding="utf-8")
        return str(target)

    return write


def check_findings(error):
    """Check that every finding has a readable message, a valid place, and no duplicates."""
    assert error.findings
    for finding in error.findings:
        assert finding.kind in dir(errors)
        assert 10 < len(finding.what) < 500
        assert not re.search(r"Traceback|<class|object at 0x|NoneType|\bndarray\b", str(finding))
        assert finding.where == "" or finding.where.startswith("$")
        assert not finding.what.endswith((".", "\n"))
    assert len(set(error.findings)) == len(error.findings)


@pytest.mark.parametrize("name", TABLE)
def test_an_invalid_model_has_one_clear_error(name, path):
    row = TABLE[name]
    with pytest.raises(mdf_loop.LoopError) as caught:
        mdf_loop.compile(path(row.text), device="cpu", **row.options).run(row.inputs)
    check_findings(caught.value)
    text = caught.value.report
    assert row.error in text or row.error == "LoopError"
    for piece in row.pieces:
        assert re.search(piece, text), f"{piece!r} is not in:\n{text}"


@pytest.mark.parametrize("name", TABLE)
def test_the_same_error_on_the_command_line(name, path, tmp_path):
    row = TABLE[name]
    inputs = tmp_path / "inputs.json"
    inputs.write_text(json.dumps(row.inputs), encoding="utf-8")
    arguments = ["run", path(row.text), "--device", "cpu", "--inputs", str(inputs)]
    for key, value in row.options.items():
        arguments += [f"--{key.replace('_', '-')}", str(value)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert row.error in result.output or row.error == "LoopError"


def test_the_valid_model_runs(path):
    results = mdf_loop.compile(path(VALID), device="cpu").run()
    assert results["x"] == 2.5
    assert results["xs"].tolist() == [1.5, 2.0, 2.5]
    assert results["scaled"] == 1.0


# --- files --------------------------------------------------------------------------------------

FILES = {
    # name: (file name, content, expected message)
    "missing": ("gone.yaml", None, "there is no file '.*gone.yaml'"),
    "empty": ("empty.yaml", b"", "'empty.yaml' is not an MDF model"),
    "only a comment": ("comment.yaml", b"# nothing\n", "'comment.yaml' is not an MDF model"),
    "not YAML": ("bad.yaml", b"a: [1, 2\nb: {", "'bad.yaml' is not an MDF model"),
    "not JSON": ("bad.json", b"{'a': ", "'bad.json' is not an MDF model"),
    "a list": ("list.yaml", b"- 1\n- 2\n", "'list.yaml' is not an MDF model"),
    "a number": ("number.json", b"5", "'number.json' is not an MDF model"),
    "binary": ("binary.yaml", bytes(range(256)), "'binary.yaml' is not an MDF model"),
    "not UTF-8": ("latin.json", b'{"m": "\xff\xfe"}', "'latin.json' is not an MDF model"),
    "a wrong suffix": ("model.txt", b"m: {}", "'model.txt' does not end in"),
    "no graphs": ("m.yaml", b"m: {format: ModECI MDF v0.4}", "holds no graph"),
    "an empty list of graphs": ("m.yaml", b"m: {format: x, graphs: {}}", "holds no graph"),
    "another kind of document": ("m.yaml", b"openapi: 3.0\ninfo: {title: x}", "not an MDF model"),
    "a python object": ("m.yaml", b"m: !!python/object/apply:os.system [true]", "not an MDF model"),
    "nested a thousand deep": ("m.json", b'{"m":' * 1000 + b"1" + b"}" * 1000, "MDF model|deep"),
    "nested a hundred thousand deep": ("m.json", b"[" * 100_000, "MDF model|deep"),
    "two models": (
        "m.yaml",
        b"a: {graphs: {}}\nb: {graphs: {}}",
        "has 'b' beside the model 'a', which nothing",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_models(name, tmp_path):
    file_name, content, sentence = FILES[name]
    target = tmp_path / file_name
    if content is not None:
        target.write_bytes(content)
    with pytest.raises(errors.ModelError, match=sentence) as caught:
        mdf_loop.compile(str(target), device="cpu").run()
    check_findings(caught.value)
    for command in ("run", "check"):
        result = CliRunner().invoke(cli, [command, str(target)])
        assert result.exit_code == 2, result.output
        assert result.output.startswith("ModelError: ")


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(errors.ModelError, match="is a folder"):
        mdf_loop.read(str(tmp_path))


@pytest.mark.parametrize("source", [None, 5, [1], b"x", {}, {"a": 5}, {"nodes": 5}, object()])
def test_objects_that_are_no_models(source):
    with pytest.raises(errors.ModelError) as caught:
        mdf_loop.read(source)
    assert "object at 0x" not in str(caught.value)


# --- several errors at once -----------------------------------------------------------------------

FIVE_ERRORS = (
    VALID.replace("sender_port: level", "sender_port: levels")
    .replace("function: linear", "function: liner")
    .replace("v + gain", "v + gian")
    .replace("M: n", "M: 2.5")
    .replace('"grow[1]"', '"grown[1]"')
)


def test_all_errors_of_a_model_at_once(path):
    with pytest.raises(mdf_loop.LoopError) as caught:
        mdf_loop.read(path(FIVE_ERRORS))
    check_findings(caught.value)
    text = str(caught.value)
    for piece in ("'levels'", "'liner'", "not 2.5", "'gian'", "'grown'"):
        assert piece in text
    assert len(caught.value.findings) == 5


def test_all_errors_of_a_body_at_once(path):
    text = (
        VALID.replace("v + gain", "v + gian")
        .replace("w < 100", "w <")
        .replace("outputs: [below, w, w]", "outputs: [below, w, ww]")
    )
    with pytest.raises(mdf_loop.LoopError) as caught:
        mdf_loop.read(path(text))
    check_findings(caught.value)
    for piece in ("'gian'", "'w <'", "'ww'"):
        assert piece in str(caught.value)


def test_an_error_is_reported_once(path):
    """Check that values that depend on a wrong value cause no further errors."""
    text = VALID.replace("v + gain", "v + gian")
    with pytest.raises(errors.UnknownNameError) as caught:
        mdf_loop.read(path(text))
    assert len(caught.value.findings) == 1


# --- cycles of nodes, loops from Python -------------------------------------------------------------


def test_nodes_in_a_cycle(path):
    text = """
    nodes:
      a: {input_ports: {x: {}}, output_ports: {y: {value: x}}}
      b: {input_ports: {x: {}}, output_ports: {y: {value: x}}}
    edges:
      e1: {sender: a, sender_port: y, receiver: b, receiver_port: x}
      e2: {sender: b, sender_port: y, receiver: a, receiver_port: x}
    """
    with pytest.raises(errors.CycleError, match="'a', 'b' wait for each other"):
        mdf_loop.read(path(text))


BODY_GRAPH = yaml.safe_load(GRAPH)

CALLS = {
    "no body": ({"M": 3}, "ModelError", "has no body"),
    "a body that is no graph": (
        {"M": 3, "body": 5},
        "ModelError",
        "a loop body is a graph|a graph is",
    ),
    "neither trip count nor condition": (
        {"v_initial": 1.0, "body": BODY_GRAPH, "gain": 1.0},
        "EndlessLoopError",
        "never end",
    ),
    "no initial value": ({"M": 3, "body": BODY_GRAPH, "gain": 1.0}, "ArityError", r"2 \+ 0 inputs"),
    "a name that is bound to nothing": (
        {"M": 3, "v_initial": 1.0, "body": BODY_GRAPH},
        "ScopeError",
        "'gain' .* bound to nothing",
    ),
    "a trip count that is not whole": (
        {"M": 2.5, "v_initial": 1.0, "body": BODY_GRAPH, "gain": 1.0},
        "LoopError",
        "whole number",
    ),
    "a trip count that is text": (
        {"M": "three", "v_initial": 1.0, "body": BODY_GRAPH, "gain": 1.0},
        "LoopError",
        "M|trip count",
    ),
    "an initial value that is text": (
        {"M": 3, "v_initial": "one", "body": BODY_GRAPH, "gain": 1.0},
        "LoopError",
        "v_initial",
    ),
    "a condition of two elements": (
        {"cond": [True, False], "v_initial": 1.0, "body": BODY_GRAPH, "gain": 1.0},
        "ConditionError",
        "one truth value",
    ),
    "a ragged value": (
        {"M": 3, "v_initial": 1.0, "body": BODY_GRAPH, "gain": [[1.0], [2.0, 3.0]]},
        "LoopError",
        "gain",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_of_loop(name):
    arguments, kind, sentence = CALLS[name]
    with pytest.raises(getattr(errors, kind), match=sentence) as caught:
        mdf_loop.loop(**arguments)
    check_findings(caught.value)


@pytest.mark.parametrize("bound", ["5", 2.5, True, 2**63, np.inf])
def test_invalid_iteration_limits(path, bound):
    text = VALID.replace("M: n\n          cond: true\n", "M: ''\n")
    with pytest.raises(errors.InputError, match="max_iterations must be a whole number"):
        mdf_loop.compile(path(text), device="cpu", max_iterations=bound).run()


def test_unknown_names_of_results(path):
    results = mdf_loop.compile(path(VALID), device="cpu").run()
    with pytest.raises(KeyError, match="no output 'y'; there are "):
        results["y"]


def test_a_model_can_be_used_after_an_error(path):
    compiled = mdf_loop.compile(path(VALID), device="cpu")
    for wrong_inputs in ({"n": 2.5}, {"nn": 1}, {"n": [1, 2]}, {"x": "a"}):
        with contextlib.suppress(mdf_loop.LoopError):
            compiled.run(wrong_inputs)
    assert compiled.run()["x"] == 2.5
