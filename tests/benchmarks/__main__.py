"""Run every benchmark and print its table."""

from tests.benchmarks import eager, importing

eager.main()
importing.main()
