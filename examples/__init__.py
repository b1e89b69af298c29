"""Demonstrations: ``python -m examples`` runs the paper's six, ``python -m examples flow`` one, ``--list`` shows all."""
