"""NumPy back end: prints and executes a plan of NumPy calls."""
