"""Runs: machine code in place of NumPy's plan, from none to linked."""
