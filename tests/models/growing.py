"""Models whose shapes grow in their loops, and one that records rows of every rank."""

GROWING = """
nodes:
  grower:
    input_ports: {n: {type: int}, x: {default_value: [1.0, 2.0]}}
    functions:
      grow:
        function: onnx::Loop
        args:
          M: n
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, c, v], outputs: [c, w]}
              nodes:
                double:
                  input_ports: {v: {}}
                  functions: {w: {function: "onnx::STEP"}}
                  output_ports: {w: {value: w}}
    output_ports: {x: {value: grow}}
"""


CONCAT = GROWING.replace(
    '{function: "onnx::STEP"}', '{function: "onnx::Concat", args: {a: v, b: v, axis: 0}}'
)


RANK = GROWING.replace(
    '{function: "onnx::STEP"}', '{function: "onnx::Unsqueeze", args: {data: v, axes: [1]}}'
)

RANKS = """
nodes:
  recorder:
    input_ports:
      n: {type: int}
      vector: {default_value: [1.0, 2.0]}
      table: {default_value: [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}
      block: {default_value: [[[7.0]]]}
    functions:
      record:
        function: onnx::Loop
        args:
          M: n
          body:
            b:
              metadata: {inputs: [i, go], outputs: [go, rank0, rank1, rank2, rank3]}
              nodes:
                show:
                  input_ports: {i: {}, vector: {}, table: {}, block: {}}
                  output_ports:
                    rank0: {value: i * 1.5}
                    rank1: {value: i * vector}
                    rank2: {value: i + table}
                    rank3: {value: block - i}
    output_ports:
      rank0: {value: "record[0]"}
      rank1: {value: "record[1]"}
      rank2: {value: "record[2]"}
      rank3: {value: "record[3]"}
"""


GROWING_ROW = """
nodes:
  grower:
    input_ports: {n: {type: int}, x: {default_value: [1.0]}}
    functions:
      grow:
        function: onnx::Loop
        args:
          M: n
          v_initial: x
          body:
            b:
              metadata: {shapes: dynamic, inputs: [i, c, v], outputs: [c, longer, longer]}
              nodes:
                twice:
                  input_ports: {v: {}}
                  functions: {w: {function: "onnx::Concat", args: {a: v, b: v, axis: 0}}}
                  output_ports: {longer: {value: w}}
    output_ports: {x: {value: "grow[0]"}, xs: {value: "grow[1]"}}
"""
