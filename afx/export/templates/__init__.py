"""Templates: a traced graph as a text, or a file, of another language, by one table of templates a language.

A `table.Table` tells how each primitive is written, `walk.Walk` goes through a graph in order and gives each value a
readable name, and refuses what has no template before anything is written. `formulas` stand for the elementwise operations that a
language lacks.
"""
