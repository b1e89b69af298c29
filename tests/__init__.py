"""Tests, benchmarks and soaks: none of them reads or writes the code cache of the user who runs them."""

import os

os.environ["AFX_CODE_CACHE"] = "0"
