"""Other processors: ``python -m tests.platforms`` runs portable programs on each kind that this machine has or can play."""
