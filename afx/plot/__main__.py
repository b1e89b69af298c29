"""Command: ``python -m afx.plot``."""

import sys

from afx.plot.command_line import main

if __name__ == "__main__":
    sys.exit(main())
