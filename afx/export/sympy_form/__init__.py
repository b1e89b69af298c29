"""SymPy form: a traced function of few numbers as expressions, to be read, printed as LaTeX and calculated with."""
