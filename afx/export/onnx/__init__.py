"""ONNX: a traced graph as a model for other runtimes, by one table of templates, and models of others as functions.

=================  ===========================================================================================
`to_onnx`          traces, merges the traces of several lengths of dynamic axes, and writes the model
`writer`           nodes, initializers and graphs within graphs; arithmetic that writes nodes
`elementwise` …    the templates, by family: `arrays`, `loops`
`from_onnx`        a walk over a model's nodes, and over what they stand for
`nodes`            how files and nodes are read, and the table of operators
`operators`        what each operator of arrays is in afx, and `layers` each one of networks
=================  ===========================================================================================
"""
