"""ONNX: a traced graph as a model for other runtimes, by one table of templates over ONNX's operators.

=================  ===========================================================================================
`to_onnx`          traces, merges the traces of several lengths of dynamic axes, and writes the model
`dims`             lengths that are polynomials of the dynamic axes
`writer`, `value`  nodes, initializers and graphs within graphs; arithmetic that writes nodes
`elementwise` …    the templates, by family
=================  ===========================================================================================
"""
