"""Run every benchmark and print its table."""

from tests.benchmarks import compiled, eager, importing

eager.main()
compiled.main()
importing.main()
