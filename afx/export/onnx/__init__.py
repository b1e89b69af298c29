"""ONNX: a traced graph as a model for other runtimes, by one table of templates, and models of others as functions.

=================  ===========================================================================================
`to_onnx`          traces, merges the traces of several lengths of dynamic axes, and writes the model
`from_onnx`        what each operator is in afx, and a walk over a model's nodes
`dims`             lengths that are polynomials of the dynamic axes
`writer`, `value`  nodes, initializers and graphs within graphs; arithmetic that writes nodes
`elementwise` …    the templates, by family
=================  ===========================================================================================
"""
