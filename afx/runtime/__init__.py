"""How a program runs: graphs are simplified, planned and executed."""
