"""Models for which modeci_mdf's engine differs from other engines, as YAML of one graph."""

PAIR = """
nodes:
    A:
        parameters: {n: {value: n + 1}}
        output_ports: {y: {value: n}}
    B:
        input_ports: {x: {}}
        output_ports: {y: {value: x * 10}}
edges:
    e: {sender: A, receiver: B, sender_port: y, receiver_port: x}
"""

TWO_SENDERS = """
nodes:
    A: {parameters: {p: {value: 2}}, output_ports: {y: {value: p}}}
    B: {parameters: {p: {value: 5}}, output_ports: {y: {value: p}}}
    C: {input_ports: {x: {}}, output_ports: {y: {value: x}}}
edges:
    b: {sender: B, receiver: C, sender_port: y, receiver_port: x}
    a: {sender: A, receiver: C, sender_port: y, receiver_port: x}
"""

CIRCLE = """
nodes:
    A: {input_ports: {a: {default_value: 0}}, output_ports: {o: {value: a + 1}}}
    B: {input_ports: {b: {default_value: 100}}, output_ports: {o: {value: 2 * b}}}
edges:
    ab: {sender: A, receiver: B, sender_port: o, receiver_port: b}
    ba: {sender: B, receiver: A, sender_port: o, receiver_port: a}
"""

SUM = """
nodes:
    A: {parameters: {p: {value: [1.0, 2.0]}}, output_ports: {y: {value: p}}}
    B: {parameters: {p: {value: [10.0, 20.0]}}, output_ports: {y: {value: p}}}
    C: {input_ports: {x: {reduce: add, shape: [2]}}, output_ports: {y: {value: x}}}
edges:
    a: {sender: A, receiver: C, sender_port: y, receiver_port: x}
    b: {sender: B, receiver: C, sender_port: y, receiver_port: x}
"""
