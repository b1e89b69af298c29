"""Control flow: loops and branches that compile, each one op in a graph."""
