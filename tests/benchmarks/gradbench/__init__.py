"""The twelve evals of gradbench: their programs in afx and, with the same lines, in jax; own inputs of their laws and sizes.

=============  ==================================================================================================
`kit`          what a program needs of a library, and a descent by gradients in any mode
`evals`        the programs, each from the input that gradbench sends to what it is answered
`by_hand`      nine of them by hand in C
`inputs`       inputs drawn here, and those of a folder of gradbench's own files
`__main__`     afx as a tool of gradbench: ``python -m tests.benchmarks.gradbench``
=============  ==================================================================================================
"""

from __future__ import annotations

from functools import partial

from tests.benchmarks.c_library import C
from tests.benchmarks.gradbench import by_hand
from tests.benchmarks.gradbench.evals import BOTH, EVALS
from tests.benchmarks.gradbench.inputs import SIZES, draw
from tests.benchmarks.gradbench.kit import Kit
from tests.benchmarks.libraries import Job
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]


def _job(eval_name: str, function: str, size: int, library: str) -> Job:
    """Return a function of an eval on its input of a size, as a job of a library."""
    run = EVALS[eval_name]
    operands, fixed = run.read(draw(eval_name, size))
    if library == C:
        return by_hand.make_job(eval_name, function != run.names[0], operands, fixed)
    kit = Kit(library)
    call = kit.compile(run.functions(kit, **fixed)[function], run.has_long_loops)
    values = kit.arrays(operands)
    return Job(lambda: kit.wait(call(*values)))


def _libraries(eval_name: str, function: str) -> tuple[str, ...]:
    """Return who has a function; jax has a derivative forward of a loop that a condition ends."""
    libraries = BOTH if function == "ff" else EVALS[eval_name].libraries
    return (*libraries, *[C] * (eval_name in by_hand.EVALS))


def _workloads() -> dict[str, Workload]:
    work = [
        Workload(
            f"{name}, {function}, {text}",
            partial(_job, name, function, size),
            _libraries(name, function),
            tolerance=1e-8,
        )
        for name, run in EVALS.items()
        for function in run.names
        for size, text in enumerate(SIZES[name])
    ]
    return {w.name: w for w in work}


WORKLOADS = _workloads()
