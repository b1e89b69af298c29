"""Graph splitting: programs of slots for the equations of one graph, and how they run."""
