"""What a program is: abstract values, primitives, graphs, arrays and traces. Knows no op by import."""
