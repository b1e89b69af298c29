"""The demonstrations: ``python -m examples`` runs all of them, ``python -m examples catenary`` one."""
