"""Command: ``python -m afx.migrate``."""

from afx.migrate.command import main

if __name__ == "__main__":
    raise SystemExit(main())
